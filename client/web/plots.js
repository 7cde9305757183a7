// Plots: rows of intervals, bars and dots, which are laid out by the browser, and curves over time as
// SVG. Each says in words what it shows.

import { h, percent, svg } from "./dom.js";

// A round step, so that about `count` of them fill the range. `binary`: a power of two, of bytes.
export function niceStep(range, count, binary = false) {
  const rough = range / count;
  if (binary) return 2 ** Math.ceil(Math.log2(rough));
  const unit = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * unit).find((step) => step >= rough);
}

// "20.0 ms" -> "20 ms"
const plain = (text) => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

function axisOf(least, most, binary) {
  const step = niceStep(most - least || Math.abs(most) || 1, 4, binary);
  const from = Math.floor(least / step + 1e-9) * step;
  const to = Math.max(from + step, Math.ceil(most / step - 1e-9) * step);
  const ticks = [];
  for (let i = 0; from + i * step <= to + step / 2; ++i) ticks.push(from + i * step);
  return { from, to, ticks, place: (value) => percent(Math.min(1, Math.max(0, (value - from) / (to - from))), 3) };
}

// A plot of rows over one axis. `rows`: {name, colour, value?, low?, high?, dots?, bar?, text, detail?}.
// `upTo`: the axis reaches that far at least. `line`: a value that is marked; `band`: [low, high], shaded; both with `bandName` in words.
export function rowPlot({ title, rows, format, binary, fromZero = true, upTo, line, band, bandName }) {
  const values = rows.flatMap((row) => [row.value, row.low, row.high, ...(row.dots ?? [])])
    .concat(line ?? [], band ?? [], upTo ?? []).filter(Number.isFinite);
  if (fromZero) values.push(0);
  const axis = axisOf(Math.min(...values), Math.max(...values), binary);
  const marks = (row) => {
    const inside = [];
    if (band) inside.push(h("span", { class: "band", style: { left: axis.place(band[0]),
      width: percent((band[1] - band[0]) / (axis.to - axis.from), 3) } }));
    if (line !== undefined) inside.push(h("span", { class: "line", style: { left: axis.place(line) } }));
    if (row.bar && Number.isFinite(row.value)) inside.push(h("span", { class: "fill",
      style: { width: axis.place(row.value), "background-color": row.colour } }));
    for (const dot of row.dots ?? []) inside.push(h("span", { class: "dot faint",
      style: { left: axis.place(dot), "background-color": row.colour } }));
    if (Number.isFinite(row.low) && Number.isFinite(row.high)) inside.push(h("span", { class: "whisker",
      style: { left: axis.place(row.low), width: percent((row.high - row.low) / (axis.to - axis.from), 3),
        "background-color": row.colour } }));
    if (!row.bar && Number.isFinite(row.value)) inside.push(h("span", { class: "dot",
      style: { left: axis.place(row.value), "background-color": row.colour } }));
    return inside;
  };
  return h("figure", { class: "plot" },
    h("figcaption", {}, title),
    h("div", { class: "rows", role: "list" }, rows.map((row) => h("div", { class: "plot-row", role: "listitem" },
      h("span", { class: "name", title: row.name }, row.name),
      h("span", { class: "value" }, row.text, row.detail ? h("small", {}, row.detail) : null),
      h("span", { class: "track", "aria-hidden": "true" }, marks(row))))),
    h("div", { class: "axis", "aria-hidden": "true" }, axis.ticks.map((tick) =>
      h("span", { style: { left: axis.place(tick) } }, plain(format(tick))))),
    bandName ? h("p", { class: "plot-note" }, h("span", { class: "band-swatch", "aria-hidden": "true" }), bandName) : null);
}

const HEIGHT = 150;
const PAD = { left: 46, right: 8, top: 8, bottom: 20 };

// Curves over time, drawn anew by `update`. `series`: {name, colour, values: numbers or null, of one
// length}; `times`: milliseconds. `stacked`: areas upon each other.
export class TimePlot {
  #svg = svg("svg", { role: "img", height: HEIGHT });
  #legend = h("ul", { class: "legend" });
  #reading = h("p", { class: "reading", "aria-hidden": "true" });
  #last = null;
  #width = 0;

