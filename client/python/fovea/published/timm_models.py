"""timm's models, under timm's names."""

from pathlib import Path
from typing import Any

import huggingface_hub
import timm
import torch
from timm.data.imagenet_info import ImageNetInfo

from fovea.model_folder import Preprocessing
from fovea.published.checkpoint import Weights, check_fit, named, shape_of
from fovea.published.image_sizes import resized_note, trained_size
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
    config = _config(name)
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


def of_weights(
    architecture: str,
    path: Path,
    weights: Weights,
    image_size: tuple[int, int] | None,
) -> PublishedModel:
    """Of a file that a user saved: the architecture with any number of classes, for images of any size."""
    config = _config(architecture)
    classes = _classes(architecture, config, path, weights)
    with torch.device("meta"):
        own = timm.create_model(architecture, num_classes=classes)
    own_size = tuple(config.input_size[1:])
    size, notes = image_size or own_size, []
    fitting = [own.state_dict()]
    table = weights.get("pos_embed", torch.empty(0))
    if isinstance(own, timm.models.VisionTransformer) and table.dim() == 3:
        patch = own.patch_embed.patch_size
        places = table.shape[1] - own.num_prefix_tokens
        trained = trained_size(path, places, patch, image_size)
        size = image_size or trained
        fitting = _at_size(architecture, classes, trained)
        if size != trained:
            notes.append(resized_note(trained, size, patch))
    elif image_size:
        fitting += _at_size(architecture, classes, image_size)
    check_fit(str(path), weights, architecture, *fitting)
    preprocessing = _preprocessing(vars(config))
    resized = [
        name for name in weights if weights[name].shape != fitting[-1][name].shape
    ]
    if resized:
        notes.append(
            f"Learned for images of another size than {size[0]}x{size[1]}, and resized when the model is loaded: "
            f"{named(resized)}."
        )
    notes.append(
        f"Preprocessing is not in the weights: it is that of timm's {architecture} "
        f"({', '.join(preprocessing.to_lines())}). If yours is another, change it in model.textproto."
    )
    return PublishedModel(
        backbone=architecture,
        weights=weights,
        num_classes=classes,
        preprocessing=preprocessing,
        image_size=size if size != own_size else None,
        labels=None,
        notes=notes,
    )


def _classes(architecture: str, config: Any, path: Path, weights: Weights) -> int:
    """As many as the classifier's last layer has rows; 0 where there is none and none was published."""
    names = config.classifier
    layer = (names if isinstance(names, str) else names[0]) + ".weight"
    if layer in weights:
        return shape_of(path, weights, layer, 2)[0]
    if config.num_classes > 0:
        raise PublishedError(
            f"{path} has no {layer}: weights without a classifier are not {architecture}'s"
        )
    return 0


def _at_size(architecture: str, classes: int, size: tuple[int, int]) -> list[Weights]:
    """The tensors for images of that size; none where they are the same for all sizes."""
    with torch.device("meta"):
        try:
            model = timm.create_model(architecture, num_classes=classes, img_size=size)
        except TypeError:  # knows no sizes
            return []
        except AssertionError as error:
            raise PublishedError(f"{architecture}: {error}") from error
    return [model.state_dict()]


def _weights_file(hub_id: str) -> str:
    cached = huggingface_hub.try_to_load_from_cache(hub_id, "model.safetensors")
    if isinstance(cached, str):
        return cached
    try:
        huggingface_hub.HfApi().model_info(hub_id, timeout=HUB_TIMEOUT_S)
        return huggingface_hub.hf_hub_download(hub_id, "model.safetensors")
    except Exception as error:  # among them those of the hub's HTTP library
        raise not_fetched(hub_id, error) from error


def _config(name: str) -> Any:
    """timm's of a model that it publishes."""
    return timm.get_pretrained_cfg(name)


def _published(backbone: str, name: str, model: Any) -> PublishedModel:
    """model: timm's, which have more than torch.nn.Module says."""
    own = _config(backbone)
    if model.num_classes == 0 and own.num_classes > 0:
        raise PublishedError(
            f"{name} was published without a classifier, which Fovea's {backbone} has"
        )
    _, height, width = model.pretrained_cfg["input_size"]
    if height != width:
        raise PublishedError(f"{name} was published for {height} x {width} pixels")
    own_side = own.input_size[1]
    return PublishedModel(
        backbone=backbone,
        weights=dict(model.state_dict()),
        num_classes=model.num_classes,
        preprocessing=_preprocessing(model.pretrained_cfg),
        image_size=(height, width) if height != own_side else None,
        labels=imagenet_labels() if model.num_classes == _IMAGENET_CLASSES else None,
    )


def _preprocessing(config: dict[str, Any]) -> Preprocessing:
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
    info: Any = ImageNetInfo()  # has no types of its own
    return [info.index_to_description(index) for index in range(info.num_classes())]
