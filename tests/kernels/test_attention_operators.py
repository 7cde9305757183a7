"""The attention operators from Python, torch.ops.fovea.*, on every device there is.

knn_attention has a file of its own (test_knn_attention.py).
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from attention_definitions import (
    OPERATORS,
    conv_arguments,
    leaves,
    maps,
    plain_dense,
    tensors_of,
    tokens,
    with_tensors,
)
from kernel_library import DEVICES, FAST, LIBRARY

fovea = torch.ops.fovea

every_operator = pytest.mark.parametrize("op", OPERATORS, ids=str)


@every_operator
def test_the_schema_is_the_designs(op):
    schema = getattr(fovea, op.name).default._schema
    promised = torch._C.parse_schema(f"fovea::{op.name}({op.schema}) -> Tensor")
    assert str(schema) == str(promised)


@every_operator
@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_numbers_are_right(op, device, dtype):
    for dim in (7, 24, 32, 80):
        op.assert_right(*op.with_margin(*op.arguments(dim, dtype, device)))


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("count", [1, 2, 49, 197, 257, 1025])
def test_every_number_of_tokens_is_right(device, dtype, count):
    like = {"dtype": dtype, "device": device}
    dense, exact, static = OPERATORS[0], OPERATORS[1], OPERATORS[5]
    qkv = tokens(count, 64, like, batch=1, heads=2 if count < 500 else 1)
    dense.assert_right(*qkv)
    exact.assert_right(*qkv, count)
    static.assert_right(qkv[0], qkv[1][0].contiguous(), qkv[2])


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_windows_of_models_are_right(device, dtype):
    like = {"dtype": dtype, "device": device}
    window, criss_cross, axial = OPERATORS[2], OPERATORS[3], OPERATORS[4]
    large = maps(14, 14, 32, like, batch=1)
    bias = torch.randn(4, 49, 49, device=device)
    window.assert_right(*large, [7, 7], [3, 3], None, bias)
    window.assert_right(*large, [2, 14], [0, 0])
    criss_cross.assert_right(*large)
    axial.assert_right(*large, 5, 2)


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("grid", [(1, 1), (9, 8), (14, 14)], ids=str)
@pytest.mark.parametrize("activation", ["softmax", "gelu", "relu", "star_relu"])
def test_convolutions_of_every_grid_and_activation_are_right(
    device, dtype, grid, activation
):
    op = dataclasses.replace(OPERATORS[-1], options={"activation": activation})
    arguments = conv_arguments(32, {"dtype": dtype, "device": device}, grid)
    op.assert_right(*arguments)
    query, value, *rest = arguments  # without a class token
    op.assert_right(query[:, :, 1:], value[:, :, 1:], *rest[:3])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shift", [0, 3])
def test_windows_are_torchvisions(device, shift):
    swin = pytest.importorskip("torchvision.models.swin_transformer")
    heads, dim, size = 3, 16, 14
    channels = heads * dim
    pixels = torch.randn(2, size, size, channels, device=device)
    weight = torch.randn(3 * channels, channels, device=device) / channels**0.5
    bias = torch.randn(3 * channels, device=device)
    table = torch.randn(1, heads, 49, 49, device=device)
    expected = swin.shifted_window_attention(
        pixels,
        weight,
        torch.eye(channels, device=device),
        table,
        [7, 7],
        heads,
        [shift, shift],
        qkv_bias=bias,
    )
    qkv = torch.nn.functional.linear(pixels, weight, bias)
    query, key, value = qkv.unflatten(-1, (3, heads, dim)).permute(3, 0, 4, 1, 2, 5)
    output = fovea.window_attention(
        query, key, value, [7, 7], [shift, shift], None, table[0]
    )
    # Its mask is -100, not -inf.
    torch.testing.assert_close(
        output.permute(0, 2, 3, 1, 4).flatten(3), expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("device", DEVICES)
def test_windows_are_timms(device):
    swin = pytest.importorskip("timm.models.swin_transformer")
    heads, size = 3, 7
    layer = swin.WindowAttention(48, heads, window_size=size)
    torch.nn.init.normal_(layer.relative_position_bias_table)
    layer.proj = torch.nn.Identity()
    layer = layer.to(device).eval()
    pixels = torch.randn(2, 14, 21, 48, device=device)
    with torch.no_grad():
        windows = swin.window_partition(pixels, (size, size))
        expected = swin.window_reverse(
            layer(windows.flatten(1, 2)).view(-1, size, size, 48), (size, size), 14, 21
        )
        qkv = layer.qkv(pixels).unflatten(-1, (3, heads, 16)).permute(3, 0, 4, 1, 2, 5)
        bias = layer._get_rel_pos_bias()[0]
        output = fovea.window_attention(*qkv, size, 0, None, bias)
    torch.testing.assert_close(
        output.permute(0, 2, 3, 1, 4).flatten(3), expected, rtol=1e-4, atol=1e-5
    )


@every_operator
@pytest.mark.parametrize("device", DEVICES)
def test_autocast_lowers_every_tensor(op, device):
    """As torch's own attention: fp32 parameters meet queries that are bfloat16 already."""
    arguments, inputs = leaves(op.arguments(32, torch.float32, device))
    mixed = [arguments[0].bfloat16(), *arguments[1:]]
    with torch.autocast(device, torch.bfloat16):
        output = op.run(*mixed)
    lowered = with_tensors(arguments, (t.bfloat16() for t in tensors_of(arguments)))
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, op.run(*lowered), rtol=0, atol=0)
    gradients = torch.autograd.grad(output.sum(), inputs)
    assert all(g.dtype == torch.float32 for g in gradients)
    assert all(g.abs().sum() > 0 for g in gradients)


