"""Annotations of COCO's format: boxes and masks of objects, in a JSON file."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import pathlib
from typing import Any, ClassVar

from fovea.evaluation.dataset_error import DatasetError
from fovea.evaluation.picture_files import is_hidden

_PARTS = ("images", "annotations", "categories")
# In the name of an annotation file, and the names of the folders that its pictures may be in.
_SPLITS = ("train", "training", "val", "valid", "validation")
_CORNERS = 3  # of a polygon that encloses something, at least


@dataclasses.dataclass(frozen=True)
class Coco:
    task: ClassVar[str] = "detection"
    file: pathlib.Path
    categories: list[dict[str, Any]]  # {"id", "name"}, by id
    # Of each picture: {"id", "width" and "height" where known}
    images: list[dict[str, Any]]
    pictures: list[pathlib.Path]
    # {"image_id", "category_id", "bbox", "area", "iscrowd", "segmentation" where it has a mask}
    annotations: list[dict[str, Any]]
    without_mask: int  # annotations
    notes: list[str]  # what is left out of the file


def annotation_files(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that may be the annotations of a data set: `path` itself, or in it or its annotations/."""
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.json")) + sorted(path.glob("annotations/*.json"))
    files = [file for file in files if file.is_file() and not is_hidden(file)]
    if len(files) == 1:  # in a folder of another layout it may hold anything
        return files if _is_coco(_parse(files[0])) else []
    # Reading each takes long where they are large.
    ours = any((path / name).is_dir() for name in ("images", "annotations"))
    return files if ours else []


def read_coco(path: pathlib.Path, images: pathlib.Path | None) -> Coco:
    """`path`: the annotation file, or a folder with one. `images`: where the pictures are; None: see _picture."""
    files = [path] if path.is_file() else annotation_files(path)
    if not files:
        raise DatasetError(
            f"{path} has no annotations of COCO's format: a JSON file in it or in annotations/"
        )
    if len(files) > 1:
        names = ", ".join(str(file.relative_to(path)) for file in files)
        raise DatasetError(
            f"{path} has several JSON files: name the one with the annotations ({names})"
        )
    (file,) = files
    document = _parse(file)
    if not _is_coco(document):
        raise DatasetError(
            f"{file} is not of COCO's format: an object with lists {', '.join(_PARTS)}"
        )
    try:
        return _checked(file, document, images)
    except (
        KeyError,
        OSError,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        what = (
            f"a field {error} is missing" if isinstance(error, KeyError) else str(error)
        )
        raise DatasetError(f"{file} is not of COCO's format: {what}") from error


@functools.lru_cache(maxsize=1)  # it is looked at, then read
def _parse(file: pathlib.Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{file} cannot be read as JSON: {error}") from None


def _is_coco(document: Any) -> bool:
    return isinstance(document, dict) and all(
        isinstance(document.get(part), list) for part in _PARTS
    )


def _checked(
    file: pathlib.Path, document: dict[str, Any], images: pathlib.Path | None
) -> Coco:
    categories: list[dict[str, Any]] = sorted(
        (_category(one) for one in document["categories"]), key=lambda one: one["id"]
    )
    for what in ("id", "name"):
        if repeated := _repeated([one[what] for one in categories]):
            raise ValueError(f"two categories have the {what} {repeated}")
    pictures = sorted(document["images"], key=lambda one: int(one["id"]))
    if not pictures or not categories:
        raise ValueError("it names no images or no categories")
    if repeated := _repeated([int(one["id"]) for one in pictures]):
        raise ValueError(f"two images have the id {repeated}")
    folders = _folders(file) if images is None else [images]
    paths = [_picture(folders, str(one["file_name"])) for one in pictures]
    if not any(path.is_file() for path in paths):
        raise DatasetError(
            f"{file}: none of its pictures is there, the first not as {paths[0]}: say where they are with --images"
        )
    for path in paths:
        # A device would never end, and a pipe lets its reader wait.
        if path.exists() and not path.is_file():
            raise DatasetError(f"{file}: its picture {path} is no file")
    known = {int(one["id"]) for one in pictures}, {one["id"] for one in categories}
    read = [_annotation(one, *known) for one in document["annotations"]]
    annotations = [one for one in read if one is not None]
    left_out = len(read) - len(annotations)
    return Coco(
        file,
        categories,
        images=[_sizes(one) for one in pictures],
        pictures=paths,
        annotations=annotations,
        without_mask=sum("segmentation" not in one for one in annotations),
        notes=[
            f"objects whose polygons have fewer than three corners are left out: {left_out}"
        ]
        if left_out
        else [],
    )


def _category(one: dict[str, Any]) -> dict[str, Any]:
    return {"id": int(one["id"]), "name": str(one["name"]).strip()}


def _repeated(values: list[Any]) -> Any:
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _sizes(image: dict[str, Any]) -> dict[str, int]:
    return {"id": int(image["id"])} | {
        side: int(image[side]) for side in ("height", "width") if image.get(side)
    }


def _folders(file: pathlib.Path) -> list[pathlib.Path]:
    """Where the pictures of an annotation file may be, best first.

    images/ beside it or above it, or these folders themselves; of annotations/instances_val2017.json also val2017/ and
    val/, as COCO has them and fovea-train finds them.
    """
    around = (file.parent, file.parent.parent)
    splits = [
        split + year for split in _SPLITS if split in file.stem for year in ("", "2017")
    ]
    below = ["images", ""]
    for split in splits:
        below += [f"images/{split}", split, f"{split}/images"]
    return [folder / sub for folder in around for sub in below[:2]] + [
        folder / sub for folder in around for sub in below[2:]
    ]


def _picture(folders: list[pathlib.Path], name: str) -> pathlib.Path:
    """Where a picture is; in the first of the folders, where it is in none.

    A name that leads out of the folder of the pictures is no name: whatever it named would go to the server.
    """
    path = pathlib.PurePath(name)
    if (
        not name
        or b"\0" in os.fsencode(name)
        or path.is_absolute()
        or ".." in path.parts
    ):
        raise ValueError(f"the name {name!r} leads out of the folder of the pictures")
    paths = [folder / name for folder in folders]
    return next((path for path in paths if path.is_file()), paths[0])


def _annotation(
    one: dict[str, Any], images: set[int], categories: set[int]
) -> dict[str, Any] | None:
    """None: its mask encloses nothing."""
    image, category = int(one["image_id"]), int(one["category_id"])
    if image not in images:
        raise ValueError(
            f"an annotation is of an image {image}, which it does not name"
        )
    if category not in categories:
        raise ValueError(
            f"an annotation is of a category {category}, which it does not name"
        )
    box = [float(side) for side in one["bbox"]]
    if len(box) != 4 or not all(map(math.isfinite, box)) or min(box[2:]) < 0:
        raise ValueError(f"a box is not [left, top, width, height]: {one['bbox']}")
    checked: dict[str, Any] = {
        "image_id": image,
        "category_id": category,
        "bbox": box,
        "area": float(one.get("area", box[2] * box[3])),
        "iscrowd": int(one.get("iscrowd", 0)),
    }
    if checked["iscrowd"] not in (0, 1):
        raise ValueError(f"an annotation has an iscrowd of {one['iscrowd']}")
    if mask := one.get("segmentation"):
        checked["segmentation"] = _mask(mask)
        if not checked["segmentation"]:
            return None
    return checked


def _mask(mask: Any) -> dict[str, Any] | list[list[float]]:
    """Run lengths, or the outlines of the parts, without those of fewer than three corners: exporters write some.

    Nothing lies inside of them; pycocotools would take one of two corners for a box.
    """
    if isinstance(mask, dict):
        if {"counts", "size"} <= set(mask):
            return mask
    elif isinstance(mask, list) and all(
        isinstance(part, list) and (len(part) % 2 == 0 or len(part) < 2 * _CORNERS)
        for part in mask
    ):
        return [part for part in mask if len(part) >= 2 * _CORNERS]
    raise ValueError(
        "a segmentation is neither a list of polygons, x and y of each corner in turn, nor run lengths"
    )
