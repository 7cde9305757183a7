"""The frame of the trained comparison against timm's vision transformer without a class token."""

from __future__ import annotations

import pathlib

import torch
from parity import Pair, Record, check_logits, perturbed
from timm.models import VisionTransformer


def test_logits_are_timms(tmp_path: pathlib.Path, record_property: Record) -> None:
    torch.manual_seed(2)
    model = VisionTransformer(
        img_size=64,
        patch_size=8,
        embed_dim=128,
        depth=4,
        num_heads=4,
        mlp_ratio=2,
        num_classes=10,
        class_token=False,
        global_pool="avg",
        fc_norm=False,
    )
    name = "demo_frame_64"
    check_logits(Pair(name, perturbed(model, name), tmp_path, side=64), record_property)
