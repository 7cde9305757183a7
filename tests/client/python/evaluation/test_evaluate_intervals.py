"""The intervals of fovea-evaluate: figures of resampled pictures are those of data sets in which pictures lie several times."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client
from fovea.evaluation.classification import Accuracy
from fovea.evaluation.coco import Coco
from fovea.evaluation.datasets import ImageFolder, MaskFolder
from fovea.evaluation.detection import AveragePrecision
from fovea.evaluation.intervals import (
    RESAMPLES,
    interval,
    intervals,
    intervals_of_differences,
    resampled,
)
from fovea.evaluation.measure import Figures, Model
from fovea.evaluation.segmentation import IntersectionOverUnion, _Pixels

RANDOM = np.random.default_rng(3)
PICTURES = 24
MODEL = Model("m", "")


def draws() -> np.ndarray:
    """Resamples [resamples, pictures], one of them of each picture once."""
    share = np.full(PICTURES, 1 / PICTURES)
    drawn = RANDOM.multinomial(PICTURES, share, size=12)
    drawn[0] = 1
    return drawn


def check_resamples(figures: Figures, repeated) -> None:
    """repeated(places): the measure's own figures of a data set of these pictures, some of them several times."""
    drawn = draws()
    found = figures.resample(drawn)
    assert found
    for row, counts in enumerate(drawn):
        places = np.repeat(np.arange(PICTURES), counts)
        expected = repeated(places.tolist()).overall
        for name, values in found.items():
            assert values[row] == pytest.approx(
                expected[name], abs=1e-12, nan_ok=True
            ), (row, name)
    for name, values in found.items():
        assert values[0] == pytest.approx(figures.overall[name], nan_ok=True)


@pytest.mark.parametrize("classes", [3, 12])
def test_accuracy(classes: int) -> None:
    truth = RANDOM.integers(0, classes, PICTURES).tolist()
    ranks = dict(enumerate(RANDOM.integers(0, 8, PICTURES).tolist()))
    names = [str(number) for number in range(classes)]

    def measured(places: list[int]) -> Figures:
        folder = ImageFolder(
            names, list(range(classes)), [], [truth[place] for place in places]
        )
        measure = Accuracy(folder, MODEL, by_number=False)
        return measure.figures({at: ranks[place] for at, place in enumerate(places)})

    check_resamples(measured(list(range(PICTURES))), measured)


def test_union() -> None:
    # Class 3 is found and never there, 4 there and never found.
    pixels = [
        _Pixels(
            {
                (int(level), int(predicted)): int(RANDOM.integers(1, 50))
                for level, predicted in zip(
                    RANDOM.choice([0, 1, 2, 4], 6),
                    RANDOM.integers(0, 4, 6),
                    strict=True,
                )
            },
            {},
        )
        for _ in range(PICTURES)
    ]
    measure = IntersectionOverUnion(MaskFolder([], [], [], []), MODEL, by_number=True)

    def measured(places: list[int]) -> Figures:
        return measure.figures({at: pixels[place] for at, place in enumerate(places)})

    check_resamples(measured(list(range(PICTURES))), measured)


def found_in(truth: list[tuple[list[float], int, bool]]) -> client.Detections:
    """Most of the objects, some moved or of the other category, and some that are not there."""
    boxes, classes = [], []
    for (left, top, width, height), category, _ in truth:
        if RANDOM.random() < 0.9:
            shift = RANDOM.choice([0, 1, 3, 9])
            boxes.append([left + shift, top, left + shift + width, top + height])
            classes.append(int(category == 9) ^ int(RANDOM.random() < 0.1))
    if RANDOM.random() < 0.5:
        boxes.append([70.0, 5, 90, 25])
        classes.append(int(RANDOM.integers(0, 2)))
    return client.Detections(
        boxes=np.array(boxes, float).reshape(-1, 4),
        # No two are the same: which of two goes first would be the data set's order.
        scores=RANDOM.random(len(boxes)),
        classes=np.array(classes, int),
        labels=[""] * len(boxes),
        size=(100, 200),
        masks=None,
    )


def test_average_precision() -> None:
    categories = [{"id": 7, "name": "a"}, {"id": 9, "name": "b"}]
    objects = [
        [
            ([40.0 * n, 10.0 + n, 20.0, 30.0], int(RANDOM.choice([7, 9])), n == 3)
            for n in range(RANDOM.integers(0, 5))
        ]
        for _ in range(PICTURES)
    ]
    found = [found_in(of_picture) for of_picture in objects]

    def measured(places: list[int]) -> Figures:
        images = [
            {"id": 100 + at, "height": 100, "width": 200} for at in range(len(places))
        ]
        annotations = [
            {
                "image_id": 100 + at,
                "category_id": category,
                "bbox": box,
                "area": box[2] * box[3],
                "iscrowd": int(crowd),
            }
            for at, place in enumerate(places)
            for box, category, crowd in objects[place]
        ]
        dataset = Coco(
            pathlib.Path("x.json"),
            categories,
            images,
            [],
            annotations,
            len(annotations),
            [],
        )
        measure = AveragePrecision(dataset, MODEL, by_number=True)
        return measure.figures({at: found[place] for at, place in enumerate(places)})

    figures = measured(list(range(PICTURES)))
    assert 0.1 < figures.overall["box AP"] < 0.95
    check_resamples(figures, measured)


def share(right: np.ndarray) -> Figures:
    """Of right answers."""
    return Figures(
        {"share": float(right.mean())},
        {},
        [],
        lambda counts: {"share": (counts @ right) / counts.sum(axis=1)},
    )


def test_an_interval_is_as_wide_as_it_should_be() -> None:
    right = np.arange(400) % 10 < 7
    samples = resampled(share(right), range(400), range(400))
    assert samples["share"].shape == (RESAMPLES,)
    found = intervals(samples)["share"]
    # A share of p among n has the standard deviation sqrt(p (1 - p) / n).
    half = 1.96 * np.sqrt(0.7 * 0.3 / 400)
    assert found.lower == pytest.approx(0.7 - half, abs=0.006)
    assert found.upper == pytest.approx(0.7 + half, abs=0.006)
    assert intervals(resampled(share(right), range(400), range(400)))["share"] == found


def test_a_difference_is_of_the_same_pictures() -> None:
    places = range(400)
    right = np.arange(400) % 10 < 7
    better = right | (np.arange(400) % 20 == 9)  # one in twenty more
    one, other = (resampled(share(each), places, places) for each in (better, right))
    found = intervals_of_differences(one, other)["share"]
    assert 0 < found.lower < 0.05 < found.upper
    # Of other pictures each, it would be wider than both are.
    alone = intervals(one)["share"]
    assert found.upper - found.lower < 0.6 * (alone.upper - alone.lower)


def test_pictures_that_failed_are_in_no_resample() -> None:
    places = range(0, 200, 2)
    answered = [place for place in places if place != 4]
    samples = resampled(share(np.ones(len(answered), bool)), answered, places)
    assert (samples["share"] == 1).all()


def test_few_pictures_have_no_interval() -> None:
    assert resampled(share(np.ones(19, bool)), range(19), range(19)) == {}
    assert resampled(share(np.ones(20, bool)), range(20), range(20)) != {}
    assert interval(np.array([np.nan, np.nan, np.nan, 1.0])) is None
    assert interval(np.array([np.nan, 1.0, 1.0])) is not None
