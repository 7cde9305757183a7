"""The published models that `make bench-models` compares with, in PyTorch, by the names of the zoo."""

from __future__ import annotations

import pathlib
import sys

import timm
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "model_zoo"))
from plain_attention import plain_swin
from plain_linglo import VARIANTS, LinGlo

SIDE = 224


def published(name: str) -> torch.nn.Module:
    """timm's model of that name, or the definition that the parity tests compare ours with where none was published."""
    torch.manual_seed(1)
    if name.startswith("linglo_"):
        return LinGlo(VARIANTS[name]).eval()
    if name == "aewin_tiny_224":
        return plain_swin(
            "aewin",
            SIDE,
            num_heads=(4, 8, 16, 32),
            embed_dim=64,
            depths=(1, 2, 21, 1),
        ).eval()
    return timm.create_model(name).eval()


def pixels(batch: int) -> torch.Tensor:
    return torch.randn(
        batch, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(batch)
    )
