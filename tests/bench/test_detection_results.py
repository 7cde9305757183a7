"""The pages tell of attentions in a detector what attention_scaling.csv holds, and that meets its floors."""

from __future__ import annotations

import csv
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "docs/results/detection_cpu"
sys.path[:0] = [str(HERE), str(HERE / "detection"), str(ROOT / "tests")]
import attention_scaling
import targets

NUMBER = r"\d+(?:\.\d+)?"
# What each row of a page begins with, and which figures it tells, in their order.
README = {
    "RetinaNet with key-only and with AEWin": [
        "detector_key_only_over_dense",
        "detector_aewin_over_dense",
    ],
    "growth of a detector's time": [
        "dense_time_exponent",
        "detector_key_only_time_exponent",
        "detector_aewin_time_exponent",
    ],
}
PAGE = {
    "RetinaNet with key-only": [
        "detector_key_only_over_dense",
        "detector_key_only_memory_to_dense",
    ],
    "RetinaNet with AEWin": [
        "detector_aewin_over_dense",
        "detector_aewin_memory_to_dense",
    ],
}


def recorded() -> dict[str, float]:
    with (RESULTS / "attention_scaling.csv").open() as file:
        table = list(csv.DictReader(line for line in file if not line.startswith("#")))
    rows = [
        {"attention": row.pop("attention"), **{k: float(v) for k, v in row.items()}}
        for row in table
    ]
    dense = attention_scaling.exponent(rows, "dense", "ms")
    return {**attention_scaling.figures(rows), "dense_time_exponent": dense}


def test_what_is_recorded_meets_its_floors() -> None:
    figures = recorded()
    rows = targets.rows_of("bench-detection")
    measured = {name: figures[name] for name in figures if name in rows}
    assert len(measured) == 6
    assert targets.report("bench-detection", measured, left_out=rows) == 0


@pytest.mark.parametrize(
    ("page", "rows"),
    [(ROOT / "README.md", README), (RESULTS / "README.md", PAGE)],
    ids=["README", "page"],
)
def test_the_pages_tell_what_is_recorded(
    page: pathlib.Path, rows: dict[str, list[str]]
) -> None:
    figures = recorded()
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    for beginning, names in rows.items():
        (line,) = (line for line in lines if line.startswith(f"| {beginning}"))
        told = re.findall(NUMBER, line.split(" | ")[1])
        assert len(told) == len(names), line
        for text, name in zip(told, names, strict=True):
            digits = len(text.partition(".")[2])
            rounded = pytest.approx(figures[name], abs=0.501 * 10**-digits)
            assert float(text) == rounded, (beginning, name)
