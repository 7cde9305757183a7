"""The key-only layer from Python: torch.ops.fovea.key_only_layer on every device there is."""

from __future__ import annotations

from dataclasses import replace

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
from torch.nn import functional

key_only_layer = torch.ops.fovea.key_only_layer
fold_key_only_weights = torch.ops.fovea.fold_key_only_weights

WEIGHTS = "Tensor key_weight, Tensor? key_bias, Tensor value_weight, Tensor? value_bias, Tensor saliency, Tensor u1_weight, Tensor? u1_bias, Tensor u2_weight, Tensor? u2_bias"


def five_steps(x, kw, kb, vw, vb, saliency, u1, b1, u2, b2, scale=None):
    """The definition in the inputs' own type."""
    key, value = (
        functional.linear(x, *p).unflatten(2, saliency.shape)
        for p in ((kw, kb), (vw, vb))
    )
    logits = (key * saliency).sum(-1) * (scale or saliency.shape[1] ** -0.5)
    context = (torch.softmax(logits, 1).unsqueeze(-1) * key).sum(1, keepdim=True)
    local = functional.linear((context * value).flatten(2), u1, b1)
    return functional.linear(local + key.flatten(2), u2, b2)


def expected(x, kw, kb, vw, vb, saliency, u1, b1, u2, b2):
    """In fp64, step by step and folded, as folded_weights.h says: each path's roundings are some of
    theirs, what lies between two products being stored in the tensors' type."""
    p = PRECISIONS[x.dtype]

    def wide(t):
        return exact(t.double(), p)

    def linear(t, weight, bias):
        out = t @ wide(weight.T)
        return (out if bias is None else out + bias.double()).stored()

    def with_bias(weight, bias):
        row = torch.zeros_like(weight[0]) if bias is None else bias
        return torch.cat([weight.T.double(), row[None].double()])

    key = linear(wide(x), kw, kb)
    heads = key.map(lambda t: t.unflatten(2, saliency.shape).transpose(1, 2))
    logits = heads @ wide(saliency[..., None]) * saliency.shape[1] ** -0.5
    logits = replace(logits, precision=Precision(p.sums, p.sums, p.least))
    context = softmax_average(logits.mT, heads).map(lambda t: t.flatten(1)[:, None])
    context = replace(context, precision=p)
    gated = (linear(wide(x), vw, vb) * context).stored()
    steps = linear((linear(gated, u1, b1) + key).stored(), u2, b2)

    product = (wide(u1.T) @ wide(u2.T)).stored()
    through = with_bias(kw, kb)
    if b1 is not None:
        through[-1] += b1
    direct = (wide(through) @ wide(u2.T)).stored()
    weight = (wide(with_bias(vw, vb)) * context).stored()
    effective = (weight @ product + direct).stored().stored()
    rows = wide(functional.pad(x.double(), (0, 1), value=1.0))
    folded = rows @ effective
    folded = (folded if b2 is None else folded + b2.double()).stored().stored()
    torch.testing.assert_close(folded.value, steps.value, rtol=1e-9, atol=1e-9)
    return replace(steps, squares=torch.maximum(steps.squares, folded.squares))


def random_inputs(
    tokens, heads, dim, dtype=torch.float32, device="cpu", batch=2, biases=True
):
    """x and the layer's parameters, in the operator's order."""
    channels = heads * dim

    def linear():
        weight = torch.randn(channels, channels, device=device) * channels**-0.5
        bias = torch.randn(channels, device=device).to(dtype) if biases else None
        return weight.to(dtype), bias

    x = torch.randn(batch, tokens, channels, device=device).to(dtype)
    saliency = torch.randn(heads, dim, device=device).to(dtype)
    return (x, *linear(), *linear(), saliency, *linear(), *linear())


def given(inputs):
    return [t for t in inputs if t is not None]


def leaves(inputs):
    return [t if t is None else t.detach().requires_grad_() for t in inputs]


