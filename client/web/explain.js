// What the model attends, as pictures over the picture: shown where the server has /v1/explain. The
// fields are those of fovea.v1.Explanation.

import { ask, inWords, isAbort } from "./api.js";
import { h, newId, number, percent, plural, say } from "./dom.js";

const METHODS = [
  ["rollout", "Rollout: through all layers"],
  ["attribution", "Attribution: what speaks for the class"],
  ["gradient_rollout", "Gradient rollout: the same, simpler"],
  ["maps", "Maps: the weights of each layer"],
  ["measures", "Measures of each layer"],
];
const MEASURES = [
  ["cosine_similarity", "Cosine of tokens"], ["attention_standard_deviation", "Deviation of weights"],
  ["attention_norm_ratio", "Attention / input"], ["mlp_norm_ratio", "MLP / input"], ["nonlocality", "Non-locality"],
];

function measuresTable(layers) {
  const shown = (value) => {
    if (Array.isArray(value)) return value.length === 0 ? "–" : number(value.reduce((sum, one) => sum + one, 0) / value.length);
    return number(value ?? NaN);
  };
  const name = "Measures by layer";
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    h("table", {}, h("caption", {}, name),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Layer"), MEASURES.map(([, title]) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, layers.map((layer) => h("tr", {}, h("th", { scope: "row" }, layer.layer),
        MEASURES.map(([field]) => h("td", {}, shown(layer[field]))))))));
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
  const button = h("button", { type: "button", class: "primary" }, "Explain");
  const results = h("div", { class: "explanation" });
  let abort = null;

  const choose = (chosen, url) => {
    for (const other of results.querySelectorAll("button.map")) other.setAttribute("aria-pressed", String(other === chosen));
    figure.showOverlay(url);
  };
  const show = (explanation) => {
    const maps = (explanation.maps ?? []).filter((map) => map.png).map((map) => {
      const url = `data:image/png;base64,${map.png}`;
      const tile = h("button", { type: "button", class: "map", "aria-pressed": "false", onclick: () => {
        const off = tile.getAttribute("aria-pressed") === "true";
        choose(off ? null : tile, off ? null : url);
      } }, h("img", { src: url, alt: "" }), h("span", {}, titleOf(map)));
      return [tile, url];
    });
    results.replaceChildren();
    if (explanation.weights_of_attention) {
      results.append(h("p", { class: "notice" }, h("b", {}, explanation.attention), ": same weights, not fine-tuned. They were "
        + "trained with ", h("b", {}, explanation.weights_of_attention), "."));
    }
    if (explanation.target_label) {
      results.append(h("p", { class: "quiet-text" }, "Class: ", h("b", {}, explanation.target_label),
        ` ${percent(explanation.target_probability, 0)}`));
    }
    if (maps.length > 0) results.append(h("div", { class: "maps" }, maps.map(([tile]) => tile)));
    if (explanation.measures?.length > 0) results.append(measuresTable(explanation.measures));
    if (maps.length > 0) choose(...maps.at(-1));
    say(maps.length > 0 ? `${plural(maps.length, "picture")} of attention: ${titleOf(explanation.maps.at(-1))} lies over the picture.`
      : "Measures of each layer.");
  };

  const run = async () => {
    if (!model() || !picture()) return;
    abort?.abort();
    abort = new AbortController();
    const form = new FormData();
    form.append("image", picture().file);
    form.append("model", model().name);
    form.append("method", method.value);
    form.append("picture_form", "heat"); // the page lays it over the picture by itself
    if (attention.value.trim()) form.append("attention", attention.value.trim());
    if (method.value === "maps" && heads.checked) form.append("every_head", "true");
    if (x.value !== "" && y.value !== "" && method.value !== "measures") {
      form.append("x", x.value);
      form.append("y", y.value);
    }
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await ask("v1/explain", { method: "POST", body: form, signal: abort.signal,
        headers: { Accept: "application/json" } });
      show(await answer.json());
    } catch (error) {
      if (isAbort(error)) return;
      const { text, token } = inWords(error);
      figure.showOverlay(null);
      results.replaceChildren(h("div", { class: "problem" },
        h("p", {}, error.status === 501 ? "This server explains nothing: start it with --enable-experiments." : text),
        h("p", { class: "token" }, token)));
      say(`Error. ${text}`);
    } finally {
      results.removeAttribute("aria-busy");
    }
  };
  button.addEventListener("click", run);
  method.addEventListener("change", () => {
    headsLabel.hidden = method.value !== "maps";
  });

  const element = h("section", { class: "card", hidden: true, "aria-labelledby": "explain-title" },
    h("h2", { id: "explain-title" }, "What it attends"),
    h("div", { class: "controls" },
      h("div", {}, h("label", { for: ids.method }, "Method"), method),
      h("div", {}, h("label", { for: ids.attention }, "Attention in place of its own"), attention),
      h("div", { class: "fields" },
        h("div", {}, h("label", { for: ids.x }, "Seen from x"), x), h("div", {}, h("label", { for: ids.y }, "and y"), y)),
      h("p", { class: "quiet-text" }, "A click on the picture is a place to see from."),
      headsLabel, h("div", { class: "row" }, button)),
    results);
  figure.onPlace((place) => {
    if (element.hidden) return;
    x.value = String(place.x);
    y.value = String(place.y);
    run();
  });
  return {
    element,
    reset() {
      abort?.abort();
      results.replaceChildren();
      x.value = y.value = "";
      figure.showOverlay(null);
    },
  };
}
