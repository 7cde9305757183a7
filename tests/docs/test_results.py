"""What docs/results/attentions_cpu says of its files: the package reads those that it should, and two tables are what they hold."""

from __future__ import annotations

import json
import re
import sys

import pytest
from documents import ROOT

sys.path[:0] = [str(ROOT / "client" / "python"), str(ROOT / "tests/bench/comparison")]

import attention_tables
from fovea.client import Comparison, Sweep

RESULTS = ROOT / "docs/results/attentions_cpu"
PAGE = RESULTS / "README.md"
TASKS = ["classification", "detection", "instance_masks", "segmentation"]
FIGURES = {  # of the table of half of the keys
    "accuracy of the classifier": ("classification", "top-1"),
    "box AP of the detector": ("detection", "box AP"),
    "box AP with instance masks": ("instance_masks", "box AP"),
    "mask AP": ("instance_masks", "mask AP"),
    "mIoU of the segmenter": ("segmentation", "mIoU"),
}


def table(head: str) -> dict[str, list[str]]:
    """Rows of the table that begins so, by their first cell."""
    lines = PAGE.read_text().split(f"\n| | {head}")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {row[0]: row[1:] for row in rows}


def comparison(task: str) -> Comparison:
    return Comparison.from_json((RESULTS / f"{task}.json").read_text())


@pytest.mark.parametrize("task", TASKS)
def test_the_package_reads_the_recorded_files(task: str) -> None:
    compared = comparison(task)
    attentions = [variant.attention for variant in compared.variants]
    assert attentions[:3] == ["dense", "knn:k=0.5", "aewin"]
    assert compared.variants[0].compute.ms.median > 0
    swept = Sweep.from_json((RESULTS / f"{task}_sweep.json").read_text())
    assert swept.over == "RESOLUTION"
    assert [len(curve.points) for curve in swept.curves] == [len(swept.values)] * 5
    for reader in (Comparison, Sweep):
        with pytest.raises(ValueError, match="this is no"):
            reader.from_json((RESULTS / f"{task}_dataset.json").read_text())


def test_the_tables_are_the_files() -> None:
    kinds = {task.replace("_", " "): task for task in TASKS}
    made = attention_tables.tables(
        {kind: comparison(task) for kind, task in kinds.items()},
        {
            kind: json.loads((RESULTS / f"{task}_dataset.json").read_text())
            for kind, task in kinds.items()
        },
        {
            kind: Sweep.from_json((RESULTS / f"{task}_sweep.json").read_text())
            for kind, task in kinds.items()
        },
    )
    assert (RESULTS / "tables.md").read_text() == made


def test_shares_of_attention_are_the_files() -> None:
    rows = table("dense |")
    assert list(rows) == [task.replace("_", " ") for task in TASKS]
    columns = ["dense", "knn:k=0.5", "aewin", "cska", "key_only"]
    for task in TASKS:
        shares = {
            variant.attention: variant.attention_ms.median / variant.compute.ms.median
            for variant in comparison(task).variants
        }
        told = [f"{shares[column]:.0%}" for column in columns]
        assert rows[task.replace("_", " ")] == told


def test_what_half_of_the_keys_cost_is_the_files() -> None:
    rows = table("points |")
    assert set(rows) == set(FIGURES)
    for name, (task, figure) in FIGURES.items():
        recorded = json.loads((RESULTS / f"{task}_dataset.json").read_text())
        (model,) = (m for m in recorded["models"] if m["attention"] == "knn:k=0.5")
        interval = model["difference_intervals"][figure]
        values = (model["differences"][figure], interval["lower"], interval["upper"])
        said = [
            float(number) for number in re.findall(r"-?[\d.]+", " ".join(rows[name]))
        ]
        assert said == [pytest.approx(100 * value, abs=0.051) for value in values], name
