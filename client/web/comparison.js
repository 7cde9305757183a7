// What came out of a comparison, as plots, a table and words. The fields are those of
// fovea.v1.Comparison.

import { bytes, h, milliseconds, number, percent, plural, scrollingTable } from "./dom.js";
import { rowPlot } from "./plots.js";

const COLOURS = ["#8a8f98", "#0b84a5", "#e08e0b", "#1a9e77", "#c8447a", "#7a68c4", "#b0671f", "#5b9bd5"];
export const variantColour = (index) => COLOURS[index % COLOURS.length];

const VERDICTS = {
  FASTER: ["faster", "good", "its interval lies below 1 and the control's"],
  SLOWER: ["slower", "bad", "its interval lies above 1 and the control's"],
  EQUIVALENT: ["equivalent", "", "its interval lies within 5% of 1"],
  UNDECIDED: ["undecided", "doubt", "its interval lies neither within 5% of 1 nor beyond both 1 and the control's"],
  FEW_ROUNDS: ["undecided: few rounds", "doubt", "too few rounds for an interval"],
  UNSTEADY: ["undecided: unsteady", "doubt", "times are autocorrelated over many rounds"],
  CONTROL_OFF: ["undecided: control off", "doubt", "the baseline differs from itself: something else moved the times"],
  WIDE: ["undecided: wide", "doubt", "an interval is wider than a tenth"],
};

export function variantName(variant, variants) {
  const several = variants.some((other) => other.model_name !== variant.model_name);
  return several ? `${variant.model_name} · ${variant.attention}` : variant.attention;
}

const ratio = (value) => `${value.toFixed(2)}×`;
const range = ({ lower, upper }, format) => `${format(lower)} – ${format(upper)}`;

function verdictBadge(time) {
  const [text, kind, why] = VERDICTS[time?.verdict] ?? ["baseline", "", "what the others are measured against"];
  return h("span", { class: `badge ${kind}`, title: why }, text);
}

// How much of the baseline's answer is kept, as a share and in words; null: nothing is told.
export function agreementOf(variant) {
  const { classes, objects, maps } = variant;
  if (classes?.images) {
    return { share: classes.same_top1 / classes.images, name: "same best class",
      text: `${classes.same_top1} of ${classes.images}`,
      detail: `KL ${number(classes.kl_divergence)} nats, five best ${percent(classes.top5_overlap, 0)}` };
  }
  if (objects) {
    const most = Math.max(objects.objects, objects.baseline_objects);
    const masks = objects.mean_mask_iou === undefined || objects.mean_mask_iou === null ? ""
      : `, of masks ${percent(objects.mean_mask_iou, 0)}`;
    return { share: most > 0 ? objects.matched / most : 1, name: "objects of any score matched",
      text: `${objects.matched} of ${most}`, detail: `the baseline has ${objects.baseline_objects}, this ${objects.objects}, overlap of boxes ${
        percent(objects.mean_box_iou, 0)}${masks}` };
  }
  if (maps) {
    return { share: maps.same_pixels, name: "same pixels", text: percent(maps.same_pixels),
      detail: `mean overlap of classes ${percent(maps.mean_iou, 0)}` };
  }
  return null;
}

// `times`: {ms, detail} of each.
function computePlot(title, times, names) {
  return rowPlot({
    title,
    format: (value) => milliseconds(value),
    rows: times.map(({ ms, detail }, i) => ({ name: names[i], colour: variantColour(i), value: ms.median, low: ms.lower,
      high: ms.upper, text: milliseconds(ms.median), detail })),
  });
}

// While the server measures: ComparisonProgress.so_far, which has no intervals.
export function soFarView(soFar, names) {
  const rows = soFar.map((time, i) => ({ name: names[i], colour: variantColour(i), value: time.ratio, text: ratio(time.ratio) }));
  return h("div", { class: "plots" },
    h("div", { class: "card" }, computePlot("Compute of a batch so far: median and quartiles",
      soFar.map(({ compute_ms: ms }) => ({ ms, detail: range(ms, milliseconds) })), names)),
    h("div", { class: "card" }, rowPlot({ title: "Compute against the baseline so far: ratio", format: ratio, fromZero: false,
      line: 1, rows })));
}

function ratioPlot(comparison, names) {
  const control = comparison.control?.ratio;
  const rows = comparison.variants.map((variant, i) => ({ variant, i, ratio: variant.compute.ratio }))
    .filter((row) => row.ratio);
  if (rows.length === 0) return null;
  return rowPlot({
    title: "Compute against the baseline: ratio, interval of 95%",
    format: ratio, fromZero: false, line: 1,
    band: control ? [control.lower, control.upper] : undefined,
    bandName: control ? `The control: what the baseline differs from itself by, ${range(control, ratio)}.` : "",
    rows: rows.map(({ variant, i, ratio: estimate }) => ({
      name: names[i], colour: variantColour(i), value: estimate.value, low: estimate.lower, high: estimate.upper,
      text: ratio(estimate.value), detail: range(estimate, ratio),
    })),
  });
}

// `value`: undefined where there is none.
function barPlot(title, comparison, names, value, format, binary = false) {
  return rowPlot({ title, format, binary, rows: comparison.variants.map((variant, i) => {
    const found = value(variant);
    return { name: names[i], colour: variantColour(i), bar: true, value: found, text: found === undefined ? "–" : format(found) };
  }) });
}

// Of an image; 0 stands for not counted.
const multiplyAdds = (variant) => variant.multiply_adds || undefined;

