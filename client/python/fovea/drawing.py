"""What a model has found, as images of Pillow's, in the colours in which the server and `fovea` draw classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from fovea.pictures import Picture, upright_rgb

if TYPE_CHECKING:
    from fovea.results import Detections, Segmentation

# Okabe and Ito's, with grey for black: base/class_colour.h. A class has the one of its number modulo eight.
_COLOURS = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66),
    (0, 114, 178), (213, 94, 0), (204, 121, 167), (187, 187, 187),
)  # fmt: skip
_LEAST_SIDE = 32  # pixels of a picture that has room for text
_MASK_SHARE = 0.45  # of a class's colour where its pixels are


def image_of_mask(mask: NDArray[np.bool_]) -> Image.Image:
    """Mode "L": 255 where the mask is."""
    return Image.fromarray(np.where(mask, np.uint8(255), np.uint8(0)))


def image_of_classes(found: Segmentation) -> Image.Image:
    """The colours of the pixels' classes, RGB."""
    colours = np.array(_COLOURS, np.uint8)
    return Image.fromarray(colours[found.class_map % len(_COLOURS)])


def classes_over(found: Segmentation, picture: Picture) -> Image.Image:
    """ValueError: the picture has another size."""
    image = _of_size(picture, (found.class_map.shape[0], found.class_map.shape[1]))
    return Image.blend(image, image_of_classes(found), _MASK_SHARE)


def objects_over(found: Detections, picture: Picture) -> Image.Image:
    """Masks, boxes, labels and scores, the best on top. ValueError: the picture has another size."""
    image = _of_size(picture, found.size)
    order = range(len(found.scores) - 1, -1, -1)
    if found.masks is not None:
        pixels = np.asarray(image).astype(np.float32)
        for i in order:
            inside = found.masks[i].array()
            colour = np.array(_colour(found, i), np.float32)
            pixels[inside] += _MASK_SHARE * (colour - pixels[inside])
        image = Image.fromarray(pixels.round().astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for i in order:
        left, top, right, bottom = (float(end) for end in found.boxes[i])
        draw.rectangle((left, top, right, bottom), outline=_colour(found, i), width=2)
        if min(image.size) < _LEAST_SIDE:
            continue
        name = found.labels[i] or f"class {found.classes[i]}"
        text = f"{name} {100 * found.scores[i]:.0f} %"
        # Pillow's own font has no letters beyond Latin-1.
        text = text.encode("latin-1", "replace").decode("latin-1")
        at = draw.textbbox((left + 3, top + 1), text)
        draw.rectangle((at[0] - 2, at[1] - 1, at[2] + 2, at[3] + 1), fill="black")
        draw.text((left + 3, top + 1), text, fill=_colour(found, i))
    return image


def _colour(found: Detections, i: int) -> tuple[int, int, int]:
    return _COLOURS[int(found.classes[i]) % len(_COLOURS)]


def _of_size(picture: Picture, size: tuple[int, int]) -> Image.Image:
    image = upright_rgb(picture)
    if (image.height, image.width) != size:
        raise ValueError(
            f"the picture has {image.height}x{image.width} pixels, and what was found is of one with {size[0]}x{size[1]}"
        )
    return image
