"""Reads the weights that users have on disk: safetensors, or what torch.save wrote, never running what a file says."""

import argparse
import pickle
import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from fovea.published.model import PublishedError

Weights = dict[str, torch.Tensor]

# Keys and prefixes of averaged weights, which are preferred to the last step's, as timm does and DINO.
_AVERAGED = re.compile(r"(?<![a-z])(?:ema|averaged|swa|teacher|shadow)(?![a-z])")
# Inserted into names by torch.compile, FSDP and activation checkpointing.
_INSERTED = re.compile(
    r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
# Older releases of timm stored what follows from a network's sizes.
_COMPUTED = ("relative_position_index", "attn_mask")
# DINO's projection, which only training uses.
_PROJECTION = re.compile(r"(?:.*\.)?head\.(?:mlp|last_layer)\..*")
_TRANSFORMERS = re.compile(
    r"(?:.*\.)?(?:embeddings\.patch_embeddings|encoder\.layer|layernorm_before)\..*"
)
_DEEPEST = 3  # nested wrappers
_ANCHORS = 3  # names of the architecture by which prefixes are found
_MOST_NAMED = 3
_SERVED = (torch.float32, torch.float16, torch.bfloat16, torch.int64)


class _Discarded:
    """Stands in for NumPy scalars, which scripts save with weights. No NumPy code runs."""

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, _: Any) -> None:
        pass


_NUMPY = [
    (_Discarded, name)
    for name in (
        "numpy.dtype",
        "numpy.ndarray",
        *(
            f"numpy.{core}.multiarray.{function}"
            for core in ("core", "_core")
            for function in ("scalar", "_reconstruct")
        ),
    )
]


@dataclass(frozen=True)
class _Found:
    """Tensors of a file as an architecture names them."""

    key: str  # under which the file has them; "" for the file itself
    prefix: str  # of their names there
    weights: Weights
    outside: Weights  # those whose names lack the prefix and are not the architecture's either
    matching: int  # of the architecture's names
    renamed: bool

    @property
    def averaged(self) -> bool:
        return any(map(_AVERAGED.search, (self.key, self.prefix)))

    @property
    def place(self) -> str:
        key = f"'{self.key}'" if self.key else ""
        names = f"names that begin with '{self.prefix}'" if self.prefix else ""
        return ", under ".join(filter(None, (key, names))) or "no key"


def read_weights(
    path: Path, architecture: str, wanted: Collection[str]
) -> tuple[Weights, list[str]]:
    """The tensors by name, and what was decided on the way, in sentences. Raises PublishedError.

    `wanted`: names that `architecture` has. Where the file has them under a key or behind a common prefix, that one set of
    tensors is taken; of several, the averaged one.
    """
    found, notes = _choose(path, architecture, _read(path), wanted)
    weights = found.weights
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
    check_types(str(path), weights)
    return weights, notes


def check_types(what: str, weights: Weights) -> None:
    """Raises PublishedError for numbers that the server does not read."""
    for name, tensor in weights.items():
        if tensor.dtype not in _SERVED:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise PublishedError(
                f"{what} has {name} as {kind}: weights are float32, float16 or bfloat16"
            )


def _choose(
    path: Path, architecture: str, checkpoint: dict[Any, Any], wanted: Collection[str]
) -> tuple[_Found, list[str]]:
    """The set of tensors with the wanted names, or with most of them if none has all."""
    candidates = [
        found
        for key, tensors in _tensors(path, checkpoint)
        for found in _without_prefixes(key, tensors, wanted)
    ]
    if not candidates:
        raise _nameless(path, list(checkpoint))
    candidates.sort(key=lambda found: -found.matching)
    whole = [found for found in candidates if found.matching == len(wanted)]
    chosen = next((found for found in whole if found.averaged), candidates[0])
    if not whole:
        _check_not_transformers(path, chosen.weights)
    if chosen.matching == 0:
        raise PublishedError(
            f"{path} has none of the names that {architecture} has, such as {next(iter(wanted))}: its own are "
            f"{named(list(chosen.weights))}"
        )
    rivals = [
        found
        for found in whole
        if found.averaged == chosen.averaged and not _equal(found, chosen, wanted)
    ]
    if rivals:
        places = ", ".join(found.place for found in (chosen, *rivals))
        raise PublishedError(
            f"{path} holds different weights of {architecture} ({places}): save only the ones that you mean"
        )
    notes = []
    if chosen.key or chosen.prefix:
        beside = [found.place for found in whole if not found.averaged]
        other = f", and not {beside[0]}" if chosen.averaged and beside else ""
        notes.append(f"The weights are those of {chosen.place} in the file{other}.")
    if chosen.renamed:
        notes.append(
            "The names are those of timm before 0.9 and of Swin's authors; they were changed to today's."
        )
    spare = _spare(chosen, candidates, wanted)
    layers = [name for name in spare if spare[name].dim() > 1]
    if whole and (strange := [n for n in layers if not _PROJECTION.fullmatch(n)]):
        raise PublishedError(
            f"{path} holds what {architecture} has no place for: {named(strange)}"
        )
    if spare:
        notes.append(
            f"Left out, because {architecture} has no place for them: {named(list(spare))}."
        )
    return chosen, notes


