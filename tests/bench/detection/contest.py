"""Detectors of the zoo against torchvision's in eager PyTorch: the same weights, one process, in turns."""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import tempfile
from collections.abc import Callable

import torch
import torchvision_detectors
from torch.profiler import ProfilerActivity, profile, record_function
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.ops import box_iou
from turns import in_turns, median_interval

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
# What is not the network: suppressing boxes and cutting regions out of maps; pasting follows behind it.
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


def detections(outputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """What ours gave for its first image, as torchvision tells it."""
    names = ("boxes", "scores", "labels", "masks")
    boxes, scores, labels, count, *masks = (output[0] for output in outputs)
    told = [boxes, scores, labels, *(one.unsqueeze(1) for one in masks)]
    return {name: one[:count] for name, one in zip(names, told, strict=False)}


def pasted(
    told: dict[str, torch.Tensor], i: int, size: tuple[int, int]
) -> torch.Tensor:
    """Where the i-th object is: bool [1, 1, height, width]."""
    masks, boxes = told["masks"][i : i + 1], told["boxes"][i : i + 1]
    return paste_masks_in_image(masks, boxes, size) >= 0.5


def same_mask(theirs: torch.Tensor, ours: torch.Tensor) -> bool:
    return bool((theirs & ours).sum() >= 0.95 * (theirs | ours).sum())


def agreement(
    found: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
    size: tuple[int, int],
) -> float:
    """The detections that both have, of those of the one that has more: of one image, both with one score threshold.

    One to one: the same class, boxes with an IoU of 0.99, scores within 0.001, and, where there are masks, pasted masks
    with an IoU of 0.95: the masks' edges move by whole pixels.
    """
    fits = box_iou(expected["boxes"], found["boxes"])
    same = (
        (fits >= 0.99)
        & ((expected["scores"][:, None] - found["scores"]).abs() <= 1e-3)
        & (expected["labels"][:, None] == found["labels"])
    )
    fits = torch.where(same, fits, 0)
    pairs = []
    for theirs in range(len(fits)):
        fit, ours = fits[theirs].max(0) if fits.shape[1] else (0, 0)
        if fit == 0:
            continue
        pairs.append((theirs, int(ours)))
        fits[:, ours] = 0  # each once
    if "masks" in expected:
        pairs = [
            (theirs, ours)
            for theirs, ours in pairs
            if same_mask(pasted(expected, theirs, size), pasted(found, ours, size))
        ]
    return len(pairs) / max(len(expected["boxes"]), len(found["boxes"]))


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
    found = detections(model.run(pixels))
    same = agreement(found, expected, SIZE)
    theirs, ours = in_turns(
        [lambda: detect(published, pixels), lambda: model.run(pixels)], seconds
    )
    ratios = [t / o for t, o in zip(theirs, ours, strict=True)]
    ratio = statistics.median(ratios)
    lower, upper = median_interval(ratios)
    print(
        f"  {head}, {SIZE[0]}x{SIZE[1]}: torchvision {statistics.median(theirs):.0f} ms, ours "
        f"{statistics.median(ours):.0f} ms, ratio {ratio:.3f} [{lower:.3f}, {upper:.3f}] of {len(ours)} pairs; torchvision has "
        f"{len(expected['scores'])} detections, ours {len(found['scores'])}, {same:.1%} both",
        flush=True,
    )
    return {f"{head}_over_torchvision": ratio, f"{head}_agreement": same}


def pasting(
    build: pathlib.Path, found: dict[str, torch.Tensor], size: tuple[int, int]
) -> dict[str, float]:
    """What the server's code takes for all masks of one answer, and as run lengths, in ms; and their pixels."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("boxes", "masks")]
        for file in files:
            file.write_bytes(found[file.name].contiguous().numpy().tobytes())
        command = [build / "tests/bench_paste_masks", *files, *map(str, size), "2"]
        measured = json.loads(subprocess.check_output(command))
    if measured["masks"] != len(found["boxes"]) or measured["pixels"] == 0:
        raise RuntimeError(f"nothing was pasted: {measured}")
    return measured


def over_a_quarter(
    found: dict[str, torch.Tensor], size: tuple[int, int]
) -> dict[str, torch.Tensor]:
    """The same masks in boxes of a quarter of the picture, side by side."""
    height, width = size[0] / 2, size[1] / 2
    left = torch.linspace(0, width, len(found["boxes"]))
    top = torch.linspace(0, height, len(found["boxes"]))
    boxes = torch.stack([left, top, left + width, top + height], 1)
    return {**found, "boxes": boxes}


def postprocessing_share(build: pathlib.Path, rounds: int = 5) -> float:
    """Of Mask R-CNN with 1,000 proposals and 100 detections, whose masks are pasted into a picture as large as the input:
    the share of the time of both that goes into NMS, RoIAlign and pasting."""
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
    found = detections(model.run(pixels))
    if len(found["boxes"]) != 100:
        raise RuntimeError(f"{len(found['boxes'])} masks of the 100 that are weighed")
    of_found = pasting(build, found, LONGEST)
    of_large = pasting(build, over_a_quarter(found, LONGEST), LONGEST)
    pasting_us = of_found["p50_ms"] * 1e3
    shares = []
    for _ in range(rounds):
        with (
            profile(activities=[ProfilerActivity.CPU]) as profiled,
            record_function("whole"),
        ):
            model.run(pixels)
        times = {event.key: event.cpu_time_total for event in profiled.key_averages()}
        post = sum(times[name] for name in POSTPROCESSING) + pasting_us
        shares.append(post / (times["whole"] + pasting_us))
    share = statistics.median(shares)
    print(
        f"  mask_rcnn, {LONGEST[0]}x{LONGEST[1]}, {proposals} proposals: NMS, RoIAlign and pasting "
        f"{len(found['boxes'])} masks take {share:.2%}",
        flush=True,
    )
    for what, measured in (("as found", of_found), ("a quarter each", of_large)):
        print(
            f"    masks {what}, {measured['pixels'] / measured['masks']:.0f} pixels each: pasting {measured['p50_ms']:.1f} ms, "
            f"as run lengths {measured['run_lengths_p50_ms']:.1f} ms",
            flush=True,
        )
    return share
