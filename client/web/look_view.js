// One picture through one model: what it finds, and what that cost.

import { ask, inWords, isAbort } from "./api.js";
import { byId, h, number, percent, plural, say, settled } from "./dom.js";
import { classColour, css } from "./masks.js";
import { explainPanel } from "./explain.js";
import { AnnotatedFigure } from "./annotated_figure.js";
import { TASKS } from "./models.js";
import { currentPicture, onPicture, pictureChooser } from "./picture.js";
import { receiptCard } from "./receipt.js";

const TYPING_MS = 200;

// One of the two ways to name a model: of the list, or, where it may not be read, by hand.
function modelField(onChange) {
  const select = h("select", { id: "model", onchange: onChange });
  const text = h("input", { id: "model-text", type: "text", autocomplete: "off", spellcheck: "false", hidden: true,
    "aria-label": "Name of a model", oninput: onChange });
  return { select, text, element: h("div", {}, select, text) };
}

export class LookView {
  #models = [];
  #task = "detection";
  #figure = new AnnotatedFigure("large");
  #field = modelField(() => this.#changed());
  #run = 0; // counts them: what an earlier one brings is not shown
  #abort = null;
  #askLater = settled(() => this.#ask(), TYPING_MS);
  #attention = "dense"; // of the model chosen last: another task begins with the same
  #wish = null; // the model that a link names, until the list is there
  #explain = explainPanel(this.#figure, () => this.model(), currentPicture);

  constructor(onState) {
    this.onState = onState;
    this.#build();
    onPicture((picture) => {
      byId("stage").replaceChildren(this.#figure.element);
      this.#figure.setPicture(picture);
      this.#explain.reset();
      this.onState();
      this.#askLater.now();
    });
  }

  #changed = () => {
    this.#describeModel();
    this.#explain.reset();
    this.onState();
    this.#askLater();
  };

