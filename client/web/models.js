// The models of the server's repository, with what their descriptions say.

import { askJson } from "./api.js";

export const TASKS = {
  classification: { path: "v1/classify", verb: "Classify" },
  detection: { path: "v1/detect", verb: "Detect" },
  segmentation: { path: "v1/segment", verb: "Segment" },
};

// What may stand in place of a model's attention: examples, which the server checks.
export const SUGGESTED_ATTENTIONS = [
  "dense", "knn:k=100", "knn:k=50", "knn:k=0.5", "knn:k=0.25", "dense:temperature=0.5", "key_only", "aewin", "axial", "criss_cross",
  "cross_shaped", "pale", "shifted_window", "ska", "cska", "conv",
];

const METADATA_AT_A_TIME = 6;

async function describe(entry, signal) {
  const model = { name: entry.name, version: entry.version, state: entry.state, reason: entry.reason };
  if (entry.state !== "READY") return model;
  const metadata = await askJson(
    `v2/models/${encodeURIComponent(entry.name)}/versions/${encodeURIComponent(entry.version)}`, { signal });
  const property = (name) => metadata.properties?.[`fovea.${name}`] ?? "";
  return {
    ...model,
    task: property("task"),
    attention: property("attention"),
    backbone: property("backbone"),
    parameters: Number(property("parameters")),
    precision: property("precision"),
    hasMasks: (metadata.outputs ?? []).some((output) => output.name === "masks"),
  };
}

let known = []; // what listModels gave last: a version that is ready is described once
const entryOf = ({ name, version, state, reason }) => JSON.stringify([name, version, state, reason]);

// Each version, by name; of those that are ready also task, attention, backbone, parameters.
export async function listModels({ signal, anew = true } = {}) {
  const index = await askJson("v2/repository/index", { method: "POST", body: "{}", signal });
  const before = new Map(anew ? [] : known.map((model) => [entryOf(model), model]));
  const models = [];
  for (let at = 0; at < index.length; at += METADATA_AT_A_TIME) {
    const some = index.slice(at, at + METADATA_AT_A_TIME);
    models.push(...(await Promise.all(some.map((entry) => before.get(entryOf(entry)) ?? describe(entry, signal)))));
  }
  return (known = models);
}

// The models of a task, the one to begin with first: of those that are ready the dense ones, as published models are, of these
// the largest.
export function bestFirst(models) {
  const rank = (model) => [model.state === "READY", model.attention === "dense", model.parameters || 0];
  return [...models].sort((one, other) => {
    const [ranks, others] = [rank(one), rank(other)];
    const at = ranks.findIndex((value, i) => value !== others[i]);
    return at < 0 ? one.name.localeCompare(other.name) : Number(others[at]) - Number(ranks[at]);
  });
}

// Of each name the version that is asked where none is named: the latest that is ready.
export function latest(models) {
  const by_name = new Map();
  for (const model of models) {
    const other = by_name.get(model.name);
    const newer = !other || Number(model.version) > Number(other.version);
    if (!other || (model.state === "READY" && (other.state !== "READY" || newer))) {
      by_name.set(model.name, model);
    }
  }
  return [...by_name.values()];
}
