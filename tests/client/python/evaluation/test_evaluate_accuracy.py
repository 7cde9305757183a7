"""fovea-evaluate's accuracy, on data sets and answers whose figures follow by hand."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from evaluation_support import evaluate, figures, number_of, write_picture
from fake_vision import FakeVision, classes

LABELS = ["ant", "bee", "cat", "dog", "elk", "fly", "gnu"]


def folders(path: pathlib.Path, truth: list[int]) -> pathlib.Path:
    """Picture i, whose pixels say i, shows class truth[i]."""
    for number, shown in enumerate(truth):
        write_picture(path / LABELS[shown] / f"{number:03}.png", number)
    return path


def ranking(
    order: Callable[[int], list[int]], labels: list[str]
) -> Callable[[Any, bytes], Any]:
    """A classifier that finds the classes of picture i in the order `order(i)`."""

    def result(request: Any, picture: bytes) -> Any:
        found = order(number_of(picture))[: request.top_k]
        return classes(*((number, labels[number], 0.1) for number in found))

    return result


def rotated(first: int) -> list[int]:
    return [(first + place) % 7 for place in range(7)]


def test_accuracy_overall_and_of_each_class(tmp_path: pathlib.Path):
    folders(tmp_path, [0, 0, 0, 0, 2, 2, 6])
    (tmp_path / "gnu").rename(tmp_path / "gnu\u0308")  # as macOS writes it
    labels = [*LABELS[:-1], "gn\u00fc"]
    # Of the ants three are found, and one comes sixth; of the cats one comes second; the gnu is found.
    firsts = [0, 0, 0, 2, 2, 1, 6]
    with FakeVision(
        Classify=ranking(lambda number: rotated(firsts[number]), labels)
    ) as fake:
        document = figures(fake.address, "-m", "m", "-d", tmp_path)
    assert document["task"] == "classification" and document["pictures"] == 7
    (model,) = document["models"]
    assert model["figures"] == pytest.approx(
        {"top-1": 5 / 7, "top-5": 6 / 7, "class mean": (3 / 4 + 1 / 2 + 1) / 3}
    )
    assert model["classes"] == {
        "ant": {"top-1": 0.75, "top-5": 0.75},
        "cat": {"top-1": 0.5, "top-5": 1.0},
        "gnu\u0308": {"top-1": 1.0, "top-5": 1.0},
    }
    assert (model["answered"], model["failed"], model["version"]) == (7, [], "1")


def test_a_model_without_labels_is_matched_by_number(tmp_path: pathlib.Path):
    """And so is one with labels, where the caller says so: data sets whose folders have names of their own."""
    for number, name in enumerate(("n01", "n02", "n03")):
        write_picture(tmp_path / name / "a.png", number)
    with FakeVision(Classify=ranking(rotated, [""] * 7)) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
        assert model["figures"]["top-1"] == 1
    with FakeVision(Classify=ranking(rotated, LABELS)) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
        assert refused.returncode == 2
        assert (
            "3 of the 3 classes of the data set are no labels of model m: n01, n02, n03"
            in refused.stderr
        )
        assert "--by-number" in refused.stderr
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path, "--by-number")[
            "models"
        ]
        assert model["figures"]["top-1"] == 1


def test_more_classes_than_the_model_has_are_refused(tmp_path: pathlib.Path):
    write_picture(tmp_path / "7" / "a.png", 0)
    with FakeVision(Classify=ranking(rotated, [""] * 7)) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    assert refused.returncode == 2
    assert "model m has 7 classes, and the data set's go up to number 7" in (
        refused.stderr
    )


def test_of_few_classes_the_best_alone_counts(tmp_path: pathlib.Path):
    folders(tmp_path, [0, 1])
    result = ranking(lambda number: [number, 1 - number], LABELS)
    with FakeVision(Classify=result) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
    assert model["figures"] == {"top-1": 1.0, "class mean": 1.0}
