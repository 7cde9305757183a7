"""Logits that an official repository's own code gave once, for weights and pixels that anyone can make again.

Nothing of the repository is stored but what its model is: the names and shapes of its weights. The scripts in data/ write
the files, the tests read them.
"""

from __future__ import annotations

import json
import pathlib
import zlib
from collections.abc import Iterable

import numpy
import torch
from parity import Record, distance, save

FOLDER = pathlib.Path(__file__).parent / "data" / "published_logits"


def seeded_tensor(name: str, shape: Iterable[int]) -> torch.Tensor:
    """Numbers that follow from the tensor's name: of a size that keeps activations near one, and no norm the identity."""
    shape = tuple(shape)
    random = numpy.random.Generator(numpy.random.PCG64(zlib.crc32(name.encode())))
    if name.endswith("running_var"):
        numbers = random.uniform(0.5, 2, shape)
    elif len(shape) > 1:
        fan_in = numpy.prod(shape[1:])
        numbers = random.standard_normal(shape) / numpy.sqrt(fan_in)
    else:
        centre = 1 if name.endswith("weight") else 0
        numbers = centre + 0.1 * random.standard_normal(shape)
    return torch.from_numpy(numbers.astype(numpy.float32))


def seeded_weights(shapes: dict[str, Iterable[int]]) -> dict[str, torch.Tensor]:
    return {name: seeded_tensor(name, shape) for name, shape in shapes.items()}


def seeded_pixels(seed: int, side: int = 224) -> torch.Tensor:
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    numbers = random.standard_normal((1, 3, side, side))
    return torch.from_numpy(numbers.astype(numpy.float32))


def shapes_of(model: torch.nn.Module) -> dict[str, list[int]]:
    return {
        name: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def write(name: str, **facts: object) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [f'"{key}": {json.dumps(value)}' for key, value in facts.items()]
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def official_logits(
    model: torch.nn.Module, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """In fp32, fp64 and bf16."""
    pixels = seeded_pixels(seed)
    with torch.inference_mode():
        exact = model.double()(pixels.double()).float()
        model.float().load_state_dict(seeded_weights(shapes_of(model)), strict=False)
        single = model(pixels)
        half = model.bfloat16()(pixels.bfloat16()).float()
        model.float().load_state_dict(seeded_weights(shapes_of(model)), strict=False)
    return single, exact, half


def steady_logits(model: torch.nn.Module) -> tuple[int, torch.Tensor, float]:
    """The first seed whose logits are the same in fp32 and fp64, the logits, and the model's own bf16 error.

    k-NN attention jumps where two of a row's logits nearly tie: pixels where that matters would say nothing.
    """
    for seed in range(20):
        single, exact, half = official_logits(model, seed)
        if distance(single, exact) < 2e-5:
            return seed, single, distance(half, single)
    raise RuntimeError("no pixels give steady logits")


def check_against_stored(
    name: str, folder: pathlib.Path, record: Record, attention: str | None = None
) -> None:
    """Our logits, prepared and unprepared, and the number of parameters."""
    stored = json.loads((FOLDER / f"{name}.json").read_text())
    case = stored["dense" if attention is None else attention]
    weights = folder / "model.safetensors"
    save(seeded_weights(stored["shapes"]), weights)
    pixels = seeded_pixels(case["pixels_seed"])
    expected = torch.tensor([case["logits"]])

    def ours(*, prepared: bool = True, **options: object) -> torch.Tensor:
        description = {"backbone": name, "weights": str(weights), **options}
        if attention is not None:
            description["attention"] = attention
        model = torch.classes.fovea_models.Model(
            json.dumps(description), "cpu", prepared
        )
        assert json.loads(model.facts())["parameters"] == stored["parameters"]
        return model.run(pixels)[0]

    error = distance(ours(), expected)
    record("fp32_error_over_std", error)
    print(f"{name} {attention}: fp32 {error:.1e}")
    assert error <= 1e-4
    assert distance(ours(prepared=False), expected) <= 1e-4
    bf16_error = distance(ours(precision="BF16"), expected)
    published = case["bf16_error_over_std"]
    record("bf16_error_over_published", bf16_error / published)
    print(f"{name} {attention}: bf16 {bf16_error:.1e}, published {published:.1e}")
    assert bf16_error <= 2 * published
