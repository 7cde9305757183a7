"""Non-maximum suppression from Python: torch.ops.fovea.nms against torchvision's."""

from __future__ import annotations

import pytest
import torch
import torchvision
from kernel_library import DEVICES

nms = torch.ops.fovea.nms


def random_boxes(count, kind, dtype=torch.float32):
    if kind == "grid":  # equal ones, ones without area and ones inside out
        return torch.randint(0, 12, (count, 4)).to(dtype) / 4
    corner = torch.rand(count, 2) * 100
    size = torch.rand(count, 2) * {"large": 80, "small": 5}[kind]
    boxes = torch.cat([corner, corner + size], 1).to(dtype)
    if count > 3:
        boxes[1] = boxes[0]
        boxes[2, 2:] = boxes[2, :2]
    return boxes


def random_scores(count, ties, dtype=torch.float32):
    scores = torch.rand(count)
    return (torch.round(scores * 10) / 10 if ties else scores).to(dtype)


def theirs(boxes, scores, iou):
    return torchvision.ops.nms(boxes.cpu(), scores.cpu(), iou)


def test_the_schemas_are_the_designs():
    assert str(nms.default._schema) == (
        "fovea::nms(Tensor boxes, Tensor scores, float iou) -> Tensor"
    )
    assert str(torch.ops.fovea.nms_keep.default._schema) == (
        "fovea::nms_keep(Tensor boxes, Tensor order, float iou) -> Tensor"
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["large", "small", "grid"])
@pytest.mark.parametrize("ties", [False, True])
def test_it_is_torchvisions(device, dtype, kind, ties):
    torch.manual_seed(17)
    for count in (0, 1, 2, 5, 17, 64, 65, 300, 1500):
        for iou in (-0.1, 0.0, 0.1, 1 / 3, 0.5, 0.75, 1.0):
            boxes = random_boxes(count, kind, dtype)
            scores = random_scores(count, ties, dtype)
            expected = theirs(boxes, scores, iou)
            found = nms(boxes.to(device), scores.to(device), iou)
            assert found.dtype == torch.int64 and found.device.type == device
            assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_odd_values_are_torchvisions_too(device):
    torch.manual_seed(18)
    for odd in (torch.nan, torch.inf, -torch.inf, 1e30, -1e30):
        for _ in range(10):
            boxes, scores = random_boxes(40, "large"), random_scores(40, ties=True)
            boxes.view(-1)[torch.randint(160, (5,))] = odd
            scores[torch.randint(40, (2,))] = odd
            found = nms(boxes.to(device), scores.to(device), 0.5).cpu()
            assert torch.equal(found, theirs(boxes, scores, 0.5))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_are_compared_in_fp32(device, dtype):
    torch.manual_seed(19)
    boxes, scores = random_boxes(200, "large", dtype), random_scores(200, True, dtype)
    found = nms(boxes.to(device), scores.to(device), 0.5).cpu()
    assert torch.equal(found, theirs(boxes.float(), scores.float(), 0.5))


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_the_part_with_a_fixed_size_can_be_captured():
    boxes = random_boxes(300, "large").cuda()
    order = torch.randperm(300).cuda()
    expected = torch.ops.fovea.nms_keep(boxes, order, 0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        keep = torch.ops.fovea.nms_keep(boxes, order, 0.5)
    graph.replay()
    assert torch.equal(keep, expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_they_keep_the_rules_of_custom_operators():
    boxes, scores = random_boxes(50, "large"), random_scores(50, True)
    torch.library.opcheck(nms, (boxes, scores, 0.5))
    torch.library.opcheck(torch.ops.fovea.nms_keep, (boxes, scores.argsort(), 0.5))


def test_no_gradient_passes():
    boxes, scores = random_boxes(50, "large"), random_scores(50, True)
    assert not nms(boxes.requires_grad_(), scores.requires_grad_(), 0.5).requires_grad


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph(dynamic):
    def best(boxes, scores):
        return boxes[nms(boxes, scores, 0.5)] * 2

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(
            best, fullgraph=True, dynamic=dynamic, backend="aot_eager"
        )
        for count in (50, 70):
            boxes, scores = random_boxes(count, "large"), random_scores(count, True)
            torch.testing.assert_close(compiled(boxes, scores), best(boxes, scores))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_exports():
    class Layer(torch.nn.Module):
        def forward(self, boxes, scores):
            return nms(boxes, scores, 0.5)

    inputs = (random_boxes(50, "large"), random_scores(50, True))
    program = torch.export.export(Layer(), inputs)
    assert "fovea.nms" in str(program.graph)
    assert torch.equal(program.module()(*inputs), Layer()(*inputs))


def test_broken_contracts_name_operator_argument_and_value():
    boxes, scores = random_boxes(50, "large"), random_scores(50, True)
    with pytest.raises(RuntimeError, match="nms: scores must have boxes's box count"):
        nms(boxes, scores[:49], 0.5)
    with pytest.raises(RuntimeError, match="nms: iou must be finite, got nan"):
        nms(boxes, scores, float("nan"))
