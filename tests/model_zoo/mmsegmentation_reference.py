"""SemanticFPN as mmsegmentation 1 has it (fpn_r50), in plain PyTorch: a second implementation, written apart from the zoo's,
with the package's parameter names; test_published_heads.py compares it with what the package gave."""

from __future__ import annotations

import re

import torch
from torch import nn
from torch.nn import functional


class Convolution(nn.Sequential):
    """ConvModule."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(self.conv(x)).relu()


class Plain(nn.Module):
    """ConvModule without a norm: its parameters lie below "conv"."""

    def __init__(self, *arguments: int, padding: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(*arguments, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class Neck(nn.Module):
    """FPN."""

    def __init__(self, inputs: list[int], channels: int) -> None:
        super().__init__()
        self.lateral_convs = nn.ModuleList(Plain(c, channels, 1) for c in inputs)
        self.fpn_convs = nn.ModuleList(
            Plain(channels, channels, 3, padding=1) for _ in inputs
        )

    def forward(self, maps: list[torch.Tensor]) -> list[torch.Tensor]:
        sums = [inner(x) for inner, x in zip(self.lateral_convs, maps, strict=True)]
        for i in reversed(range(1, len(sums))):
            sums[i - 1] = sums[i - 1] + functional.interpolate(
                sums[i], sums[i - 1].shape[2:]
            )
        return [outer(x) for outer, x in zip(self.fpn_convs, sums, strict=True)]


class FpnHead(nn.Module):
    """FPNHead: Kirillov et al., CVPR 2019, figure 3, with batch norms."""

    def __init__(self, maps: int, classes: int, channels: int) -> None:
        super().__init__()
        self.scale_heads = nn.ModuleList()
        for level in range(maps):
            layers: list[nn.Module] = []
            for i in range(max(1, level)):
                inputs = channels // 2 if i else channels
                layers.append(Convolution(inputs, channels // 2))
                if level:
                    layers.append(nn.Upsample(scale_factor=2, mode="bilinear"))
            self.scale_heads.append(nn.Sequential(*layers))
        self.conv_seg = nn.Conv2d(channels // 2, classes, 1)

    def forward(self, pyramid: list[torch.Tensor]) -> torch.Tensor:
        parts = [head(x) for head, x in zip(self.scale_heads, pyramid, strict=True)]
        size = parts[0].shape[2:]
        total = sum(
            functional.interpolate(part, size, mode="bilinear", align_corners=False)
            for part in parts
        )
        return self.conv_seg(total)


class SemanticFpn(nn.Module):
    """Behind a backbone's maps; `channels`: of the pyramid, of which half go on."""

    def __init__(self, inputs: list[int], classes: int, channels: int = 256) -> None:
        super().__init__()
        self.neck = Neck(inputs, channels)
        self.decode_head = FpnHead(len(inputs), classes, channels)

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        return self.decode_head(self.neck(maps))


def own_name(name: str) -> str:
    """The zoo's name."""
    name = re.sub(
        r"^neck\.lateral_convs\.(\d)\.conv\.", r"fpn.inner_blocks.\1.0.", name
    )
    name = re.sub(r"^neck\.fpn_convs\.(\d)\.conv\.", r"fpn.layer_blocks.\1.0.", name)
    return "head." + name.removeprefix("decode_head.")
