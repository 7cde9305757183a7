"""fovea-evaluate's figures, on data sets and answers whose figures follow by hand."""

from __future__ import annotations

import json
import math
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))

from evaluation_support import evaluate, figures, number_of, write_picture
from fake_vision import FakeVision, Refusal, class_map, classes, objects

LABELS = ["ant", "bee", "cat", "dog", "elk", "fly", "gnu"]


# --- Accuracy.


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
    # Of the ants three are found, and one comes sixth; of the cats one comes second; the gnu is found.
    firsts = [0, 0, 0, 2, 2, 1, 6]
    with FakeVision(
        Classify=ranking(lambda number: rotated(firsts[number]), LABELS)
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
        "gnu": {"top-1": 1.0, "top-5": 1.0},
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


# --- Average precision. Thresholds of IoU are 0.50, 0.55, ..., 0.95; recall is looked at in 101 places.

SIZE = (100, 200)
CATEGORIES = [{"id": 90, "name": "dog"}, {"id": 18, "name": "cat"}]


def scene(
    folder: pathlib.Path, annotations: list[tuple[int, int, list, dict]], pictures: int
) -> pathlib.Path:
    """annotations: (picture, category, [left, top, width, height], further fields). Picture i has the id 100 + i."""
    document = {
        "images": [
            {
                "id": 100 + number,
                "file_name": f"{number}.png",
                "height": 100,
                "width": 200,
            }
            for number in range(pictures)
        ],
        "categories": CATEGORIES,
        "annotations": [
            {
                "id": number,
                "image_id": 100 + picture,
                "category_id": category,
                "bbox": box,
            }
            | fields
            for number, (picture, category, box, fields) in enumerate(annotations)
        ],
    }
    for number in range(pictures):
        write_picture(folder / f"images/{number}.png", number, SIZE)
    (folder / "objects.json").write_text(json.dumps(document))
    return folder


def finding(found: dict[int, list[dict]], masks: bool = False, known=("cat", "dog")):
    """A detector of cat (0) and dog (1) that finds these in each picture."""

    def result(request: Any, picture: bytes) -> Any:
        if request.mask_format and not masks:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION, "model.no_masks", "no masks"
            )
        for name in request.classes:
            if name not in known:
                raise Refusal(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "request.class_unknown",
                    f"the model has no class '{name}'",
                )
        return objects(SIZE, *found.get(number_of(picture), []))

    return result


def at(left: float, top: float, width: float, height: float, **fields: Any) -> dict:
    box = [left, top, left + width, top + height]
    return {"box": box, "score": 0.9, "index": 0, "label": "cat"} | fields


DOG = {"index": 1, "label": "dog"}


def average_precision(fake: FakeVision, folder: pathlib.Path) -> dict[str, Any]:
    (model,) = figures(fake.address, "-m", "m", "-d", folder)["models"]
    return model


def test_perfect_boxes_have_an_average_precision_of_one(tmp_path: pathlib.Path):
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {}), (1, 90, [0, 0, 50, 50], {})],
        pictures=3,
    )
    found = {0: [at(10, 10, 20, 10)], 1: [at(0, 0, 50, 50, **DOG)]}
    with FakeVision(Detect=finding(found)) as fake:
        model = average_precision(fake, tmp_path)
    assert [model["figures"][f"box {name}"] for name in ("AP", "AP50", "AR100")] == (
        pytest.approx([1, 1, 1])
    )
    # 20 x 10 pixels are a small object, 50 x 50 a medium one.
    assert model["figures"]["box AP small"] == pytest.approx(1)
    assert model["figures"]["box AP large"] is None
    assert model["classes"] == {
        name: {"box AP": pytest.approx(1), "box AP50": pytest.approx(1)}
        for name in ("cat", "dog")
    }
    assert "mask AP" not in model["figures"]
    assert any("no mask AP" in note for note in model["notes"])


def test_a_shifted_box_counts_up_to_its_overlap(tmp_path: pathlib.Path):
    """20x10 pixels shifted by 4: 160 of 240 are of both, which four thresholds take."""
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    with FakeVision(Detect=finding({0: [at(14, 10, 20, 10)]})) as fake:
        found = average_precision(fake, tmp_path)["figures"]
    assert found["box AP"] == pytest.approx(0.4)
    assert (found["box AP50"], found["box AP75"]) == (pytest.approx(1), 0)


