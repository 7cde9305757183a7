"""The published k-NN attention in PyTorch, for timm's models: the reference that tests compare with."""

from collections.abc import Callable

import torch
from timm.layers import Attention


def keep_largest(logits: torch.Tensor, k: int) -> torch.Tensor:
    """The k largest logits of each row; the others minus infinity."""
    chosen = logits.topk(k, dim=-1).indices
    return torch.full_like(logits, float("-inf")).scatter(
        -1, chosen, logits.gather(-1, chosen)
    )


def knn_mixture(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, k: int
) -> torch.Tensor:
    """KVT's fast k-NN attention: softmax over the k largest logits of each row, the rest zero, times the values."""
    wide = torch.promote_types(query.dtype, torch.float32)  # logits of bf16 are fp32
    logits = (query.to(wide) * scale) @ key.to(wide).transpose(-2, -1)
    return keep_largest(logits, k).softmax(dim=-1).to(value.dtype) @ value


def knn_attention(self: Attention, x: torch.Tensor, k: int) -> torch.Tensor:
    """The same in timm's Attention."""
    batch, tokens, channels = x.shape
    query, key, value = (
        self.qkv(x)
        .reshape(batch, tokens, 3, self.num_heads, -1)
        .permute(2, 0, 3, 1, 4)
        .unbind(0)
    )
    mixed = knn_mixture(query, key, value, self.scale, k)
    return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, channels))


def is_decided_by_rounding(
    logits: Callable[[torch.Tensor], torch.Tensor],
    pixels: torch.Tensor,
    bound: float,
    seed: int,
) -> bool:
    """Whether noise of a few roundings of an image's pixels moves the published logits by more than the bound, in their
    standard deviation: in some row of attention the k-th and the next logit nearly tie."""
    generator = torch.Generator().manual_seed(seed)
    expected = logits(pixels)
    for _ in range(8):
        moved = logits(pixels + 2**-18 * torch.randn(pixels.shape, generator=generator))
        if ((moved - expected).abs().max() / expected.std()).item() > bound:
            return True
    return False
