"""The library of operators, loaded, and what the tests of this folder run it on."""

from __future__ import annotations

import os
import pathlib

import torch

LIBRARY = (
    pathlib.Path(__file__).resolve().parents[2]
    / os.environ.get("FOVEA_BUILD", "build/release")
    / "lib"
    / "libfovea_kernels.so"
)
torch.ops.load_library(LIBRARY)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# What is not the reference: its types, device by device.
FAST = [
    (device, dtype)
    for device in DEVICES
    for dtype in (torch.float32, torch.bfloat16, torch.float16)
    if device == "cuda" or dtype != torch.float16
]
