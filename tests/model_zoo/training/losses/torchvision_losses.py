"""Writes what losses_test.cc compares with: torchvision's losses and their gradients, of drawn inputs.

.venv/bin/python tests/model_zoo/training/losses/torchvision_losses.py tests/model_zoo/training/losses/torchvision_losses.safetensors
"""

from __future__ import annotations

import pathlib
import sys

import torch
from safetensors.torch import save_file
from torchvision.models.detection import _utils, roi_heads
from torchvision.models.detection.retinanet import RetinaNetHead
from torchvision.models.detection.rpn import RegionProposalNetwork
from torchvision.ops import box_iou, generalized_box_iou_loss, sigmoid_focal_loss

CLASSES, ANCHORS, SIDE = 4, 120, 64
OBJECTS = [3, 1]  # of the two images


def boxes(count: int, smallest: float, largest: float) -> torch.Tensor:
    centre = torch.rand(count, 2) * SIDE
    sides = smallest + torch.rand(count, 2) * (largest - smallest)
    return torch.cat([centre - sides / 2, centre + sides / 2], 1)


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_()


def near(objects: torch.Tensor, count: int) -> torch.Tensor:
    """Boxes of which some lie on objects, some beside, most nowhere."""
    moved = objects.repeat(count // (2 * len(objects)) + 1, 1)[: count // 2]
    scale = torch.linspace(0, 8, len(moved))[:, None]
    moved = moved + scale * torch.randn(len(moved), 4)
    moved = torch.cat([moved[:, :2], torch.maximum(moved[:, 2:], moved[:, :2] + 2)], 1)
    return torch.cat([moved, boxes(count - len(moved), 6, 30)])


def focal(out: dict[str, torch.Tensor]) -> None:
    logits, targets = leaf(30, CLASSES), (torch.rand(30, CLASSES) < 0.3).float()
    loss = sigmoid_focal_loss(logits, targets)
    loss.sum().backward()
    out |= {"focal.logits": logits, "focal.targets": targets, "focal.loss": loss}
    out["focal.gradient"] = logits.grad


def giou(out: dict[str, torch.Tensor]) -> None:
    first, second = boxes(40, 4, 30), boxes(40, 4, 30)
    first[:20] = second[:20] + torch.randn(20, 4)
    first.requires_grad_()
    loss = generalized_box_iou_loss(first, second)
    loss.sum().backward()
    out |= {"giou.boxes": first, "giou.targets": second, "giou.loss": loss}
    out["giou.gradient"] = first.grad


def anchor_heads(out: dict[str, torch.Tensor]) -> None:
    """RetinaNet's two losses, and those of region proposals, of the same anchors and objects."""
    truth = [
        {"boxes": boxes(n, 10, 40), "labels": torch.randint(CLASSES, (n,))}
        for n in OBJECTS
    ]
    anchors = near(torch.cat([t["boxes"] for t in truth]), ANCHORS)
    for i, one in enumerate(truth):
        out[f"anchors.boxes{i}"], out[f"anchors.labels{i}"] = (
            one["boxes"],
            one["labels"].float(),
        )
    out["anchors.anchors"] = anchors

    logits, deltas = leaf(2, ANCHORS, CLASSES), leaf(2, ANCHORS, 4)
    matcher = _utils.Matcher(0.5, 0.4, allow_low_quality_matches=True)
    matched = [matcher(box_iou(t["boxes"], anchors)) for t in truth]
    assert {-2, -1, 0} <= set(torch.cat(matched).tolist())
    out["anchors.matched"] = torch.stack(matched).float()
    head = RetinaNetHead(8, 9, CLASSES)
    head.regression_head._loss_type = "giou"
    losses = head.compute_loss(
        truth,
        {"cls_logits": logits, "bbox_regression": deltas},
        [anchors] * 2,
        matched,
    )
    sum(losses.values()).backward()
    out |= {"retinanet.logits": logits, "retinanet.deltas": deltas}
    out |= {
        "retinanet.classification": losses["classification"],
        "retinanet.boxes": losses["bbox_regression"],
    }
    out |= {
        "retinanet.logits_gradient": logits.grad,
        "retinanet.deltas_gradient": deltas.grad,
    }

    objectness, deltas = leaf(2 * ANCHORS, 1), leaf(2 * ANCHORS, 4)
    # Samples all that there is to sample.
    rpn = RegionProposalNetwork(
        None, None, 0.7, 0.3, 10 * ANCHORS, 0.5, {}, {}, 0.7
    ).train()
    labels, matched_boxes = rpn.assign_targets_to_anchors([anchors] * 2, truth)
    targets = rpn.box_coder.encode(matched_boxes, [anchors] * 2)
    losses = rpn.compute_loss(objectness, deltas, labels, targets)
    sum(losses).backward()
    out |= {"rpn.logits": objectness, "rpn.deltas": deltas}
    out |= {"rpn.objectness": losses[0], "rpn.boxes": losses[1]}
    out |= {
        "rpn.logits_gradient": objectness.grad,
        "rpn.deltas_gradient": deltas.grad,
    }


def regions(out: dict[str, torch.Tensor]) -> None:
    """The second stage, by torchvision's convention that class 0 is the background."""
    foreground, background, side = [5, 2], [4, 6], 14
    truth, sampled, objects = [], [], []
    for i, n in enumerate(OBJECTS):
        all_boxes = boxes(n, 14, 40).clamp(0, SIDE)
        masks = (torch.rand(n, SIDE, SIDE) < 0.5).to(torch.uint8)
        truth.append(
            {
                "boxes": all_boxes,
                "labels": torch.randint(1, CLASSES, (n,)),
                "masks": masks,
            }
        )
        objects.append(torch.randint(n, (foreground[i],)))
        moved = all_boxes[objects[i]] + torch.randn(foreground[i], 4)
        sampled.append(torch.cat([moved, boxes(background[i], 6, 20)]))
        out |= {
            f"regions.truth{i}": all_boxes,
            f"regions.truth_labels{i}": truth[i]["labels"].float(),
            f"regions.masks{i}": masks.float(),
            f"regions.sampled{i}": sampled[i],
            f"regions.objects{i}": objects[i].float(),
        }
    labels = [
        torch.cat([t["labels"][o], torch.zeros(b, dtype=torch.int64)])
        for t, o, b in zip(truth, objects, background, strict=True)
    ]
    matched = [
        t["boxes"][torch.cat([o, torch.zeros(b, dtype=torch.int64)])]
        for t, o, b in zip(truth, objects, background, strict=True)
    ]
    targets = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0)).encode(matched, sampled)
    count = sum(foreground) + sum(background)
    logits, deltas = leaf(count, CLASSES), leaf(count, 4 * CLASSES)
    losses = roi_heads.fastrcnn_loss(logits, deltas, labels, targets)
    sum(losses).backward()
    out |= {"regions.logits": logits, "regions.deltas": deltas}
    out |= {"regions.classification": losses[0], "regions.boxes": losses[1]}
    out |= {
        "regions.logits_gradient": logits.grad,
        "regions.deltas_gradient": deltas.grad,
    }

    masks = leaf(sum(foreground), CLASSES, side, side)
    loss = roi_heads.maskrcnn_loss(
        masks,
        [s[:f] for s, f in zip(sampled, foreground, strict=True)],
        [t["masks"] for t in truth],
        [t["labels"] for t in truth],
        objects,
    )
    loss.backward()
    out |= {"masks.logits": masks, "masks.loss": loss, "masks.gradient": masks.grad}


def torchvision_losses() -> dict[str, torch.Tensor]:
    torch.manual_seed(14)
    out: dict[str, torch.Tensor] = {}
    for part in (focal, giou, anchor_heads, regions):
        part(out)
    return {name: value.detach().float().contiguous() for name, value in out.items()}


if __name__ == "__main__":
    save_file(torchvision_losses(), pathlib.Path(sys.argv[1]))
