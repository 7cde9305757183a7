"""The measure of each task."""

from __future__ import annotations

from fovea.evaluation.classification import Accuracy
from fovea.evaluation.datasets import Coco, Dataset, ImageFolder
from fovea.evaluation.detection import AveragePrecision
from fovea.evaluation.measure import Measure, Model
from fovea.evaluation.segmentation import IntersectionOverUnion


def measure_of(dataset: Dataset, model: Model, by_number: bool) -> Measure:
    """by_number: classes are matched by number, though the model has labels."""
    match dataset:
        case ImageFolder():
            return Accuracy(dataset, model, by_number)
        case Coco():
            return AveragePrecision(dataset, model, by_number)
        case _:
            return IntersectionOverUnion(dataset, model, by_number)
