"""T2T-ViT against logits of its official code, on weights made from a seed."""

from __future__ import annotations

import pathlib

import pytest
from parity import Record, facts_of
from published_logits import AS_PUBLISHED, check_published_logits

NAME = "t2t_vit_t_19"


@pytest.mark.parametrize("attention", [AS_PUBLISHED, "knn:k=0.8"])
def test_logits_are_the_official_codes(
    attention: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    check_published_logits(NAME, tmp_path, record_property, attention)


def test_facts_are_those_of_the_official_evaluation() -> None:
    facts = facts_of(backbone=NAME, random_weights_seed=0)
    assert (facts["image_height"], facts["image_width"]) == (224, 224)
    assert facts["num_classes"] == 1000
    assert facts["tokens"] == 197
    preprocessing = facts["preprocessing"]
    assert preprocessing["interpolation"] == "BICUBIC"
    assert preprocessing["resize_mode"] == "SHORTEST_EDGE"
    assert preprocessing["crop_fraction"] == 0.9
    assert preprocessing["mean"] == pytest.approx((0.485, 0.456, 0.406))
    assert preprocessing["std"] == pytest.approx((0.229, 0.224, 0.225))
