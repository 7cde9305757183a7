"""Tables as plain text, in HTML and for pandas, and what their rows are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def aligned(rows: Sequence[Sequence[str]], texts: int | None = None) -> list[str]:
    """Lines. The first `texts` columns stand to the left, others, numbers, to the right; None: all to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if texts is None or place < texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def html(
    head: Iterable[str], body: Iterable[Iterable[str]], caption: str = ""
) -> list[str]:
    """A <table> whose texts and lines are the page's, light or dark. head and caption are texts, the body's cells HTML."""
    cell = 'style="text-align:left;padding:2px 8px;vertical-align:top"'
    lines = ['<table style="border-collapse:collapse;color:inherit">']
    if caption:
        lines.append(f"<caption {cell}>{escape(caption)}</caption>")
    lines.append("<thead><tr>")
    lines += [f'<th scope="col" {cell}>{escape(one)}</th>' for one in head]
    lines.append("</tr></thead><tbody>")
    for row in body:
        lines += ["<tr>", *(f"<td {cell}>{one}</td>" for one in row), "</tr>"]
    return [*lines, "</tbody></table>"]


def html_notes(notes: Iterable[str]) -> list[str]:
    return [f"<p><small>{escape(note)}</small></p>" for note in notes]


def flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row of a frame: what is nested has columns named FIELD_PART, quartiles FIELD_q1, FIELD_median and FIELD_q3."""
    found: dict[str, Any] = {}
    # Bounds of intervals are called lower and upper, too.
    names = {"lower": "q1", "upper": "q3"} if "median" in fields else {}
    for name, value in fields.items():
        name = names.get(name, name)
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}_")
        else:
            found[prefix + name] = value
    return found


def labels(variants: Sequence[tuple[str, str, str]]) -> list[str]:
    """Of (model, version, attention), each beside the others: its attention, with its model where name or version differ."""
    several = len({(model, version) for model, version, _ in variants}) > 1
    return [
        f"{model_text(model, version)}, {attention or 'no attention'}"
        if several
        else attention or "no attention"
        for model, version, attention in variants
    ]


def model_text(name: str, version: str) -> str:
    return f"{name}/{version}" if version else name


def count(number: int, thing: str) -> str:
    """As in "1 picture" and "2 pictures"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
