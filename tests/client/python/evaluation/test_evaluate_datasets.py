"""fovea-evaluate's data sets: the layouts of docs/measuring/datasets.md, told apart, and what is wrong with others in words."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps

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
from fovea.evaluation.measure import Model, PictureError
from fovea.evaluation.picture_files import EXTENSIONS, SIGNATURES
from fovea.evaluation.segmentation import IntersectionOverUnion, read_mask

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


# The same order as in user_data_test.cc, so that training and evaluation read the same files.
FOLDERS_IN_ORDER = [
    *("annotations/images", "annotations/data", "annotations"),
    *("images/train2017", "data/train2017"),
    *("train2017", "train2017/images", "train2017/data"),
    *("images/train", "data/train", "train", "train/images", "train/data"),
    *("images", "data", "."),
]


def test_pictures_are_looked_for_in_the_trainers_order(tmp_path: pathlib.Path):
    file = coco_file(tmp_path / "annotations/instances_train2017.json")
    for folder in reversed(FOLDERS_IN_ORDER):
        expected = pictures_of_coco(tmp_path / folder)
        assert open_dataset(file).pictures == expected
    named = FOLDERS_IN_ORDER[3:-3]
    for folder in (*reversed(named), "."):
        expected = pictures_of_coco(tmp_path / "all" / folder)
        assert open_dataset(file, images=tmp_path / "all").pictures == expected


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


@pytest.mark.parametrize("point", [[], [1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5], [1] * 7])
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
        "1 objects whose polygons have fewer than three corners are left out"
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
            {"annotations": [OBJECTS["annotations"][0] | {"bbox": [1, 2, 3]}]},
            "a box is not",
        ),
        ({"annotations": []}, "there is no object in any of the pictures"),
        (
            {"annotations": [OBJECTS["annotations"][0] | {"iscrowd": 1}] * 2},
            "all 2 objects are crowds",
        ),
        (
            {"annotations": [OBJECTS["annotations"][0] | {"segmentation": [7]}]},
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
        (
            {"images": [{"id": float("inf"), "file_name": "a.png"}]},
            "a field 'id' is missing",
        ),
        ({"annotations": [7]}, "is not of COCO's format"),
        (
            {"annotations": [{"segments_info": [], "image_id": 7}]},
            "it is of COCO's panoptic format, whose objects are in PNG files: write instances",
        ),
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
    ("name", "is_a_name"),
    [
        *((name, True) for name in ("{}/c.png", "../c.png", "sub/../../c.png")),
        *((name, False) for name in ("a.png\0", "", "\ud800.png")),
    ],
)
def test_a_picture_is_named_inside_of_its_folder(
    name: str, is_a_name: bool, how: str, tmp_path: pathlib.Path
):
    """Any file of the machine would be sent to the server otherwise."""
    write_picture(tmp_path / "c.png", 1)
    named = {"id": 7, "file_name": name.format(tmp_path)}
    file = coco_file(tmp_path / "data/a.json", images=[*OBJECTS["images"][1:], named])
    write_picture(tmp_path / "data/sub/b.png", 1)
    images = file.parent if how == "--images" else None
    if not is_a_name:
        with pytest.raises(DatasetError, match=re.escape(str(file))):
            open_dataset(file, images=images)
        return
    *_, found = open_dataset(file, images=images).pictures
    # One that stands beside the data set is not in it, and is missed later.
    if how == "--images":
        assert tmp_path / "data" in found.parents and not found.exists()
    else:
        assert found in (tmp_path / "c.png", tmp_path / "data" / "c.png")


@pytest.mark.parametrize(
    ("file", "folder", "name"),
    [
        ("labels.json", "data", "sub/b.png"),  # FiftyOne
        ("annotations/instances_default.json", "images/default", "sub/b.png"),  # CVAT
        ("a.json", "images", "images\\sub/b.png"),  # Label Studio on Windows
        ("a.json", "images", "..\\..\\sub\\b.png"),
        ("a.json", "images", "/data/upload/1/b.png"),
        ("a.json", ".", "/home/me/pictures/sub/b.png"),  # labelme2coco
        ("a.json", "images", "/data/local-files/?d=mine/sub/b.png"),
        ("_annotations.coco.json", ".", "sub/b.png"),  # Roboflow
    ],
)
def test_names_of_pictures_are_read_as_tools_write_them(
    file: str, folder: str, name: str, tmp_path: pathlib.Path
):
    named = [{"id": 3, "file_name": name}, OBJECTS["images"][0]]
    coco_file(tmp_path / file, images=named)
    plain = "upload" in name
    wanted = [
        write_picture(tmp_path / folder / one, 1)
        for one in ("b.png" if plain else "sub/b.png", "a.png")
    ]
    found = open_dataset(tmp_path).pictures
    assert [one.resolve() for one in found] == [one.resolve() for one in wanted]


def test_an_end_of_a_name_is_no_file_of_two_pictures(tmp_path: pathlib.Path):
    named = [
        {"id": 1, "file_name": "/left/a.png"},
        {"id": 2, "file_name": "/right/a.png"},
        {"id": 7, "file_name": "c.png"},
    ]
    file = coco_file(tmp_path / "a.json", images=named)
    for name in ("a.png", "c.png"):
        write_picture(tmp_path / name, 1)
    *two, one = open_dataset(file).pictures
    assert one == tmp_path / "c.png" and not any(path.exists() for path in two)


ONE = OBJECTS["annotations"][0]


@pytest.mark.parametrize(
    "changes",
    [
        {"area": None, "iscrowd": None, "segmentation": None},
        {"area": float("nan")},
        {"segmentation": ""},
        {"segmentation": [[]]},
        {"image_id": "7", "category_id": "90"},
        {"bbox": None, "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6]]},
        {"bbox": [], "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6]]},
        {
            "bbox": [],
            "segmentation": {"size": [8, 10], "counts": [10, 4, 4, 4, 4, 4, 50]},
        },
    ],
)
def test_what_is_null_or_empty_is_absent(changes: dict, tmp_path: pathlib.Path):
    file = coco_file(tmp_path / "a.json", annotations=[ONE | changes])
    pictures_of_coco(tmp_path)
    (one,) = open_dataset(file).annotations
    assert (one["bbox"], one["area"], one["iscrowd"]) == ([1, 2, 3, 4], 12, 0)
    assert (one["image_id"], one["category_id"]) == (7, 90)


def test_ids_may_be_texts(tmp_path: pathlib.Path):
    file = coco_file(
        tmp_path / "a.json",
        images=[
            {"id": "b-7", "file_name": "a.png"},
            {"id": "a-3", "file_name": "sub/b.png"},
        ],
        categories=[{"id": "x", "name": "dog"}, {"id": 2, "name": "cat"}],
        annotations=[ONE | {"image_id": "b-7", "category_id": "x", "id": "f3c1"}],
    )
    pictures_of_coco(tmp_path)
    dataset = open_dataset(file)
    assert [path.name for path in dataset.pictures] == ["b.png", "a.png"]
    assert [image["id"] for image in dataset.images] == [0, 1]
    assert [one["name"] for one in dataset.categories] == ["cat", "dog"]
    (one,) = dataset.annotations
    assert (one["image_id"], one["category_id"]) == (1, 1)


@pytest.mark.parametrize(
    ("annotations", "note", "kept"),
    [
        ([ONE, ONE | {"id": 9, "bbox": [1, 2, -3, 4]}], "that of annotation 9", 1),
        ([ONE, ONE | {"id": 9, "bbox": []}], "1 boxes without area are left out", 1),
        ([ONE | {"segmentation": [[]]}], "fewer than three corners: their boxes", 1),
    ],
)
def test_what_cannot_be_measured_is_told(
    annotations: list, note: str, kept: int, tmp_path: pathlib.Path
):
    file = coco_file(tmp_path / "a.json", annotations=annotations)
    pictures_of_coco(tmp_path)
    dataset = open_dataset(file)
    (told,) = dataset.notes
    assert note in told and len(dataset.annotations) == kept


@pytest.mark.parametrize("name", ["dog", "shapes-1"])
def test_a_project_is_no_class_of_its_own(name: str, tmp_path: pathlib.Path):
    """Roboflow writes it as the one above all others."""
    file = coco_file(
        tmp_path / "a.json",
        categories=[
            {"id": 0, "name": name, "supercategory": "none"},
            {"id": 90, "name": "dog", "supercategory": name},
        ],
    )
    pictures_of_coco(tmp_path)
    dataset = open_dataset(file)
    assert dataset.categories == [{"id": 90, "name": "dog"}]
    assert dataset.notes == [
        f"the category '{name}' is no class: no object is of it, and other categories are kinds of it"
    ]


LENGTHS = {"size": [8, 10], "counts": [10, 4, 66]}  # x 1, y 2 to 5


@pytest.mark.parametrize("turn", [5, 6, 7, 8])
@pytest.mark.parametrize("upright", [False, True])
def test_annotations_of_stored_pixels_are_turned_with_them(
    turn: int, upright: bool, tmp_path: pathlib.Path
):
    """A photograph of a phone: 10x8 stored, 8x10 seen."""
    stored = np.zeros((8, 10), np.uint8)
    stored[2:6, 1] = 255
    exif = Image.Exif()
    exif[0x0112] = turn
    picture = tmp_path / "a.png"
    Image.fromarray(stored).save(picture, exif=exif)
    seen = np.asarray(ImageOps.exif_transpose(Image.open(picture))) > 0
    write_picture(tmp_path / "sub/b.png", 1)
    size = {"width": 10, "height": 8}
    objects = [
        ONE | {"bbox": [1, 2, 1, 4], "segmentation": [[1, 2, 2, 2, 2, 6, 1, 6]]},
        ONE | {"bbox": [1, 2, 1, 4], "segmentation": LENGTHS},
    ]
    if upright:  # an object that reaches below the stored pixels
        objects.append(ONE | {"bbox": [0, 0, 8, 10], "segmentation": [SQUARE]})
    images = [OBJECTS["images"][0] | size, OBJECTS["images"][1]]
    file = coco_file(tmp_path / "a.json", images=images, annotations=objects)
    if upright:
        objects[1]["segmentation"] = [SQUARE]
        file = coco_file(file, images=images, annotations=objects)
    dataset = open_dataset(file)
    assert dataset.images[1] == {"id": 7, "width": 8, "height": 10}
    outline, lengths = dataset.annotations[:2]
    if upright:
        assert outline["bbox"] == [1, 2, 1, 4]
        return
    rows, columns = np.nonzero(seen)
    box = [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
    assert outline["bbox"] == lengths["bbox"] == box
    xs, ys = outline["segmentation"][0][::2], outline["segmentation"][0][1::2]
    assert [min(xs), min(ys), np.ptp(xs), np.ptp(ys)] == box
    assert lengths["segmentation"]["size"] == [10, 8]
    flat = np.repeat(
        np.arange(len(lengths["segmentation"]["counts"])) % 2,
        lengths["segmentation"]["counts"],
    )
    np.testing.assert_array_equal(flat.reshape(8, 10).T, seen)


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


def test_pictures_are_told_as_the_command_and_the_trainer_tell_them():
    source = (ROOT / "base" / "picture_signatures.cc").read_text()
    extensions = source[source.index("kExtensions[]") :].partition("};")[0]
    assert set(re.findall(r'"(\.\w+)"', extensions)) == EXTENSIONS
    rows = re.findall(
        r'\{"\w+", \{?"([^"]*)"(?:, \d\})?(?:, (\d), "(\w*)")?(, false)?\}', source
    )
    assert len(rows) == source.count('    {"')
    assert SIGNATURES == tuple(
        (
            magic.encode().decode("unicode_escape").encode("latin-1"),
            int(at or 0),
            second.encode(),
        )
        for magic, at, second, unsure in rows
        if not unsure
    )


def test_pictures_without_a_mask_are_left_out_and_named(tmp_path: pathlib.Path):
    """As fovea-train does it."""
    for name in ("a", "b", "c", "d"):
        write_picture(tmp_path / f"images/{name}.png", 1)
        write_picture(tmp_path / f"masks/{name}.png", 1)
    write_picture(tmp_path / "images/a.jpg", 1)
    for name in ("b", "d"):
        (tmp_path / f"masks/{name}.png").unlink()
    write_picture(tmp_path / "masks/e.png", 1)
    dataset = open_dataset(tmp_path)
    assert [file.name for file in dataset.pictures] == ["a.jpg", "a.png", "c.png"]
    assert [file.name for file in dataset.masks] == ["a.png", "a.png", "c.png"]
    unused, left_out = dataset.notes
    assert unused == "1 mask without a picture is not used"
    assert left_out.splitlines() == [
        "2 of 5 pictures are left out:",
        *(
            f"  the picture {tmp_path}/images/{name}.png has no mask {tmp_path}/masks/{name}.png"
            for name in ("b", "d")
        ),
    ]
    (tmp_path / "masks/a.png").unlink()
    with pytest.raises(DatasetError, match="4 of 5 pictures cannot be read, more than"):
        open_dataset(tmp_path)
    for name in "ce":
        (tmp_path / f"masks/{name}.png").rename(tmp_path / f"masks/{name}.jpg")
    with pytest.raises(DatasetError, match="there is no PNG in .*masks: a mask is one"):
        open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("levels", "labels", "sentence"),
    [
        ([0, 255], "", "of one class, '0', or 255, which does not count: write 1"),
        ([0, 255], "ground\nthing\n", "one class, 'ground', or 255"),
        ([255, 255], "", "nothing but ignored pixels"),
        ([0, 0], "", ""),  # pictures may show nothing of the others
        ([0, 1], "", ""),
    ],
)
def test_masks_of_0_and_255_are_refused(
    levels: list[int], labels: str, sentence: str, tmp_path: pathlib.Path
):
    for name in ("a", "b"):
        write_picture(tmp_path / f"images/{name}.png", 1)
        (tmp_path / "masks").mkdir(exist_ok=True)
        Image.fromarray(np.array([levels], np.uint8)).save(
            tmp_path / f"masks/{name}.png"
        )
    write_picture(tmp_path / "images/c.png", 1)
    (tmp_path / "masks/c.png").write_bytes(b"none")  # its own failure
    if labels:
        (tmp_path / "labels.txt").write_text(labels)
    dataset = open_dataset(tmp_path)
    with (
        pytest.raises(DatasetError, match=sentence)
        if sentence
        else contextlib.nullcontext()
    ):
        IntersectionOverUnion(dataset, Model("m", ""), by_number=False)


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
    opaque = np.full_like(levels, 7)
    for channels in ([levels] * 3, [levels] * 3 + [opaque], [levels, opaque]):
        Image.fromarray(np.stack(channels, 2)).save(file)
        np.testing.assert_array_equal(read_mask(file), levels)
    Image.fromarray(np.stack([levels, levels, opaque], 2)).save(file)
    with pytest.raises(PictureError, match="in colours"):
        read_mask(file)
    Image.fromarray(np.stack([levels] * 3, 2)).convert("CMYK").save(file, "TIFF")
    with pytest.raises(PictureError, match="neither grey nor of a palette, but CMYK"):
        read_mask(file)
    file.write_bytes(b"\x89PNG")
    with pytest.raises(PictureError, match="cannot be read"):
        read_mask(file)


def test_masks_are_called_as_their_pictures_or_longer(tmp_path: pathlib.Path):
    names = ["a.png", "b_mask.png", "c.png.png", "d-mask.png", "e.png"]
    for mask in [*names, "e_gt.png"]:
        write_picture(tmp_path / f"masks/{mask}", 1)
        write_picture(tmp_path / f"images/{mask[0]}.png", 1)
    dataset = open_dataset(tmp_path)
    assert [mask.name for mask in dataset.masks] == names
    assert dataset.notes == ["1 mask without a picture is not used"]


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
