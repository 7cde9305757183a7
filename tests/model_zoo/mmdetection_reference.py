"""The heads of mmdetection 3's retinanet_r50_fpn, mask_rcnn_r50_fpn and cascade_mask_rcnn_r50_fpn in plain PyTorch.

A second implementation of what the package computes, with its parameter names, after its configurations: written apart
from the zoo's, with torchvision's RoIAlign and NMS. test_published_heads.py compares it with what the package gave. Boxes
are x1, y1, x2, y2; a picture fills its input from the upper left corner up to `shape` (height, width).
"""

from __future__ import annotations

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import nms, roi_align

CHANNELS = 256
RATIOS = (0.5, 1.0, 2.0)


class Conv(nn.Module):
    """ConvModule: its parameters lie below "conv"."""

    def __init__(self, ins: int, outs: int, side: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(ins, outs, side, stride, side // 2)

    def forward(self, map_: Tensor) -> Tensor:
        return self.conv(map_)


class Neck(nn.Module):
    """FPN. `extra`: two convolutions on the last input (RetinaNet), else every second place of the last map."""

    def __init__(self, ins: list[int], extra: bool, channels: int) -> None:
        super().__init__()
        self.extra = extra
        self.lateral_convs = nn.ModuleList(Conv(i, channels, 1) for i in ins)
        self.fpn_convs = nn.ModuleList(Conv(channels, channels, 3) for _ in ins)
        if extra:
            self.fpn_convs.append(Conv(ins[-1], channels, 3, 2))
            self.fpn_convs.append(Conv(channels, channels, 3, 2))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        sums = [lateral(m) for lateral, m in zip(self.lateral_convs, maps, strict=True)]
        for i in range(len(sums) - 1, 0, -1):
            size = sums[i - 1].shape[2:]
            sums[i - 1] = sums[i - 1] + F.interpolate(sums[i], size, mode="nearest")
        pyramid = [self.fpn_convs[i](one) for i, one in enumerate(sums)]
        if not self.extra:
            return [*pyramid, F.max_pool2d(pyramid[-1], 1, stride=2)]
        pyramid.append(self.fpn_convs[-2](maps[-1]))
        pyramid.append(self.fpn_convs[-1](pyramid[-1]))  # relu_before_extra_convs=False
        return pyramid


def anchors_of(map_: Tensor, stride: int, scales: list[float]) -> Tensor:
    """All of one map: by row, column, ratio and scale."""
    boxes = []
    for ratio in RATIOS:
        for scale in scales:
            height = stride * scale * math.sqrt(ratio)
            width = stride * scale / math.sqrt(ratio)
            boxes.append([-width / 2, -height / 2, width / 2, height / 2])
    rows = torch.arange(map_.shape[2]) * stride
    columns = torch.arange(map_.shape[3]) * stride
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    shifts = torch.stack([x, y, x, y], 2).reshape(-1, 1, 4)
    return (shifts + torch.tensor(boxes)).reshape(-1, 4)


def decode(
    boxes: Tensor, deltas: Tensor, stds: tuple[float, ...], shape: tuple[int, int]
) -> Tensor:
    """DeltaXYWHBBoxCoder with clip_border."""
    deltas = deltas * torch.tensor(stds)
    most = abs(math.log(16 / 1000))
    size = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, :2] + boxes[:, 2:]) * 0.5 + size * deltas[:, :2]
    half = size * deltas[:, 2:].clamp(-most, most).exp() * 0.5
    moved = torch.cat([centre - half, centre + half], 1)
    height, width = shape
    return torch.stack(
        [moved[:, i].clamp(0, width if i % 2 == 0 else height) for i in range(4)], 1
    )


def batched_nms(boxes: Tensor, scores: Tensor, groups: Tensor, iou: float) -> Tensor:
    """The places of what stays, the best first."""
    boxes = boxes.double()
    apart = groups.double() * (boxes.max() + 1) if len(boxes) else groups.double()
    return nms(boxes + apart[:, None], scores.double(), iou)


def has_area(boxes: Tensor) -> Tensor:
    """min_bbox_size=0."""
    return (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])


