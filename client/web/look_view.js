// One picture through one model: what it finds, and what that cost.

import { ask, inWords, isAbort } from "./api.js";
import { awaiting, byId, h, number, percent, plural, problem, say, settled, shortName } from "./dom.js";
import { classColour, css, isBackground } from "./masks.js";
import { explainPanel } from "./explain.js";
import { AnnotatedFigure } from "./annotated_figure.js";
import { TASKS, bestFirst } from "./models.js";
import { complain, currentPicture, onPicture, pictureChooser } from "./picture.js";
import { receiptCard } from "./receipt.js";

const TYPING_MS = 200;
const NO_RECEIPT = "Each answer brings a receipt: its time by stage, its batch, its memory.";
// A word of a shell, whatever a file is called.
const quoted = (text) => (/^[\w.,/@%+=:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const described = (model) => model && JSON.stringify([model.name, model.version, model.state, model.attention]);

// One of the two ways to name a model: of the list, or, where it may not be read, by hand.
function modelField(onChange) {
  const select = h("select", { id: "model", onchange: onChange });
  const text = h("input", { id: "model-text", type: "text", autocomplete: "off", spellcheck: "false", hidden: true,
    "aria-label": "Name of a model", oninput: onChange });
  return { select, text, element: h("div", {}, select, text) };
}

export class LookView {
  #models = [];
  #task = "classification";
  #figure = new AnnotatedFigure("large");
  #field = modelField(() => {
    this.#attention = this.model()?.attention ?? "";
    this.#changed();
  });
  #run = 0; // counts them: what an earlier one brings is not shown
  #abort = null;
  #askLater = settled(() => this.#ask(), TYPING_MS);
  #attention = ""; // of the model that somebody chose last: another task begins with the same
  #last = null; // what the list was made of
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

  // Whether the server explains.
  allowExplaining(allowed) {
    this.#explain.allow(allowed);
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
    byId("show-overlay").addEventListener("change", (event) => this.#figure.show("overlay", event.target.checked));
    this.#figure.onLayers(({ boxes, masks, overlay }) => {
      byId("layers").hidden = !(boxes || masks || overlay);
      byId("show-boxes").parentElement.hidden = !boxes;
      byId("show-masks").parentElement.hidden = !masks;
      byId("show-overlay").parentElement.hidden = !overlay;
      byId("opacity").parentElement.hidden = !(masks || overlay);
    });
    this.#figure.setOpacity(byId("opacity").value / 100);
    byId("opacity").addEventListener("input", (event) => this.#figure.setOpacity(event.target.value / 100));
    byId("again").addEventListener("click", () => {
      if (this.#missing()) return this.#needed();
      this.#askLater.now();
    });
    this.#needed();
  }

  // What there is no answer without, in words; "": nothing.
  #missing() {
    if (!currentPicture()) return "Choose a picture first.";
    if (!this.model()) return this.#field.select.hidden ? "Name a model first." : "No model of this task is ready.";
    return "";
  }
  #needed() {
    const missing = this.#missing();
    byId("again").classList.toggle("primary", !missing);
    if (!missing) return;
    if (!currentPicture() && document.activeElement === byId("again")) complain(missing);
    byId("results").replaceChildren(h("p", { class: "quiet-text" }, missing));
    byId("receipt-place").replaceChildren(h("p", { class: "quiet-text" }, NO_RECEIPT));
  }

  // Null where none is chosen.
  model() {
    const name = this.#field.select.hidden ? this.#field.text.value.trim() : this.#field.select.value;
    return this.#models.find((model) => model.name === name) ?? (name ? { name } : null);
  }

  // `listed` false: the key, or the port, does not let this page read the list.
  setModels(models, listed) {
    this.#models = models = bestFirst(models);
    const before = this.#last;
    this.#field.select.hidden = !listed;
    this.#field.text.hidden = listed;
    for (const radio of document.getElementsByName("task")) {
      radio.disabled = listed && models.every((model) => model.state === "READY" && model.task !== radio.value);
    }
    const linked = models.find((model) => model.name === this.#wish);
    const wanted = this.#wish ?? this.#field.select.value;
    this.#wish = null;
    if (linked?.task) {
      this.#task = linked.task;
      this.#attention = linked.attention;
    } else if (listed && !models.some((model) => model.task === this.#task)) {
      this.#task = models.find((model) => model.task)?.task ?? this.#task;
    }
    this.#fillTask(this.#task, wanted);
    // A list that says of the chosen model what the last one said asks nothing anew.
    if (before === null || described(this.model()) !== before) this.#changed();
  }

  // Of a link: task, model, top_k, score.
  setState(state) {
    if (Object.hasOwn(TASKS, state.get("task") ?? "")) this.#task = state.get("task");
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

  #setTask(task) {
    this.#fillTask(task);
    this.#changed();
  }
  #fillTask(task, model) {
    this.#task = task;
    byId(`task-${task}`).checked = true;
    const select = this.#field.select;
    const names = this.#models.map((one) => one.name);
    select.replaceChildren(...this.#models
      .filter((one) => one.task === task || !one.task)
      .map((one) => h("option", { value: one.name, disabled: one.state !== "READY", title: one.name },
        `${shortName(one.name, names)} · ${one.state === "READY" ? one.attention : one.state.toLowerCase()}`)));
    const usable = [...select.options].filter((option) => !option.disabled).map((option) => option.value);
    const alike = this.#models.find((one) => usable.includes(one.name) && one.attention === this.#attention);
    select.value = usable.includes(model) ? model : (alike?.name ?? usable[0] ?? "");
    byId("options-classification").hidden = task !== "classification";
    byId("options-detection").hidden = task !== "detection";
  }

  #showScore() {
    byId("score-value").textContent = `${byId("score").value}%`;
  }

  #describeModel() {
    const model = this.model();
    const chips = [];
    this.#last = described(model);
    if (model && shortName(model.name) !== model.name) chips.push(["name", model.name]);
    if (model?.attention) {
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
    this.#abort?.abort();
    const run = ++this.#run;
    this.#needed();
    if (!model || !picture) return;
    const own = (this.#abort = new AbortController());
    const path = this.#query(model);
    byId("results").setAttribute("aria-busy", "true");
    const began = performance.now();
    const ended = awaiting(byId("results-wait"), `Asking ${model.name}`, () => {
      own.abort();
      byId("results").replaceChildren(h("p", { class: "quiet-text" }, "Cancelled."));
      byId("results").removeAttribute("aria-busy");
      say("Cancelled.");
    }, () => {
      // What an earlier one found would stand below a picture that it is not of.
      byId("results").replaceChildren();
      byId("receipt-place").replaceChildren(h("p", { class: "quiet-text" }, NO_RECEIPT));
    });
    try {
      const response = await ask(path, { method: "POST", body: picture.file, signal: own.signal,
        headers: { Accept: "application/json", "Content-Type": picture.file.type || "application/octet-stream" } });
      const answer = await response.json();
      if (run !== this.#run) return;
      this.#show(answer, picture, performance.now() - began, path);
    } catch (error) {
      if (isAbort(error) || run !== this.#run) return;
      this.#figure.clear();
      this.#showError(error);
    } finally {
      ended();
    }
    if (run === this.#run) byId("results").removeAttribute("aria-busy");
  }

  #showError(error) {
    const told = inWords(error);
    byId("results").replaceChildren(problem(told));
    byId("receipt-place").replaceChildren(h("p", { class: "quiet-text" }, NO_RECEIPT));
    byId("as-code").hidden = true;
    say(`Error. ${told.text}`);
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
    byId("curl").textContent = `curl --data-binary ${quoted(`@${picture.file.name || "picture.jpg"}`)} \\\n  "${new URL(path, document.baseURI)}"`;
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
      isBackground(one.label) ? h("span", { class: "swatch hollow-swatch", title: "not painted" })
        : h("span", { class: "swatch", style: { "background-color": css(classColour(one.class_index)) } }),
      h("span", { class: "name" }, one.label || `class ${one.class_index}`),
      h("span", { class: "detail" }, `${one.pixels.toLocaleString("en")} px`),
      h("span", { class: "value" }, percent(one.pixels / pixels)),
    ]));
    return `${plural(classes.length, "class", "classes")}: ${classes
      .map((one) => `${one.label || one.class_index} ${percent(one.pixels / pixels, 0)}`).join(", ")}.`;
  }
}
