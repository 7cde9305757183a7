"""COCO's compressed run lengths of a mask, as a Fovea server and COCO's tools write them."""

import numpy as np
from numpy.typing import NDArray

_BITS = 5  # of a character
# Of a number, in characters: 30 bits, more than a picture has pixels. What is longer says no more, and pycocotools, which
# reads texts after us, shifts it out of an int: it may read other numbers.
_LONGEST = 6


def lengths(text: str, height: int, width: int) -> list[int]:
    """Of runs outside and inside of the mask in turn, column by column; together height * width.

    The text has each but the first three as its difference from the one before the last (cocoapi, maskApi.c,
    rleFrString). ValueError: no run lengths, or none of that many pixels.
    """
    runs: list[int] = []
    number = shift = 0
    left = height * width  # pixels
    for character in text:
        group = ord(character) - ord("0")
        if not 0 <= group < 0x40 or shift >= _LONGEST * _BITS:
            raise ValueError("the run lengths are none of COCO's")
        number |= (group & 0x1F) << shift
        shift += _BITS
        if group & 0x20:
            continue
        if group & 0x10:
            number -= 1 << shift
        runs.append(number + (runs[-2] if len(runs) > 2 else 0))
        left -= runs[-1]
        # No mask needs more: an empty run stands between two others at most.
        if runs[-1] < 0 or left < 0 or len(runs) > 2 * height * width + 1:
            break
        number = shift = 0
    if shift or left != 0:
        raise ValueError(f"the run lengths are not those of {height}x{width} pixels")
    return runs


def decode(text: str, height: int, width: int) -> NDArray[np.bool_]:
    """The mask [height, width], bool. ValueError: as `lengths`."""
    runs = lengths(text, height, width)
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(width, height).T