  #build() {
    byId("look-chooser").append(pictureChooser());
    byId("model-place").append(this.#field.element);
    byId("explain-place").append(this.#explain.element);
    for (const radio of document.getElementsByName("task")) {
      radio.addEventListener("change", () => {
        if (radio.checked) this.#setTask(radio.value);
      });
    }
    for (const id of ["top-k", "score"]) byId(id).addEventListener("input", this.#changed);
    byId("score").addEventListener("input", () => this.#showScore());
    byId("show-boxes").addEventListener("change", (event) => this.#figure.show("boxes", event.target.checked));
    byId("show-masks").addEventListener("change", (event) => this.#figure.show("masks", event.target.checked));
    byId("opacity").addEventListener("input", (event) => this.#figure.setOpacity(event.target.value / 100));
    byId("again").addEventListener("click", () => this.#askLater.now());
  }

  // Null where none is chosen.
  model() {
    const name = this.#field.select.hidden ? this.#field.text.value.trim() : this.#field.select.value;
    return this.#models.find((model) => model.name === name) ?? (name ? { name } : null);
  }

  // `listed` false: the key, or the port, does not let this page read the list.
  setModels(models, listed) {
    this.#models = models;
    this.#field.select.hidden = !listed;
    this.#field.text.hidden = listed;
    for (const radio of document.getElementsByName("task")) {
      radio.disabled = listed && !models.some((model) => model.task === radio.value);
    }
    const linked = models.find((model) => model.name === this.#wish);
    const wanted = this.#wish ?? this.#field.select.value;
    this.#wish = null;
    if (linked?.task) this.#task = linked.task;
    else if (listed && !models.some((model) => model.task === this.#task)) {
      this.#task = models.find((model) => model.task)?.task ?? this.#task;
    }
    this.#setTask(this.#task, wanted);
  }

  // Of a link: task, model, top_k, score.
  setState(state) {
    if (TASKS[state.get("task")]) this.#task = state.get("task");
    if (state.get("model")) this.#wish = state.get("model");
    if (state.get("top_k")) byId("top-k").value = state.get("top_k");
    if (state.get("score")) byId("score").value = Number(state.get("score")) * 100;
    this.#showScore();
    if (this.#models.length > 0) this.setModels(this.#models, !this.#field.select.hidden);
  }
  state() {
    const state = new URLSearchParams({ task: this.#task });
    const model = this.model();
    if (model) state.set("model", model.name);
    if (currentPicture()?.example) state.set("example", currentPicture().example);
    if (this.#task === "classification" && byId("top-k").value !== "5") state.set("top_k", byId("top-k").value);
    if (this.#task === "detection" && byId("score").value !== "50") state.set("score", byId("score").value / 100);
    return state;
  }

  #setTask(task, model) {
    this.#task = task;
    byId(`task-${task}`).checked = true;
    const select = this.#field.select;
    select.replaceChildren(...this.#models
      .filter((one) => one.task === task || !one.task)
      .map((one) => h("option", { value: one.name, disabled: one.state !== "READY" },
        one.state === "READY" ? `${one.name} · ${one.attention}` : `${one.name} · ${one.state.toLowerCase()}`)));
    const usable = [...select.options].filter((option) => !option.disabled).map((option) => option.value);
    const alike = this.#models.find((one) => usable.includes(one.name) && one.attention === this.#attention);
    select.value = usable.includes(model) ? model : (alike?.name ?? usable[0] ?? "");
    byId("options-classification").hidden = task !== "classification";
    byId("options-detection").hidden = task !== "detection";
    byId("layers").hidden = task === "classification";
    byId("show-boxes").parentElement.hidden = task !== "detection";
    this.#changed();
  }

  #showScore() {
    byId("score-value").textContent = `${byId("score").value}%`;
  }

  #describeModel() {
    const model = this.model();
    const chips = [];
    if (model?.attention) {
      this.#attention = model.attention;
      chips.push(["attention", model.attention], ["backbone", model.backbone],
        ["parameters", number(model.parameters)], ["precision", model.precision]);
    }
    byId("model-facts").replaceChildren(...chips.map(([name, value]) =>
      h("span", { class: "chip" }, h("span", {}, name), " ", h("b", {}, value))));
  }

  #query(model) {
    const query = new URLSearchParams({ model: model.name });
    if (this.#task === "classification") query.set("top_k", byId("top-k").value || "5");
    if (this.#task === "detection") {
      query.set("score_threshold", String(byId("score").value / 100));
      if (model.hasMasks) query.set("mask_format", "RUN_LENGTHS");
    }
    if (this.#task === "segmentation") query.set("map_format", "RUN_LENGTHS");
    return `${TASKS[this.#task].path}?${query}`;
  }

  async #ask() {
    const model = this.model();
    const picture = currentPicture();
    if (!model || !picture) return;
    this.#abort?.abort();
    this.#abort = new AbortController();
    const run = ++this.#run;
    const path = this.#query(model);
    byId("results").setAttribute("aria-busy", "true");
    const began = performance.now();
    try {
      const response = await ask(path, { method: "POST", body: picture.file, signal: this.#abort.signal,
        headers: { Accept: "application/json", "Content-Type": picture.file.type || "application/octet-stream" } });
      const answer = await response.json();
      if (run !== this.#run) return;
      this.#show(answer, picture, performance.now() - began, path);
    } catch (error) {
      if (isAbort(error) || run !== this.#run) return;
      this.#figure.clear();
      this.#showError(error);
    }
    if (run === this.#run) byId("results").removeAttribute("aria-busy");
  }

  #showError(error) {
    const { text, token } = inWords(error);
    byId("results").replaceChildren(h("div", { class: "problem" }, h("p", {}, text), h("p", { class: "token" }, token)));
    byId("receipt-place").replaceChildren();
    byId("as-code").hidden = true;
    say(`Error. ${text}`);
  }

  #show(answer, picture, seen_ms, path) {
    const result = answer.results[0];
    const parts = [];
    if (answer.untrained) {
      parts.push(h("p", { class: "notice" }, "The model's weights are random numbers: what it says means nothing."));
    }
    let words = "";
    if (result.detections) {
      this.#figure.setDetections(result);
      words = this.#detections(result, parts);
    } else if (this.#task === "segmentation") {
      this.#figure.setClassMap(result);
      words = this.#areas(result, parts);
    } else {
      this.#figure.clear();
      words = this.#classes(result, parts);
    }
    this.#figure.describe(`${picture.name}. ${words}`);
    byId("results").replaceChildren(...parts);
    byId("receipt-place").replaceChildren(receiptCard(answer.receipt, seen_ms));
    byId("curl").textContent = `curl --data-binary @${picture.file.name || "picture.jpg"} \\\n  "${new URL(path, document.baseURI)}"`;
    byId("json").textContent = JSON.stringify(answer, (key, value) =>
      key === "run_lengths" && value.length > 60 ? `${value.slice(0, 60)}…` : value, 2);
    byId("as-code").hidden = false;
    say(words);
  }

  #classes({ classes }, parts) {
    parts.push(h("ol", { class: "bars" }, classes.map((one) => h("li", {},
      h("span", { class: "name" }, one.label || `class ${one.index}`),
      h("span", { class: "bar", "aria-hidden": "true" },
        h("span", { style: { width: percent(one.confidence, 2) } })),
      h("span", { class: "value" }, percent(one.confidence))))));
    return classes.length > 0
      ? `Most likely ${classes[0].label || `class ${classes[0].index}`}, ${percent(classes[0].confidence, 0)}.` : "Nothing.";
  }

  // A list whose entries stand out in the picture while they are pointed at or have the focus.
  #pointable(entries, children) {
    return h("ol", { class: "found" }, entries.map((entry, i) => {
      const point = () => this.#figure.point(i);
      const leave = () => this.#figure.point(-1);
      return h("li", {}, h("button", { type: "button", class: "entry", onmouseenter: point, onfocus: point,
        onmouseleave: leave, onblur: leave }, children(entry)));
    }));
  }

  #detections({ detections }, parts) {
    if (detections.length === 0) {
      parts.push(h("p", { class: "quiet-text" }, "Nothing is found at this score. Lower it to see what the model doubts."));
      return "Nothing is found.";
    }
    parts.push(this.#pointable(detections, (one) => [
      h("span", { class: "swatch", style: { "background-color": css(classColour(one.class_index)) } }),
      h("span", { class: "name" }, one.label || `class ${one.class_index}`),
      h("span", { class: "detail" },
        `${Math.round(one.box.right - one.box.left)} × ${Math.round(one.box.bottom - one.box.top)} px`),
      h("span", { class: "value" }, percent(one.score, 0)),
    ]));
    const counts = new Map();
    for (const one of detections) {
      const name = one.label || `class ${one.class_index}`;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return `${plural(detections.length, "object")}: ${[...counts].map(([name, count]) => `${count} ${name}`).join(", ")}.`;
  }

  #areas({ classes, image_height, image_width }, parts) {
    const pixels = image_height * image_width;
    parts.push(this.#pointable(classes, (one) => [
      h("span", { class: "swatch", style: { "background-color": css(classColour(one.class_index)) } }),
      h("span", { class: "name" }, one.label || `class ${one.class_index}`),
      h("span", { class: "detail" }, `${one.pixels.toLocaleString("en")} px`),
      h("span", { class: "value" }, percent(one.pixels / pixels)),
    ]));
    return `${plural(classes.length, "class", "classes")}: ${classes
      .map((one) => `${one.label || one.class_index} ${percent(one.pixels / pixels, 0)}`).join(", ")}.`;
  }
}
