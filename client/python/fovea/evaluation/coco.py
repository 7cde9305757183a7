"""Annotations of COCO's format: boxes and masks of objects, in a JSON file."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import pathlib
from typing import Any, ClassVar

import numpy as np

from fovea import run_lengths
from fovea.evaluation.coco_pictures import find_pictures, picture_folders, turn_of
from fovea.evaluation.dataset_error import DatasetError
from fovea.evaluation.picture_files import is_hidden

_PARTS = ("images", "annotations", "categories")
_ROUNDING = 1  # pixels that a box may lie beyond its picture's edge
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
    ours = any((path / name).is_dir() for name in ("images", "data", "annotations"))
    return files if ours else []


def read_coco(path: pathlib.Path, images: pathlib.Path | None) -> Coco:
    """`path`: the annotation file, or a folder with one. `images`: where the pictures are; None: see picture_folders."""
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
        AttributeError,
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
        # What Python writes for numbers that are none is absent, as null is.
        return json.loads(file.read_bytes(), parse_constant=lambda _: None)
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{file} cannot be read as JSON: {error}") from None


def _is_coco(document: Any) -> bool:
    return isinstance(document, dict) and all(
        isinstance(document.get(part), list) for part in _PARTS
    )


Entry = dict[str, Any]


def _checked(
    file: pathlib.Path, document: dict[str, Any], images: pathlib.Path | None
) -> Coco:
    listed = {part: [_present(one) for one in document[part]] for part in _PARTS}
    if any("segments_info" in one for one in listed["annotations"]):
        raise DatasetError(
            f"{file}: it is of COCO's panoptic format, whose objects are in PNG files: write instances, for example by "
            "panopticapi's panoptic2detection_coco_format.py"
        )
    categories, notes = _categories(listed["categories"], listed["annotations"])
    pictures = sorted(listed["images"], key=lambda one: _order(_id(one["id"])))
    if not pictures or not categories:
        raise ValueError("it names no images or no categories")
    image_numbers = _numbers("images", [_id(one["id"]) for one in pictures])
    names = [str(one["file_name"]) for one in pictures]
    for name in names:
        if not name or b"\0" in os.fsencode(name):
            raise ValueError(f"{name!r} is not a valid file_name")
    paths = find_pictures(names, picture_folders(file, images))
    if not any(path.is_file() for path in paths):
        raise DatasetError(
            f"{file}: none of its pictures is there, the first not as {paths[0]}: say where they are with --images"
        )
    for path in paths:
        # A device would never end, and a pipe lets its reader wait.
        if path.exists() and not path.is_file():
            raise DatasetError(f"{file}: its picture {path} is no file")
    numbers = _numbers("categories", [one["id"] for one in categories])
    read = [_annotation(one, image_numbers, numbers) for one in listed["annotations"]]
    annotations, told = _kept(read)
    _check_measurable(file, annotations)
    sizes = [{"id": image_numbers[_id(one["id"])], **_size(one)} for one in pictures]
    _turn(sizes, paths, annotations)
    for one in categories:
        one["id"] = numbers[one["id"]]
    return Coco(
        file,
        categories,
        images=sizes,
        pictures=paths,
        annotations=annotations,
        without_mask=sum("segmentation" not in one for one in annotations),
        notes=[*notes, *told],
    )


def _present(one: Any) -> Entry:
    """The fields that are not null."""
    return {key: value for key, value in one.items() if value is not None}


def _id(given: Any) -> int | str:
    """The id as a number where it is one. COCO's ids are numbers; some tools write strings."""
    if isinstance(given, str):
        text = given.strip()
        return int(text) if text.removeprefix("-").isdecimal() else text
    return int(given)


def _order(one: int | str) -> tuple[bool, int | str]:
    """Sort key: numbers before strings."""
    return isinstance(one, str), one


def _numbers(what: str, ids: list[int | str]) -> dict[int | str, int]:
    """Numbers for pycocotools: the ids themselves, or their positions if some are strings."""
    if repeated := _repeated(ids):
        raise ValueError(f"two {what} have the id {repeated}")
    by_place = any(isinstance(one, str) for one in ids)
    return {one: place if by_place else int(one) for place, one in enumerate(ids)}


