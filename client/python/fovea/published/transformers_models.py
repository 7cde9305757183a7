"""transformers' models: from the hub, or from a folder that `save_pretrained` or its Trainer wrote."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from fovea.model_folder import Head, Preprocessing, VitSizes
from fovea.published import hub
from fovea.published.checkpoint import Weights, named, why_not_read
from fovea.published.model import (
    PublishedError,
    PublishedModel,
    UnknownModel,
    check_num_classes,
)
from fovea.published.transformers_architectures import (
    ANY_VIT,
    ARCHITECTURES,
    WITHOUT_TEACHER,
    check,
    class_of,
    find,
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


# Those of the models that were published, for random weights and for folders without one.
_IMAGENET = {
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "resample": 3,
}
_PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTImageProcessor", {}),
    "deit": ("DeiTImageProcessor", _IMAGENET),
    "swin": ("ViTImageProcessor", _IMAGENET),
    "cvt": ("ConvNextImageProcessor", {"size": {"shortest_edge": 224}, **_IMAGENET}),
    "upernet": ("SegformerImageProcessor", {}),
}
_WITHOUT_TEACHER = (
    "transformers' DeiT without a teacher has one classifier, on the class token; Fovea averages two, so that one is "
    "written as its double beside zeros, which gives the same logits."
)
_BATCHES = (
    "It runs up to 16 pictures at a time, and tries each number before it serves. On CPUs more than one hardly pay: "
    "max_batch_size: 1 in model.textproto makes it ready sooner."
)
_ONE = "It has one class"
_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
_PIXELS = 224
# Of ADE20K, which the published segmenters know.
_SCENE_CLASSES = 150


def resolve(name: str) -> str | None:
    """The architecture; None where there is none.

    Raises UnknownModel for a model that Fovea has not, PublishedError for one that cannot be read.
    """
    if name in KNOWN:
        return KNOWN[name]
    folder = _folder_of(name)
    if folder is None and not hub.is_repository(name):
        return None
    with _in_words(name):
        file = _description(name)
        given = json.loads(file.read_text(encoding="utf-8"))
        if "architecture" in given and "model_type" not in given:
            source = name if folder else f"hf-hub:{name}"
            raise UnknownModel(f"{name} is timm's: timm:{source} imports it")
        return find(name, _config(file.parent))


def _description(name: str) -> Path:
    folder = _folder_of(name)
    return folder / "config.json" if folder else hub.file(name, "config.json")


def is_own(name: str) -> bool:
    """True for a user's folder."""
    return _folder_of(name) is not None


def _folder_of(name: str) -> Path | None:
    """The folder; None if `name` is on the hub. Raises PublishedError if it is not a model's folder."""
    if name in KNOWN or not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if folder.exists():
            raise PublishedError(f"{name} is no folder: name the one that it lies in")
        if name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise PublishedError(f"there is no such folder {name}")
        return None
    if (folder / "config.json").is_file():
        return folder
    if (folder / "adapter_config.json").is_file():
        raise PublishedError(
            f"{name} holds a LoRA adapter and not a model: merge them (merge_and_unload) and save the result"
        )
    raise PublishedError(f"{name} has no config.json: it is no model of transformers'")


def fetch(key: str, name: str, num_classes: int | None) -> PublishedModel:
    folder = _folder_of(name) or hub.folder(name)
    weights = hub.weights_of(folder)
    if weights is None:
        files = "neither model.safetensors nor pytorch_model.bin"
        raise PublishedError(f"{name} has {files}, nor an index of their parts")
    with _in_words(name):
        transformers = _library()

        config = _config(folder)
        check(name, config, key)
        if config.problem_type == "regression":
            raise PublishedError(
                f"{name} was trained for regression, and its outputs are not classes"
            )
        transformers.utils.logging.disable_progress_bar()
        kind = getattr(transformers, class_of(config))
        model, loaded = kind.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=".safetensors" in weights,
            weights_only=True,
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
        if any((folder / file).is_file() for file in _PROCESSOR_FILES):
            processor = transformers.AutoImageProcessor.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            return _published(key, model, processor)
        model = _published(key, model, _usual_processor(config))
        return replace(model, notes=(*model.notes, _assumed(model.preprocessing)))


def _usual_processor(config: Any) -> Any:
    kind, arguments = _PROCESSORS[config.model_type]
    side = getattr(config, "image_size", None)
    if kind == "ViTImageProcessor" and side:
        arguments = {**arguments, "size": {"height": side, "width": side}}
    return getattr(_library(), kind)(**arguments)


def _assumed(preprocessing: Preprocessing) -> str:
    return (
        "The folder has no preprocessor_config.json: preprocessing is taken to be that of the published models "
        f"({', '.join(preprocessing.to_lines())}). If yours is another, save the image processor beside the model, or "
        "change it in model.textproto."
    )


