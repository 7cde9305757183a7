// What the model attends, as pictures over the picture: shown where the server has /v1/explain. The
// fields are those of fovea.v1.Explanation.

import { ask, inWords, isAbort } from "./api.js";
import { awaiting, h, newId, number, percent, plural, problem, say, scrollingTable } from "./dom.js";
import { complain } from "./picture.js";

// The two in the middle follow a class's share, which classifiers alone give.
const METHODS = [
  ["rollout", "Rollout: through all layers"],
  ["attribution", "Attribution: what speaks for the class", "classification"],
  ["gradient_rollout", "Gradient rollout: the same, simpler", "classification"],
  ["maps", "Maps: the weights of each layer"],
  ["measures", "Measures of each layer"],
];
const FITS_MOST = "maps"; // what is asked of other tasks, and where the page's own choice is not defined
const THROUGH_ALL_LAYERS = ["rollout", "attribution", "gradient_rollout"];
const MEASURES = [
  ["cosine_similarity", "Cosine of tokens"], ["attention_standard_deviation", "Deviation of weights"],
  ["attention_norm_ratio", "Attention / input"], ["mlp_norm_ratio", "MLP / input"], ["nonlocality", "Non-locality"],
];

function measuresTable(layers) {
  const shown = (value) => {
    if (Array.isArray(value)) return value.length === 0 ? "–" : number(value.reduce((sum, one) => sum + one, 0) / value.length);
    return number(value ?? NaN);
  };
  return scrollingTable("Measures by layer", ["Layer", ...MEASURES.map(([, title]) => title)],
    layers.map((layer) => [layer.layer, ...MEASURES.map(([field]) => shown(layer[field]))]));
}

const titleOf = (map) => [map.layer, Number.isInteger(map.head) ? `head ${map.head}` : ""].filter(Boolean).join(", ")
  || map.method.toLowerCase().replaceAll("_", " ");