def test_a_missing_box_ends_recall_at_a_half(tmp_path: pathlib.Path):
    """51 of the 101 places are at a recall of 0.5 or less."""
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {}), (1, 18, [60, 60, 20, 10], {})],
        pictures=2,
    )
    with FakeVision(Detect=finding({0: [at(10, 10, 20, 10)]})) as fake:
        found = average_precision(fake, tmp_path)
    assert found["figures"]["box AP"] == pytest.approx(51 / 101)
    assert found["figures"]["box AR100"] == pytest.approx(0.5)
    assert found["classes"]["dog"] == {"box AP": None, "box AP50": None}


def test_a_wrong_box_of_a_higher_score_halves_precision(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    wrong = at(100, 50, 20, 10, score=0.95)
    with FakeVision(Detect=finding({0: [wrong, at(10, 10, 20, 10)]})) as fake:
        found = average_precision(fake, tmp_path)["figures"]
    assert found["box AP"] == pytest.approx(0.5)


def test_a_crowd_is_neither_missed_nor_found(tmp_path: pathlib.Path):
    crowd = {"iscrowd": 1, "segmentation": {"size": [100, 200], "counts": [0, 20000]}}
    scene(
        tmp_path,
        [(0, 18, [0, 0, 200, 100], crowd), (0, 18, [10, 10, 20, 10], {})],
        pictures=1,
    )
    inside = at(100, 50, 20, 10, score=0.95)
    with FakeVision(Detect=finding({0: [inside, at(10, 10, 20, 10)]})) as fake:
        assert average_precision(fake, tmp_path)["figures"]["box AP"] == (
            pytest.approx(1)
        )


def test_nothing_found_is_zero(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    with FakeVision(Detect=finding({})) as fake:
        found = average_precision(fake, tmp_path)["figures"]
    assert found["box AP"] == 0 and found["box AR100"] == 0


def test_classes_are_matched_by_name_not_by_id(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 90, [10, 10, 20, 10], {})], pictures=1)
    dog = at(10, 10, 20, 10, index=18, label="dog")
    bird = at(50, 50, 20, 10, index=90, label="bird")
    with FakeVision(Detect=finding({0: [dog, bird]})) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == pytest.approx(1)
    assert any("does not have are left out: bird (1)" in n for n in model["notes"])


def test_a_detector_without_labels_has_the_categories_in_order_of_their_ids(
    tmp_path: pathlib.Path,
):
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {}), (0, 90, [0, 0, 50, 50], {})],
        pictures=1,
    )
    found = {0: [at(10, 10, 20, 10, label=""), at(0, 0, 50, 50, index=1, label="")]}
    with FakeVision(Detect=finding(found)) as fake:
        assert average_precision(fake, tmp_path)["figures"]["box AP"] == (
            pytest.approx(1)
        )


def test_a_category_that_the_detector_does_not_have_is_named(tmp_path: pathlib.Path):
    box = [10, 10, 20, 10]
    scene(tmp_path, [(0, 18, box, {}), (0, 90, box, {})], pictures=1)
    result = finding({0: [at(10, 10, 20, 10)]}, known=("cat", "bird"))
    with FakeVision(Detect=result) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    assert refused.returncode == 2
    assert "1 of the 2 categories of the data set are no classes of model m: dog" in (
        refused.stderr
    )


def test_a_category_without_objects_need_not_be_known(tmp_path: pathlib.Path):
    """Exporters write one that stands for all."""
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    result = finding({0: [at(10, 10, 20, 10)]}, known=("cat",))
    with FakeVision(Detect=result) as fake:
        assert average_precision(fake, tmp_path)["figures"]["box AP"] == (
            pytest.approx(1)
        )


def test_a_model_of_another_task_is_refused_in_words(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)

    def result(*_: object):
        raise Refusal(
            grpc.StatusCode.FAILED_PRECONDITION,
            "model.no_detector",
            "the model gives no detections",
        )

    with FakeVision(Detect=result) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == (
        "fovea-evaluate: model m: the model gives no detections (the data set is for detection)\n"
    )


