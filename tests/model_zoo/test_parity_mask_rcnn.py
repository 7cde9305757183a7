"""Mask R-CNN against torchvision on the same seeded weights: each stage, then what is detected, with its mask."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
import torch
import torchvision_detectors
from parity import distance, facts_of
from torchvision.models.detection import MaskRCNN, MaskRCNN_ResNet50_FPN_V2_Weights
from torchvision.models.detection.image_list import ImageList

# At the second neither the height nor the width divides into the coarsest maps.
SIZES = [(256, 320), (232, 296)]
# What strides divide is the easier one.
TRIED = [pytest.param(SIZES[0], marks=pytest.mark.full), SIZES[1]]


@pytest.fixture(scope="module")
def published() -> MaskRCNN:
    return torchvision_detectors.mask_rcnn()


@pytest.fixture(scope="module")
def weights(
    published: MaskRCNN, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    path = tmp_path_factory.mktemp("mask_rcnn") / "model.safetensors"
    torchvision_detectors.save(published, path)
    return path


def pixels_of(size: tuple[int, int]) -> torch.Tensor:
    return torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))


def stages(model: MaskRCNN, pixels: torch.Tensor) -> dict:
    """Behind the resizing, as the model runs them."""
    sizes = [tuple(pixels.shape[2:])] * len(pixels)
    with torch.inference_mode():
        maps = model.backbone(pixels)
        objectness, deltas = model.rpn.head(list(maps.values()))
        proposals, _ = model.rpn(ImageList(pixels, sizes), maps)
        detections, _ = model.roi_heads(maps, proposals, sizes)
    return {
        "maps": list(maps.values()),
        "objectness": [o.permute(0, 2, 3, 1).flatten(1) for o in objectness],
        "deltas": [d.permute(0, 2, 3, 1).flatten(1) for d in deltas],
        "proposals": proposals,
        "detections": detections,
    }


def of_regions(
    model: MaskRCNN, pixels: torch.Tensor, proposals: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and box deltas of those boxes."""
    sizes = [tuple(pixels.shape[2:])] * len(pixels)
    with torch.inference_mode():
        maps = model.backbone(pixels)
        regions = model.roi_heads.box_roi_pool(maps, proposals, sizes)
        return model.roi_heads.box_predictor(model.roi_heads.box_head(regions))


def ours(weights: pathlib.Path, size: tuple[int, int], **options: object):
    return torch.classes.fovea_models.Model(
        json.dumps(
            {
                "backbone": "resnet50",
                "task": "DETECTION",
                "head": "mask_rcnn",
                "weights": str(weights),
                "image_height": size[0],
                "image_width": size[1],
                **options,
            }
        ),
        "cpu",
        True,
    )


