// Several models, or attentions over the weights of one, on the same picture, side by side.

import { ApiError, ask, inWords, isAbort, lines } from "./api.js";
import { awaiting, byId, h, milliseconds, newId, plural, problem, say, shortName } from "./dom.js";
import { comparisonView, soFarView, summaries, variantColour, variantName } from "./comparison.js";
import { AnnotatedFigure } from "./annotated_figure.js";
import { TASKS, bestFirst } from "./models.js";
import { complain, currentPicture, onPicture, pictureChooser } from "./picture.js";
import { rowPlot } from "./plots.js";
import { STAGES, stageColour } from "./receipt.js";
import { askOnce, measureHere, quartiles } from "./receipt_rounds.js";

const MOST_VARIANTS = 8; // of fovea.v1.CompareRequest
const SUGGESTED = 4; // of them, where nobody has chosen any
const PHASES = { WAITING: "Waiting for other comparisons", LOADING: "Loading the variants", MEASURING: "Measuring, round",
  ANALYSING: "Comparing answers" };

// An attention that can stand over the weights of `own`, to begin with; "": none but itself, as others have weights of their own.
function otherAttention(own) {
  if (/^knn(:|$)/.test(own)) return "dense";
  return own === "dense" ? "knn:k=0.5" : "";
}

export class CompareView {
  #models = [];
  #rows = []; // {element, select, attention}
  #wish = null;
  #chosen = false; // the variants, by somebody or a link
  #abort = null;

  constructor(onState) {
    this.onState = onState;
    byId("compare-chooser").append(pictureChooser());
    byId("add-variant").addEventListener("click", () => {
      this.#chosen = true;
      this.#add();
      this.#rows.at(-1).select.focus();
      this.#changed();
    });
    byId("siblings").addEventListener("click", () => {
      this.#chosen = true;
      this.#addSiblings();
    });
    byId("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#start();
    });
    byId("cancel").addEventListener("click", () => this.#abort?.abort());
    onPicture((picture) => {
      const figure = new AnnotatedFigure();
      figure.setPicture(picture);
      byId("compare-picture").replaceChildren(figure.element);
      this.onState();
    });
  }

