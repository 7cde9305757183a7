// A picture with what was found drawn over it, at the picture's own size: masks and class maps on a
// canvas, boxes as vectors, so that they are sharp at any size of the window.

import { h, percent, svg } from "./dom.js";
import { canvasSize, classColour, css, inkOn, paintMask, readRunLengths } from "./masks.js";

const SOLID = 255;
const BEHIND = 60; // of 255: what is not pointed at, while something is

export class AnnotatedFigure {
  #picture = h("img", { alt: "" });
  #canvas = h("canvas", { "aria-hidden": "true" });
  #boxes = svg("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
  #labels = h("div", { class: "labels", "aria-hidden": "true" });
  #overlay = h("img", { class: "overlay", alt: "", hidden: true });
  #found = []; // {name, colour, runs?, box?}
  #size = { width: 1, height: 1 };
  #shown = { boxes: true, masks: true };
  #pointed = -1;

  constructor(className = "") {
    this.element = h("div", { class: `annotated ${className}` }, this.#picture, this.#canvas, this.#overlay,
      this.#boxes, this.#labels);
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
      runs: readRunLengths(one.run_lengths),
    }));
    this.#draw();
  }

  // In words, for who does not see the picture.
  describe(text) {
    this.#picture.alt = text;
  }

  show(what, on) {
    this.#shown[what] = on;
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

  // A picture over the whole of this one; null: none.
  showOverlay(url) {
    this.#overlay.hidden = url === null;
    if (url === null) this.#overlay.removeAttribute("src");
    else this.#overlay.src = url;
  }

  #draw() {
    this.#drawMasks();
    this.#drawBoxes();
  }

  #drawMasks() {
    const { width, height } = this.#size;
    const masks = this.#shown.masks ? this.#found.filter((one) => one.runs) : [];
    this.#canvas.hidden = masks.length === 0;
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
  }

  #drawBoxes() {
    const { width, height } = this.#size;
    this.#boxes.replaceChildren();
    this.#labels.replaceChildren();
    if (!this.#shown.boxes) return;
    this.#found.forEach((one, i) => {
      if (!one.box) return;
      const behind = this.#pointed !== -1 && this.#pointed !== i ? " behind" : "";
      const { left, top, right, bottom } = one.box;
      const place = { x: left, y: top, width: right - left, height: bottom - top };
      this.#boxes.append(
        svg("rect", { ...place, class: `halo${behind}` }),
        svg("rect", { ...place, class: `box${behind}`, style: { stroke: css(one.colour) } }));
      const low = top / height < 0.06; // the label would leave the picture
      this.#labels.append(
        h("span", {
          class: `label${low ? " inside" : ""}${behind}`,
          style: {
            left: percent(left / width, 3), top: percent(top / height, 3),
            "background-color": css(one.colour), color: inkOn(one.colour),
          },
        }, `${one.name} ${Math.round(100 * one.score)}%`));
    });
  }
}
