"""Checks that the tests name the rows of docs/faults.md, over both protocols: tests/fault_rows.py [FOLDER].

A test names a row in its own name ("Row61...", "test_row_63_...") or in a comment or a text ("row 25", "rows 34 and 35",
"Rows 14-18, 24 and 30"). Which protocol it speaks is told by the folder of a C++ test (server/transport/grpc and .../http;
the stages that both share speak none) and by what a Python test uses: a caller of either kind, or one that stands for both.

Findings: one of the places in a row's column "tested in", where nothing names the row; a place that does not exist; a row
that is not tested over both protocols and does not say why, or that says why and is. Exits 1 on any finding.
"""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
import sys
from collections.abc import Iterator

SOURCES = {".cc", ".h", ".py"}
NUMBERS = r"\d+(?:(?:-| to |, and | and |, )\d+)*"
NAMED = re.compile(rf"\brows? ({NUMBERS})|row_?(\d+)", re.IGNORECASE)
IN_A_NAME = re.compile(r"^test_rows?_((?:(?:\d+|to|and)_)+)")
PROTOCOLS = ("grpc", "http")
# Fixtures and functions of tests/faults that stand for both protocols, one after the other.
BOTH = {"both", "caller", "connect"}
# What a test of one protocol uses. (A URL is no sign: metrics have one too.)
SIGNS = {
    "grpc": re.compile(
        r"grpc_caller|\bCaller\(|\.grpc\b|triton_grpc|over_grpc|RawConnection"
    ),
    "http": re.compile(
        r"http_caller|\bHttpCaller\(|\.http\b|triton_http|over_http|urllib|http\.client"
    ),
}


@dataclasses.dataclass
class Row:
    places: list[str]  # none where it is planned
    why_one: str  # why it is not tested over both protocols; empty where it is


def rows(text: str) -> dict[int, Row]:
    found = {}
    for line in text.splitlines():
        if re.match(r"\| \d+ \|", line):
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            where = re.sub(r"\(.*?\)", "", cells[-2]).strip()
            places = [] if where == "planned" else re.split(r" *, | and ", where)
            found[int(cells[0])] = Row(places, "" if cells[-1] == "–" else cells[-1])
    return found


def numbers(text: str) -> set[int]:
    """The rows that a text names."""
    found: set[int] = set()
    for several, one in NAMED.findall(text):
        if one:
            found.add(int(one))
        for part in re.split(r", and | and |, ", several) if several else []:
            ends = [int(end) for end in re.split(r"-| to ", part)]
            found.update(range(ends[0], ends[-1] + 1))
    return found


def numbers_of_name(name: str) -> set[int]:
    """The rows of a test's name: test_rows_7_to_11_and_25_..."""
    match = IN_A_NAME.match(name)
    if match is None:
        return set()
    found: set[int] = set()
    words = match[1].strip("_").split("_")
    for at, word in enumerate(words):
        if word == "to" and 0 < at < len(words) - 1:
            found.update(range(int(words[at - 1]), int(words[at + 1]) + 1))
        elif word.isdigit():
            found.add(int(word))
    return found


def names_in(node: ast.AST) -> set[str]:
    """What a definition uses: names, and its arguments, which are fixtures."""
    used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return used | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}


def python_tests(text: str) -> Iterator[tuple[set[int], set[str]]]:
    """Of each test of a file the rows that it names, and the protocols that it speaks."""
    tree = ast.parse(text)
    defined: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    defined[target.id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined[node.target.id] = node
    source = {
        name: ast.get_source_segment(text, node) or "" for name, node in defined.items()
    }
    for name, node in defined.items():
        if not name.startswith("test_"):
            continue
        decorators = " ".join(
            ast.get_source_segment(text, one) or "" for one in node.decorator_list
        )
        used, next_ones = set(), [name]
        while next_ones:
            one = next_ones.pop()
            if one not in used:
                used.add(one)
                next_ones.extend(names_in(defined[one]) if one in defined else ())
        named = numbers_of_name(name) | numbers(source[name]) | numbers(decorators)
        for one in names_in(node):
            if one in defined and not isinstance(defined[one], ast.FunctionDef):
                named |= numbers(source[one])
        all_of_it = decorators + "".join(source.get(one, "") for one in used)
        spoken = {
            protocol for protocol, sign in SIGNS.items() if sign.search(all_of_it)
        }
        # A fixture of the test's own module may have the name of one that stands for both.
        if any(one in BOTH and one not in defined for one in used):
            spoken |= set(PROTOCOLS)
        if re.search(r'params=\["grpc", "http"\]', all_of_it):
            spoken |= set(PROTOCOLS)
        yield named, spoken


def sources(place: pathlib.Path) -> list[pathlib.Path]:
    if place.is_dir():
        return [path for path in place.rglob("*") if path.suffix in SOURCES]
    return [path for path in [place.with_suffix(".py")] if path.exists()]


def rows_of(path: pathlib.Path) -> dict[int, set[str]]:
    """The rows that a file names, each with the protocols over which it is tested there."""
    text = path.read_text()
    if path.suffix == ".py":
        found: dict[int, set[str]] = {row: set() for row in numbers(text)}
        for named, spoken in python_tests(text):
            for row in named:
                found.setdefault(row, set()).update(spoken)
        return found
    spoken = {one for one in PROTOCOLS if f"transport/{one}/" in path.as_posix()}
    return {row: set(spoken) for row in numbers(text)}


def findings(root: pathlib.Path) -> Iterator[str]:
    table = rows((root / "docs" / "faults.md").read_text())
    if not table:
        yield "docs/faults.md has no rows"
    named: dict[str, dict[int, set[str]]] = {}
    for place in {place for row in table.values() for place in row.places}:
        files = sources(root / "tests" / place)
        if not files:
            yield f"docs/faults.md: there is no tests/{place}"
            continue
        named[place] = {}
        for path in files:
            for number, spoken in rows_of(path).items():
                named[place].setdefault(number, set()).update(spoken)
    for number, row in table.items():
        for place in row.places:
            if place in named and number not in named[place]:
                yield f"docs/faults.md: no test in {place} names row {number}"
        spoken = set().union(
            *(named.get(place, {}).get(number, set()) for place in row.places)
        )
        missing = [protocol for protocol in PROTOCOLS if protocol not in spoken]
        if missing and row.places and len(row.why_one.split()) < 3:
            yield (
                f"docs/faults.md: row {number} is not tested over {' and '.join(missing)}, and does not say why"
            )
        if not missing and row.why_one:
            yield f"docs/faults.md: row {number} is tested over both protocols, and says why it is not"


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = sorted(findings(root))
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
