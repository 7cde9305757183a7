"""CvT against transformers on the same seeded weights."""

from __future__ import annotations

import pathlib

import pytest
import torch
from parity import (
    Pair,
    Record,
    check_features,
    check_knn_logits,
    check_logits,
    distance,
    facts_of,
    perturbed,
)
from published_static_keys import ConvStaticKeyAttention, StaticKeyAttention
from transformers import CvtConfig, CvtForImageClassification
from transformers.models.cvt.modeling_cvt import CvtSelfAttention

CLASSES = {"cvt_13": 1000, "cvt_13_32": 10}  # the defaults of CvtConfig are CvT-13's


def published(name: str) -> CvtForImageClassification:
    torch.manual_seed(sum(name.encode()))
    return CvtForImageClassification(CvtConfig(num_labels=CLASSES[name]))


def side_of(name: str) -> int:
    return 32 if name == "cvt_13_32" else 224


def pair_of(
    name: str,
    folder: pathlib.Path,
    *,
    images: int = 2,
    side: int | None = None,
    model: CvtForImageClassification | None = None,
) -> Pair:
    return Pair(
        name,
        perturbed(model or published(name), name),
        folder,
        images=images,
        side=side or side_of(name),
        logits=lambda output: output.logits,
    )


@pytest.mark.parametrize("name", CLASSES)
def test_logits_are_transformers(
    name: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    check_logits(pair_of(name, tmp_path), record_property)


@pytest.mark.parametrize("name", CLASSES)
def test_knn_attention_keeps_half_of_the_sub_sampled_keys(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    record_property: Record,
) -> None:
    kept = {784: 392, 196: 98, 50: 25}  # the last with the class token
    if name == "cvt_13_32":
        kept = {16: 8, 4: 2, 2: 1}

    def forward(
        self: CvtSelfAttention, tokens: torch.Tensor, height: int, width: int
    ) -> torch.Tensor:
        prefix, places = tokens.split(
            [tokens.shape[1] - height * width, height * width], 1
        )
        grid = places.mT.unflatten(2, (height, width))

        def project(which: str) -> torch.Tensor:
            convolved = getattr(self, f"convolution_projection_{which}")(grid)
            projected = getattr(self, f"projection_{which}")(
                torch.cat((prefix, convolved), 1)
            )
            return projected.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

        query, key, value = project("query"), project("key"), project("value")
        wide = torch.promote_types(
            tokens.dtype, torch.float32
        )  # logits of bf16 are fp32
        logits = query.to(wide) @ key.to(wide).mT * self.scale
        chosen = logits.topk(kept[key.shape[2]], dim=-1).indices
        logits = torch.full_like(logits, float("-inf")).scatter(
            -1, chosen, logits.gather(-1, chosen)
        )
        mixed = logits.softmax(-1).to(value.dtype) @ value
        return mixed.transpose(1, 2).flatten(2)

    monkeypatch.setattr(CvtSelfAttention, "forward", forward)
    pair = pair_of(name, tmp_path, images=5)
    check_knn_logits(pair, record_property, "knn:k=0.5")


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("attention", ["ska", "cska"])
def test_static_keys_take_the_place_of_its_attention(
    name: str, attention: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    model = published(name)
    config = model.config
    for i, stage in enumerate(model.cvt.encoder.stages):
        side, cls = side_of(name) // (4 << i), config.cls_token[i]
        dim, heads = config.embed_dim[i], config.num_heads[i]
        for layer in stage.layers:
            layer.attention = (
                StaticKeyAttention(dim, side**2 + cls, heads)
                if attention == "ska"
                else ConvStaticKeyAttention(dim, (side, side), heads, cls=cls)
            )
    pair = pair_of(name, tmp_path, images=1, model=model)
    check_logits(pair, record_property, attention=attention)


def test_a_count_of_keys_is_one_of_sub_sampled_keys() -> None:
    def load(attention: str) -> dict:
        return facts_of(backbone="cvt_13", random_weights_seed=0, attention=attention)

    assert load("knn:k=784|knn:k=196|knn:k=50")["attention"].startswith("knn:k=784|")
    with pytest.raises(ValueError, match="a query sees only 784 keys"):
        load("knn:k=1600|knn:k=400|knn:k=100")


@pytest.mark.parametrize("name, parameters", [("cvt_13", 19_997_480), ("cvt_13_32", 0)])
def test_facts(name: str, parameters: int) -> None:
    facts = facts_of(backbone=name, random_weights_seed=0)
    with torch.device("meta"):
        expected = sum(p.numel() for p in published(name).parameters())
    assert facts["parameters"] == expected
    assert parameters in (0, expected)
    if name == "cvt_13_32":
        assert round(expected / 1e6, 1) == 19.6  # table 9 of paper 003
    side = side_of(name)
    assert (facts["image_height"], facts["image_width"]) == (side, side)
    assert facts["num_classes"] == CLASSES[name]
    ours = facts["preprocessing"]
    assert ours["interpolation"] == "BICUBIC"
    assert ours["resize_mode"] == "SHORTEST_EDGE"
    assert ours["crop_fraction"] == 0.875
    assert ours["mean"] == pytest.approx((0.485, 0.456, 0.406))
    assert ours["std"] == pytest.approx((0.229, 0.224, 0.225))


def test_stage_maps_are_transformers(tmp_path: pathlib.Path) -> None:
    pair = pair_of("cvt_13", tmp_path)
    with torch.inference_mode():
        output = pair.published(pair.pixels, output_hidden_states=True)
    check_features(pair, list(output.hidden_states))


def test_another_input_size_runs_without_resizing_anything(
    tmp_path: pathlib.Path,
) -> None:
    """150 pixels: maps of 37, 19 and 10 tokens."""
    pair = pair_of("cvt_13", tmp_path, images=1, side=150)
    ours = pair.ours(image_height=150, image_width=150)
    assert distance(ours, pair.expected()) <= 1e-4
    with pytest.raises(ValueError, match="too small for a convolution of 7x7"):
        facts_of(
            backbone="cvt_13", random_weights_seed=0, image_height=2, image_width=2
        )
