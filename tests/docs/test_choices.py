"""The tables of what kernels choose by measurement have every question, and none that nobody asks."""

from __future__ import annotations

import re

import pytest
from documents import ROOT

TABLES = ("kernels/choice/README.md", "docs/operations/README.md")


def families() -> list[str]:
    """Patterns of names, from the list of all questions."""
    source = (ROOT / "kernels/choice/questions.cc").read_text()
    return re.findall(r'std::regex\("([^"]+)"\)', source)


def named(page: str) -> list[str]:
    """The names of each row of the page's table; suffixes such as `_n256` are left out."""
    table = (ROOT / page).read_text().split("\n| question |")[1].split("\n\n")[0]
    _, _, *rows = table.splitlines()
    names = [re.findall(r"`([a-z0-9]+_\w+)`", row.split("|")[1]) for row in rows]
    assert all(names), rows
    return [name for of_row in names for name in of_row]


@pytest.mark.parametrize("page", TABLES)
def test_every_family_of_questions_has_a_row_and_every_row_a_family(page: str) -> None:
    patterns, names = families(), named(page)
    assert len(patterns) >= 7
    found = {
        name: [one for one in patterns if re.fullmatch(one, name)] for name in names
    }
    assert [name for name, of in found.items() if len(of) != 1] == []
    assert {of[0] for of in found.values()} == set(patterns)
