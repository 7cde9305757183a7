"""Intersection over union of classes of pixels, from the confusion of all pixels."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from PIL import Image

from fovea import client
from fovea.evaluation.datasets import DatasetError, MaskFolder
from fovea.evaluation.measure import (
    Figures,
    Model,
    PictureError,
    composed,
    first_answer,
    named,
)

# Level of pixels that do not count, by the type of a mask.
IGNORED = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}
_LEVELS = 1 << 16
_GREY = {"1", "L", "P", "I;16", "I"}  # Pillow's modes of one number a pixel
_COLOURED = {"LA", "RGB", "RGBA"}


@dataclasses.dataclass(frozen=True)
class _Pixels:
    """Of one picture."""

    counts: dict[
        tuple[int, int], int
    ]  # by level of the mask and class number of the model
    labels: dict[int, str]  # of the model's classes that it shows


class IntersectionOverUnion:
    """Per class |mask and map| / |mask or map| over the pixels of all pictures together; their mean ("mIoU") is of the
    classes that a mask or a map shows.
    """

    def __init__(self, dataset: MaskFolder, model: Model, by_number: bool) -> None:
        self._dataset, self._model, self._by_number = dataset, model, by_number
        _check_levels(tuple(dataset.masks), tuple(dataset.labels))

    def prepare(self, server: client.Client, pictures: Iterable[pathlib.Path]) -> None:
        first_answer(lambda picture: self.ask(server, picture), pictures)

    def ask(
        self, server: client.Client, picture: pathlib.Path
    ) -> client.Answer[client.Segmentation]:
        return server.segment(
            self._model.asked, [picture], version=self._model.asked_version
        )

    def reduce(self, place: int, result: client.Segmentation) -> _Pixels:
        mask = read_mask(self._dataset.masks[place])
        if mask.shape != result.class_map.shape:
            (height, width), (map_height, map_width) = (
                mask.shape,
                result.class_map.shape,
            )
            raise PictureError(
                f"its mask is {width}x{height}, and upright it is {map_width}x{map_height}"
            )
        counted = mask != IGNORED[mask.dtype]
        pairs, counts = np.unique(
            mask[counted].astype(np.int64) * _LEVELS + result.class_map[counted],
            return_counts=True,
        )
        highest = int(pairs.max(initial=0)) // _LEVELS
        if self._dataset.labels and highest >= len(self._dataset.labels):
            raise PictureError(
                f"its mask has the level {highest}, and labels.txt {len(self._dataset.labels)} lines"
            )
        by_pair = {
            divmod(pair, _LEVELS): count
            for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True)
        }
        return _Pixels(
            by_pair,
            {one.class_index: composed(one.label.strip()) for one in result.classes},
        )

    def figures(self, reduced: Mapping[int, _Pixels]) -> Figures:
        labels = {
            number: label
            for one in reduced.values()
            for number, label in one.labels.items()
        }
        by_text = bool(
            self._dataset.labels and any(labels.values()) and not self._by_number
        )
        confusion: Counter[tuple[int, int | None]] = Counter()
        of_pictures: list[Counter[tuple[int, int | None]]] = []
        left_out: Counter[str] = Counter()
        for one in reduced.values():
            of_pictures.append(Counter())
            for (level, number), count in one.counts.items():
                found = self._level(number, labels.get(number, ""), by_text)
                confusion[level, found] += count
                of_pictures[-1][level, found] += count
                if found is None:
                    left_out[labels.get(number) or str(number)] += count
        if by_text and not set(labels.values()) & set(self._dataset.labels):
            raise DatasetError(
                f"none of the classes that model {self._model} found ({named(labels.values())}) is in the data set's "
                "labels.txt. --by-number takes class numbers for levels instead"
            )
        names = self._names(confusion, labels)
        overall, classes = figures_of(confusion, names)
        notes = list(self._dataset.notes)
        if left_out:
            others = named(
                f"{name} ({count:,} pixels)" for name, count in sorted(left_out.items())
            )
            notes.append(f"found, and no classes of the data set: {others}")
        return Figures(
            overall,
            classes,
            notes,
            resample=functools.partial(_resample, of_pictures, list(names)),
        )

    def _level(self, number: int, label: str, by_text: bool) -> int | None:
        """The mask's level for a class of the model; none where the data set does not have it."""
        if by_text:
            return (
                self._dataset.labels.index(label)
                if label in self._dataset.labels
                else None
            )
        return (
            None
            if self._dataset.labels and number >= len(self._dataset.labels)
            else number
        )

    def _names(
        self, confusion: Mapping[tuple[int, int | None], int], labels: dict[int, str]
    ) -> dict[int, str]:
        """Of the data set's classes, by level."""
        if self._dataset.labels:
            return dict(enumerate(self._dataset.labels))
        levels = {level for pair in confusion for level in pair if level is not None}
        names = {level: labels.get(level) or str(level) for level in sorted(levels)}
        # Two of one name would be one row.
        return (
            names
            if len(set(names.values())) == len(names)
            else {level: str(level) for level in names}
        )


