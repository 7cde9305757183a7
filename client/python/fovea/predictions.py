"""From a model's tensors to what a caller gets of them, as the server's postprocessors do it (server/postprocess)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fovea.model_input import Placement
from fovea.results import ClassArea, Classification, Detections, Segmentation

_ROWS = 64  # of a class map that are computed at a time


def top_classes(
    logits: NDArray[np.float32], labels: list[str], top_k: int, sigmoid: bool = False
) -> Classification:
    """The classification of one picture by its logits [classes]. Equal logits are in the order of their classes.

    sigmoid: each class has a confidence of its own, instead of a share of all classes.
    """
    wide = logits.astype(np.float64)
    shares = 1 / (1 + np.exp(-wide)) if sigmoid else np.exp(wide - wide.max())
    best = np.argsort(-wide, kind="stable")[:top_k]
    whole = 1.0 if sigmoid else shares.sum()
    return Classification(
        classes=best.astype(np.int64),
        labels=[_label(labels, one) for one in best],
        confidences=(shares[best] / whole).astype(np.float32),
        logits=logits[best],
    )


def detections(
    outputs: dict[str, NDArray[Any]],
    image: int,
    labels: list[str],
    place: Placement,
    score_threshold: float,
) -> Detections:
    """Of a batch's outputs, those of this image. Without masks."""
    count = int(outputs["counts"][image])
    scores = outputs["scores"][image, :count]
    kept = np.flatnonzero(scores >= score_threshold)
    found = outputs["boxes"][image][kept]
    classes = outputs["labels"][image][kept].astype(np.int64)
    boxes = [
        (
            place.source_x(float(left)),
            place.source_y(float(top)),
            place.source_x(float(right)),
            place.source_y(float(bottom)),
        )
        for left, top, right, bottom in found
    ]
    return Detections(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=scores[kept].astype(np.float32),
        classes=classes,
        labels=[_label(labels, one) for one in classes],
        masks=None,
        size=place.source,
    )


def class_map(
    logits: NDArray[np.float32], labels: list[str], place: Placement, confidence: bool
) -> Segmentation:
    """Of one picture's logits [classes, height, width]: bilinear between the places of the map, then the largest."""
    classes, rows, columns = logits.shape
    height, width = place.source
    across = place.input_x(np.arange(width) + 0.5) * (columns / place.input[1])
    down = place.input_y(np.arange(height) + 0.5) * (rows / place.input[0])
    left, right, of_right = _between(across, columns)
    upper, lower, of_lower = _between(down, rows)
    kind = np.uint8 if classes <= 256 else np.uint16
    best = np.empty((height, width), kind)
    sure = np.empty((height, width), np.uint8) if confidence else None
    for first in range(0, height, _ROWS):
        part = slice(first, first + _ROWS)
        above, below = logits[:, upper[part]], logits[:, lower[part]]
        row = above + of_lower[part, None] * (below - above)
        pixels = row[:, :, left] + of_right * (row[:, :, right] - row[:, :, left])
        best[part] = pixels.argmax(0)
        if sure is not None:
            most = pixels.max(0)
            share = 255 / np.exp(pixels - most).sum(0)
            sure[part] = np.floor(share + 0.5)
    numbers, counts = np.unique(best, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return Segmentation(
        class_map=best,
        classes=[
            ClassArea(int(numbers[i]), _label(labels, numbers[i]), int(counts[i]))
            for i in order
        ],
        confidence=sure,
    )


def _between(
    at: NDArray[np.floating], places: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Between which two places each lies, and the share of the second."""
    inside = np.clip(at - 0.5, 0, places - 1)
    low = inside.astype(np.int64)
    return low, np.minimum(low + 1, places - 1), (inside - low).astype(np.float32)


def _label(labels: list[str], index: Any) -> str:
    return labels[int(index)] if int(index) < len(labels) else ""
