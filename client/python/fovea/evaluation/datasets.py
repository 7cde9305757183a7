"""Data sets on disk, in the layouts of docs/measuring/datasets.md: which one a folder has, and what is in it."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import unicodedata
from typing import ClassVar

from fovea.evaluation.coco import Coco, annotation_files, read_coco
from fovea.evaluation.dataset_error import DatasetError
from fovea.evaluation.picture_files import (
    is_hidden,
    is_picture,
    left_out_notes,
    pictures_below,
)

LAYOUTS = """\
  classification  a folder for each class, with its pictures
  detection       a JSON file of COCO's format in the folder or in annotations/, the pictures in images/
  segmentation    images/ with the pictures, masks/ with a PNG of the same name for each"""


@dataclasses.dataclass(frozen=True)
class ImageFolder:
    """A folder for each class."""

    task: ClassVar[str] = "classification"
    classes: list[str]  # the folders' names, in the order of the numbers
    numbers: list[int]  # of the classes
    pictures: list[pathlib.Path]
    truth: list[int]  # of each picture: its class's place in `classes`
    notes: list[str] = dataclasses.field(default_factory=list)  # what is left out


@dataclasses.dataclass(frozen=True)
class MaskFolder:
    """Pictures, and of each a mask whose levels are class numbers."""

    task: ClassVar[str] = "segmentation"
    labels: list[str]  # by class number; empty: the data set names no classes
    pictures: list[pathlib.Path]
    masks: list[pathlib.Path]  # of each picture
    notes: list[str]  # what is left out of the folder


Dataset = ImageFolder | Coco | MaskFolder


def open_dataset(
    path: pathlib.Path, *, task: str = "", images: pathlib.Path | None = None
) -> Dataset:
    """The data set in a folder, or of an annotation file of COCO's format.

    task: takes the folder for the layout of that task, whatever it looks like; empty: its layout is told from what is
    in it. images: where the pictures of a COCO file are; None: looked for beside it. DatasetError: no data set of that
    layout, in words.
    """
    if not path.exists():
        raise DatasetError(f"{path} does not exist")
    found = [task] if task else _layouts(path)
    if not found:
        raise DatasetError(f"{path} has none of the layouts of data sets:\n{LAYOUTS}")
    if len(found) > 1:
        raise DatasetError(
            f"{path} may be for {' or '.join(found)}: say which with --task"
        )
    if images is not None and found != ["detection"]:
        raise DatasetError("--images goes with annotations of COCO's format")
    if found == ["detection"]:
        return read_coco(path, images)
    if not path.is_dir():
        raise DatasetError(f"{path} is no folder")
    return _read_masks(path) if found == ["segmentation"] else _read_folders(path)


def spread(count: int, limit: int | None) -> list[int]:
    """Which of `count` pictures a limit leaves: evenly spread, the same each time."""
    if limit is None or limit >= count:
        return list(range(count))
    return [place * count // limit for place in range(limit)]


def _layouts(path: pathlib.Path) -> list[str]:
    found = []
    if (path / "images").is_dir() and (path / "masks").is_dir():
        found.append("segmentation")
    if annotation_files(path):
        found.append("detection")
    # A data set of the other layouts has folders with pictures, too.
    if not found and path.is_dir() and _class_folders(path):
        found.append("classification")
    return found


def _class_folders(
    path: pathlib.Path, left_out: collections.Counter[str] | None = None
) -> dict[str, list[pathlib.Path]]:
    """The pictures of each folder, by name; those without any too, where another has some."""
    folders = {
        folder.name: pictures_below(folder, left_out)
        for folder in sorted(path.iterdir())
        if folder.is_dir() and not is_hidden(folder)
    }
    return folders if any(folders.values()) else {}


def _read_folders(path: pathlib.Path) -> ImageFolder:
    left_out: collections.Counter[str] = collections.Counter()
    folders = _class_folders(path, left_out)
    if not folders:
        raise DatasetError(f"{path} has no folders with pictures, one for each class")
    classes = list(folders)
    numbers = list(range(len(classes)))
    if all(name.isascii() and name.isdigit() for name in classes):
        classes.sort(key=int)
        numbers = [int(name) for name in classes]
        if len(set(numbers)) < len(numbers):
            raise DatasetError(f"{path} has two folders for one number")
    return ImageFolder(
        classes,
        numbers,
        pictures=[file for name in classes for file in folders[name]],
        truth=[place for place, name in enumerate(classes) for _ in folders[name]],
        notes=left_out_notes(left_out),
    )


def _read_masks(path: pathlib.Path) -> MaskFolder:
    for name in ("images", "masks"):
        if not (path / name).is_dir():
            raise DatasetError(f"{path} has no folder {name}/")
    left_out: collections.Counter[str] = collections.Counter()
    pictures = pictures_below(path / "images", left_out)
    if not pictures:
        raise DatasetError(f"there is no picture in {path / 'images'}")
    masks = _masks_below(path / "masks")
    if not masks:
        raise DatasetError(
            f"there is no PNG in {path / 'masks'}: a mask is one, since JPEG changes its levels"
        )
    mask_of = {
        picture: masks[name]
        for picture in pictures
        for name in _mask_names(picture.relative_to(path / "images"))
        if name in masks
    }
    notes = left_out_notes(left_out)
    if unused := len(masks) - len(set(mask_of.values())):
        notes.append(
            "1 mask without a picture is not used"
            if unused == 1
            else f"{unused} masks without a picture are not used"
        )
    notes += _notes_without_mask(
        [picture for picture in pictures if picture not in mask_of], path, len(pictures)
    )
    return MaskFolder(
        labels=_read_labels(path / "labels.txt"),
        pictures=list(mask_of),
        masks=list(mask_of.values()),
        notes=notes,
    )


def _masks_below(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """By the path below `folder`, without the extension."""
    return {
        file.relative_to(folder).with_suffix("").as_posix(): file
        for file in pictures_below(folder)
        if file.suffix.lower() == ".png"
    }


def _notes_without_mask(
    alone: list[pathlib.Path], path: pathlib.Path, pictures: int
) -> list[str]:
    """`alone`: the pictures that have none, of so many. DatasetError: more than half of them, as fovea-train refuses them."""
    if not alone:
        return []
    most = 10
    words = [
        f"  the picture {one} has no mask {path / 'masks' / one.relative_to(path / 'images').with_suffix('.png')}"
        for one in alone[:most]
    ] + ["  ..."] * (len(alone) > most)
    count = f"{len(alone)} of {pictures} pictures"
    if 2 * len(alone) > pictures:
        raise DatasetError(
            "\n".join([f"{count} cannot be read, more than half:", *words])
        )
    return ["\n".join([f"{count} are left out:", *words])]


def _mask_names(picture: pathlib.PurePath) -> list[str]:
    """What the mask of a picture may be called, without its extension, the best last; as fovea-train finds it."""
    tails = ("_gt", "_seg", "_labels", "_label", "_masks", "-mask", "_mask")
    stem = picture.with_suffix("").as_posix()
    return [*(stem + tail for tail in tails), picture.as_posix(), stem]


def _read_labels(file: pathlib.Path) -> list[str]:
    if not file.is_file():
        return []
    try:
        text = unicodedata.normalize("NFC", file.read_text("utf-8"))
        labels = [line.strip() for line in text.split("\n")]
    except UnicodeDecodeError:
        raise DatasetError(f"{file} is not UTF-8") from None
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise DatasetError(f"{file} has no label")
    if "" in labels or len(set(labels)) < len(labels):
        raise DatasetError(f"{file} has an empty line, or one label twice")
    return labels


__all__ = [
    "LAYOUTS",
    "Coco",
    "Dataset",
    "DatasetError",
    "ImageFolder",
    "MaskFolder",
    "is_picture",
    "open_dataset",
    "spread",
]
