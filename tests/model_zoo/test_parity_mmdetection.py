"""RetinaNet, Mask R-CNN and Cascade Mask R-CNN by MMDETECTION's conventions against a second implementation.

Each stage is compared on the same input: what a stage takes is what the zoo gave it. The whole is compared after that.
"""

from __future__ import annotations

import json
import pathlib

import pytest
import torch
from mmdetection_reference import RetinaNet, RoiHead, TwoStage, decode, own_name
from parity import distance, facts_of, save
from torchvision.models import resnet50
from torchvision.models.resnet import Bottleneck
from weights_like_trained import perturbed, settled

CLASSES = 6
# The second is not a multiple of the coarsest strides: maps are rounded up. Its picture is smaller than the input.
SIZES = [(128, 160), (120, 152)]
SHAPES = [[(128, 160), (128, 160)], [(120, 152), (90, 110)]]
# What strides divide is the easier one.
TRIED = [pytest.param(SIZES[0], marks=pytest.mark.full), SIZES[1]]
TRIED_PICTURES = [
    pytest.param(SIZES[0], SHAPES[0], marks=pytest.mark.full),
    (SIZES[1], SHAPES[1]),
]
MAPS = {"retinanet": 3, "mask_rcnn": 4, "cascade_mask_rcnn": 4}
CHANNELS = [256, 512, 1024, 2048]


def pixels_of(size: tuple[int, int]) -> torch.Tensor:
    return torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))


class Detector:
    """A head of the reference with numbers as a trained one's, behind torchvision's ResNet-50, and both in a file."""

    def __init__(self, head: str, folder: pathlib.Path) -> None:
        torch.manual_seed(sum(head.encode()))
        self.head = head
        body = perturbed(resnet50(weights=None), head)
        for block in body.modules():
            if isinstance(block, Bottleneck):
                block.bn3.weight.data.mul_(0.3)
        body = settled(body, pixels_of(SIZES[0]))
        ins = CHANNELS[-MAPS[head] :]
        if head == "retinanet":
            self.reference = RetinaNet(ins, CLASSES)
        else:
            stages = 3 if head.startswith("cascade") else 1
            self.reference = TwoStage(ins, CLASSES, stages)
        self.reference.eval()
        for name, parameter in self.reference.named_parameters():
            generator = torch.Generator().manual_seed(sum(name.encode()))
            with torch.no_grad():
                if parameter.dim() > 1:
                    fan_in = parameter[0].numel()
                    parameter.normal_(std=(2 / fan_in) ** 0.5, generator=generator)
                else:
                    parameter.normal_(std=0.05, generator=generator)
        self.path = folder / f"{head}.safetensors"
        body_weights = {
            f"backbone.{name}": value
            for name, value in body.state_dict().items()
            if not name.startswith("fc.")
        }
        self.body_weights = body_weights
        self.models: dict = {}  # by size, of what was last written
        self.write()
        self.calibrate()
        self.write()

    def write(self) -> None:
        own = {
            own_name(name, MAPS[self.head]): value
            for name, value in self.reference.state_dict().items()
        }
        save({**self.body_weights, **own}, self.path)
        self.models.clear()

    def ours(self, size: tuple[int, int]):
        if size not in self.models:
            description = {
                "backbone": "resnet50",
                "task": "DETECTION",
                "head": self.head,
                "num_classes": CLASSES,
                "weights": str(self.path),
                "image_height": size[0],
                "image_width": size[1],
                "detection": {"conventions": "MMDETECTION"},
            }
            model = torch.classes.fovea_models.Model(
                json.dumps(description), "cpu", True
            )
            self.models[size] = model
        return self.models[size]

    def pyramid(self, size: tuple[int, int]) -> list[torch.Tensor]:
        maps = self.ours(size).features(pixels_of(size))
        with torch.inference_mode():
            return self.reference.neck(maps[-MAPS[self.head] :])

    def calibrate(self) -> None:
        """Few places show something, boxes lie near them, and stages move them a little."""
        pyramid = self.pyramid(SIZES[0])

        def scale(layer: torch.nn.Module, output: torch.Tensor, spread: float) -> None:
            layer.weight.data.mul_(spread / output.std())

        with torch.inference_mode():
            if self.head == "retinanet":
                branches = self.reference.bbox_head
                outputs = [branches(map_) for map_ in pyramid]
                logits, deltas = (torch.cat(o, 1) for o in zip(*outputs, strict=True))
                scale(branches.retina_cls, logits, 1.0)
                scale(branches.retina_reg, deltas, 0.2)
                branches.retina_cls.bias.data.fill_(-4)
                return
            rpn, roi = self.reference.rpn_head, self.reference.roi_head
            outputs = [rpn(map_) for map_ in pyramid]
            logits, deltas = (torch.cat(o, 1) for o in zip(*outputs, strict=True))
            scale(rpn.rpn_cls, logits, 1.0)
            scale(rpn.rpn_reg, deltas, 0.2)
            generator = torch.Generator().manual_seed(5)
            corners = torch.rand(60, 2, generator=generator) * 80
            sides = 10 + torch.rand(60, 2, generator=generator) * 70
            boxes = [torch.cat([corners, corners + sides], 1)] * 2
            for stage in range(roi.stages):
                head = roi.box_head(stage)
                logits, deltas = roi.look(stage, pyramid, boxes)
                # About zero: or one class is the likeliest of every region.
                mean = logits.mean(0)
                factor = 2.0 / (logits - mean).std()
                head.fc_cls.weight.data.mul_(factor)
                head.fc_cls.bias.data.sub_(mean).mul_(factor)
                scale(head.fc_reg, deltas, 1.0)
            regions = roi.regions(pyramid, boxes, 14)
            for head in roi.mask_heads():
                scale(head.conv_logits, head(regions), 2.0)