// `figure` shows what is chosen; `model()` and `picture()` say of what.
export function explainPanel(figure, model, picture) {
  const ids = { method: newId("method"), attention: newId("attention"), x: newId("x"), y: newId("y") };
  const method = h("select", { id: ids.method }, METHODS.map(([value, text]) => h("option", { value }, text)));
  const attention = h("input", { id: ids.attention, type: "text", list: "attentions", autocomplete: "off", spellcheck: "false",
    placeholder: "the model's own" });
  const heads = h("input", { type: "checkbox" });
  const headsLabel = h("label", { class: "check", hidden: true }, heads, " Each head");
  const [x, y] = ["x", "y"].map((name) => h("input", { id: ids[name], type: "number", min: "0", step: "1", placeholder: "any" }));
  const placeFields = [x, y].map((input, i) => h("div", {}, h("label", { for: input.id }, i === 0 ? "Seen from x" : "and y"), input));
  const placeHint = h("p", { class: "quiet-text" }, "A click on the picture sets the place to see from.");
  const button = h("button", { type: "button", class: "primary" }, "Explain");
  const results = h("div", { class: "explanation" });
  const wait = h("div", {});
  const beside = { method: h("div", { class: "field-error" }), attention: h("div", { class: "field-error" }) };
  let abort = null;
  let chosen = false; // the method, by hand
  const unfit = new Map(); // why a method is not defined, by modelKey and method

  const modelKey = () => JSON.stringify([model()?.name, model()?.version, attention.value.trim()]);
  const whyUnfit = (value) => {
    const task = METHODS.find(([name]) => name === value)[2];
    if (task && model()?.task && model().task !== task) return "It follows a class's share, and this model gives boxes or maps.";
    return unfit.get(modelKey() + value);
  };
  // Offers the methods that fit, as far as that is known.
  const offer = () => {
    for (const option of method.options) {
      const why = whyUnfit(option.value);
      option.disabled = Boolean(why);
      option.title = why ?? "";
    }
    const follows_tokens = !model()?.task || model().task === "classification"; // others have pyramids, most of them
    if (!chosen) method.value = follows_tokens ? METHODS[0][0] : FITS_MOST;
    if (method.selectedOptions[0]?.disabled) method.value = METHODS.find(([value]) => value === FITS_MOST)[0];
    headsLabel.hidden = method.value !== "maps";
    for (const field of [...placeFields, placeHint]) field.hidden = method.value === "measures";
  };

  const choose = (chosen, url, place) => {
    for (const other of results.querySelectorAll("button.map")) other.setAttribute("aria-pressed", String(other === chosen));
    figure.showOverlay(url, place);
  };
  const show = (explanation, notes, key, place) => {
    const grids = new Set((explanation.maps ?? []).map((map) => `${map.rows}x${map.columns}`));
    if (grids.size > 1) {
      const why = "It follows the same tokens through all layers, and this model's layers differ in theirs.";
      for (const name of THROUGH_ALL_LAYERS) unfit.set(key + name, why);
      offer();
    }
    const maps = (explanation.maps ?? []).filter((map) => map.png).map((map) => {
      const url = `data:image/png;base64,${map.png}`;
      const tile = h("button", { type: "button", class: "map", "aria-pressed": "false", onclick: () => {
        const off = tile.getAttribute("aria-pressed") === "true";
        choose(off ? null : tile, off ? null : url, place);
      } }, h("img", { src: url, alt: "" }), h("span", {}, titleOf(map)));
      return [tile, url];
    });
    results.replaceChildren(...notes);
    if (explanation.weights_of_attention) {
      results.append(h("p", { class: "notice" }, h("b", {}, explanation.attention), ": same weights, not fine-tuned. They were "
        + "trained with ", h("b", {}, explanation.weights_of_attention), "."));
    }
    if (explanation.target_label) {
      results.append(h("p", { class: "quiet-text" }, "Class: ", h("b", {}, explanation.target_label),
        ` ${percent(explanation.target_probability, 0)}`));
    }
    if (maps.length > 0) {
      results.append(h("div", { class: "maps" }, maps.map(([tile]) => tile)),
        h("p", { class: "scale" }, "least", h("span", { class: "viridis", "aria-hidden": "true" }), "most"));
    }
    if (explanation.measures?.length > 0) results.append(measuresTable(explanation.measures));
    if (maps.length > 0) {
      choose(...maps.at(-1), place);
      figure.element.scrollIntoView({ block: "nearest" }); // where it is drawn
    }
    say(maps.length > 0 ? `${plural(maps.length, "picture")} of attention: ${titleOf(explanation.maps.at(-1))} lies over the picture.`
      : "Measures of each layer.");
  };

  const clearErrors = () => {
    for (const place of Object.values(beside)) place.replaceChildren();
  };
  const run = async (notes = []) => {
    clearErrors();
    if (!picture()) {
      complain("Choose a picture first.");
      return document.querySelector("#look .choose").focus();
    }
    if (!model()) return beside.method.replaceChildren(problem({ text: "Name a model first." }));
    abort?.abort();
    const own = (abort = new AbortController());
    const asked = method.value;
    const key = modelKey();
    const form = new FormData();
    form.append("image", picture().file);
    form.append("model", model().name);
    form.append("method", method.value);
    form.append("picture_form", "heat"); // the page lays it over the picture by itself
    if (attention.value.trim()) form.append("attention", attention.value.trim());
    if (method.value === "maps" && heads.checked) form.append("every_head", "true");
    const seen_from = x.value !== "" && y.value !== "" && method.value !== "measures" ? { x: Number(x.value), y: Number(y.value) }
      : null;
    if (seen_from) {
      form.append("x", x.value);
      form.append("y", y.value);
    }
    results.setAttribute("aria-busy", "true");
    const ended = awaiting(wait, `Explaining with ${model().name}`, () => own.abort());
    try {
      const answer = await ask("v1/explain", { method: "POST", body: form, signal: own.signal,
        headers: { Accept: "application/json" } });
      show(await answer.json(), notes, key, seen_from);
    } catch (error) {
      if (isAbort(error)) return;
      if (error.reason === "explain.unfit") unfit.set(key + asked, error.told);
      figure.showOverlay(null);
      results.replaceChildren();
      const told = inWords(error);
      if (error.reason === "explain.unfit" && !chosen && asked !== FITS_MOST) {
        offer();
        return run([h("p", { class: "notice" }, `${told.text} These are the weights of its layers instead.`)]);
      }
      const place = error.reason === "explain.unfit" ? beside.method : attention.value.trim() && error.status === 400
        ? beside.attention : results;
      place.replaceChildren(problem(told));
      say(`Error. ${told.text}`);
      offer();
    } finally {
      ended();
      if (abort === own) results.removeAttribute("aria-busy");
    }
  };
  button.addEventListener("click", () => run());
  method.addEventListener("change", () => {
    chosen = true;
    offer();
  });
  attention.addEventListener("input", offer);

  const controls = h("div", { class: "controls" },
    h("div", { class: "fields" },
      h("div", {}, h("label", { for: ids.method }, "Method"), method, beside.method),
      h("div", {}, h("label", { for: ids.attention }, "Attention in place of its own"), attention, beside.attention)),
    h("div", { class: "row end" }, placeFields, button),
    placeHint, headsLabel);
  const notHere = h("p", { class: "quiet-text", hidden: true },
    "This server explains nothing: start it with ", h("code", {}, "--enable-experiments"), ".");
  const element = h("section", { class: "card", hidden: true, "aria-labelledby": "explain-title" },
    h("h2", { id: "explain-title" }, "What it attends"), notHere, controls, wait, results);
  offer();
  figure.onPlace((place) => {
    if (element.hidden || controls.hidden) return;
    x.value = String(place.x);
    y.value = String(place.y);
    run();
  });
  return {
    element,
    allow(allowed) {
      controls.hidden = !allowed;
      notHere.hidden = allowed;
    },
    reset() {
      abort?.abort();
      results.replaceChildren();
      clearErrors();
      offer();
      x.value = y.value = "";
      figure.showOverlay(null);
    },
  };
}
