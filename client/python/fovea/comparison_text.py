"""A comparison for people: a table in HTML, as notebooks show it, and one in plain text.

The HTML has no script and no colours of its own but for the bars: texts and lines are the page's, light or dark.
"""

from __future__ import annotations

import dataclasses
import math
from html import escape
from typing import TYPE_CHECKING

from fovea import tables
from fovea.estimates import attention_left_out_note, provenance_notes

if TYPE_CHECKING:
    from fovea.comparison import (
        ComparedTime,
        ComparedVariant,
        Comparison,
    )
    from fovea.estimates import Estimate, Quartiles

_VERDICTS = {
    "": "unknown: the server is newer",
    "FASTER": "faster",
    "SLOWER": "slower",
    "EQUIVALENT": "equivalent",
    "UNDECIDED": "undecided",
    "NO_DIFFERENCE": "undecided",  # of an earlier server
    "FEW_ROUNDS": "undecided: too few rounds",
    "UNSTEADY": "undecided: times unsteady",
    "CONTROL_OFF": "undecided: the control is off",
    "WIDE": "undecided: interval too wide",
}
# Seen on white as on black; of Okabe and Ito's, as everywhere in Fovea.
_BAR = "#0072b2"
_PART = "#e69f00"


@dataclasses.dataclass(frozen=True)
class _Cell:
    text: str
    spread: str = ""  # the interval around it
    # Shares of the cell's width: the bar, and of it the part in another colour.
    bar: float | None = None
    part: float = 0


def html(comparison: Comparison) -> str:
    """A table and what is to be known of it. Every text of the server's is escaped."""
    head, *body = _rows(comparison)
    lines = [
        '<div class="fovea-comparison">',
        *tables.html(
            [one.text for one in head],
            (map(_inside, row) for row in body),
            _title(comparison),
        ),
        *tables.html_notes(_notes(comparison)),
        "</div>",
    ]
    return "\n".join(lines)


def plain(comparison: Comparison) -> str:
    rows = [
        [f"{one.text} {one.spread}".rstrip() for one in row]
        for row in _rows(comparison)
    ]
    lines = [_title(comparison), *tables.aligned(rows), *_notes(comparison)]
    return "\n".join(lines)


def _rows(comparison: Comparison) -> list[list[_Cell]]:
    """The head, then a row for each variant, then the control."""
    variants = comparison.variants
    slowest = max((one.compute.ms.median for one in variants), default=0)
    fullest = max((one.peak_bytes for one in variants), default=0)
    names = _names(comparison)
    head = ["variant", "compute ms", "to the baseline", "verdict", "attention ms"]
    head += ["images/s", "peak MiB", "G multiply-adds", "agreement"]
    figures = comparison.dataset.rows() if comparison.dataset is not None else []
    shown = [
        name
        for name in (figures or [{}])[0]
        if f"{name}_difference_lower" in figures[0]
    ]
    rows = [[_Cell(text) for text in [*head, *shown]]]
    for place, one in enumerate(variants):
        time = one.compute.ms.median
        row = [
            _Cell(names[place]),
            _Cell(
                *_median(one.compute.ms),
                _share(time, slowest),
                _share(one.attention_ms.median, slowest) if one.attention_ms else 0,
            ),
            _Cell(*_ratio(one.compute.ratio)),
            _Cell(_VERDICTS[one.compute.verdict] if place > 0 else "baseline"),
            _Cell(*_median(one.attention_ms)) if one.attention_ms else _Cell("-"),
            _Cell(f"{one.images_per_second:.1f}"),
            _Cell(
                f"{one.peak_bytes / 2**20:.1f}",
                bar=_share(one.peak_bytes, fullest),
            ),
            _Cell(f"{one.multiply_adds / 1e9:.3f}" if one.multiply_adds else "-"),
            _Cell(_agreement(one)),
            *(_figure(figures[place], name) for name in shown),
        ]
        rows.append(row)
    if variants:
        control = _control(comparison.control)
        rows.append(control + [_Cell("")] * len(shown))
    return rows


