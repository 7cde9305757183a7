"""Masks as mmdetection 3 pastes them into a picture: the reference that tests compare with."""

from __future__ import annotations

import torch
from torch.nn import functional


def mmdetection_masks(
    masks: torch.Tensor, boxes: torch.Tensor, size: tuple[int, int]
) -> torch.Tensor:
    """FCNMaskHead's, before their threshold: probabilities [n, height, width] of masks [n, side, side] in a picture.

    It looks at a pixel in the pixel's middle; around a mask there are zeros.
    """
    left, top, right, bottom = boxes.double().split(1, dim=1)
    across = (torch.arange(size[1]).double() + 0.5 - left) / (right - left) * 2 - 1
    down = (torch.arange(size[0]).double() + 0.5 - top) / (bottom - top) * 2 - 1
    grid = torch.stack(
        [
            across[:, None, :].expand(-1, size[0], -1),
            down[:, :, None].expand(-1, -1, size[1]),
        ],
        dim=3,
    )
    return functional.grid_sample(masks[:, None].double(), grid, align_corners=False)[
        :, 0
    ]
