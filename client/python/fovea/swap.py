"""Fovea's attention in a model of timm's, over the same weights, to be trained and run as before.

    import fovea, timm

    model = timm.create_model("deit_tiny_patch16_224", pretrained=True)
    model, layers = fovea.swap_attention(model, "knn:k=0.5")

Known are timm's Attention, as its ViT and DeiT families have it, and Swin's WindowAttention. Only what is between the
projections changes: parameters and buffers, their names, hooks and everything else stay, so that a checkpoint of either model
loads into the other. The operators have no dropout on attention weights.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from timm.layers.attention import Attention
from timm.models.swin_transformer import WindowAttention
from torch import Tensor, nn

from fovea.attention_text import Core, core_of


class Swapped(NamedTuple):
    model: nn.Module  # the one that was given
    layers: list[str]  # the names of those that were swapped, in the model's order


class SelfAttention(Attention):
    """timm's Attention with a core of Fovea's."""

    core: Core

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        if is_causal:
            raise ValueError("fovea.swap_attention: a causal mask is not supported")
        qkv = self.qkv(x).unflatten(2, (3, self.num_heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        query, key = self.q_norm(query), self.k_norm(key)
        attended = self.core.attend(
            query, key, value, self.scale, _bias_of(attn_mask, query)
        )
        out = self.norm(attended.transpose(1, 2).flatten(2))
        gate = getattr(self, "gate", None)  # of newer releases of timm
        if gate is not None:
            out = out * gate(x).sigmoid()
        projected: Tensor = self.proj_drop(self.proj(out))
        return projected

    def extra_repr(self) -> str:
        return f"core={self.core}"


class SwinAttention(WindowAttention):
    """timm's WindowAttention with a core of Fovea's."""

    core: Core

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        qkv = self.qkv(x).unflatten(2, (3, self.num_heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        bias = self._get_rel_pos_bias()  # [1, heads, tokens, tokens]
        if mask is not None:  # of the windows of an image, which follow each other
            of_image = bias + mask[:, None]
            bias = of_image.repeat(len(x) // len(mask), 1, 1, 1)
        attended = self.core.attend(query, key, value, self.scale, bias)
        out: Tensor = self.proj_drop(self.proj(attended.transpose(1, 2).flatten(2)))
        return out

    def extra_repr(self) -> str:
        return f"core={self.core}"


@dataclasses.dataclass(frozen=True)
class _Kind:
    known: type[nn.Module]  # as timm makes it
    swapped: type[SelfAttention | SwinAttention]
    module: str  # as an attention's text names it


_KINDS = (
    _Kind(Attention, SelfAttention, "self"),
    _Kind(WindowAttention, SwinAttention, "shifted_window"),
)
# It pools tokens for the classifier, and is no layer of the backbone: it stays.
_LEFT_ALONE = "AttentionPoolLatent"


def swap_attention(model: nn.Module, attention: str) -> Swapped:
    """Puts `attention` into every attention layer of the model, in place. Again, to exchange it.

    attention: a core by its text: "dense", "knn:k=100" (keys that a query keeps), "knn:k=0.5" (a share of them, the class
    token included), with options "exact" and "temperature=2".
    ValueError, and the model is as it was: it has no attention layer, or one that is not known, or drops attention weights;
    the text names no core, or more keys than a query sees.
    """
    found: dict[str, tuple[nn.Module, _Kind]] = {}
    unknown: list[str] = []
    for name, module in model.named_modules():
        kind = next(
            (one for one in _KINDS if type(module) in (one.known, one.swapped)), None
        )
        if kind is not None:
            found[name] = module, kind
        elif _looks_like_attention(module):
            unknown.append(f"{name or 'the model'} ({type(module).__name__})")
    if "" in found:
        raise ValueError(
            "this is an attention layer: give the model that it is a part of"
        )
    if unknown:
        raise ValueError(
            "these layers cannot be swapped: " + ", ".join(unknown[:5]) + _more(unknown)
        )
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no attention layer of timm's ViT, DeiT or Swin"
        )
    swapped = {
        name: _swap(name, module, kind, core_of(attention, kind.module))
        for name, (module, kind) in found.items()
    }
    keys = _keys_of(model)
    for new in swapped.values():
        new.core.keys_kept(getattr(new, "window_area", keys))
    for name, new in swapped.items():
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, new)
    return Swapped(model, list(swapped))


def _swap(
    name: str, module: nn.Module, kind: _Kind, core: Core
) -> SelfAttention | SwinAttention:
    dropped = getattr(module, "attn_drop", None)
    if isinstance(dropped, nn.Dropout) and dropped.p > 0:
        raise ValueError(
            f"{name} drops attention weights (p={dropped.p:g}), which Fovea's operators do not: "
            "make the model with attn_drop_rate=0"
        )
    new = kind.swapped.__new__(kind.swapped)
    # Its parameters, children, hooks and mode are the same objects.
    new.__dict__.update(module.__dict__)
    new.core = core
    return new


def _looks_like_attention(module: nn.Module) -> bool:
    name = type(module).__name__
    children = dict(module.named_children())
    projects = any(
        one in children for one in ("qkv", "q", "q_proj", "to_qkv", "in_proj")
    )
    return name != _LEFT_ALONE and (
        (projects and ("Attention" in name or "Attn" in name or "Parallel" in name))
        or isinstance(module, nn.MultiheadAttention)
    )


def _keys_of(model: nn.Module) -> int:
    """That a query of a ViT sees; very many where the model does not say."""
    patches = getattr(getattr(model, "patch_embed", None), "num_patches", None)
    if patches is None or getattr(model, "dynamic_img_size", False):
        return 1 << 30
    return int(patches) + int(getattr(model, "num_prefix_tokens", 0))


def _bias_of(mask: Tensor | None, query: Tensor) -> Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return mask
    bias = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
    return bias.masked_fill(~mask, float("-inf"))


def _more(texts: list[str]) -> str:
    return f" and {len(texts) - 5} more" if len(texts) > 5 else ""
