"""Detectors of the zoo against torchvision's in eager PyTorch: the same weights, one process, in turns."""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile
from collections.abc import Callable

import torch
import torchvision_detectors
from torch.profiler import ProfilerActivity, profile, record_function
from torchvision.ops import box_iou
from turns import in_turns

# A picture of 3:4 as detectors are published to see it, whole strides.
SIZE = (800, 1088)
# The longest that they are published to see, up to whole strides: where postprocessing is weighed.
LONGEST = (800, 1344)
HEADS: dict[str, tuple[Callable, Callable]] = {
    "retinanet": (
        torchvision_detectors.retinanet,
        lambda model, pixels: torchvision_detectors.retinanet_stages(model, pixels)[3],
    ),
    "mask_rcnn": (
        torchvision_detectors.mask_rcnn,
        torchvision_detectors.mask_rcnn_detections,
    ),
}
# What is not the network: suppressing boxes and cutting regions out of maps.
POSTPROCESSING = ("fovea::nms", "fovea::roi_align")


def prepared(head: str, weights: pathlib.Path, size: tuple[int, int]):
    description = {
        "backbone": "resnet50",
        "task": "DETECTION",
        "head": head,
        "weights": str(weights),
        "image_height": size[0],
        "image_width": size[1],
    }
    return torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)


def agreement(found: list[torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """The share of torchvision's detections of one image that ours has too: class, box (IoU of 0.99), score (0.001)."""
    boxes, scores, labels, count = (output[0] for output in found[:4])
    boxes, scores, labels = boxes[:count], scores[:count], labels[:count]
    same = (
        (box_iou(expected["boxes"], boxes) >= 0.99)
        & ((expected["scores"][:, None] - scores).abs() <= 1e-3)
        & (expected["labels"][:, None] == labels)
    )
    return same.any(1).double().mean().item()


def contest(head: str, seconds: float) -> dict[str, float]:
    """How many times as many images a second ours does, and in how far both find the same."""
    make, detect = HEADS[head]
    published = make()
    pixels = torch.randn(1, 3, *SIZE, generator=torch.Generator().manual_seed(1))
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder, "model.safetensors")
        torchvision_detectors.save(published, weights)
        model = prepared(head, weights, SIZE)
    expected = detect(published, pixels)[0]
    same = agreement(model.run(pixels), expected)
    theirs, ours = in_turns(
        [lambda: detect(published, pixels), lambda: model.run(pixels)], seconds
    )
    ratio = statistics.median(t / o for t, o in zip(theirs, ours, strict=True))
    print(
        f"  {head}, {SIZE[0]}x{SIZE[1]}: torchvision {statistics.median(theirs):.0f} ms, ours "
        f"{statistics.median(ours):.0f} ms, ratio {ratio:.3f} of {len(ours)} pairs; {same:.1%} of its "
        f"{len(expected['scores'])} detections found",
        flush=True,
    )
    return {f"{head}_over_torchvision": ratio, f"{head}_agreement": same}


def postprocessing_share(rounds: int = 5) -> float:
    """Of Mask R-CNN with 1,000 proposals: the share of its time that goes into NMS and RoIAlign."""
    published = torchvision_detectors.mask_rcnn()
    pixels = torch.randn(1, 3, *LONGEST, generator=torch.Generator().manual_seed(1))
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder, "model.safetensors")
        torchvision_detectors.save(published, weights)
        model = prepared("mask_rcnn", weights, LONGEST)
    proposals = len(model.records(pixels)["head.proposals.0"])
    if proposals != 1000:
        raise RuntimeError(
            f"{proposals} proposals are left of the 1,000 that are weighed"
        )
    shares = []
    for _ in range(rounds):
        with (
            profile(activities=[ProfilerActivity.CPU]) as profiled,
            record_function("whole"),
        ):
            model.run(pixels)
        times = {event.key: event.cpu_time_total for event in profiled.key_averages()}
        shares.append(sum(times[name] for name in POSTPROCESSING) / times["whole"])
    share = statistics.median(shares)
    print(
        f"  mask_rcnn, {LONGEST[0]}x{LONGEST[1]}, {proposals} proposals: NMS and RoIAlign take {share:.2%}",
        flush=True,
    )
    return share