def by_place(output: Tensor, numbers: int) -> Tensor:
    """[N, anchors * numbers, height, width] -> [N, places * anchors, numbers]."""
    return output.permute(0, 2, 3, 1).reshape(len(output), -1, numbers)


class RetinaBranches(nn.Module):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.classes = classes
        self.cls_convs = nn.ModuleList(Conv(channels, channels, 3) for _ in range(4))
        self.reg_convs = nn.ModuleList(Conv(channels, channels, 3) for _ in range(4))
        self.retina_cls = nn.Conv2d(channels, 9 * classes, 3, padding=1)
        self.retina_reg = nn.Conv2d(channels, 9 * 4, 3, padding=1)

    def forward(self, map_: Tensor) -> tuple[Tensor, Tensor]:
        logits, deltas = map_, map_
        for conv in self.cls_convs:
            logits = conv(logits).relu()
        for conv in self.reg_convs:
            deltas = conv(deltas).relu()
        return (
            by_place(self.retina_cls(logits), self.classes),
            by_place(self.retina_reg(deltas), 4),
        )


class RetinaNet(nn.Module):
    """Behind the backbone's three coarsest maps, at strides of 8, 16 and 32."""

    STRIDES = (8, 16, 32, 64, 128)

    def __init__(self, ins: list[int], classes: int, channels: int = CHANNELS) -> None:
        super().__init__()
        self.neck = Neck(ins, extra=True, channels=channels)
        self.bbox_head = RetinaBranches(classes, channels)

    def detect(
        self,
        outputs: list[tuple[Tensor, Tensor]],
        maps: list[Tensor],
        shape,
        image,
        most: int = 100,
    ) -> dict[str, Tensor]:
        """Of one image, from both branches' outputs on each map."""
        scales = [4 * 2 ** (i / 3) for i in range(3)]
        boxes, scores, labels = [], [], []
        for (logits, deltas), map_, stride in zip(
            outputs, maps, self.STRIDES, strict=True
        ):
            found = logits[image].sigmoid()
            places = (found > 0.05).nonzero()
            best, order = found[found > 0.05].sort(descending=True)
            order, best = order[:1000], best[:1000]
            anchor, label = places[order].unbind(1)
            moved = decode(
                anchors_of(map_, stride, scales)[anchor],
                deltas[image][anchor],
                (1, 1, 1, 1),
                shape,
            )
            boxes.append(moved)
            scores.append(best)
            labels.append(label)
        return best_of(torch.cat(boxes), torch.cat(scores), torch.cat(labels), most)


def best_of(
    boxes: Tensor, scores: Tensor, labels: Tensor, most: int = 100
) -> dict[str, Tensor]:
    keep = has_area(boxes)
    boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
    keep = batched_nms(boxes, scores, labels, 0.5)[:most]
    return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


