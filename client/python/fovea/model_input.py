"""From a picture to a model's pixels and back, as the server does it (server/imaging/resize_plan.h, model_zoo's Preprocessing)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Size = tuple[int, int]  # height, width


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a picture's pixels lie in the model's input.

    The picture of `source` became `resized`; the model sees the window of `shown` that begins at `top`, `left`, in the
    upper left corner of its `input`. The rest of the input shows nothing.
    """

    source: Size
    resized: Size
    top: int
    left: int
    shown: Size
    input: Size

    def source_x(self, x: float) -> float:
        """A coordinate of the input in the picture, inside of it. Both count from the first pixel's outer edge."""
        found = (x + self.left) * self.source[1] / self.resized[1]
        return min(max(found, 0.0), float(self.source[1]))

    def source_y(self, y: float) -> float:
        found = (y + self.top) * self.source[0] / self.resized[0]
        return min(max(found, 0.0), float(self.source[0]))

    def input_x(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """The way back."""
        return x * (self.resized[1] / self.source[1]) - self.left

    def input_y(self, y: NDArray[np.floating]) -> NDArray[np.floating]:
        return y * (self.resized[0] / self.source[0]) - self.top


@dataclasses.dataclass(frozen=True)
class ModelInput:
    """How a model's pictures are prepared. Means and deviations are of pixels in [0, 1], in RGB order."""

    resize_mode: str  # SHORTEST_EDGE, SQUASH or FIT
    interpolation: str  # BILINEAR or BICUBIC
    crop_fraction: float  # in (0, 1]; not with FIT
    crop_offset: str  # NEAREST or FLOOR
    # FIT: the shorter side becomes shorter_side, or less, so that the longer one is no more than longer_side; 0: any.
    shorter_side: int
    longer_side: int
    fast_decode: bool  # large JPEGs are decoded smaller (server/imaging/jpeg_scale.h)
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sizes: tuple[Size, ...]  # that the model runs at, its own first
    takes_bytes: bool  # uint8 [N, height, width, 3] in place of normalised pixels

    @classmethod
    def of_facts(
        cls, preprocessing: dict[str, Any], facts: dict[str, Any]
    ) -> ModelInput:
        own = (facts["image_height"], facts["image_width"])
        further = [(height, width) for height, width in facts["further_sizes"]]
        return cls(
            **preprocessing
            | {
                "mean": tuple(preprocessing["mean"]),
                "std": tuple(preprocessing["std"]),
            },
            sizes=(own, *further),
            takes_bytes=facts["pixel_input"] == "BYTES",
        )

    def place(self, height: int, width: int) -> Placement:
        """Where a picture of this size goes."""
        if self.resize_mode == "FIT":
            return self._fit(height, width)
        model = self.sizes[0]
        cover = [math.floor(side / self.crop_fraction) for side in model]
        resized = (cover[0], cover[1])
        if self.resize_mode == "SHORTEST_EDGE":
            resized = _cover(height, width, resized)
        # Python's round is to even, as timm's.
        top, left = (
            (all_of - part) // 2
            if self.crop_offset == "FLOOR"
            else round((all_of - part) / 2)
            for all_of, part in zip(resized, model, strict=True)
        )
        return Placement((height, width), resized, top, left, model, model)

    def _fit(self, height: int, width: int) -> Placement:
        """The largest that the picture can become; of the sizes that hold it so, the smallest."""
        wanted: Size | None = None
        if self.shorter_side:
            shorter, longer = sorted((height, width))
            wanted = (
                _scaled(height, width, self.shorter_side, shorter)
                if longer * self.shorter_side <= shorter * self.longer_side
                else _scaled(height, width, self.longer_side, longer)
            )

        def at(size: Size) -> Size:
            if wanted and wanted[0] <= size[0] and wanted[1] <= size[1]:
                return wanted
            if width * size[0] <= size[1] * height:
                return _scaled(height, width, size[0], height)
            return _scaled(height, width, size[1], width)

        best = max(self.sizes, key=lambda size: (_area(at(size)), -_area(size)))
        shown = at(best)
        return Placement((height, width), shown, 0, 0, shown, best)

    def halvings(self, height: int, width: int) -> int:
        """How often a JPEG's sides are halved while it is decoded: the resize is left twice what it makes of them."""
        if not self.fast_decode:
            return 0
        resized = self.place(height, width).resized
        least = [max(2 * side, 8) for side in resized]
        fitting = (
            halvings
            for halvings in (3, 2, 1)
            if height >= least[0] << halvings and width >= least[1] << halvings
        )
        return next(fitting, 0)

    def pixels(
        self,
        picture: Image.Image,
        place: Placement,
        box: tuple[float, float, float, float] | None = None,
    ) -> NDArray[Any]:
        """Of an upright RGB picture: float32 [3, height, width], normalised; or uint8 [height, width, 3].

        box: the part of it (left, top, right, bottom) that is to be seen; None: all.
        """
        filters = {
            "BILINEAR": Image.Resampling.BILINEAR,
            "BICUBIC": Image.Resampling.BICUBIC,
        }
        if picture.size != (place.resized[1], place.resized[0]):
            picture = resized(picture, place.resized, filters[self.interpolation], box)
        height, width = place.shown
        window = np.asarray(picture)[
            place.top : place.top + height, place.left : place.left + width
        ]
        if self.takes_bytes:
            pixels = np.zeros((*place.input, 3), np.uint8)
            pixels[:height, :width] = window
            return pixels
        mean, std = (np.array(of, np.float32) for of in (self.mean, self.std))
        normalised = (window.astype(np.float32) / 255 - mean) / std
        filled = np.zeros((3, *place.input), np.float32)
        filled[:, :height, :width] = normalised.transpose(2, 0, 1)
        return filled


def resized(
    picture: Image.Image,
    size: Size,
    resample: Image.Resampling,
    box: tuple[float, float, float, float] | None = None,
) -> Image.Image:
    """As Pillow 13's Image.resize, and so as the server, whichever Pillow is installed.

    Older ones filter along rows first whatever the picture's shape; here each pass is a resize of its own.
    """
    left, top, right, bottom = box or (0.0, 0.0, *map(float, picture.size))
    height, width = size
    fewer = picture.height - height
    down_first = fewer > 0 and fewer > 2 * (picture.width - width)
    for down in (True, False) if down_first else (False, True):
        if down:
            whole = (0.0, top, float(picture.width), bottom)
            picture = picture.resize((picture.width, height), resample, whole)
        else:
            whole = (left, 0.0, right, float(picture.height))
            picture = picture.resize((width, picture.height), resample, whole)
    return picture


def _area(size: Size) -> int:
    return size[0] * size[1]


def _scaled(height: int, width: int, target: int, side: int) -> Size:
    """With `side`, one of its own, as `target`; the other cut off to a whole number."""
    return max(1, height * target // side), max(1, width * target // side)


def _cover(height: int, width: int, cover: Size) -> Size:
    if cover[0] == cover[1]:  # torchvision's Resize of the shorter side
        side = cover[0]
        if width <= height:
            return int(side * height / width), side
        return side, int(side * width / height)
    ratio = min(height / cover[0], width / cover[1])  # timm's ResizeKeepRatio
    return round(height / ratio), round(width / ratio)