def _figure(of: dict[str, float | None], name: str) -> _Cell:
    """On the data set; the spread is of the figure, and of its difference to the first one's."""
    value, lower, upper = of[name], of[f"{name}_lower"], of[f"{name}_upper"]
    text = "" if value is None or math.isnan(value) else f"{value:.4f}"
    spread = "" if lower is None else f"({lower:.4f} to {upper:.4f})"
    least, most = of[f"{name}_difference_lower"], of[f"{name}_difference_upper"]
    if least is not None:
        spread += f", {of[f'{name}_difference']:+.4f} ({least:+.4f} to {most:+.4f})"
    return _Cell(text, spread)


def _control(control: ComparedTime) -> list[_Cell]:
    row = [_Cell("the first one again"), _Cell(*_median(control.ms))]
    row += [_Cell(*_ratio(control.ratio)), _Cell("control")]
    return row + [_Cell("")] * 5


def _names(comparison: Comparison) -> list[str]:
    return tables.labels(
        [
            (one.model_name, one.model_version, one.attention)
            for one in comparison.variants
        ]
    )


def _title(comparison: Comparison) -> str:
    names = dict.fromkeys(one.model_name for one in comparison.variants)
    return (
        f"{', '.join(names)} on {comparison.device}, {tables.count(comparison.threads, 'thread')}: "
        f"{tables.count(comparison.rounds, 'round')}, batches of {comparison.batch_size}, "
        f"{tables.count(len(comparison.images), 'picture')}"
    )


def _notes(comparison: Comparison) -> list[str]:
    notes = [
        "Times are medians with quartiles, ratios with a 95% interval. Equivalent: within 5%."
    ]
    for name, one in zip(_names(comparison), comparison.variants, strict=True):
        if one.weights_of_attention:
            notes.append(
                f"{name}: same weights as {one.weights_of_attention}, not fine-tuned."
            )
        if one.attention_left_out:
            notes.append(attention_left_out_note(name))
    if comparison.dataset is not None:
        data = comparison.dataset
        notes.append(
            f"On {data.dataset}, {tables.count(data.pictures, 'picture')}: figures with a 95% interval, then the difference to the first "
            "one's on the same pictures."
        )
    untrained = dict.fromkeys(
        one.model_name for one in comparison.variants if one.untrained
    )
    notes += [
        f"{name} is untrained: what it finds means nothing." for name in untrained
    ]
    return notes + provenance_notes(comparison.measured)


def _agreement(variant: ComparedVariant) -> str:
    from fovea.comparison import ClassAgreement, MapAgreement, ObjectAgreement

    parts: list[str] = []
    match variant.agreement:
        case ClassAgreement() as one:
            parts.append(f"same class {one.same_top1} of {one.images}")
            parts.append(f"KL {one.kl_divergence:.3g}")
        case ObjectAgreement() as one:
            parts.append(
                f"{one.matched} of {one.baseline_objects} objects, {one.objects} found"
            )
            parts.append(f"box IoU {one.mean_box_iou:.3f}")
            if one.mean_mask_iou is not None:
                parts.append(f"mask IoU {one.mean_mask_iou:.3f}")
        case MapAgreement() as one:
            parts.append(f"{100 * one.same_pixels:.1f} % of pixels")
            parts.append(f"mIoU {one.mean_iou:.3f}")
    if variant.feature_cosine is not None:
        parts.append(f"cosine {variant.feature_cosine:.4f}")
    return ", ".join(parts)


def _median(of: Quartiles) -> tuple[str, str]:
    return f"{of.median:.3f}", f"({of.lower:.3f} to {of.upper:.3f})"


def _ratio(of: Estimate | None) -> tuple[str, str]:
    if of is None:
        return "", ""
    return f"{of.value:.3f}×", f"({of.lower:.3f} to {of.upper:.3f})"


def _share(value: float, most: float) -> float:
    return min(1.0, max(0.0, value / most)) if most > 0 else 0.0


def _inside(cell: _Cell) -> str:
    spread = ""
    if cell.spread:
        style = 'style="white-space:nowrap"'
        spread = f"<br><small {style}>{escape(cell.spread)}</small>"
    return escape(cell.text) + spread + _bar(cell)


def _bar(cell: _Cell) -> str:
    if cell.bar is None:
        return ""
    part = min(cell.part, cell.bar)
    return (
        '<div aria-hidden="true" style="height:4px;margin-top:2px;display:flex">'
        f'<span style="width:{100 * part:.1f}%;background:{_PART}"></span>'
        f'<span style="width:{100 * (cell.bar - part):.1f}%;background:{_BAR}"></span>'
        "</div>"
    )
