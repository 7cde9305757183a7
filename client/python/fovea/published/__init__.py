"""Published models: weights under their published names, preprocessing and labels.

A source is "KIND:NAME"; each kind is a module with KNOWN (its names and the backbone of each), resolve, fetch and
randomised.
"""

from types import ModuleType

from fovea.published import timm_models, transformers_models
from fovea.published.model import PublishedError, PublishedModel, UnknownModel

__all__ = [
    "KNOWN",
    "PublishedError",
    "PublishedModel",
    "UnknownModel",
    "fetch",
    "randomised",
    "resolve",
]

_KINDS: dict[str, ModuleType] = {
    "timm": timm_models,
    "transformers": transformers_models,
}

# Every source that is known, and Fovea's backbone for it.
KNOWN: dict[str, str] = {
    f"{kind}:{name}": backbone
    for kind, module in _KINDS.items()
    for name, backbone in module.KNOWN.items()
}


def resolve(source: str) -> tuple[str, str]:
    """Turns "KIND:NAME" into (Fovea's backbone, the published name). Raises UnknownModel.

    A timm name may carry the tag of its weights, as in deit_tiny_patch16_224.fb_in1k; a transformers name may be a
    folder.
    """
    kind, _, name = source.partition(":")
    if kind in _KINDS and (backbone := _KINDS[kind].resolve(name)):
        return backbone, name
    known = "\n".join(f"  {known}" for known in KNOWN)
    raise UnknownModel(f"{source!r} is none of the models that Fovea knows:\n{known}")


def fetch(source: str, num_classes: int | None = None) -> PublishedModel:
    """The model with its published weights, from the hub's cache or from the hub.

    `num_classes`, if given, must be the published number: no other head was trained.
    """
    backbone, name = resolve(source)
    return _module(source).fetch(backbone, name, num_classes)


def randomised(
    source: str, seed: int, num_classes: int | None = None
) -> PublishedModel:
    """The same architecture with its publisher's own initialisation, decided by the seed."""
    backbone, name = resolve(source)
    return _module(source).randomised(backbone, name, seed, num_classes)


def _module(source: str) -> ModuleType:
    return _KINDS[source.partition(":")[0]]
