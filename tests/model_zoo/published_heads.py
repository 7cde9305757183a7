"""What mmdetection and mmsegmentation themselves say, stored, of weights and inputs that anyone can make again.

data/store_published_heads.py runs the published packages once and writes data/published_heads/NAME.npz: of a whole narrow
model (retinanet, mask_rcnn, cascade_mask_rcnn, semantic_fpn) what each stage gave; and of single steps on inputs made for
them ("steps"). A second implementation and the zoo fill themselves with the same numbers and compare.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy
import torch
from seeded_numbers import random_numbers, seeded_tensor
from torch import Tensor
from torch.nn import functional

FOLDER = pathlib.Path(__file__).parent / "data" / "published_heads"

CLASSES = 3
CHANNELS = 16  # of the pyramid
# Maps are rounded up. The second picture is smaller than its input, from whose upper left corner it reaches this far.
SIZE = (248, 312)
SHAPES = [(248, 312), (180, 220)]
BACKBONE_CHANNELS = [256, 512, 1024, 2048]
EVERY = 97  # of a map's numbers one in so many is stored
EVERY_ANCHOR = 211  # of a map's anchors one in so many
ROWS = 9  # of the images' regions one in so many

# What a cascade and Mask R-CNN say in common, as their weights up to there are the same: stored once.
FIRST_STAGE = ("level", "proposals")


class StoredHead:
    """A file of data/published_heads."""

    def __init__(self, name: str) -> None:
        with numpy.load(FOLDER / f"{name}.npz") as file:
            self.made_with = json.loads(str(file["made_with"]))
            self.arrays = {
                key: torch.from_numpy(file[key])
                for key in file.files
                if key != "made_with"
            }

        if name == "cascade_mask_rcnn":
            for key, value in StoredHead("mask_rcnn").arrays.items():
                if key.startswith(FIRST_STAGE):
                    self.arrays[key] = value

    def __getitem__(self, key: str) -> Tensor:
        return self.arrays[key]

    def weights(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        return ruled_weights(shapes, self.arrays)

    def pixels(self) -> Tensor:
        return pixels_of(int(self["seed"]))

    def masks(self, key: str) -> Tensor:
        """Those that were packed: [n, height, width], 0 and 1."""
        bits = numpy.unpackbits(self[key].numpy(), axis=2)
        return torch.from_numpy(bits[:, :, : int(self[key + ".width"])])


def pack(masks: Tensor) -> dict[str, numpy.ndarray]:
    return {
        "": numpy.packbits(masks.numpy().astype(bool), axis=2),
        ".width": numpy.array(masks.shape[2]),
    }


def pixels_of(seed: int) -> Tensor:
    return random_numbers(f"pixels {seed} of heads", (2, 3, *SIZE))


def ruled_weights(
    shapes: Mapping[str, Sequence[int]], set_: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """By name and shape; "times/NAME" says by what a row is multiplied, "set/NAME" what stands there instead."""
    weights = {}
    for name, shape in shapes.items():
        value = seeded_tensor(name, shape)
        if name.endswith("bn3.weight"):
            value = 0.3 * value  # or a ResNet's activations grow from block to block
        if f"times/{name}" in set_:
            rows = set_[f"times/{name}"]
            value = value * rows.view(-1, *[1] * (len(shape) - 1))
        weights[name] = set_.get(f"set/{name}", value)
    return weights


def some(values: Tensor) -> Tensor:
    return values.flatten()[::EVERY]


# --- What single steps are given: NCHW, as the packages' layers say it.


def _deltas(
    key: str, anchors: int, height: int, width: int, spread: float = 0.25
) -> Tensor:
    """Most move a box a little; of each seventeenth place the sizes reach beyond both bounds of their logarithm."""
    deltas = spread * random_numbers(key, (2, anchors, 4, height * width))
    far = torch.arange(height * width) % 17 == 3
    deltas[:, :, 2:, far] *= 5.5 / spread
    return deltas.reshape(2, anchors * 4, height, width)


RETINANET_SIZE = (120, 152)
RETINANET_SHAPES = [(120, 152), (90, 110)]


def retinanet_outputs() -> list[tuple[Tensor, Tensor]]:
    """Class logits and deltas of each map, from 15x19 to 1x2.

    On the finest, more anchors than a map may offer crowd at a few places with a high score each: those beside them are
    seen only by who looks at more candidates of a map, or of all maps together.
    """
    outputs = []
    for level, (height, width) in enumerate(
        [(15, 19), (8, 10), (4, 5), (2, 3), (1, 2)]
    ):
        logits = random_numbers(
            f"class logits {level}", (2, 9 * CLASSES, height, width)
        )
        logits = logits - 4.0 if level == 0 else 1.2 * logits - 5.5
        if level == 0:
            logits[:, :, 2:9, 3:10] += 6.5
        outputs.append((logits, _deltas(f"retinanet {level}", 9, height, width, 0.05)))
    return outputs


def proposal_outputs() -> list[tuple[Tensor, Tensor]]:
    """Objectness and deltas of each map of SIZE: two of them have more anchors than they may offer."""
    outputs = []
    for level, stride in enumerate((4, 8, 16, 32, 64)):
        height, width = (-(-side // stride) for side in SIZE)
        logits = 1.5 * random_numbers(f"objectness {level}", (2, 3, height, width))
        outputs.append((logits, _deltas(f"proposals {level}", 3, height, width)))
    return outputs


REGION_SHAPE = (90, 110)
REGIONS = 36


def regions_of_a_picture() -> Tensor:
    """Boxes [REGIONS, 4], the last of which lie at the picture's edges: deltas may move them out of it."""
    height, width = REGION_SHAPE
    numbers = random_numbers("regions", (REGIONS, 4)).abs()
    corners = numbers[:, :2] * 25
    boxes = torch.cat([corners, corners + 6 + 20 * numbers[:, 2:]], 1)
    boxes[-12:-6, 0], boxes[-12:-6, 2] = width - 3.0, width
    boxes[-6:, 1], boxes[-6:, 3] = 0.0, 2.0
    return torch.stack(
        [boxes[:, i].clamp(0, width if i % 2 == 0 else height) for i in range(4)], 1
    )


