"""The second implementations and the zoo against what mmdetection and mmsegmentation themselves gave (published_heads.py).

Which case says when which convention is another one:

    anchors: ratios, octaves, no rounding, around the corner of a place    test_anchors, and every detection
    both bounds of a size's logarithm, deviations, the picture's edges     test_decoding
    at most 1000 of a map, before suppression                              test_retinanets_choice, test_proposals
    suppression within a map alone, of proposals                           test_proposals
    suppression within a class alone                                       test_retinanets_choice, test_choice_of_regions
    the map that a region's features come from                             test_levels, test_features_of_regions
    half a pixel's shift, samples of a bin                                 test_features_of_regions
    scores: sigmoids, softmax with the background last                     test_retinanets_choice, test_choice_of_regions
    pasting into pixels' middles, in the picture's pixels, the threshold   test_pasted_masks
    the order of layers, of outputs and of stages; 100 of an image         test_whole_*
"""

from __future__ import annotations

import functools
import json
import pathlib

import mmdetection_reference as mmdetection
import mmsegmentation_reference as mmsegmentation
import parity
import published_heads as heads
import pytest
import torch
from published_heads import CHANNELS, CLASSES, SHAPES, SIZE, StoredHead, close, some
from published_masks import mmdetection_masks
from torch import Tensor
from torchvision.models import resnet50

# A few roundings of fp32.
EXACT = 3e-6
# Behind a ResNet-50, whose 53 convolutions another machine sums in another order: fp32 and fp64 are within 1e-4.
DEEP = 2e-4
DETECTORS = {"retinanet": 3, "mask_rcnn": 4, "cascade_mask_rcnn": 4}  # and their maps
TWO_STAGES = {"mask_rcnn": 1, "cascade_mask_rcnn": 3}  # and their box stages


@functools.cache
def stored(name: str) -> StoredHead:
    return StoredHead(name)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.inference_mode():
        yield


# --- Single steps.


def nchw_to_places(outputs: list[tuple[Tensor, Tensor]], classes: int) -> list:
    return [
        (mmdetection.by_place(logits, classes), mmdetection.by_place(deltas, 4))
        for logits, deltas in outputs
    ]


@pytest.mark.parametrize(
    ("kind", "strides", "scales"),
    [
        (0, mmdetection.RetinaNet.STRIDES, [4 * 2 ** (i / 3) for i in range(3)]),
        (1, mmdetection.TwoStage.STRIDES, [8.0]),
    ],
)
def test_anchors(kind: int, strides: tuple[int, ...], scales: list[float]) -> None:
    for level, stride in enumerate(strides):
        at_the_first_place = mmdetection.anchors_of(
            torch.zeros(1, 1, 1, 1), stride, scales
        )
        expected = stored("steps")[f"anchors{kind}.base{level}"]
        assert close(at_the_first_place, expected, EXACT)


@pytest.mark.parametrize("stage", [*range(3), "proposals"])
def test_decoding(stage: int | str) -> None:
    boxes, deltas = heads.decoded_boxes()
    if stage == "proposals":
        stds, deltas = (1.0, 1.0, 1.0, 1.0), deltas / 10
        expected = stored("steps")["decoded.proposals"]
    else:
        stds = mmdetection.RoiHead.STDS[stage]
        expected = stored("steps")[f"decoded{stage}"]
    assert close(
        mmdetection.decode(boxes, deltas, stds, heads.DECODED_SHAPE), expected, EXACT
    )
    most = 16 / 1000
    sizes = deltas[:, 2:] * torch.tensor(stds[2:])
    assert (sizes.exp() < most).any() and (sizes.exp() > 1 / most).any()
    height, width = heads.DECODED_SHAPE
    assert (expected[:, 2] == width).any() and (expected[:, 3] == height).any()
    assert (expected[:, :2] == 0).any()


