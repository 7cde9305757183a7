"""VOLO against timm on the same seeded weights."""

from __future__ import annotations

import pathlib

import pytest
import torch
from parity import (
    Pair,
    Record,
    SmallPair,
    check_facts_are_timms,
    check_features,
    check_knn_logits,
    check_logits,
    distance,
    facts_of,
    timm_model,
)
from published_knn import knn_mixture
from timm.layers import resample_abs_pos_embed_nhwc
from timm.models.volo import Attention


@pytest.mark.parametrize(
    ("name", "side"),
    [("volo_d1_384", 384), pytest.param("volo_d3_448", 448, marks=pytest.mark.full)],
)
def test_logits_are_timms(
    name: str, side: int, tmp_path: pathlib.Path, record_property: Record
) -> None:
    # timm builds its position embedding for 224 pixels unless told.
    published = timm_model(name, img_size=side)
    check_logits(Pair(name, published, tmp_path, images=1, side=side), record_property)


@pytest.mark.parametrize("name", ["volo_d1_384", "volo_d3_448"])
def test_facts_are_timms(name: str) -> None:
    check_facts_are_timms(name)


def test_stage_maps_are_timms(tmp_path: pathlib.Path) -> None:
    published = timm_model("volo_d1_384", img_size=SmallPair.SIDE)
    pair = SmallPair("volo_d1_384", published, tmp_path, images=1)
    with torch.inference_mode():
        maps = pair.published.forward_intermediates(
            pair.pixels, intermediates_only=True
        )
    check_features(pair, maps)


def test_another_input_size_interpolates_as_timm_does(tmp_path: pathlib.Path) -> None:
    name = "volo_d1_384"
    published = timm_model(name, img_size=384)
    pair = Pair(name, published, tmp_path, images=1, side=256)
    published.pos_embed.data = resample_abs_pos_embed_nhwc(
        published.pos_embed.data, [16, 16]
    )
    ours = pair.ours(image_height=256, image_width=256)
    assert distance(ours, pair.expected()) <= 1e-4


def test_knn_attention_in_the_stages_that_attend(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, record_property: Record
) -> None:
    k = 8  # half of 4x4 keys

    def forward(self: Attention, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        query, key, value = (
            self.qkv(x)
            .reshape(batch, height * width, 3, self.num_heads, -1)
            .permute(2, 0, 3, 1, 4)
        )
        mixed = knn_mixture(query, key, value, self.scale, k)
        return self.proj(mixed.transpose(1, 2).reshape(batch, height, width, channels))

    monkeypatch.setattr(Attention, "forward", forward)
    published = timm_model("volo_d1_384", img_size=SmallPair.SIDE)
    pair = SmallPair("volo_d1_384", published, tmp_path, images=5)
    check_knn_logits(pair, record_property, "knn:k=0.5")


def test_the_outlookers_have_no_attention_to_replace() -> None:
    with pytest.raises(ValueError, match="stage 1.* has no attention"):
        facts_of(backbone="volo_d1_384", random_weights_seed=0, attention="dense@1")
    facts = facts_of(backbone="volo_d1_384", random_weights_seed=0, attention="knn:k=9")
    assert facts["attention"] == "knn:k=9"
