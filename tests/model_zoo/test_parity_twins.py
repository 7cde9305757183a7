"""Twins-SVT against timm on the same seeded weights."""

from __future__ import annotations

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
    facts_of,
    timm_model,
)
from published_knn import knn_mixture
from timm.models.twins import GlobalSubSampleAttn, LocallyGroupedAttn

NAME = "twins_svt_base"


SMALL = {"image_height": 128, "image_width": 128}


@pytest.fixture(scope="module")
def published() -> torch.nn.Module:
    return timm_model(NAME)


@pytest.fixture(scope="module")
def pair(published: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(NAME, published, tmp_path_factory.mktemp(NAME), images=1)


@pytest.fixture(scope="module")
def small_pair(
    published: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    """Five images of 128 pixels."""
    return Pair(NAME, published, tmp_path_factory.mktemp(NAME), images=5, side=128)


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


def test_another_input_size_pads_its_windows(small_pair: Pair) -> None:
    """Maps of 32, 16, 8 and 4 tokens, the last of them smaller than a window of 7; 16 sub-sampled keys."""
    assert distance(small_pair.ours(**SMALL), small_pair.expected()) <= 1e-4


def test_a_count_of_keys_fits_both_kinds_of_blocks() -> None:
    """At 128 pixels a query sees 49 keys in its window and 16 of the whole map."""
    model = {"backbone": NAME, "random_weights_seed": 0, **SMALL}
    with pytest.raises(ValueError, match="k=17, but a query sees only 16 keys"):
        facts_of(attention="knn:k=17", **model)
    assert facts_of(attention="knn:k=16", **model)["attention"] == "knn:k=16"


def windows(x: torch.Tensor, side: int) -> torch.Tensor:
    """[B, H, W, C] -> [B * windows, side * side, C]."""
    _, height, width, channels = x.shape
    x = x.unflatten(2, (width // side, side)).unflatten(1, (height // side, side))
    return x.transpose(2, 3).reshape(-1, side * side, channels)


def test_logits_with_knn_attention_are_those_of_the_published_form(
    small_pair: Pair, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    """Two thirds of the 49 keys of a window, padding among them, and of the 16 sub-sampled ones."""
    kept = {49: 33, 16: 11}

    def heads(self: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

    def local(
        self: LocallyGroupedAttn, x: torch.Tensor, size: tuple[int, int]
    ) -> torch.Tensor:
        bottom, right = (-extent % self.ws for extent in size)
        map_ = torch.nn.functional.pad(
            x.unflatten(1, size), (0, 0, 0, right, 0, bottom)
        )
        tokens = self.qkv(windows(map_, self.ws))
        query, key, value = (heads(self, part) for part in tokens.chunk(3, dim=-1))
        mixed = knn_mixture(query, key, value, self.scale, kept[key.shape[2]])
        rows, columns = (size[0] + bottom) // self.ws, (size[1] + right) // self.ws
        mixed = mixed.transpose(1, 2).reshape(
            len(x), rows, columns, self.ws, self.ws, self.dim
        )
        mixed = mixed.transpose(2, 3).reshape(map_.shape)[:, : size[0], : size[1]]
        return self.proj(mixed.reshape(x.shape))

    def sub_sampled(
        self: GlobalSubSampleAttn, x: torch.Tensor, size: tuple[int, int]
    ) -> torch.Tensor:
        sampled = x
        if self.sr is not None:
            sampled = self.sr(x.mT.unflatten(2, size)).flatten(2).mT
            sampled = self.norm(sampled)
        key, value = (heads(self, part) for part in self.kv(sampled).chunk(2, dim=-1))
        query = heads(self, self.q(x))
        mixed = knn_mixture(query, key, value, self.scale, kept[key.shape[2]])
        return self.proj(mixed.transpose(1, 2).flatten(2))

    monkeypatch.setattr(LocallyGroupedAttn, "forward", local)
    monkeypatch.setattr(GlobalSubSampleAttn, "forward", sub_sampled)
    check_knn_logits(small_pair, record_property, "knn:k=0.67", **SMALL)


def test_maps_are_those_of_the_windows_and_of_the_sub_sampled_keys(
    small_pair: Pair,
) -> None:
    """A padded token takes its weight with it; a sub-sampled key shares its weight out among its 8x8 tokens."""
    pixels = small_pair.pixels[:2]
    attentions = [block.attn for block in small_pair.published.blocks[0]]
    inputs = []
    hooks = [
        attention.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        for attention in attentions
    ]
    with torch.inference_mode():
        small_pair.published(pixels)
        expected = [
            local_map(attentions[0], inputs[0]),
            sub_sampled_map(attentions[1], inputs[1]),
        ]
    for hook in hooks:
        hook.remove()
    places = torch.cartesian_prod(torch.arange(32.0), torch.arange(32.0))
    distances = torch.cdist(places, places)
    ours = small_pair.model(prepared=False, **SMALL).measures(pixels)
    for block, weights in enumerate(expected):
        name = f"blocks.0.{block}."
        torch.testing.assert_close(
            ours[name + "nonlocality"],
            (weights * distances).sum((2, 3)) / 1024,
            rtol=2e-3,
            atol=1e-5,
        )
        torch.testing.assert_close(
            ours[name + "attention_standard_deviation"],
            weights.std(-1, correction=0).mean((1, 2)),
            rtol=2e-3,
            atol=1e-5,
        )


def local_map(self: LocallyGroupedAttn, x: torch.Tensor) -> torch.Tensor:
    """Attention among all of the padded map's tokens, masked between windows."""
    side = 35
    padded = torch.nn.functional.pad(x.unflatten(1, (32, 32)), (0, 0, 0, 3, 0, 3))
    qkv = self.qkv(padded.flatten(1, 2)).unflatten(2, (3, self.num_heads, -1))
    query, key, _ = qkv.permute(2, 0, 3, 1, 4)
    row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
    window = row // 7 * 5 + column // 7
    logits = (query @ key.mT * self.scale).masked_fill(
        window[:, None] != window, float("-inf")
    )
    real = (row < 32) & (column < 32)
    return logits.softmax(-1)[:, :, real][..., real]


def sub_sampled_map(self: GlobalSubSampleAttn, x: torch.Tensor) -> torch.Tensor:
    sampled = self.norm(self.sr(x.mT.unflatten(2, (32, 32))).flatten(2).mT)
    query = self.q(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
    key, _ = (
        self.kv(sampled).unflatten(2, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
    )
    weights = (query @ key.mT * self.scale).softmax(-1)
    row, column = torch.arange(1024) // 32, torch.arange(1024) % 32
    return weights[..., row // 8 * 4 + column // 8] / 64