  constructor({ title, format, binary = false, stacked = false, note }) {
    this.title = title;
    this.format = format;
    this.stacked = stacked;
    this.binary = binary;
    this.#svg.setAttribute("aria-label", `${title}: nothing yet`);
    this.element = h("figure", { class: "card plot time" }, h("figcaption", {}, title, note ? h("small", {}, note) : null),
      this.#svg, this.#reading, this.#legend);
    new ResizeObserver(() => {
      if (this.#svg.clientWidth !== this.#width && this.#last) this.#draw();
    }).observe(this.element);
    this.#svg.addEventListener("pointermove", (event) => this.#point(event.offsetX));
    this.#svg.addEventListener("pointerleave", () => this.#point(null));
  }

  update(times, series) {
    this.#last = { times, series };
    this.#draw();
  }

  #heights() {
    const { times, series } = this.#last;
    const sums = times.map(() => 0);
    return series.map(({ values }) => values.map((value, i) => {
      if (value === null || !Number.isFinite(value)) return null;
      if (!this.stacked) return value;
      sums[i] += value;
      return sums[i];
    }));
  }

  #draw() {
    const { times, series } = this.#last;
    const width = (this.#width = this.#svg.clientWidth || 320);
    const heights = this.#heights();
    const most = Math.max(0, ...heights.flat().filter((value) => value !== null)) || 1;
    const axis = axisOf(0, most, this.binary);
    const first = times[0] ?? 0;
    const span = Math.max(1, (times.at(-1) ?? 1) - first);
    const x = (time) => PAD.left + ((time - first) / span) * (width - PAD.left - PAD.right);
    const y = (value) => HEIGHT - PAD.bottom - (value / axis.to) * (HEIGHT - PAD.top - PAD.bottom);
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.#svg.setAttribute("width", width);
    const parts = axis.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: PAD.left - 6, y: y(tick) + 4, "text-anchor": "end" }, plain(this.format(tick))),
    ]);
    parts.push(
      svg("text", { x: PAD.left, y: HEIGHT - 4 }, `${Math.round(((times.at(-1) ?? first) - first) / 1000)} s ago`),
      svg("text", { x: width - PAD.right, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
    for (let i = series.length - 1; i >= 0; --i) {
      const points = heights[i].map((value, at) => (value === null ? null : [x(times[at]), y(value)]));
      for (const piece of pieces(points)) {
        const path = piece.map(([px, py], at) => `${at === 0 ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
        if (this.stacked) {
          parts.push(svg("path", { class: "area", style: { fill: series[i].colour },
            d: `${path}L${piece.at(-1)[0].toFixed(1)} ${y(0)}L${piece[0][0].toFixed(1)} ${y(0)}Z` }));
        } else {
          parts.push(svg("path", { class: "curve", d: path, style: { stroke: series[i].colour },
            "stroke-dasharray": series[i].dashed ? "5 4" : undefined }));
          if (piece.length === 1) parts.push(svg("circle", { cx: piece[0][0], cy: piece[0][1], r: 2, style: { fill: series[i].colour } }));
        }
      }
    }
    if (heights.flat().every((value) => value === null)) {
      parts.push(svg("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "No requests in this time"));
    }
    this.#svg.replaceChildren(...parts);
    const latest = series.map((one) => ({ ...one, value: one.values.at(-1) ?? null }));
    this.#svg.setAttribute("aria-label", `${this.title}, now: ${latest
      .map((one) => `${one.name} ${one.value === null ? "nothing" : this.format(one.value)}`).join(", ")}`);
    this.#legend.replaceChildren(...latest.map((one) => h("li", {},
      h("span", { class: "swatch", style: { "background-color": one.colour } }), h("span", {}, one.name),
      h("b", {}, one.value === null ? "–" : this.format(one.value)))));
    this.x = x;
  }

  // The values at a place, in words below the plot.
  #point(offset) {
    this.#reading.textContent = "";
    if (offset === null || !this.#last || this.#last.times.length === 0) return;
    const { times, series } = this.#last;
    const nearest = times.reduce((best, time, i) =>
      (Math.abs(this.x(time) - offset) < Math.abs(this.x(times[best]) - offset) ? i : best), 0);
    const ago = Math.round((times.at(-1) - times[nearest]) / 1000);
    this.#reading.textContent = `${ago} s ago: ${series.map((one) =>
      `${one.name} ${one.values[nearest] === null ? "–" : this.format(one.values[nearest])}`).join(", ")}`;
  }
}

// The runs of points between those that are missing.
function pieces(points) {
  const all = [[]];
  for (const point of points) {
    if (point) all.at(-1).push(point);
    else if (all.at(-1).length > 0) all.push([]);
  }
  return all.filter((piece) => piece.length > 0);
}