def check_proposals(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Box by box. Two with nearly one score may have changed places, and at the end one dropped out."""
    assert found.shape[0] == pytest.approx(expected.shape[0], abs=2)
    missed = [
        box for box in expected if (found - box).abs().amax(1).min().item() > 0.01
    ]
    assert len(missed) <= 2


@pytest.mark.parametrize("size", TRIED)
def test_every_stage_is_torchvisions(
    size: tuple[int, int], published: MaskRCNN, weights: pathlib.Path
) -> None:
    pixels = pixels_of(size)
    expected = stages(published, pixels)
    found = ours(weights, size).records(pixels)
    for level, map_ in enumerate(expected["maps"]):
        assert distance(found[f"head.level{level}.map"], map_) <= 1e-4
    for kind, name in (("objectness", "objectness"), ("box_deltas", "deltas")):
        theirs = torch.cat(expected[name], 1)
        mine = torch.cat([found[f"head.level{level}.{kind}"] for level in range(5)], 1)
        assert distance(mine, theirs) <= 1e-4
    for image, proposals in enumerate(expected["proposals"]):
        check_proposals(found[f"head.proposals.{image}"], proposals)
    # The regions' heads on our own proposals, so that every row is of the same box.
    logits, deltas = of_regions(
        published, pixels, [found[f"head.proposals.{image}"] for image in range(2)]
    )
    for mine, theirs in (
        (found["head.boxes.logits"], logits),
        (found["head.boxes.deltas"], deltas),
    ):
        assert distance(mine, theirs) <= 1e-4


@pytest.mark.parametrize("size", TRIED)
def test_detections_are_torchvisions(
    size: tuple[int, int], published: MaskRCNN, weights: pathlib.Path
) -> None:
    pixels = pixels_of(size)
    expected = stages(published, pixels)["detections"]
    found = ours(weights, size).run(pixels)
    assert [tuple(output.shape) for output in found] == [
        (2, 100, 4),
        (2, 100),
        (2, 100),
        (2,),
        (2, 100, 28, 28),
    ]
    for image, theirs in enumerate(expected):
        check_detections(found, image, theirs)


def check_detections(found: list, image: int, expected: dict) -> None:
    boxes, scores, labels, count, masks = (output[image] for output in found)
    assert int(count) == pytest.approx(len(expected["scores"]), abs=1)
    assert count >= 20
    assert (scores.diff() <= 0).all()
    assert not scores[count:].any() and not masks[count:].any()
    left = set(range(int(count)))
    missed = 0
    for box, score, label, mask in zip(
        expected["boxes"],
        expected["scores"],
        expected["labels"],
        expected["masks"],
        strict=True,
    ):
        same = [
            i
            for i in left
            if labels[i] == label
            and (scores[i] - score).abs() <= 1e-3
            and (boxes[i] - box).abs().max() <= 0.05
        ]
        if not same:
            missed += 1
            continue
        assert (masks[same[0]] - mask[0]).abs().max() <= 2e-3
        left.remove(same[0])
    # A proposal that rounding has let in or out may suppress one, or be one.
    assert missed <= 2


def test_an_image_does_not_depend_on_its_neighbour(weights: pathlib.Path) -> None:
    pixels = pixels_of(SIZES[1])
    model = ours(weights, SIZES[1])
    boxes, scores, labels, counts, masks = (o[0] for o in model.run(pixels[1:]))
    alone = {
        "boxes": boxes[:counts],
        "scores": scores[:counts],
        "labels": labels[:counts],
        "masks": masks[:counts, None],
    }
    check_detections(model.run(pixels), 1, alone)


def test_boxes_lie_in_the_picture(weights: pathlib.Path) -> None:
    pixels = pixels_of(SIZES[0])
    pixels[1, :, 100:] = 0
    model = ours(weights, SIZES[0])
    boxes, scores, *_ = model.run_pictures(pixels, [[256, 320], [100, 320]])
    assert boxes[0, :, 3].max() > 100
    assert (boxes[1, :, 3] <= 100).all()
    assert scores[1, 0] > 0


def test_nothing_found_is_an_empty_answer(weights: pathlib.Path) -> None:
    model = ours(weights, SIZES[0], detection={"score_threshold": 0.999999})
    for output in model.run(pixels_of(SIZES[0])):
        assert not output.any()


def test_what_is_no_number_is_seen(weights: pathlib.Path) -> None:
    pixels = torch.full_like(pixels_of(SIZES[0]), float("nan"))
    _, scores, _, counts, _ = ours(weights, SIZES[0]).run(pixels)
    assert scores[:, 0].isnan().all()
    assert counts.tolist() == [1, 1]


def test_bf16_is_as_near_as_torchvisions(
    published: MaskRCNN, weights: pathlib.Path
) -> None:
    pixels = pixels_of(SIZES[0])
    exact = stages(published, pixels)["objectness"]
    rounded = copy.deepcopy(published).bfloat16()
    with torch.inference_mode():
        maps = rounded.backbone(pixels.bfloat16())
        theirs, _ = rounded.rpn.head(list(maps.values()))
    found = ours(weights, SIZES[0], precision="BF16").records(pixels)
    for level, objectness in enumerate(exact):
        own = distance(found[f"head.level{level}.objectness"], objectness)
        torchvisions = distance(
            theirs[level].float().permute(0, 2, 3, 1).flatten(1), objectness
        )
        print(f"bf16, level {level}: {own:.1e}; torchvision's {torchvisions:.1e}")
        assert 0 < own <= 2 * torchvisions


def test_swins_parameters_are_those_that_its_authors_print() -> None:
    """48 million: the table of Swin-Transformer-Object-Detection."""
    facts = facts_of(
        backbone="swin_tiny_patch4_window7_224",
        task="DETECTION",
        head="mask_rcnn",
        random_weights_seed=0,
        detection={"conventions": "MMDETECTION"},
    )
    assert round(facts["parameters"] / 1e6) == 48


def test_parameters_are_torchvisions() -> None:
    facts = facts_of(
        backbone="resnet50", task="DETECTION", head="mask_rcnn", random_weights_seed=0
    )
    weights_ = MaskRCNN_ResNet50_FPN_V2_Weights.DEFAULT
    assert facts["parameters"] == weights_.meta["num_params"]
    assert facts["num_classes"] == len(weights_.meta["categories"])
