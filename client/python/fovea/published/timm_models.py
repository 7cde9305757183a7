"""timm's models, under timm's names."""

import huggingface_hub
import timm
import torch
from timm.data import ImageNetInfo

from fovea.model_folder import Preprocessing
from fovea.published.model import (
    HUB_TIMEOUT_S,
    PublishedError,
    PublishedModel,
    check_num_classes,
    not_fetched,
)

# Fovea's backbones that timm publishes; model_zoo/backbones names them as timm does.
_NAMES = (
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_base_patch16_224",
    "deit_tiny_patch16_224",
    "deit_small_patch16_224",
    "deit_base_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "deit_small_distilled_patch16_224",
    "deit_base_distilled_patch16_224",
    "vit_small_patch16_224.dino",
    "vit_base_patch16_224.dino",
    "swin_tiny_patch4_window7_224",
    "swin_base_patch4_window7_224",
    "pit_b_224",
    "twins_svt_base",
    "visformer_tiny",
    "volo_d1_384",
    "volo_d3_448",
    "tnt_s_patch16_224",
    "cait_s24_224",
    "caformer_s18",
    "caformer_b36",
    "resnet50",
)
KNOWN = {name: name for name in _NAMES}

_IMAGENET_CLASSES = 1000
_RESIZE_MODES = {"center": "SHORTEST_EDGE", "squash": "SQUASH"}
_INTERPOLATIONS = {"bilinear": "BILINEAR", "bicubic": "BICUBIC"}


def resolve(name: str) -> str | None:
    """The backbone; None where there is none."""
    if name in KNOWN:
        return name
    architecture = name.partition(".")[0]
    if architecture in KNOWN and timm.is_model_pretrained(name):
        return architecture
    return None


def fetch(backbone: str, name: str, num_classes: int | None) -> PublishedModel:
    config = timm.get_pretrained_cfg(name)
    check_num_classes(name, num_classes, config.num_classes)
    # Left alone, timm retries for a minute where there is no hub, and takes pickles. `custom_load` tells of the
    # authors' format, which the hub's file no longer has.
    overlay = {"file": _weights_file(config.hf_hub_id), "custom_load": False}
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    return _published(backbone, name, model)


def randomised(
    backbone: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With timm's own initialisation."""
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = timm.create_model(name, pretrained=False, num_classes=num_classes)
    torch.set_rng_state(generator_state)
    return _published(backbone, name, model)


def _weights_file(hub_id: str) -> str:
    cached = huggingface_hub.try_to_load_from_cache(hub_id, "model.safetensors")
    if isinstance(cached, str):
        return cached
    try:
        huggingface_hub.HfApi().model_info(hub_id, timeout=HUB_TIMEOUT_S)
        return huggingface_hub.hf_hub_download(hub_id, "model.safetensors")
    except Exception as error:  # among them those of the hub's HTTP library
        raise not_fetched(hub_id, error) from error


def _published(backbone: str, name: str, model: torch.nn.Module) -> PublishedModel:
    if model.num_classes == 0 and timm.get_pretrained_cfg(backbone).num_classes > 0:
        raise PublishedError(
            f"{name} was published without a classifier, which Fovea's {backbone} has"
        )
    _, height, width = model.pretrained_cfg["input_size"]
    if height != width:
        raise PublishedError(f"{name} was published for {height} x {width} pixels")
    own_side = timm.get_pretrained_cfg(backbone).input_size[1]
    return PublishedModel(
        backbone=backbone,
        weights=dict(model.state_dict()),
        num_classes=model.num_classes,
        preprocessing=_preprocessing(model.pretrained_cfg),
        image_side=height if height != own_side else None,
        labels=imagenet_labels() if model.num_classes == _IMAGENET_CLASSES else None,
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


def imagenet_labels() -> list[str]:
    """By class index."""
    info = ImageNetInfo()
    return [info.index_to_description(index) for index in range(info.num_classes())]