  setModels(models) {
    this.#models = bestFirst(models.filter((model) => model.task && model.state === "READY"));
    if (this.#wish === null && this.#chosen) {
      for (const { select } of this.#rows) this.#fillModels(select, select.value);
      return this.#renumber();
    }
    const wanted = this.#wish ?? this.#rows.map((row) => [row.select.value, row.attention.value.trim()]);
    this.#wish = null;
    for (const row of this.#rows) row.element.remove();
    this.#rows = [];
    for (const [name, attention] of wanted) {
      if (this.#models.some((model) => model.name === name)) this.#add(name, attention);
    }
    if (this.#rows.length < 2) this.#suggest();
    this.#renumber();
  }

  // Of a link: v=MODEL or v=MODEL~ATTENTION, once for each variant; from=server|here.
  setState(state) {
    const wanted = state.getAll("v").slice(0, MOST_VARIANTS).map((text) => {
      const at = text.indexOf("~");
      return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
    });
    if (state.get("from") === "here") byId("from-here").checked = true;
    if (wanted.length === 0) return;
    this.#wish = wanted;
    this.#chosen = true;
    if (this.#models.length > 0) this.setModels(this.#models);
  }
  state() {
    const state = new URLSearchParams();
    for (const { model, attention } of this.#variants()) state.append("v", attention ? `${model.name}~${attention}` : model.name);
    if (currentPicture()?.example) state.set("example", currentPicture().example);
    if (byId("from-here").checked) state.set("from", "here");
    return state;
  }

  // Keeps a name that is no longer served: the server says why it is not.
  #fillModels(select, name) {
    const names = this.#models.map((model) => model.name);
    select.replaceChildren(...(name && !names.includes(name) ? [h("option", { value: name }, `${shortName(name)} · not ready`)] : []),
      ...this.#models.map((model) => h("option", { value: model.name, title: model.name },
        `${shortName(model.name, names, 18)} · ${TASKS[model.task].verb.toLowerCase()}`)));
    if (name) select.value = name;
  }

  #suggest() {
    const first = this.#models.find((model) => model.name === this.#rows[0]?.select.value)
      ?? this.#models.find((model) => model.hasMasks && model.attention === "dense") ?? this.#models[0];
    if (!first) return;
    for (const row of this.#rows) row.element.remove();
    this.#rows = [];
    this.#add(first.name);
    this.#addSiblings(SUGGESTED);
    if (this.#rows.length < 2) this.#add(first.name, otherAttention(first.attention));
  }

  // Models of the same task and backbone as the first.
  #addSiblings(most = MOST_VARIANTS) {
    const first = this.#models.find((model) => model.name === this.#rows[0]?.select.value);
    if (!first) return;
    const shown = new Set(this.#rows.map((row) => row.select.value));
    for (const model of this.#models) {
      const like = model.task === first.task && model.backbone === first.backbone && model.hasMasks === first.hasMasks;
      if (like && !shown.has(model.name) && this.#rows.length < most) this.#add(model.name);
    }
    this.#changed();
  }

  #add(name = this.#rows.at(-1)?.select.value, attention = "") {
    if (this.#rows.length >= MOST_VARIANTS) return say(`At most ${MOST_VARIANTS} variants.`);
    const ids = [newId("variant"), newId("attention")];
    const changed = () => {
      this.#chosen = true;
      this.#changed();
    };
    const select = h("select", { id: ids[0], onchange: changed });
    this.#fillModels(select, name);
    const input = h("input", { id: ids[1], type: "text", list: "attentions", autocomplete: "off", spellcheck: "false",
      value: attention, oninput: changed });
    const error = h("div", { class: "field-error" });
    const remove = h("button", { type: "button", class: "quiet icon", onclick: () => {
      this.#rows = this.#rows.filter((row) => row.element !== element);
      element.remove();
      changed();
      byId("add-variant").focus();
    } }, "×");
    const title = h("legend", {});
    const element = h("fieldset", { class: "variant" }, title,
      h("div", {}, h("label", { for: ids[0] }, "Model"), select),
      h("div", {}, h("label", { for: ids[1] }, "Its attention, or another in its place"), input), remove, error);
    this.#rows.push({ element, select, attention: input, title, remove, error });
    byId("variants").append(element);
  }

  #changed() {
    this.#renumber();
    this.onState();
  }
  #renumber() {
    this.#rows.forEach((row, i) => {
      const model = this.#models.find((one) => one.name === row.select.value);
      row.title.replaceChildren(h("span", { class: "swatch", style: { "background-color": variantColour(i) } }),
        i === 0 ? "Baseline" : `Variant ${i + 1}`);
      row.select.title = row.select.value;
      row.attention.placeholder = model ? `its own: ${model.attention}` : "";
      row.remove.setAttribute("aria-label", `Remove ${i === 0 ? "the baseline" : `variant ${i + 1}`}`);
      row.remove.disabled = this.#rows.length <= 2;
    });
    byId("add-variant").disabled = this.#rows.length >= MOST_VARIANTS || this.#models.length === 0;
  }

  #variants() {
    return this.#rows.map((row) => ({
      model: this.#models.find((model) => model.name === row.select.value) ?? { name: row.select.value },
      attention: row.attention.value.trim(),
    }));
  }

  async #start() {
    const picture = currentPicture();
    const variants = this.#variants();
    byId("compared").replaceChildren();
    for (const row of this.#rows) row.error.replaceChildren();
    if (!picture) {
      complain("Choose a picture first.");
      return document.querySelector("#compare .choose").focus();
    }
    if (variants.length < 2) return this.#problem("A comparison has two variants at least.", "");
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#busy(true);
    this.#progress("Asking each model once", 0, variants.length);
    try {
      await this.#showAnswers(variants, picture, signal);
      if (byId("from-here").checked) await this.#measureHere(variants, picture, signal);
      else await this.#measureThere(variants, picture, signal);
    } catch (error) {
      if (isAbort(error)) {
        this.#status("Cancelled.");
      } else if (error instanceof ApiError && error.status === 501) {
        this.#noExperiments(error);
      } else {
        this.#tell(error);
      }
    }
    this.#busy(false);
  }

  #busy(on) {
    byId("start").disabled = on;
    byId("cancel").hidden = !on;
    byId("compare-progress").hidden = !on;
    if (on) byId("cancel").focus();
    else if (document.activeElement === document.body) byId("start").focus();
  }
  #progress(text, done, total) {
    byId("progress-bar").max = Math.max(1, total);
    byId("progress-bar").value = done;
    byId("progress-text").textContent = total > 0 ? `${text} ${done} of ${total}` : `${text}…`;
  }
  #status(text) {
    byId("compared").append(h("p", { class: "quiet-text" }, text));
    say(text);
  }
  #problem(text, token) {
    byId("compared").append(problem({ text, token }));
    say(`Error. ${text}`);
  }
  // Beside the variant that it is about, where it names one: by another attention, or by a model that no other variant has.
  #tell(error) {
    const told = inWords(error);
    const words = new Set(told.text.split(/[\s'",;]+|[.:](?=\s|$)/));
    const named = this.#rows.filter(({ attention, select }) => {
      const text = attention.value.trim();
      if (text) return words.has(text) || words.has(text.split(":")[0]);
      return words.has(select.value) && this.#rows.filter((row) => row.select.value === select.value).length === 1;
    });
    if (named.length !== 1) return this.#problem(told.text, told.token);
    named[0].error.replaceChildren(problem(told));
    (named[0].attention.value.trim() ? named[0].attention : named[0].select).focus();
    say(`Error. ${told.text}`);
  }
  #noExperiments(error) {
    byId("compared").append(h("div", { class: "problem" },
      h("p", {}, "This server runs no comparisons of its own: start it with ", h("code", {}, "--enable-experiments"),
        ". Until then the models that it serves can be measured from this page, without intervals and verdicts."),
      h("p", { class: "token" }, inWords(error).token),
      h("button", { type: "button", class: "primary", onclick: () => {
        byId("from-here").checked = true;
        this.onState();
        this.#start();
      } }, "Measure from this page")));
    say("This server runs no comparisons of its own.");
  }

  // What each served variant answers, drawn side by side.
  async #showAnswers(variants, picture, signal) {
    const row = h("div", { class: "answers" });
    byId("compared").append(h("h2", {}, "What each answers"), row);
    for (const [i, variant] of variants.entries()) {
      const name = variant.attention ? `${variant.model.name} · ${variant.attention}`
        : `${variant.model.name} · ${variant.model.attention}`;
      const caption = h("figcaption", {}, h("span", { class: "swatch", style: { "background-color": variantColour(i) } }),
        h("b", {}, name));
      if (variant.attention && variant.attention !== variant.model.attention) {
        row.append(h("figure", { class: "answer" }, h("p", { class: "hollow", "data-variant": String(i) },
          "No model is served with this attention: its answer comes with the measurements."), caption));
        continue;
      }
      const figure = new AnnotatedFigure();
      figure.setPicture(picture);
      const ended = awaiting(row, `Asking ${variant.model.name}`, () => this.#abort?.abort());
      const answer = await askOnce(variant, picture, signal).finally(ended);
      const result = answer.results[0];
      let words = "";
      if (result.detections) {
        figure.setDetections(result);
        words = `${plural(result.detections.length, "object")} with a score of at least 50%`;
      } else if (result.classes && variant.model.task === "segmentation") {
        figure.setClassMap(result);
        words = plural(result.classes.length, "class", "classes");
      } else {
        const [best] = result.classes;
        words = best ? `${best.label || `class ${best.index}`} ${Math.round(100 * best.confidence)}%` : "nothing";
      }
      figure.describe(`${name}: ${words}`);
      row.append(h("figure", { class: "answer" }, figure.element, caption, h("p", { class: "quiet-text" }, words)));
      this.#progress("Asking each model once", i + 1, variants.length);
    }
  }

  async #measureThere(variants, picture, signal) {
    this.#progress("Sending the picture", 0, 0);
    const body = new FormData();
    body.append("image", picture.file);
    for (const { model, attention } of variants) body.append("variant", attention ? `${model.name}:${attention}` : model.name);
    body.append("rounds", String(Number(byId("rounds").value) || 0));
    body.append("batch_size", String(Number(byId("batch").value) || 0));
    const response = await ask("v1/compare", { method: "POST", body, signal, headers: { Accept: "application/x-ndjson" } });
    const place = h("section", {});
    byId("compared").append(place);
    const asked = variants.map(({ model, attention }) => ({ model_name: model.name, attention: attention || model.attention }));
    const names = asked.map((variant) => variantName(variant, asked));
    let told = "";
    let drawn = "";
    for await (const line of lines(response)) {
      if (line.progress) {
        const { phase, done = 0, total = 0, so_far: soFar = [] } = line.progress;
        this.#progress(Object.hasOwn(PHASES, phase) ? PHASES[phase] : "Measuring", done, total);
        if (phase !== told) say(PHASES[(told = phase)] ?? "");
        const seen = JSON.stringify(soFar);
        if (soFar.length > 0 && seen !== drawn) {
          drawn = seen;
          place.replaceChildren(h("h2", {}, "What each costs, so far"), soFarView(soFar, names));
        }
      } else if (line.comparison) {
        place.replaceChildren(h("h2", {}, "What each costs"), comparisonView(line.comparison));
        this.#fillHollow(line.comparison);
        say(summaries(line.comparison).join(" "));
        return;
      } else if (line.error) {
        throw new ApiError("", line); // behind a head that said 200
      }
    }
    throw new Error("The comparison ended before its result.");
  }

  // What the variants answered that nothing is drawn of.
  #fillHollow(comparison) {
    for (const place of byId("compared").querySelectorAll(".hollow")) {
      const [answer] = comparison.variants[Number(place.dataset.variant)]?.answers ?? [];
      if (!answer) continue;
      place.replaceChildren(h("b", {}, answer.label || "nothing"), answer.label ? ` ${Math.round(100 * answer.confidence)}%` : "",
        answer.objects > 1 ? `, and ${plural(answer.objects - 1, "object")} more` : "");
    }
  }

  async #measureHere(variants, picture, signal) {
    const other = variants.find(({ model, attention }) => attention && attention !== model.attention);
    if (other) throw new Error(`From this page only served models can be measured, and none is served with ${other.attention}.`);
    const rounds = Number(byId("rounds").value) || 20;
    const place = h("div", { class: "plots" });
    byId("compared").append(h("h2", {}, "What each costs, by its receipts"),
      h("p", { class: "notice" }, "Measured from this page, one request at a time, forwards and backwards. Other requests share "
        + "the device with these; nothing is held, and there are no intervals."), place);
    const names = variants.map(({ model }) => `${model.name} · ${model.attention}`);
    await measureHere(variants, picture, rounds, (samples, round) => {
      this.#progress("Round", round, rounds);
      const of = (stages, wanted) => stages.filter(({ stage }) => wanted.includes(stage)).reduce((sum, { ms }) => sum + ms, 0);
      const plot = (title, wanted) => h("div", { class: "card" }, rowPlot({ title, format: milliseconds,
        rows: samples.map((requests, i) => {
          const times = requests.map((stages) => of(stages, wanted));
          const { lower, median, upper } = quartiles(times);
          return { name: names[i], colour: variantColour(i), dots: times.slice(-100), value: median, low: lower, high: upper,
            text: milliseconds(median), detail: `${milliseconds(lower)} – ${milliseconds(upper)}` };
        }) }));
      place.replaceChildren(plot("Compute: each request, median and quartiles", ["compute"]),
        plot("The whole request", STAGES), this.#stages(samples, names));
    }, signal);
    this.#status(`${plural(rounds, "round")}, ${plural(2 * rounds, "request")} of each model.`);
  }

  #stages(samples, names) {
    const medians = samples.map((requests) => STAGES.map((stage, at) =>
      ({ stage, ms: quartiles(requests.map((stages) => stages[at].ms)).median })));
    const most = Math.max(...medians.map((stages) => stages.reduce((sum, { ms }) => sum + ms, 0)));
    return h("figure", { class: "card plot" }, h("figcaption", {}, "Median of each stage"),
      h("div", { class: "rows", role: "list" }, medians.map((stages, i) => {
        const total = stages.reduce((sum, { ms }) => sum + ms, 0);
        return h("div", { class: "plot-row", role: "listitem" }, h("span", { class: "name" }, names[i]),
          h("span", { class: "value" }, milliseconds(total)),
          h("span", { class: "timeline", "aria-hidden": "true", style: { width: `${(100 * total) / most}%` } },
            stages.map(({ stage, ms }) => h("span", { title: `${stage}: ${milliseconds(ms)}`,
              style: { "flex-grow": String(ms), "background-color": stageColour(stage) } }))));
      })),
      h("ul", { class: "legend" }, STAGES.map((stage) => h("li", {},
        h("span", { class: "swatch", style: { "background-color": stageColour(stage) } }), h("span", {}, stage)))));
  }
}
