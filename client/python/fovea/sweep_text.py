"""A sweep for people: plots and a table in HTML, as notebooks show them, and a table in plain text."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from fovea import sweep_plot, tables
from fovea.estimates import attention_left_out_note, provenance_notes

if TYPE_CHECKING:
    from collections.abc import Callable

    from fovea.sweep import FittedExponent, Sweep, SweptPoint

_NO_EXPONENT = ("TEMPERATURE", "PRECISION")
_MEASURES: tuple[tuple[str, Callable[[SweptPoint], float | None]], ...] = (
    ("compute, ms", lambda one: one.compute_ms.median),
    (
        "attention, ms",
        lambda one: one.attention_ms.median if one.attention_ms else None,
    ),
    ("peak memory, MiB", lambda one: one.peak_bytes / 2**20),
)


def html(sweep: Sweep) -> str:
    """Every text of the server's is escaped."""
    lines = ['<div class="fovea-sweep">', f"<p>{escape(_title(sweep))}</p>"]
    lines += [sweep_plot.svg(_plot(sweep, *one)) for one in _MEASURES]
    lines.append(_legend(sweep))
    for head, *body in _tables(sweep):
        lines += tables.html(head, (map(escape, row) for row in body))
    return "\n".join([*lines, *tables.html_notes(_notes(sweep)), "</div>"])


def plain(sweep: Sweep) -> str:
    lines = [_title(sweep)]
    for rows in _tables(sweep):
        lines += ["", *tables.aligned(rows)]
    return "\n".join([*lines, "", *_notes(sweep)])


def _tables(sweep: Sweep) -> list[list[list[str]]]:
    """Each with its head."""
    return (
        [_points(sweep), _exponents(sweep)]
        if _has_exponents(sweep)
        else [_points(sweep)]
    )


def _has_exponents(sweep: Sweep) -> bool:
    return any(one.compute_exponent for one in sweep.curves)


def _plot(
    sweep: Sweep, title: str, measure: Callable[[SweptPoint], float | None]
) -> sweep_plot.Plot:
    return sweep_plot.Plot(
        title=title,
        ticks=sweep.values,
        places=sweep.places,
        curves=[
            [None if one.failure else measure(one) for one in curve.points]
            for curve in sweep.curves
        ],
    )


def _title(sweep: Sweep) -> str:
    models = [
        tables.model_text(one.model_name, one.model_version) for one in sweep.curves
    ]
    title = f"{', '.join(dict.fromkeys(models))} over {sweep.over.lower()}"
    if sweep.over != "THREADS":
        title += f", {tables.count(sweep.threads, 'thread')}"
    if sweep.device:
        title += f" of {sweep.device}"
    if sweep.over != "BATCH":
        title += f", batches of {sweep.batch_size}"
    return (
        f"{title}, {tables.count(sweep.rounds, 'round')} there and back of all points"
    )


def _names(sweep: Sweep) -> list[str]:
    return tables.labels(
        [(one.model_name, one.model_version, one.attention) for one in sweep.curves]
    )


def _points(sweep: Sweep) -> list[list[str]]:
    rows = [
        ["curve", sweep.over.lower(), "compute ms", "attention ms", "images/s"]
        + ["peak MiB", "G multiply-adds"]
    ]
    for name, curve in zip(_names(sweep), sweep.curves, strict=True):
        for value, one in zip(sweep.values, curve.points, strict=True):
            row = [name, value]
            if one.failure:
                row += ["-"] * 5
            else:
                spread = one.compute_ms
                row += [
                    f"{spread.median:.3f} ({spread.lower:.3f} to {spread.upper:.3f})",
                    f"{one.attention_ms.median:.3f}" if one.attention_ms else "-",
                    f"{one.images_per_second:.1f}",
                    f"{one.peak_bytes / 2**20:.1f}",
                    f"{one.multiply_adds / 1e9:.3f}" if one.multiply_adds else "-",
                ]
            rows.append(row)
    return rows


def _exponents(sweep: Sweep) -> list[list[str]]:
    rows = [
        [f"exponent of {_base(sweep)}", "compute", "off by", "attention", "off by"]
        + ["peak memory", "points"]
    ]
    for name, curve in zip(_names(sweep), sweep.curves, strict=True):
        compute, attention = curve.compute_exponent, curve.attention_exponent
        rows.append(
            [
                name,
                *(_exponent(compute), _off(compute)),
                *(_exponent(attention), _off(attention)),
                _exponent(curve.peak_exponent),
                str(compute.points) if compute else "-",
            ]
        )
    return rows


def _base(sweep: Sweep) -> str:
    return "pixels" if sweep.over == "RESOLUTION" else sweep.over.lower()


def _exponent(fitted: FittedExponent | None) -> str:
    if fitted is None:
        return "-"
    of = fitted.exponent
    # Nothing moves it, or too few rounds tell how far noise does.
    if of.lower == of.upper or math.isinf(of.upper):
        return f"{of.value:.2f}"
    return f"{of.value:.2f} ({of.lower:.2f} to {of.upper:.2f})"


def _off(fitted: FittedExponent | None) -> str:
    return "-" if fitted is None else f"{100 * (fitted.worst_ratio - 1):.1f} %"


def _notes(sweep: Sweep) -> list[str]:
    notes = ["Times are medians with quartiles."]
    notes.append(
        "Compute is a batch's run, attention what attention alone takes of it, peak the most that its tensors held."
    )
    if sweep.over in _NO_EXPONENT:
        notes.append(
            f"Costs do not grow with the {sweep.over.lower()}: there is no exponent."
        )
    elif _has_exponents(sweep):
        notes.append(
            f"An exponent e says that a cost grows as {_base(sweep)} to the power of e; off by, how far the worst point lies "
            "from that. The interval, at 95%, tells noise alone."
        )
    else:
        notes.append("An exponent needs three points of a curve.")
    for name, curve in zip(_names(sweep), sweep.curves, strict=True):
        if curve.weights_of_attention:
            notes.append(
                f"{name}: same weights as {curve.weights_of_attention}, not fine-tuned."
            )
        if curve.untrained:
            notes.append(f"The weights of {name} are random numbers.")
        notes += [
            attention_left_out_note(f"{name} at {sweep.over.lower()} {value}")
            for value, one in zip(sweep.values, curve.points, strict=True)
            if one.attention_left_out
        ]
        notes += [
            f"Not measured: {name} at {sweep.over.lower()} {value}: {one.failure}."
            for value, one in zip(sweep.values, curve.points, strict=True)
            if one.failure
        ]
    return notes + provenance_notes(sweep.measured)


def _legend(sweep: Sweep) -> str:
    parts = []
    for number, name in enumerate(_names(sweep)):
        colour = sweep_plot.COLOURS[number % len(sweep_plot.COLOURS)]
        parts.append(
            f'<span style="border-left:12px solid {colour};margin-right:16px;padding-left:6px">'
            f"{escape(name)}</span>"
        )
    return f"<p>{''.join(parts)}</p>"
