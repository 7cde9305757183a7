"""The bundled detectors and segmenters on new scenes, asked over gRPC: as good as `make eval-demo` found them, which is as good as
targets.csv asks for and as the pages say.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from running_server import BUILD, ROOT, Server

sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests/bench/accuracy")]
import accuracy
import targets
from fovea.client import Client

RESULTS = ROOT / "docs/results/demo_training"
SCENES = 150
# What is asserted of the models as they are served. Of so few scenes as here a figure differs by up to 0.02 from that of the
# 1,000 of `make eval-demo`; a class that is lost costs 0.15.
FIGURES = {
    "detector": ("box AP50", "box AP"),
    "instances": ("box AP50", "mask AP50"),
    "segmenter": ("mIoU",),
}
SHOWN = ("box AP", "box AP50", "mask AP", "mask AP50", "mIoU")
MARGIN = 0.04
ROUNDED = 0.00056  # of four digits to three, once more than the exact figure was


def recorded() -> dict[str, list[dict[str, float]]]:
    """What `make eval-demo` printed when the models were trained: of each kind, by accuracy.ATTENTIONS."""
    found: dict[str, dict[str, float]] = {}
    columns: list[str] = []
    for line in (RESULTS / "scenes.txt").read_text().splitlines():
        cells = re.split(r"\s{2,}", line)
        if cells[0] == "model":
            columns = [] if "figure" in cells else cells  # not of intervals
        elif re.fullmatch(r"[a-z]+_\w+", cells[0]) and len(cells) == len(columns):
            row = dict(zip(columns, cells, strict=True))
            del row["attention"]
            name = row.pop("model")
            # The difference to the first model stands behind a figure.
            found[name] = {key: float(cell.split()[0]) for key, cell in row.items()}
    return {
        kind: [found[f"{kind}_{attention}"] for attention in accuracy.ATTENTIONS]
        for kind in accuracy.TASKS
    }


def tables(page: pathlib.Path) -> list[dict[str, str]]:
    """The rows of its tables, by their headers."""
    rows: list[dict[str, str]] = []
    header: list[str] = []
    for line in page.read_text().splitlines():
        if not line.startswith("|"):
            header = []
            continue
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if not header:
            header = cells
        elif not line.startswith("|-"):
            rows.append(dict(zip(header, cells, strict=False)))
    return rows


def test_what_is_recorded_meets_its_floors() -> None:
    assert targets.report("eval-demo", accuracy.worst(recorded())) == 0


def test_readme_tells_what_is_recorded() -> None:
    header = {
        "detector: box AP, AP50": ("detector", ("box AP", "box AP50")),
        "instances: mask AP, AP50": ("instances", ("mask AP", "mask AP50")),
        "segmenter: mIoU": ("segmenter", ("mIoU",)),
    }
    rows = [row for row in tables(ROOT / "README.md") if set(header) <= set(row)]
    assert [row["attention"] for row in rows] == list(accuracy.ATTENTIONS)
    figures = recorded()
    for place, row in enumerate(rows):
        for column, (kind, names) in header.items():
            told = [float(number) for number in row[column].split(",")]
            expected = [figures[kind][place][name] for name in names]
            assert told == pytest.approx(expected, abs=ROUNDED), (row, column)


def test_the_recipes_page_tells_what_is_recorded() -> None:
    rows = {row.get("model"): row for row in tables(RESULTS / "README.md")}
    for kind, of_kind in recorded().items():
        for attention, figures in zip(accuracy.ATTENTIONS, of_kind, strict=True):
            row = rows[f"{kind}_{attention}"]
            told = {name: row[name] for name in SHOWN if row[name]}
            assert {name: float(text) for name, text in told.items()} == pytest.approx(
                {name: figures[name] for name in SHOWN if name in figures}, abs=ROUNDED
            )


def test_the_pages_tell_the_classifiers_recorded_accuracies() -> None:
    text = (RESULTS / "accuracy.txt").read_text()
    recorded = dict(
        re.findall(r"^\S+/(\w+): .* validation accuracy ([\d.]+%)", text, re.MULTILINE)
    )
    (linear,) = re.findall(r"validation accuracy ([\d.]+%) at best", text)
    assert set(recorded) == {"shapes", "shapes_knn", "shapes_with_knn"}
    on_page = {row.get("model"): row for row in tables(RESULTS / "README.md")}
    for name, accuracy_ in recorded.items():
        assert on_page[name]["validation accuracy"] == accuracy_
    assert on_page["linear classifier on the pixels"]["validation accuracy"] == linear
    in_readme = [
        (row["what"], row["number"])
        for row in tables(ROOT / "README.md")
        if row.get("what", "").startswith("validation accuracy of ")
    ]
    assert [number for _, number in in_readme] == [
        *(recorded[name] for name in ("shapes", "shapes_knn", "shapes_with_knn")),
        linear,
    ]
    for what, _ in in_readme[:-1]:
        assert re.search(r"`(\w+)`", what)[1] in recorded


def test_the_recipes_page_tells_the_recipes_epochs() -> None:
    rows = {row.get("model"): row for row in tables(RESULTS / "README.md")}
    recipe = (ROOT / "model_zoo/training/train_scenes.sh").read_text()
    for kind in accuracy.TASKS:
        (epochs,) = re.findall(
            rf"^train {kind} (?:.*\\\n)*?.*--epochs (\d+)", recipe, re.MULTILINE
        )
        told = rows[f"{kind}_{accuracy.ATTENTIONS[0]}"]["weights"]
        assert told.startswith(f"{epochs} epochs"), (kind, told)
        for attention in accuracy.ATTENTIONS:
            lines = (RESULTS / f"{kind}_{attention}.csv").read_text().splitlines()
            assert len(lines) == 1 + int(epochs), (kind, attention)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("data") / "scenes"
    command = [BUILD / "bin/fovea-train", "--write-scenes", folder]
    subprocess.run([*command, "--scene-count", str(SCENES)], check=True, timeout=120)
    return folder


@pytest.mark.parametrize("kind", accuracy.TASKS)
def test_every_attention_is_as_good_as_recorded(
    server: Server, scenes: pathlib.Path, kind: str
) -> None:
    with Client(server.grpc, timeout=120) as asked:
        found = accuracy.measured(asked, scenes, kind)
    for attention, figures, expected in zip(
        accuracy.ATTENTIONS, found, recorded()[kind], strict=True
    ):
        for figure in FIGURES[kind]:
            assert figures[figure] >= expected[figure] - MARGIN, (attention, figure)
