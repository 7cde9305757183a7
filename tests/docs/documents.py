"""The documents of the repository: their blocks of code, links and headings, as GitHub reads them."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
OMITTED = {"NEXT.md"}  # for who works on the project
FENCE = re.compile(r"^( *)(```+)([\w+-]*)")
LINK = re.compile(r"\]\(([^()\s]+)\)")
RUN = "<!-- run -->"


@dataclasses.dataclass(frozen=True)
class Block:
    page: str
    line: int  # of its fence
    language: str
    text: str
    run: bool  # `<!-- run -->` stands above it

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def documents() -> list[str]:
    """Paths of all documents, also of those that are not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [page for page in listed if page not in OMITTED and (ROOT / page).is_file()]


def lines_of(text: str) -> Iterator[tuple[int, str, str]]:
    """Each line with its number and the language of the block that it stands in: "" outside, "text" in one without any."""
    fence, language = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                yield number, line, language
        elif found:
            fence, language = found[2], found[3] or "text"
        else:
            yield number, line, ""


def blocks_of(page: str, text: str) -> list[Block]:
    blocks: list[Block] = []
    lines = text.splitlines()
    fence, start, indent, language = "", 0, "", ""
    for number, line in enumerate(lines, 1):
        found = FENCE.match(line)
        if not fence and found:
            indent, fence, language = found.groups()
            start = number
        elif fence and line.strip() == fence:
            body = [one.removeprefix(indent) for one in lines[start : number - 1]]
            above = lines[start - 2].strip() if start > 1 else ""
            blocks.append(
                Block(page, start, language, "\n".join(body) + "\n", above == RUN)
            )
            fence = ""
    assert not fence, f"{page}:{start}: the block never ends"
    return blocks


def all_blocks(*languages: str) -> list[Block]:
    return [
        block
        for page in documents()
        for block in blocks_of(page, (ROOT / page).read_text())
        if block.language in languages
    ]


def links_of(text: str) -> list[tuple[int, str]]:
    """The targets of its links and pictures, with their lines."""
    return [
        (number, target)
        for number, line, language in lines_of(text)
        if not language
        for target in LINK.findall(line)
    ]


def anchors_of(text: str) -> set[str]:
    """Of its headings, as GitHub makes them: lower case, without punctuation, a hyphen for each space."""
    anchors: set[str] = set()
    for _, line, language in lines_of(text):
        heading = re.match(r"^#{1,6} +(.*?) *#*$", line)
        if language or not heading:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        number, free = 0, anchor
        while free in anchors:
            number += 1
            free = f"{anchor}-{number}"
        anchors.add(free)
    return anchors
