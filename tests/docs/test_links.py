"""Every link of a document leads to a file, and to a heading, that there is: as one reads the repository."""

from __future__ import annotations

import functools
import pathlib
import posixpath

import pytest
from documents import ROOT, anchors_of, documents, links_of

MOST_BYTES = 200_000  # of a picture in a document


def broken_links(root: pathlib.Path, pages: list[str]) -> list[str]:
    anchors = functools.cache(lambda file: anchors_of((root / file).read_text()))
    found = []
    for page in pages:
        for line, link in links_of((root / page).read_text()):
            target, _, anchor = link.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            file = posixpath.normpath(
                posixpath.join(posixpath.dirname(page), target) if target else page
            )
            if not (root / file).exists():
                found.append(f"{page}:{line}: there is no {link}")
            elif anchor and (not file.endswith(".md") or anchor not in anchors(file)):
                found.append(f"{page}:{line}: {file} has no heading #{anchor}")
    return found


def test_links_lead_somewhere() -> None:
    pages = documents()
    assert {"README.md", "docs/README.md", "kernels/README.md"} <= set(pages)
    assert broken_links(ROOT, pages) == []


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("other.md#a-heading-with-code", None),
        ("other.md#twice-1", None),
        ("#here", None),
        ("https://example.org/x", None),
        ("nothing.md", "page.md:3: there is no nothing.md"),
        ("other.md#gone", "page.md:3: other.md has no heading #gone"),
        ("#gone", "page.md:3: page.md has no heading #gone"),
        ("file.h#L3", "page.md:3: file.h has no heading #L3"),
    ],
)
def test_a_link_to_nothing_is_found(
    tmp_path: pathlib.Path, link: str, says: str | None
) -> None:
    (tmp_path / "page.md").write_text(
        f"# Here\n\n[x]({link})\n\n```sh\n[y](no.md)\n```\n"
    )
    (tmp_path / "other.md").write_text("# A heading, with `code`\n## Twice\n## Twice\n")
    (tmp_path / "file.h").write_text("\n")
    assert broken_links(tmp_path, ["page.md"]) == ([says] if says else [])


def test_pictures_of_attentions_are_there_and_small() -> None:
    shown = {
        target.rpartition("/")[2]
        for page in documents()
        if page.startswith("docs/attentions/")
        for _, target in links_of((ROOT / page).read_text())
        if target.endswith(".png")
    }
    drawn = list((ROOT / "docs/pictures/attentions").glob("*.png"))
    assert {file.name for file in drawn} == shown
    assert len(shown) == 12
    assert [file.name for file in drawn if file.stat().st_size >= MOST_BYTES] == []