@pytest.mark.parametrize("image", range(2))
def test_retinanets_choice(image: int) -> None:
    outputs = heads.retinanet_outputs()
    finest = outputs[0][0][image].sigmoid()
    assert (finest > 0.05).sum() > 1000, "a map offers fewer than it has"
    network = mmdetection.RetinaNet([1, 1, 1], CLASSES, channels=1)
    found = network.detect(
        nchw_to_places(outputs, CLASSES),
        [logits for logits, _ in outputs],
        heads.RETINANET_SHAPES[image],
        image,
        most=1000,
    )
    check_in_order(found, stored("steps"), "retinanet.", str(image))


@pytest.mark.parametrize("image", range(2))
def test_proposals(image: int) -> None:
    outputs = heads.proposal_outputs()
    assert [logits[0].numel() > 1000 for logits, _ in outputs] == [True, True] + 3 * [
        False
    ]
    network = mmdetection.TwoStage([1] * 4, CLASSES, 1, channels=1)
    found = network.propose(
        nchw_to_places(outputs, 1),
        [logits for logits, _ in outputs],
        SHAPES[image],
        image,
    )
    expected = stored("steps")[f"proposals.boxes{image}"]
    assert len(expected) == 1000
    assert close(found, expected, EXACT)


@pytest.mark.parametrize("kind", ["own", "shared"])
def test_choice_of_regions(kind: str) -> None:
    """Mask R-CNN's, with a box of each class, and the last one of a cascade.

    Where the published detectors report boxes without area (RetinaNet and the proposals drop them, and nothing drops those
    of regions), the zoo reports none: they are set aside, and there are some.
    """
    agnostic = kind == "shared"
    logits, deltas = heads.region_outputs(agnostic)
    network = mmdetection.RoiHead(CLASSES, 3 if agnostic else 1, channels=1)
    found = network.best(
        heads.regions_of_a_picture(), deltas, logits, heads.REGION_SHAPE
    )
    expected = {
        key: stored("steps")[f"regions.{kind}.{key}"]
        for key in ("boxes", "scores", "labels")
    }
    area = mmdetection.has_area(expected["boxes"])
    assert not area.all()
    assert area.sum() >= 30
    expected = {key: value[area] for key, value in expected.items()}
    check_in_order(found, expected, "", "")
    # A suppression across classes would have dropped some.
    alike = mmdetection.nms(expected["boxes"], expected["scores"], 0.5)
    assert len(alike) < len(expected["boxes"])


def check_in_order(found: dict, expected, before: str, after: str) -> None:
    assert torch.equal(found["labels"], expected[f"{before}labels{after}"].long())
    assert len(found["labels"].unique()) == CLASSES
    for key in ("boxes", "scores"):
        assert close(found[key], expected[f"{before}{key}{after}"], EXACT), key


def test_levels() -> None:
    levels = stored("steps")["levels"].long()
    assert levels.unique().tolist() == [0, 1, 2, 3]
    assert torch.equal(mmdetection.levels_of(heads.boxes_of_all_sizes()), levels)


@pytest.mark.parametrize("side", [7, 14])
def test_features_of_regions(side: int) -> None:
    boxes = heads.boxes_on_region_maps()
    assert mmdetection.levels_of(torch.cat(boxes)).unique().tolist() == [0, 1, 2, 3]
    found = mmdetection.RoiHead.regions(heads.region_maps(), boxes, side)
    found = found if side == 7 else found[::4]
    assert close(found, stored("steps")[f"features{side}"], 1e-5)


@pytest.mark.parametrize("where", ["input", "picture"])
def test_pasted_masks(where: str) -> None:
    logits, boxes, labels = heads.mask_inputs()
    masks = logits[torch.arange(len(labels)), labels].sigmoid()
    size = heads.PICTURE
    if where == "picture":
        boxes = boxes / heads.SCALE
        size = tuple(round(side / heads.SCALE) for side in size)
    check_masks(masks, boxes, stored("steps").masks(f"pasted.{where}"), size)