def randomised(
    key: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With transformers' own initialisation."""
    with _in_words(name):
        transformers = _library()

        architecture = ARCHITECTURES[key]
        if num_classes is not None and not _has_classes(architecture.model):
            raise PublishedError(f"{name} has no classifier: --num-classes sets none")
        kind = getattr(transformers, architecture.config)
        if key == ANY_VIT:
            config = _config(_description(name).parent)
            config.num_labels = num_classes or config.num_labels
        elif architecture.backbone:
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
        return _published(key, model, _usual_processor(config))


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
    except pickle.UnpicklingError as error:
        raise PublishedError(f"{name} {why_not_read(error)}") from error
    except (
        AttributeError,  # among these what it does not expect in a configuration
        KeyError,
        OSError,
        RuntimeError,
        SafetensorError,
        TypeError,
        ValueError,
    ) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise PublishedError(f"{name} cannot be read: {lines[0]}") from error


def _config(folder: str | Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )


def _has_classes(model_class: str) -> bool:
    return "ImageClassification" in model_class or "Segmentation" in model_class


def _num_classes(model: Any) -> int:
    """0 where it gives features."""
    return model.config.num_labels if _has_classes(type(model).__name__) else 0


def _published(key: str, model: Any, processor: Any) -> PublishedModel:
    architecture = ARCHITECTURES[key]
    config = model.config
    if architecture.backbone:
        preprocessing, size, notes = of_segmenter(processor.to_dict())
        sides = size or preprocessing.sides
        if sides is None:  # of_segmenter gives one of the two
            raise PublishedError(f"{key} does not say of what size its pictures are")
        _check_windows(sides, config.backbone_config)
        labels, unsure = _names(config.id2label)
        if size:
            notes = [*notes, _BATCHES]
        return PublishedModel(
            backbone=architecture.backbone,
            weights=published_names(config.model_type, model.state_dict()),
            num_classes=_num_classes(model),
            preprocessing=preprocessing,
            image_size=size,
            labels=labels,
            head=Head(task="SEGMENTATION", name="upernet"),
            notes=[*notes, *unsure],
        )
    classes = _num_classes(model)
    weights = {
        name: weight
        for name, weight in model.state_dict().items()
        if not name.startswith("pooler.")  # ViTModel's, of BERT's making
    }
    weights = published_names(config.model_type, weights)
    notes = []
    if type(model).__name__ == WITHOUT_TEACHER:
        _average_alone(weights)
        notes.append(_WITHOUT_TEACHER)
    preprocessing, side = of_classifier(processor.to_dict())
    if side != getattr(config, "image_size", side):
        raise PublishedError(
            f"the image processor gives {side} pixels, and the model takes {config.image_size}"
        )
    labels, unsure = _labels(config.id2label) if classes else (None, [])
    by_class = config.problem_type == "multi_label_classification" or classes == 1
    if by_class:
        reason = "It was trained for several labels at once" if classes > 1 else _ONE
        notes.append(
            f"{reason}: the confidence of a class is the sigmoid of its logit."
        )
    usual = side == _PIXELS and key != ANY_VIT
    return PublishedModel(
        backbone=key,
        weights=weights,
        num_classes=classes,
        preprocessing=preprocessing,
        image_size=None if usual else (side, side),
        labels=labels,
        vit=_sizes(config) if key == ANY_VIT else None,
        sigmoid=by_class,
        notes=[*notes, *unsure],
    )


def _sizes(config: Any) -> VitSizes:
    return VitSizes(
        depth=config.num_hidden_layers,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        patch_size=config.patch_size,
        mlp_width=config.intermediate_size,
    )


def _average_alone(weights: Weights) -> None:
    """One classifier as the exact average of two, which is what the backbone computes: twice its weights, and zeros."""
    for part in ("weight", "bias"):
        alone = weights[f"head.{part}"]
        weights[f"head.{part}"] = 2 * alone
        weights[f"head_dist.{part}"] = torch.zeros_like(alone)


def _check_windows(size: tuple[int, int], swin: Any) -> None:
    """Where the coarsest map is no larger than a window, transformers shifts windows all the same and Fovea does not."""
    largest = swin.window_size * swin.patch_size * 2 ** (len(swin.depths) - 1)
    if min(size) <= largest:
        raise PublishedError(
            f"the image processor gives {size[0]}x{size[1]} pixels, at which Fovea's Swin computes something else than "
            f"transformers': the coarsest map would fit into a window. Both sides must be above {largest}"
        )


def _names(of_classes: dict[int, str]) -> tuple[list[str] | None, list[str]]:
    """Labels by class index, None if they are only numbers; and a note if they are in doubt."""
    if all(name == f"LABEL_{index}" for index, name in of_classes.items()):
        return None, []
    numbers = sorted(of_classes)
    names = [str(of_classes[number]) for number in numbers]
    if numbers == list(range(len(numbers))):
        return names, []
    return names, [
        (
            f"id2label has the numbers {named([str(number) for number in numbers])}, and not 0 to {len(numbers) - 1}: its names "
            "are those of the classes in this order."
        )
    ]


def _labels(names: dict[int, str]) -> tuple[list[str] | None, list[str]]:
    """The published ones; a model that was never trained has only numbers, and gets ImageNet's if they are as many."""
    from fovea.published.timm_models import imagenet_labels

    labels, unsure = _names(names)
    if labels is None and len(names) == 1000:
        labels = imagenet_labels()
    return labels, unsure
