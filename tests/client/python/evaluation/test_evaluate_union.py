"""fovea-evaluate's mIoU, on data sets and answers whose figures follow by hand."""

from __future__ import annotations

import json
import math
import pathlib
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from evaluation_support import evaluate, figures, number_of, write_picture
from fake_vision import FakeVision, class_map


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


def test_in_masks_of_16_bits_the_highest_level_does_not_count_and_255_is_a_class(
    tmp_path: pathlib.Path,
):
    scenes(tmp_path, [np.array([[255, 255, 300, 65535]], np.uint16)])
    found = np.array([[255, 300, 300, 255]], np.uint16)
    with FakeVision(Segment=mapping([found], {})) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
    assert model["classes"] == {
        "255": {"IoU": 1 / 2, "accuracy": 1 / 2},
        "300": {"IoU": 1 / 2, "accuracy": 1.0},
    }
    assert model["figures"]["pixel accuracy"] == pytest.approx(2 / 3)


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


def test_what_is_left_out_of_the_data_set_is_told(tmp_path: pathlib.Path):
    scenes(tmp_path, MASKS)
    Image.fromarray(MASKS[0]).save(tmp_path / "masks/alone.png")
    write_picture(tmp_path / "images/single.png", 1)
    with FakeVision(Segment=mapping(MAPS, {})) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
        shown = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    check_known_confusion(model, {level: level for level in UNION})
    unused, left_out = model["notes"]
    assert unused == "1 mask without a picture is not used"
    assert shown.returncode == 0, "no picture has failed"
    assert f"m: {left_out}\n" in shown.stdout and "single.png has no mask" in left_out


def test_spaces_and_ways_to_write_accents_make_no_other_class(tmp_path: pathlib.Path):
    """fovea-train keeps those of labels.txt in the model."""
    scenes(tmp_path, MASKS, "sky \ngr\u00e4ss\n road\n")
    labels = {0: "sky ", 1: "gra\u0308ss", 2: " road"}
    with FakeVision(Segment=mapping(MAPS, labels)) as fake:
        (model,) = figures(fake.address, "-m", "m", "-d", tmp_path)["models"]
    check_known_confusion(model, {"0": "sky", "1": "gr\u00e4ss", "2": "road"})


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


def test_a_mask_that_pillow_refuses_is_one_failed_picture(tmp_path: pathlib.Path):
    """Of a text chunk above 1 MB Pillow says so with a ValueError."""
    scenes(tmp_path, MASKS)
    text = PngImagePlugin.PngInfo()
    text.add_text("comment", "x" * (2 << 20), zip=True)
    Image.fromarray(MASKS[0]).save(tmp_path / "masks/0.png", pnginfo=text)
    with FakeVision(Segment=mapping(MAPS, {})) as fake:
        done = evaluate(fake.address, "-m", "m", "-d", tmp_path, "--json")
    assert done.returncode == 1, done.stderr
    (model,) = json.loads(done.stdout)["models"]
    (failed,) = model["failed"]
    assert failed["picture"].endswith("images/0.png")
    assert failed["message"].startswith("its mask cannot be read: ")
    assert model["answered"] == 1
