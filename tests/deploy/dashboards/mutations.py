"""What may be wrong with a rule of Prometheus: rules of which one thing has been changed, each of which its tests have to notice.

PromQL is changed as text, outside its strings; what comes of it parses.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator

from queries import without_strings

SECONDS = {"s": 1, "m": 60, "h": 3600}
NUMBER = re.compile(r"(?<![\w.:\[])\d+(?:\.\d+)?(?![\w.:\]])")
WINDOW = re.compile(r"\[(\d+)([smh])\]")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
SIDES = re.compile(r"\b(?:and|or|unless)\b(?:\s+(?:on|ignoring)\s*\([^()]*\))?")
TURNED = {">": "<", "<": ">", "==": "!="}

# What is changed, and the expression that comes of it.
Changed = Iterator[tuple[str, str]]


def seconds(duration: str) -> int:
    return int(duration[:-1]) * SECONDS[duration[-1]]


def numbers(expr: str) -> Changed:
    """Halved and doubled; nothing becomes a little more, more, and less."""
    for found in NUMBER.finditer(without_strings(expr)):
        number = float(found[0])
        for other in (number / 2, number * 2) if number else (0.5, 1, -1):
            text = f"{other:g}"
            changed = expr[: found.start()] + text + expr[found.end() :]
            yield f"{found[0]} -> {text}", changed


def windows(expr: str) -> Changed:
    """Halved, doubled, and an hour."""
    for found in WINDOW.finditer(without_strings(expr)):
        window = seconds(found[1] + found[2])
        for other in sorted({window // 2, window * 2, 3600} - {window}):
            changed = f"{expr[: found.start()]}[{other}s]{expr[found.end() :]}"
            yield f"{found[0]} -> [{other}s]", changed


def matchers(expr: str) -> Changed:
    """Each left out; one that is there again, everywhere, too; and of alternatives each."""
    everywhere: dict[str, list[tuple[int, int]]] = collections.defaultdict(list)
    for braces in re.finditer(r"\{[^{}]*\}", without_strings(expr)):
        for found in MATCHER.finditer(expr, *braces.span()):
            # With the comma behind it, which PromQL allows before the brace, too.
            end = re.compile(r"(,\s*)?").match(expr, found.end()).end()
            everywhere[found[0]].append((found.start(), end))
            yield f"without {found[0]}", expr[: found.start()] + expr[end:]
            if found[2] == "=~":
                values = found[3].split("|")
                for value in values:
                    left = "|".join(other for other in values if other != value)
                    text = f'{found[1]}=~"{left}"'
                    changed = expr[: found.start()] + text + expr[found.end() :]
                    yield f"without {found[1]} {value}", changed
    for matcher, places in everywhere.items():
        if len(places) > 1:
            changed = expr
            for start, end in reversed(places):
                changed = changed[:start] + changed[end:]
            yield f"without {matcher} everywhere", changed


def groupings(expr: str) -> Changed:
    """Each label left out."""
    for found in re.finditer(r"\b(by|on)\s*\(([^()]*)\)", without_strings(expr)):
        labels = [label.strip() for label in found[2].split(",")]
        for label in labels:
            left = ", ".join(other for other in labels if other != label)
            text = f"{found[1]} ({left})"
            changed = expr[: found.start()] + text + expr[found.end() :]
            yield f"{found[1]} without {label}", changed


def operators(expr: str) -> Changed:
    strings = without_strings(expr)
    for found in re.finditer(r"(?<=\s)(>|<|==)(?=\s)", strings):
        other = TURNED[found[0]]
        changed = expr[: found.start()] + other + expr[found.end() :]
        yield f"{found[0]} -> {other}", changed
    for found in re.finditer(r"\bsum\b", strings):
        yield "sum -> max", expr[: found.start()] + "max" + expr[found.end() :]


def around(text: str, start: int, end: int) -> tuple[int, int]:
    """Between the parentheses that are around a place."""
    depth = 0
    while (
        start > 0 and (depth := depth + {")": 1, "(": -1}.get(text[start - 1], 0)) >= 0
    ):
        start -= 1
    depth = 0
    while (
        end < len(text) and (depth := depth + {"(": 1, ")": -1}.get(text[end], 0)) >= 0
    ):
        end += 1
    return start, end


def sides(expr: str) -> Changed:
    """Of `and` and `or` one side alone."""
    strings = without_strings(expr)
    for found in SIDES.finditer(strings):
        start, end = around(strings, *found.span())
        before, behind = expr[:start], expr[end:]
        yield f"left of {found[0]}", before + expr[start : found.start()] + behind
        yield f"right of {found[0]}", before + expr[found.end() : end] + behind


def others_recorded(expr: str, recorded: list[str]) -> Changed:
    """What has been recorded of the same over another window, or with another quantile."""
    for name in recorded:
        kind = name.rpartition(":")[0]
        for found in re.finditer(rf"{re.escape(name)}\b", expr):
            for other in recorded:
                if other != name and other.rpartition(":")[0] == kind:
                    changed = expr[: found.start()] + other + expr[found.end() :]
                    yield f"{name} -> {other}", changed


def durations(rule: dict) -> Iterator[tuple[str, dict]]:
    """Of an alert's `for`: left out, halved and doubled; or some where there is none."""
    if "for" not in rule:
        yield "for 2m", {**rule, "for": "2m"}
        return
    yield "no for", {key: value for key, value in rule.items() if key != "for"}
    held = seconds(rule["for"])
    for other in (held // 2, held * 2):
        yield f"for {other}s", {**rule, "for": f"{other}s"}


def mutations(rule: dict, recorded: list[str]) -> dict[str, dict]:
    """All of an alert or of a rule that records, by what is changed; `recorded`: the names of all that is recorded."""
    expr = rule["expr"].strip()
    changes = [
        *numbers(expr),
        *windows(expr),
        *matchers(expr),
        *groupings(expr),
        *operators(expr),
        *sides(expr),
        *others_recorded(expr, recorded),
    ]
    if "alert" in rule:
        changes += [("always", "vector(1)"), ("never", "vector(1) > 1")]
    else:
        changes += [("constant", f"0 * ({expr}) + 1"), ("twice", f"2 * ({expr})")]
    found: dict[str, dict] = dict(durations(rule)) if "alert" in rule else {}
    times: collections.Counter[str] = collections.Counter()
    for name, changed in changes:
        times[name] += 1
        numbered = name if times[name] == 1 else f"{name} ({times[name]})"
        found[numbered] = {**rule, "expr": changed}
    return found
