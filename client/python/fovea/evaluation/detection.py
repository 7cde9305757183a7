"""Average precision of boxes and masks by COCO's definition, as pycocotools computes it."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import pathlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from fovea import client
from fovea.evaluation.coco import Coco
from fovea.evaluation.coco_masks import (
    check_found,
    check_masks,
    check_size,
    mask_sizes,
)
from fovea.evaluation.dataset_error import DatasetError
from fovea.evaluation.measure import (
    Figures,
    Model,
    PictureError,
    composed,
    first_answer,
    named,
)
from fovea.evaluation.resampled_precision import resample_precision
from fovea.evaluation.retry import with_retries

# Where COCOeval.stats has them.
_STATS = {
    "AP": 0,
    "AP50": 1,
    "AP75": 2,
    "AP small": 3,
    "AP medium": 4,
    "AP large": 5,
    "AR100": 8,
}
_KINDS = {"box": "bbox", "mask": "segm"}
_PROBED = 8  # pictures in which one object is looked for, to see the model's labels


class AveragePrecision:
    def __init__(self, dataset: Coco, model: Model, by_number: bool) -> None:
        self._dataset, self._model, self._by_number = dataset, model, by_number
        self._masks = bool(dataset.annotations) and dataset.without_mask == 0
        self._mask_sizes: dict[int, set[tuple[int, int]]] = {}
        if self._masks:
            check_masks(dataset)
            self._mask_sizes = mask_sizes(dataset)
        self._notes = list(dataset.notes)
        self._by_name = {composed(one["name"]): one["id"] for one in dataset.categories}
        self._by_place = [one["id"] for one in dataset.categories]
        if dataset.without_mask:
            self._notes.append(
                f"no mask AP: {dataset.without_mask} of {len(dataset.annotations)} annotations have no mask"
            )

    def prepare(self, server: client.Client, pictures: Iterable[pathlib.Path]) -> None:
        pictures = list(pictures)
        try:
            first_answer(lambda picture: self.ask(server, picture), pictures)
        except client.Error as error:
            if error.reason != "model.no_masks":
                raise
            self._masks = False
            self._notes.append(f"no mask AP: model {self._model} gives no masks")
        if not self._by_number:
            self._check_labels(server, pictures[:_PROBED])

    def ask(
        self, server: client.Client, picture: pathlib.Path, **options: Any
    ) -> client.Answer[client.Detections]:
        model = self._model
        return server.detect(
            model.asked,
            [picture],
            masks=self._masks,
            version=model.asked_version,
            **options,
        )

    def reduce(self, place: int, result: client.Detections) -> client.Detections:
        image = self._dataset.images[place]
        expected = (
            image.get("height", result.size[0]),
            image.get("width", result.size[1]),
        )
        if expected != result.size:
            raise PictureError(
                f"the annotations say that it is {expected[1]}x{expected[0]}, and upright it is "
                f"{result.size[1]}x{result.size[0]}"
            )
        for height, width in self._mask_sizes.get(image["id"], ()):
            if self._masks and (height, width) != result.size:
                raise PictureError(
                    f"the annotations have a mask of {width}x{height}, and upright it is "
                    f"{result.size[1]}x{result.size[0]}"
                )
        try:
            check_size(*result.size)
            for mask in (result.masks or ()) if self._masks else ():
                check_found(mask)
        except ValueError as error:
            raise PictureError(str(error)) from error
        return result

    def figures(self, reduced: Mapping[int, client.Detections]) -> Figures:
        overall: dict[str, float] = {}
        resamples: list[Callable[[np.ndarray], dict[str, np.ndarray]]] = []
        classes: dict[str, dict[str, float]] = {
            one["name"]: {} for one in self._dataset.categories
        }
        for kind in ("box", "mask") if self._masks else ("box",):
            found, left_out = self._found(reduced, kind)
            truth = self._truth(reduced)
            evaluated = _evaluate(truth, found, _KINDS[kind])
            ids = [self._dataset.images[place]["id"] for place in reduced]
            resamples.append(
                functools.partial(resample_precision, evaluated, ids, kind)
            )
            overall |= {
                f"{kind} {name}": _figure(evaluated.stats[at])
                for name, at in _STATS.items()
            }
            # [thresholds of IoU, of recall, categories, areas, most detections]; -1: no such object.
            precision = evaluated.eval["precision"][:, :, :, 0, -1]
            for number, one in enumerate(self._dataset.categories):
                of_class = precision[:, :, number]
                classes[one["name"]] |= {
                    f"{kind} AP": _mean(of_class),
                    f"{kind} AP50": _mean(of_class[0]),
                }
        notes = list(self._notes)
        if left_out:
            names = named(
                f"{name} ({count:,})" for name, count in sorted(left_out.items())
            )
            notes.append(
                f"objects of classes that the data set does not have are left out: {names}"
            )

        def resample(counts: np.ndarray) -> dict[str, np.ndarray]:
            return {
                name: figure
                for one in resamples
                for name, figure in one(counts).items()
            }

        return Figures(overall, classes, notes, resample)

    def _check_labels(
        self, server: client.Client, pictures: list[pathlib.Path]
    ) -> None:
        """The server knows whether the model has a class; that it has labels at all is seen in what it finds.

        A category without annotations is not asked for: exporters write some that stand for nothing.
        """
        shown = {one["category_id"] for one in self._dataset.annotations}
        wanted = [name for name, number in self._by_name.items() if number in shown]
        for picture in pictures:
            try:
                answer = with_retries(
                    functools.partial(self.ask, server, picture, max_detections=1)
                )
            except (OSError, client.Error):
                continue  # counts as this picture's failure later
            if not any(answer.images[0].labels):
                continue
            unknown = [
                name
                for name in wanted
                if not self._has(server, picture, name)
                and not self._has(server, picture, unicodedata.normalize("NFD", name))
            ]
            if unknown:
                raise DatasetError(
                    f"{len(unknown)} of the {len(wanted)} categories of the data set are no classes of model "
                    f"{self._model}: {named(unknown)}. --by-number takes the categories in the order of their ids "
                    "instead"
                )
            return

    def _has(self, server: client.Client, picture: pathlib.Path, name: str) -> bool:
        try:
            with_retries(
                functools.partial(
                    self.ask, server, picture, classes=[name], max_detections=1
                )
            )
        except client.Error as error:
            if error.reason != "request.class_unknown":
                raise
            return False
        return True

    def _category(self, number: int, label: str) -> int | None:
        if label and not self._by_number:
            return self._by_name.get(composed(label.strip()))
        return self._by_place[number] if 0 <= number < len(self._by_place) else None

    def _found(
        self, reduced: Mapping[int, client.Detections], kind: str
    ) -> tuple[list[dict[str, Any]], Counter[str]]:
        """As COCO's results, and how many are of classes that the data set does not have, by class."""
        found: list[dict[str, Any]] = []
        left_out: Counter[str] = Counter()
        for place, result in reduced.items():
            masks = result.masks or itertools.repeat(None)
            objects = zip(
                result.boxes.tolist(),
                result.scores,
                result.classes,
                result.labels,
                masks,
                strict=False,
            )
            for (left, top, right, bottom), score, number, label, mask in objects:
                category = self._category(int(number), label)
                if category is None:
                    left_out[label or str(number)] += 1
                    continue
                one = {
                    "id": len(found) + 1,
                    "image_id": self._dataset.images[place]["id"],
                    "category_id": category,
                    "score": float(score),
                    "iscrowd": 0,
                    "bbox": [left, top, right - left, bottom - top],
                    "area": (right - left) * (bottom - top),
                }
                if kind == "mask" and mask is not None:  # asked for, each has one
                    one["segmentation"] = {
                        "size": list(mask.size),
                        "counts": mask.run_lengths,
                    }
                    one["area"] = mask.pixels
                found.append(one)
        return found, left_out

    def _truth(self, reduced: Mapping[int, client.Detections]) -> dict[str, Any]:
        images = [
            self._dataset.images[place]
            | {"height": result.size[0], "width": result.size[1]}
            for place, result in reduced.items()
        ]
        answered = {image["id"] for image in images}
        annotations = [
            one for one in self._dataset.annotations if one["image_id"] in answered
        ]
        return {
            "images": images,
            "categories": self._dataset.categories,
            # From 1 on: COCOeval takes a match with 0 for none.
            "annotations": [
                one | {"id": number} for number, one in enumerate(annotations, start=1)
            ],
        }


def _evaluate(
    truth: dict[str, Any], found: list[dict[str, Any]], kind: str
) -> COCOeval:
    with contextlib.redirect_stdout(io.StringIO()):  # it reports there
        evaluated = COCOeval(
            _indexed(truth), _indexed(truth | {"annotations": found}), kind
        )
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    return evaluated


def _indexed(dataset: dict[str, Any]) -> COCO:
    coco = COCO()
    coco.dataset = dataset
    coco.createIndex()
    return coco


def _figure(value: float) -> float:
    return float("nan") if value < 0 else float(value)


def _mean(precision: np.ndarray) -> float:
    defined = precision[precision > -1]
    return float(defined.mean()) if defined.size else float("nan")
