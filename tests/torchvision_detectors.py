"""torchvision's detectors with seeded weights that answer as trained ones do: the reference that tests and measurements
compare with."""

from __future__ import annotations

import pathlib
import sys

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

sys.path.insert(
    0, str(pathlib.Path(__file__).resolve().parents[1] / "client" / "python")
)
from fovea.published.torchvision_models import own_names

SIZE = (256, 320)  # of the pixels that batch norms are settled on


def retinanet(num_classes: int = 91) -> RetinaNet:
    """retinanet_resnet50_fpn_v2: few anchors show something, and boxes lie near them."""
    torch.manual_seed(0)
    model = perturbed(
        retinanet_resnet50_fpn_v2(
            weights=None, weights_backbone=None, num_classes=num_classes
        ),
        "retinanet",
    )
    _damp(model)
    settled(model.backbone, torch.randn(2, 3, *SIZE))
    model.eval()
    _, logits, deltas, _ = retinanet_stages(model, torch.randn(2, 3, *SIZE))
    model.head.classification_head.cls_logits.weight.data.div_(logits.std())
    model.head.regression_head.bbox_reg.weight.data.mul_(0.2 / deltas.std())
    return model


def mask_rcnn(num_classes: int = 91) -> MaskRCNN:
    """maskrcnn_resnet50_fpn_v2: proposals differ, few regions show something, boxes lie near them, and masks are neither
    full nor empty."""
    torch.manual_seed(0)
    model = perturbed(
        maskrcnn_resnet50_fpn_v2(
            weights=None, weights_backbone=None, num_classes=num_classes
        ),
        "mask_rcnn",
    )
    _damp(model)
    pixels = torch.randn(2, 3, *SIZE)
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
        sizes = [SIZE] * 2
        regions = model.roi_heads.box_roi_pool(maps, proposals, sizes)
        for part in (model.roi_heads.box_head, model.roi_heads.mask_head):
            settled(part, regions.clone())
        logits, deltas = model.roi_heads.box_predictor(
            model.roi_heads.box_head(regions.clone())
        )
        regions = model.roi_heads.mask_roi_pool(maps, proposals, sizes)
        masks = model.roi_heads.mask_predictor(model.roi_heads.mask_head(regions))
    model.roi_heads.mask_predictor.mask_fcn_logits.weight.data.mul_(1 / masks.std())
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


def save(model: torch.nn.Module, path: pathlib.Path) -> None:
    """Its weights, under the zoo's names."""
    weights = own_names(model.state_dict())
    safetensors.torch.save_file(
        {name: value.contiguous().clone() for name, value in weights.items()}, path
    )


def _damp(model: torch.nn.Module) -> None:
    """Blocks that add a little each: without, a deep network's activations explode."""
    for block in model.modules():
        if isinstance(block, Bottleneck):
            block.bn3.weight.data.mul_(0.3)
