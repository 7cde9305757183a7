"""transformers' weights under the names that Fovea's backbones load: timm's, where timm has the architecture."""

import re
from collections.abc import Callable

import torch

from fovea.published.model import PublishedError

Weights = dict[str, torch.Tensor]
# By what a name matches: what it becomes, as re.Match.expand or a function has it.
Rules = dict[str, str | Callable[[re.Match[str]], str]]

# In transformers each is a projection of its own; in timm they are one, in this order.
_QKV = ("q_proj", "k_proj", "v_proj")

_VIT: Rules = {
    r"(?:(?:vit|deit)\.)?embeddings\.cls_token": "cls_token",
    r"deit\.embeddings\.distillation_token": "dist_token",
    r"(?:(?:vit|deit)\.)?embeddings\.position_embeddings": "pos_embed",
    r"(?:(?:vit|deit)\.)?embeddings\.patch_embeddings\.projection\.(.*)": r"patch_embed.proj.\1",
    r"(?:(?:vit|deit)\.)?layers\.(\d+)\.layernorm_before\.(.*)": r"blocks.\1.norm1.\2",
    r"(?:(?:vit|deit)\.)?layers\.(\d+)\.layernorm_after\.(.*)": r"blocks.\1.norm2.\2",
    r"(?:(?:vit|deit)\.)?layers\.(\d+)\.attention\.o_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    r"(?:(?:vit|deit)\.)?layers\.(\d+)\.attention\.([qkv]_proj)\.(.*)": r"blocks.\1.attn.\2.\3",
    r"(?:(?:vit|deit)\.)?layers\.(\d+)\.mlp\.(.*)": r"blocks.\1.mlp.\2",
    r"(?:(?:vit|deit)\.)?layernorm\.(.*)": r"norm.\1",
    r"(?:cls_)?classifier\.(.*)": r"head.\1",
    r"distillation_classifier\.(.*)": r"head_dist.\1",
}
_SWIN_BLOCK = r"swin\.encoder\.layers\.(\d+)\.blocks\.(\d+)\."
_SWIN: Rules = {
    r"swin\.embeddings\.patch_embeddings\.projection\.(.*)": r"patch_embed.proj.\1",
    r"swin\.embeddings\.norm\.(.*)": r"patch_embed.norm.\1",
    _SWIN_BLOCK + r"layernorm_before\.(.*)": r"layers.\1.blocks.\2.norm1.\3",
    _SWIN_BLOCK + r"layernorm_after\.(.*)": r"layers.\1.blocks.\2.norm2.\3",
    _SWIN_BLOCK + r"attention\.o_proj\.(.*)": r"layers.\1.blocks.\2.attn.proj.\3",
    _SWIN_BLOCK + r"attention\.([qkv]_proj)\.(.*)": r"layers.\1.blocks.\2.attn.\3.\4",
    _SWIN_BLOCK
    + r"attention\.relative_position_bias\.(.*)": r"layers.\1.blocks.\2.attn.\3",
    _SWIN_BLOCK + r"mlp\.(.*)": r"layers.\1.blocks.\2.mlp.\3",
    # Behind a stage in transformers, before the next one in timm.
    r"swin\.encoder\.layers\.(\d+)\.downsample\.(.*)": lambda match: (
        f"layers.{int(match[1]) + 1}.downsample.{match[2]}"
    ),
    r"swin\.layernorm\.(.*)": r"norm.\1",
    r"classifier\.(.*)": r"head.fc.\1",
}
_RENAMED: dict[str, Rules] = {"vit": _VIT, "deit": _VIT, "swin": _SWIN}


def published_names(model_type: str, weights: Weights) -> Weights:
    """The same numbers as Fovea's backbone of this type loads them. Raises PublishedError for a weight it has not."""
    if model_type == "upernet":
        return _upernet(weights)
    if model_type not in _RENAMED:  # CvT: timm does not have it, Fovea has these names
        return weights
    rules = _RENAMED[model_type]
    return _joined({_renamed(name, rules): weights[name] for name in weights})


def _upernet(weights: Weights) -> Weights:
    """With Swin behind it. The auxiliary head only trains, and the pyramid has norms of its own."""
    head: Weights = {}
    body: Weights = {}
    for name, weight in weights.items():
        norm = re.fullmatch(r"backbone\.hidden_states_norms\.stage(\d+)\.(.*)", name)
        if norm:
            head[f"head.norms.{int(norm[1]) - 1}.{norm[2]}"] = weight
        elif name.startswith("decode_head."):
            head["head." + name.removeprefix("decode_head.")] = weight
        elif not name.startswith("auxiliary_head."):
            body[name.removeprefix("backbone.")] = weight
    named = published_names("swin", body)
    return {**{"backbone." + name: named[name] for name in named}, **head}


def _renamed(name: str, rules: Rules) -> str:
    for pattern, replacement in rules.items():
        if match := re.fullmatch(pattern, name):
            return (
                replacement(match)
                if callable(replacement)
                else match.expand(replacement)
            )
    raise PublishedError(f"Fovea's backbone has no place for the weight '{name}'")


def _joined(weights: Weights) -> Weights:
    """Queries', keys' and values' projections as one."""
    joined: Weights = {}
    for name, weight in weights.items():
        if ".attn.q_proj." in name:
            parts = [weights[name.replace("q_proj", part)] for part in _QKV]
            joined[name.replace("q_proj", "qkv")] = torch.cat(parts)
        elif not any(f".attn.{part}." in name for part in _QKV):
            joined[name] = weight
    return joined
