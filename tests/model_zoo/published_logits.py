"""Parity with official code that is not installed: its logits, stored, on weights that anyone can make again.

data/store_published_logits.py runs the official model once and writes data/published_logits/NAME.json: the names and
shapes of its weights, its logits, and what they were made with. A test fills a model of the zoo with the same numbers under
the same names and compares.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import zlib
from collections.abc import Mapping, Sequence

import numpy
import torch

FOLDER = pathlib.Path(__file__).parent / "data" / "published_logits"


def random_numbers(key: str, shape: Sequence[int]) -> torch.Tensor:
    """Standard normal, fp32: numpy has frozen the stream of RandomState, so they are the same everywhere."""
    random = numpy.random.RandomState(zlib.crc32(key.encode()))
    numbers = random.standard_normal(tuple(shape)).astype(numpy.float32)
    return torch.from_numpy(numbers)


def seeded_tensor(name: str, shape: Sequence[int]) -> torch.Tensor:
    """What a parameter or buffer of this name holds: of a size at which activations neither grow nor vanish."""
    random = random_numbers(name, shape)
    if len(shape) > 1:
        return random / math.sqrt(math.prod(shape[1:]))
    if name.endswith(("weight", "running_var")):
        return 1 + 0.2 * random.abs()
    return 0.1 * random


def seeded_weights(shapes: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
    return {name: seeded_tensor(name, shape) for name, shape in shapes.items()}


def seeded_pixels(name: str, images: int, side: int) -> torch.Tensor:
    return random_numbers(f"pixels of {name}", (images, 3, side, side))


def floating_shapes(model: torch.nn.Module) -> dict[str, list[int]]:
    """Names and shapes of the weights of a model, without counters and index tables."""
    return {
        name: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point()
    }


def fill(model: torch.nn.Module) -> torch.nn.Module:
    """The model with seeded weights, for inference."""
    weights = seeded_weights(floating_shapes(model))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert not set(missing) & set(weights)
    return model.eval()


@dataclasses.dataclass
class PublishedLogits:
    """What the official model was and said."""

    repository: str
    commit: str  # of the official repository
    torch: str  # the version of PyTorch that computed the logits
    side: int  # pixels
    parameters: int  # learned numbers of the official model
    every: int  # of its logits, only each so-manieth class is stored
    fp32: list[list[float]]  # [images][stored classes]
    bf16_error: float  # of the official model in bf16: max|difference| from fp32 over fp32's deviation
    tensors: dict[str, list[int]]  # names and shapes of its weights

    @classmethod
    def load(cls, name: str) -> PublishedLogits:
        return cls(**json.loads((FOLDER / f"{name}.json").read_text()))

    def save(self, name: str) -> None:
        fields = dataclasses.asdict(self)
        lines = []
        for key, value in fields.items():
            if key == "fp32":
                rows = [
                    ", ".join(f"{number:.6g}" for number in row) for row in self.fp32
                ]
                text = (
                    "[\n" + ",\n".join(f"    [{_wrapped(row)}]" for row in rows) + "]"
                )
            elif key == "tensors":
                entries = [
                    f"    {json.dumps(tensor)}: {json.dumps(shape)}"
                    for tensor, shape in value.items()
                ]
                text = "{\n" + ",\n".join(entries) + "}"
            else:
                text = json.dumps(value)
            lines.append(f"  {json.dumps(key)}: {text}")
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _wrapped(row: str, per_line: int = 10) -> str:
    numbers = row.split(", ")
    lines = [
        ", ".join(numbers[i : i + per_line]) for i in range(0, len(numbers), per_line)
    ]
    return ",\n     ".join(lines)
