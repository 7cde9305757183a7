"""Curves as SVG, on logarithmic scales: a power is a straight line, and its exponent the slope.

Texts and lines have the colour of the page, light or dark; only the curves have their own.
"""

from __future__ import annotations

import dataclasses
import math
from html import escape
from typing import TypeGuard

# Okabe and Ito's, seen on white as on black.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#8a8a8a",
    "#b8a038",
)

_WIDTH, _HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 26, 26


@dataclasses.dataclass(frozen=True)
class Plot:
    title: str  # with its unit
    ticks: list[str]
    places: list[float]  # of each tick; empty: one as far from the other
    # Of each curve a number at each tick; None: none.
    curves: list[list[float | None]]


def svg(plot: Plot) -> str:
    """An <svg> element; empty where there is nothing to show."""
    shown = [one for curve in plot.curves for one in curve if _is_shown(one)]
    if not shown:
        return ""
    across = [math.log10(one) for one in plot.places] or [
        float(one) for one in range(len(plot.ticks))
    ]
    x = _Scale(across, _LEFT, _WIDTH - _RIGHT)
    y = _Scale([math.log10(one) for one in shown], _HEIGHT - _BOTTOM, _TOP)
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
    style = 'style="max-width:100%;color:inherit" fill="currentColor"'
    parts = [
        f'<svg {size} role="img" aria-label="{escape(plot.title)}" {style}>',
        _text(_LEFT, 15, "start", plot.title, 13),
    ]
    for number in _round_numbers(min(shown), max(shown)):
        at = y(math.log10(number))
        parts.append(_line(_LEFT, at, _WIDTH - _RIGHT, at, "currentColor", 0.15))
        parts.append(_text(_LEFT - 6, at + 4, "end", f"{number:.4g}"))
    last = -math.inf
    for place, tick in sorted(zip(across, plot.ticks, strict=True)):
        if x(place) - last >= 30:
            last = x(place)
            parts.append(_text(last, _HEIGHT - 8, "middle", tick))
    for number, curve in enumerate(plot.curves):
        colour = COLOURS[number % len(COLOURS)]
        before: tuple[float, float] | None = None
        for place, value in zip(across, curve, strict=True):
            if not _is_shown(value):
                before = None
                continue
            point = x(place), y(math.log10(value))
            if before is not None:
                parts.append(_line(*before, *point, colour, 1))
            parts.append(
                f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="3" fill="{colour}"/>'
            )
            before = point
    return "".join([*parts, "</svg>"])


def _is_shown(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value > 0


class _Scale:
    """From numbers to places between `begin` and `end`."""

    def __init__(self, numbers: list[float], begin: float, end: float) -> None:
        margin = max(0.05 * (max(numbers) - min(numbers)), 0.02)
        self._low = min(numbers) - margin
        self._high = max(numbers) + margin
        self._begin, self._end = begin, end

    def __call__(self, number: float) -> float:
        share = (number - self._low) / (self._high - self._low)
        return self._begin + share * (self._end - self._begin)


def _round_numbers(least: float, most: float) -> list[float]:
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = (1,) if most / least > 1000 else (1, 2, 5)
    found = [
        step * 10.0**power
        for power in powers
        for step in steps
        if 0.95 * least <= step * 10.0**power <= 1.05 * most
    ]
    return found if len(found) > 1 else sorted({least, most})


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, opacity: float
) -> str:
    width = 2 if opacity == 1 else 1
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-opacity="{opacity}" stroke-width="{width}"/>'
    )


def _text(x: float, y: float, anchor: str, text: str, size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="font-size:{size}px">{escape(text)}</text>'
