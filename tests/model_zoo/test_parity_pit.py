"""PiT against timm on the same seeded weights."""

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
from published_knn import knn_attention
from timm.layers import Attention

NAME = "pit_b_224"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(NAME, timm_model(NAME), tmp_path_factory.mktemp(NAME), images=1)


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


def test_another_input_size_interpolates_its_position_embedding(
    pair: Pair, tmp_path: pathlib.Path
) -> None:
    """192 pixels: 26 patches a side, which leave three pixels out; then 13 and 7."""
    other = Pair(NAME, pair.published, tmp_path, images=1, side=192)
    other.published = timm.create_model(NAME, img_size=192).eval()
    weights = pair.published.state_dict()
    weights["pos_embed"] = torch.nn.functional.interpolate(
        weights["pos_embed"], size=(26, 26), mode="bicubic", antialias=True
    )
    other.published.load_state_dict(weights)
    ours = other.ours(image_height=192, image_width=192)
    assert distance(ours, other.expected()) <= 1e-4


def test_an_image_smaller_than_a_patch_is_refused() -> None:
    with pytest.raises(ValueError, match="224x13 holds none"):
        facts_of(backbone=NAME, random_weights_seed=0, image_width=13)


def test_logits_with_knn_attention_are_those_of_the_published_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, record_property: Record
) -> None:
    """Half of the keys of each stage, the class token among them.

    Images of 112 pixels: the 28 thousand rows of one of 224 hold several near ties, see check_knn_logits.
    """
    kept = {226: 113, 65: 33, 17: 9}

    def forward(
        self: Attention, x: torch.Tensor, *_: object, **__: object
    ) -> torch.Tensor:
        return knn_attention(self, x, kept[x.shape[1]])

    monkeypatch.setattr(Attention, "forward", forward)
    published = timm_model(NAME, img_size=112)
    pair = Pair(NAME, published, tmp_path, images=5, side=112)
    size = {"image_height": 112, "image_width": 112}
    check_knn_logits(pair, record_property, "knn:k=0.5", **size)
