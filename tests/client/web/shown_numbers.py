"""The table of a comparison as the playground is to show it, of the JSON that it saves (fovea.v1.Comparison)."""

from __future__ import annotations

import decimal
import math

Number = float | None
NONE = "–"
VERDICTS = {
    "FASTER": "faster",
    "SLOWER": "slower",
    "EQUIVALENT": "equivalent",
    "UNDECIDED": "undecided",
    "FEW_ROUNDS": "undecided: few rounds",
    "UNSTEADY": "undecided: unsteady",
    "CONTROL_OFF": "undecided: control off",
    "WIDE": "undecided: wide",
}


def fixed(value: float, digits: int) -> str:
    """Halves away from zero, as browsers round; Python's format has them to even."""
    step = decimal.Decimal(1).scaleb(-digits)
    return str(decimal.Decimal(value).quantize(step, decimal.ROUND_HALF_UP))


def number(value: Number) -> str:
    """Three digits that count."""
    if value is None:
        return NONE
    for size, name in ((1e9, " G"), (1e6, " M")):
        if value >= size:
            return number(value / size) + name
    if value >= 1000:
        return f"{math.floor(value + 0.5):,}"
    if value == 0:
        return "0"
    return fixed(value, 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3)  # fmt: skip


def milliseconds(value: float) -> str:
    if value >= 1000:
        return f"{number(value / 1000)} s"
    return f"{number(1000 * value)} µs" if 0 < value < 0.1 else f"{number(value)} ms"


def size(count: float) -> str:
    for name, unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= unit:
            return f"{number(count / unit)} {name}"
    return f"{count} B"


def percent(share: Number, digits: int = 0) -> str:
    return NONE if share is None else f"{fixed(100 * share, digits)}%"


def times(estimate: dict | None) -> str:
    if estimate is None:
        return NONE
    value, lower, upper = (
        f"{fixed(estimate[name], 2)}×" for name in ("value", "lower", "upper")
    )
    return f"{value}{lower} – {upper}"


def quartiles(ms: dict | None) -> str:
    if ms is None:
        return NONE
    lower, median, upper = (
        milliseconds(ms[name]) for name in ("lower", "median", "upper")
    )
    return f"{median}{lower} – {upper}"


def agreement(variant: dict) -> tuple[str, str, float] | None:
    """What is kept of the baseline's answer, in short and beside it, and as a share."""
    if classes := variant.get("classes"):
        short = f"{classes['same_top1']} of {classes['images']}"
        more = f"KL {number(classes['kl_divergence'])} nats, five best {percent(classes['top5_overlap'])}"
        return short, more, classes["same_top1"] / classes["images"]
    if objects := variant.get("objects"):
        most = max(objects["objects"], objects["baseline_objects"])
        more = (
            f"the baseline has {objects['baseline_objects']}, this {objects['objects']}"
        )
        more += f", overlap of boxes {percent(objects['mean_box_iou'])}"
        if objects.get("mean_mask_iou") is not None:
            more += f", of masks {percent(objects['mean_mask_iou'])}"
        share = objects["matched"] / most if most else 1
        return f"{objects['matched']} of {most}", more, share
    if maps := variant.get("maps"):
        more = f"mean overlap of classes {percent(maps['mean_iou'])}"
        return percent(maps["same_pixels"], 1), more, maps["same_pixels"]
    return None


def table_of(comparison: dict) -> list[list[str]]:
    """The cells of each variant, from its verdict on."""
    rows = []
    for variant in comparison["variants"]:
        kept = agreement(variant)
        cosine = variant.get("feature_cosine")
        rows.append(
            [
                VERDICTS.get(variant["compute"].get("verdict"), "baseline"),
                quartiles(variant["compute"]["ms"]),
                times(variant["compute"].get("ratio")),
                quartiles(variant.get("attention_ms")),
                quartiles(variant.get("postprocess_ms")),
                number(variant["images_per_second"]),
                size(variant["peak_bytes"]),
                size(variant["weight_bytes"]),
                number(variant["multiply_adds"]) if variant["multiply_adds"] else NONE,
                kept[0] + kept[1] if kept else NONE,
                NONE if cosine is None else fixed(cosine, 4),
            ]
        )
    return rows


def answer(variant: dict) -> str:
    """What it says of the first picture."""
    first = variant["answers"][0]
    if not first["label"]:
        return "nothing"
    text = f"{first['label']} {math.floor(100 * first['confidence'] + 0.5)}%"
    more = first["objects"] - 1
    if more > 0:
        text += f", and {more} object{'s' if more > 1 else ''} more"
    return text
