"""Pale Transformer against a second implementation in plain PyTorch: its code was never released."""

from __future__ import annotations

import pathlib

import pytest
import torch
from parity import (
    Pair,
    Record,
    check_features,
    check_logits,
    distance,
    facts_of,
    perturbed,
)
from plain_attention import PlainAttention
from torch import nn

VARIANTS = {
    "pale_tiny_224": (64, (2, 4, 8, 16)),
    "pale_base_224": (128, (4, 8, 16, 32)),
}
PAPER = {"pale_tiny_224": 22, "pale_base_224": 85}  # millions of parameters
DEPTHS = (2, 2, 16, 2)


def depth_wise(channels: int, bias: bool) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=bias)


def on_channels_first(layer: nn.Module, map: torch.Tensor) -> torch.Tensor:
    return layer(map.movedim(-1, 1)).movedim(1, -1)


class Attention(PlainAttention):
    """Pale-shaped attention whose projections are separable convolutions."""

    def __init__(self, channels: int, heads: int, side: int) -> None:
        super().__init__("pale", channels, heads, (side, side), window=7, block=0)
        del self.qkv
        for letter in "qkv":
            convolution = nn.Sequential()
            convolution.add_module("conv", depth_wise(channels, bias=False))
            convolution.add_module("bn", nn.BatchNorm2d(channels))
            self.add_module(f"conv_proj_{letter}", convolution)
            self.add_module(f"proj_{letter}", nn.Linear(channels, channels))

    def project(self, map: torch.Tensor) -> torch.Tensor:
        parts = [
            getattr(self, f"proj_{letter}")(
                on_channels_first(getattr(self, f"conv_proj_{letter}"), map)
            )
            for letter in "qkv"
        ]
        return torch.cat(parts, -1)


class Mlp(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, 4 * channels)
        self.fc2 = nn.Linear(4 * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class Inner(nn.Module):
    def __init__(self, channels: int, heads: int, side: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn = Attention(channels, heads, side)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = Mlp(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Block(nn.Module):
    def __init__(self, channels: int, heads: int, side: int) -> None:
        super().__init__()
        self.cpe = depth_wise(channels, bias=True)
        self.block = Inner(channels, heads, side)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x + on_channels_first(self.cpe, x))


class Embed(nn.Module):
    def __init__(self, channels: int, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.conv = convolution
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(on_channels_first(self.conv, x))


class Stage(nn.Sequential):
    def __init__(
        self, embed: Embed, depth: int, channels: int, heads: int, side: int
    ) -> None:
        super().__init__()
        self.add_module("embed", embed)
        for i in range(depth):
            self.add_module(str(i), Block(channels, heads, side))


class Pale(nn.Module):
    def __init__(self, channels: int, heads: tuple[int, ...], side: int = 224) -> None:
        super().__init__()
        convolution = nn.Conv2d(3, channels, 7, stride=4, padding=2)
        for i in range(4):
            stage = Stage(
                Embed(channels, convolution),
                DEPTHS[i],
                channels,
                heads[i],
                side >> (2 + i),
            )
            self.add_module(f"stage{i + 1}", stage)
            convolution = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
            channels *= 2
        self.norm = nn.LayerNorm(channels // 2)
        self.head = nn.Linear(channels // 2, 1000)

    def maps(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        maps = [pixels.movedim(1, -1)]
        for i in range(4):
            maps.append(getattr(self, f"stage{i + 1}")(maps[-1]))
        return maps[1:]

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.maps(pixels)[-1]).mean((1, 2)))


def pale_tiny(folder: pathlib.Path, side: int = 224) -> Pair:
    torch.manual_seed(1)
    name = "pale_tiny_224"
    plain = perturbed(Pale(*VARIANTS[name], side=side), name)
    return Pair(name, plain, folder, images=1, side=side)


def test_logits_are_the_definitions(
    tmp_path: pathlib.Path, record_property: Record
) -> None:
    check_logits(pale_tiny(tmp_path), record_property)


def test_another_input_size_pads_the_pales_and_a_core_stands_in_them(
    tmp_path: pathlib.Path,
) -> None:
    """128 pixels: maps of 32, 16, 8 and 4 tokens. k-NN attention that keeps every key is dense attention."""
    pair = pale_tiny(tmp_path, side=128)
    size = {"image_height": 128, "image_width": 128}
    expected = pair.expected()
    assert distance(pair.ours(**size), expected) <= 1e-4
    assert distance(pair.ours(attention="knn:k=1.0", **size), expected) <= 1e-4
    assert distance(pair.ours(attention="knn:k=5", **size), expected) > 1e-3
    with torch.inference_mode():
        maps = pair.published.maps(pair.pixels)
    check_features(pair, [map.movedim(-1, 1) for map in maps], **size)


def test_logits_of_the_larger_one_are_the_definitions(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(1)
    name, side = "pale_base_224", 128
    plain = perturbed(Pale(*VARIANTS[name], side=side), name)
    pair = Pair(name, plain, tmp_path, images=1, side=side)
    ours = pair.ours(image_height=side, image_width=side)
    assert distance(ours, pair.expected()) <= 1e-4


@pytest.mark.parametrize("name", VARIANTS)
def test_parameters_round_to_the_papers(name: str) -> None:
    with torch.device("meta"):
        plain = sum(p.numel() for p in Pale(*VARIANTS[name]).parameters())
    facts = facts_of(backbone=name, random_weights_seed=0)
    print(
        f"{name}: {facts['parameters'] / 1e6:.2f} M parameters, paper {PAPER[name]} M"
    )
    assert facts["parameters"] == plain
    assert round(plain / 1e6) == PAPER[name]
    assert facts["attention"] == "pale"
