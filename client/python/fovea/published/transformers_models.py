"""transformers' models: from the hub, or from a folder that `save_pretrained` or its Trainer wrote."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch

from fovea.model_folder import Preprocessing
from fovea.published.model import (
    HUB_TIMEOUT_S,
    PublishedError,
    PublishedModel,
    UnknownModel,
    check_num_classes,
    not_fetched,
)
from fovea.published.transformers_weights import published_names

KNOWN = {
    "google/vit-base-patch16-224": "vit_base_patch16_224",
    "facebook/deit-tiny-patch16-224": "deit_tiny_patch16_224",
    "facebook/deit-small-patch16-224": "deit_small_patch16_224",
    "facebook/deit-base-patch16-224": "deit_base_patch16_224",
    "facebook/deit-tiny-distilled-patch16-224": "deit_tiny_distilled_patch16_224",
    "facebook/deit-small-distilled-patch16-224": "deit_small_distilled_patch16_224",
    "facebook/deit-base-distilled-patch16-224": "deit_base_distilled_patch16_224",
    "facebook/dino-vits16": "vit_small_patch16_224.dino",
    "facebook/dino-vitb16": "vit_base_patch16_224.dino",
    "microsoft/swin-tiny-patch4-window7-224": "swin_tiny_patch4_window7_224",
    "microsoft/swin-base-patch4-window7-224": "swin_base_patch4_window7_224",
    "microsoft/cvt-13": "cvt_13",
}


@dataclass(frozen=True)
class _Architecture:
    model: str  # transformers' class
    config: str  # the class of its configuration
    differs: dict[str, Any]  # from that class's defaults


def _vit(model: str, config: str, width: int, heads: int) -> _Architecture:
    return _Architecture(
        model,
        config,
        {
            "hidden_size": width,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
        },
    )


# ViT and DeiT are one architecture: a folder's is named after the first that fits.
_SIZES = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}
_ARCHITECTURES = {
    **{
        f"{paper}_{size}_patch16_224": _vit(
            "ViTForImageClassification", "ViTConfig", *shape
        )
        for paper in ("vit", "deit")
        for size, shape in _SIZES.items()
    },
    **{
        f"deit_{size}_distilled_patch16_224": _vit(
            "DeiTForImageClassificationWithTeacher", "DeiTConfig", *shape
        )
        for size, shape in _SIZES.items()
    },
    **{
        f"vit_{size}_patch16_224.dino": _vit("ViTModel", "ViTConfig", *_SIZES[size])
        for size in ("small", "base")
    },
    "swin_tiny_patch4_window7_224": _Architecture(
        "SwinForImageClassification", "SwinConfig", {}
    ),
    "swin_base_patch4_window7_224": _Architecture(
        "SwinForImageClassification",
        "SwinConfig",
        {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]},
    ),
    "cvt_13": _Architecture("CvtForImageClassification", "CvtConfig", {}),
}

# What of a configuration decides what is computed. The epsilon of layer norms does not show: Fovea's is timm's.
_DECISIVE = {
    # ViT, DeiT
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "qkv_bias",
    # ViT, DeiT, Swin
    "image_size",
    "patch_size",
    "num_channels",
    # Swin
    "embed_dim",
    "depths",
    "num_heads",
    "window_size",
    "mlp_ratio",
    "use_absolute_embeddings",
    # CvT
    "depth",
    "patch_sizes",
    "patch_stride",
    "patch_padding",
    "cls_token",
    "qkv_projection_method",
    "kernel_qkv",
    "padding_kv",
    "stride_kv",
    "padding_q",
    "stride_q",
}

# For random weights: the image processors as transformers makes them.
_PROCESSORS = {
    "vit": ("ViTImageProcessor", {}),
    "deit": ("DeiTImageProcessor", {}),
    "swin": ("ViTImageProcessor", {}),
    "cvt": ("ConvNextImageProcessor", {"size": {"shortest_edge": 224}}),
}
_INTERPOLATIONS = {2: "BILINEAR", 3: "BICUBIC"}  # Pillow's numbers
_PIXELS = 224


def resolve(name: str) -> str | None:
    """The backbone; None where there is none. Raises UnknownModel for a folder with a model that Fovea has not."""
    if name in KNOWN:
        return KNOWN[name]
    if not (Path(name) / "config.json").is_file():
        return None
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(name, local_files_only=True)
    for backbone, architecture in _ARCHITECTURES.items():
        if _same(config, architecture):
            return backbone
    raise UnknownModel(
        f"{name} holds {_class_of(config)} of a size that no backbone of Fovea has"
    )


def fetch(backbone: str, name: str, num_classes: int | None) -> PublishedModel:
    import transformers

    folder = Path(name) if name not in KNOWN else _snapshot(name)
    architecture = _ARCHITECTURES[backbone]
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    if not _same(config, architecture):
        raise PublishedError(
            f"{name} holds {_class_of(config)} of another size than {backbone}"
        )
    for file, why in {
        "model.safetensors": "weights in another format are not read",
        "preprocessor_config.json": "save the image processor beside the model",
    }.items():
        if not (folder / file).is_file():
            raise PublishedError(f"{name} has no {file}: {why}")
    model = getattr(transformers, architecture.model).from_pretrained(
        folder, local_files_only=True, use_safetensors=True
    )
    if num_classes is not None:
        check_num_classes(name, num_classes, _num_classes(model))
    processor = transformers.AutoImageProcessor.from_pretrained(
        folder, local_files_only=True
    )
    return _published(backbone, model, processor)


def randomised(
    backbone: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With transformers' own initialisation."""
    import transformers

    architecture = _ARCHITECTURES[backbone]
    config = getattr(transformers, architecture.config)(
        **architecture.differs, num_labels=num_classes or 1000
    )
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = getattr(transformers, architecture.model)(config)
    torch.set_rng_state(generator_state)
    processor, arguments = _PROCESSORS[config.model_type]
    return _published(backbone, model, getattr(transformers, processor)(**arguments))