def check_masks(
    masks: Tensor, boxes: Tensor, expected: Tensor, size: tuple[int, int]
) -> None:
    """But for pixels at the threshold, of which there are few."""
    probabilities = mmdetection_masks(masks, boxes, size)
    undecided = (probabilities - 0.5).abs() < 1e-4
    assert undecided.float().mean() < 1e-3
    assert expected.shape == probabilities.shape
    assert ((probabilities >= 0.5) == expected.bool())[~undecided].all()
    assert expected.bool().flatten(1).any(1).float().mean() > 0.7


# --- Whole networks.


@functools.cache
def backbone() -> tuple[torch.nn.Module, dict[str, Tensor]]:
    """torchvision's ResNet-50 with ruled weights, and those by the zoo's names."""
    network = resnet50(weights=None)
    shapes = {
        f"backbone.{name}": value.shape
        for name, value in network.state_dict().items()
        if value.is_floating_point() and not name.startswith("fc.")
    }
    weights = heads.ruled_weights(shapes, {})
    network.load_state_dict(
        {name.removeprefix("backbone."): value for name, value in weights.items()},
        strict=False,
    )
    return network.eval(), weights


@functools.cache
def maps_of(seed: int) -> list[Tensor]:
    network, _ = backbone()
    x = network.maxpool(network.relu(network.bn1(network.conv1(heads.pixels_of(seed)))))
    maps = []
    for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
        x = stage(x)
        maps.append(x)
    return maps


class Whole:
    """A network of the second implementation, what the package said of its weights, and both in the zoo."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stored = stored(name)
        ins = heads.BACKBONE_CHANNELS
        if name == "semantic_fpn":
            self.network = mmsegmentation.SemanticFpn(ins, CLASSES, CHANNELS)
        elif name == "retinanet":
            self.network = mmdetection.RetinaNet(ins[1:], CLASSES, CHANNELS)
        else:
            self.network = mmdetection.TwoStage(
                ins, CLASSES, TWO_STAGES[name], CHANNELS
            )
        shapes = {
            key: value.shape
            for key, value in self.network.state_dict().items()
            if value.is_floating_point()
        }
        self.weights = self.stored.weights(shapes)
        self.network.load_state_dict(self.weights, strict=False)
        self.network.eval()
        maps = maps_of(int(self.stored["seed"]))
        self.pyramid = self.network.neck(maps[1:] if name == "retinanet" else maps)

    def zoo(self, folder: pathlib.Path):
        if self.name == "semantic_fpn":
            own = {
                mmsegmentation.own_name(key): value
                for key, value in self.weights.items()
            }
        else:
            own = {
                mmdetection.own_name(key, DETECTORS[self.name]): value
                for key, value in self.weights.items()
            }
        weights = folder / f"{self.name}.safetensors"
        parity.save({**backbone()[1], **own}, weights)
        description = {
            "backbone": "resnet50",
            "head": self.name,
            "head_channels": CHANNELS,
            "num_classes": CLASSES,
            "weights": str(weights),
            "image_height": SIZE[0],
            "image_width": SIZE[1],
            "task": "SEGMENTATION",
        }
        if self.name in DETECTORS:
            description["task"] = "DETECTION"
            description["detection"] = {"conventions": "MMDETECTION"}
        return torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)


@functools.cache
def whole(name: str) -> Whole:
    return Whole(name)


@functools.cache
def zoo(name: str, folder: pathlib.Path):
    return whole(name).zoo(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("published_heads")


def test_whole_semantic_fpn() -> None:
    case = whole("semantic_fpn")
    for level, map_ in enumerate(case.pyramid):
        assert close(some(map_), case.stored[f"level{level}.map"], DEEP)
    logits = case.network.decode_head(case.pyramid)
    assert close(some(logits), case.stored["logits"], DEEP)


def test_whole_semantic_fpn_of_the_zoo(folder: pathlib.Path) -> None:
    case = whole("semantic_fpn")
    (logits,) = zoo("semantic_fpn", folder).run(case.stored.pixels())
    assert close(some(logits), case.stored["logits"], DEEP)


@pytest.mark.parametrize("name", DETECTORS)
def test_whole_first_stage(name: str) -> None:
    case = whole(name)
    network, expected = case.network, case.stored
    retinanet = name == "retinanet"
    scales = [4 * 2 ** (i / 3) for i in range(3)] if retinanet else [8.0]
    say = network.bbox_head if retinanet else network.rpn_head
    for level, map_ in enumerate(case.pyramid):
        assert close(some(map_), expected[f"level{level}.map"], DEEP)
        for key, places in zip(("logits", "deltas"), say(map_), strict=True):
            ours = some(by_channel(places.flatten(1), map_))
            assert close(ours, expected[f"level{level}.{key}"], DEEP)
        anchors = mmdetection.anchors_of(map_, network.STRIDES[level], scales)
        assert close(
            anchors[:: heads.EVERY_ANCHOR], expected[f"level{level}.anchors"], EXACT
        )


def by_channel(places: Tensor, map_: Tensor) -> Tensor:
    """[N, by place, then by anchor and number] -> NCHW, as the package's layers say it."""
    images, _, height, width = map_.shape
    return places.view(images, height, width, -1).permute(0, 3, 1, 2).contiguous()


