"""torchvision's models: ResNet-50 and the detectors that stand on it."""

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torchvision
from torchvision.transforms import InterpolationMode

from fovea.model_folder import Head, Preprocessing
from fovea.published.checkpoint import Weights, check_fit, shape_of
from fovea.published.model import (
    HUB_TIMEOUT_S,
    PublishedError,
    PublishedModel,
    UnknownModel,
    check_num_classes,
    not_fetched,
)

# Fovea's head for each detector. All have resnet50 as their backbone.
_HEADS = {
    "retinanet_resnet50_fpn_v2": "retinanet",
    "maskrcnn_resnet50_fpn_v2": "mask_rcnn",
}
KNOWN = {name: name for name in ("resnet50", *_HEADS)}

# The last layer, by which a file tells how many classes it has; its rows for each of them, and its dimensions.
_LAST_LAYERS = {
    "resnet50": ("fc.weight", 1, 2),
    "retinanet_resnet50_fpn_v2": ("head.classification_head.cls_logits.weight", 9, 4),
    "maskrcnn_resnet50_fpn_v2": ("roi_heads.box_predictor.cls_score.weight", 1, 2),
}
_NO_MASKS = "Fovea has no head for boxes in two stages without masks"
_NOT_HELD = {
    "retinanet_resnet50_fpn": "its branches have no norms and its coarsest maps are made of the pyramid's; Fovea's "
    "'retinanet' has the layers of retinanet_resnet50_fpn_v2",
    "maskrcnn_resnet50_fpn": "its pyramid and its branches have no norms; Fovea's 'mask_rcnn' has the layers of "
    "maskrcnn_resnet50_fpn_v2",
    "fasterrcnn_resnet50_fpn": _NO_MASKS,
    "fasterrcnn_resnet50_fpn_v2": _NO_MASKS,
    "fasterrcnn_mobilenet_v3_large_fpn": _NO_MASKS,
    "fasterrcnn_mobilenet_v3_large_320_fpn": _NO_MASKS,
    "keypointrcnn_resnet50_fpn": "Fovea has no head for keypoints",
    "fcos_resnet50_fpn": "Fovea has no head without anchors",
    "ssd300_vgg16": "Fovea has neither its backbone nor its head",
    "ssdlite320_mobilenet_v3_large": "Fovea has neither its backbone nor its head",
}
BACKGROUND = "__background__"
# As own names stand for published ones.
_PREFIXES = {
    "backbone.body.": "backbone.",
    "backbone.fpn.": "head.fpn.",
    "rpn.": "head.rpn.",
    "roi_heads.": "head.roi_heads.",
}
_INTERPOLATIONS = {
    InterpolationMode.BILINEAR: "BILINEAR",
    InterpolationMode.BICUBIC: "BICUBIC",
}
_RESIZED = "torchvision resizes pictures of detectors without anti-aliasing; Fovea resizes them with it, as Pillow does."
_ANCHORS = (
    "Anchors, proposals and thresholds are not in the weights: they are those of torchvision's {}; "
    "model.textproto has the thresholds."
)


def resolve(name: str) -> str | None:
    """The architecture; None where there is none. A name may carry the tag of its weights: resnet50.IMAGENET1K_V1.

    Raises UnknownModel as check_held does.
    """
    check_held(name)
    architecture, dot, tag = name.partition(".")
    if architecture not in KNOWN:
        return None
    weights = torchvision.models.get_model_weights(architecture)
    return architecture if not dot or tag in weights.__members__ else None


def check_held(name: str) -> None:
    """Raises UnknownModel, with the reason, for a detector of torchvision's that Fovea's heads cannot hold."""
    if name in _NOT_HELD:
        raise UnknownModel(f"torchvision's {name} cannot be had: {_NOT_HELD[name]}")


def fetch(architecture: str, name: str, num_classes: int | None) -> PublishedModel:
    known = torchvision.models.get_model_weights(architecture)
    tag = name.partition(".")[2]
    published = known[tag] if tag else known.DEFAULT
    labels = published.meta["categories"]
    check_num_classes(name, num_classes, len(labels))
    try:
        with _impatient():
            weights = published.get_state_dict(
                progress=False, check_hash=True, weights_only=True
            )
    except Exception as error:  # among them those of the HTTP library
        raise not_fetched(f"torchvision's {name}", error) from error
    return _published(architecture, weights, labels, published)


