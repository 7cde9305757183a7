"""TNT against timm on the same seeded weights."""

from __future__ import annotations

import pathlib

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
    timm_model,
)
from timm.layers import resample_abs_pos_embed
from timm.models.tnt import Attention

NAME = "tnt_s_patch16_224"


def test_logits_are_timms(tmp_path: pathlib.Path, record_property: Record) -> None:
    check_logits(Pair(NAME, timm_model(NAME), tmp_path, images=1), record_property)


def test_facts_are_timms() -> None:
    check_facts_are_timms(NAME)


def test_the_pyramid_is_the_normalised_map_at_four_scales(
    tmp_path: pathlib.Path,
) -> None:
    pair = Pair(NAME, timm_model(NAME), tmp_path, images=1)
    with torch.inference_mode():
        (last,) = pair.published.forward_intermediates(
            pair.pixels, indices=1, norm=True, intermediates_only=True
        )
        up = torch.nn.functional.interpolate
        check_features(
            pair,
            [
                up(last, scale_factor=4, mode="bilinear"),
                up(last, scale_factor=2, mode="bilinear"),
                last,
                torch.nn.functional.max_pool2d(last, 2),
            ],
        )


def test_another_input_size_interpolates_as_timm_does(tmp_path: pathlib.Path) -> None:
    published = timm_model(NAME)
    pair = Pair(NAME, published, tmp_path, images=1, side=160)
    weights = published.state_dict()
    weights["patch_pos"] = resample_abs_pos_embed(
        weights["patch_pos"], [10, 10], num_prefix_tokens=1
    )
    pair.published = timm_model(NAME, img_size=160)
    pair.published.load_state_dict(weights)
    ours = pair.ours(image_height=160, image_width=160)
    assert distance(ours, pair.expected()) <= 1e-4


def test_knn_attention_in_the_outer_transformer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, record_property: Record
) -> None:
    dense = Attention.forward

    def forward(self: Attention, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        if tokens == 16:  # the pixels of a patch
            return dense(self, x)
        qk = self.qk(x).reshape(batch, tokens, 2, self.num_heads, self.head_dim)
        query, key = qk.permute(2, 0, 3, 1, 4)
        value = self.v(x).reshape(batch, tokens, self.num_heads, -1).transpose(1, 2)
        wide = torch.promote_types(x.dtype, torch.float32)
        logits = (query.to(wide) @ key.to(wide).mT) * self.scale
        kept = logits.topk(99, dim=-1).indices  # half of 197 keys
        logits = torch.full_like(logits, float("-inf")).scatter(
            -1, kept, logits.gather(-1, kept)
        )
        mixed = logits.softmax(-1).to(value.dtype) @ value
        return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, -1))

    monkeypatch.setattr(Attention, "forward", forward)
    pair = Pair(NAME, timm_model(NAME), tmp_path, images=5)
    check_knn_logits(pair, record_property, "knn:k=0.5")
