"""What docs/attentions says of multiply-adds: its formulas give what `fovea zoo` counts, and its table what they give."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest
from documents import ROOT
from running_server import BUILD

PAGE = ROOT / "docs/attentions/README.md"
MODEL = "swin_tiny_heads4_224"
WINDOW = 7
# As the page has them, for a map of side x side places: of the attention, and of its projections in N * C * C.
FORMULAS: dict[str, tuple[Callable[[int, int], int], int]] = {
    "shifted_window": (lambda side, c: 2 * side**2 * c * WINDOW**2, 4),
    "axial": (lambda side, c: 2 * side**2 * c * 2 * side, 4),
    "criss_cross": (lambda side, c: 2 * side**2 * c * (2 * side - 1), 4),
    "cross_shaped": (lambda side, c: side**2 * c * min(WINDOW, side) * 2 * side, 4),
    "pale": (lambda side, c: side**2 * c * min(WINDOW, side) * 2 * side, 4),
    "aewin": (lambda side, c: side**2 * c * (side + WINDOW**2), 4),
    "self": (lambda side, c: 2 * side**4 * c, 4),
    "self/knn:k=0.5": (lambda side, c: 2 * side**4 * c, 4),
    # Static keys stand in the windows: their N is a window's.
    "ska": (lambda side, c: 2 * side**2 * c * WINDOW**2, 3),
    "cska": (lambda side, c: 10 * side**2 * c * WINDOW**2, 3),
    "key_only": (lambda side, c: 3 * side**2 * c, 4),
    "conv": (lambda side, c: 98 * side**2 * c, 4),
}
HEAD = 768 * 1000  # of the classifier: once, whatever the pixels


def of_attention(name: str, pixels: int) -> int:
    """Of all blocks of Swin-T's four stages."""
    formula, projections = FORMULAS[name]
    total = 0
    for stage, blocks in enumerate((2, 2, 6, 2)):
        side, channels = pixels // 4 >> stage, 96 << stage
        total += blocks * (
            formula(side, channels) + projections * side**2 * channels**2
        )
    return total


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    """What the zoo counts at 224 pixels, of some: counting runs the model."""
    names = ("shifted_window", "criss_cross", "ska", "key_only")
    given = [word for name in names for word in ("--attention", name)]
    done = subprocess.run(
        [BUILD / "bin/fovea-zoo", "--json", *given, MODEL],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    rows = {one["attention"]: one["multiply_adds"] for one in json.loads(done.stdout)}
    assert set(rows) == set(names)
    return rows


def test_formulas_give_what_is_counted(counted: dict[str, int]) -> None:
    besides = counted["shifted_window"] - of_attention("shifted_window", 224)
    assert {
        name: count - besides - of_attention(name, 224)
        for name, count in counted.items()
    } == dict.fromkeys(counted, 0)


def test_the_table_has_what_the_formulas_give(counted: dict[str, int]) -> None:
    besides = counted["shifted_window"] - of_attention("shifted_window", 224)
    table = PAGE.read_text().split("<!-- costs")[1].split("<!-- end of costs")[0]
    rows = re.findall(
        r"^\| `([^`]+)` \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        table,
        re.MULTILINE,
    )
    assert {row[0] for row in rows} == set(FORMULAS)
    for name, small, large, times in rows:
        at_224 = besides + of_attention(name, 224)
        at_448 = 4 * (besides - HEAD) + HEAD + of_attention(name, 448)
        written = (small, large, times)
        assert written == (
            f"{at_224 / 1e9:.2f}",
            f"{at_448 / 1e9:.2f}",
            f"{at_448 / at_224:.1f}",
        ), name
