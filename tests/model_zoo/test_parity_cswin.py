"""CSWin against its official code, whose logits are stored (published_logits.py), on the same seeded weights."""

from __future__ import annotations

import json
import pathlib

import pytest
import torch
from larger_variants import larger_in_full
from parity import Record, distance, facts_of
from published_logits import StoredPair, check_published_logits

VARIANTS = ["cswin_tiny_224", "cswin_base_224"]


@pytest.mark.parametrize("name", larger_in_full(VARIANTS))
def test_logits_are_the_official_codes(
    name: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    check_published_logits(name, tmp_path, record_property)


@pytest.mark.parametrize("name", VARIANTS)
def test_facts_are_those_of_the_official_evaluation(name: str) -> None:
    facts = facts_of(backbone=name, random_weights_seed=0)
    assert facts["attention"] == "cross_shaped"
    assert (facts["image_height"], facts["image_width"]) == (224, 224)
    assert facts["num_classes"] == 1000
    assert facts["preprocessing"]["interpolation"] == "BICUBIC"
    assert facts["preprocessing"]["crop_fraction"] == 0.9


def test_its_stripes_take_a_core(tmp_path: pathlib.Path) -> None:
    """k-NN attention that keeps every key is dense attention, LePE included; a count is one of a stripe's keys."""
    pair = StoredPair("cswin_tiny_224", tmp_path)
    assert distance(pair.ours(attention="knn:k=1.0"), pair.expected()) <= 1e-4
    assert distance(pair.ours(attention="knn:k=10"), pair.expected()) > 1e-2
    description = {
        "backbone": "cswin_tiny_224",
        "random_weights_seed": 0,
        "attention": "knn:k=57",
    }
    with pytest.raises(
        ValueError, match="stage 1 of cswin_tiny_224: k=57, but a query sees only 56"
    ):
        facts_of(**description)


def test_stage_maps_have_the_sizes_that_its_facts_say() -> None:
    description = {"backbone": "cswin_tiny_224", "random_weights_seed": 0}
    model = torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)
    maps = model.features(torch.zeros(1, 3, 224, 224))
    assert [tuple(map.shape) for map in maps] == [
        (1, 64, 56, 56),
        (1, 128, 28, 28),
        (1, 256, 14, 14),
        (1, 512, 7, 7),
    ]
