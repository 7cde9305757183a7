// Elements and words. Text reaches the page as text only: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    } else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") {
      element[name] = value;
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

// h("button", {class: "quiet", onclick: run}, "Run")
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export const byId = (id) => document.getElementById(id);

let lastId = 0;
export const newId = (prefix) => `${prefix}-${++lastId}`;

// Says a sentence to who hears the page.
export function say(text) {
  byId("spoken").textContent = text;
}

// Numbers for people: three digits that count.
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${number(value / 1e9)} G`;
  if (size >= 1e6) return `${number(value / 1e6)} M`;
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size === 0 ? 0 : 3;
  return value.toFixed(digits);
}
export function milliseconds(value) {
  if (!Number.isFinite(value)) return "–";
  if (value >= 1000) return `${number(value / 1000)} s`;
  return value > 0 && value < 0.1 ? `${number(value * 1000)} µs` : `${number(value)} ms`;
}
export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return `${number(value / size)} ${unit}`;
  }
  return `${value} B`;
}
export function percent(share, digits = 1) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)}%` : "–";
}
export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

// A name that fits where there is little room: its beginning and its end, where names of one family differ. Those of `others`
// that would look alike keep more.
export function shortName(name, others = [], most = 28) {
  const cut = (text, length) => (text.length <= length ? text
    : `${text.slice(0, Math.floor((length - 1) / 3))}…${text.slice(text.length - Math.ceil((2 * (length - 1)) / 3))}`);
  let length = most;
  while (length < name.length && others.some((other) => other !== name && cut(other, length) === cut(name, length))) ++length;
  return cut(name, length);
}

const WAITING_MS = 300; // an answer that comes sooner is not announced
const SLOW_MS = 5000;

// Says in `place` that `what` is awaited, for how long, and after a while that this is long; with a button that calls `cancel`.
// Returns a function that ends this. `shown` is called when the text first appears.
export function awaiting(place, what, cancel, shown = () => {}) {
  const began = performance.now();
  const text = h("p", {});
  const note = h("div", { class: "awaiting" }, text, h("button", { type: "button", class: "quiet", onclick: cancel }, "Cancel"));
  let slow = false;
  const tell = () => {
    const past = performance.now() - began;
    if (!note.isConnected) {
      shown();
      place.append(note);
      say(`${what}…`);
    }
    text.textContent = `${what}… ${past < 1000 ? "" : `${Math.floor(past / 1000)} s`}`;
    if (past < SLOW_MS) return;
    text.append(h("br"), "The server takes long: it may be busy, or no longer there.");
    if (!slow) say("The server takes long.");
    slow = true;
  };
  let timer = setTimeout(function next() {
    tell();
    timer = setTimeout(next, 1000);
  }, WAITING_MS);
  return () => {
    clearTimeout(timer);
    note.remove();
  };
}

// An error beside what it is about: a sentence, and what a program would go by.
export const problem = ({ text, token }, ...more) =>
  h("div", { class: "problem" }, h("p", {}, text), token ? h("p", { class: "token" }, token) : null, ...more);

// A table that scrolls sideways where it is wide, and has a line for each cell where the window is narrow. `rows`: arrays of
// elements or text, the first of which is the row's heading.
export function scrollingTable(name, heads, rows, className = "") {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    h("table", { class: className || undefined }, h("caption", {}, name),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map(([first, ...cells]) => h("tr", {}, h("th", { scope: "row" }, first),
        cells.map((cell, i) => h("td", { "data-head": heads[i + 1] }, cell)))))));
}

// Calls `act` when nothing has called for it for so long; `now` calls it at once, in place of the call that was to come.
export function settled(act, delay_ms) {
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(act, delay_ms);
  };
  later.now = () => {
    clearTimeout(timer);
    act();
  };
  return later;
}
