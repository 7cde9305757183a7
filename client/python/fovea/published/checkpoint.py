"""Reads the weights that users have on disk: safetensors, or what torch.save wrote, never running what a file says."""

import argparse
import pickle
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from timm.models import clean_state_dict

from fovea.published.model import PublishedError

Weights = dict[str, torch.Tensor]

# In what timm's and torchvision's training scripts write, the weights lie under one of these; averaged ones first, as
# timm itself prefers them.
_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
# Older releases of timm stored what follows from a network's sizes.
_COMPUTED = ("relative_position_index", "attn_mask")
_MOST_NAMED = 3


def read_weights(path: Path) -> tuple[Weights, list[str]]:
    """The tensors by name, and what was decided on the way, in sentences. Raises PublishedError."""
    checkpoint = _read(path)
    notes = []
    present = [key for key in _WRAPPERS if isinstance(checkpoint.get(key), dict)]
    if present:
        checkpoint = checkpoint[present[0]]
        others = f", and not '{present[1]}'" if len(present) > 1 else ""
        notes.append(f"The weights are those of '{present[0]}' in the file{others}.")
    strange = [
        str(name)
        for name, value in checkpoint.items()
        if not isinstance(name, str) or not isinstance(value, torch.Tensor)
    ]
    if strange or not checkpoint:
        raise PublishedError(
            f"{path} holds no weights by name"
            + (f": {named(strange)} is no tensor with a name" if strange else "")
        )
    weights = clean_state_dict(checkpoint)
    hollow = [name for name in weights if not _is_whole(weights[name])]
    if hollow:
        raise PublishedError(f"{path} does not hold every number of {named(hollow)}")
    computed = [name for name in weights if name.endswith(_COMPUTED)]
    for name in computed:
        del weights[name]
    if computed:
        notes.append(f"Left out, because Fovea computes them: {named(computed)}.")
    doubles = [name for name in weights if weights[name].dtype == torch.float64]
    for name in doubles:
        weights[name] = weights[name].float()
    if doubles:
        notes.append(f"Rounded from 64 to 32 bits: {named(doubles)}.")
    return weights, notes


def check_fit(
    what: str, weights: Weights, architecture: str, *fitting: Weights
) -> None:
    """Raises PublishedError where `weights` are not exactly the tensors of `architecture`, by name and shape.

    `fitting`: those tensors; where there are several sets of the same names, each shape may be of any of them.
    """
    expected = fitting[0]
    missing = [name for name in expected if name not in weights]
    extra = [name for name in weights if name not in expected]
    for names, wrong in (
        (missing, f"lacks what {architecture} needs"),
        (extra, f"holds what {architecture} has no place for"),
    ):
        if names:
            raise PublishedError(f"{what} {wrong}: {named(names)}")
    for name, tensor in weights.items():
        shapes = [list(one[name].shape) for one in fitting]
        if list(tensor.shape) not in shapes:
            raise PublishedError(
                f"{what} has {name} as {list(tensor.shape)}, and {architecture} needs {shapes[0]}"
            )


def shape_of(path: Path, weights: Weights, name: str, dimensions: int) -> list[int]:
    """Of a tensor from which something is to follow; none of its sides is 0. Raises PublishedError."""
    if name not in weights:
        raise PublishedError(f"{path} has no {name}")
    shape = list(weights[name].shape)
    if len(shape) != dimensions or not all(shape):
        raise PublishedError(f"{path} has {name} as {shape}, of which nothing follows")
    return shape


def named(names: list[str]) -> str:
    listed = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def _is_whole(tensor: torch.Tensor) -> bool:
    """Its numbers are in the file, each in a place: a few bytes may be a tensor of any size otherwise."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    held = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.numel() <= held


def _read(path: Path) -> dict[Any, Any]:
    if not path.is_file():
        raise PublishedError(f"there is no file {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        # timm stores its command line, which is data and nothing else.
        with torch.serialization.safe_globals([argparse.Namespace]):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise PublishedError(f"{path} {_why(error)}") from error
    except Exception as error:  # of what a file holds, anything may be raised there
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise PublishedError(f"{path} cannot be read: {lines[0]}") from error
    if not isinstance(checkpoint, dict):
        raise PublishedError(
            f"{path} holds a {type(checkpoint).__name__}, and not weights by name"
        )
    return checkpoint


def _why(error: pickle.UnpicklingError) -> str:
    """In place of torch's advice, which recommends to load the file all the same."""
    found = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", str(error))
    if not found:
        return "cannot be read: it is not what torch.save writes"
    return f"holds more than weights, and it could be code: {found[1]}. Save the model's state_dict() alone"