def _class_of(config: Any) -> str:
    return (config.architectures or [f"a {config.model_type}"])[0]


def _same(config: Any, architecture: _Architecture) -> bool:
    import transformers

    if _class_of(config) != architecture.model:
        return False
    expected = getattr(transformers, architecture.config)(**architecture.differs)
    given = config.to_dict()
    return all(
        given.get(key) == value
        for key, value in expected.to_dict().items()
        if key in _DECISIVE
    )


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


def _num_classes(model: Any) -> int:
    """0 where it gives features."""
    return (
        model.config.num_labels if "ImageClassification" in type(model).__name__ else 0
    )


def _published(backbone: str, model: Any, processor: Any) -> PublishedModel:
    classes = _num_classes(model)
    weights = {
        name: weight
        for name, weight in model.state_dict().items()
        if not name.startswith("pooler.")  # ViTModel's, of BERT's making
    }
    return PublishedModel(
        backbone=backbone,
        weights=published_names(model.config.model_type, weights),
        num_classes=classes,
        preprocessing=_preprocessing(processor.to_dict()),
        labels=_labels(model.config.id2label) if classes else None,
    )


def _preprocessing(config: dict[str, Any]) -> Preprocessing:
    size = config["size"]
    crop = config["crop_size"]["height"] if config.get("do_center_crop") else None
    if "shortest_edge" in size:
        resize_mode = "SHORTEST_EDGE"
        pixels = crop or size["shortest_edge"]
        fraction = config.get("crop_pct") or pixels / size["shortest_edge"]
    elif crop and crop < size["height"]:
        # DeiT: transformers squashes the picture before it crops. Its authors evaluate, and timm publishes it, with the
        # shorter side resized; that is what is taken.
        resize_mode, pixels, fraction = "SHORTEST_EDGE", crop, crop / size["height"]
    else:
        resize_mode, pixels, fraction = "SQUASH", size["height"], 1.0
    wanted = config["do_resize"] and config["do_rescale"] and config["do_normalize"]
    if (
        not wanted
        or pixels != _PIXELS
        or config["resample"] not in _INTERPOLATIONS
        or round(1 / config["rescale_factor"]) != 255
    ):
        raise PublishedError(
            "Fovea has no such preprocessing as this model was published with: "
            f"{config['image_processor_type']} to {pixels} pixels"
        )
    return Preprocessing(
        resize_mode=resize_mode,
        interpolation=_INTERPOLATIONS[config["resample"]],
        crop_fraction=fraction,
        mean=tuple(config["image_mean"]),
        std=tuple(config["image_std"]),
    )


def _labels(names: dict[int, str]) -> list[str] | None:
    """The published ones; a model that was never trained has only numbers, and gets ImageNet's if they are as many."""
    from fovea.published.timm_models import imagenet_labels

    if all(name == f"LABEL_{index}" for index, name in names.items()):
        return imagenet_labels() if len(names) == 1000 else None
    return [names[index] for index in range(len(names))]
