"""Python side of Fovea, an inference server for vision transformers.

fovea.client calls a server, and needs no PyTorch. fovea.Model runs a model's folder in this process, fovea.swap_attention puts
Fovea's attention into a model of timm's, fovea.ops has the kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fovea import client, ops
    from fovea.model import Model
    from fovea.swap import swap_attention

__version__ = "0.1.0"
__all__ = ["Model", "client", "ops", "swap_attention"]

_HOMES = {"Model": "fovea.model", "swap_attention": "fovea.swap"}


def __getattr__(name: str) -> object:
    """What needs PyTorch or gRPC imports it when it is first asked for."""
    if name in ("client", "ops"):
        return importlib.import_module(f"fovea.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fovea' has no attribute {name!r}")
