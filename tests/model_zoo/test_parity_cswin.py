"""CSWin against its official code, whose logits are stored (published_logits.py), on the same seeded weights."""

from __future__ import annotations

import json
import pathlib

import pytest
import torch
from parity import Record, distance, facts_of, save
from published_logits import PublishedLogits, seeded_pixels, seeded_weights

VARIANTS = ["cswin_tiny_224", "cswin_base_224"]


class Zoo:
    """The zoo's model on the weights that the official one was given."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        self.name = name
        self.published = PublishedLogits.load(name)
        self.expected = torch.tensor(self.published.fp32)
        self.pixels = seeded_pixels(name, len(self.expected), self.published.side)
        self.weights = folder / "model.safetensors"
        save(seeded_weights(self.published.tensors), self.weights)

    def model(self, *, prepared: bool = True, **options: object):
        description = {"backbone": self.name, "weights": str(self.weights), **options}
        return torch.classes.fovea_models.Model(
            json.dumps(description), "cpu", prepared
        )

    def logits(self, **options: object) -> torch.Tensor:
        return self.stored(self.model(**options))

    def stored(self, model) -> torch.Tensor:
        """The classes whose logits are stored."""
        (logits,) = model.run(self.pixels)
        return logits[:, :: self.published.every]


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_facts_are_the_official_codes(
    name: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    zoo = Zoo(name, tmp_path)
    model = zoo.model()
    error = distance(zoo.stored(model), zoo.expected)
    bf16_error = distance(zoo.logits(precision="BF16"), zoo.expected)
    record_property("fp32_error_over_std", error)
    record_property("bf16_error_over_published", bf16_error / zoo.published.bf16_error)
    facts = json.loads(model.facts())
    print(
        f"{name}: {facts['parameters'] / 1e6:.2f} M parameters, fp32 {error:.1e}, bf16 {bf16_error:.1e}, "
        f"published bf16 {zoo.published.bf16_error:.1e}"
    )
    assert error <= 1e-4
    assert bf16_error <= 2 * zoo.published.bf16_error
    assert facts["parameters"] == zoo.published.parameters
    assert facts["attention"] == "cross_shaped"
    assert (facts["image_height"], facts["image_width"]) == (224, 224)
    assert facts["num_classes"] == 1000
    assert facts["preprocessing"]["interpolation"] == "BICUBIC"
    assert facts["preprocessing"]["crop_fraction"] == 0.9


def test_its_trainable_form_and_its_stripes_with_a_core(tmp_path: pathlib.Path) -> None:
    """k-NN attention that keeps every key is dense attention, LePE included; a count is one of a stripe's keys."""
    zoo = Zoo("cswin_tiny_224", tmp_path)
    assert distance(zoo.logits(attention="knn:k=1.0"), zoo.expected) <= 1e-4
    assert distance(zoo.logits(prepared=False), zoo.expected) <= 1e-4
    assert distance(zoo.logits(attention="knn:k=10"), zoo.expected) > 1e-2
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