@pytest.mark.parametrize("name", DETECTORS)
def test_whole_first_stage_of_the_zoo(name: str, folder: pathlib.Path) -> None:
    case = whole(name)
    found = zoo(name, folder).records(case.stored.pixels())
    logits = "class_logits" if name == "retinanet" else "objectness"
    for level in range(5):
        map_ = found[f"head.level{level}.map"]
        assert close(some(map_), case.stored[f"level{level}.map"], DEEP)
        for key, record in (("logits", logits), ("deltas", "box_deltas")):
            ours = by_channel(found[f"head.level{level}.{record}"], map_)
            assert close(some(ours), case.stored[f"level{level}.{key}"], DEEP)


def test_whole_retinanet() -> None:
    case = whole("retinanet")
    outputs = [case.network.bbox_head(map_) for map_ in case.pyramid]
    for image, shape in enumerate(SHAPES):
        found = case.network.detect(outputs, case.pyramid, shape, image)
        check_detections(found, case.stored, image)


def proposals_of(case: Whole) -> list[Tensor]:
    return [case.stored[f"proposals{image}"] for image in range(2)]


@pytest.mark.parametrize("name", TWO_STAGES)
def test_whole_proposals(name: str) -> None:
    case = whole(name)
    outputs = [case.network.rpn_head(map_) for map_ in case.pyramid]
    for image, expected in enumerate(proposals_of(case)):
        found = case.network.propose(outputs, case.pyramid, SHAPES[image], image)
        check_proposals(found, expected)


def check_proposals(found: Tensor, expected: Tensor) -> None:
    """In any order: some scores nearly tie. One that rounding lets in may suppress one."""
    assert len(expected) == 1000
    assert len(found) == 1000
    gaps = (found[:, None] - expected).abs().amax(2)
    assert (gaps.amin(0) > 0.01).sum() <= 2
    assert (gaps.amin(1) > 0.01).sum() <= 2


