"""LinGlo in plain PyTorch, written here from the paper's equations: none was published."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Variant:
    channels: tuple[int, ...] = (32, 64, 160, 256)
    depths: tuple[int, ...] = (2, 3, 3, 2)
    heads: tuple[int, ...] = (1, 2, 5, 8)
    ratios: tuple[int, ...] = (8, 8, 4, 4)
    kernels: tuple[int, ...] = (7, 3, 3, 3)
    strides: tuple[int, ...] = (4, 2, 2, 2)
    paddings: tuple[int, ...] = (3, 1, 1, 1)
    branches: int = 4
    skip: bool = True
    convolutional: int = 0


PATCHES = {"paddings": (0, 0, 0, 0), "branches": 0}
VARIANTS = {
    "linglo_b0": Variant(),
    "linglo_b0_cpe": Variant(branches=1, skip=False),
    "linglo_b0_r_cpe": Variant(branches=1),
    "linglo_b0_p_cpe": Variant(skip=False),
    "linglo_b0_chhh": Variant(convolutional=1),
    "linglo_b0_cchh": Variant(convolutional=2),
    "linglo_b0_wo_c": Variant(kernels=(4, 2, 2, 2), **PATCHES),
    "linglo_wo_ch": Variant(
        channels=(150,) * 4,
        heads=(3,) * 4,
        kernels=(16, 0, 0, 0),
        strides=(16, 1, 1, 1),
        **PATCHES,
    ),
    "linglo_b1": Variant(channels=(64, 128, 320, 512)),
    "linglo_b2": Variant(channels=(64, 128, 320, 512), depths=(3, 5, 9, 3)),
}


class KeyOnly(nn.Module):
    """Equations 2 to 4, per head."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.saliency = nn.Parameter(torch.randn(heads, channels // heads))
        self.u1 = nn.Linear(channels, channels)
        self.u2 = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads, dim = self.saliency.shape
        key = self.k(x).unflatten(-1, (heads, dim))
        value = self.v(x).unflatten(-1, (heads, dim))
        attention = ((key * self.saliency).sum(-1) / dim**0.5).softmax(1)
        context = (attention[..., None] * key).sum(1)
        gated = context[:, None] * value
        return self.u2(self.u1(gated.flatten(2)) + key.flatten(2))


class DotProduct(nn.Module):
    """What figure 4 puts in its place."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        weights = (query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5).softmax(-1)
        return self.proj((weights @ value).transpose(1, 2).flatten(2))


class Encoding(nn.Module):
    """Figure 2: parallel depth-wise convolutions, with or without a skip connection."""

    def __init__(self, channels: int, branches: int, skip: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(branches, channels, 3, 3) / 6)
        self.bias = nn.Parameter(torch.zeros(branches, channels))
        self.skip = skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x if self.skip else 0
        for weight, bias in zip(self.weight, self.bias):
            total = total + functional.conv2d(
                x, weight[:, None], bias, padding=1, groups=x.shape[1]
            )
        return total


class Mlp(nn.Module):
    def __init__(self, channels: int, ratio: int, variant: Variant) -> None:
        super().__init__()
        hidden = channels * ratio
        self.fc1 = nn.Linear(channels, hidden)
        if variant.branches:
            self.pe = Encoding(hidden, variant.branches, variant.skip)
        self.fc2 = nn.Linear(hidden, channels)

    def forward(self, x: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        x = self.fc1(x)
        if hasattr(self, "pe"):
            x = (
                self.pe(x.transpose(-2, -1).unflatten(2, size))
                .flatten(2)
                .transpose(-2, -1)
            )
        return self.fc2(functional.gelu(x))


class Encoder(nn.Module):
    def __init__(
        self,
        channels: int,
        heads: int,
        ratio: int,
        variant: Variant,
        attention: type[nn.Module],
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels, eps=1e-6)
        self.attn = attention(channels, heads)
        self.norm2 = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = Mlp(channels, ratio, variant)

    def forward(self, x: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x), size)


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // 16)
        self.fc2 = nn.Linear(channels // 16, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.fc2(functional.relu(self.fc1(x.mean(1))))
        return x * torch.sigmoid(gate)[:, None]


class Convolutional(nn.Module):
    def __init__(self, channels: int, ratio: int, variant: Variant) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = Mlp(channels, ratio, variant)
        self.se = SqueezeExcitation(channels)

    def forward(self, x: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        return x + self.se(self.mlp(self.norm(x), size))


class Stage(nn.Module):
    def __init__(
        self, variant: Variant, i: int, side: int, attention: type[nn.Module]
    ) -> None:
        super().__init__()
        channels = variant.channels[i]
        if variant.strides[i] > 1:
            self.downsample = nn.ModuleDict(
                {
                    "proj": nn.Conv2d(
                        variant.channels[i - 1] if i else 3,
                        channels,
                        variant.kernels[i],
                        variant.strides[i],
                        variant.paddings[i],
                    ),
                    "norm": nn.LayerNorm(channels, eps=1e-6),
                }
            )
            if not variant.branches:
                self.pos_embed = nn.Parameter(torch.randn(1, side * side, channels))
        self.blocks = nn.ModuleList(
            Convolutional(channels, variant.ratios[i], variant)
            if i < variant.convolutional
            else Encoder(
                channels, variant.heads[i], variant.ratios[i], variant, attention
            )
            for _ in range(variant.depths[i])
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "downsample"):
            x = self.downsample["proj"](x)
        size = x.shape[2:]
        x = x.flatten(2).transpose(-2, -1)
        if hasattr(self, "downsample"):
            x = self.downsample["norm"](x)
        if hasattr(self, "pos_embed"):
            x = x + self.pos_embed
        for block in self.blocks:
            x = block(x, size)
        return x.transpose(-2, -1).unflatten(2, size)


class LinGlo(nn.Module):
    def __init__(
        self, variant: Variant, attention: type[nn.Module] = KeyOnly, side: int = 224
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        for i, stride in enumerate(variant.strides):
            side = -(-side // stride)
            self.stages.append(Stage(variant, i, side, attention))
        self.norm = nn.LayerNorm(variant.channels[-1], eps=1e-6)
        self.head = nn.Linear(variant.channels[-1], 1000)

    def maps(self, x: torch.Tensor) -> list[torch.Tensor]:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(
            self.norm(self.maps(x)[-1].flatten(2).transpose(-2, -1)).mean(1)
        )
