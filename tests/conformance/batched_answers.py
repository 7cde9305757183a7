"""Answers to pictures that shared a batch, beside the answers to each of them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import tritonclient.grpc as triton

Answer = TypeVar("Answer")

# What rounding in batches of other sizes may change, as in tests/model_zoo/test_parity_mask_rcnn.py.
SCORE_RATIO, BOX_PIXELS = 1e-3, 0.05


def until_batched(
    ask: Callable[[], Answer], batch_size: Callable[[Answer], int], tries: int = 20
) -> Answer:
    """What `ask` gives once its pictures have shared a batch: those that come while the model runs may."""
    for _ in range(tries):
        if batch_size(answer := ask()) > 1:
            return answer
    raise AssertionError(f"in {tries} tries no pictures shared a batch")


def batch_size(answer: triton.InferResult) -> int:
    return answer.get_response().parameters["fovea.batch_size"].int64_param


def objects(answer: triton.InferResult, image: int = 0) -> tuple[np.ndarray, ...]:
    """Boxes, scores and classes of what a detector found in one of the pictures."""
    count = answer.as_numpy("counts")[image]
    return tuple(
        answer.as_numpy(name)[image, :count] for name in ("boxes", "scores", "labels")
    )


def same_objects(
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
    alone: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> list[tuple[int, int]]:
    """Boxes, scores and classes of one picture twice: the places of each object that is in both.

    Near scores may change places, so the order does not count.
    """
    boxes, scores, classes = found
    left = list(range(len(scores)))
    pairs = []
    for place, (box, score, kind) in enumerate(zip(*alone, strict=True)):
        for other in left:
            if (
                classes[other] == kind
                and abs(scores[other] - score) <= SCORE_RATIO * score
                and np.abs(boxes[other] - box).max() <= BOX_PIXELS
            ):
                pairs.append((other, place))
                left.remove(other)
                break
    return pairs


def differing(
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
    alone: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> int:
    """How many objects are in one of them alone."""
    return len(found[1]) + len(alone[1]) - 2 * len(same_objects(found, alone))
