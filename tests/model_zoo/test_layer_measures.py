"""KVT's measures of each layer of a model, against timm's model of the same weights."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
import safetensors.torch
import timm
import torch

BUILD = pathlib.Path(__file__).resolve().parents[2] / os.environ.get(
    "FOVEA_BUILD", "build/release"
)
torch.ops.load_library(BUILD / "lib" / "libfovea_models.so")

NAME = "deit_tiny_patch16_224"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory):
    torch.manual_seed(3)
    reference = timm.create_model(NAME).eval()
    weights = tmp_path_factory.mktemp("weights") / "model.safetensors"
    safetensors.torch.save_file(reference.state_dict(), weights)
    return reference, weights, torch.randn(2, 3, 224, 224)


def measures(weights: pathlib.Path, pixels: torch.Tensor, attention: str) -> dict:
    description = {"backbone": NAME, "weights": str(weights), "attention": attention}
    model = torch.classes.fovea_models.Model(json.dumps(description), "cpu", False)
    return model.measures(pixels)


def expected_of_blocks(reference: torch.nn.Module, pixels: torch.Tensor) -> dict:
    """The measures by their definitions, from what each of timm's blocks computes."""
    found: dict[str, torch.Tensor] = {}
    places = torch.cartesian_prod(torch.arange(14.0), torch.arange(14.0))
    distances = torch.cdist(places, places)
    with torch.inference_mode():
        x = reference._pos_embed(reference.patch_embed(pixels))
        for i, block in enumerate(reference.blocks):
            attn = block.attn
            qkv = attn.qkv(block.norm1(x)).unflatten(-1, (3, attn.num_heads, -1))
            query, key, value = qkv.permute(2, 0, 3, 1, 4)
            weights = (query @ key.mT * attn.scale).softmax(-1)
            branch = attn.proj((weights @ value).transpose(1, 2).flatten(2))
            after = x + branch
            mlp = block.mlp(block.norm2(after))
            output = after + mlp
            unit = torch.nn.functional.normalize(output, dim=-1)
            n = unit.shape[1]
            name = f"blocks.{i}."
            found[name + "cosine_similarity"] = ((unit @ unit.mT).sum((1, 2)) - n) / (
                n * (n - 1)
            )
            found[name + "attention_norm_ratio"] = (
                branch.norm(dim=-1) / x.norm(dim=-1)
            ).mean(-1)
            found[name + "mlp_norm_ratio"] = (
                mlp.norm(dim=-1) / after.norm(dim=-1)
            ).mean(-1)
            found[name + "attention_standard_deviation"] = weights.std(
                -1, correction=0
            ).mean((1, 2))
            found[name + "nonlocality"] = (weights[:, :, 1:, 1:] * distances).sum(
                (2, 3)
            ) / 196
            x = output
    return found


def test_every_layer_is_measured_as_defined(pair) -> None:
    reference, weights, pixels = pair
    ours = measures(weights, pixels, "dense")
    expected = expected_of_blocks(reference, pixels)
    assert set(ours) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(ours[name], value, rtol=2e-3, atol=1e-5, msg=name)


def test_k_nn_attention_spreads_its_weights_less(pair) -> None:
    _, weights, pixels = pair
    dense = measures(weights, pixels, "dense")
    knn = measures(weights, pixels, "knn:k=20")
    name = "blocks.0.attention_standard_deviation"
    assert (knn[name] > dense[name]).all()
    exact = measures(weights, pixels, "knn:k=20,exact")
    assert not torch.equal(exact[name], knn[name])
