"""What docs/attentions says of multiply-adds: its formulas and its table give what `fovea zoo` counts, for every attention in it.

The formulas are read from the page. Counting runs the model, and dense attention at 448 pixels takes minutes: the column of 448
pixels is compared with the formulas, and one count at 448 shows that all else grows as the pixels do. Not compared: the words
beside the formulas ("linearly", "squared").
"""

from __future__ import annotations

import functools
import json
import re
import subprocess

import pytest
from documents import ROOT
from running_server import BUILD

PAGE = ROOT / "docs/attentions/README.md"
MODEL = "swin_tiny_heads4_224"
WINDOW = 7
HEAD = 768 * 1000  # of the classifier: once, whatever the pixels
# Of the table of counts: under which name the table of formulas has it.
FORMULA_OF = {"self": "dense", "self/knn:k=0.5": "knn"}
# Static keys have a fixed size: they stand in the windows, so that N is a window's.
IN_WINDOWS = {"ska", "cska"}


@functools.cache
def formulas() -> dict[str, tuple[str, str]]:
    """The page's, in LaTeX: of the attention, and of its projections."""
    table = PAGE.read_text().split("| multiply-adds of an image |")[1].split("\n\n")[0]
    found = {}
    for names, attention, projections in re.findall(
        r"^\| (`.*`) \| \$([^$]+)\$ \| [^|]+ \| \$([^$]+)\$[^|]*\|$",
        table,
        re.MULTILINE,
    ):
        for name in re.findall(r"`([^`]+)`", names):
            found[name] = (attention, projections)
    return found


def value(latex: str, **sizes: int) -> float:
    """Of a product of powers and sums; exact, as all numbers here are whole or halves, and below 2^53."""
    text = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"(\1/\2)", latex).replace("^", "**")
    text = re.sub(r"(?<=[\w)])(?=[A-Za-z(])", "*", text)
    return eval(text, {"__builtins__": {}}, sizes)


def of_attention(name: str, pixels: int) -> float:
    """Of all blocks of Swin-T's four stages."""
    attention, projections = formulas()[FORMULA_OF.get(name, name)]
    total = 0.0
    for stage, blocks in enumerate((2, 2, 6, 2)):
        side, channels = pixels // 4 >> stage, 96 << stage
        seen = WINDOW if name in IN_WINDOWS else side
        once = value(
            attention,
            N=seen**2,
            H=seen,
            W=seen,
            C=channels,
            w=WINDOW,
            s=min(WINDOW, side),
        )
        total += blocks * (
            (side // seen) ** 2 * once + value(projections, N=side**2, C=channels)
        )
    return total


@functools.cache
def rows() -> dict[str, tuple[str, str, str, str]]:
    """The page's counts: parameters, multiply-adds at 224 and at 448 pixels, how many times as many."""
    table = PAGE.read_text().split("<!-- costs")[1].split("<!-- end of costs")[0]
    found = re.findall(
        r"^\| `([^`]+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        table,
        re.MULTILINE,
    )
    return {name: tuple(cells) for name, *cells in found}


def count(pixels: int, *names: str) -> dict[str, dict]:
    given = [word for name in names for word in ("--attention", name)]
    done = subprocess.run(
        [
            *(BUILD / "bin/fovea-zoo", "--json", "--image-size", str(pixels)),
            *(*given, MODEL),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=500,
    )
    counted = {one["attention"]: one for one in json.loads(done.stdout)}
    assert set(counted) == set(names)
    return counted


@pytest.fixture(scope="module")
def counted() -> dict[str, dict]:
    assert len(rows()) == 12
    return count(224, *rows())


@pytest.fixture(scope="module")
def besides(counted: dict[str, dict]) -> float:
    """What no attention changes, at 224 pixels."""
    return counted["key_only"]["multiply_adds"] - of_attention("key_only", 224)


def test_formulas_give_what_is_counted(
    counted: dict[str, dict], besides: float
) -> None:
    assert {
        name: one["multiply_adds"] - besides - of_attention(name, 224)
        for name, one in counted.items()
    } == dict.fromkeys(rows(), 0)


def test_every_formula_is_compared() -> None:
    assert {FORMULA_OF.get(name, name) for name in rows()} == set(formulas())


def test_all_else_grows_as_the_pixels(besides: float) -> None:
    large = count(448, "key_only")["key_only"]["multiply_adds"]
    assert large == 4 * (besides - HEAD) + HEAD + of_attention("key_only", 448)


def test_the_table_has_what_is_counted(
    counted: dict[str, dict], besides: float
) -> None:
    for name, written in rows().items():
        at_224 = counted[name]["multiply_adds"]
        at_448 = 4 * (besides - HEAD) + HEAD + of_attention(name, 448)
        assert written == (
            f"{counted[name]['parameters'] / 1e6:.2f}",
            f"{at_224 / 1e9:.2f}",
            f"{at_448 / 1e9:.2f}",
            f"{at_448 / at_224:.1f}",
        ), name