@pytest.mark.parametrize("name", TWO_STAGES)
def test_whole_box_stages(name: str) -> None:
    """Of the published proposals."""
    case = whole(name)
    roi, boxes = case.network.roi_head, proposals_of(case)
    for stage in range(roi.stages):
        every = slice(None, None, heads.ROWS)
        expected = [case.stored[f"stage{stage}.{k}"] for k in ("logits", "deltas")]
        assert close(torch.cat(boxes)[every], case.stored[f"stage{stage}.boxes"], DEEP)
        levels = mmdetection.levels_of(torch.cat(boxes))
        # A box at an edge between two maps may be taken from either.
        assert (levels != case.stored[f"stage{stage}.levels"]).sum() <= 2
        logits, deltas = roi.look(stage, case.pyramid, boxes)
        for ours, theirs in zip((logits, deltas), expected, strict=True):
            far = (ours[every] - theirs).abs().amax(1) > 1e-3 * theirs.abs().max()
            assert far.sum() <= 2
        moves = deltas.split([len(one) for one in boxes])
        if stage + 1 < roi.stages:
            boxes = [
                mmdetection.decode(one, move, roi.STDS[stage], shape)
                for one, move, shape in zip(boxes, moves, SHAPES, strict=True)
            ]


@pytest.mark.parametrize("name", TWO_STAGES)
def test_whole_detections(name: str) -> None:
    """Of the published proposals, with masks and what the package pastes of them."""
    case = whole(name)
    found = case.network.roi_head.detect(case.pyramid, proposals_of(case), SHAPES)
    for image, one in enumerate(found):
        check_detections(one, case.stored, image)
        pasted = case.stored.masks(f"pasted{image}")
        first = slice(len(pasted))
        # Masks are compared with those of the same boxes: the best stand in the same order.
        assert close(one["boxes"][first], case.stored[f"boxes{image}"][first], DEEP)
        check_whole_masks(one["masks"][first], one["boxes"][first], pasted, image)


def check_whole_masks(
    masks: Tensor, boxes: Tensor, expected: Tensor, image: int
) -> None:
    probabilities = mmdetection_masks(masks, boxes, SHAPES[image])
    undecided = (probabilities - 0.5).abs() < 5e-3
    assert ((probabilities >= 0.5) == expected.bool())[~undecided].all()
    assert undecided.float().mean() < 1e-2


@pytest.mark.parametrize("name", DETECTORS)
def test_whole_detections_of_the_zoo(name: str, folder: pathlib.Path) -> None:
    """From the pixels on, one picture smaller than its input."""
    case = whole(name)
    outputs = zoo(name, folder).run_pictures(
        case.stored.pixels(), [list(shape) for shape in SHAPES]
    )
    for image in range(2):
        boxes, scores, labels, count, *masks = (output[image] for output in outputs)
        assert count == 100
        found = {"boxes": boxes, "scores": scores, "labels": labels}
        if masks:
            found["masks"] = masks[0]
        check_detections(found, case.stored, image)


@pytest.mark.parametrize("name", TWO_STAGES)
def test_whole_proposals_of_the_zoo(name: str, folder: pathlib.Path) -> None:
    """Of the picture that fills its input: `records` knows no others."""
    case = whole(name)
    found = zoo(name, folder).records(case.stored.pixels())
    check_proposals(found["head.proposals.0"], case.stored["proposals0"])


def check_detections(found: dict, expected: StoredHead, image: int) -> None:
    """Box by box; a proposal that rounding has let in or out may suppress one, or be one."""
    boxes, scores, labels = (
        expected[f"{key}{image}"] for key in ("boxes", "scores", "labels")
    )
    assert len(boxes) == len(found["boxes"]) == 100, "as many as are reported at most"
    assert len(labels.unique()) >= 2
    masks = expected.arrays.get(f"masks{image}")
    left, missed = set(range(100)), 0
    for i, (box, score, label) in enumerate(zip(boxes, scores, labels, strict=True)):
        same = [
            j
            for j in left
            if found["labels"][j] == label
            and (found["scores"][j] - score).abs() <= 1e-3
            and (found["boxes"][j] - box).abs().max() <= 0.02
        ]
        if not same:
            missed += 1
            continue
        left.remove(same[0])
        if masks is not None and i % 2 == 0:
            ours = found["masks"][same[0]][1::4, 1::4]
            assert (ours - masks[i // 2]).abs().max() <= 2e-3
    assert missed <= 2
