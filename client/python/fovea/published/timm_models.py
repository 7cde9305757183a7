"""timm's models, under timm's names."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data.imagenet_info import ImageNetInfo

from fovea.model_folder import Preprocessing
from fovea.published import hub
from fovea.published.checkpoint import (
    Weights,
    check_fit,
    named,
    read_weights,
    shape_of,
)
from fovea.published.image_sizes import resized_note, trained_size
from fovea.published.model import (
    PublishedError,
    PublishedModel,
    UnknownModel,
    assumed_note,
    check_num_classes,
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


_HUB = "hf-hub:"
# Settings in a folder's model_args that change neither weights nor results.
_HARMLESS = ("img_size", "num_classes", "drop_rate", "drop_path_rate", "pretrained")
_SWIN = "swin_"


def resolve(name: str) -> str | None:
    """The backbone; None where there is none. A name may be a folder that timm wrote, or hf-hub:OWNER/NAME.

    Raises UnknownModel for a folder's model that Fovea has not, PublishedError for one that cannot be read.
    """
    if name in KNOWN:
        return name
    if _is_description(name):
        return _architecture(name, _described(name))
    architecture = name.partition(".")[0]
    if architecture in KNOWN and timm.is_model_pretrained(name):
        return architecture
    return None


def is_own(name: str) -> bool:
    """True for a user's folder."""
    return _is_description(name) and not name.startswith(_HUB)


def _is_description(name: str) -> bool:
    if name.startswith(_HUB) or (name and Path(name).is_dir()):
        return True
    if name.startswith((".", "/", "~")):
        raise PublishedError(f"there is no such folder {name}")
    return False


def _described(name: str) -> dict[str, Any]:
    """config.json of a folder or of a repository of the hub."""
    if name.startswith(_HUB):
        file = hub.file(name.removeprefix(_HUB), "config.json")
    else:
        file = Path(name) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PublishedError(f"{name} cannot be read: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("architecture"), str):
        raise PublishedError(
            f"{name} is no folder of timm's: config.json names no architecture"
        )
    return config


def _architecture(name: str, config: dict[str, Any]) -> str:
    architecture: str = config["architecture"]
    tagged = f"{architecture}.{(config.get('pretrained_cfg') or {}).get('tag')}"
    for known in (tagged, architecture):
        if known in KNOWN:
            return known
    raise UnknownModel(
        f"{name} holds timm's {architecture}, which Fovea does not have. It takes {', '.join(KNOWN)}"
    )


def _fetch_described(
    backbone: str, name: str, num_classes: int | None
) -> PublishedModel:
    """The model with the preprocessing and labels of config.json."""
    config = _described(name)
    own = vars(_config(backbone)) | (config.get("pretrained_cfg") or {})
    odd = set(config.get("model_args") or {}) - set(_HARMLESS)
    if odd:
        raise PublishedError(
            f"{name} sets {', '.join(sorted(odd))} of {backbone} (model_args), which Fovea's does not have"
        )
    with torch.device("meta"):
        usual = timm.create_model(backbone)
    pooling, expected = config.get("global_pool"), getattr(usual, "global_pool", None)
    if pooling and expected and pooling != expected:
        raise PublishedError(
            f"{name} pools by {pooling}, and Fovea's {backbone} by {expected}"
        )
    folder = (
        hub.folder(name.removeprefix(_HUB)) if name.startswith(_HUB) else Path(name)
    )
    file = hub.weights_of(folder)
    if file is None or file.endswith(".json"):
        raise PublishedError(
            f"{name} has neither model.safetensors nor pytorch_model.bin"
        )
    path = folder / file
    weights, notes = read_weights(path, backbone, names(backbone))
    _, height, width = own["input_size"]
    size = (height, width)
    usual_size = tuple(_config(backbone).input_size[1:])
    model = of_weights(
        backbone, path, weights, size if size != usual_size else None, own
    )
    check_num_classes(name, num_classes, model.num_classes)
    labels = config.get("label_names") or own.get("label_names")
    if not isinstance(labels, list) or len(labels) != model.num_classes:
        labels = None
    return replace(model, labels=labels, notes=(*notes, *model.notes))


def fetch(backbone: str, name: str, num_classes: int | None) -> PublishedModel:
    if _is_description(name):
        return _fetch_described(backbone, name, num_classes)
    config = _config(name)
    check_num_classes(name, num_classes, config.num_classes)
    # Left alone, timm retries for a minute where there is no hub, and takes pickles. `custom_load` tells of the
    # authors' format, which the hub's file no longer has.
    file = str(hub.file(config.hf_hub_id, "model.safetensors"))
    overlay = {"file": file, "custom_load": False}
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    return _published(backbone, name, model)


def randomised(
    backbone: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With timm's own initialisation."""
    name = backbone if _is_description(name) else name
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = timm.create_model(name, pretrained=False, num_classes=num_classes)
    torch.set_rng_state(generator_state)
    return _published(backbone, name, model)


def names(architecture: str) -> Collection[str]:
    """Names of the tensors that it has with any number of classes."""
    with torch.device("meta"):
        return timm.create_model(architecture).state_dict().keys()


def of_weights(
    architecture: str,
    path: Path,
    weights: Weights,
    image_size: tuple[int, int] | None,
    described: dict[str, Any] | None = None,
) -> PublishedModel:
    """Of a file that a user saved: the architecture with any number of classes, for images of any size.

    `described`: the model's preprocessing in timm's words; None: the published model's.
    """
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
    preprocessing = _preprocessing(described or vars(config))
    resized = [
        name for name in weights if weights[name].shape != fitting[-1][name].shape
    ]
    if resized:
        notes.append(
            f"Learned for images of another size than {size[0]}x{size[1]}, and resized when the model is loaded: "
            f"{named(resized)}."
        )
    if described is None:
        notes.append(
            f"Preprocessing is not in the weights: it is that of timm's {architecture} "
            f"({', '.join(preprocessing.to_lines())}). If yours is another, change it in model.textproto."
        )
        notes.append(assumed_note(f"timm's {architecture}"))
    return PublishedModel(
        backbone=architecture,
        weights=weights,
        num_classes=classes,
        preprocessing=preprocessing,
        image_size=size if size != own_size else None,
        labels=None,
        sigmoid=classes == 1,
        rolls_first=architecture.startswith(_SWIN),
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
        sigmoid=model.num_classes == 1,
        rolls_first=backbone.startswith(_SWIN),
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
