"""fovea-evaluate's data sets: the layouts of docs/measuring/datasets.md, told apart, and what is wrong with others in words."""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from evaluation_support import write_picture
from fovea.evaluation.datasets import (
    Coco,
    DatasetError,
    ImageFolder,
    MaskFolder,
    open_dataset,
    spread,
)
from fovea.evaluation.measure import PictureError
from fovea.evaluation.segmentation import read_mask

OBJECTS = {
    "images": [{"id": 7, "file_name": "a.png"}, {"id": 3, "file_name": "sub/b.png"}],
    "categories": [{"id": 90, "name": "dog"}, {"id": 18, "name": " cat "}],
    "annotations": [
        {"id": 0, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4]},
    ],
}


def coco_file(file: pathlib.Path, **changes: object) -> pathlib.Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(OBJECTS | changes))
    return file


def pictures_of_coco(folder: pathlib.Path) -> list[pathlib.Path]:
    return [write_picture(folder / name, 1) for name in ("sub/b.png", "a.png")]


def test_a_folder_for_each_class(tmp_path: pathlib.Path):
    expected = [
        write_picture(tmp_path / name, 1)
        for name in ("cat/1.png", "cat/below/2.PNG", "dog/3.jpg")
    ]
    (tmp_path / "cat/notes.txt").write_text("no picture")
    write_picture(tmp_path / "cat/.hidden.png", 1)
    write_picture(tmp_path / ".git/4.png", 1)
    (tmp_path / "emu").mkdir()
    (tmp_path / "settings.json").write_text("{}")
    dataset = open_dataset(tmp_path)
    assert isinstance(dataset, ImageFolder)
    assert dataset.classes == ["cat", "dog", "emu"] and dataset.numbers == [0, 1, 2]
    assert dataset.pictures == expected
    assert dataset.truth == [0, 0, 1]


def test_folders_named_by_numbers_are_these_classes(tmp_path: pathlib.Path):
    for name in ("0", "2", "10"):
        write_picture(tmp_path / name / "a.png", 1)
    dataset = open_dataset(tmp_path)
    assert dict(zip(dataset.classes, dataset.numbers, strict=True)) == {
        "0": 0,
        "10": 10,
        "2": 2,
    }
    assert dataset.classes == ["0", "2", "10"] and dataset.truth == [0, 1, 2]
    assert [file.parent.name for file in dataset.pictures] == dataset.classes


@pytest.mark.parametrize("file", ["found.json", "annotations/instances.json"])
@pytest.mark.parametrize("pictures", ["images", "."])
def test_annotations_of_coco_beside_or_above_their_pictures(
    file: str, pictures: str, tmp_path: pathlib.Path
):
    coco_file(tmp_path / file)
    expected = pictures_of_coco(tmp_path / pictures)
    for path in (tmp_path, tmp_path / file):
        dataset = open_dataset(path)
        assert isinstance(dataset, Coco)
        assert [image["id"] for image in dataset.images] == [3, 7]
        assert dataset.pictures == expected
        assert dataset.categories == [
            {"id": 18, "name": "cat"},
            {"id": 90, "name": "dog"},
        ]
        (one,) = dataset.annotations
        assert (one["area"], one["iscrowd"]) == (12, 0)
        assert dataset.without_mask == 1


@pytest.mark.parametrize("folder", ["val2017", "val", "images/val2017", "val/images"])
def test_cocos_own_layout_is_read_by_the_name_of_its_annotations(
    folder: str, tmp_path: pathlib.Path
):
    file = coco_file(tmp_path / "annotations/instances_val2017.json")
    coco_file(tmp_path / "annotations/captions_val2017.json")
    pictures_of_coco(tmp_path / "train2017")  # another part, of the same names
    expected = pictures_of_coco(tmp_path / folder)
    assert open_dataset(file).pictures == expected
    assert open_dataset(file, images=tmp_path / folder).pictures == expected
    with pytest.raises(DatasetError, match=r"several JSON files.*captions_val2017"):
        open_dataset(tmp_path)


def test_pictures_in_a_folder_of_another_name_are_read_where_images_says(
    tmp_path: pathlib.Path,
):
    file = coco_file(tmp_path / "annotations/instances_val2017.json")
    expected = pictures_of_coco(tmp_path / "photographs")
    with pytest.raises(DatasetError, match="say where they are with --images"):
        open_dataset(file)
    found = open_dataset(file, images=tmp_path / "photographs")
    assert found.pictures == expected


SQUARE = [1, 2, 4, 2, 4, 6, 1, 6]


