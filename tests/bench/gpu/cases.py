"""The operators on a GPU: our call, and what a user would call instead, as functions without arguments."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import torch
import torch._dynamo
import torch.nn.functional as F
from fovea import ops
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Call = Callable[[], Tensor]

# A form is compiled for each shape and type; past the default, torch would run it uncompiled.
torch._dynamo.config.recompile_limit = 64

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclasses.dataclass
class Case:
    name: str
    shape: str
    ours: Call
    peers: dict[str, Call]  # by name; each returns what ours does, up to layout


def tokens(
    batch: int, heads: int, n: int, dim: int, dtype: torch.dtype
) -> list[Tensor]:
    """Query, key and value as views of one QKV tensor."""
    qkv = torch.randn(batch, n, 3, heads, dim, device=DEVICE).to(dtype)
    return list(qkv.permute(2, 0, 3, 1, 4).unbind(0))


def maps(
    batch: int, heads: int, side: int, dim: int, dtype: torch.dtype
) -> list[Tensor]:
    qkv = torch.randn(batch, side, side, 3, heads, dim, device=DEVICE).to(dtype)
    return list(qkv.permute(3, 0, 4, 1, 2, 5).unbind(0))


def published_knn(q: Tensor, k: Tensor, v: Tensor, topk: int) -> Tensor:
    logits = q @ k.mT * q.shape[-1] ** -0.5
    index = logits.topk(topk, dim=-1).indices
    kept = torch.full_like(logits, -torch.inf).scatter(
        -1, index, logits.gather(-1, index)
    )
    return kept.softmax(-1) @ v


def windows(t: Tensor, w: int) -> Tensor:
    b, h, side, _, d = t.shape
    n = side // w
    return (
        t.reshape(b, h, n, w, n, w, d)
        .permute(0, 2, 4, 1, 3, 5, 6)
        .reshape(b * n * n, h, w * w, d)
    )


def three_calls(q: Tensor, k: Tensor, v: Tensor, w: int) -> Tensor:
    """AEWin with SDPA: rows, columns, windows, concatenated as [B, side, side, heads, d]."""
    b, heads, side, _, d = q.shape
    a, n = heads // 4, side // w
    rows = [t[:, :a].transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
    columns = [t[:, a : 2 * a].permute(0, 3, 1, 2, 4).flatten(0, 1) for t in (q, k, v)]
    local = [windows(t[:, 2 * a :], w) for t in (q, k, v)]
    out_rows = (
        F.scaled_dot_product_attention(*rows).view(b, side, a, side, d).transpose(2, 3)
    )
    out_columns = (
        F.scaled_dot_product_attention(*columns)
        .view(b, side, a, side, d)
        .permute(0, 3, 1, 2, 4)
    )
    out_local = (
        F.scaled_dot_product_attention(*local)
        .view(b, n, n, 2 * a, w, w, d)
        .permute(0, 1, 4, 2, 5, 3, 6)
        .reshape(b, side, side, 2 * a, d)
    )
    return torch.cat([out_rows, out_columns, out_local], 3)


def key_only(key: Tensor, value: Tensor, saliency: Tensor) -> Tensor:
    gate = ((key * saliency[:, None]).sum(-1) * key.shape[-1] ** -0.5).softmax(-1)
    return (gate[..., None] * key).sum(2, keepdim=True) * value


def conv_static_key(query: Tensor, value: Tensor, side: int, weight: Tensor) -> Tensor:
    b, h, m, d = query.shape
    image = query.transpose(1, 2).reshape(b, side, side, h * d).permute(0, 3, 1, 2)
    logits = F.conv2d(image, weight, padding=1, groups=h).reshape(b, h, m, m)
    return (logits.mT * d**-0.5).softmax(-1) @ value


def compiled(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(call, dynamic=False)


def attention_in_steps(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def by_backend(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v)


@functools.cache
def flex_attention() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention as eager

    return compiled(eager)


def dense_peers(q: Tensor, k: Tensor, v: Tensor, small: bool) -> dict[str, Call]:
    """SDPA as it chooses and by each backend, FlexAttention, and what torch.compile makes of the plain form."""
    peers: dict[str, Call] = {
        "torch SDPA": lambda: F.scaled_dot_product_attention(q, k, v)
    }
    if small:
        return peers
    if q.dtype != torch.float32:
        peers["SDPA by cuDNN"] = lambda: by_backend(SDPBackend.CUDNN_ATTENTION, q, k, v)
        peers["SDPA by flash"] = lambda: by_backend(SDPBackend.FLASH_ATTENTION, q, k, v)
    peers["FlexAttention"] = lambda: flex_attention()(q, k, v)
    if q.shape[2] < 1000:
        form = compiled(attention_in_steps)
        peers["torch.compile of the plain form"] = lambda: form(q, k, v)
    return peers


def cases(dtype: torch.dtype, small: bool = False) -> list[Case]:
    """Shapes of real models; `small`: the least that runs every path, for compute-sanitizer.

    Called again, it makes the same cases of other memory.
    """
    found: list[Case] = []
    # Small: one tile of keys; several, with channels in one chunk and in two; rows of logits that
    # registers do not hold.
    sizes = (
        [(1, 2, 33, 32), (1, 1, 150, 64), (1, 1, 150, 80), (1, 1, 300, 64)]
        if small
        else [(64, 6, 197, 64), (16, 3, 784, 64), (16, 3, 3136, 64)]
    )
    for batch, heads, n, dim in sizes:
        q, k, v = tokens(batch, heads, n, dim, dtype)
        shape = f"B{batch} H{heads} N{n} d{dim}"
        dense = dense_peers(q, k, v, small)
        top = n // 2
        found.append(
            Case(
                "dense_attention",
                shape,
                lambda q=q, k=k, v=v: ops.dense_attention(q, k, v),
                dense,
            )
        )
        peers = {f"{name} (dense)": call for name, call in dense.items()}
        if n < 1000:
            peers["published form"] = lambda q=q, k=k, v=v, top=top: published_knn(
                q, k, v, top
            )
            if not small:
                form = compiled(published_knn)
                peers["torch.compile of it"] = (
                    lambda q=q, k=k, v=v, top=top, form=form: form(q, k, v, top)
                )
        found.append(
            Case(
                "knn_attention",
                shape,
                lambda q=q, k=k, v=v, top=top: ops.knn_attention(q, k, v, top),
                peers,
            )
        )
        found.append(
            Case(
                "knn_attention_exact",
                shape,
                lambda q=q, k=k, v=v, top=top: ops.knn_attention_exact(q, k, v, top),
                {
                    "knn_attention": lambda q=q, k=k, v=v, top=top: ops.knn_attention(
                        q, k, v, top
                    )
                },
            )
        )
        static = torch.randn(heads, n, dim, device=DEVICE).to(dtype)
        found.append(
            Case(
                "static_key_attention",
                shape,
                lambda q=q, v=v, s=static: ops.static_key_attention(q, s, v),
                {
                    "torch SDPA": lambda q=q, v=v, s=static: (
                        F.scaled_dot_product_attention(q, s.expand_as(v), v)
                    )
                },
            )
        )
    for batch, heads, side, dim in (
        [(1, 4, 10, 16)]
        if small
        else [(64, 4, 56, 16), (64, 8, 28, 16), (64, 16, 14, 16), (64, 32, 7, 16)]
    ):
        q, k, v = maps(batch, heads, side, dim, dtype)
        w = 5 if small else 7
        shape = f"B{batch} H{heads} {side}x{side} d{dim}"
        found.append(
            Case(
                "axial_window_attention",
                shape,
                lambda q=q, k=k, v=v, w=w: ops.axial_window_attention(q, k, v, w),
                {
                    "3 x SDPA, concatenated": lambda q=q, k=k, v=v, w=w: three_calls(
                        q, k, v, w
                    )
                },
            )
        )
        flat = [windows(t, w) for t in (q, k, v)]
        found.append(
            Case(
                "window_attention",
                shape,
                lambda q=q, k=k, v=v, w=w: ops.window_attention(q, k, v, (w, w)),
                {
                    "SDPA on windows already cut": lambda flat=flat: (
                        F.scaled_dot_product_attention(*flat)
                    )
                },
            )
        )
        found.append(
            Case(
                "criss_cross_attention",
                shape,
                lambda q=q, k=k, v=v: ops.criss_cross_attention(q, k, v),
                {},
            )
        )
    batch, heads, side, dim = (1, 2, 5, 32) if small else (64, 6, 14, 64)
    q, _, v = tokens(batch, heads, side * side, dim, dtype)
    weight = (torch.randn(heads * side * side, dim, 3, 3, device=DEVICE) * 0.05).to(
        dtype
    )
    found.append(
        Case(
            "conv_static_key_attention",
            f"B{batch} H{heads} N{side * side} d{dim}",
            lambda q=q, v=v, side=side: ops.conv_static_key_attention(
                q, v, (side, side), weight
            ),
            {
                "conv2d, softmax, matmul": lambda q=q, v=v, side=side: conv_static_key(
                    q, v, side, weight
                )
            },
        )
    )
    for n in [300] if small else [3136, 16384, 65536]:
        _, key, value = tokens(1 if small else 16, 1, n, 64, dtype)
        saliency = torch.randn(1, 64, device=DEVICE).to(dtype)
        found.append(
            Case(
                "key_only_attention",
                f"B{key.shape[0]} H1 N{n} d64",
                lambda k=key, v=value, s=saliency: ops.key_only_attention(k, v, s),
                {
                    "its definition": lambda k=key, v=value, s=saliency: key_only(
                        k, v, s
                    )
                },
            )
        )
    for channels, side in (
        [(40, 6)] if small else [(512, 56), (1024, 28), (1280, 14), (2048, 7)]
    ):
        x = torch.randn(1 if small else 16, channels, side, side, device=DEVICE).to(
            dtype
        )
        x = x.contiguous(memory_format=torch.channels_last)
        w4 = (torch.randn(4, channels, 3, 3, device=DEVICE) * 0.1).to(dtype)
        b4 = torch.randn(4, channels, device=DEVICE).to(dtype)
        # As a prepared model has them: merged, in fp32.
        w1, b1 = (t.float().sum(0, keepdim=True) for t in (w4, b4))
        found.append(
            Case(
                "rp_cpe",
                f"B{x.shape[0]} C{channels} {side}x{side} NHWC",
                lambda x=x, w=w1, b=b1: ops.rp_cpe(x, w, b),
                {
                    "four branches of conv2d": lambda x=x, w=w4, b=b4, c=channels: (
                        x
                        + sum(
                            F.conv2d(x, w[i][:, None], b[i], padding=1, groups=c)
                            for i in range(4)
                        )
                    )
                },
            )
        )
    return found
