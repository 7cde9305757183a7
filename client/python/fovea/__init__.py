"""Python side of Fovea, an inference server for vision transformers.

fovea.client calls a server, and needs no PyTorch. fovea.Model runs a model's folder in this process, fovea.swap_attention puts
Fovea's attention into a model of timm's, fovea.ops has the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fovea.model import Model
    from fovea.swap import swap_attention

__version__ = "0.1.0"
__all__ = ["Model", "swap_attention"]


def __getattr__(name: str) -> object:
    """PyTorch is imported by what needs it, when it is first asked for."""
    if name == "Model":
        from fovea.model import Model

        return Model
    if name == "swap_attention":
        from fovea.swap import swap_attention

        return swap_attention
    raise AttributeError(f"module 'fovea' has no attribute {name!r}")
