"""Visformer against timm on the same seeded weights."""

from __future__ import annotations

import pathlib

import pytest
import timm
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
    timm_model,
)
from published_knn import knn_mixture
from timm.models.visformer import Attention
from weights_like_trained import settled

NAME = "visformer_tiny"


@pytest.fixture(scope="module")
def published() -> torch.nn.Module:
    pixels = torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    return settled(timm_model(NAME), pixels)


@pytest.fixture
def pair(published: torch.nn.Module, tmp_path: pathlib.Path) -> Pair:
    return Pair(NAME, published, tmp_path)


def test_logits_are_timms(pair: Pair, record_property: Record) -> None:
    check_logits(pair, record_property)


def test_facts_are_timms() -> None:
    check_facts_are_timms(NAME)


def test_stage_maps_are_timms(pair: Pair) -> None:
    with torch.inference_mode():
        maps = pair.published.forward_intermediates(
            pair.pixels, intermediates_only=True
        )
    check_features(pair, maps)


def test_another_input_size_interpolates_its_position_embeddings(
    published: torch.nn.Module, tmp_path: pathlib.Path
) -> None:
    pair = Pair(NAME, published, tmp_path, images=1, side=256)
    pair.published = timm.create_model(NAME, img_size=256).eval()
    weights = published.state_dict()
    for stage, side in ((1, 32), (2, 16), (3, 8)):
        name = f"pos_embed{stage}"
        weights[name] = torch.nn.functional.interpolate(
            weights[name], size=(side, side), mode="bicubic", antialias=True
        )
    pair.published.load_state_dict(weights)
    ours = pair.ours(image_height=256, image_width=256)
    assert distance(ours, pair.expected()) <= 1e-4


def test_an_image_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="240x224 does not divide"):
        facts_of(backbone=NAME, random_weights_seed=0, image_height=240)


def test_the_stage_of_convolutions_takes_no_attention() -> None:
    with pytest.raises(ValueError, match="stage 1 has no attention"):
        facts_of(backbone=NAME, random_weights_seed=0, attention="dense@1")


@pytest.mark.parametrize("text", ["-|knn:k=150|knn:k=45", "knn:k=0.5"])
def test_logits_with_knn_attention_are_those_of_the_published_form(
    text: str,
    published: torch.nn.Module,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    record_property: Record,
) -> None:
    """KVT's k for both stages that attend, and a share."""
    kept = {196: 98, 49: 25} if text == "knn:k=0.5" else {196: 150, 49: 45}

    def forward(self: Attention, x: torch.Tensor) -> torch.Tensor:
        images, _, height, width = x.shape
        query, key, value = (
            self.qkv(x)
            .reshape(images, 3, self.num_heads, self.head_dim, -1)
            .permute(1, 0, 2, 4, 3)
        )
        mixed = knn_mixture(query, key, value, self.scale, kept[height * width])
        return self.proj(mixed.mT.reshape(images, -1, height, width))

    monkeypatch.setattr(Attention, "forward", forward)
    check_knn_logits(Pair(NAME, published, tmp_path, images=5), record_property, text)
