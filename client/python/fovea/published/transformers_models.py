"""transformers' models: from the hub, or from a folder that `save_pretrained` or its Trainer wrote."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
from safetensors import SafetensorError

from fovea.model_folder import Head
from fovea.published.model import (
    HUB_TIMEOUT_S,
    PublishedError,
    PublishedModel,
    UnknownModel,
    check_num_classes,
    not_fetched,
)
from fovea.published.transformers_preprocessing import of_classifier, of_segmenter
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
    "openmmlab/upernet-swin-tiny": "upernet_swin_tiny",
}


@dataclass(frozen=True)
class _Architecture:
    model: str  # transformers' class
    config: str  # the class of its configuration
    differs: dict[str, Any]  # from that class's defaults
    backbone: str | None = None  # Fovea's, where a head stands on it


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
_SWIN_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "base": {
        "embed_dim": 128,
        "depths": [2, 2, 18, 2],
        "num_heads": [4, 8, 16, 32],
    },
}
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
    **{
        f"swin_{size}_patch4_window7_224": _Architecture(
            "SwinForImageClassification", "SwinConfig", differs
        )
        for size, differs in _SWIN_SIZES.items()
    },
    "cvt_13": _Architecture("CvtForImageClassification", "CvtConfig", {}),
    # Of the Swin behind the head.
    **{
        f"upernet_swin_{size}": _Architecture(
            "UperNetForSemanticSegmentation",
            "SwinConfig",
            {**differs, "out_features": [f"stage{i}" for i in range(1, 5)]},
            backbone=f"swin_{size}_patch4_window7_224",
        )
        for size, differs in _SWIN_SIZES.items()
    },
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
    "upernet": ("SegformerImageProcessor", {}),
}
_PIXELS = 224
# Of ADE20K, which the published segmenters know.
_SCENE_CLASSES = 150
_UPERNET = {"hidden_size": 512, "pool_scales": [1, 2, 3, 6]}


def resolve(name: str) -> str | None:
    """The architecture; None where there is none.

    Raises UnknownModel for a folder with a model that Fovea has not, PublishedError for one that cannot be read.
    """
    if name in KNOWN:
        return KNOWN[name]
    if not (Path(name) / "config.json").is_file():
        return None
    with _in_words(name):
        config = _config(name)
        for key, architecture in _ARCHITECTURES.items():
            if _same(config, architecture):
                return key
    raise UnknownModel(
        f"{name} holds {_class_of(config)} of a size that no backbone of Fovea has"
    )


def fetch(key: str, name: str, num_classes: int | None) -> PublishedModel:
    folder = Path(name) if name not in KNOWN else _snapshot(name)
    for file, why in {
        "model.safetensors": "weights in another format are not read",
        "preprocessor_config.json": "save the image processor beside the model",
    }.items():
        if not (folder / file).is_file():
            raise PublishedError(f"{name} has no {file}: {why}")
    with _in_words(name):
        transformers = _library()

        architecture = _ARCHITECTURES[key]
        config = _config(folder)
        if not _same(config, architecture):
            raise PublishedError(
                f"{name} holds {_class_of(config)} of another size than {key}"
            )
        transformers.utils.logging.disable_progress_bar()
        model, loaded = getattr(transformers, architecture.model).from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
        # What a file lacks, transformers makes up.
        made_up = sorted(
            key for key in loaded["missing_keys"] if not key.startswith("pooler.")
        )
        if made_up:
            raise PublishedError(f"{name} has no weights for {', '.join(made_up[:3])}")
        if num_classes is not None:
            check_num_classes(name, num_classes, _num_classes(model))
        processor = transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        return _published(key, model, processor)


def randomised(
    key: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With transformers' own initialisation."""
    with _in_words(name):
        transformers = _library()

        architecture = _ARCHITECTURES[key]
        if num_classes is not None and not _has_classes(architecture.model):
            raise PublishedError(f"{name} has no classifier: --num-classes sets none")
        kind = getattr(transformers, architecture.config)
        if architecture.backbone:
            config = transformers.UperNetConfig(
                backbone_config=kind(**architecture.differs),
                num_labels=num_classes or _SCENE_CLASSES,
            )
        else:
            config = kind(**architecture.differs, num_labels=num_classes or 1000)
        generator_state = torch.get_rng_state()
        torch.manual_seed(seed)
        model = getattr(transformers, architecture.model)(config)
        torch.set_rng_state(generator_state)
        processor, arguments = _PROCESSORS[config.model_type]
        return _published(key, model, getattr(transformers, processor)(**arguments))


def _library() -> Any:
    """transformers, whose classes are not typed throughout. ImportError: it is not installed."""
    import transformers

    return transformers


