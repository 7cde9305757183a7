// A comparison from this page: the same picture to each model in turn, as any client would send it,
// forwards and backwards (ABBA), and what the receipts say. It controls nothing that the server's own
// comparison does: no lane is held, and no interval is told.

import { askJson } from "./api.js";
import { TASKS } from "./models.js";
import { stagesOf } from "./receipt.js";

export function quartiles(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const low = Math.floor(place);
    const high = Math.min(low + 1, sorted.length - 1);
    return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
  };
  return { lower: at(0.25), median: at(0.5), upper: at(0.75) };
}

// The first answer of each variant, with its overlay's formats asked for.
export function askOnce(variant, picture, signal) {
  const query = new URLSearchParams({ model: variant.model.name });
  if (variant.model.task === "detection") {
    query.set("score_threshold", "0.5");
    if (variant.model.hasMasks) query.set("mask_format", "RUN_LENGTHS");
  }
  if (variant.model.task === "segmentation") query.set("map_format", "RUN_LENGTHS");
  return askJson(`${TASKS[variant.model.task].path}?${query}`, { method: "POST", body: picture.file, signal,
    headers: { Accept: "application/json", "Content-Type": picture.file.type || "application/octet-stream" } });
}

// Calls `heard(samples)` after each round: of each variant its stages so far, [{stage, ms}...] a request.
export async function measureHere(variants, picture, rounds, heard, signal) {
  const samples = variants.map(() => []);
  const order = variants.map((_, i) => i);
  for (const i of order) await askOnce(variants[i], picture, signal); // warm: what is first loads caches
  for (let round = 0; round < rounds; ++round) {
    for (const i of [...order, ...order.toReversed()]) {
      const { receipt } = await askOnce(variants[i], picture, signal);
      samples[i].push(stagesOf(receipt));
    }
    heard(samples, round + 1);
  }
  return samples;
}
