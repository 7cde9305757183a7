"""RP-CPE from Python: torch.ops.fovea.rp_cpe on every device there is."""

from __future__ import annotations

import pytest
import torch
from kernel_library import DEVICES, FAST
from rounding import PRECISIONS, Rounded, assert_within_rounding

rp_cpe = torch.ops.fovea.rp_cpe


def plain(x, weights, biases):
    """The four-branch form in the inputs' own type."""
    total = x
    for weight, bias in zip(weights, biases, strict=True):
        total = total + torch.nn.functional.conv2d(
            x, weight.unsqueeze(1), bias, padding=1, groups=x.shape[1]
        )
    return total


def expected(x, weights, biases):
    """The same in fp64 by shifted products: no convolution. Sums are kept in fp32."""
    precision = PRECISIONS[x.dtype]

    def sum_of(x, weights, biases):
        padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
        height, width = x.shape[2:]
        total = x + biases.sum(0)[:, None, None]
        for row in range(3):
            for column in range(3):
                shifted = padded[:, :, row : row + height, column : column + width]
                total = total + shifted * weights.sum(0)[:, row, column, None, None]
        return total

    wide = [t.double() for t in (x, weights, biases)]
    sums = sum_of(*(t.abs() for t in wide)) * precision.sums
    squares = sums.square() * (1 + 10 * len(weights))
    return Rounded(sum_of(*wide), squares, precision)


def tokens_as_map(batch, channels, height, width, dtype=torch.float32, device="cpu"):
    """Tokens behind a class token, seen as a map: channels-last, in place."""
    tokens = torch.randn(batch, 1 + height * width, channels, device=device).to(dtype)
    return (
        tokens[:, 1:].transpose(1, 2).unflatten(2, (height, width))
    )  # a view, as the strides show


def random_branches(
    channels, branches=4, dtype=torch.float32, device="cpu", requires_grad=False
):
    weights = 0.3 * torch.randn(branches, channels, 3, 3, device=device)
    biases = torch.randn(branches, channels, device=device)
    return [t.to(dtype).requires_grad_(requires_grad) for t in (weights, biases)]


def test_the_schema_is_the_designs():
    assert str(rp_cpe.default._schema) == (
        "fovea::rp_cpe(Tensor x, Tensor weights, Tensor biases) -> Tensor"
    )


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 16, 33, 64, 100])
@pytest.mark.parametrize("size", [(1, 1), (7, 7), (5, 9), (14, 28)], ids=str)
def test_every_layout_is_right(device, dtype, channels, size):
    torch.manual_seed(17)
    last = tokens_as_map(2, channels, *size, dtype, device)
    weights, biases = random_branches(channels, dtype=dtype, device=device)
    for x in (
        last,
        last.contiguous(),
        last.mT,
        last[..., :-1] if size[1] > 1 else last,
    ):
        output = rp_cpe(x, weights, biases)
        assert_within_rounding(output, expected(x, weights, biases))


@pytest.mark.parametrize("device", DEVICES)
def test_tokens_stay_tokens(device):
    x = tokens_as_map(2, 48, 7, 9, device=device)
    output = rp_cpe(x, *random_branches(48, device=device))
    tokens = output.flatten(2).transpose(1, 2)
    assert tokens.is_contiguous()  # and no copy was needed to make it so
    assert tokens.data_ptr() == output.data_ptr()


@pytest.mark.parametrize("device", DEVICES)
def test_one_merged_branch_is_the_same(device):
    torch.manual_seed(18)
    x = tokens_as_map(2, 48, 7, 9, device=device)
    weights, biases = random_branches(48, device=device)
    torch.testing.assert_close(
        rp_cpe(x, weights.sum(0, keepdim=True), biases.sum(0, keepdim=True)),
        rp_cpe(x, weights, biases),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_the_plain_form(device):
    torch.manual_seed(19)
    x = tokens_as_map(1, 2, 3, 4, torch.float64, device).requires_grad_()
    weights, biases = random_branches(2, 2, torch.float64, device, requires_grad=True)
    inputs = (x, weights, biases)
    assert torch.autograd.gradcheck(rp_cpe, inputs)
    assert torch.autograd.gradgradcheck(rp_cpe, inputs, fast_mode=True)
    ours = torch.autograd.grad(rp_cpe(*inputs).square().sum(), inputs)
    theirs = torch.autograd.grad(plain(*inputs).square().sum(), inputs)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_fast_forward_and_reference_backward_go_together(device, dtype):
    torch.manual_seed(20)
    x = tokens_as_map(2, 40, 7, 9, dtype, device).detach().requires_grad_()
    inputs = [x, *random_branches(40, dtype=dtype, device=device, requires_grad=True)]
    wide = [t.detach().double().requires_grad_() for t in inputs]
    ours = torch.autograd.grad(rp_cpe(*inputs).float().square().sum(), inputs)
    theirs = torch.autograd.grad(plain(*wide).square().sum(), wide)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == dtype
        tolerance = (1e-5 if dtype == torch.float32 else 4e-2) * b.abs().max().item()
        torch.testing.assert_close(a.double(), b, rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_keeps_the_rules_of_a_custom_operator():
    x = tokens_as_map(2, 40, 7, 9).detach().requires_grad_()
    branches = random_branches(40, requires_grad=True)
    torch.library.opcheck(rp_cpe, (x, *branches))
    torch.library.opcheck(rp_cpe, (x.detach().contiguous().requires_grad_(), *branches))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph_with_the_same_strides(dynamic):
    def block(x, weights, biases):
        return rp_cpe(x, weights, biases) * 2

    compiled = torch.compile(
        block, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    for height in (5, 8):
        x = tokens_as_map(2, 40, height, 9).detach().requires_grad_()
        inputs = [x, *random_branches(40, requires_grad=True)]
        expected, output = block(*inputs), compiled(*inputs)
        torch.testing.assert_close(output, expected)
        assert output.stride() == expected.stride()
        torch.testing.assert_close(
            torch.autograd.grad(output.sum(), inputs),
            torch.autograd.grad(expected.sum(), inputs),
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_exports():
    class Layer(torch.nn.Module):
        def forward(self, x, weights, biases):
            return rp_cpe(x, weights, biases)

    inputs = (tokens_as_map(2, 40, 7, 9), *random_branches(40))
    program = torch.export.export(Layer(), inputs)
    assert "fovea.rp_cpe" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs), Layer()(*inputs))


def test_broken_contracts_name_operator_argument_and_value():
    x = tokens_as_map(2, 40, 7, 9)
    weights, biases = random_branches(40)
    with pytest.raises(
        RuntimeError, match=r"rp_cpe: weights must have x's channel count 40"
    ):
        rp_cpe(x, weights[:, :39], biases)
    with pytest.raises(RuntimeError, match="rp_cpe: weights must be on x's device"):
        rp_cpe(x, weights.to("meta"), biases)
