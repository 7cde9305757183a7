"""Checks every #include of ours against the table of ARCHITECTURE.md: tests/include_edges.py [FOLDER].

The table is the fenced block `edges`: a line for each folder with sources, "folder: what it may include", folders of ours
and the libraries of LIBRARIES. "x/*" stands for each folder inside x. Findings: an include that the table does not
allow, a folder without a line, a line or an entry that nothing uses, a circle of folders, and a file that includes two
libraries which cannot meet in one translation unit. Exits 1 on any finding.
"""

from __future__ import annotations

import graphlib
import pathlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

ROOTS = ("base", "client", "deploy", "kernels", "model_zoo", "server")
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
# Restricted libraries, by how their headers begin.
LIBRARIES = {
    "absl": ("absl/",),
    "grpc": ("grpc/", "grpcpp/"),
    "opencv": ("opencv2/",),
    "openssl": ("openssl/",),
    "protobuf": ("google/protobuf/",),
    "spdlog": ("spdlog/",),
    "torch": ("ATen/", "c10/", "torch/"),
}
# LibTorch's include folder carries protobuf and fmt headers of its own.
APART = ({"torch", "protobuf"}, {"torch", "grpc"}, {"torch", "spdlog"})
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def table(text: str) -> dict[str, list[str]]:
    """The folders, and what each may include."""
    block = re.search(r"^```edges\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if block is None:
        raise SystemExit("ARCHITECTURE.md has no block `edges`")
    lines = (line.partition(":") for line in block.group(1).splitlines() if line)
    return {folder.strip(): allowed.split() for folder, _, allowed in lines}


def covers(pattern: str, folder: str) -> bool:
    if pattern.endswith("/*"):
        return str(pathlib.PurePosixPath(folder).parent) == pattern[:-2]
    return pattern == folder


def target(included: str) -> str | None:
    """The folder or library that an include names; none where it is free."""
    for library, beginnings in LIBRARIES.items():
        if included.startswith(beginnings):
            return library
    if included.startswith("proto/"):
        return "proto"
    if included.split("/")[0] in ROOTS and "/" in included:
        return str(pathlib.PurePosixPath(included).parent)
    return None


def includes(root: pathlib.Path) -> Iterator[tuple[str, int, str]]:
    """Of every source of ours: its path, the line, and what is included there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *ROOTS],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    for path in listed:
        if pathlib.PurePosixPath(path).suffix in SUFFIXES and (root / path).exists():
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if found := INCLUDE.match(line):
                    yield path, number, found.group(1)


def findings(root: pathlib.Path) -> Iterator[str]:
    allowed = table((root / "ARCHITECTURE.md").read_text())
    used: set[tuple[str, str]] = set()
    graph: dict[str, set[str]] = defaultdict(set)
    libraries: dict[str, set[str]] = defaultdict(set)
    for path, number, included in includes(root):
        folder = str(pathlib.PurePosixPath(path).parent)
        rows = [row for row in allowed if covers(row, folder)]
        if not rows:
            yield f"{path}:{number}: {folder} has no line in the table"
        used.update((row, "") for row in rows)
        to = target(included)
        if to is None or to == folder:
            continue
        if to in LIBRARIES:
            libraries[path].add(to)
        else:
            graph[folder].add(to)
        entries = [
            (row, entry) for row in rows for entry in allowed[row] if covers(entry, to)
        ]
        if not entries:
            yield f"{path}:{number}: {folder} may not include {to} ({included})"
        used.update(entries)
    for row, entries in allowed.items():
        for entry in ["", *entries]:
            if (row, entry) not in used:
                yield f"ARCHITECTURE.md: nothing uses {row}: {entry}"
    for path, names in libraries.items():
        for pair in APART:
            if pair <= names:
                yield f"{path}: includes {' and '.join(sorted(pair))}"
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield "circle: " + " -> ".join(error.args[1])


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = list(findings(root))
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
