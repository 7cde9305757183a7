"""Static keys in plain PyTorch, written from "Static Key Attention in Vision": the reference that tests compare with."""

from __future__ import annotations

import torch

F = torch.nn.functional


class StaticKeyAttention(torch.nn.Module):
    """Algorithm 1, scaled as the baseline of table 4. Takes tokens, or a map as convolutions do."""

    def __init__(self, dim: int, tokens: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.q = torch.nn.Linear(dim, dim, bias=bias)
        self.k = torch.nn.Parameter(torch.randn(heads, tokens, dim // heads))
        self.v = torch.nn.Linear(dim, dim, bias=bias)
        self.proj = torch.nn.Linear(dim, dim, bias=bias)

    def forward(self, x: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        if x.dim() == 4:
            return self(x.flatten(2).mT).mT.unflatten(2, x.shape[2:])
        query, value = (split(layer(x), self.heads) for layer in (self.q, self.v))
        logits = query @ self.k.mT * query.shape[-1] ** -0.5
        return self.proj(join(logits.softmax(-1) @ value))


class ConvStaticKeyAttention(torch.nn.Module):
    """Section 4.2 under the names of algorithm 2. A class token stands before the places of the map."""

    def __init__(
        self,
        dim: int,
        grid: tuple[int, int],
        heads: int,
        cls: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.grid, self.places = heads, grid, grid[0] * grid[1]
        self.to_qv = torch.nn.Linear(dim, 2 * dim, bias=False)
        self.to_k = torch.nn.Conv2d(
            dim, heads * self.places, kernel_size=3, padding=1, groups=heads
        )
        if cls:
            self.cls_k = torch.nn.Parameter(torch.randn(heads, 1, dim // heads))
        self.to_out = torch.nn.Sequential(
            torch.nn.Linear(dim, dim, bias=bias), torch.nn.Dropout(0.0)
        )

    def convolved(self, tokens: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
        """[B, grid's places, dim] -> logits [B, heads, grid's places, M]."""
        logits = self.to_k(tokens.mT.unflatten(2, grid))
        return logits.flatten(2).unflatten(1, (self.heads, self.places)).mT

    def forward(self, x: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        if x.dim() == 4:
            return self(x.flatten(2).mT).mT.unflatten(2, x.shape[2:])
        queries, values = self.to_qv(x).chunk(2, dim=-1)
        logits = self.convolved(queries[:, -self.places :], self.grid)
        query, value = split(queries, self.heads), split(values, self.heads)
        if hasattr(self, "cls_k"):
            logits = torch.cat([self.convolved(queries[:, :1], (1, 1)), logits], 2)
            logits = torch.cat([query @ self.cls_k.mT, logits], 3)
        weights = (logits * query.shape[-1] ** -0.5).softmax(-1)
        return self.to_out(join(weights @ value))


def split(tokens: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, N, C] -> [B, heads, N, C / heads]."""
    return tokens.unflatten(2, (heads, -1)).transpose(1, 2)


def join(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).flatten(2)
