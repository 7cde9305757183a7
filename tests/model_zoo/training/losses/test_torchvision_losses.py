"""The numbers that losses_test.cc compares with are those that torchvision gives."""

from __future__ import annotations

import pathlib

import torch
from safetensors.torch import load_file
from torchvision_losses import torchvision_losses

STORED = pathlib.Path(__file__).parent / "torchvision_losses.safetensors"


def test_the_stored_losses_are_torchvisions() -> None:
    stored, now = load_file(STORED), torchvision_losses()
    assert stored.keys() == now.keys()
    for name, value in now.items():
        # Another processor may sum in another order: as in losses_test.cc.
        bound = 500 * 2.0**-24 * max(1.0, float(value.abs().max()))
        assert float((stored[name] - value).abs().max()) <= bound, name
        assert torch.isfinite(value).all(), name