def test_the_schemas_are_a_promise():
    assert str(key_only_layer.default._schema) == (
        f"fovea::key_only_layer(Tensor x, {WEIGHTS}, float? scale=None, Tensor[]? folded=None)"
        " -> Tensor"
    )
    assert (
        str(fold_key_only_weights.default._schema)
        == f"fovea::fold_key_only_weights({WEIGHTS}) -> Tensor[]"
    )


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize(
    ("tokens", "heads", "dim"),
    [(1, 2, 32), (7, 2, 32), (197, 1, 64), (3136, 1, 64), (784, 2, 64), (49, 8, 64)],
)
@pytest.mark.parametrize("biases", [True, False])
def test_it_is_right(device, dtype, tokens, heads, dim, biases):
    torch.manual_seed(33)
    inputs = random_inputs(tokens, heads, dim, dtype, device, biases=biases)
    truth = expected(*inputs)
    for folded in (None, fold_key_only_weights(*inputs[1:])):
        output = key_only_layer(*inputs, folded=folded)
        assert output.dtype == dtype and output.is_contiguous()
        assert_within_rounding(output, truth)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("biases", [True, False])
def test_gradients_are_those_of_the_five_steps(device, biases):
    torch.manual_seed(34)
    inputs = random_inputs(4, 2, 2, torch.float64, device, batch=1, biases=biases)
    inputs = leaves(inputs)

    def run(*tensors):
        rest = iter(tensors)
        return key_only_layer(*(None if t is None else next(rest) for t in inputs), 0.7)

    assert torch.autograd.gradcheck(run, given(inputs))
    assert torch.autograd.gradgradcheck(run, given(inputs), fast_mode=True)
    ours = torch.autograd.grad(run(*given(inputs)).square().sum(), given(inputs))
    theirs = five_steps(*inputs, scale=0.7).square().sum()
    for a, b in zip(ours, torch.autograd.grad(theirs, given(inputs)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_lowers_tokens_and_weights(device):
    inputs = leaves(random_inputs(49, 2, 32, device=device))
    with torch.autocast(device, torch.bfloat16):
        output = key_only_layer(inputs[0].bfloat16(), *inputs[1:])
    lowered = [t if t is None else t.bfloat16() for t in inputs]
    torch.testing.assert_close(output, key_only_layer(*lowered), rtol=0, atol=0)
    gradients = torch.autograd.grad(output.sum(), given(inputs))
    assert all(g.dtype == torch.float32 for g in gradients)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_do_not_depend_on_prepared_weights(device):
    torch.manual_seed(35)
    inputs = leaves(random_inputs(300, 2, 16, device=device))
    with torch.no_grad():
        folded = fold_key_only_weights(*inputs[1:])
    expected = torch.autograd.grad(five_steps(*inputs).sum(), inputs)
    found = torch.autograd.grad(key_only_layer(*inputs, folded=folded).sum(), inputs)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * b.abs().max().item())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_keeps_the_rules_of_a_custom_operator():
    inputs = random_inputs(7, 2, 4)
    torch.library.opcheck(key_only_layer, tuple(leaves(inputs)))
    torch.library.opcheck(
        key_only_layer, (*inputs, 0.5, fold_key_only_weights(*inputs[1:]))
    )
    torch.library.opcheck(
        key_only_layer, tuple(leaves(random_inputs(7, 2, 4, biases=False)))
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph(dynamic):
    compiled = torch.compile(
        lambda *inputs: key_only_layer(*inputs) * 2,
        fullgraph=True,
        dynamic=dynamic,
        backend="aot_eager",
    )
    for tokens in (9, 300):
        inputs = leaves(random_inputs(tokens, 2, 4))
        expected, output = key_only_layer(*inputs) * 2, compiled(*inputs)
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(
            torch.autograd.grad(output.sum(), inputs),
            torch.autograd.grad(expected.sum(), inputs),
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_exports_with_prepared_weights():
    class Layer(torch.nn.Module):
        def forward(self, inputs, folded):
            return key_only_layer(*inputs, folded=folded)

    inputs = random_inputs(9, 2, 4)
    folded = fold_key_only_weights(*inputs[1:])
    program = torch.export.export(Layer(), (inputs, folded))
    assert "fovea.key_only_layer" in str(program.graph)
    torch.testing.assert_close(
        program.module()(inputs, folded), key_only_layer(*inputs)
    )


def test_broken_contracts_name_operator_argument_and_value():
    inputs = list(random_inputs(7, 2, 4))
    inputs[6] = inputs[6][:7]
    with pytest.raises(
        RuntimeError,
        match=r"key_only_layer: u1_weight must have shape .* = \[8, 8\], got shape \[7, 8\]",
    ):
        key_only_layer(*inputs)
