"""So-ViT against logits of its official code, on weights made from a seed."""

from __future__ import annotations

import pathlib

import pytest
from parity import Record, facts_of
from published_logits import AS_PUBLISHED, check_published_logits

NAME = "so_vit_7"


@pytest.mark.parametrize("attention", [AS_PUBLISHED, "knn:k=0.5"])
def test_logits_are_the_official_codes(
    attention: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    check_published_logits(NAME, tmp_path, record_property, attention)


def test_facts_are_the_papers() -> None:
    facts = facts_of(backbone=NAME, random_weights_seed=0)
    assert (facts["image_height"], facts["image_width"]) == (224, 224)
    assert facts["num_classes"] == 1000
    assert facts["tokens"] == 197
    positions = 197 * 256  # stored, never trained
    assert round((facts["parameters"] - positions) / 1e6, 1) == 5.5
    assert facts["preprocessing"]["interpolation"] == "BICUBIC"
    assert facts["preprocessing"]["crop_fraction"] == 0.875