class RpnHead(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.rpn_conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.rpn_cls = nn.Conv2d(channels, 3, 1)
        self.rpn_reg = nn.Conv2d(channels, 12, 1)

    def forward(self, map_: Tensor) -> tuple[Tensor, Tensor]:
        map_ = self.rpn_conv(map_).relu()
        return by_place(self.rpn_cls(map_), 1), by_place(self.rpn_reg(map_), 4)


class BoxHead(nn.Module):
    """Shared2FCBBoxHead, whose vector is four times as wide as the pyramid: 1024 as published."""

    def __init__(self, classes: int, agnostic: bool, channels: int) -> None:
        super().__init__()
        width = 4 * channels
        self.shared_fcs = nn.ModuleList(
            [nn.Linear(channels * 49, width), nn.Linear(width, width)]
        )
        self.fc_cls = nn.Linear(width, classes + 1)
        self.fc_reg = nn.Linear(width, 4 if agnostic else 4 * classes)

    def forward(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        flat = regions.flatten(1)
        for layer in self.shared_fcs:
            flat = layer(flat).relu()
        return self.fc_cls(flat), self.fc_reg(flat)


def levels_of(boxes: Tensor) -> Tensor:
    """SingleRoIExtractor's map_roi_levels with finest_scale=56, of four maps."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return (area.sqrt() / 56 + 1e-6).log2().floor().clamp(0, 3).long()


class MaskHead(nn.Module):
    """FCNMaskHead."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(Conv(channels, channels, 3) for _ in range(4))
        self.upsample = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.conv_logits = nn.Conv2d(channels, classes, 1)

    def forward(self, regions: Tensor) -> Tensor:
        for conv in self.convs:
            regions = conv(regions).relu()
        return self.conv_logits(self.upsample(regions).relu())


class RoiHead(nn.Module):
    """StandardRoIHead with one stage, CascadeRoIHead with several."""

    STDS = (
        (0.1, 0.1, 0.2, 0.2),
        (0.05, 0.05, 0.1, 0.1),
        (0.033, 0.033, 0.067, 0.067),
    )

    def __init__(self, classes: int, stages: int, channels: int) -> None:
        super().__init__()
        self.classes = classes
        self.stages = stages
        boxes = [BoxHead(classes, stages > 1, channels) for _ in range(stages)]
        masks = [MaskHead(classes, channels) for _ in range(stages)]
        self.bbox_head = nn.ModuleList(boxes) if stages > 1 else boxes[0]
        self.mask_head = nn.ModuleList(masks) if stages > 1 else masks[0]

    def box_head(self, stage: int) -> BoxHead:
        return self.bbox_head[stage] if self.stages > 1 else self.bbox_head

    def mask_heads(self) -> list[MaskHead]:
        return list(self.mask_head) if self.stages > 1 else [self.mask_head]

    @staticmethod
    def regions(pyramid: list[Tensor], boxes: list[Tensor], side: int) -> Tensor:
        """SingleRoIExtractor with RoIAlign(sampling_ratio=0), on the four finer maps."""
        rois = torch.cat(
            [
                torch.cat([torch.full((len(one), 1), float(i)), one], 1)
                for i, one in enumerate(boxes)
            ]
        )
        level = levels_of(rois[:, 1:])
        out = torch.zeros(len(rois), pyramid[0].shape[1], side, side)
        for i, stride in enumerate((4, 8, 16, 32)):
            own = level == i
            out[own] = roi_align(
                pyramid[i], rois[own], side, 1 / stride, sampling_ratio=0, aligned=True
            )
        return out

    def look(
        self, stage: int, pyramid: list[Tensor], boxes: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        return self.box_head(stage)(self.regions(pyramid, boxes, 7))

    def detect(
        self, pyramid: list[Tensor], boxes: list[Tensor], shapes: list
    ) -> list[dict]:
        """Of each image, from its proposals."""
        total = 0
        for stage in range(self.stages):
            logits, deltas = self.look(stage, pyramid, boxes)
            total = total + logits
            counts = [len(one) for one in boxes]
            moves = deltas.split(counts)
            if stage + 1 < self.stages:
                boxes = [
                    decode(one, move, self.STDS[stage], shape)
                    for one, move, shape in zip(boxes, moves, shapes, strict=True)
                ]
        logits = (total / self.stages).split(counts)
        results = []
        for one, move, each, shape in zip(boxes, moves, logits, shapes, strict=True):
            results.append(self.best(one, move, each, shape))
        self.add_masks(pyramid, results)
        return results

    def best(self, boxes: Tensor, deltas: Tensor, logits: Tensor, shape) -> dict:
        scores = logits.softmax(1)[:, :-1]
        region, label = (scores > 0.05).nonzero().unbind(1)
        if deltas.shape[1] > 4:
            deltas = deltas.view(len(boxes), -1, 4)[region, label]
        else:
            deltas = deltas[region]
        moved = decode(boxes[region], deltas, self.STDS[self.stages - 1], shape)
        return best_of(moved, scores[region, label], label)

    def add_masks(self, pyramid: list[Tensor], results: list[dict]) -> None:
        regions = self.regions(pyramid, [r["boxes"] for r in results], 14)
        masks = sum(head(regions).sigmoid() for head in self.mask_heads())
        masks = masks / self.stages
        counts = [len(result["labels"]) for result in results]
        for result, own in zip(results, masks.split(counts), strict=True):
            result["masks"] = own[torch.arange(len(own)), result["labels"]]


class TwoStage(nn.Module):
    """Mask R-CNN with one stage, Cascade Mask R-CNN with three; on maps at strides of 4 to 32."""

    STRIDES = (4, 8, 16, 32, 64)

    def __init__(
        self, ins: list[int], classes: int, stages: int, channels: int = CHANNELS
    ) -> None:
        super().__init__()
        self.neck = Neck(ins, extra=False, channels=channels)
        self.rpn_head = RpnHead(channels)
        self.roi_head = RoiHead(classes, stages, channels)

    def propose(
        self, outputs: list[tuple[Tensor, Tensor]], maps: list[Tensor], shape, image
    ) -> Tensor:
        """Of one image, from the RPN's outputs on each map."""
        boxes, scores, levels = [], [], []
        for level, ((logits, deltas), map_) in enumerate(
            zip(outputs, maps, strict=True)
        ):
            best, order = logits[image, :, 0].sigmoid().sort(descending=True)
            order = order[:1000]
            anchors = anchors_of(map_, self.STRIDES[level], [8.0])
            boxes.append(
                decode(anchors[order], deltas[image][order], (1, 1, 1, 1), shape)
            )
            scores.append(best[:1000])
            levels.append(torch.full_like(order, level))
        boxes, scores, levels = map(torch.cat, (boxes, scores, levels))
        keep = has_area(boxes)
        boxes, scores, levels = boxes[keep], scores[keep], levels[keep]
        return boxes[batched_nms(boxes, scores, levels, 0.7)[:1000]]


RENAMED = (
    (r"^neck\.lateral_convs\.(\d)\.conv\.", r"fpn.inner_blocks.\1.0."),
    (r"^neck\.fpn_convs\.(\d)\.conv\.", r"fpn.layer_blocks.\1.0."),
    (r"^rpn_head\.rpn_conv\.", "rpn.head.conv.0.0."),
    (r"^rpn_head\.rpn_cls\.", "rpn.head.cls_logits."),
    (r"^rpn_head\.rpn_reg\.", "rpn.head.bbox_pred."),
    (r"^bbox_head\.cls_convs\.(\d)\.conv\.", r"classification_head.conv.\1.0."),
    (r"^bbox_head\.reg_convs\.(\d)\.conv\.", r"regression_head.conv.\1.0."),
    (r"^bbox_head\.retina_cls\.", "classification_head.cls_logits."),
    (r"^bbox_head\.retina_reg\.", "regression_head.bbox_reg."),
    (r"^roi_head\.bbox_head(\.\d)?\.shared_fcs\.0\.", r"roi_heads.box_head\1.fc6."),
    (r"^roi_head\.bbox_head(\.\d)?\.shared_fcs\.1\.", r"roi_heads.box_head\1.fc7."),
    (r"^roi_head\.bbox_head(\.\d)?\.fc_cls\.", r"roi_heads.box_predictor\1.cls_score."),
    (r"^roi_head\.bbox_head(\.\d)?\.fc_reg\.", r"roi_heads.box_predictor\1.bbox_pred."),
    (r"^roi_head\.mask_head(\.\d)?\.convs\.(\d)\.conv\.", r"roi_heads.mask_head\1.\2.0."),
    (r"^roi_head\.mask_head(\.\d)?\.upsample\.", r"roi_heads.mask_predictor\1.conv5_mask."),
    (
        r"^roi_head\.mask_head(\.\d)?\.conv_logits\.",
        r"roi_heads.mask_predictor\1.mask_fcn_logits.",
    ),
)  # fmt: skip


def own_name(name: str, maps: int) -> str:
    """The zoo's name, of a head behind `maps` maps."""
    for i, extra in enumerate(("p6", "p7")):
        start = f"neck.fpn_convs.{maps + i}.conv."
        if name.startswith(start):
            return f"head.fpn.extra_blocks.{extra}." + name.removeprefix(start)
    for published, own in RENAMED:
        renamed, count = re.subn(published, own, name)
        if count:
            return "head." + renamed
    raise AssertionError(name)
