"""Variants that are the code of a smaller one with more channels and blocks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

LARGER = {
    "vit_base_patch16_224",
    "vit_base_patch16_224.dino",
    "deit_base_patch16_224",
    "deit_base_distilled_patch16_224",
    "swin_base_patch4_window7_224",
    "cswin_base_224",
    "pale_base_224",
    "aewin_base_224",
    "volo_d3_448",
    "caformer_b36",
    "skaformer_b36",
    "cskaformer_b36",
}


def larger_in_full(names: Iterable[str]) -> list[object]:
    """Parameters of a test whose passes of all of them are too long for continuous integration."""
    return [
        pytest.param(name, marks=pytest.mark.full) if name in LARGER else name
        for name in names
    ]
