"""Weights that a user has on disk, as one of the architectures that Fovea has."""

from dataclasses import replace
from pathlib import Path

from fovea.published import own_vit, timm_models, torchvision_models
from fovea.published.checkpoint import read_weights
from fovea.published.model import PublishedError, PublishedModel, UnknownModel

_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".tar", ".ckpt")


def path_of(source: str) -> Path | None:
    """Of "file:PATH", and of "torchvision:PATH"; None where the source is a published model's name."""
    kind, _, name = source.partition(":")
    if kind == "file" or (kind == "torchvision" and name.endswith(_SUFFIXES)):
        return Path(name)
    return None


def check_architecture(source: str, architecture: str) -> None:
    """Raises UnknownModel where a file cannot be imported as `architecture`."""
    known = _architectures(source)
    if architecture not in known:
        torchvision_models.check_held(architecture)
        listed = "\n".join(f"  {name}" for name in known)
        raise UnknownModel(
            f"{architecture!r} is none of the architectures of which Fovea takes a file:\n{listed}"
        )


def read(
    source: str,
    architecture: str,
    image_size: tuple[int, int] | None = None,
    heads: int | None = None,
) -> PublishedModel:
    """`image_size`: height and width. `heads`: for "vit" only. Raises PublishedError in a sentence."""
    check_architecture(source, architecture)
    path = path_of(source)
    if path is None:
        raise UnknownModel(f"{source!r} names no file")
    if architecture == own_vit.BACKBONE:
        weights, notes = read_weights(path, architecture, own_vit.names())
        model = own_vit.of_weights(path, weights, image_size, heads)
    elif architecture in timm_models.KNOWN and not source.startswith("torchvision:"):
        wanted = timm_models.names(architecture)
        weights, notes = read_weights(path, architecture, wanted)
        model = timm_models.of_weights(architecture, path, weights, image_size)
    elif image_size is not None:
        raise PublishedError(
            f"--image-size does not go with --as {architecture}: model.textproto has its sizes"
        )
    else:
        wanted = torchvision_models.names(architecture)
        weights, notes = read_weights(path, architecture, wanted)
        model = torchvision_models.of_weights(architecture, path, weights)
    return replace(model, notes=(*notes, *model.notes))


def _architectures(source: str) -> list[str]:
    if source.startswith("torchvision:"):
        return list(torchvision_models.KNOWN)
    names = [own_vit.BACKBONE, *timm_models.KNOWN, *torchvision_models.KNOWN]
    return list(dict.fromkeys(names))
