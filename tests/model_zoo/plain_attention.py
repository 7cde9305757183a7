"""Attention within windows of a map as it is defined: over all of the map's places, with -inf where two do not meet.

For models that were published without code. Nothing is cut, rolled or interlaced here: a place is a row and a column, and
each kind of attention says which places meet.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.models.swin_transformer import SwinTransformer


class Places:
    """Rows and columns of the places of a map, padded so that `window` divides it."""

    def __init__(self, height: int, width: int, window: int) -> None:
        self.real_height, self.real_width = height, width
        self.height = -(-height // window) * window
        self.width = -(-width // window) * window
        self.rows = torch.arange(self.height).repeat_interleave(self.width)
        self.columns = torch.arange(self.width).repeat(self.height)

    def real(self) -> torch.Tensor:
        return (self.rows < self.real_height) & (self.columns < self.real_width)

    def padded(self, tokens: torch.Tensor) -> torch.Tensor:
        """[B, H, W, C] of the map itself -> of the padded one."""
        bottom, right = self.height - self.real_height, self.width - self.real_width
        return F.pad(tokens, (0, 0, 0, right, 0, bottom))

    def cropped(self, tokens: torch.Tensor) -> torch.Tensor:
        """And back, from [B, places, C]."""
        map = tokens.unflatten(1, (self.height, self.width))
        return map[:, : self.real_height, : self.real_width]


def same(line: torch.Tensor) -> torch.Tensor:
    return line[:, None] == line[None, :]


def distance(line: torch.Tensor) -> torch.Tensor:
    return line[:, None] - line[None, :]


def never(visible: torch.Tensor) -> torch.Tensor:
    return torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))


class PlainAttention(torch.nn.Module):
    """One of the attentions that the AEWin paper compares, on maps [B, height, width, channels]."""

    def __init__(
        self,
        kind: str,
        channels: int,
        heads: int,
        size: tuple[int, int],
        window: int,
        block: int,
    ) -> None:
        super().__init__()
        self.kind, self.heads, self.size = kind, heads, size
        self.window = min(window, *size)
        self.shift = (
            self.window // 2 if block % 2 == 1 and self.window < min(size) else 0
        )
        self.qkv = torch.nn.Linear(channels, 3 * channels)
        self.proj = torch.nn.Linear(channels, channels)
        if kind == "aewin":
            height, width = size
            self.bias_rows = self.table(2 * width - 1, heads // 4)
            self.bias_columns = self.table(2 * height - 1, heads // 4)
            self.bias_window = self.table((2 * self.window - 1) ** 2, heads // 2)

    @staticmethod
    def table(distances: int, heads: int) -> torch.nn.Parameter:
        return torch.nn.Parameter(torch.randn(distances, heads))

    def forward(self, map: torch.Tensor) -> torch.Tensor:
        whole_lines = self.kind in ("axial", "criss_cross")
        places = Places(*self.size, window=1 if whole_lines else self.window)
        projected = self.project(places.padded(map)).flatten(1, 2)
        query, key, value = projected.unflatten(2, (3, self.heads, -1)).permute(
            2, 0, 3, 1, 4
        )
        for bias in getattr(self, self.kind)(places):
            value = F.scaled_dot_product_attention(
                query, key, value, attn_mask=bias.to(query.dtype)
            )
        return self.proj(places.cropped(value.transpose(1, 2).flatten(2)))

    def project(self, map: torch.Tensor) -> torch.Tensor:
        """[B, height, width, C] -> [B, height, width, 3C]: queries, keys, values."""
        return self.qkv(map)

    # What the logits are given, [heads or 1, places, places]; in turn where there are several.

    def axial(self, places: Places) -> list[torch.Tensor]:
        return [never(same(places.rows))[None], never(same(places.columns))[None]]

    def criss_cross(self, places: Places) -> list[torch.Tensor]:
        return [never(same(places.rows) | same(places.columns))[None]]

    def halves(self, rows: torch.Tensor, columns: torch.Tensor) -> list[torch.Tensor]:
        half = self.heads // 2
        groups = [never(same(rows)), never(same(columns))]
        return [torch.stack(groups).repeat_interleave(half, dim=0)]

    def cross_shaped(self, places: Places) -> list[torch.Tensor]:
        return self.halves(places.rows // self.window, places.columns // self.window)

    def pale(self, places: Places) -> list[torch.Tensor]:
        return self.halves(
            places.rows % (places.height // self.window),
            places.columns % (places.width // self.window),
        )

    def aewin(self, places: Places) -> list[torch.Tensor]:
        down, right = distance(places.rows), distance(places.columns)
        real = places.real()
        # A padded place sees itself, so that its softmax, which nobody reads, is a number.
        on_map = real[:, None] & real[None, :] | torch.eye(len(real), dtype=torch.bool)

        def learned(
            table: torch.Tensor, index: torch.Tensor, meet: torch.Tensor
        ) -> torch.Tensor:
            biases = table[torch.where(meet, index, 0)].permute(2, 0, 1).float()
            return biases + never(meet)

        def part(line: torch.Tensor, size: int) -> torch.Tensor:
            """The window of a line once the map is rolled, by itself where it was rolled around."""
            window = (line - self.shift) % size // self.window
            return 2 * window + (line < self.shift)

        height, width = self.size
        rows = (right + width - 1).clamp(0, 2 * width - 2)
        columns = (down + height - 1).clamp(0, 2 * height - 2)
        side = 2 * self.window - 1
        meet = same(part(places.rows, places.height))
        meet &= same(part(places.columns, places.width))
        window = (down + self.window - 1) * side + right + self.window - 1
        biases = [
            learned(self.bias_rows, rows, same(places.rows) & on_map),
            learned(self.bias_columns, columns, same(places.columns) & on_map),
            learned(self.bias_window, window, meet),
        ]
        return [torch.cat(biases)]


def plain_swin(kind: str, side: int = 224, **options: object) -> SwinTransformer:
    """timm's Swin with another attention; its own where `kind` is "shifted_window"."""
    model = SwinTransformer(img_size=side, strict_img_size=False, **options)
    if kind == "shifted_window":
        return model
    for stage in model.layers:
        for i, block in enumerate(stage.blocks):
            block.attn = PlainAttention(
                kind, block.dim, block.attn.num_heads, block.input_resolution, 7, i
            )
            block._attn = block.attn.forward
            block.attn_mask = None
    return model
