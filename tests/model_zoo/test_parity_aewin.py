"""AEWin, and the attentions that its paper compares, against their definitions in plain PyTorch (plain_attention.py).

No code of AEWin was published. The frame, Swin, is timm's.
"""

from __future__ import annotations

import math
import pathlib

import pytest
import safetensors.torch
import torch
from parity import (
    Pair,
    Record,
    check_features,
    check_logits,
    distance,
    facts_of,
    perturbed,
)
from plain_attention import plain_swin
from timm.layers import resize_rel_pos_bias_table
from timm.models.swin_transformer import SwinTransformer

HEADS = (4, 8, 16, 32)
AEWIN = {
    "aewin_tiny_224": {"embed_dim": 64, "depths": (1, 2, 21, 1)},
    "aewin_base_224": {"embed_dim": 96, "depths": (2, 4, 32, 2)},
}
PAPER = {"aewin_tiny_224": 23e6, "aewin_base_224": 78e6}
FRAME = "swin_tiny_heads4_224"


def aewin(name: str, side: int = 224) -> SwinTransformer:
    return plain_swin("aewin", side, num_heads=HEADS, **AEWIN[name])


def aewin_tiny(folder: pathlib.Path, side: int = 224) -> Pair:
    torch.manual_seed(1)
    name = "aewin_tiny_224"
    return Pair(name, perturbed(aewin(name, side), name), folder, images=1, side=side)


def test_logits_are_the_definitions(
    tmp_path: pathlib.Path, record_property: Record
) -> None:
    check_logits(aewin_tiny(tmp_path), record_property)


@pytest.mark.full
def test_logits_of_the_larger_one_are_the_definitions(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(1)
    name, side = "aewin_base_224", 128
    plain = perturbed(aewin(name, side), name)
    pair = Pair(name, plain, tmp_path, images=1, side=side)
    ours = pair.ours(image_height=side, image_width=side)
    assert distance(ours, pair.expected()) <= 1e-4


def test_another_input_size_pads_the_windows(tmp_path: pathlib.Path) -> None:
    """128 pixels: maps of 32, 16, 8 and 4 tokens, which windows of 7 do not divide."""
    pair = aewin_tiny(tmp_path, side=128)
    size = {"image_height": 128, "image_width": 128}
    assert distance(pair.ours(**size), pair.expected()) <= 1e-4
    with torch.inference_mode():
        maps = pair.published.forward_intermediates(
            pair.pixels, intermediates_only=True
        )
    check_features(pair, maps, **size)


def as_timm_resizes(table: torch.Tensor, distances: int, square: bool) -> torch.Tensor:
    """timm knows windows: a line is one whose rows are all alike."""
    if not square:
        table = table.expand(len(table), -1, -1).flatten(0, 1)
    side = math.isqrt(distances) if square else distances
    resized = resize_rel_pos_bias_table(
        table, [(side + 1) // 2] * 2, (side**2, table.shape[1])
    )
    return resized if square else resized[:side]


def test_tables_of_another_input_size_are_resized_as_timms(
    tmp_path: pathlib.Path,
) -> None:
    """Tables of 224 pixels at 160: of rows, of columns and, in the last stage, of windows."""
    pair = aewin_tiny(tmp_path)
    weights = safetensors.torch.load_file(pair.weights)
    smaller = aewin("aewin_tiny_224", side=160).eval()
    resized = set()
    with torch.no_grad():
        for name, parameter in smaller.named_parameters():
            weight = weights[name]
            if weight.shape != parameter.shape:
                kind = name.rpartition(".")[2]
                weight = as_timm_resizes(weight, len(parameter), kind == "bias_window")
                resized.add(kind)
            parameter.copy_(weight)
    assert resized == {"bias_rows", "bias_columns", "bias_window"}
    pair.published, pair.pixels = smaller, pair.pixels[..., :160, :160].contiguous()
    ours = pair.ours(image_height=160, image_width=160)
    assert distance(ours, pair.expected()) <= 1e-4


@pytest.mark.parametrize("name", AEWIN)
def test_parameters_lie_beside_the_papers(name: str) -> None:
    """The paper gives totals without widths; CSWin's with Swin's merging are 1.6 M and 2.6 M below them."""
    with torch.device("meta"):
        plain = sum(parameter.numel() for parameter in aewin(name).parameters())
    facts = facts_of(backbone=name, random_weights_seed=0)
    print(
        f"{name}: {facts['parameters'] / 1e6:.2f} M parameters, paper {PAPER[name] / 1e6:.0f} M"
    )
    assert facts["parameters"] == plain
    assert 0.92 * PAPER[name] < plain < PAPER[name]
    assert facts["attention"] == "aewin"


@pytest.mark.parametrize(
    "kind",
    ["shifted_window", "axial", "criss_cross", "pale", "cross_shaped", "aewin"],
)
def test_attentions_in_one_frame_are_their_definitions(
    kind: str, tmp_path: pathlib.Path, record_property: Record
) -> None:
    torch.manual_seed(2)
    plain = plain_swin(kind, embed_dim=96, depths=(2, 2, 6, 2), num_heads=HEADS)
    pair = Pair(FRAME, perturbed(plain, kind), tmp_path, images=1)
    error = distance(pair.ours(attention=kind), pair.expected())
    record_property("fp32_error_over_std", error)
    print(f"{FRAME} {kind}: fp32 {error:.1e}")
    assert error <= 1e-4
