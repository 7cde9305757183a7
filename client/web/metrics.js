// Prometheus' text format, as far as this server writes it, and what follows from two scrapes.

const FAMILIES = new Set([
  "fovea_requests_total", "fovea_request_duration_seconds", "fovea_stage_duration_seconds", "fovea_batch_size",
  "fovea_images_total", "fovea_queue_depth", "fovea_inflight_requests", "fovea_queue_rejected_total",
  "fovea_model_memory_bytes", "process_resident_memory_bytes",
]);
const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;
const SUFFIX = /_(bucket|sum|count)$/;

// [{name, labels, value}...] of the families that the page shows.
export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    if (!line || line[0] === "#") continue;
    const match = LINE.exec(line);
    if (!match) continue;
    const [, name, inside = "", value] = match;
    if (!FAMILIES.has(name) && !FAMILIES.has(name.replace(SUFFIX, ""))) continue;
    const labels = {};
    for (const [, key, escaped] of inside.matchAll(LABEL)) {
      labels[key] = escaped.includes("\\") ? escaped.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c)) : escaped;
    }
    samples.push({ name, labels, value: value === "+Inf" ? Infinity : Number(value) });
  }
  return samples;
}

const keyOf = ({ name, labels }) => `${name}${JSON.stringify(labels)}`;

// A scrape that knows what each counter has grown by since the one before.
export class Scrape {
  // `time`: milliseconds; `before`: null for the first.
  constructor(time, samples, before) {
    this.time = time;
    this.samples = samples;
    this.seconds = before ? (time - before.time) / 1000 : 0;
    this.#values = new Map(samples.map((sample) => [keyOf(sample), sample.value]));
    this.#before = before ? before.#values : null;
  }
  #values;
  #before;

  // Forgets what came before, so that a chain of scrapes does not keep them all.
  settle() {
    this.#before = null;
  }

  #select(name, wanted) {
    return this.samples.filter((sample) => sample.name === name && wanted(sample.labels));
  }
  // The sum of gauges; null where there is none.
  gauge(name, wanted = () => true) {
    const found = this.#select(name, wanted);
    return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0);
  }
  // By how much a counter has grown; a smaller one has begun anew.
  #growth(sample) {
    const before = this.#before?.get(keyOf(sample));
    if (before === undefined) return this.#before ? sample.value : 0;
    return sample.value >= before ? sample.value - before : sample.value;
  }
  growth(name, wanted = () => true) {
    return this.#select(name, wanted).reduce((sum, sample) => sum + this.#growth(sample), 0);
  }
  rate(name, wanted) {
    return this.seconds > 0 ? this.growth(name, wanted) / this.seconds : null;
  }
  // The mean of what a histogram has counted since; null where it was nothing.
  mean(name, wanted) {
    const count = this.growth(`${name}_count`, wanted);
    return count > 0 ? this.growth(`${name}_sum`, wanted) / count : null;
  }
  // As Prometheus' histogram_quantile: within its bucket by straight line; null where nothing was counted.
  quantile(share, name, wanted) {
    const buckets = new Map();
    for (const sample of this.#select(`${name}_bucket`, wanted ?? (() => true))) {
      const bound = sample.labels.le === "+Inf" ? Infinity : Number(sample.labels.le);
      buckets.set(bound, (buckets.get(bound) ?? 0) + this.#growth(sample));
    }
    const bounds = [...buckets.keys()].sort((a, b) => a - b);
    const total = buckets.get(Infinity) ?? 0;
    if (total <= 0) return null;
    const rank = share * total;
    let low = 0;
    let below = 0;
    for (const bound of bounds) {
      const count = buckets.get(bound);
      if (count >= rank) {
        if (bound === Infinity) return low; // beyond the last bound: at least that
        return low + (bound - low) * ((rank - below) / Math.max(count - below, Number.MIN_VALUE));
      }
      low = bound;
      below = count;
    }
    return null;
  }
  values(label) {
    return [...new Set(this.samples.map((sample) => sample.labels[label]).filter(Boolean))].sort();
  }
}
