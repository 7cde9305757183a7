"""A picture for the measurements of images."""

from __future__ import annotations

import numpy as np
from PIL import Image


def photograph(width: int, height: int) -> Image.Image:
    """About as much detail as a camera's: 12 megapixels make a JPEG of some 2 MB at quality 85."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (height // 40, width // 40, 3), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    noise = random.integers(-9, 10, (height, width, 3), dtype=np.int16)
    pixels = np.asarray(smooth, np.int16) + noise
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
