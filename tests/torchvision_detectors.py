"""torchvision's detectors with seeded weights that answer as trained ones do: the reference that tests and measurements
compare with."""

from __future__ import annotations

import pathlib

import safetensors.torch
import torch
from torchvision.models.detection import (
    MaskRCNN,
    maskrcnn_resnet50_fpn_v2,
    retinanet_resnet50_fpn_v2,
)
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.retinanet import RetinaNet
from torchvision.models.resnet import Bottleneck
from weights_like_trained import perturbed, settled

_SIZE = (256, 320)


def retinanet() -> RetinaNet:
    """retinanet_resnet50_fpn_v2: few anchors show something, and boxes lie near them."""
    torch.manual_seed(0)
    model = perturbed(
        retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None), "retinanet"
    )
    _damp(model)
    settled(model.backbone, torch.randn(2, 3, *_SIZE))
    model.eval()
    _, logits, deltas, _ = retinanet_stages(model, torch.randn(2, 3, *_SIZE))
    model.head.classification_head.cls_logits.weight.data.div_(logits.std())
    model.head.regression_head.bbox_reg.weight.data.mul_(0.2 / deltas.std())
    return model


def mask_rcnn() -> MaskRCNN:
    """maskrcnn_resnet50_fpn_v2: proposals differ, few regions show something, boxes lie near them."""
    torch.manual_seed(0)
    model = perturbed(
        maskrcnn_resnet50_fpn_v2(weights=None, weights_backbone=None), "mask_rcnn"
    )
    _damp(model)
    pixels = torch.randn(2, 3, *_SIZE)
    settled(model.backbone, pixels)
    model.eval()
    with torch.inference_mode():
        maps = model.backbone(pixels)
        objectness, deltas = model.rpn.head(list(maps.values()))
    model.rpn.head.cls_logits.weight.data.div_(
        torch.cat([o.flatten() for o in objectness]).std()
    )
    model.rpn.head.bbox_pred.weight.data.mul_(
        0.2 / torch.cat([d.flatten() for d in deltas]).std()
    )
    proposals = [torch.tensor([[20.0, 20, 180, 160], [60, 60, 90, 120]])] * 2
    with torch.no_grad():
        regions = model.roi_heads.box_roi_pool(maps, proposals, [_SIZE] * 2)
        for part in (model.roi_heads.box_head, model.roi_heads.mask_head):
            settled(part, regions.clone())
        logits, deltas = model.roi_heads.box_predictor(
            model.roi_heads.box_head(regions.clone())
        )
    model.roi_heads.box_predictor.cls_score.weight.data.mul_(3 / logits.std())
    model.roi_heads.box_predictor.bbox_pred.weight.data.mul_(1 / deltas.std())
    return model.eval()


def retinanet_stages(
    model: RetinaNet, pixels: torch.Tensor
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, list[dict]]:
    """Behind the resizing: maps, logits and box deltas of all of them, detections."""
    with torch.inference_mode():
        maps = list(model.backbone(pixels).values())
        outputs = model.head(maps)
        sizes = [tuple(pixels.shape[2:])] * len(pixels)
        anchors = model.anchor_generator(ImageList(pixels, sizes), maps)
        places = [9 * m.shape[2] * m.shape[3] for m in maps]
        detections = model.postprocess_detections(
            {
                name: list(output.split(places, dim=1))
                for name, output in outputs.items()
            },
            [list(one.split(places)) for one in anchors],
            sizes,
        )
    return maps, outputs["cls_logits"], outputs["bbox_regression"], detections


def mask_rcnn_detections(model: MaskRCNN, pixels: torch.Tensor) -> list[dict]:
    """Behind the resizing and before masks are pasted: boxes, labels, scores, masks [n, 1, 28, 28]."""
    sizes = [tuple(pixels.shape[2:])] * len(pixels)
    with torch.inference_mode():
        maps = model.backbone(pixels)
        proposals, _ = model.rpn(ImageList(pixels, sizes), maps)
        detections, _ = model.roi_heads(maps, proposals, sizes)
    return detections


def own_name(name: str) -> str:
    """What the zoo calls the parameter."""
    for published, own in (
        ("backbone.body.", "backbone."),
        ("backbone.fpn.", "head.fpn."),
        ("rpn.", "head.rpn."),
        ("roi_heads.", "head.roi_heads."),
    ):
        if name.startswith(published):
            return own + name.removeprefix(published)
    return name


def save(model: torch.nn.Module, path: pathlib.Path) -> None:
    """Its weights, under the zoo's names."""
    weights = {own_name(name): value for name, value in model.state_dict().items()}
    safetensors.torch.save_file(
        {name: value.contiguous().clone() for name, value in weights.items()}, path
    )


def _damp(model: torch.nn.Module) -> None:
    """Blocks that add a little each: without, a deep network's activations explode."""
    for block in model.modules():
        if isinstance(block, Bottleneck):
            block.bn3.weight.data.mul_(0.3)
