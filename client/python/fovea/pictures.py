"""Pictures as callers have them, and as files that a server reads."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, JpegImagePlugin

# A file of a format that servers read (JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF): its bytes or its path; or pixels: uint8 [height, width, 3] RGB, or an image of Pillow's.
Picture: TypeAlias = bytes | str | os.PathLike[str] | NDArray[np.uint8] | Image.Image

_KINDS = (
    "a picture is a file's bytes, its path, pixels (uint8 [height, width, 3]), or "
    "an image of Pillow's"
)


def list_of(pictures: Iterable[Picture]) -> list[Picture]:
    """TypeError: one picture, which is not in a list."""
    if isinstance(pictures, (str, bytes, os.PathLike, Image.Image)):
        raise TypeError("pictures is one file: give a list of pictures")
    return list(pictures)


def files_of(pictures: Iterable[Picture]) -> list[bytes]:
    """The pictures' files, as they are sent. TypeError: no pictures. OSError: a file cannot be read."""
    return [_file_of(picture) for picture in list_of(pictures)]


def _file_of(picture: Picture) -> bytes:
    if isinstance(picture, bytes):
        return picture
    if isinstance(picture, (str, os.PathLike)):
        return pathlib.Path(picture).read_bytes()
    file = io.BytesIO()
    _image_of_pixels(picture).save(file, "PNG", compress_level=1)
    return file.getvalue()


@dataclasses.dataclass(frozen=True)
class Decoded:
    """A picture of `size` (height, width), upright: `box` (left, top, right, bottom) of the image."""

    image: Image.Image
    size: tuple[int, int]
    box: tuple[float, float, float, float]


def upright_rgb(picture: Picture) -> Image.Image:
    """The picture as a server sees it: upright by its EXIF orientation, RGB, transparency laid over white.

    TypeError: no picture. OSError: a file that cannot be read, or decoded.
    """
    return decoded(picture, lambda height, width: 0).image


def decoded(picture: Picture, halvings_for: Callable[[int, int], int]) -> Decoded:
    """As upright_rgb, but a JPEG's file with its sides halved while it is decoded, as often as is said for its upright size.

    The box is not all of the image where a side is no multiple of 2 ** halvings: its last block is padded.
    """
    if isinstance(picture, bytes):
        return _decoded(Image.open(io.BytesIO(picture)), halvings_for)
    if isinstance(picture, (str, os.PathLike)):
        with Image.open(picture) as image:
            return _decoded(image, halvings_for)
    return _whole(_image_of_pixels(picture))


def _whole(image: Image.Image) -> Decoded:
    return Decoded(image, (image.height, image.width), (0, 0, *image.size))


def _decoded(image: Image.Image, halvings_for: Callable[[int, int], int]) -> Decoded:
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return _whole(_upright_rgb(image))
    image.info.pop("xmp", None)
    orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    width, height = image.size
    transposed = orientation in (5, 6, 7, 8)
    size = (width, height) if transposed else (height, width)
    scale = 2 ** halvings_for(*size)
    if scale == 1:
        return _whole(_upright_rgb(image))
    image.draft(None, (width // scale, height // scale))
    upright = _upright_rgb(image)
    high, wide = (side / scale for side in size)
    # What was stored last is to the left, or above, of a picture that is turned so.
    left = upright.width - wide if orientation in (2, 3, 6, 7) else 0.0
    top = upright.height - high if orientation in (3, 4, 7, 8) else 0.0
    return Decoded(upright, size, (left, top, left + wide, top + high))


def _image_of_pixels(picture: Any) -> Image.Image:
    if isinstance(picture, Image.Image):
        return _upright_rgb(picture)
    if (
        not isinstance(picture, np.ndarray)
        or picture.dtype != np.uint8
        or picture.shape[2:] != (3,)
        or not picture.size
    ):
        kind = type(picture).__name__
        if isinstance(picture, np.ndarray):
            kind = f"an array of {picture.dtype} {list(picture.shape)}"
        raise TypeError(f"{_KINDS}; this is {kind}")
    return Image.fromarray(picture)


def _upright_rgb(image: Image.Image) -> Image.Image:
    # Orientations that XMP or ImageMagick's raw profiles name are no browser's, and no server's.
    for key in ("xmp", "XML:com.adobe.xmp", "Raw profile type exif"):
        image.info.pop(key, None)
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16") or image.mode == "I":
        return _eight_bits(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    # Pillow would cut 16 bits off at 255, and compare the transparent level with what is left.
    samples = np.asarray(image).astype(np.float64)
    levels = (samples / 257).round().astype(np.uint8)
    if (transparent := image.info.get("transparency")) is not None:
        levels[samples == transparent] = 255
    return Image.fromarray(levels).convert("RGB")