def randomised(
    architecture: str, name: str, seed: int, num_classes: int | None
) -> PublishedModel:
    """With torchvision's own initialisation."""
    published = torchvision.models.get_model_weights(architecture).DEFAULT
    labels = published.meta["categories"]
    classes = num_classes or len(labels)
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = _build(architecture, classes)
    torch.set_rng_state(generator_state)
    return _published(
        architecture,
        model.state_dict(),
        labels if classes == len(labels) else None,
        published,
    )


def names(architecture: str) -> Collection[str]:
    """Names of the tensors that it has with any number of classes."""
    with torch.device("meta"):
        return _build(architecture, 2).state_dict().keys()


def of_weights(architecture: str, path: Path, weights: Weights) -> PublishedModel:
    """Of a file that a user saved: the architecture with any number of classes."""
    layer, rows, dimensions = _LAST_LAYERS[architecture]
    numbers = shape_of(path, weights, layer, dimensions)[0]
    classes, rest = divmod(numbers, rows)
    if rest:
        raise PublishedError(
            f"{path} has {layer} with {numbers} rows, which are not {rows} for each class"
        )
    with torch.device("meta"):
        expected = _build(architecture, classes).state_dict()
    check_fit(str(path), weights, architecture, expected)
    published = torchvision.models.get_model_weights(architecture).DEFAULT
    model = _published(architecture, weights, None, published)
    if architecture not in _HEADS:
        return model
    notes = (*model.notes, _ANCHORS.format(architecture))
    return PublishedModel(**{**vars(model), "notes": notes})


def _build(architecture: str, classes: int) -> torch.nn.Module:
    backbone = {"weights_backbone": None} if architecture in _HEADS else {}
    model: torch.nn.Module = torchvision.models.get_model(
        architecture, weights=None, num_classes=classes, **backbone
    )
    return model


@contextmanager
def _impatient() -> Iterator[None]:
    """torch.hub waits for ever where nobody answers."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(HUB_TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _published(
    architecture: str, weights: Weights, labels: list[str] | None, published: Any
) -> PublishedModel:
    layer, rows, _ = _LAST_LAYERS[architecture]
    classes = weights[layer].shape[0] // rows
    if architecture not in _HEADS:
        return PublishedModel(
            backbone=architecture,
            weights=dict(weights),
            num_classes=classes,
            preprocessing=_classifiers(published.transforms()),
            image_size=None,
            labels=labels,
            sigmoid=classes == 1,
        )
    with torch.device("meta"):
        model = _build(architecture, classes)
    return PublishedModel(
        backbone="resnet50",
        weights=own_names(weights),
        num_classes=classes,
        preprocessing=_detectors(model.transform),
        image_size=None,
        labels=labels,
        head=_head(architecture, model),
        notes=(_RESIZED,),
    )


def own_names(weights: Weights) -> Weights:
    """A detector's tensors as Fovea's backbone and head name them."""
    return {_own_name(name): weights[name] for name in weights}


def _own_name(name: str) -> str:
    for published, own in _PREFIXES.items():
        if name.startswith(published):
            return own + name.removeprefix(published)
    return name  # RetinaNet's, whose head is called so


def _head(architecture: str, model: Any) -> Head:
    options = model.roi_heads if hasattr(model, "roi_heads") else model
    return Head(
        task="DETECTION",
        name=_HEADS[architecture],
        score_threshold=options.score_thresh,
        nms_iou=options.nms_thresh,
        detections_per_image=options.detections_per_img,
    )


def _detectors(transform: Any) -> Preprocessing:
    (shorter,) = transform.min_size
    return Preprocessing(
        resize_mode="FIT",
        interpolation="BILINEAR",
        crop_fraction=None,
        mean=tuple(transform.image_mean),
        std=tuple(transform.image_std),
        sides=(shorter, transform.max_size),
    )


def _classifiers(transform: Any) -> Preprocessing:
    (crop,), (resized,) = transform.crop_size, transform.resize_size
    return Preprocessing(
        resize_mode="SHORTEST_EDGE",
        interpolation=_INTERPOLATIONS[transform.interpolation],
        crop_fraction=crop / resized,
        mean=tuple(transform.mean),
        std=tuple(transform.std),
    )