@every_operator
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_the_plain_form(op, device):
    arguments, inputs = leaves(op.arguments(3, torch.float64, device))
    output = op.run(*arguments)
    weights = torch.randn_like(output)
    ours = torch.autograd.grad(output, inputs, weights, create_graph=True)
    theirs = torch.autograd.grad(
        op.define(*arguments), inputs, weights, create_graph=True
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    directions = [torch.randn_like(t) for t in inputs]
    for a, b in zip(
        torch.autograd.grad(ours, inputs, directions, materialize_grads=True),
        torch.autograd.grad(theirs, inputs, directions, materialize_grads=True),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@every_operator
def test_gradients_are_numerically_right(op):
    # One image of few channels: finite differences are slow.
    arguments = op.arguments(2, torch.float64)
    small = [
        t[:1] if t.dim() >= 4 and t.shape[-1] == 2 else t for t in tensors_of(arguments)
    ]
    arguments, inputs = leaves(with_tensors(arguments, small))

    def run(*inputs):
        return op.run(*with_tensors(arguments, inputs))

    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_nothing_have_no_gradient_and_spoil_none(device):
    qkv = [t.requires_grad_() for t in tokens(5, 8, {"device": device}, 1, 2)]
    bias = torch.zeros(5, 5, device=device)
    bias[2] = -torch.inf
    for output in (
        fovea.dense_attention(*qkv, None, bias),
        fovea.knn_attention_exact(*qkv, 3, None, bias),
    ):
        assert output[:, :, 2].eq(0).all()
        gradients = torch.autograd.grad(output.square().sum(), qkv)
        assert all(g.isfinite().all() for g in gradients)
        assert gradients[0][:, :, 2].eq(0).all()


@every_operator
@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_fast_forward_and_reference_backward_go_together(op, device, dtype):
    arguments, inputs = leaves(op.arguments(16, dtype, device))
    wide, wide_inputs = leaves(with_tensors(arguments, (t.double() for t in inputs)))
    ours = torch.autograd.grad(op.run(*arguments).float().square().sum(), inputs)
    theirs = torch.autograd.grad(op.define(*wide).square().sum(), wide_inputs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == dtype
        tolerance = (1e-5 if dtype == torch.float32 else 5e-2) * b.abs().max().item()
        torch.testing.assert_close(a.double(), b, rtol=0, atol=tolerance)


@every_operator
def test_nothing_is_recorded_where_no_gradient_is_wanted(op):
    assert not op.run(*op.arguments()).requires_grad
    with torch.no_grad():
        assert not op.run(*leaves(op.arguments())[0]).requires_grad
    with torch.inference_mode():
        assert op.run(*op.arguments()).is_inference()


@every_operator
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_keeps_the_rules_of_a_custom_operator(op):
    arguments, _ = leaves(op.arguments(8))
    torch.library.opcheck(getattr(fovea, op.name), tuple(arguments), op.options)


@every_operator
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph_with_the_same_strides(op, dynamic):
    def block(*arguments):
        return op.run(*arguments).transpose(1, -2) * 2

    torch._dynamo.reset()
    compiled = torch.compile(
        block, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    arguments, inputs = leaves(op.arguments(8))
    expected, output = block(*arguments), compiled(*arguments)
    torch.testing.assert_close(output, expected)
    assert output.stride() == expected.stride()
    torch.testing.assert_close(
        torch.autograd.grad(output.sum(), inputs),
        torch.autograd.grad(expected.sum(), inputs),
    )


@every_operator
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_exports(op):
    arguments = op.arguments(8)

    class Layer(torch.nn.Module):
        def forward(self, *inputs):
            return op.run(*with_tensors(arguments, inputs))

    inputs = tuple(tensors_of(arguments))
    program = torch.export.export(Layer(), inputs)
    assert f"fovea.{op.name}" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs), Layer()(*inputs))


@every_operator
def test_broken_contracts_name_operator_argument_and_value(op):
    arguments = op.arguments(8)
    value = 1 if op.name.startswith("conv") else 2
    arguments[value] = arguments[value].to("meta")
    with pytest.raises(
        RuntimeError, match=f"{op.name}: value must be on query's device cpu, got meta"
    ):
        op.run(*arguments)


def peak_bytes(run, device):
    """The most that was allocated at a time while `run` ran, its result included."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        run()
    live = peak = 0
    events = profile.profiler.kineto_results.events()
    for event in sorted(events, key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert peak > 0
    return peak


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_no_logits_of_all_pairs_are_kept(device, dtype, biased):
    """A block of rows is, for each thread: at 4,096 tokens less than a hundredth of them."""
    count = 4096
    like = {"dtype": dtype, "device": device}
    query, key, value = tokens(count, 8, like, batch=1, heads=1)
    bias = torch.randn(count, device=device) if biased else None
    static_key = key[0].contiguous()
    results = 2 * query.nbytes
    plain = peak_bytes(lambda: plain_dense(query, key, value), device)
    assert plain > count * count * query.element_size()  # that would be seen
    runs = {
        "dense": lambda: fovea.dense_attention(query, key, value, None, bias),
        "exact": lambda: fovea.knn_attention_exact(query, key, value, 100, None, bias),
        "static": lambda: fovea.static_key_attention(query, static_key, value),
    }
    for name, run in runs.items():
        run()
        assert peak_bytes(run, device) < results + count * count * 4 / 25, name


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_no_logits_of_all_windows_are_kept(device, dtype):
    query, key, value = maps(
        64, 64, 8, {"dtype": dtype, "device": device}, batch=1, heads=4
    )
    # What criss-cross attention keeps is as large as the map, in fp32.
    kept = 2 * query.nbytes + 4 * query.numel() * 2
    logits = 4 * 4096 * 4  # of one key per place and head
    runs = {
        "window": (lambda: fovea.window_attention(query, key, value, 32, 0), 1024),
        "rows": (lambda: fovea.window_attention(query, key, value, [1, 64], 0), 64),
        "axial": (lambda: fovea.axial_window_attention(query, key, value, 32, 0), 544),
        "criss-cross": (lambda: fovea.criss_cross_attention(query, key, value), 127),
    }
    for name, (run, keys) in runs.items():
        run()
        assert peak_bytes(run, device) < kept + logits * keys / 4, name


def test_no_logits_of_a_convolution_are_kept():
    query, _, value = tokens(2500, 4, {}, batch=1, heads=1)
    weight = torch.randn(2500, 4, 3, 3)

    def run():
        fovea.conv_static_key_attention(query, value, [50, 50], weight)

    assert peak_bytes(run, "cpu") < 2500 * 2500 * 4 / 10


FORCED = """
import sys, torch
torch.ops.load_library(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from attention_definitions import OPERATORS
for op in OPERATORS:
    torch.manual_seed(1)
    arguments = op.arguments(32, getattr(torch, sys.argv[3]))
    try:
        print(op, op.run(*arguments).double().sum().item(), sep="|")
    except RuntimeError as error:
        print(op, error, sep="|")
"""


def run_forced(implementation, dtype="float32", **environment):
    """Operator by operator, the sum of its output or its error."""
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            FORCED,
            str(LIBRARY),
            str(pathlib.Path(__file__).parent),
            dtype,
        ],
        env={**os.environ, "FOVEA_FORCE_KERNEL": implementation, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split("|", 1) for line in run.stdout.splitlines() if "|" in line]
    return dict(lines)


def test_the_environment_picks_the_implementation():
    forced = run_forced("reference")
    same = 0
    for op in OPERATORS:
        torch.manual_seed(1)
        here = op.run(*op.arguments()).double().sum().item()
        assert float(forced[str(op)]) == pytest.approx(here, abs=1e-2, rel=1e-4)
        same += float(forced[str(op)]) == here
    assert same < len(OPERATORS) / 2  # other roundings: really other implementations


def test_bf16_runs_where_onednn_is_kept_from_its_instructions():
    kept = run_forced("cpu", "bfloat16", ONEDNN_MAX_CPU_ISA="AVX512_CORE")
    assert all(math.isfinite(float(kept[str(op)])) for op in OPERATORS)


@pytest.mark.parametrize(
    ("implementation", "dtype", "message"),
    [
        ("cuda", "float32", "{}: FOVEA_FORCE_KERNEL=cuda, but "),
        ("cpu", "float64", "takes Float, BFloat16, got Double"),
    ],
)
def test_a_forced_implementation_that_cannot_run_is_a_clear_error(
    implementation, dtype, message
):
    forced = run_forced(implementation, dtype)
    for op in OPERATORS:
        assert message.format(op.name) in forced[str(op)]