def _spare(
    chosen: _Found, candidates: list[_Found], wanted: Collection[str]
) -> Weights:
    """Tensors beside the chosen ones that belong to no other set; those among them that may be no part of a model are taken out."""
    others = tuple(
        found.prefix
        for found in candidates
        if found.key == chosen.key
        and found.prefix
        and found.prefix != chosen.prefix
        and 2 * found.matching > len(wanted)
    )
    spare = {
        name: tensor
        for name, tensor in chosen.outside.items()
        if not others or not name.startswith(others)
    }
    for name in list(chosen.weights):
        if name not in wanted and chosen.weights[name].dim() == 0:
            spare[name] = chosen.weights.pop(name)
    return spare


def _tensors(
    path: Path, tree: dict[Any, Any], key: str = "", depth: int = 0
) -> Iterator[tuple[str, Weights]]:
    """Every set of tensors by name in nested dictionaries, and its key."""
    tensors = {
        name: value for name, value in tree.items() if isinstance(value, torch.Tensor)
    }
    strange = [name for name in tensors if not isinstance(name, str)]
    if strange and depth == 0:
        raise _nameless(path, strange)
    if tensors and not strange:
        yield key, tensors
    if depth < _DEEPEST:
        for name, value in tree.items():
            if isinstance(name, str) and isinstance(value, dict):
                inner = f"{key}.{name}" if key else name
                yield from _tensors(path, value, inner, depth + 1)


def _without_prefixes(
    key: str, tensors: Weights, wanted: Collection[str]
) -> Iterator[_Found]:
    """The tensors under their own names, and without each prefix that may precede the wanted names."""
    tensors = {_INSERTED.sub("", name): tensors[name] for name in tensors}
    prefixes = {
        name.removesuffix(anchor)
        for anchor in list(wanted)[:_ANCHORS]
        for name in tensors
        if name.endswith("." + anchor)
    }
    for prefix in ("", *sorted(prefixes, key=len)):
        inside = {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        outside = {
            name: tensor
            for name, tensor in tensors.items()
            if not name.startswith(prefix)
        }
        # Such as the classifier beside a backbone.
        for name in [name for name in outside if name in wanted]:
            if name not in inside:
                inside[name] = outside.pop(name)
        weights = _todays(inside, wanted)
        yield _Found(
            key,
            prefix,
            weights,
            outside,
            matching=sum(name in weights for name in wanted),
            renamed=weights is not inside,
        )


def _todays(weights: Weights, wanted: Collection[str]) -> Weights:
    """Converts the names of Swin's authors and of timm before 0.9, which merge maps at the end of a stage."""
    merged = "layers.{}.downsample.reduction.weight"
    if merged.format(1) not in wanted or merged.format(0) not in weights:
        return weights
    return {
        re.sub(
            r"^layers\.(\d+)(?=\.downsample\.)",
            lambda match: f"layers.{int(match[1]) + 1}",
            re.sub(r"^head\.(?=weight$|bias$)", "head.fc.", name),
        ): tensor
        for name, tensor in weights.items()
    }


def _equal(one: _Found, other: _Found, wanted: Collection[str]) -> bool:
    pairs = [(one.weights[name], other.weights[name]) for name in wanted]
    return all(
        a is b or (_is_whole(a) and _is_whole(b) and torch.equal(a, b))
        for a, b in pairs
    )


def _nameless(path: Path, keys: list[Any]) -> PublishedError:
    verb = "is no tensor" if len(keys) == 1 else "are no tensors"
    found = f": {named(list(map(str, keys)))} {verb} with a name" if keys else ""
    return PublishedError(f"{path} holds no weights by name{found}")


def _check_not_transformers(path: Path, weights: Weights) -> None:
    foreign = [name for name in weights if _TRANSFORMERS.fullmatch(name)]
    if foreign:
        raise PublishedError(
            f"{path} has transformers' names, such as {foreign[0]}: import the folder that save_pretrained wrote, as "
            "transformers:FOLDER"
        )


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
        harmless = torch.serialization.safe_globals([argparse.Namespace, *_NUMPY])
        with harmless, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a TorchScript, with torch's own lines
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise PublishedError(f"{path} {why_not_read(error)}") from error
    except Exception as error:  # of what a file holds, anything may be raised there
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise PublishedError(f"{path} cannot be read: {lines[0]}") from error
    if not isinstance(checkpoint, dict):
        raise PublishedError(
            f"{path} holds a {type(checkpoint).__name__}, and not weights by name"
        )
    return checkpoint


def why_not_read(error: pickle.UnpicklingError) -> str:
    """In place of torch's advice, which recommends to load the file all the same."""
    found = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", str(error))
    if not found:
        return "cannot be read: it is not what torch.save writes"
    return f"holds more than weights, and it could be code: {found[1]}. Save the model's state_dict() alone"