@pytest.fixture(scope="module")
def detectors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Detector]:
    folder = tmp_path_factory.mktemp("mmdetection")
    return {head: Detector(head, folder) for head in MAPS}


@pytest.mark.parametrize("size", TRIED)
@pytest.mark.parametrize("head", MAPS)
def test_pyramids_and_what_is_said_of_their_places(
    head: str, size: tuple[int, int], detectors: dict[str, Detector]
) -> None:
    detector = detectors[head]
    found = detector.ours(size).records(pixels_of(size))
    names = (
        ("class_logits", "box_deltas")
        if head == "retinanet"
        else ("objectness", "box_deltas")
    )
    say = (
        detector.reference.bbox_head
        if head == "retinanet"
        else detector.reference.rpn_head
    )
    for level, map_ in enumerate(detector.pyramid(size)):
        assert distance(found[f"head.level{level}.map"], map_) <= 1e-4
        with torch.inference_mode():
            for name, expected in zip(names, say(map_), strict=True):
                ours = found[f"head.level{level}.{name}"]
                # A prior far from zero: both round the sum at its size.
                rounding = 2 * torch.finfo().eps * expected.abs().max() / expected.std()
                assert distance(ours, expected.flatten(1)) <= 1e-4 + rounding


@pytest.mark.parametrize("size", TRIED)
@pytest.mark.parametrize("head", ["mask_rcnn", "cascade_mask_rcnn"])
def test_each_stage_says_the_same_of_the_same_boxes(
    head: str, size: tuple[int, int], detectors: dict[str, Detector]
) -> None:
    detector = detectors[head]
    roi = detector.reference.roi_head
    pyramid = detector.pyramid(size)
    found = detector.ours(size).records(pixels_of(size))
    boxes = [found[f"head.proposals.{image}"] for image in range(2)]
    for stage in range(roi.stages):
        name = f"head.boxes{stage}" if roi.stages > 1 else "head.boxes"
        with torch.inference_mode():
            logits, deltas = roi.look(stage, pyramid, boxes)
        # A box at an edge between two maps may be taken from either.
        for kind, expected in (("logits", logits), ("deltas", deltas)):
            error = (found[f"{name}.{kind}"] - expected).abs().amax(1) / expected.std()
            assert (error <= 1e-3).float().mean() >= 0.995
            assert error.median() <= 1e-4
        if stage + 1 == roi.stages:
            break
        ours = found[f"{name}.deltas"].split([len(one) for one in boxes])
        for image, (one, move) in enumerate(zip(boxes, ours, strict=True)):
            moved = found[f"{name}.moved{image}"]
            expected = decode(one, move, RoiHead.STDS[stage], size)
            assert (moved - expected).abs().max() <= 1e-3
            assert (moved - one).abs().mean() > 0.1, "it moves them"
        boxes = [found[f"{name}.moved{image}"] for image in range(2)]


@pytest.mark.parametrize("size", TRIED)
@pytest.mark.parametrize("head", ["mask_rcnn", "cascade_mask_rcnn"])
def test_proposals_are_the_references(
    head: str, size: tuple[int, int], detectors: dict[str, Detector]
) -> None:
    """Pictures that fill their input: `records` knows no others."""
    detector = detectors[head]
    pyramid = detector.pyramid(size)
    with torch.inference_mode():
        outputs = [detector.reference.rpn_head(map_) for map_ in pyramid]
    found = detector.ours(size).records(pixels_of(size))
    for image in range(2):
        expected = detector.reference.propose(outputs, pyramid, size, image)
        ours = found[f"head.proposals.{image}"]
        assert len(expected) >= 100
        assert ours.shape[0] == pytest.approx(expected.shape[0], abs=2)
        gaps = (ours[None] - expected[:, None]).abs().amax(2).amin(1)
        assert (gaps > 0.01).sum() <= 2


