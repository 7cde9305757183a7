"""CAFormer against timm on the same seeded weights; SKAFormer and CSKAFormer against timm's CAFormer whose second stage is
that of the paper's formulas."""

from __future__ import annotations

import json
import pathlib

import pytest
import timm
import torch
from larger_variants import larger_in_full
from mmdetection_reference import RetinaNet, own_name
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
    perturbed,
    save,
    timm_model,
)
from published_knn import knn_attention
from published_static_keys import ConvStaticKeyAttention, StaticKeyAttention
from timm.models.metaformer import Attention, MetaFormer

PUBLISHED = ["caformer_s18", "caformer_b36"]


def with_static_keys(
    attention: dict[int, str], side: int = 224, backbone: str = "caformer_s18"
) -> MetaFormer:
    """timm's CAFormer with static keys in these stages, counted from 1."""
    torch.manual_seed(0)
    model = timm.create_model(backbone)
    for stage, name in attention.items():
        grid = side // (2 << stage)
        for block in model.stages[stage - 1].blocks:
            dim = block.norm1.normalized_shape[0]
            block.token_mixer = (
                StaticKeyAttention(dim, grid**2, dim // 32, bias=False)
                if name == "ska"
                else ConvStaticKeyAttention(dim, (grid, grid), dim // 32, bias=False)
            )
    return perturbed(model, str(attention))


@pytest.mark.parametrize("name", larger_in_full(PUBLISHED))
def test_logits_are_timms(
    name: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    images = 1 if name == "caformer_b36" else 2
    check_logits(Pair(name, timm_model(name), tmp_path, images=images), record_property)


def test_logits_with_knn_attention_are_those_of_the_published_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, record_property: Record
) -> None:
    # Half of 4x4 keys; all of 2x2.
    monkeypatch.setattr(
        Attention, "forward", lambda self, x: knn_attention(self, x, min(8, x.shape[1]))
    )
    published = timm_model("caformer_s18")
    pair = SmallPair("caformer_s18", published, tmp_path, images=5)
    check_knn_logits(pair, record_property, attention="conv|conv|knn:k=8|knn:k=4")


@pytest.mark.parametrize("size", ["s18", pytest.param("b36", marks=pytest.mark.full)])
@pytest.mark.parametrize("attention", ["ska", "cska"])
def test_logits_with_static_keys_are_those_of_the_formula(
    attention: str, size: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    published = with_static_keys({2: attention}, backbone=f"caformer_{size}")
    check_logits(
        Pair(f"{attention}former_{size}", published, tmp_path, images=1),
        record_property,
    )


def test_static_keys_stand_in_other_stages(tmp_path: pathlib.Path) -> None:
    published = with_static_keys({3: "ska", 4: "cska"})
    pair = Pair("caformer_s18", published, tmp_path, images=1)
    ours = pair.ours(attention=["ska@3", "cska@4"])
    assert distance(ours, pair.expected()) <= 1e-4


@pytest.mark.parametrize("name", PUBLISHED)
def test_facts_are_timms(name: str) -> None:
    check_facts_are_timms(name)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("skaformer_s18", 26_555_922),  # the paper: 26 M
        ("cskaformer_s18", 28_973_778),  # 28 M
        ("skaformer_b36", 100_074_550),  # 97 M, which is what remains without its keys
        ("cskaformer_b36", 119_417_398),  # 119 M
    ],
)
def test_parameters_of_static_keys(name: str, parameters: int) -> None:
    facts = facts_of(backbone=name, random_weights_seed=0)
    assert facts["parameters"] == parameters
    base = facts_of(backbone="caformer_s18", random_weights_seed=0)
    assert facts["preprocessing"] == base["preprocessing"]
    if name == "skaformer_b36":
        static_keys = 12 * 784 * 256
        assert parameters - static_keys == 97_666_102


def test_stage_maps_of_another_input_size_are_timms(tmp_path: pathlib.Path) -> None:
    """100 pixels: maps of 25, 13, 7 and 4 tokens."""
    name, side = "caformer_s18", 100
    pair = Pair(name, timm_model(name), tmp_path, images=1, side=side)
    with torch.inference_mode():
        last, maps = pair.published.forward_intermediates(pair.pixels)
        expected = pair.published.forward_head(last)
    size = {"image_height": side, "image_width": side}
    check_features(pair, maps, **size)
    assert distance(pair.ours(**size), expected) <= 1e-4


def test_another_input_size_needs_interpolated_keys(tmp_path: pathlib.Path) -> None:
    published = with_static_keys({2: "cska"})
    pair = Pair("cskaformer_s18", published, tmp_path, images=1, side=96)
    size = {"image_height": 96, "image_width": 96}
    with pytest.raises(ValueError, match="784 tokens, this input size has 144"):
        pair.ours(**size)

    def resized(keys: torch.Tensor) -> torch.Tensor:
        """[heads, 28 * 28, numbers] -> [heads, 12 * 12, numbers]."""
        return (
            torch.nn.functional.interpolate(
                keys.mT.unflatten(2, (28, 28)),
                (12, 12),
                mode="bicubic",
                antialias=True,
            )
            .flatten(2)
            .mT
        )

    other = with_static_keys({2: "cska"}, side=96)
    state = {
        name: resized(tensor.reshape(4, 784, -1)).reshape(other_tensor.shape)
        if tensor.shape != other_tensor.shape
        else tensor
        for (name, tensor), other_tensor in zip(
            published.state_dict().items(), other.state_dict().values()
        )
    }
    other.load_state_dict(state)
    pair.published = other
    ours = pair.ours(attention="cska@2:interpolate", **size)
    assert distance(ours, pair.expected()) <= 1e-4


class InWindows(torch.nn.Module):
    """A mixer of maps [B, C, H, W] within windows of `side` places, zeros at the bottom and at the right."""

    def __init__(self, mixer: torch.nn.Module, side: int) -> None:
        super().__init__()
        self.mixer, self.side = mixer, side

    def forward(self, map_: torch.Tensor) -> torch.Tensor:
        height, width = map_.shape[2:]
        side = self.side
        padded = torch.nn.functional.pad(map_, (0, -width % side, 0, -height % side))
        output = torch.zeros_like(padded)
        for top in range(0, padded.shape[2], side):
            for left in range(0, padded.shape[3], side):
                window = (..., slice(top, top + side), slice(left, left + side))
                output[window] = self.mixer(padded[window])
        return output[..., :height, :width]


@pytest.mark.parametrize("attention", ["ska", "cska"])
def test_a_detectors_static_keys_attend_within_windows_of_the_published_map(
    attention: str, tmp_path: pathlib.Path
) -> None:
    """At 232x264 the second stage has 29x33 places, which windows of 28x28 do not divide."""
    published = with_static_keys({2: attention})
    weights = {
        f"backbone.{name}": tensor
        for name, tensor in published.state_dict().items()
        if not name.startswith("head.fc")
    }
    head = RetinaNet([128, 320, 512], classes=5)
    for name, tensor in head.state_dict().items():
        weights[own_name(name, maps=3)] = tensor
    save(weights, tmp_path / "model.safetensors")
    for block in published.stages[1].blocks:
        block.token_mixer = InWindows(block.token_mixer, 28)
    pixels = torch.randn(1, 3, 232, 264, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        _, expected = published.forward_intermediates(pixels)
    description = {
        "backbone": f"{attention}former_s18",
        "task": "DETECTION",
        "head": "retinanet",
        "num_classes": 5,
        "detection": {"conventions": "MMDETECTION"},
        "weights": str(tmp_path / "model.safetensors"),
        "image_height": 232,
        "image_width": 264,
    }
    for prepared in (False, True):
        model = torch.classes.fovea_models.Model(
            json.dumps(description), "cpu", prepared
        )
        for ours, theirs in zip(model.features(pixels), expected, strict=True):
            assert distance(ours, theirs) <= 1e-4


def test_measures_leave_out_the_weights_that_convolutions_do_not_have(
    tmp_path: pathlib.Path,
) -> None:
    name = "caformer_s18"
    pair = Pair(name, timm_model(name), tmp_path, images=1, side=64)
    model = pair.model(prepared=False, image_height=64, image_width=64)
    measures = model.measures(pair.pixels)
    assert "stages.2.blocks.0.nonlocality" in measures
    assert "stages.0.blocks.0.nonlocality" not in measures
    assert "stages.0.blocks.0.cosine_similarity" in measures
