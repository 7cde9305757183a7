"""RoIAlign from Python: torch.ops.fovea.roi_align against torchvision's."""

from __future__ import annotations

import pytest
import torch
import torchvision
from kernel_library import DEVICES, FAST

roi_align = torch.ops.fovea.roi_align


def random_rois(count, images, size, dtype=torch.float32):
    """In, across and outside of an image; some on whole pixels, without area or inside out."""
    corner = (torch.rand(count, 2) * 1.6 - 0.4) * size
    extent = (torch.rand(count, 2) * 1.2 - 0.1) * size
    image = torch.randint(images, (count, 1)).float()
    rois = torch.cat([image, corner, corner + extent], 1)
    rois[: count // 3] = rois[: count // 3].round()
    if count > 4:
        rois[3, 3:] = rois[3, 1:3]
        rois[4, 1:] = torch.tensor([-1.0, -1.0, size, size])
    return rois.to(dtype)


def theirs(input, rois, scale, h, w, sampling, aligned):
    return torchvision.ops.roi_align(input, rois, (h, w), scale, sampling, aligned)


def test_the_schema_is_the_designs():
    assert str(roi_align.default._schema) == (
        "fovea::roi_align(Tensor input, Tensor rois, float spatial_scale, int h, int w, "
        "int sampling, bool aligned) -> Tensor"
    )


@pytest.mark.parametrize(("device", "dtype"), [*FAST, ("cpu", torch.float64)], ids=str)
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("aligned", [False, True])
def test_it_is_torchvisions(device, dtype, memory, aligned):
    torch.manual_seed(17)
    generator = torch.Generator().manual_seed(17)

    def pick(*choices):
        return choices[torch.randint(len(choices), (), generator=generator)]

    for _ in range(40):
        channels, height, width = (
            pick(1, 3, 16, 37),
            pick(1, 2, 9, 25),
            pick(1, 3, 16, 40),
        )
        input = torch.randn(pick(1, 3), channels, height, width).to(dtype)
        scale = pick(1.0, 0.25, 1 / 3)
        rois = random_rois(
            pick(0, 1, 30), len(input), max(height, width) / scale, torch.float32
        )
        options = (scale, pick(1, 7, 14), pick(1, 2, 7), pick(-1, 0, 1, 2, 5), aligned)
        if options[3] <= 0 and aligned:  # torchvision takes no region inside out then
            rois[:, 3:] = torch.maximum(rois[:, 3:], rois[:, 1:3])
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        expected = theirs(input.to(wide), rois.to(wide), *options)
        found = roi_align(
            input.to(device).contiguous(memory_format=memory), rois.to(device), *options
        )
        assert found.dtype == dtype and found.shape == expected.shape
        rounding = {torch.bfloat16: 2**-8, torch.float16: 2**-11}.get(dtype, 0)
        torch.testing.assert_close(
            found.cpu().to(wide), expected, rtol=rounding, atol=1e-5
        )


@pytest.mark.parametrize("device", DEVICES)
def test_rois_may_have_the_maps_type(device):
    torch.manual_seed(18)
    input = torch.randn(2, 8, 9, 16, device=device, dtype=torch.bfloat16)
    rois = random_rois(20, 2, 16).to(device, torch.bfloat16)
    options = (1.0, 3, 3, 2, True)
    torch.testing.assert_close(
        roi_align(input, rois, *options), roi_align(input, rois.float(), *options)
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sampling", [0, 2])
def test_gradients_are_torchvisions(device, sampling):
    torch.manual_seed(19)
    input = torch.randn(2, 3, 7, 9, dtype=torch.float64, device=device)
    input.requires_grad_()
    rois = random_rois(8, 2, 9, torch.float64).to(device)
    options = (0.7, 3, 2, sampling, True)

    def run(input):
        return roi_align(input, rois, *options)

    assert torch.autograd.gradcheck(run, input)
    assert torch.autograd.gradgradcheck(run, input, fast_mode=True)
    torch.testing.assert_close(
        torch.autograd.grad(run(input).square().sum(), input),
        torch.autograd.grad(theirs(input, rois, *options).square().sum(), input),
    )


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_fast_forward_and_reference_backward_go_together(device, dtype):
    torch.manual_seed(20)
    input = torch.randn(2, 20, 7, 9).to(device, dtype).requires_grad_()
    rois = random_rois(8, 2, 9).to(device)
    options = (0.7, 3, 2, 2, True)
    (ours,) = torch.autograd.grad(roi_align(input, rois, *options).float().sum(), input)
    wide = input.detach().float().requires_grad_()
    (expected,) = torch.autograd.grad(theirs(wide, rois, *options).sum(), wide)
    assert ours.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(ours.float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_a_missing_image_is_nan_on_the_gpu():
    input = torch.randn(2, 8, 9, 16, device="cuda")
    rois = random_rois(5, 2, 16).cuda()
    rois[1, 0] = 2
    missing = roi_align(input, rois, 1.0, 3, 3, 2, True).isnan().flatten(1)
    assert missing[1].all() and missing.any(1).sum() == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_it_keeps_the_rules_of_a_custom_operator(memory):
    input = torch.randn(2, 20, 7, 9).contiguous(memory_format=memory).requires_grad_()
    torch.library.opcheck(roi_align, (input, random_rois(8, 2, 9), 0.5, 3, 2, 2, True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph_with_the_same_strides(dynamic):
    def head(input, rois):
        return roi_align(input, rois, 0.5, 3, 2, 2, True) * 2

    torch._dynamo.reset()
    compiled = torch.compile(head, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for count in (8, 12):
        input = torch.randn(2, 20, 7, 9).contiguous(memory_format=torch.channels_last)
        input.requires_grad_()
        rois = random_rois(count, 2, 9)
        expected, output = head(input, rois), compiled(input, rois)
        torch.testing.assert_close(output, expected)
        assert output.stride() == expected.stride()
        torch.testing.assert_close(
            torch.autograd.grad(output.sum(), input),
            torch.autograd.grad(expected.sum(), input),
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_exports():
    class Layer(torch.nn.Module):
        def forward(self, input, rois):
            return roi_align(input, rois, 0.5, 3, 2, 2, True)

    inputs = (torch.randn(2, 20, 7, 9), random_rois(8, 2, 9))
    program = torch.export.export(Layer(), inputs)
    assert "fovea.roi_align" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs), Layer()(*inputs))


def test_broken_contracts_name_operator_argument_and_value():
    input, rois = torch.randn(2, 20, 7, 9), random_rois(8, 2, 9)
    with pytest.raises(
        RuntimeError, match=r"roi_align: rois must have 5 numbers per region"
    ):
        roi_align(input, rois[:, 1:], 0.5, 3, 2, 2, True)
    rois[3, 0] = 2
    with pytest.raises(RuntimeError, match=r"an image in \[0, 2\).*got 2 in row 3"):
        roi_align(input, rois, 0.5, 3, 2, 2, True)


def test_a_region_that_is_not_finite_is_nan_on_every_thread_of_inference_mode():
    image = torch.randn(1, 256, 14, 14)
    rois = torch.tensor([[0.0, 1.0, 1.0, 9.0, 9.0]]).repeat(8, 1)
    rois[-1, 2] = torch.nan  # in the second thread's half
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.inference_mode():
            for dtype in (torch.float32, torch.bfloat16):
                output = roi_align(image.to(dtype), rois, 1.0, 7, 7, 2, True)
                assert output[-1].isnan().all()
                assert not output[:-1].isnan().any()
    finally:
        torch.set_num_threads(threads)