@pytest.mark.parametrize("point", [[], [1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5]])
def test_polygons_that_enclose_nothing_are_left_out_and_counted(
    point: list[int], tmp_path: pathlib.Path
):
    """As fovea-train does it: an object that has no other polygon is left out too, and that is told."""
    one = OBJECTS["annotations"][0]
    file = coco_file(
        tmp_path / "a.json",
        annotations=[
            one | {"segmentation": [SQUARE, point]},
            one | {"segmentation": [point, point]},
            one | {"segmentation": [SQUARE]},
        ],
    )
    pictures_of_coco(tmp_path)
    dataset = open_dataset(file)
    assert [one["segmentation"] for one in dataset.annotations] == [[SQUARE]] * 2
    assert dataset.without_mask == 0
    assert dataset.notes == [
        "objects whose polygons have fewer than three corners are left out: 1"
    ]
    file = coco_file(tmp_path / "b.json", annotations=[one | {"segmentation": []}])
    dataset = open_dataset(file)
    assert dataset.without_mask == 1 and dataset.notes == [], "a box alone"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"categories": [{"id": 1}]}, "a field 'name' is missing"),
        (
            {"categories": [{"id": 90, "name": "a"}, {"id": 2, "name": "a"}]},
            "two categories have the name a",
        ),
        (
            {"categories": [{"id": 90, "name": "a"}, {"id": 90, "name": "b"}]},
            "two categories have the id 90",
        ),
        ({"images": []}, "names no images or no categories"),
        ({"images": OBJECTS["images"][:1] * 2}, "two images have the id 7"),
        ({"images": OBJECTS["images"][1:]}, "image 7, which it does not name"),
        (
            {"categories": [{"id": 1, "name": "a"}]},
            "category 90, which it does not name",
        ),
        (
            {"annotations": [OBJECTS["annotations"][0] | {"bbox": [1, 2, -3, 4]}]},
            "a box is not",
        ),
        (
            {"annotations": [OBJECTS["annotations"][0] | {"bbox": [1, 2, 3]}]},
            "a box is not",
        ),
        (
            {
                "annotations": [
                    OBJECTS["annotations"][0]
                    | {"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}
                ]
            },
            "neither a list of polygons",
        ),
        (
            {"annotations": [OBJECTS["annotations"][0] | {"segmentation": "polygon"}]},
            "neither a list of polygons",
        ),
        (
            {"annotations": [OBJECTS["annotations"][0] | {"iscrowd": 256}]},
            "an iscrowd of 256",
        ),
        ({"images": [{"id": float("inf"), "file_name": "a.png"}]}, "infinity"),
        ({"annotations": 7}, "an object with lists images, annotations, categories"),
    ],
)
def test_annotations_that_are_wrong_say_what(
    changes: dict, sentence: str, tmp_path: pathlib.Path
):
    file = coco_file(tmp_path / "a.json", **changes)
    pictures_of_coco(tmp_path)
    with pytest.raises(DatasetError, match=re.escape(str(file))) as caught:
        open_dataset(file)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("how", ["beside", "--images"])
@pytest.mark.parametrize(
    "name", ["{}/a.png", "../a.png", "sub/../../a.png", "a.png\0", "", "\ud800.png"]
)
def test_a_picture_is_named_inside_of_its_folder(
    name: str, how: str, tmp_path: pathlib.Path
):
    """Any file of the machine would be sent to the server otherwise."""
    for folder in (tmp_path, tmp_path / "data", tmp_path / "data/sub"):
        write_picture(folder / "a.png", 1)
    named = {"id": 7, "file_name": name.format(tmp_path)}
    file = coco_file(tmp_path / "data/a.json", images=[*OBJECTS["images"][1:], named])
    write_picture(tmp_path / "data/sub/b.png", 1)
    images = file.parent if how == "--images" else None
    with pytest.raises(DatasetError, match=re.escape(str(file))):
        open_dataset(file, images=images)


@pytest.mark.parametrize("how", ["beside", "--images"])
@pytest.mark.parametrize("kind", ["a device", "a pipe", "a folder"])
def test_a_picture_is_a_file(kind: str, how: str, tmp_path: pathlib.Path):
    """A device would be read for ever, and a pipe waited for."""
    file = coco_file(tmp_path / "a.json")
    write_picture(tmp_path / "sub/b.png", 1)
    picture = tmp_path / "a.png"
    make = {
        "a device": lambda: picture.symlink_to("/dev/zero"),
        "a folder": picture.mkdir,
    }
    make.get(kind, lambda: os.mkfifo(picture))()
    if how == "beside":
        (tmp_path / "images").symlink_to(tmp_path)
    images = tmp_path if how == "--images" else None
    with pytest.raises(DatasetError, match=r"its picture .*a\.png is no file"):
        open_dataset(file, images=images)


def test_what_is_no_json_says_so(tmp_path: pathlib.Path):
    for text in ("{", "[" * 100_000):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(DatasetError, match="cannot be read as JSON"):
            open_dataset(tmp_path / "a.json")


