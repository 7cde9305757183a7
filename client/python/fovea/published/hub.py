"""Repositories of Hugging Face's hub, in its cache or fetched."""

import re
from collections.abc import Iterable
from pathlib import Path

import huggingface_hub

from fovea.published.model import HUB_TIMEOUT_S, not_fetched

# In the order in which one is taken; each with the index that names its parts where they are several.
_WEIGHTS = (
    ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"),
)
_DESCRIPTIONS = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "adapter_config.json",
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def is_repository(name: str) -> bool:
    """True for OWNER/NAME."""
    return bool(_REPOSITORY.fullmatch(name))


def weights_of(folder: Path) -> str | None:
    """The file with the weights, or the index of its parts."""
    present = (file for whole, index, _ in _WEIGHTS for file in (whole, index))
    return next((file for file in present if (folder / file).is_file()), None)


def file(name: str, wanted: str) -> Path:
    """One file of a repository. Raises PublishedError."""
    cached = huggingface_hub.try_to_load_from_cache(name, wanted)
    if isinstance(cached, str):
        return Path(cached)
    try:
        huggingface_hub.HfApi().model_info(name, timeout=HUB_TIMEOUT_S)
        return Path(huggingface_hub.hf_hub_download(name, wanted))
    except Exception as error:  # among them those of the hub's HTTP library
        raise not_fetched(name, error) from error


def folder(name: str) -> Path:
    """A folder with the descriptions and the weights of a repository, and nothing else of it. Raises PublishedError."""
    cached = _cached(name)
    if cached is not None and weights_of(cached):
        return cached
    try:
        info = huggingface_hub.HfApi().model_info(name, timeout=HUB_TIMEOUT_S)
        there = {sibling.rfilename for sibling in info.siblings or ()}
        return Path(
            huggingface_hub.snapshot_download(
                name, revision=info.sha, allow_patterns=_wanted(there)
            )
        )
    except Exception as error:  # among them those of the hub's HTTP library
        raise not_fetched(name, error) from error


def _cached(name: str) -> Path | None:
    config = huggingface_hub.try_to_load_from_cache(name, "config.json")
    return Path(config).parent if isinstance(config, str) else None


def _wanted(there: Iterable[str]) -> list[str]:
    there = set(there)
    for whole, index, parts in _WEIGHTS:
        if whole in there:
            return [*_DESCRIPTIONS, whole]
        if index in there:
            return [*_DESCRIPTIONS, index, parts]
    return [*_DESCRIPTIONS, _WEIGHTS[0][0]]
