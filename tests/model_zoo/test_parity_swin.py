"""Swin against timm on the same seeded weights."""

from __future__ import annotations

import pathlib

import pytest
import torch
from larger_variants import larger_in_full
from parity import (
    Pair,
    Record,
    check_facts_are_timms,
    check_features,
    check_knn_logits,
    check_logits,
    distance,
    perturbed,
    timm_model,
)
from published_knn import keep_largest
from published_static_keys import ConvStaticKeyAttention, StaticKeyAttention
from timm.models.swin_transformer import SwinTransformer, WindowAttention

PUBLISHED = ["swin_tiny_patch4_window7_224", "swin_base_patch4_window7_224"]


def swin_tiny_32() -> SwinTransformer:
    torch.manual_seed(1)
    return SwinTransformer(
        img_size=32,
        window_size=4,
        embed_dim=96,
        depths=(2, 2, 2),
        num_heads=(3, 6, 12),
        num_classes=10,
    )


def pair_of(name: str, folder: pathlib.Path, images: int = 2) -> Pair:
    if name == "swin_tiny_32":
        return Pair(
            name, perturbed(swin_tiny_32(), name), folder, images=images, side=32
        )
    return Pair(name, timm_model(name), folder, images=images)


@pytest.mark.parametrize("name", [*larger_in_full(PUBLISHED), "swin_tiny_32"])
def test_logits_are_timms(
    name: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    pair = pair_of(name, tmp_path, images=1 if "base" in name else 2)
    check_logits(pair, record_property)


@pytest.mark.parametrize("name", PUBLISHED)
def test_facts_are_timms(name: str) -> None:
    check_facts_are_timms(name)


def test_stage_maps_are_timms(tmp_path: pathlib.Path) -> None:
    pair = pair_of("swin_tiny_patch4_window7_224", tmp_path)
    with torch.inference_mode():
        maps = pair.published.forward_intermediates(
            pair.pixels, intermediates_only=True
        )
    check_features(pair, maps)


@pytest.mark.parametrize("order", ["PAD_THEN_ROLL", "ROLL_THEN_PAD"])
@pytest.mark.parametrize("size", [(256, 256), (224, 128), (320, 192)])
def test_another_input_size_pads_its_windows(
    size: tuple[int, int], order: str, tmp_path: pathlib.Path
) -> None:
    """256 pixels: maps of 64, 32, 16 and 8 tokens, which windows of 7 do not divide. 128: the last map is 7 x 4.

    timm rolls and then pads; for the other order it does here as torchvision.
    """
    name = "swin_tiny_patch4_window7_224"
    published = timm_model(name)
    pair = Pair(name, published, tmp_path, images=1, side=320)
    pair.pixels = pair.pixels[..., : size[0], : size[1]].contiguous()
    published.set_input_size(size, window_size=7)
    for stage in published.layers if order == "PAD_THEN_ROLL" else ():
        for block in stage.blocks:
            pad_before_roll(block)
    sizes = {"image_height": size[0], "image_width": size[1]}
    ours = pair.ours(**sizes, window_padding=order)
    assert distance(ours, pair.expected()) <= 1e-4


def pad_before_roll(block: torch.nn.Module) -> None:
    """timm's block with torchvision's order: padded, then rolled; the mask is that of the padded map."""
    window, shift = block.window_size, block.shift_size

    def cut(x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // window[0], window[0], w // window[1], window[1], c)
        return x.transpose(2, 3).reshape(-1, window[0] * window[1], c)

    def attn(x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        bottom, right = -h % window[0], -w % window[1]
        x = torch.nn.functional.pad(x, (0, 0, 0, right, 0, bottom))
        height, width = h + bottom, w + right
        mask = None
        if any(shift):
            x = x.roll((-shift[0], -shift[1]), (1, 2))
            ends = (torch.arange(height) >= height - shift[0])[:, None] * 2 + (
                torch.arange(width) >= width - shift[1]
            )[None, :]
            ends = cut(ends[None, :, :, None])[..., 0]
            mask = torch.where(ends[:, None] == ends[:, :, None], 0.0, -100.0)
        mixed = block.attn(cut(x), mask=mask)
        mixed = mixed.view(
            b, height // window[0], width // window[1], window[0], window[1], c
        )
        mixed = mixed.transpose(2, 3).reshape(b, height, width, c)
        if any(shift):
            mixed = mixed.roll(shift, (1, 2))
        return mixed[:, :h, :w]

    block._attn = attn


def test_a_table_of_another_window_is_interpolated_as_timm_does(
    tmp_path: pathlib.Path,
) -> None:
    name = "swin_tiny_patch4_window7_224"
    published = timm_model(name)
    pair = Pair(name, published, tmp_path, images=1)
    published.set_input_size((224, 224), window_size=8)  # resizes its tables
    for stage in published.layers:
        for block in stage.blocks:
            pad_before_roll(block)
    ours = pair.ours(attention="shifted_window:window=8")
    assert distance(ours, pair.expected()) <= 1e-4


@pytest.mark.parametrize("attention", ["ska", "cska"])
def test_static_keys_inside_the_windows(
    attention: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    """They take no mask: tokens from both ends of the map meet in the last windows of a rolled map."""
    published = swin_tiny_32()
    for stage in published.layers:
        for block in stage.blocks:
            dim, heads = block.attn.dim, block.attn.num_heads
            height, width = block.window_size
            block.attn = (
                StaticKeyAttention(dim, height * width, heads)
                if attention == "ska"
                else ConvStaticKeyAttention(dim, (height, width), heads)
            )
    perturbed(published, attention)
    pair = Pair("swin_tiny_32", published, tmp_path, images=8, side=32)
    check_logits(pair, record_property, attention=attention)


def test_knn_attention_inside_the_windows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, record_property: Record
) -> None:
    k = 25

    def forward(
        self: WindowAttention, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        windows, tokens, channels = x.shape
        query, key, value = (
            self.qkv(x)
            .reshape(windows, tokens, 3, self.num_heads, -1)
            .permute(2, 0, 3, 1, 4)
        )
        wide = torch.promote_types(x.dtype, torch.float32)
        logits = (query.to(wide) * self.scale) @ key.to(wide).mT
        logits = logits + self._get_rel_pos_bias().to(wide)
        if mask is not None:
            logits = logits.view(-1, len(mask), self.num_heads, tokens, tokens)
            logits = (logits + mask.to(wide)[None, :, None]).flatten(0, 1)
        mixed = keep_largest(logits, k).softmax(-1).to(value.dtype) @ value
        return self.proj(mixed.transpose(1, 2).reshape(windows, tokens, channels))

    monkeypatch.setattr(WindowAttention, "forward", forward)
    name = "swin_tiny_patch4_window7_224"
    pair = pair_of(name, tmp_path, images=5)
    check_knn_logits(pair, record_property, f"knn:k={k}")
