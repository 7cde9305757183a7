"""A sweep for people: plots and a table in HTML, as notebooks show them, and a table in plain text."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from fovea import sweep_plot

if TYPE_CHECKING:
    from collections.abc import Callable

    from fovea.sweep import FittedExponent, Sweep, SweptCurve, SweptPoint

_NO_EXPONENT = ("TEMPERATURE", "PRECISION")
_MEASURES: tuple[tuple[str, Callable[[SweptPoint], float]], ...] = (
    ("compute, ms", lambda one: one.compute_ms.median),
    ("attention, ms", lambda one: one.attention_ms.median),
    ("peak memory, MiB", lambda one: one.peak_bytes / 2**20),
)


def html(sweep: Sweep) -> str:
    """Every text of the server's is escaped."""
    lines = ['<div class="fovea-sweep">', f"<p>{escape(_title(sweep))}</p>"]
    lines += [sweep_plot.svg(_plot(sweep, *one)) for one in _MEASURES]
    lines.append(_legend(sweep))
    lines.append(_table(_points(sweep)))
    if any(one.compute_exponent for one in sweep.curves):
        lines.append(_table(_exponents(sweep)))
    lines += [f"<p><small>{escape(note)}</small></p>" for note in _notes(sweep)]
    return "\n".join([*lines, "</div>"])


def plain(sweep: Sweep) -> str:
    lines = [_title(sweep), *_aligned(_points(sweep))]
    if any(one.compute_exponent for one in sweep.curves):
        lines += ["", *_aligned(_exponents(sweep))]
    return "\n".join([*lines, *_notes(sweep)])


def _plot(
    sweep: Sweep, title: str, measure: Callable[[SweptPoint], float]
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
    names = ", ".join(dict.fromkeys(one.model_name for one in sweep.curves))
    told = [f"{names} over {sweep.over.lower()}"]
    if sweep.over != "THREADS":
        told.append(f"{sweep.threads} threads")
    if sweep.over != "BATCH":
        told.append(f"batches of {sweep.batch_size}")
    return f"{', '.join(told)}, {sweep.rounds} rounds{f' on {sweep.device}' * bool(sweep.device)}"


def _name(curve: SweptCurve, sweep: Sweep) -> str:
    several = len({one.model_name for one in sweep.curves}) > 1
    return f"{curve.model_name}, {curve.attention}" if several else curve.attention


def _points(sweep: Sweep) -> list[list[str]]:
    rows = [
        ["curve", sweep.over.lower(), "compute ms", "attention ms", "images/s"]
        + ["peak MiB", "G multiply-adds"]
    ]
    for curve in sweep.curves:
        for value, one in zip(sweep.values, curve.points, strict=True):
            row = [_name(curve, sweep), value]
            if one.failure:
                row += ["-"] * 5
            else:
                spread = one.compute_ms
                row += [
                    f"{spread.median:.3f} ({spread.lower:.3f} to {spread.upper:.3f})",
                    f"{one.attention_ms.median:.3f}",
                    f"{one.images_per_second:.1f}",
                    f"{one.peak_bytes / 2**20:.1f}",
                    f"{one.multiply_adds / 1e9:.3f}" if one.multiply_adds else "-",
                ]
            rows.append(row)
    return rows


def _exponents(sweep: Sweep) -> list[list[str]]:
    base = "pixels" if sweep.over == "RESOLUTION" else sweep.over.lower()
    rows = [[f"exponent of {base}", "compute", "attention", "peak memory", "points"]]
    for curve in sweep.curves:
        fitted = curve.compute_exponent
        rows.append(
            [
                _name(curve, sweep),
                _exponent(fitted),
                _exponent(curve.attention_exponent),
                _exponent(curve.peak_exponent),
                str(fitted.points) if fitted else "-",
            ]
        )
    return rows


def _exponent(fitted: FittedExponent | None) -> str:
    if fitted is None:
        return "-"
    of = fitted.exponent
    if math.isinf(of.upper):  # too few rounds for an interval
        return f"{of.value:.2f}"
    return f"{of.value:.2f} ({of.lower:.2f} to {of.upper:.2f})"


def _notes(sweep: Sweep) -> list[str]:
    notes = [
        "Times are medians with quartiles, exponents with a 95% interval of noise."
    ]
    if sweep.over in _NO_EXPONENT:
        notes.append(
            f"Costs do not grow with the {sweep.over.lower()}: there is no exponent."
        )
    for curve in sweep.curves:
        name = _name(curve, sweep)
        if curve.weights_of_attention:
            notes.append(
                f"{name}: same weights, not fine-tuned (the model's own attention is {curve.weights_of_attention})."
            )
        if curve.untrained:
            notes.append(f"{name}: the weights are random numbers.")
        notes += [
            f"Not measured: {name} at {value}: {one.failure}."
            for value, one in zip(sweep.values, curve.points, strict=True)
            if one.failure
        ]
    return notes


def _legend(sweep: Sweep) -> str:
    parts = []
    for number, curve in enumerate(sweep.curves):
        colour = sweep_plot.COLOURS[number % len(sweep_plot.COLOURS)]
        parts.append(
            f'<span style="border-left:12px solid {colour};margin-right:16px;padding-left:6px">'
            f"{escape(_name(curve, sweep))}</span>"
        )
    return f"<p>{''.join(parts)}</p>"


def _table(rows: list[list[str]]) -> str:
    cell = 'style="text-align:left;padding:2px 8px"'
    head, *body = rows
    lines = ['<table style="border-collapse:collapse;color:inherit">', "<thead><tr>"]
    lines += [f'<th scope="col" {cell}>{escape(one)}</th>' for one in head]
    lines.append("</tr></thead><tbody>")
    for row in body:
        cells = "".join(f"<td {cell}>{escape(one)}</td>" for one in row)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
