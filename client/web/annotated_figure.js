// A picture with what was found drawn over it, at the picture's own size: masks and class maps on a
// canvas, boxes as vectors, so that they are sharp at any size of the window.

import { h, percent, svg } from "./dom.js";
import { canvasSize, classColour, css, inkOn, isBackground, paintMask, readRunLengths } from "./masks.js";

const SOLID = 255;
const BEHIND = 60; // of 255: what is not pointed at, while something is

// Where the label of a box stands: {x, y} of its corner, so that it lies within the picture and, as long as there is room, on no
// label of `placed`; those are of surer objects. All in pixels of the window: `box` {left, top, right, bottom}, `label` and
// `picture` {width, height}, `placed` {x, y, width, height}. A label that is not shown has no height. Its places are those of
// server/imaging/drawing/overlay.cc, above the box, inside at the top, below it, inside at the bottom, then ever farther above
// and below.
export function placeLabel(box, label, picture, placed) {
  const within = (value, most) => Math.min(Math.max(value, 0), Math.max(0, most));
  const covered = ({ x, y }) => placed.reduce((sum, other) => sum
    + Math.max(0, Math.min(x + label.width, other.x + other.width) - Math.max(x, other.x))
    * Math.max(0, Math.min(y + label.height, other.y + other.height) - Math.max(y, other.y)), 0);
  const columns = [box.left, box.right - label.width, box.right, box.left - label.width];
  const rows = [box.top - label.height, box.top, box.bottom, box.bottom - label.height];
  const places = columns.flatMap((x) => rows.map((y) => [x, y]));
  const first = within(rows[0], picture.height - label.height);
  for (let step = label.height; step > 0 && step < picture.height; step += label.height) {
    for (const x of columns) places.push([x, first - step], [x, first + step]);
  }
  let best = null;
  let least = Infinity;
  for (const [left, top] of places) {
    const place = { x: within(left, picture.width - label.width), y: within(top, picture.height - label.height) };
    const pixels = covered(place);
    if (pixels < least) [best, least] = [place, pixels];
    if (least === 0) break;
  }
  return best;
}

export class AnnotatedFigure {
  #picture = h("img", { alt: "" });
  #canvas = h("canvas", { class: "masks", "aria-hidden": "true" });
  #ground = h("canvas", { class: "ground", "aria-hidden": "true" }); // the picture without its colours, below the masks'
  #boxes = svg("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
  #labels = h("div", { class: "labels", "aria-hidden": "true" });
  #overlay = h("img", { class: "overlay", alt: "", hidden: true });
  #place = h("span", { class: "seen-from", hidden: true, "aria-hidden": "true" });
  #found = []; // {name, colour, runs?, box?}
  #size = { width: 1, height: 1 };
  #shown = { boxes: true, masks: true };
  #pointed = -1;
  #labelled = []; // {label, box}, the surest first
  #layersChanged = () => {};

