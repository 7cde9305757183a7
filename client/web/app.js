// Starts the page: which view is shown, the list of models, the key, and light or dark.

import { askJson, inWords, onKeyNeeded, paths, storeKey, storedKey } from "./api.js";
import { CompareView } from "./compare_view.js";
import { byId, h, say } from "./dom.js";
import { LookView } from "./look_view.js";
import { SUGGESTED_ATTENTIONS, latest, listModels } from "./models.js";
import { currentPicture, listenForPictures, takeExample } from "./picture.js";
import { ServerView } from "./server_view.js";

const THEME = "fovea.theme";
const THEMES = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
const VIEWS = { look: "Look", compare: "Compare", server: "Server" };

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
setTheme(THEMES[localStorage.getItem(THEME)] ? localStorage.getItem(THEME) : "auto");

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
  return [VIEWS[name] ? name : "look", new URLSearchParams(query)];
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

function tell(state, text) {
  byId("state").dataset.state = state;
  byId("state-text").textContent = text;
}

async function load() {
  byId("load-problem").replaceChildren();
  try {
    const available = await paths();
    byId("explain-place").firstElementChild.hidden = !available.has("/v1/explain");
    const { version } = await askJson("v2");
    byId("version").textContent = version;
  } catch (error) {
    if (error.status !== 403) return cannot(error);
  }
  try {
    const models = latest(await listModels());
    const ready = models.filter((model) => model.state === "READY").length;
    tell(ready > 0 ? "ready" : "waiting", `${ready} of ${models.length} models ready`);
    look.setModels(models, true);
    compare.setModels(models);
    if (models.length === 0) cannot(new Error("The server's repository has no model."));
  } catch (error) {
    if (error.status !== 403) return cannot(error);
    // The list belongs to the group `repository`; a model may be named all the same.
    tell("ready", "models are not listed for this key");
    look.setModels([], false);
  }
}

function cannot(error) {
  const { text, token } = inWords(error);
  tell("away", "not reached");
  byId("load-problem").replaceChildren(h("div", { class: "problem" }, h("p", {}, text), h("p", { class: "token" }, token),
    h("button", { type: "button", class: "quiet", onclick: load }, "Try again")));
  say(`Error. ${text}`);
}

byId("refresh").addEventListener("click", load);
await Promise.all([readState(), load()]);
document.body.dataset.loaded = "true"; // for tests: everything that this page does by itself is done
