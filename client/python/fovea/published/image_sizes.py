"""The size of the images that a vision transformer was trained on, as its positions tell it. Sizes are height, width."""

import math
from pathlib import Path

from fovea.published.model import PublishedError

Size = tuple[int, int]


def trained_size(path: Path, places: int, patch: Size, wanted: Size | None) -> Size:
    """Of `places` patches. A square number of them is of a square, as the server takes it; other ones may be of `wanted`.

    Raises PublishedError where neither is so, or where `wanted` does not divide into patches.
    """
    if wanted and (wanted[0] % patch[0] or wanted[1] % patch[1]):
        raise PublishedError(
            f"{wanted[0]}x{wanted[1]} pixels do not divide into patches of {patch[0]}"
        )
    side = math.isqrt(max(places, 0))
    if side > 0 and side * side == places:
        return side * patch[0], side * patch[1]
    if wanted and (wanted[0] // patch[0]) * (wanted[1] // patch[1]) == places:
        return wanted
    raise PublishedError(
        f"pos_embed of {path} is of {places} patches, which are no square: --image-size says what they are of"
    )


def resized_note(trained: Size, size: Size, patch: Size) -> str:
    learned, needed = (f"{h // patch[0]}x{w // patch[1]}" for h, w in (trained, size))
    return f"Positions of {learned} patches are resized to {needed} when the model is loaded."
