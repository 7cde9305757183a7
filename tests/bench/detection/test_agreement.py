"""What contest.py calls agreement: two answers that differ in one way each."""

from __future__ import annotations

import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from contest import agreement, detections

SIZE = (60, 80)


def answer() -> dict[str, torch.Tensor]:
    """Four objects, the masks of which fill the left half of their boxes."""
    corners = torch.tensor([[2.0, 2], [30, 2], [2, 30], [40, 30]])
    masks = torch.zeros(4, 1, 28, 28)
    masks[..., :14] = 1
    return {
        "boxes": torch.cat([corners, corners + 24], 1),
        "scores": torch.tensor([0.9, 0.8, 0.7, 0.6]),
        "labels": torch.tensor([1, 2, 1, 3]),
        "masks": masks,
    }


def without(told: dict[str, torch.Tensor], row: int) -> dict[str, torch.Tensor]:
    return {name: one[torch.arange(4) != row] for name, one in told.items()}


def twice(told: dict[str, torch.Tensor], row: int) -> dict[str, torch.Tensor]:
    return {name: torch.cat([one, one[row : row + 1]]) for name, one in told.items()}


def test_the_same_in_another_order_agrees() -> None:
    other = {name: one.flip(0) for name, one in answer().items()}
    assert agreement(other, answer(), SIZE) == 1


def test_what_one_of_them_misses_counts() -> None:
    assert agreement(without(answer(), 1), answer(), SIZE) == 3 / 4
    assert agreement(answer(), without(answer(), 1), SIZE) == 3 / 4


def test_a_detection_is_used_once() -> None:
    assert agreement(twice(answer(), 2), answer(), SIZE) == 4 / 5
    assert agreement(answer(), twice(answer(), 2), SIZE) == 4 / 5


@pytest.mark.parametrize(
    ("name", "moved"), [("boxes", 1.0), ("scores", 0.01), ("labels", 1)]
)
def test_another_box_score_or_class_is_another_detection(
    name: str, moved: float
) -> None:
    other = answer()
    other[name][0] += moved
    assert agreement(other, answer(), SIZE) == 3 / 4


def test_another_mask_is_another_detection() -> None:
    other = answer()
    other["masks"][3] = 1 - other["masks"][3]
    assert agreement(other, answer(), SIZE) == 3 / 4
    for told in (other, expected := answer()):
        del told["masks"]
    assert agreement(other, expected, SIZE) == 1, "where there are masks"


def test_nothing_found_agrees_with_nothing_of_it() -> None:
    nothing = {name: one[:0] for name, one in answer().items()}
    assert agreement(nothing, answer(), SIZE) == 0


def test_places_behind_the_last_detection_are_none() -> None:
    told = answer()
    outputs = [
        torch.cat([one, torch.zeros_like(one)])[None]
        for one in (told["boxes"], told["scores"], told["labels"])
    ]
    count, masks = torch.tensor([4]), torch.cat([told["masks"]] * 2).squeeze(1)[None]
    found = detections([*outputs, count, masks])
    assert {name: one.shape for name, one in found.items()} == {
        name: one.shape for name, one in told.items()
    }
    assert agreement(found, told, SIZE) == 1
    assert "masks" not in detections([*outputs, count])
