"""Writes published_logits/NAME.json: the logits of an official implementation on seeded weights and pixels.

    git clone https://github.com/microsoft/CSWin-Transformer /tmp/cswin
    python tests/model_zoo/data/store_published_logits.py /tmp/cswin cswin_tiny_224 cswin_base_224

Needs a build, which parity.py loads (FOVEA_BUILD), and what the official code imports (timm, einops). Its code stays where
it is: nothing of it is copied here. A further model is an entry of MODELS.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import importlib
import pathlib
import subprocess
import sys
import types

import torch

sys.path[:0] = [str(folder) for folder in pathlib.Path(__file__).resolve().parents[1:3]]
from parity import distance
from published_knn import keep_largest
from published_logits import (
    AS_PUBLISHED,
    Case,
    PublishedLogits,
    seeded_pixels,
    seeded_weights,
)

SIDE = 224
EVERY = 5


@dataclasses.dataclass
class Official:
    repository: str
    module: str  # in the checkout
    function: str  # of the module, makes the model
    images: int = 1
    # Under the text of a k-NN attention for model.blocks[:].attn, how many of its keys a query keeps.
    kept_keys: dict[str, int] = dataclasses.field(default_factory=dict)


CSWIN = ("microsoft/CSWin-Transformer", "models.cswin")
MODELS = {
    "cswin_tiny_224": Official(*CSWIN, "CSWin_64_12211_tiny_224", images=2),
    "cswin_base_224": Official(*CSWIN, "CSWin_96_24322_base_224"),
    "t2t_vit_t_19": Official(
        "yitu-opensource/T2T-ViT",
        "models.t2t_vit",
        "t2t_vit_t_19",
        # KVT takes two thirds or four fifths of the keys in T2T-ViT.
        kept_keys={"knn:k=0.8": 158},
    ),
    # f0a3e56 is the last commit before the repository became that of SoT.
    "so_vit_7": Official(
        "jiangtaoxie/So-ViT", "src.so_vit", "So_vit_7", kept_keys={"knn:k=0.5": 99}
    ),
}


def official_model(official: Official, checkout: pathlib.Path) -> torch.nn.Module:
    # Without the package's __init__, which may import variants that a present timm cannot run.
    package = types.ModuleType(official.module.split(".")[0])
    package.__path__ = [str(checkout / package.__name__)]
    sys.modules[package.__name__] = package
    # So-ViT imports it for other stems, and a present timm no longer has it under that name.
    inception = types.ModuleType("timm.models.inception_resnet_v2")
    inception.BasicConv2d = torch.nn.Module
    sys.modules[inception.__name__] = inception
    return getattr(importlib.import_module(official.module), official.function)().eval()


def floating_shapes(model: torch.nn.Module) -> dict[str, list[int]]:
    """Names and shapes of the weights of a model, without counters and index tables."""
    return {
        name: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point()
    }


def knn_forward(attention: torch.nn.Module, x: torch.Tensor, k: int) -> torch.Tensor:
    """The forward pass of an attention that is written as timm's of 2021 was, with the k largest logits of a row."""
    batch, tokens, channels = x.shape
    query, key, value = (
        attention.qkv(x)
        .reshape(batch, tokens, 3, attention.num_heads, -1)
        .permute(2, 0, 3, 1, 4)
    )
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = (query.to(wide) @ key.to(wide).mT) * attention.scale
    mixed = keep_largest(logits, k).softmax(-1).to(value.dtype) @ value
    return attention.proj(mixed.transpose(1, 2).reshape(batch, tokens, channels))


@torch.inference_mode()
def stored_classes(
    model: torch.nn.Module, pixels: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    torch.set_default_dtype(dtype)  # of the tensors that a model makes on its way
    logits = copy.deepcopy(model).to(dtype)(pixels.to(dtype))
    torch.set_default_dtype(torch.float32)
    return logits[:, ::EVERY].float()


def steady_case(name: str, model: torch.nn.Module, images: int) -> Case:
    """The first seed whose logits are the same in fp32 and fp64.

    k-NN attention jumps where two of a row's logits nearly tie: pixels where that matters would say nothing.
    """
    for seed in range(20):
        pixels = seeded_pixels(name, seed, images, SIDE)
        single, exact, half = (
            stored_classes(model, pixels, dtype)
            for dtype in (torch.float32, torch.float64, torch.bfloat16)
        )
        if distance(single, exact) < 2e-5:
            return Case(
                seed=seed,
                logits=[
                    [float(f"{number:.6g}") for number in row]
                    for row in single.tolist()
                ],
                bf16_error=float(f"{distance(half, single):.3g}"),
            )
    raise RuntimeError("no pixels give steady logits")


def published_logits(name: str, checkout: pathlib.Path) -> PublishedLogits:
    official = MODELS[name]
    model = official_model(official, checkout)
    shapes = floating_shapes(model)
    model.load_state_dict(seeded_weights(shapes), strict=False)
    cases = {AS_PUBLISHED: steady_case(name, model, official.images)}
    for text, k in official.kept_keys.items():
        for block in model.blocks:
            block.attn.forward = functools.partial(knn_forward, block.attn, k=k)
        cases[text] = steady_case(name, model, official.images)
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return PublishedLogits(
        repository=official.repository,
        commit=commit,
        torch=torch.__version__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        side=SIDE,
        every=EVERY,
        cases=cases,
        shapes=shapes,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path, help="of the official code")
    parser.add_argument("names", nargs="+", choices=MODELS, metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names:
        published_logits(name, arguments.checkout).save(name)


if __name__ == "__main__":
    main()
