"""The published models that `make bench-models` compares with, in PyTorch, by the names of the zoo."""

from __future__ import annotations

import pathlib
import sys

import timm
import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "model_zoo"))
from plain_attention import Places, PlainAttention, plain_swin
from plain_linglo import VARIANTS, LinGlo

SIDE = 224


class CutAewin(torch.nn.Module):
    """AEWin's attention cut into rows, columns and windows, as one would write it to be fast: its definition looks at all
    places of the map. For maps that windows divide."""

    def __init__(self, definition: PlainAttention) -> None:
        super().__init__()
        self.heads, self.shift = definition.heads, definition.shift
        self.window, (height, width) = definition.window, definition.size
        self.qkv, self.proj = definition.qkv, definition.proj
        with torch.no_grad():
            places = Places(height, width, self.window)
            (bias,) = definition.aewin(places)  # [heads, places, places]
            index = torch.arange(height * width).view(height, width)
            quarter = self.heads // 4
            row, column = index[0], index[:, 0]
            windows = self.cut(index[None, None, ..., None])[0, 0, ..., 0]
            self.register_buffer("row_bias", bias[:quarter, row][..., row][:, None])
            columns = bias[quarter : 2 * quarter, column][..., column]
            self.register_buffer("column_bias", columns[:, None])
            of_windows = bias[2 * quarter :, windows[:, :, None], windows[:, None]]
            self.register_buffer("window_bias", of_windows.contiguous())

    def cut(self, map: torch.Tensor) -> torch.Tensor:
        """[B, heads, height, width, D] -> [B, heads, windows, places of a window, D], rolled by the shift."""
        side = self.window
        rolled = torch.roll(map, (-self.shift, -self.shift), (2, 3))
        parts = rolled.unflatten(3, (-1, side)).unflatten(2, (-1, side))
        return parts.transpose(3, 4).flatten(4, 5).flatten(2, 3)

    def join(self, cut: torch.Tensor, height: int, width: int) -> torch.Tensor:
        side = self.window
        parts = cut.unflatten(3, (side, side)).unflatten(2, (-1, width // side))
        map = parts.transpose(3, 4).flatten(4, 5).flatten(2, 3)
        return torch.roll(map, (self.shift, self.shift), (2, 3))

    def forward(self, map: torch.Tensor) -> torch.Tensor:
        batch, height, width, _ = map.shape
        qkv = self.qkv(map).view(batch, height, width, 3, self.heads, -1)
        qkv = qkv.permute(3, 0, 4, 1, 2, 5)
        quarter = self.heads // 4
        rows, columns, windows = qkv.split([quarter, quarter, 2 * quarter], 2)
        attend = functional.scaled_dot_product_attention
        dtype = map.dtype
        by_rows = attend(*rows, attn_mask=self.row_bias.to(dtype))
        by_columns = attend(
            *columns.transpose(3, 4), attn_mask=self.column_bias.to(dtype)
        ).transpose(2, 3)
        by_windows = self.join(
            attend(
                *(self.cut(part) for part in windows),
                attn_mask=self.window_bias.to(dtype),
            ),
            height,
            width,
        )
        mixed = torch.cat([by_rows, by_columns, by_windows], 1)
        return self.proj(mixed.permute(0, 2, 3, 1, 4).reshape(map.shape))


def cut_aewin() -> torch.nn.Module:
    """AEWin-T."""
    model = plain_swin(
        "aewin", SIDE, num_heads=(4, 8, 16, 32), embed_dim=64, depths=(1, 2, 21, 1)
    )
    for stage in model.layers:
        for block in stage.blocks:
            block.attn = CutAewin(block.attn)
            block._attn = block.attn.forward
    return model


def published(name: str) -> torch.nn.Module:
    """timm's model of that name, or a definition of our own where none was published."""
    torch.manual_seed(1)
    if name.startswith("linglo_"):
        return LinGlo(VARIANTS[name]).eval()
    if name == "aewin_tiny_224":
        return cut_aewin().eval()
    return timm.create_model(name).eval()


def pixels(batch: int, seed: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(batch if seed is None else seed)
    return torch.randn(batch, 3, SIDE, SIDE, generator=generator)
