"""Masks of annotations of COCO's format and of a server's answers, checked before pycocotools reads them: it trusts what it
is given, and writes beyond its memory where that is wrong.
"""

from __future__ import annotations

import itertools
from typing import Any

from fovea import results, run_lengths
from fovea.evaluation.coco import Coco
from fovea.evaluation.dataset_error import DatasetError

_MOST = 1e6  # of a coordinate, in pixels; fovea-train takes as much
# Of an outline, in pixels. pycocotools has places for all of them, at five times the resolution: 0.4 GB.
_LONGEST = 1e7
# Of a picture that a server answers: no server of ours takes more (base/limits.h).
_MOST_PIXELS = 100_000_000
_LONGEST_SIDE = 32_767


def check_masks(dataset: Coco) -> None:
    """DatasetError: an annotation's mask is none, or has another size than its picture, where that is known.

    Every annotation has a mask.
    """
    sizes = {
        image["id"]: [image["height"], image["width"]]
        for image in dataset.images
        if len(image) == 3
    }
    for one in dataset.annotations:
        try:
            check_mask(one["segmentation"], sizes.get(one["image_id"]))
        except ValueError as error:
            raise DatasetError(
                f"{dataset.file}: the mask of an object in image {one['image_id']} cannot be read: {error}"
            ) from error


def check_size(height: int, width: int) -> None:
    """ValueError: no picture that a server answers has that size. pycocotools has places for each of its pixels."""
    if not (
        1 <= min(height, width)
        and max(height, width) <= _LONGEST_SIDE
        and height * width <= _MOST_PIXELS
    ):
        raise ValueError(f"the server says that it is {width}x{height}")


def check_found(mask: results.InstanceMask) -> None:
    """ValueError: what a server sent for an object's pixels is no mask of that picture."""
    try:
        runs = run_lengths.lengths(mask.run_lengths, *mask.size)
    except ValueError as error:
        raise ValueError(
            f"a mask that the server sent cannot be read: {error}"
        ) from error
    if (pixels := sum(runs[1::2])) != mask.pixels:
        raise ValueError(
            f"a mask that the server sent has {pixels} pixels, and is said to have {mask.pixels}"
        )


def mask_sizes(dataset: Coco) -> dict[int, set[tuple[int, int]]]:
    """Heights and widths that the run lengths of checked masks are of, by the picture's id."""
    sizes: dict[int, set[tuple[int, int]]] = {}
    for one in dataset.annotations:
        if isinstance(one["segmentation"], dict):
            height, width = one["segmentation"]["size"]
            sizes.setdefault(one["image_id"], set()).add((height, width))
    return sizes


def check_mask(mask: dict[str, Any] | list[Any], size: list[int] | None) -> None:
    """ValueError: it is none, or not one of a picture of `size`, its height and width."""
    if isinstance(mask, list):
        for outline in mask:
            _check_outline(outline)
        return
    own, counts = mask["size"], mask["counts"]
    if not _are_whole(own, least=1) or len(own) != 2:
        raise ValueError("its size is not a height and a width of at least 1")
    if size is not None and own != size:
        raise ValueError(f"its size is {own}, and its picture's {size}")
    height, width = own
    if isinstance(counts, str):
        run_lengths.lengths(counts, height, width)
    elif not _are_whole(counts, least=0) or sum(counts) != height * width:
        raise ValueError(f"the run lengths are not those of {height}x{width} pixels")


def _check_outline(outline: list[Any]) -> None:
    """`outline`: x and y in turn."""
    if not all(
        isinstance(value, int | float) and abs(value) <= _MOST for value in outline
    ):
        raise ValueError(
            "an outline has a coordinate that is no number up to a million"
        )
    corners = list(zip(outline[::2], outline[1::2], strict=True))
    edges = itertools.pairwise([*corners, corners[0]])
    if sum(max(abs(x - u), abs(y - v)) for (x, y), (u, v) in edges) > _LONGEST:
        raise ValueError("an outline is longer than ten million pixels")


def _are_whole(values: Any, least: int) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and value >= least
        for value in values
    )
