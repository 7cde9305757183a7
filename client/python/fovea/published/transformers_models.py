"""transformers' models: those that timm does not have."""

import json
from pathlib import Path

import huggingface_hub
import torch

from fovea.model_folder import Preprocessing
from fovea.published.model import (
    HUB_TIMEOUT_S,
    PublishedError,
    PublishedModel,
    check_num_classes,
    not_fetched,
)

KNOWN = {"microsoft/cvt-13": "cvt_13"}

_RESAMPLING = {2: "BILINEAR", 3: "BICUBIC"}  # Pillow's numbers
# What microsoft/cvt-13 was published with, for random weights.
_PREPROCESSING = {
    "size": {"shortest_edge": 224},
    "crop_pct": 0.875,
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def resolve(name: str) -> str | None:
    """The backbone; None where there is none."""
    return KNOWN.get(name)


def fetch(backbone: str, name: str, num_classes: int | None) -> PublishedModel:
    from transformers import CvtForImageClassification

    folder = _snapshot(name)
    model = CvtForImageClassification.from_pretrained(
        folder, local_files_only=True, use_safetensors=True
    )
    check_num_classes(name, num_classes, model.config.num_labels)
    preprocessing = json.loads((folder / "preprocessor_config.json").read_text())
    return _published(backbone, model, preprocessing)


def randomised(
    backbone: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With transformers' own initialisation; the default configuration is CvT-13's."""
    from transformers import CvtConfig, CvtForImageClassification

    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = CvtForImageClassification(CvtConfig(num_labels=num_classes or 1000))
    torch.set_rng_state(generator_state)
    return _published(backbone, model, _PREPROCESSING)


def _snapshot(name: str) -> Path:
    """A folder with the configuration, the preprocessing and the weights."""
    files = ["config.json", "preprocessor_config.json", "model.safetensors"]
    cached = [huggingface_hub.try_to_load_from_cache(name, file) for file in files]
    if all(isinstance(path, str) for path in cached):
        return Path(cached[0]).parent
    try:
        huggingface_hub.HfApi().model_info(name, timeout=HUB_TIMEOUT_S)
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=files))
    except Exception as error:  # among them those of the hub's HTTP library
        raise not_fetched(name, error) from error


def _published(
    backbone: str, model: torch.nn.Module, preprocessing: dict
) -> PublishedModel:
    classes = model.config.num_labels
    return PublishedModel(
        backbone=backbone,
        weights=dict(model.state_dict()),
        num_classes=classes,
        preprocessing=_preprocessing(preprocessing),
        labels=_labels(model.config.id2label) if classes == 1000 else None,
    )


def _preprocessing(config: dict) -> Preprocessing:
    try:
        return Preprocessing(
            resize_mode="SHORTEST_EDGE",
            interpolation=_RESAMPLING[config["resample"]],
            crop_fraction=config["crop_pct"],
            mean=tuple(config["image_mean"]),
            std=tuple(config["image_std"]),
        )
    except KeyError as error:
        raise PublishedError(
            f"Fovea has no preprocessing {error}, which this model was published with"
        ) from error


def _labels(names: dict[int, str]) -> list[str]:
    """The published ones; a model that was never trained has only numbers, and gets ImageNet's."""
    from fovea.published.timm_models import imagenet_labels

    if all(name == f"LABEL_{index}" for index, name in names.items()):
        return imagenet_labels()
    return [names[index] for index in range(len(names))]
