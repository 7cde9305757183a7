"""Numbers that anyone can make again, for weights and pixels: the same on every machine and under every version."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy
import torch


def random_numbers(key: str, shape: Sequence[int]) -> torch.Tensor:
    """Standard normal, fp32: numpy has frozen the stream of RandomState, so they are the same everywhere."""
    random = numpy.random.RandomState(zlib.crc32(key.encode()))
    numbers = random.standard_normal(tuple(shape)).astype(numpy.float32)
    return torch.from_numpy(numbers)


def seeded_tensor(name: str, shape: Sequence[int]) -> torch.Tensor:
    """What a parameter or buffer of this name holds: of a size at which activations neither grow nor vanish."""
    random = random_numbers(name, shape)
    if len(shape) > 1 and shape[0] > 1:  # a table of tokens or positions begins with 1
        return random / math.sqrt(math.prod(shape[1:]))
    if name.endswith(("weight", "running_var")):
        return 1 + 0.2 * random.abs()
    return 0.1 * random