def _categories(
    given: list[Entry], annotations: list[Entry]
) -> tuple[list[Entry], list[str]]:
    """Categories by id, without empty parent categories: Roboflow writes its project's name as one."""
    read = [
        {
            "id": _id(one["id"]),
            "name": str(one["name"]).strip(),
            "above": str(one.get("supercategory", "")).strip(),
        }
        for one in given
    ]
    read.sort(key=lambda one: _order(one["id"]))
    shown = {_id(one["category_id"]) for one in annotations}

    def is_class(one: Entry) -> bool:
        return (
            one["id"] in shown
            or one["above"] == one["name"]
            or not any(
                other is not one and other["above"] == one["name"] for other in read
            )
        )

    kept = [{"id": one["id"], "name": one["name"]} for one in read if is_class(one)]
    if repeated := _repeated([one["name"] for one in kept]):
        raise ValueError(f"two categories have the name {repeated}")
    return kept, [
        f"the category '{name}' is no class: no object is of it, and other categories are kinds of it"
        for name in (one["name"] for one in read if not is_class(one))
    ]


def _repeated(values: list[Any]) -> Any:
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _size(image: Entry) -> dict[str, int]:
    return {side: int(image[side]) for side in ("height", "width") if image.get(side)}


def _annotation(
    one: Entry, images: dict[int | str, int], categories: dict[int | str, int]
) -> Entry:
    """The checked annotation. "bbox" is absent if unknown; "hollow" is present if it has polygons, but none with an area."""
    image, category = _id(one["image_id"]), _id(one["category_id"])
    if image not in images:
        raise ValueError(
            f"an annotation is of an image {image}, which it does not name"
        )
    if category not in categories:
        raise ValueError(
            f"an annotation is of a category {category}, which it does not name"
        )
    checked: Entry = {
        "name": str(one.get("id", "?")),
        "image_id": images[image],
        "category_id": categories[category],
        "iscrowd": int(one.get("iscrowd", 0)),
    }
    if checked["iscrowd"] not in (0, 1):
        raise ValueError(f"an annotation has an iscrowd of {one['iscrowd']}")
    box = one.get("bbox") or None
    if box and None not in box:
        checked["bbox"] = [float(side) for side in box]
        if len(box) != 4 or not all(map(math.isfinite, checked["bbox"])):
            raise ValueError(f"a box is not [left, top, width, height]: {box}")
    if mask := one.get("segmentation"):
        checked["segmentation"] = _mask(mask)
        if not checked["segmentation"]:
            del checked["segmentation"]
            checked["hollow"] = True
    if "bbox" not in checked and "segmentation" in checked:
        checked["bbox"] = _box_of(checked["segmentation"])
    if "area" in one:
        checked["area"] = float(one["area"])
    elif "bbox" in checked:
        checked["area"] = checked["bbox"][2] * checked["bbox"][3]
    return checked


def _kept(read: list[Entry]) -> tuple[list[Entry], list[str]]:
    """The annotations that can be measured, and notes of those left out."""
    notes = []
    flat = [one for one in read if not _has_area(one)]
    if flat:
        notes.append(
            f"{len(flat)} boxes without area are left out, the first that of annotation {flat[0]['name']}"
        )
    kept = [one for one in read if _has_area(one)]
    masked = any("segmentation" in one for one in kept)
    plain = any("segmentation" not in one and "hollow" not in one for one in kept)
    hollow = [one for one in kept if "hollow" in one]
    if hollow and masked and not plain:
        kept = [one for one in kept if "hollow" not in one]
        notes.append(
            f"{len(hollow)} objects whose polygons have fewer than three corners are left out"
        )
    elif hollow:
        notes.append(
            f"{len(hollow)} objects have polygons of fewer than three corners: their boxes count"
        )
    return [
        {key: value for key, value in one.items() if key not in ("name", "hollow")}
        for one in kept
    ], notes


def _check_measurable(file: pathlib.Path, annotations: list[Entry]) -> None:
    """Raises DatasetError if average precision is undefined for them."""
    if not annotations:
        raise DatasetError(
            f"{file}: there is no object in any of the pictures: there is nothing to measure"
        )
    if all(one["iscrowd"] for one in annotations):
        raise DatasetError(
            f"{file}: all {len(annotations)} objects are crowds, of which nothing is measured (CVAT and Datumaro write "
            "iscrowd 1 for painted masks): set iscrowd to 0 for single objects"
        )


def _has_area(one: Entry) -> bool:
    return "bbox" in one and min(one["bbox"][2:]) > 0