@pytest.mark.parametrize(
    "mask",
    [
        {"size": [50, 50], "counts": [0, 2500]},
        {"size": [100, 200], "counts": ["a"]},
        [[1, 2, "x", 4, 5, 6]],
    ],
)
def test_a_mask_that_cannot_be_read_is_named_before_anything_is_measured(
    mask: object, tmp_path: pathlib.Path
):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {"segmentation": mask})], pictures=1)
    with FakeVision(Detect=finding({}, masks=True)) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
        assert fake.requests == []
    assert refused.returncode == 2
    assert "the mask of an object in image 100 cannot be read" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_picture_that_is_not_what_the_annotations_say_does_not_count(
    tmp_path: pathlib.Path,
):
    scene(tmp_path, [(0, 18, [1, 1, 20, 10], {})], pictures=2)
    file = tmp_path / "objects.json"
    document = json.loads(file.read_text())
    document["images"][1]["width"] = 100
    document["images"][1]["height"] = 200
    file.write_text(json.dumps(document))
    with FakeVision(Detect=finding({0: [at(1, 1, 20, 10)]})) as fake:
        done = evaluate(fake.address, "-m", "m", "-d", tmp_path, "--json")
    assert done.returncode == 1
    sentence = "the annotations say that it is 100x200, and upright it is 200x100"
    assert sentence in done.stderr
    (model,) = json.loads(done.stdout)["models"]
    assert [one["message"] for one in model["failed"]] == [sentence]
    assert model["figures"]["box AP"] == pytest.approx(1)


def rectangle(left: int, top: int, width: int, height: int) -> dict[str, Any]:
    pixels = np.zeros(SIZE, np.uint8, order="F")
    pixels[top : top + height, left : left + width] = 1
    counts = coco_mask.encode(pixels)["counts"].decode()
    return {"counts": counts, "pixels": width * height}


def outline(left: int, top: int, width: int, height: int) -> dict[str, Any]:
    right, bottom = left + width, top + height
    return {"segmentation": [[left, top, right, top, right, bottom, left, bottom]]}


def test_masks_have_their_own_average_precision(tmp_path: pathlib.Path):
    """The boxes are right; the mask of the cat is, and of the dog's 20x10 pixels 13 columns are found: 0.65."""
    cat, dog = [10, 10, 20, 10], [60, 50, 20, 10]
    scene(
        tmp_path,
        [(0, 18, cat, outline(*cat)), (0, 90, dog, outline(*dog))],
        pictures=1,
    )
    found = {
        0: [at(*cat, **rectangle(*cat)), at(*dog, **DOG, **rectangle(60, 50, 13, 10))]
    }
    with FakeVision(Detect=finding(found, masks=True)) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == pytest.approx(1)
    assert model["classes"]["cat"]["mask AP"] == pytest.approx(1)
    # 0.50, 0.55, 0.60 and 0.65.
    assert model["classes"]["dog"]["mask AP"] == pytest.approx(0.4)
    assert model["figures"]["mask AP"] == pytest.approx(0.7)
    assert model["notes"] == []


def test_a_model_without_masks_has_its_boxes_measured(tmp_path: pathlib.Path):
    box = [10, 10, 20, 10]
    scene(tmp_path, [(0, 18, box, outline(*box))], pictures=1)
    with FakeVision(Detect=finding({0: [at(*box)]})) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == pytest.approx(1)
    assert "mask AP" not in model["figures"]
    assert model["notes"] == ["no mask AP: model m gives no masks"]


# --- Intersection over union.


def scenes(
    folder: pathlib.Path, masks: list[np.ndarray], labels: str = ""
) -> pathlib.Path:
    for number, mask in enumerate(masks):
        write_picture(folder / f"images/{number}.png", number, mask.shape)
        (folder / "masks").mkdir(exist_ok=True)
        Image.fromarray(mask).save(folder / f"masks/{number}.png")
    if labels:
        (folder / "labels.txt").write_text(labels)
    return folder


def mapping(maps: list[np.ndarray], labels: dict[int, str]):
    return lambda _, picture: class_map(maps[number_of(picture)], labels)


