// What a request cost, as its receipt says: the stages of its time, which add up to the whole.

import { bytes, h, milliseconds, percent } from "./dom.js";

export const STAGES = ["receive", "decode", "preprocess", "queue", "compute", "postprocess", "encode"];
const MEANINGS = {
  receive: "reading the message", decode: "decoding the picture", preprocess: "resizing it",
  queue: "waiting for the device", compute: "the model", postprocess: "making results of its outputs",
  encode: "writing the answer",
};
export const stageColour = (stage) => `var(--stage-${stage})`;

export function stagesOf(receipt) {
  return STAGES.map((stage) => ({ stage, ms: (receipt[`${stage}_ns`] ?? 0) / 1e6 }));
}

// `seen_ms`: from the page's question to the whole answer.
export function receiptCard(receipt, seen_ms) {
  const stages = stagesOf(receipt);
  const total = stages.reduce((sum, { ms }) => sum + ms, 0);
  const bar = h("div", { class: "timeline", "aria-hidden": "true" }, stages.map(({ stage, ms }) =>
    h("span", {
      title: `${stage}: ${milliseconds(ms)}`,
      style: { "flex-grow": String(Math.max(ms, 0)), "background-color": stageColour(stage) },
    })));
  const legend = h("ul", { class: "legend stages", "aria-label": "Stages" }, stages.map(({ stage, ms }) =>
    h("li", { title: MEANINGS[stage] },
      h("span", { class: "swatch", style: { "background-color": stageColour(stage) } }),
      h("span", {}, stage), h("b", {}, milliseconds(ms)))));
  const facts = [
    ["Batch", receipt.batch_size > 1 ? `${receipt.batch_size} images` : "this image alone"],
    receipt.kernels_ns === undefined
      ? ["Threads", receipt.batch_threads]
      : ["On the GPU", ["h2d", "kernels", "d2h"].map((step) => `${step} ${milliseconds(receipt[`${step}_ns`] / 1e6)}`).join(", ")],
    ["Peak of tensors", bytes(receipt.batch_peak_bytes)],
    receipt.padding > 0 ? ["Padding", percent(receipt.padding, 0)] : null,
    ["Seen by this page", milliseconds(seen_ms)],
    receipt.principal ? ["Asked as", receipt.principal] : null,
  ].filter(Boolean);
  return h("div", { class: "receipt" },
    h("p", { class: "total" }, h("b", {}, milliseconds(total)), " in the server"),
    bar, legend,
    h("dl", { class: "facts" }, facts.map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))));
}