def _mask(mask: Any) -> dict[str, Any] | list[list[float]]:
    """Run lengths, or the outlines of the parts, without those of fewer than three corners or of half a corner: exporters
    write some, in which nothing lies. pycocotools would take one of two corners for a box.
    """
    if isinstance(mask, dict):
        if {"counts", "size"} <= set(mask):
            return mask
    elif isinstance(mask, list) and all(isinstance(part, list) for part in mask):
        return [
            part for part in mask if len(part) >= 2 * _CORNERS and len(part) % 2 == 0
        ]
    raise ValueError(
        "a segmentation is neither a list of polygons, x and y of each corner in turn, nor run lengths"
    )


def _box_of(mask: dict[str, Any] | list[list[float]]) -> list[float]:
    """The box of a mask, [left, top, width, height]."""
    if isinstance(mask, dict):
        shown = _decoded(mask)
        down, across = np.flatnonzero(shown.any(1)), np.flatnonzero(shown.any(0))
        if not down.size:
            return [0, 0, 0, 0]
        left, top, right, bottom = across[0], down[0], across[-1] + 1, down[-1] + 1
    else:
        xs = [float(x) for part in mask for x in part[::2]]
        ys = [float(y) for part in mask for y in part[1::2]]
        left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    return [float(left), float(top), float(right - left), float(bottom - top)]


def _decoded(mask: dict[str, Any]) -> np.ndarray:
    """Run lengths as bool [height, width]. Raises ValueError if they are invalid."""
    from fovea.evaluation.coco_masks import check_mask

    check_mask(mask, None)
    height, width = mask["size"]
    counts = mask["counts"]
    if isinstance(counts, str):
        counts = run_lengths.lengths(counts, height, width)
    shown = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return shown.reshape(width, height).T


def _turn(
    images: list[dict[str, int]], paths: list[pathlib.Path], annotations: list[Entry]
) -> None:
    """Turns upright what is said of photographs by their stored pixels, which EXIF turns by 90 degrees.

    Their sizes alone where an object of the file lies in a picture only if that is turned: some tools write stored sizes, and
    annotate what they show.
    """
    turns = {
        image["id"]: (turn, image["width"], image["height"])
        for image, path in zip(images, paths, strict=True)
        if image.get("width", 0) != image.get("height", 0)
        and (turn := turn_of(path, (image.get("width", 0), image.get("height", 0)))) > 1
    }
    if not turns:
        return
    for image in images:
        if image["id"] in turns:
            image["width"], image["height"] = image["height"], image["width"]
    turned = [one for one in annotations if one["image_id"] in turns]
    if any(_lies_upright(one, *turns[one["image_id"]][1:]) for one in turned):
        return
    for one in turned:
        _turn_annotation(one, *turns[one["image_id"]])


def _lies_upright(one: Entry, width: int, height: int) -> bool:
    """True if it fits a picture of this stored width and height only after the picture is turned."""
    mask = one.get("segmentation")
    if isinstance(mask, dict) and list(mask["size"]) == [width, height]:
        return True
    left, top, across, down = one["bbox"]
    right, bottom = left + across, top + down

    def lies(in_width: int, in_height: int) -> bool:
        return bool(right <= in_width + _ROUNDING and bottom <= in_height + _ROUNDING)

    return not lies(width, height) and lies(height, width)


def _turn_annotation(one: Entry, turn: int, width: int, height: int) -> None:
    def point(x: float, y: float) -> tuple[float, float]:
        return (y if turn in (5, 8) else height - y, x if turn in (5, 6) else width - x)

    left, top, across, down = one["bbox"]
    corners = point(left, top), point(left + across, top + down)
    one["bbox"] = [
        min(x for x, _ in corners),
        min(y for _, y in corners),
        down,
        across,
    ]
    mask = one.get("segmentation")
    if isinstance(mask, list):
        one["segmentation"] = [
            [
                side
                for at in range(0, len(part), 2)
                for side in point(part[at], part[at + 1])
            ]
            for part in mask
        ]
    elif mask is not None:
        shown = _decoded(mask).T
        shown = shown[:, ::-1] if turn in (6, 7) else shown
        shown = shown[::-1] if turn in (7, 8) else shown
        flat = shown.T.reshape(-1)
        changes = np.flatnonzero(np.diff(flat)) + 1
        starts = [0] if not flat.size or not flat[0] else [0, 0]
        edges = np.concatenate([starts, changes, [flat.size]])
        one["segmentation"] = {
            "size": list(shown.shape),
            "counts": np.diff(edges).tolist(),
        }