def test_pictures_and_their_masks(tmp_path: pathlib.Path):
    pictures = [
        write_picture(tmp_path / "images" / name, 1) for name in ("a.jpg", "b/c.png")
    ]
    masks = [
        write_picture(tmp_path / "masks" / name, 1) for name in ("a.png", "b/c.png")
    ]
    dataset = open_dataset(tmp_path)
    assert isinstance(dataset, MaskFolder)
    assert (dataset.pictures, dataset.masks) == (pictures, masks)
    assert dataset.labels == []
    (tmp_path / "labels.txt").write_text("ground\ncat \n")
    assert open_dataset(tmp_path).labels == ["ground", "cat"]
    assert dataset.notes == []


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n \r\n"])
def test_empty_lines_end_labels_and_name_no_class(end: str, tmp_path: pathlib.Path):
    write_picture(tmp_path / "images/a.png", 1)
    write_picture(tmp_path / "masks/a.png", 1)
    (tmp_path / "labels.txt").write_bytes(f"ground\ncat{end}".encode())
    assert open_dataset(tmp_path).labels == ["ground", "cat"]
    # A class without a name in between would move those behind it.
    for text, sentence in (("ground\n\ncat\n", "empty line"), (end, "has no label")):
        (tmp_path / "labels.txt").write_bytes(text.encode())
        with pytest.raises(DatasetError, match=sentence):
            open_dataset(tmp_path)


def test_a_picture_without_a_mask_is_named_and_a_mask_without_a_picture_is_told(
    tmp_path: pathlib.Path,
):
    for name in ("a", "b"):
        write_picture(tmp_path / f"images/{name}.png", 1)
        write_picture(tmp_path / f"masks/{name}.png", 1)
    (tmp_path / "masks/b.png").unlink()
    with pytest.raises(
        DatasetError, match=r"1 picture without a mask, first .*images/b\.png"
    ):
        open_dataset(tmp_path)
    (tmp_path / "images/b.png").unlink()
    write_picture(tmp_path / "masks/c.png", 1)
    dataset = open_dataset(tmp_path)
    assert dataset.masks == [tmp_path / "masks/a.png"]
    assert dataset.notes == ["masks without a picture are not used: 1"]
    write_picture(tmp_path / "images/a.jpg", 1)
    with pytest.raises(DatasetError, match="have one name"):
        open_dataset(tmp_path)


def test_a_folder_of_no_layout_says_which_there_are(tmp_path: pathlib.Path):
    (tmp_path / "loose.txt").write_text("")
    with pytest.raises(DatasetError, match="none of the layouts") as caught:
        open_dataset(tmp_path)
    for word in ("a folder for each class", "COCO", "masks/"):
        assert word in str(caught.value)
    with pytest.raises(DatasetError, match="does not exist"):
        open_dataset(tmp_path / "nothing")
    with pytest.raises(DatasetError, match="--images goes with"):
        write_picture(tmp_path / "cat/a.png", 1)
        open_dataset(tmp_path, images=tmp_path)


def test_a_folder_of_two_layouts_takes_the_one_that_is_named(tmp_path: pathlib.Path):
    coco_file(tmp_path / "a.json")
    for name in ("a", "sub/b"):
        write_picture(tmp_path / f"images/{name}.png", 1)
        write_picture(tmp_path / f"masks/{name}.png", 1)
    with pytest.raises(
        DatasetError, match="segmentation or detection: say which with --task"
    ):
        open_dataset(tmp_path)
    for task in ("classification", "detection", "segmentation"):
        assert open_dataset(tmp_path, task=task).task == task


def test_masks_hold_levels_or_places_in_a_palette(tmp_path: pathlib.Path):
    levels = np.array([[0, 3], [255, 1]], np.uint8)
    file = tmp_path / "mask.png"
    Image.fromarray(levels).save(file)
    np.testing.assert_array_equal(read_mask(file), levels)
    coloured = Image.fromarray(levels, "P")
    coloured.putpalette([value for place in range(256) for value in (255 - place,) * 3])
    coloured.save(file)
    np.testing.assert_array_equal(read_mask(file), levels)
    Image.fromarray(levels.astype(np.uint16) * 100).save(file)
    np.testing.assert_array_equal(read_mask(file), levels.astype(int) * 100)
    assert read_mask(file).dtype == np.uint16
    Image.fromarray(levels > 2).save(file)
    np.testing.assert_array_equal(read_mask(file), levels > 2)
    assert read_mask(file).dtype == np.uint8
    Image.fromarray(np.stack([levels] * 3, 2)).save(file)
    with pytest.raises(PictureError, match="neither grey nor of a palette, but RGB"):
        read_mask(file)
    file.write_bytes(b"\x89PNG")
    with pytest.raises(PictureError, match="cannot be read"):
        read_mask(file)


@pytest.mark.parametrize("level", [-1, 1 << 16, (1 << 16) + 1])
def test_levels_beyond_16_bits_are_refused(level: int, tmp_path: pathlib.Path):
    """They would be those of other classes."""
    file = tmp_path / "mask.png"
    Image.fromarray(np.array([[0, level]], np.int32)).save(file, format="TIFF")
    with pytest.raises(PictureError, match="more than 16 bits"):
        read_mask(file)


def test_a_limit_leaves_pictures_from_everywhere():
    assert spread(10, None) == spread(10, 10) == spread(10, 99) == list(range(10))
    assert spread(10, 4) == [0, 2, 5, 7]
    assert spread(10, 1) == [0]
