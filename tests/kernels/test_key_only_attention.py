"""Key-only attention from Python: torch.ops.fovea.key_only_attention on every device there is."""

from __future__ import annotations

import pytest
import torch
from kernel_library import DEVICES, FAST
from rounding import (
    PRECISIONS,
    Precision,
    assert_within_rounding,
    exact,
    softmax_average,
)

key_only_attention = torch.ops.fovea.key_only_attention

SIZES = [1, 2, 3, 7, 49, 97, 197, 257, 1025, 3136]


def plain(key, value, saliency, scale=None, precision=None):
    """The definition in the inputs' own type; with a precision, how far rounding may take it."""
    key, value = exact(key, precision), exact(value, precision)
    logits = (
        key
        @ exact(saliency[..., None], precision)
        * (scale or saliency.shape[-1] ** -0.5)
    )
    return softmax_average(logits.mT, key) * value


def random_inputs(tokens, dim, dtype=torch.float32, device="cpu", batch=2, heads=2):
    """Key and value as views of one KV tensor, as in a model; and the saliency."""
    kv = torch.randn(batch, tokens, 2, heads, dim, device=device).to(dtype)
    saliency = torch.randn(heads, dim, device=device).to(dtype)
    return (*kv.permute(2, 0, 3, 1, 4).unbind(0), saliency)


def assert_right(*inputs, **options):
    precision = PRECISIONS[inputs[0].dtype]
    # The context is kept in fp32.
    precision = Precision(precision.sums, precision.sums, precision.least)
    expected = plain(*(t.double() for t in inputs), **options, precision=precision)
    assert_within_rounding(key_only_attention(*inputs, **options), expected)


def test_the_schema_is_the_designs():
    assert str(key_only_attention.default._schema) == (
        "fovea::key_only_attention(Tensor key, Tensor value, Tensor saliency, float? scale=None)"
        " -> Tensor"
    )


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("tokens", SIZES)
def test_every_size_is_right(device, dtype, tokens):
    torch.manual_seed(17)
    for dim in (32, 64):
        assert_right(*random_inputs(tokens, dim, dtype, device))


@pytest.mark.parametrize("device", DEVICES)
def test_head_sizes_and_scales_are_right(device):
    torch.manual_seed(18)
    for dim in (1, 7, 24, 33, 80, 128):
        assert_right(*random_inputs(97, dim, device=device, heads=3))
    assert_right(*random_inputs(97, 32, device=device), scale=-0.3)


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_65536_tokens_work(device, dtype):
    torch.manual_seed(19)
    assert_right(*random_inputs(65536, 32, dtype, device, 1, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("token", [0, 77, 599])
def test_nan_and_infinities_are_the_same_on_every_device(device, token):
    inputs = [torch.ones(1, 2, 600, 4), torch.ones(1, 2, 600, 4), torch.zeros(2, 4)]
    inputs[2][:, 0] = 1

    def with_logit(logit):
        key = inputs[0].clone()
        key[0, 1, token, 0] = logit
        output = key_only_attention(
            key.to(device), inputs[1].to(device), inputs[2].to(device)
        )
        assert output[0, 0].eq(1).all()
        return output[0, 1, 0].cpu()

    assert with_logit(torch.nan).isnan().all()
    assert with_logit(torch.inf).isnan().all()
    nothing = with_logit(-torch.inf)
    assert nothing[0].isnan()  # 0 * -inf
    torch.testing.assert_close(nothing[1:], torch.ones(3))


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_the_plain_form(device):
    torch.manual_seed(19)
    inputs = [
        t.double().requires_grad_() for t in random_inputs(5, 3, device=device, batch=1)
    ]

    def run(*inputs):
        return key_only_attention(*inputs, 0.7)

    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)
    ours = torch.autograd.grad(run(*inputs).square().sum(), inputs)
    theirs = torch.autograd.grad(plain(*inputs, 0.7).square().sum(), inputs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fast_forward_and_reference_backward_go_together(device, dtype):
    torch.manual_seed(20)
    inputs = [
        t.detach().clone().requires_grad_()
        for t in random_inputs(50, 32, dtype, device)
    ]
    wide = [t.detach().double().requires_grad_() for t in inputs]
    ours = torch.autograd.grad(
        key_only_attention(*inputs).float().square().sum(), inputs
    )
    theirs = torch.autograd.grad(plain(*wide).square().sum(), wide)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == dtype
        tolerance = (1e-5 if dtype == torch.float32 else 4e-2) * b.abs().max().item()
        torch.testing.assert_close(a.double(), b, rtol=0, atol=tolerance)


def test_nothing_is_recorded_where_no_gradient_is_wanted():
    inputs = random_inputs(7, 8)
    assert not key_only_attention(*inputs).requires_grad
    with torch.no_grad():
        assert not key_only_attention(
            inputs[0].requires_grad_(), *inputs[1:]
        ).requires_grad


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_keeps_the_rules_of_a_custom_operator():
    inputs = [t.detach().requires_grad_() for t in random_inputs(7, 8)]
    torch.library.opcheck(key_only_attention, (*inputs,))
    torch.library.opcheck(key_only_attention, (*inputs, 0.5))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph_with_the_same_strides(dynamic):
    def block(*inputs):
        return key_only_attention(*inputs).transpose(1, 2).flatten(2) * 2

    compiled = torch.compile(
        block, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    for tokens in (9, 13):
        inputs = [t.detach().requires_grad_() for t in random_inputs(tokens, 8)]
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
        def forward(self, *inputs):
            return key_only_attention(*inputs)

    inputs = random_inputs(9, 8)
    program = torch.export.export(Layer(), inputs)
    assert "fovea.key_only_attention" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs), Layer()(*inputs))


def test_broken_contracts_name_operator_argument_and_value():
    key, value, saliency = random_inputs(7, 8)
    with pytest.raises(
        RuntimeError,
        match=r"key_only_attention: saliency must have shape .* = \[2, 8\], got shape \[2, 7\]",
    ):
        key_only_attention(key, value, saliency[:, :7])
    with pytest.raises(
        RuntimeError, match="key_only_attention: value must be on key's device cpu"
    ):
        key_only_attention(key, value.to("meta"), saliency)