@contextmanager
def _in_words(name: str) -> Iterator[None]:
    """What transformers raises for a folder that it cannot read, as one sentence."""
    try:
        yield
    except ImportError as error:
        raise PublishedError(
            f"{error}: pip install './client/python[transformers]'"
        ) from error
    except (OSError, RuntimeError, SafetensorError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise PublishedError(f"{name} cannot be read: {lines[0]}") from error


def _config(folder: str | Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )


def _class_of(config: Any) -> str:
    return str((config.architectures or [f"a {config.model_type}"])[0])


def _same(config: Any, architecture: _Architecture) -> bool:
    transformers = _library()

    if _class_of(config) != architecture.model:
        return False
    expected = getattr(transformers, architecture.config)(**architecture.differs)
    given, decisive = config.to_dict(), _DECISIVE
    if architecture.backbone:
        if any(given.get(key) != value for key, value in _UPERNET.items()):
            return False
        # Windows are of one size whatever the image's.
        given = given.get("backbone_config") or {}
        decisive = _DECISIVE - {"image_size"} | {"out_features"}
    return given.get("model_type") == expected.model_type and all(
        given.get(key) == value
        for key, value in expected.to_dict().items()
        if key in decisive
    )


def _snapshot(name: str) -> Path:
    """A folder with the configuration, the preprocessing and the weights."""
    files = ["config.json", "preprocessor_config.json", "model.safetensors"]
    cached = [huggingface_hub.try_to_load_from_cache(name, file) for file in files]
    if all(isinstance(path, str) for path in cached):
        return Path(str(cached[0])).parent
    try:
        huggingface_hub.HfApi().model_info(name, timeout=HUB_TIMEOUT_S)
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=files))
    except Exception as error:  # among them those of the hub's HTTP library
        raise not_fetched(name, error) from error


def _has_classes(model_class: str) -> bool:
    return "ImageClassification" in model_class or "Segmentation" in model_class


def _num_classes(model: Any) -> int:
    """0 where it gives features."""
    return model.config.num_labels if _has_classes(type(model).__name__) else 0


def _published(name: str, model: Any, processor: Any) -> PublishedModel:
    architecture = _ARCHITECTURES[name]
    if architecture.backbone:
        preprocessing, size, notes = of_segmenter(processor.to_dict())
        sides = size or preprocessing.sides
        if sides is None:  # of_segmenter gives one of the two
            raise PublishedError(f"{name} does not say of what size its pictures are")
        _check_windows(sides, model.config.backbone_config)
        return PublishedModel(
            backbone=architecture.backbone,
            weights=published_names(model.config.model_type, model.state_dict()),
            num_classes=_num_classes(model),
            preprocessing=preprocessing,
            image_size=size,
            labels=_names(model.config.id2label),
            head=Head(task="SEGMENTATION", name="upernet"),
            notes=notes,
        )
    classes = _num_classes(model)
    weights = {
        name: weight
        for name, weight in model.state_dict().items()
        if not name.startswith("pooler.")  # ViTModel's, of BERT's making
    }
    preprocessing, side = of_classifier(processor.to_dict())
    if side != getattr(model.config, "image_size", side):
        raise PublishedError(
            f"the image processor gives {side} pixels, and the model takes {model.config.image_size}"
        )
    return PublishedModel(
        backbone=name,
        weights=published_names(model.config.model_type, weights),
        num_classes=classes,
        preprocessing=preprocessing,
        image_size=(side, side) if side != _PIXELS else None,
        labels=_labels(model.config.id2label) if classes else None,
    )


def _check_windows(size: tuple[int, int], swin: Any) -> None:
    """Where the coarsest map is no larger than a window, transformers shifts windows all the same and Fovea does not."""
    largest = swin.window_size * swin.patch_size * 2 ** (len(swin.depths) - 1)
    if min(size) <= largest:
        raise PublishedError(
            f"the image processor gives {size[0]}x{size[1]} pixels, at which Fovea's Swin computes something else than "
            f"transformers': the coarsest map would fit into a window. Both sides must be above {largest}"
        )


def _names(of_classes: dict[int, str]) -> list[str] | None:
    """By class index; None where they are only numbers."""
    if all(name == f"LABEL_{index}" for index, name in of_classes.items()):
        return None
    return [of_classes[index] for index in range(len(of_classes))]


def _labels(names: dict[int, str]) -> list[str] | None:
    """The published ones; a model that was never trained has only numbers, and gets ImageNet's if they are as many."""
    from fovea.published.timm_models import imagenet_labels

    return _names(names) or (imagenet_labels() if len(names) == 1000 else None)
