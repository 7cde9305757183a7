"""Published models: timm's weights, under timm's names, preprocessing and labels."""

from dataclasses import dataclass

import huggingface_hub
import timm
import torch
from timm.data import ImageNetInfo

from fovea.model_folder import Preprocessing

# Fovea's backbones that timm publishes, as model_zoo/registry.cc names them.
KNOWN = (
    "deit_tiny_patch16_224",
    "deit_small_patch16_224",
    "deit_base_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "deit_small_distilled_patch16_224",
    "deit_base_distilled_patch16_224",
    "vit_small_patch16_224.dino",
)

_HUB_TIMEOUT_S = 10
_IMAGENET_CLASSES = 1000
_RESIZE_MODES = {"center": "SHORTEST_EDGE", "squash": "SQUASH"}
_INTERPOLATIONS = {"bilinear": "BILINEAR", "bicubic": "BICUBIC"}


class UnknownModel(Exception):
    """Fovea has no such backbone; the message names those that it has."""


class PublishedError(Exception):
    """The model cannot be had; the message is one sentence for the user."""


@dataclass(frozen=True)
class PublishedModel:
    backbone: str  # Fovea's name of the architecture
    weights: dict[str, torch.Tensor]  # under timm's names
    num_classes: int
    preprocessing: Preprocessing
    labels: (
        list[str] | None
    )  # by class index; None where the classes are not ImageNet's


def resolve(source: str) -> tuple[str, str]:
    """Turns "timm:NAME" into (Fovea's backbone, timm's name). Raises UnknownModel.

    NAME may carry the tag of its weights, as in deit_tiny_patch16_224.fb_in1k.
    """
    kind, _, name = source.partition(":")
    if kind == "timm":
        if name in KNOWN:
            return name, name
        architecture = name.partition(".")[0]
        if architecture in KNOWN and timm.is_model_pretrained(name):
            return architecture, name
    known = "\n".join(f"  timm:{name}" for name in KNOWN)
    raise UnknownModel(f"{source!r} is none of the models that Fovea knows:\n{known}")


def fetch(source: str, num_classes: int | None = None) -> PublishedModel:
    """The model with its published weights, from the hub's cache or from the hub.

    `num_classes`, if given, must be the published number: no other head was trained.
    """
    backbone, name = resolve(source)
    config = timm.get_pretrained_cfg(name)
    if num_classes is not None and num_classes != config.num_classes:
        raise PublishedError(
            f"the published {name} has {config.num_classes} classes, not {num_classes}: "
            "its head cannot be had in another size (--random makes any)"
        )
    # Left alone, timm retries for a minute where there is no hub, and takes pickles.
    overlay = {"file": _weights_file(config.hf_hub_id)}
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    return _published(backbone, model)


def randomised(
    source: str, seed: int, num_classes: int | None = None
) -> PublishedModel:
    """The same architecture with timm's own initialisation, decided by the seed."""
    backbone, name = resolve(source)
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = timm.create_model(name, pretrained=False, num_classes=num_classes)
    torch.set_rng_state(generator_state)
    return _published(backbone, model)


def _weights_file(hub_id: str) -> str:
    cached = huggingface_hub.try_to_load_from_cache(hub_id, "model.safetensors")
    if isinstance(cached, str):
        return cached
    try:
        huggingface_hub.HfApi().model_info(hub_id, timeout=_HUB_TIMEOUT_S)
        return huggingface_hub.hf_hub_download(hub_id, "model.safetensors")
    except Exception as error:  # among them those of the hub's HTTP library
        raise PublishedError(
            f"the weights of {hub_id} could not be fetched ({_first_line(error)}): "
            "--random writes the model with random weights instead"
        ) from error


def _published(backbone: str, model: torch.nn.Module) -> PublishedModel:
    return PublishedModel(
        backbone=backbone,
        weights=dict(model.state_dict()),
        num_classes=model.num_classes,
        preprocessing=_preprocessing(model.pretrained_cfg),
        labels=_imagenet_labels() if model.num_classes == _IMAGENET_CLASSES else None,
    )


def _preprocessing(config: dict) -> Preprocessing:
    try:
        return Preprocessing(
            resize_mode=_RESIZE_MODES[config["crop_mode"]],
            interpolation=_INTERPOLATIONS[config["interpolation"]],
            crop_fraction=config["crop_pct"],
            mean=tuple(config["mean"]),
            std=tuple(config["std"]),
        )
    except KeyError as error:
        raise PublishedError(
            f"Fovea has no preprocessing {error}, which this model was published with"
        ) from error


def _imagenet_labels() -> list[str]:
    info = ImageNetInfo()
    return [info.index_to_description(index) for index in range(info.num_classes())]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