def figures_of(
    confusion: Mapping[tuple[int, int | None], int], names: Mapping[int, str]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Overall and by class. `confusion`: pixels by level in the mask and level found, None: another class."""
    shown: Counter[int] = Counter()
    found: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for (level, predicted), count in confusion.items():
        shown[level] += count
        if predicted is not None:
            found[predicted] += count
        if level == predicted:
            right[level] += count
    classes = {
        name: {
            "IoU": _ratio(right[level], shown[level] + found[level] - right[level]),
            "accuracy": _ratio(right[level], shown[level]),
        }
        for level, name in names.items()
    }
    overall = {
        "mIoU": _mean(one["IoU"] for one in classes.values()),
        "pixel accuracy": _ratio(sum(right.values()), sum(shown.values())),
        "class mean": _mean(one["accuracy"] for one in classes.values()),
    }
    return overall, classes


def _resample(
    of_pictures: list[Counter[tuple[int, int | None]]],
    levels: list[int],
    counts: np.ndarray,
) -> dict[str, np.ndarray]:
    """As `figures_of` has them, of each picture's confusion taken so often."""
    column = {level: number for number, level in enumerate(levels)}
    shown, found, right = np.zeros((3, len(of_pictures), len(levels) + 1))
    for row, confusion in enumerate(of_pictures):
        for (level, predicted), pixels in confusion.items():
            # Pixels of no class of the names count in the whole alone.
            shown[row, column.get(level, -1)] += pixels
            if predicted is not None and predicted in column:
                found[row, column[predicted]] += pixels
            if level == predicted and level in column:
                right[row, column[level]] += pixels
    shown, found, right = counts @ shown, counts @ found, counts @ right
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of rows without any class
        return {
            "mIoU": np.nanmean((right / (shown + found - right))[:, :-1], axis=1),
            "pixel accuracy": right.sum(axis=1) / shown.sum(axis=1),
            "class mean": np.nanmean((right / shown)[:, :-1], axis=1),
        }


def read_mask(file: pathlib.Path) -> np.ndarray:
    """Levels [height, width], or places in the palette; uint8, or uint16 of a mask of 16 bits.

    Of equal channels one; opacity does not count. PictureError: no such picture.
    """
    try:
        with Image.open(file) as mask:
            if mask.mode not in _GREY | _COLOURED:
                raise PictureError(
                    f"its mask is neither grey nor of a palette, but {mask.mode}"
                )
            levels = np.asarray(mask)
            if mask.mode in _COLOURED:
                colours = levels[..., : 1 if mask.mode == "LA" else 3]
                if (colours != colours[..., :1]).any():
                    raise PictureError(
                        "its mask is in colours, and a mask holds the class number of each pixel: write one channel"
                    )
                levels = colours[..., 0]
    # ValueError: of the texts in a PNG, for example, where they are longer than Pillow reads.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise PictureError(f"its mask cannot be read: {error}") from error
    if levels.dtype in (np.uint8, bool):
        return levels.astype(np.uint8)
    # Older releases of Pillow read 16 bits as int32, which a file of another kind may fill.
    if levels.min(initial=0) < 0 or levels.max(initial=0) >= _LEVELS:
        raise PictureError("its mask has levels of more than 16 bits")
    return levels.astype(np.uint16)


@functools.lru_cache(maxsize=1)  # for several models
def _check_levels(masks: tuple[pathlib.Path, ...], labels: tuple[str, ...]) -> None:
    """DatasetError: all pixels are of one class or do not count, as where a tool wrote 0 and 255. Reads masks up to a second
    class.
    """
    classes: set[int] = set()
    ignored = False
    for file in masks:
        try:
            mask = read_mask(file)
        except PictureError:
            continue  # counts as this picture's failure later
        levels = set(np.flatnonzero(np.bincount(mask.ravel())).tolist())
        ignored |= IGNORED[mask.dtype] in levels
        classes |= levels - {IGNORED[mask.dtype]}
        if len(classes) > 1:
            return
    if not ignored:
        return
    if not classes:
        raise DatasetError(
            "the masks hold nothing but ignored pixels: there is nothing to measure"
        )
    (only,) = classes
    name = labels[only] if only < len(labels) else only
    raise DatasetError(
        f"all pixels of the masks are of one class, '{name}', or 255, which does not count: write 1 for the object where 255 "
        "is one"
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _mean(values: Iterable[float]) -> float:
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")