@pytest.mark.parametrize(("size", "shapes"), TRIED_PICTURES)
@pytest.mark.parametrize("head", MAPS)
def test_detections_are_the_references(
    head: str,
    size: tuple[int, int],
    shapes: list[tuple[int, int]],
    detectors: dict[str, Detector],
) -> None:
    detector = detectors[head]
    reference = detector.reference
    pyramid = detector.pyramid(size)
    with torch.inference_mode():
        if head == "retinanet":
            outputs = [reference.bbox_head(map_) for map_ in pyramid]
            expected = [
                reference.detect(outputs, pyramid, shape, image)
                for image, shape in enumerate(shapes)
            ]
        else:
            outputs = [reference.rpn_head(map_) for map_ in pyramid]
            proposals = [
                reference.propose(outputs, pyramid, shape, image)
                for image, shape in enumerate(shapes)
            ]
            expected = reference.roi_head.detect(pyramid, proposals, shapes)
    found = detector.ours(size).run_pictures(
        pixels_of(size), [list(shape) for shape in shapes]
    )
    for image, theirs in enumerate(expected):
        check_detections([output[image] for output in found], theirs)


def check_detections(found: list[torch.Tensor], expected: dict) -> None:
    """Box by box. A proposal that rounding has let in or out may suppress one, or be one."""
    boxes, scores, labels, count, *masks = found
    assert int(count) == pytest.approx(len(expected["scores"]), abs=1)
    assert count >= 10
    assert len(expected["labels"].unique()) >= 3
    assert (scores.diff() <= 0).all()
    left, missed = set(range(int(count))), 0
    for i, (box, score, label) in enumerate(
        zip(expected["boxes"], expected["scores"], expected["labels"], strict=True)
    ):
        same = [
            j
            for j in left
            if labels[j] == label
            and (scores[j] - score).abs() <= 1e-3
            and (boxes[j] - box).abs().max() <= 0.05
        ]
        if not same:
            missed += 1
            continue
        if masks:
            assert (masks[0][same[0]] - expected["masks"][i]).abs().max() <= 2e-3
        left.remove(same[0])
    assert missed <= 2


def test_scores_are_of_the_mean_of_the_stages_logits(
    detectors: dict[str, Detector],
) -> None:
    """Not the mean of their probabilities, and not the last stage's."""
    detector = detectors["cascade_mask_rcnn"]
    found = detector.ours(SIZES[0]).records(pixels_of(SIZES[0]))
    logits = [found[f"head.boxes{stage}.logits"] for stage in range(3)]
    first = len(found["head.proposals.0"])
    expected = (sum(logits) / 3).softmax(1)[:first, :-1]
    other = (sum(one.softmax(1) for one in logits) / 3)[:first, :-1]
    _, scores, _, count, _ = detector.ours(SIZES[0]).run(pixels_of(SIZES[0]))
    for score in scores[0, : count[0]]:
        assert (expected - score).abs().min() <= 1e-5
    farthest = max((other - score).abs().min() for score in scores[0, : count[0]])
    assert farthest > 1e-4


def test_torchvision_has_no_cascade() -> None:
    with pytest.raises(ValueError, match="torchvision has none.*MMDETECTION"):
        facts_of(
            backbone="resnet50",
            task="DETECTION",
            head="cascade_mask_rcnn",
            random_weights_seed=0,
        )


def test_a_cascade_has_two_box_and_mask_heads_more_and_one_box_for_all_classes() -> (
    None
):
    counts = [
        facts_of(
            backbone="swin_tiny_patch4_window7_224",
            task="DETECTION",
            head=head,
            random_weights_seed=0,
            detection={"conventions": "MMDETECTION"},
        )["parameters"]
        for head in ("mask_rcnn", "cascade_mask_rcnn")
    ]
    vector = 1024
    shared = 256 * 49 * vector + vector + vector * vector + vector
    scores, box = 81 * (vector + 1), 4 * (vector + 1)
    masks = 4 * (256 * 256 * 9 + 256) + 256 * 256 * 4 + 256 + 80 * 257
    assert counts[1] - counts[0] == 2 * (shared + scores + masks) + 3 * box - 80 * box
