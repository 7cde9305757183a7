"""Pictures as callers have them, and as files that a server reads."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

# A JPEG, PNG or WebP file: its bytes or its path; or pixels: uint8 [height, width, 3] RGB, or an image of Pillow's.
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


def upright_rgb(picture: Picture) -> Image.Image:
    """The picture as a server sees it: upright by its EXIF orientation, RGB, transparency laid over white.

    TypeError: no picture. OSError: a file that cannot be read, or decoded.
    """
    if isinstance(picture, bytes):
        return _upright_rgb(Image.open(io.BytesIO(picture)))
    if isinstance(picture, (str, os.PathLike)):
        with Image.open(picture) as image:
            return _upright_rgb(image)
    return _image_of_pixels(picture)


def _image_of_pixels(picture: Any) -> Image.Image:
    if isinstance(picture, Image.Image):
        return _upright_rgb(picture)
    if (
        not isinstance(picture, np.ndarray)
        or picture.dtype != np.uint8
        or picture.shape[2:] != (3,)
        or not picture.size
    ):
        raise TypeError(_KINDS)
    return Image.fromarray(picture)


def _upright_rgb(image: Image.Image) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    if image.mode.startswith("I;16") or image.mode == "I":
        # Pillow would cut 16 bits off at 255.
        samples = np.asarray(image).astype(np.float64)
        return Image.fromarray((samples / 257).round().astype(np.uint8)).convert("RGB")
    return image.convert("RGB")