def region_outputs(agnostic: bool) -> tuple[Tensor, Tensor]:
    """Logits [REGIONS, CLASSES + 1] and deltas, of which some reach beyond both bounds."""
    logits = 1.5 * random_numbers("region logits", (REGIONS, CLASSES + 1))
    boxes = 1 if agnostic else CLASSES
    deltas = random_numbers(f"region deltas {boxes}", (REGIONS, boxes, 4))
    deltas[::13, :, 2:] *= 40
    deltas[-12:-6, :, 0] = 12 + deltas[-12:-6, :, 0]  # to the right, out of it
    deltas[-6:, :, 1] = -12 + deltas[-6:, :, 1]  # upwards
    # The deviations of the last stage, which has one box for all classes, are a third.
    return logits, (3 if agnostic else 1) * deltas.flatten(1)


DECODED_SHAPE = (400, 500)  # so large that the sizes' upper bound is seen within it


def decoded_boxes() -> tuple[Tensor, Tensor]:
    """Boxes and deltas: of sizes around, at, and far beyond both bounds."""
    numbers = random_numbers("decoded", (64, 4)).abs()
    corners = numbers[:, :2] * 90
    boxes = torch.cat([corners, corners + 1 + 20 * numbers[:, 2:] ** 2], 1)
    deltas = 2 * random_numbers("decoded deltas", (64, 4))
    deltas[:, 2] = torch.linspace(-80, 80, 64)
    deltas[:, 3] = torch.linspace(90, -90, 64)
    return boxes, deltas


def boxes_of_all_sizes() -> Tensor:
    """Around the sides at which the map changes, a little below and a little above; a line; what no map is coarse for."""
    sides = [
        56 * 2.0**power * factor
        for power in range(-2, 5)
        for factor in (0.5, 0.9, 0.99999, 1.00001, 1.1, 1.3)
    ]
    # One that only the small number added inside of the logarithm brings to the next map.
    sides.append(112 * (1 - 2.4e-7))
    square = [[3.0, 5.0, 3.0 + side, 5.0 + side] for side in sides]
    long = [[1.0, 2.0, 1.0 + 4 * side, 2.0 + side / 4] for side in sides]
    return torch.tensor([*square, *long, [7.0, 7.0, 7.0, 30.0]])


REGION_MAPS_SIZE = (512, 640)


def region_maps() -> list[Tensor]:
    """Four, with as many channels."""
    height, width = REGION_MAPS_SIZE
    return [
        random_numbers(
            f"region map {stride}", (2, 4, height // stride, width // stride)
        )
        for stride in (4, 8, 16, 32)
    ]


def boxes_on_region_maps() -> list[Tensor]:
    """Of each image: on each of the four maps some, over the edges of the maps some, one less than a place of its map."""
    height, width = REGION_MAPS_SIZE
    images = []
    for image in range(2):
        numbers = random_numbers(f"boxes on maps {image}", (12, 4)).abs()
        sides = torch.tensor([3.0, 20, 50, 70, 90, 130, 180, 250, 300, 460, 480, 1.5])
        corners = numbers[:, :2] * torch.tensor([width / 4, height / 4])
        far = corners + sides[:, None] * (0.8 + 0.2 * numbers[:, 2:])
        images.append(torch.cat([corners, far], 1).clamp(max=639.5))
    return images


PICTURE = (90, 110)
SCALE = 0.5  # of the input over the picture, whose masks are asked for in its own pixels too


def mask_inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Logits [12, CLASSES, 28, 28] with slow changes, boxes and labels."""
    numbers = random_numbers("mask logits", (12, CLASSES, 5, 5))
    logits = 3 * functional.interpolate(
        numbers, (28, 28), mode="bilinear", align_corners=True
    )
    boxes = torch.tensor(
        [
            [10.0, 12.0, 66.0, 68.0],
            [10.5, 12.5, 66.5, 68.5],
            [3.3, 7.7, 40.2, 31.9],
            [0.0, 0.0, 110.0, 90.0],
            [50.2, 40.9, 51.6, 42.1],
            [60.0, 20.0, 63.0, 80.0],
            [20.0, 60.0, 95.0, 63.5],
            [90.1, 70.3, 110.0, 90.0],
            [0.0, 0.4, 12.7, 90.0],
            [33.3, 33.3, 61.6, 61.6],
            [30.0, 10.0, 58.0, 38.0],
            [70.25, 15.75, 105.5, 44.25],
        ]
    )
    return logits, boxes, torch.arange(12) % CLASSES


def close(ours: Tensor, stored: Tensor, bound: float) -> bool:
    """Within `bound` of the stored numbers' size."""
    assert ours.shape == stored.shape, (ours.shape, stored.shape)
    scale = max(1.0, float(stored.abs().max())) if stored.numel() else 1.0
    assert math.isfinite(scale)
    return stored.numel() == 0 or float((ours - stored).abs().max()) <= bound * scale
