// The server's own metrics while this page looks: rates, latency, stages, queues, batches, memory.

import { ask, inWords, isAbort } from "./api.js";
import { byId, bytes, h, milliseconds, number, problem, say, scrollingTable, shortName } from "./dom.js";
import { Scrape, parseMetrics } from "./metrics.js";
import { TimePlot } from "./plots.js";
import { STAGES, stageColour } from "./receipt.js";

const PERIOD_MS = 2000;
const KEPT = 120; // points of each curve

const ms = (seconds) => (seconds === null ? null : seconds * 1000);

// What is shown of a scrape, for the series that `wanted` lets through.
function pointsOf(scrape, wanted) {
  const failed = (labels) => wanted(labels) && labels.code !== "OK";
  const good = (labels) => wanted(labels) && labels.code === "OK";
  const requests = scrape.growth("fovea_request_duration_seconds_count", wanted);
  const stages = STAGES.map((stage) => (requests > 0
    ? (1000 * scrape.growth("fovea_stage_duration_seconds_sum", (labels) => wanted(labels) && labels.stage === stage)) / requests
    : null));
  const memory = (kind) => scrape.gauge("fovea_model_memory_bytes", (labels) => wanted(labels) && labels.kind === kind);
  return {
    rate: [scrape.rate("fovea_requests_total", good), scrape.rate("fovea_requests_total", failed)],
    latency: [0.5, 0.95, 0.99].map((share) => ms(scrape.quantile(share, "fovea_request_duration_seconds", wanted))),
    stages,
    queue: [scrape.gauge("fovea_queue_depth", wanted), scrape.gauge("fovea_inflight_requests")],
    batch: [scrape.mean("fovea_batch_size", wanted)],
    memory: [memory("weights"), memory("activations_peak"), scrape.gauge("process_resident_memory_bytes")],
  };
}

const PLOTS = {
  rate: { title: "Requests a second", format: number, series: [["answered", "var(--good)"], ["failed", "var(--bad)"]] },
  latency: { title: "Latency", note: "quantiles within the buckets of the histogram", format: milliseconds,
    series: [["p50", "var(--accent)"], ["p95", "var(--second)"], ["p99", "var(--third)"]] },
  stages: { title: "Mean time of a request by stage", format: milliseconds, stacked: true,
    series: STAGES.map((stage) => [stage, stageColour(stage)]) },
  queue: { title: "Requests that wait, and under way", note: "under way: of all models", format: number,
    series: [["in queues", "var(--accent)"], ["under way", "var(--second)"]] },
  batch: { title: "Images in a batch, mean", format: number, series: [["images", "var(--accent)"]] },
  memory: { title: "Memory", note: "the process: of everything", format: bytes, binary: true,
    series: [["weights", "var(--accent)"], ["peak of activations", "var(--second)"], ["the process", "var(--third)"]] },
};

const COLUMNS = ["Model", "Task", "Attention", "Requests a second", "p50", "p99", "Images in a batch", "In the queue", "Weights",
  "Peak of activations"];
const WORDS = 3; // the first of them

// What the states of Triton's index mean.
const STATES = { LOADING: "is being loaded", UNLOADING: "is being unloaded", UNAVAILABLE: "is not served", UNKNOWN: "is not served" };

export class ServerView {
  #shown = false;
  #paused = false;
  #timer = 0;
  #abort = null;
  #before = null;
  #times = [];
  #history = [];
  #plots = {};
  #wanted = () => true;
  #versions = new Map();