MASKS = [np.array([[0, 0, 1, 255]], np.uint8), np.array([[1, 1], [2, 2]], np.uint8)]
# Of the five pixels of 0 and 1 three are right; what stands at the 255 does not count.
MAPS = [np.array([[0, 1, 1, 2]], np.uint8), np.array([[1, 0], [2, 2]], np.uint8)]
UNION = {"0": 1 / 3, "1": 2 / 4, "2": 1.0}
RIGHT = {"0": 1 / 2, "1": 2 / 3, "2": 1.0}


def check_known_confusion(model: dict[str, Any], names: dict[str, str]) -> None:
    assert model["classes"] == {
        names[level]: {
            "IoU": pytest.approx(UNION[level]),
            "accuracy": pytest.approx(RIGHT[level]),
        }
        for level in UNION
    }
    assert model["figures"] == pytest.approx(
        {
            "mIoU": sum(UNION.values()) / 3,
            "pixel accuracy": 5 / 7,
            "class mean": sum(RIGHT.values()) / 3,
        }
    )


def test_the_figures_of_a_known_confusion(tmp_path: pathlib.Path):
    scenes(tmp_path, MASKS)
    with FakeVision(Segment=mapping(MAPS, {})) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
    check_known_confusion(model, {level: level for level in UNION})


def test_classes_of_pixels_are_matched_by_label_first(tmp_path: pathlib.Path):
    """The model has them in another order, and one more, which it never finds."""
    scenes(tmp_path, MASKS, "sky\nsea\nsand\n")
    theirs = np.array([30, 10, 20], np.uint8)  # of sky, sea, sand
    labels = {10: "sea", 20: "sand", 30: "sky"}
    with FakeVision(Segment=mapping([theirs[one] for one in MAPS], labels)) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
        check_known_confusion(model, {"0": "sky", "1": "sea", "2": "sand"})
        refused = figures(fake.address, "-m", "m", "-d", tmp_path, "--by-number")
        assert refused["models"][0]["figures"]["mIoU"] == 0


def test_pixels_of_a_class_that_the_data_set_lacks_are_wrong_and_told(
    tmp_path: pathlib.Path,
):
    scenes(tmp_path, [np.array([[0, 0, 1, 1]], np.uint8)], "sky\nsea\n")
    found = np.array([[0, 0, 1, 5]], np.uint8)
    labels = {0: "sky", 1: "sea", 5: "boat"}
    with FakeVision(Segment=mapping([found], labels)) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
    assert model["classes"]["sea"]["IoU"] == 0.5
    assert model["figures"]["mIoU"] == 0.75
    assert model["notes"] == ["found, and no classes of the data set: boat (1 pixels)"]


def test_a_class_that_nothing_shows_does_not_count_and_one_found_in_vain_does(
    tmp_path: pathlib.Path,
):
    scenes(tmp_path, [np.array([[0, 0, 0, 0]], np.uint8)], "sky\nsea\nsand\n")
    found = np.array([[0, 0, 0, 1]], np.uint8)
    with FakeVision(Segment=mapping([found], {})) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
    assert [one["IoU"] for one in model["classes"].values()] == [0.75, 0, None]
    assert model["figures"]["mIoU"] == 0.375
    assert model["figures"]["class mean"] == 0.75


def test_labels_that_share_nothing_are_an_error(tmp_path: pathlib.Path):
    scenes(tmp_path, MASKS, "sky\nsea\nsand\n")
    labels = {0: "car", 1: "bus", 2: "van"}
    with FakeVision(Segment=mapping(MAPS, labels)) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    assert refused.returncode == 2
    assert "none of the classes that model m found (car, bus, van)" in refused.stderr


def test_masks_that_do_not_fit_do_not_count(tmp_path: pathlib.Path):
    scenes(tmp_path, [MASKS[0], MASKS[1], MASKS[0] * 0], "sky\nsea\n")
    maps = [*MAPS, MAPS[1]]
    with FakeVision(Segment=mapping(maps, {})) as fake:
        done = evaluate(fake.address, "-m", "m", "-d", tmp_path, "--json")
    assert done.returncode == 1
    (model,) = json.loads(done.stdout)["models"]
    assert [one["message"] for one in model["failed"]] == [
        "its mask has the level 2, and labels.txt 2 lines",
        "its mask is 4x1, and upright it is 2x2",
    ]
    assert model["answered"] == 1
    assert not math.isnan(model["figures"]["mIoU"])
