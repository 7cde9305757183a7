"""Logits that an official repository's own code gave once, for weights and pixels that anyone can make again.

Nothing of the repository is stored but what its model is: the names and shapes of its weights. The scripts in data/ write
the files, the tests read them.
"""

from __future__ import annotations

import functools
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


def official_logits(
    model: torch.nn.Module, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """In fp32, fp64 and bf16."""
    outputs = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        load(model)
        torch.set_default_dtype(dtype)  # of the tensors that a model makes on its way
        with torch.inference_mode():
            output = model.to(dtype)(seeded_pixels(seed).to(dtype))
        torch.set_default_dtype(torch.float32)
        outputs.append(output.float())
    return tuple(outputs)


def load(model: torch.nn.Module) -> None:
    weights = seeded_weights(shapes_of(model))
    missing, unexpected = model.float().load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)


def knn_forward(self: torch.nn.Module, x: torch.Tensor, k: int) -> torch.Tensor:
    """The forward pass of an attention that is written as timm's of 2021 was, with the k largest logits of a row."""
    batch, tokens, channels = x.shape
    query, key, value = (
        self.qkv(x).reshape(batch, tokens, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
    )
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = (query.to(wide) @ key.to(wide).mT) * self.scale
    chosen = logits.topk(k, dim=-1).indices
    logits = torch.full_like(logits, float("-inf")).scatter(
        -1, chosen, logits.gather(-1, chosen)
    )
    mixed = logits.softmax(-1).to(value.dtype) @ value
    return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, channels))


def steady_case(model: torch.nn.Module) -> dict[str, object]:
    """The first seed whose logits are the same in fp32 and fp64, these to six digits, and the model's own bf16 error.

    k-NN attention jumps where two of a row's logits nearly tie: pixels where that matters would say nothing.
    """
    for seed in range(20):
        single, exact, half = official_logits(model, seed)
        if distance(single, exact) < 2e-5:
            return {
                "pixels_seed": seed,
                "bf16_error_over_std": float(f"{distance(half, single):.3g}"),
                "logits": [float(f"{number:.6g}") for number in single[0].tolist()],
            }
    raise RuntimeError("no pixels give steady logits")


def store(
    name: str,
    model: torch.nn.Module,
    cases: dict[str, tuple[type, int] | None],
    **facts: object,
) -> None:
    """`cases`: under the text of each attention the published class that it replaces and how many keys it keeps."""
    model.eval()
    facts |= {
        "torch": torch.__version__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "shapes": shapes_of(model),
    }
    for text, replaced in cases.items():
        if replaced is not None:
            attention, k = replaced
            attention.forward = functools.partialmethod(knn_forward, k=k)
        facts[text] = steady_case(model)
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [f'"{key}": {json.dumps(value)}' for key, value in facts.items()]
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


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
