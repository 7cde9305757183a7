"""Writes published_logits/NAME.json: the logits of an official implementation on seeded weights and pixels.

    git clone https://github.com/microsoft/CSWin-Transformer /tmp/cswin
    python tests/model_zoo/data/store_published_logits.py /tmp/cswin cswin_tiny_224 cswin_base_224

Needs what the official code imports (timm, einops). Its code stays where it is: nothing of it is copied here. A further
family is a function that builds its model and a line in MODELS.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import pathlib
import subprocess
import sys
from collections.abc import Callable

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import published_logits

EVERY = 5


def cswin(function: str) -> torch.nn.Module:
    return getattr(importlib.import_module("models.cswin"), function)()


@dataclasses.dataclass
class Official:
    repository: str
    build: Callable[[], torch.nn.Module]  # with the checkout on sys.path
    side: int = 224
    images: int = 2


CSWIN = "microsoft/CSWin-Transformer"
MODELS = {
    "cswin_tiny_224": Official(CSWIN, lambda: cswin("CSWin_64_12211_tiny_224")),
    "cswin_base_224": Official(
        CSWIN, lambda: cswin("CSWin_96_24322_base_224"), images=1
    ),
}


@torch.inference_mode()
def store(name: str, checkout: pathlib.Path) -> None:
    official = MODELS[name]
    model = published_logits.fill(official.build())
    pixels = published_logits.seeded_pixels(name, official.images, official.side)
    fp32 = model(pixels)[:, ::EVERY]
    bf16 = model.bfloat16()(pixels.bfloat16())[:, ::EVERY].float()
    commit = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    published_logits.PublishedLogits(
        repository=official.repository,
        commit=commit,
        torch=torch.__version__,
        side=official.side,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        every=EVERY,
        fp32=fp32.tolist(),
        bf16_error=((bf16 - fp32).abs().max() / fp32.std()).item(),
        tensors=published_logits.floating_shapes(model),
    ).save(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path, help="of the official code")
    parser.add_argument("names", nargs="+", choices=MODELS, metavar="NAME")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.checkout))
    for name in arguments.names:
        store(name, arguments.checkout)


if __name__ == "__main__":
    main()