  constructor() {
    for (const [name, plot] of Object.entries(PLOTS)) {
      this.#plots[name] = new TimePlot(plot);
      byId("server-plots").append(this.#plots[name].element);
    }
    byId("models-heads").replaceChildren(...COLUMNS.map((name, i) =>
      h("th", { scope: "col", class: i < WORDS ? "word" : undefined }, name)));
    byId("pause").addEventListener("click", () => {
      this.#paused = !this.#paused;
      byId("pause").textContent = this.#paused ? "Go on" : "Pause";
      say(this.#paused ? "Paused." : "Going on.");
      this.#schedule(0);
    });
    byId("filter").addEventListener("change", () => this.#filter());
    document.addEventListener("visibilitychange", () => this.#schedule(0));
  }

  // Of each name the version that is served, or is to be: those that are not ready are listed, with the reason.
  setModels(models) {
    this.#versions = new Map(models.map((model) => [model.name, model.version]));
    const others = models.filter((model) => model.state !== "READY");
    byId("server-models").replaceChildren(...(others.length === 0 ? [] : [h("div", { class: "card" },
      scrollingTable("Models that are not ready", ["Model", "Version", "State", "Reason"], others.map((model) => [
        model.name, model.version || "–",
        Object.hasOwn(STATES, model.state) ? STATES[model.state] : model.state.toLowerCase(), model.reason || "–"]), "reasons"))]));
  }

  show(on) {
    this.#shown = on;
    this.#schedule(0);
  }

  #filter() {
    const [label, ...rest] = byId("filter").value.split("=");
    const value = rest.join("=");
    this.#wanted = label ? (labels) => labels[label] === value : () => true;
    this.#times = [];
    this.#history = [];
    this.#schedule(0);
  }

  // Nothing is asked while nobody looks.
  #schedule(delay_ms) {
    clearTimeout(this.#timer);
    const looks = this.#shown && !this.#paused && !document.hidden;
    byId("server-state").textContent = looks ? `every ${PERIOD_MS / 1000} s` : "paused";
    if (looks) this.#timer = setTimeout(() => this.#scrape(), delay_ms);
    else this.#abort?.abort();
  }

  async #scrape() {
    this.#abort?.abort();
    this.#abort = new AbortController();
    try {
      const answer = await ask("metrics", { signal: this.#abort.signal });
      const text = await answer.text();
      this.#take(text);
      byId("server-problem").replaceChildren();
    } catch (error) {
      if (isAbort(error)) return;
      byId("server-problem").replaceChildren(problem(inWords(error)));
      if (error.status === 401 || error.status === 403) return; // asking again changes nothing
    }
    this.#schedule(PERIOD_MS);
  }

  #take(text) {
    const scrape = new Scrape(performance.now(), parseMetrics(text), this.#before);
    this.#offerFilters(scrape);
    if (this.#before) {
      this.#times.push(scrape.time);
      this.#history.push(pointsOf(scrape, this.#wanted));
      if (this.#times.length > KEPT) {
        this.#times.shift();
        this.#history.shift();
      }
      for (const [name, { series }] of Object.entries(PLOTS)) {
        this.#plots[name].update(this.#times, series.map(([label, colour], i) =>
          ({ name: label, colour, values: this.#history.map((point) => point[name][i]) })));
      }
      this.#table(scrape);
    }
    scrape.settle();
    this.#before = scrape;
  }

  #offerFilters(scrape) {
    const options = [["", "Everything"],
      ...scrape.values("attention").map((value) => [`attention=${value}`, `attention ${value}`]),
      ...scrape.values("model").filter((value) => value !== "other").map((value, i, all) =>
        [`model=${value}`, `model ${shortName(value, all)}`])];
    const select = byId("filter");
    if (select.options.length === options.length) return;
    const chosen = select.value;
    select.replaceChildren(...options.map(([value, name]) => h("option", { value }, name)));
    select.value = chosen;
    if (select.selectedIndex < 0) select.selectedIndex = 0;
  }

  #table(scrape) {
    const models = scrape.values("model").filter((model) => model !== "other");
    const rows = models.map((model) => {
      const own = (labels) => labels.model === model;
      const { attention = "", task = "" } = scrape.samples.find((one) => own(one.labels) && one.labels.attention)?.labels ?? {};
      const latency = [0.5, 0.99].map((share) => ms(scrape.quantile(share, "fovea_request_duration_seconds", own)));
      const cells = [number(scrape.rate("fovea_requests_total", own)),
        ...latency.map((value) => milliseconds(value ?? NaN)), number(scrape.mean("fovea_batch_size", own) ?? NaN),
        number(scrape.gauge("fovea_queue_depth", own) ?? NaN),
        bytes(scrape.gauge("fovea_model_memory_bytes", (labels) => own(labels) && labels.kind === "weights") ?? NaN),
        bytes(scrape.gauge("fovea_model_memory_bytes", (labels) => own(labels) && labels.kind === "activations_peak") ?? NaN)];
      const version = this.#versions.get(model);
      return h("tr", {}, h("th", { scope: "row" }, h("span", {}, model), version ? h("small", {}, ` version ${version}`) : null),
        [task, attention, ...cells].map((cell, i) =>
          h("td", { class: i + 1 < WORDS ? "word" : undefined, "data-head": COLUMNS[i + 1] }, cell)));
    });
    byId("models-rows").replaceChildren(...rows);
  }
}
