"""Models from elsewhere: weights under the names that Fovea loads, preprocessing and labels.

A source is "KIND:NAME"; each kind is a module with KNOWN (its names and the architecture of each), resolve, fetch and
randomised. An architecture is a backbone's name, or that of a head on one. Weights that a user has on disk: files.py.
"""

from types import ModuleType

from fovea.published import timm_models, torchvision_models, transformers_models
from fovea.published.model import PublishedError, PublishedModel, UnknownModel

__all__ = [
    "KNOWN",
    "PublishedError",
    "PublishedModel",
    "UnknownModel",
    "fetch",
    "is_own",
    "randomised",
    "resolve",
]

_KINDS: dict[str, ModuleType] = {
    "timm": timm_models,
    "torchvision": torchvision_models,
    "transformers": transformers_models,
}

# Every source that is known, and its architecture.
KNOWN: dict[str, str] = {
    f"{kind}:{name}": architecture
    for kind, module in _KINDS.items()
    for name, architecture in module.KNOWN.items()
}


def resolve(source: str) -> tuple[str, str]:
    """Turns "KIND:NAME" into (architecture, the published name). Raises UnknownModel.

    A timm name may carry the tag of its weights, as in deit_tiny_patch16_224.fb_in1k. A name of timm's or transformers'
    may be a folder; or a repository of the hub, for timm as hf-hub:OWNER/NAME.
    """
    kind, _, name = source.partition(":")
    if kind in _KINDS and (architecture := _KINDS[kind].resolve(name)):
        return architecture, name
    known = "\n".join(f"  {known}" for known in KNOWN)
    raise UnknownModel(f"{source!r} is none of the models that Fovea knows:\n{known}")


def is_own(source: str) -> bool:
    """True where the model is in a user's folder, and was not published."""
    kind, _, name = source.partition(":")
    module = _KINDS[kind]
    return module in (timm_models, transformers_models) and bool(module.is_own(name))


def fetch(source: str, num_classes: int | None = None) -> PublishedModel:
    """The model with its published weights, from the hub's cache or from the hub.

    `num_classes`, if given, must be the published number: no other head was trained.
    """
    architecture, name = resolve(source)
    model: PublishedModel = _module(source).fetch(architecture, name, num_classes)
    return model


def randomised(
    source: str, seed: int, num_classes: int | None = None
) -> PublishedModel:
    """The same architecture with its publisher's own initialisation, decided by the seed."""
    architecture, name = resolve(source)
    model: PublishedModel = _module(source).randomised(
        architecture, name, seed, num_classes
    )
    return model


def _module(source: str) -> ModuleType:
    return _KINDS[source.partition(":")[0]]
