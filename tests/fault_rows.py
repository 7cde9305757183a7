"""Checks that the tests name the rows of docs/faults.md: tests/fault_rows.py [FOLDER].

A test names a row in its own name ("Row61...", "test_row_63_...") or in a comment or a text ("row 25", "rows 34 and 35",
"Rows 14-18, 24 and 30"). Findings: one of the places in a row's last column, where nothing names the row; a place that
does not exist. Exits 1 on any finding.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

SOURCES = {".cc", ".h", ".py"}
NUMBERS = r"\d+(?:(?:-| to |, and | and |, )\d+)*"
NAMED = re.compile(rf"\brows? ({NUMBERS})|row_?(\d+)", re.IGNORECASE)


def rows(text: str) -> dict[int, list[str]]:
    """Each row with the places of its last column; none where it is planned."""
    found = {}
    for line in text.splitlines():
        if re.match(r"\| \d+ \|", line):
            cells = line.strip().strip("|").split(" | ")
            where = re.sub(r"\(.*?\)", "", cells[-1]).strip()
            planned = where == "planned"
            found[int(cells[0])] = [] if planned else re.split(r" *, | and ", where)
    return found


def numbers(text: str) -> set[int]:
    """The rows that a file names."""
    found: set[int] = set()
    for several, one in NAMED.findall(text):
        if one:
            found.add(int(one))
        for part in re.split(r", and | and |, ", several) if several else []:
            ends = [int(end) for end in re.split(r"-| to ", part)]
            found.update(range(ends[0], ends[-1] + 1))
    return found


def sources(place: pathlib.Path) -> list[pathlib.Path]:
    if place.is_dir():
        return [path for path in place.rglob("*") if path.suffix in SOURCES]
    return [path for path in [place.with_suffix(".py")] if path.exists()]


def findings(root: pathlib.Path) -> Iterator[str]:
    table = rows((root / "docs" / "faults.md").read_text())
    if not table:
        yield "docs/faults.md has no rows"
    named: dict[str, set[int]] = {}
    for place in {place for places in table.values() for place in places}:
        files = sources(root / "tests" / place)
        if files:
            named[place] = set().union(*(numbers(path.read_text()) for path in files))
        else:
            yield f"docs/faults.md: there is no tests/{place}"
    for row, places in table.items():
        for place in places:
            if place in named and row not in named[place]:
                yield f"docs/faults.md: no test in {place} names row {row}"


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = sorted(findings(root))
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
