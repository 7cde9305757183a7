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