function agreementPlot(comparison, names) {
  const rows = comparison.variants.map((variant, i) => ({ i, agreement: agreementOf(variant) }))
    .filter((row) => row.agreement);
  if (rows.length === 0) return null;
  return rowPlot({
    title: `Agreement with the baseline: ${rows[0].agreement.name}`,
    format: (value) => percent(value, 0), upTo: 1,
    rows: rows.map(({ i, agreement }) => ({ name: names[i], colour: variantColour(i), bar: true,
      value: agreement.share, text: agreement.text, detail: agreement.detail })),
  });
}

function table(comparison, names) {
  const heads = ["Variant", "Verdict", "Compute", "Against the baseline", "Attention alone", "After the model",
    "Images a second", "Peak of tensors", "Weights", "Multiply-adds", "Agreement", "Cosine of features"];
  const quartile = (one) => (one ? [milliseconds(one.median), h("small", {}, range(one, milliseconds))] : ["–"]);
  const rows = comparison.variants.map((variant, i) => {
    const agreement = agreementOf(variant);
    const estimate = variant.compute.ratio;
    return [
      [h("span", { class: "swatch", style: { "background-color": variantColour(i) } }), names[i]],
      verdictBadge(variant.compute),
      quartile(variant.compute.ms),
      estimate ? [ratio(estimate.value), h("small", {}, range(estimate, ratio))] : "–",
      quartile(variant.attention_ms),
      quartile(variant.postprocess_ms),
      number(variant.images_per_second),
      bytes(variant.peak_bytes),
      bytes(variant.weight_bytes),
      multiplyAdds(variant) ? number(multiplyAdds(variant)) : "–",
      agreement ? [agreement.text, h("small", {}, agreement.detail)] : "–",
      Number.isFinite(variant.feature_cosine) ? variant.feature_cosine.toFixed(4) : "–",
    ];
  });
  return scrollingTable("All numbers of the comparison", heads, rows, "compared");
}

// In a sentence for each, for the ear and for who is in a hurry.
export function summaries(comparison) {
  const { variants } = comparison;
  const names = variants.map((variant) => variantName(variant, variants));
  return variants.slice(1).map((variant, i) => {
    const [verdict] = VERDICTS[variant.compute.verdict] ?? ["not measured"];
    const agreement = agreementOf(variant);
    const times = variant.compute.ratio ? ` (${ratio(variant.compute.ratio.value)} the time of ${names[0]})` : "";
    return `${names[i + 1]}: ${verdict}${times}${agreement ? `, ${agreement.name} ${agreement.text}` : ""}.`;
  });
}

export function comparisonView(comparison) {
  const { variants } = comparison;
  const names = variants.map((variant) => variantName(variant, variants));
  const notes = variants.filter((variant) => variant.weights_of_attention).map((variant) =>
    h("p", { class: "notice" }, h("b", {}, variant.attention), ": same weights, not fine-tuned. They were trained with ",
      h("b", {}, variant.weights_of_attention), ", so that its times are what this attention costs, and its answers are not "
      + "what a model trained for it would give."));
  if (variants.some((variant) => variant.untrained)) {
    notes.push(h("p", { class: "notice" }, "Some weights are random numbers: what these find means nothing."));
  }
  for (const [i, variant] of variants.entries()) {
    if (!variant.attention_left_out) continue;
    notes.push(h("p", { class: "notice" }, "The attention time of ", h("b", {}, names[i]),
      " is left out: it would exceed compute, of which it is a part."));
  }
  const { measured } = comparison;
  if (measured?.busy) {
    notes.push(h("p", { class: "notice" }, `The machine was busy: other programs used ${number(measured.other_cores)} of `
      + `${plural(measured.cores, "core")}, so that times are longer and vary more than on a quiet machine. Stop them, or `
      + "measure on fewer threads."));
  }
  const batch = comparison.batch_size > 1 ? `batches of ${comparison.batch_size}` : "one image at a time";
  const link = h("a", { class: "button quiet", download: "comparison.json",
    href: `data:application/json,${encodeURIComponent(JSON.stringify(comparison, null, 2))}` }, "Save as JSON");
  return h("div", { class: "comparison" },
    h("ul", { class: "summary" }, summaries(comparison).map((sentence) => h("li", {}, sentence))),
    h("p", { class: "quiet-text" }, `${comparison.rounds} rounds, ${batch}, ${plural(comparison.threads, "thread")} of `
      + `${comparison.device}, on a lane of its own. Rounds beyond those asked for were added while a verdict was missing. A `
      + "ratio is the median of the rounds' own ratios: where the speed changes between rounds, that of the medians is another.",
      measured ? ` Measured ${measured.at} by ${measured.by} on ${plural(measured.cores, "core")} of ${measured.processor}.` : ""),
    notes,
    h("div", { class: "plots" },
      h("div", { class: "card" }, computePlot("Compute of a batch: median and quartiles", variants.map((variant) => ({
        ms: variant.compute.ms,
        detail: variant.attention_ms ? `attention ${milliseconds(variant.attention_ms.median)}` : "",
      })), names)),
      h("div", { class: "card" }, ratioPlot(comparison, names)
        ?? h("p", { class: "quiet-text" }, "Too few rounds for intervals.")),
      h("div", { class: "card" }, barPlot("Most bytes of tensors at one time", comparison, names,
        (variant) => variant.peak_bytes, bytes, true)),
      h("div", { class: "card" }, agreementPlot(comparison, names)
        ?? barPlot("Multiply-adds of an image", comparison, names, multiplyAdds, number))),
    table(comparison, names),
    h("p", { class: "row" }, link));
}