  constructor(className = "") {
    this.element = h("div", { class: `annotated ${className}` }, this.#picture, this.#canvas, this.#ground, this.#overlay,
      this.#boxes, this.#labels, this.#place);
    new ResizeObserver(() => this.#placeLabels()).observe(this.element);
    this.#picture.addEventListener("load", () => this.#drawMasks());
  }

  // `picture`: {url, name, width, height}.
  setPicture(picture) {
    this.#size = { width: picture.width, height: picture.height };
    this.element.style.setProperty("--ratio", String(picture.width / picture.height));
    this.#picture.src = picture.url;
    this.#picture.alt = picture.name;
    this.#boxes.setAttribute("viewBox", `0 0 ${picture.width} ${picture.height}`);
    this.showOverlay(null);
    this.clear();
  }

  // Takes away what was found, and not the overlay, which is of another answer.
  clear() {
    this.#found = [];
    this.#pointed = -1;
    this.#draw();
  }

  // Of an answer for this picture. Says in words what there is to see.
  setDetections({ detections }) {
    this.#found = detections.map((one) => ({
      name: one.label || `class ${one.class_index}`,
      score: one.score,
      colour: classColour(one.class_index),
      box: one.box,
      runs: one.mask?.run_lengths ? readRunLengths(one.mask.run_lengths) : null,
    }));
    this.#draw();
  }
  setClassMap({ classes }) {
    this.#found = classes.map((one) => ({
      name: one.label || `class ${one.class_index}`,
      colour: classColour(one.class_index),
      runs: isBackground(one.label) ? null : readRunLengths(one.run_lengths),
    }));
    this.#draw();
  }

  // In words, for who does not see the picture.
  describe(text) {
    this.#picture.alt = text;
  }

  // `heard({boxes, masks, overlay})`: which of them there are to show.
  onLayers(heard) {
    this.#layersChanged = heard;
  }
  #tellLayers() {
    this.#layersChanged({ boxes: this.#found.some((one) => one.box), masks: this.#found.some((one) => one.runs),
      overlay: this.#overlay.hasAttribute("src") });
  }
  // `what`: boxes, masks or overlay.
  show(what, on) {
    this.#shown[what] = on;
    this.#hideOrShowOverlay();
    this.#draw();
  }
  setOpacity(share) {
    this.element.style.setProperty("--opacity", String(share));
  }
  // The one with that number stands out; -1: none does.
  point(number) {
    this.#pointed = number;
    this.#draw();
  }

  // `heard({x, y})`: somebody has clicked there, in pixels of the picture.
  onPlace(heard) {
    this.element.addEventListener("click", (event) => {
      const { left, top, width, height } = this.element.getBoundingClientRect();
      const at = (offset, length, pixels) => Math.min(pixels - 1, Math.max(0, Math.floor((offset / length) * pixels)));
      heard({ x: at(event.clientX - left, width, this.#size.width), y: at(event.clientY - top, height, this.#size.height) });
    });
  }

  // A picture over the whole of this one, which may have a place marked, {x, y} in pixels of the picture; null: none.
  showOverlay(url, place = null) {
    if (url === null) this.#overlay.removeAttribute("src");
    else this.#overlay.src = url;
    this.#place.style.left = place ? percent((place.x + 0.5) / this.#size.width, 3) : "";
    this.#place.style.top = place ? percent((place.y + 0.5) / this.#size.height, 3) : "";
    this.#hideOrShowOverlay();
    this.#tellLayers();
  }
  #hideOrShowOverlay() {
    this.#overlay.hidden = this.#shown.overlay === false || !this.#overlay.hasAttribute("src");
    this.#place.hidden = this.#overlay.hidden || this.#place.style.left === "";
  }

  #draw() {
    this.#drawMasks();
    this.#drawBoxes();
    this.#tellLayers();
  }

  #drawMasks() {
    const { width, height } = this.#size;
    const masks = this.#shown.masks ? this.#found.filter((one) => one.runs) : [];
    this.#canvas.hidden = this.#ground.hidden = masks.length === 0;
    if (masks.length === 0) return;
    const size = canvasSize(width, height);
    Object.assign(this.#canvas, size);
    const context = this.#canvas.getContext("2d");
    const image = context.createImageData(size.width, size.height);
    // The surest lie on top.
    for (let i = this.#found.length - 1; i >= 0; --i) {
      const one = this.#found[i];
      if (!one.runs) continue;
      const alpha = this.#pointed === -1 || this.#pointed === i ? SOLID : BEHIND;
      paintMask(image, one.runs, height, width, one.colour, alpha);
    }
    context.putImageData(image, 0, 0);
    // A hue of the picture's own would mix with a class's into that of another one.
    Object.assign(this.#ground, size);
    const ground = this.#ground.getContext("2d");
    if (this.#picture.complete && this.#picture.naturalWidth > 0) ground.drawImage(this.#picture, 0, 0, size.width, size.height);
    ground.globalCompositeOperation = "destination-in";
    ground.drawImage(this.#canvas, 0, 0);
  }

  #drawBoxes() {
    const labels = [];
    this.#boxes.replaceChildren();
    this.#labels.replaceChildren();
    this.#labelled = labels;
    if (!this.#shown.boxes) return;
    this.#found.forEach((one, i) => {
      if (!one.box) return;
      const behind = this.#pointed !== -1 && this.#pointed !== i ? " behind" : "";
      const { left, top, right, bottom } = one.box;
      const place = { x: left, y: top, width: Math.max(0, right - left), height: Math.max(0, bottom - top) };
      this.#boxes.append(
        svg("rect", { ...place, class: `halo${behind}` }),
        svg("rect", { ...place, class: `box${behind}`, style: { stroke: css(one.colour) } }));
      const label = h("span", { class: `label${behind}`, style: { "background-color": css(one.colour), color: inkOn(one.colour) } },
        `${one.name} ${Math.round(100 * one.score)}%`);
      labels.push({ label, box: one.box });
    });
    // The surest come first, and lie on top.
    this.#labels.replaceChildren(...labels.map(({ label }) => label).reverse());
    this.#labelled = labels;
    this.#placeLabels();
  }

  #placeLabels() {
    const picture = { width: this.element.clientWidth, height: this.element.clientHeight };
    if (picture.width === 0) return; // it is not shown yet
    const [across, down] = [picture.width / this.#size.width, picture.height / this.#size.height];
    const placed = [];
    for (const { label, box } of this.#labelled) {
      const size = { width: label.offsetWidth, height: label.offsetHeight };
      const place = placeLabel({ left: box.left * across, top: box.top * down, right: box.right * across, bottom: box.bottom * down },
        size, picture, placed);
      placed.push({ ...place, ...size });
      label.style.left = percent(place.x / picture.width, 3);
      label.style.top = percent(place.y / picture.height, 3);
    }
  }
}
