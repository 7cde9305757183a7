// Starts the page: which view is shown, the list of models, the key, and light or dark.

import { askJson, inWords, isTimeout, onKeyNeeded, onReach, paths, storeKey, storedKey } from "./api.js";
import { CompareView } from "./compare_view.js";
import { byId, h, problem, say } from "./dom.js";
import { LookView } from "./look_view.js";
import { SUGGESTED_ATTENTIONS, latest, listModels } from "./models.js";
import { currentPicture, listenForPictures, takeExample } from "./picture.js";
import { ServerView } from "./server_view.js";

const THEME = "fovea.theme";
const THEMES = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
const VIEWS = { look: "Look", compare: "Compare", server: "Server" };
const has = (table, name) => Object.hasOwn(table, name ?? "");

// How often the list of models is asked for: while some are loaded, or the server is away, and else.
const SOON_MS = 2000;
const LATER_MS = 15000;
const NO_ANSWER_MS = 5000; // after which the server is slow

// Light or dark.

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const [sign, name] = THEMES[theme];
  byId("theme").textContent = sign;
  byId("theme").setAttribute("aria-label", `Colours: ${name}`);
  byId("theme").title = `Colours: ${name}`;
  localStorage.setItem(THEME, theme);
}
byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
});
setTheme(has(THEMES, localStorage.getItem(THEME)) ? localStorage.getItem(THEME) : "auto");

// The key.

function askForKey(why) {
  const dialog = byId("key-dialog");
  byId("key-why").textContent = why ? `${why}.` : "";
  byId("key-input").value = storedKey();
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "use") return resolve(null);
      const key = byId("key-input").value.trim();
      storeKey(key);
      byId("key").hidden = false;
      resolve(key || null);
    }, { once: true });
  });
}
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  byId("key-dialog").close("use");
});
for (const button of document.querySelectorAll("dialog .dismiss")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
byId("key").addEventListener("click", async () => {
  if ((await askForKey("")) !== null) load();
});
byId("key").hidden = !storedKey();
onKeyNeeded(askForKey);

// Views, by the fragment of the address: #look?task=..., #compare?v=..., #server.

let writing = false;
function writeState() {
  if (writing) return;
  const name = shown();
  const state = name === "look" ? look.state() : name === "compare" ? compare.state() : "";
  history.replaceState(null, "", `#${name}${String(state) ? `?${state}` : ""}`);
}
const fragment = () => {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return [has(VIEWS, name) ? name : "look", new URLSearchParams(query)];
};
const shown = () => document.body.dataset.view;

function showView(name) {
  document.body.dataset.view = name;
  for (const view of Object.keys(VIEWS)) {
    byId(view).hidden = view !== name;
    if (view === name) byId(`to-${view}`).setAttribute("aria-current", "page");
    else byId(`to-${view}`).removeAttribute("aria-current");
  }
  document.title = `${VIEWS[name]} · Fovea`;
  server.show(name === "server");
}

async function readState() {
  const [name, state] = fragment();
  writing = true; // what is read is not written back half-way
  showView(name);
  if (name === "look") look.setState(state);
  if (name === "compare") compare.setState(state);
  writing = false;
  const example = state.get("example");
  if (example && example !== currentPicture()?.example) await takeExample(example);
  writeState();
}

const look = new LookView(writeState);
const compare = new CompareView(writeState);
const server = new ServerView();
for (const view of Object.keys(VIEWS)) {
  byId(`to-${view}`).addEventListener("click", (event) => {
    event.preventDefault();
    if (view !== shown()) history.pushState(null, "", `#${view}`); // so that "back" leads back
    showView(view);
    writeState();
    byId(`${view}-title`).focus();
  });
}
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is the view's
  byId("main").focus();
});
window.addEventListener("hashchange", readState);
byId("attentions").append(...SUGGESTED_ATTENTIONS.map((value) => h("option", { value })));
listenForPictures();

// The server.

// `state`: ready (green), waiting (amber), away (red). `more`: in the button's tooltip.
function tell(state, text, more = "") {
  byId("state").dataset.state = state;
  byId("state-text").textContent = text;
  byId("refresh").title = more || "Ask the server again";
}

let listed = ""; // what the views were given last
let started = false; // the server has said what it is
let loading = false;
let next = 0;

// Tells the views of the models, and returns whether all of them are served.
function show(models) {
  const waiting = models.filter((model) => model.state !== "READY");
  const ready = models.length - waiting.length;
  tell(waiting.length === 0 && ready > 0 ? "ready" : "waiting", `${ready} of ${models.length} models ready`,
    waiting.map(({ name, state, reason }) => `${name}: ${reason || state.toLowerCase()}`).join("\n"));
  const now = JSON.stringify(models);
  if (now !== listed) {
    listed = now;
    look.setModels(models, true);
    compare.setModels(models);
    server.setModels(models);
  }
  return waiting.length === 0;
}

// Asks the server what it is and which models it has. `by_itself`: nobody has asked for it, and what goes wrong is told in the
// header alone.
async function load(by_itself = false) {
  clearTimeout(next);
  loading = true;
  const signal = by_itself ? AbortSignal.timeout(NO_ANSWER_MS) : undefined;
  const slow = setTimeout(() => tell("waiting", "slow to answer"), NO_ANSWER_MS);
  let wait_ms = SOON_MS;
  try {
    if (!started || !by_itself) {
      await unlessForbidden(async () => {
        byId("explain-place").firstElementChild.hidden = !(await paths()).has("/v1/explain");
        const { version, extensions } = await askJson("v2", { signal });
        byId("version").textContent = version;
        look.allowExplaining(extensions.includes("experiments"));
      });
      started = true;
    }
    const models = await unlessForbidden(async () => latest(await listModels({ signal, anew: !by_itself })));
    byId("load-problem").replaceChildren();
    if (models === null) {
      // The list belongs to the group `repository`; a model may be named all the same.
      tell("ready", "models are not listed for this key");
      look.setModels([], false);
      wait_ms = Infinity;
    } else {
      if (show(models)) wait_ms = LATER_MS;
      if (models.length === 0) byId("load-problem").replaceChildren(problem({ text: "The server's repository has no model." }));
    }
  } catch (error) {
    if (isTimeout(error)) tell("waiting", "slow to answer");
    else cannot(error, by_itself);
    if (error.status === 401) wait_ms = Infinity; // nobody wants to be asked for a key again and again
  }
  clearTimeout(slow);
  loading = false;
  if (wait_ms < Infinity) later(wait_ms);
}

async function unlessForbidden(act) {
  try {
    return await act();
  } catch (error) {
    if (error.status === 403) return null;
    throw error;
  }
}

function later(delay_ms) {
  clearTimeout(next);
  next = setTimeout(() => (document.hidden ? later(delay_ms) : load(true)), delay_ms);
}

function cannot(error, by_itself) {
  const told = inWords(error);
  tell("away", "not reached");
  if (by_itself) return;
  byId("load-problem").replaceChildren(problem(told,
    h("button", { type: "button", class: "quiet", onclick: () => load() }, "Try again")));
  say(`Error. ${told.text}`);
}

// What any view hears of the server is shown at once.
onReach((reached) => {
  if (loading) return;
  const away = byId("state").dataset.state === "away";
  if (!reached) {
    tell("away", "not reached");
    later(SOON_MS);
  } else if (away) later(0);
});

byId("refresh").addEventListener("click", () => load());
await Promise.all([readState(), load()]);
document.body.dataset.loaded = "true"; // for tests: everything that this page does by itself is done
