"""CaiT against timm on the same seeded weights."""

from __future__ import annotations

import pathlib
from functools import partial

import pytest
import torch
from parity import (
    Pair,
    Record,
    check_facts_are_timms,
    check_features,
    check_knn_logits,
    check_logits,
    distance,
    facts_of,
    perturbed,
    timm_model,
)
from published_knn import knn_attention
from published_static_keys import ConvStaticKeyAttention, StaticKeyAttention
from timm.layers import Attention
from timm.models.cait import Cait, LayerScaleBlock, TalkingHeadAttn


def cait_small_32(attention: str = "dense") -> Cait:
    torch.manual_seed(2)
    model = Cait(
        img_size=32,
        patch_size=4,
        embed_dim=512,
        depth=6,
        num_heads=8,
        mlp_ratio=1,
        mlp_ratio_token_only=1,
        num_classes=10,
    )
    for block in model.blocks:
        if attention == "ska":
            block.attn = StaticKeyAttention(512, 64, 8)
        elif attention == "cska":
            block.attn = ConvStaticKeyAttention(512, (8, 8), 8)
        elif attention.startswith("self"):
            block.attn = Attention(512, 8, qkv_bias=True)
    return perturbed(model, "cait_small_32")


def pair_of(name: str, folder: pathlib.Path, images: int = 2) -> Pair:
    if name == "cait_small_32":
        return Pair(name, cait_small_32(), folder, images=images, side=32)
    return Pair(name, timm_model(name), folder, images=images)


@pytest.mark.parametrize("name", ["cait_s24_224", "cait_small_32"])
def test_logits_are_timms(
    name: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    images = 1 if name == "cait_s24_224" else 8
    check_logits(pair_of(name, tmp_path, images), record_property)


@pytest.mark.parametrize("attention", ["ska", "cska", "self"])
def test_logits_with_another_attention(
    attention: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    pair = Pair("cait_small_32", cait_small_32(attention), tmp_path, images=8, side=32)
    check_logits(pair, record_property, attention=attention)


def talking_knn(self: TalkingHeadAttn, x: torch.Tensor, exact: bool) -> torch.Tensor:
    """k-NN between the two mixtures of heads: each query keeps half of its keys."""
    batch, tokens, _ = x.shape
    query, key, value = (
        self.qkv(x)
        .reshape(batch, tokens, 3, self.num_heads, -1)
        .permute(2, 0, 3, 1, 4)
        .unbind(0)
    )
    wide = torch.promote_types(x.dtype, torch.float32)
    query, key = query.to(wide), key.to(wide)
    own = (query * self.scale) @ key.mT

    def mixture(layer: torch.nn.Linear, of: torch.Tensor) -> torch.Tensor:
        mixed = torch.einsum("oh,bhij->boij", layer.weight.to(wide), of)
        return mixed + layer.bias.to(wide)[:, None, None]

    logits = mixture(self.proj_l, own)
    nearness = -torch.cdist(query, key) if exact else logits
    kept = nearness.topk(tokens // 2, dim=-1).indices
    logits = torch.full_like(logits, float("-inf")).scatter(
        -1, kept, logits.gather(-1, kept)
    )
    weights = mixture(self.proj_w, logits.softmax(-1)).to(value.dtype)
    return self.proj((weights @ value).transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize("exact", [False, True])
def test_knn_attention_between_talking_heads(
    exact: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    record_property: Record,
) -> None:
    monkeypatch.setattr(
        TalkingHeadAttn, "forward", lambda self, x: talking_knn(self, x, exact)
    )
    pair = pair_of("cait_small_32", tmp_path, images=5)
    check_knn_logits(pair, record_property, "knn:k=0.5" + ",exact" * exact)


def test_knn_attention_in_place_of_talking_heads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, record_property: Record
) -> None:
    def forward(
        self: Attention, x: torch.Tensor, *_: object, **__: object
    ) -> torch.Tensor:
        return knn_attention(self, x, x.shape[1] // 2)

    monkeypatch.setattr(Attention, "forward", forward)
    pair = Pair("cait_small_32", cait_small_32("self"), tmp_path, images=5, side=32)
    check_knn_logits(pair, record_property, "self/knn:k=0.5")


def test_a_temperature_divides_the_mixed_logits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    pair = pair_of("cait_small_32", tmp_path)
    with torch.no_grad():
        divided = {
            name: tensor / 2 if ".proj_l." in name else tensor
            for name, tensor in pair.published.state_dict().items()
        }
    pair.published.load_state_dict(divided)
    assert distance(pair.ours(attention="dense:temperature=2"), pair.expected()) <= 1e-4


def test_facts_are_timms() -> None:
    check_facts_are_timms("cait_s24_224")


@pytest.mark.parametrize(
    ("attention", "parameters"),
    [
        ("dense", 12_697_450),  # the paper: 12.7 M
        ("ska", 11_317_258),  # 11.3 M in the unnamed row of table 1, 12.7 M in SKA's
        ("cska", 12_887_050),  # 12.8 M
    ],
)
def test_parameters_for_32_pixels(attention: str, parameters: int) -> None:
    facts = facts_of(
        backbone="cait_small_32", attention=attention, random_weights_seed=0
    )
    assert facts["parameters"] == parameters
    assert sum(p.numel() for p in cait_small_32(attention).parameters()) == parameters


def test_the_pyramid_is_the_normalised_map_at_four_scales(
    tmp_path: pathlib.Path,
) -> None:
    pair = pair_of("cait_small_32", tmp_path)
    with torch.inference_mode():
        tokens = pair.published.forward_features(pair.pixels)[:, 1:]
        last = tokens.transpose(1, 2).unflatten(2, (8, 8))
        up = partial(torch.nn.functional.interpolate, mode="bilinear")
        down = torch.nn.functional.max_pool2d(last, 2)
        check_features(
            pair, [up(last, scale_factor=4), up(last, scale_factor=2), last, down]
        )


def test_measures_are_of_the_patch_blocks(tmp_path: pathlib.Path) -> None:
    pair = pair_of("cait_small_32", tmp_path)
    outputs = {}
    for i, block in enumerate(pair.published.blocks):
        assert isinstance(block, LayerScaleBlock)
        block.register_forward_hook(
            lambda _, __, output, i=i: outputs.update({i: output})
        )
    pair.expected()
    measures = pair.model(prepared=False).measures(pair.pixels)
    for i, tokens in outputs.items():
        unit = torch.nn.functional.normalize(tokens.double(), dim=-1)
        count = tokens.shape[1]
        similarity = ((unit @ unit.mT).sum((1, 2)) - count) / (count * (count - 1))
        ours = measures[f"blocks.{i}.cosine_similarity"].double()
        assert torch.allclose(ours, similarity, atol=1e-4)
        assert f"blocks.{i}.nonlocality" in measures
