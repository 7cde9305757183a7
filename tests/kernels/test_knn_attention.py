"""k-NN attention from Python: torch.ops.fovea.knn_attention on every device there is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from attention_definitions import Operator, plain_knn
from kernel_library import DEVICES, FAST, LIBRARY
from rounding import assert_within_rounding

knn_attention = torch.ops.fovea.knn_attention

SIZES = [1, 2, 3, 7, 49, 97, 197, 200, 257, 1025]


def random_qkv(tokens, dim, dtype=torch.float32, device="cpu", batch=2, heads=2):
    """Views of one QKV tensor, as in a model."""
    qkv = torch.randn(batch, tokens, 3, heads, dim, device=device).to(dtype)
    return qkv.permute(2, 0, 3, 1, 4).unbind(0)


KNN = Operator("knn_attention", "", plain_knn, random_qkv)


def assert_right(query, key, value, topk, scale=None, bias=None):
    KNN.assert_right(*KNN.with_margin(query, key, value, topk, scale, bias))


def test_the_schema_is_the_designs():
    assert str(knn_attention.default._schema) == (
        "fovea::knn_attention(Tensor query, Tensor key, Tensor value, int topk, float? scale=None, "
        "Tensor? bias=None) -> Tensor"
    )


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("tokens", SIZES)
def test_every_size_is_right(device, dtype, tokens):
    torch.manual_seed(17)
    for dim in (32, 64) if tokens < 500 else (64,):
        for topk in {1, max(1, tokens // 2), tokens}:
            query, key, value = random_qkv(tokens, dim, dtype, device)
            assert_right(query[:, :, :200], key, value, topk)


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str
)
@pytest.mark.parametrize("tokens", [3136, 9001])
def test_rows_longer_than_shared_memory_are_right_on_the_gpu(dtype, tokens):
    torch.manual_seed(17)
    query, key, value = random_qkv(tokens, 64, dtype, "cuda", 1, 1)
    assert_right(query[:, :, :200], key, value, tokens // 2)


@pytest.mark.parametrize("device", DEVICES)
def test_head_sizes_biases_and_cross_attention_are_right(device):
    torch.manual_seed(18)
    for dim in (1, 7, 24, 33, 80, 128):
        query, key, value = random_qkv(97, dim, device=device)
        assert_right(query[:, :, :41], key, value, 30)
    query, key, value = random_qkv(97, 32, device=device)
    for shape in [(97,), (97, 1), (2, 1, 1), (2, 1, 97, 97), (2, 2, 97, 97)]:
        bias = torch.randn(shape, device=device)
        assert_right(query, key, value, 30, bias=bias)
    assert_right(query, key, value, 30, scale=-0.3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tokens", [197, 5000])
def test_ties_masks_and_nan_are_the_same_on_every_device(device, tokens):
    def weights(bias, topk):
        zeros = torch.zeros(1, 1, bias.shape[0], 16, device=device)
        keys = torch.zeros(1, 1, tokens, 16, device=device)
        # Key j's value is j in the first channel: the mean index of the keys taken.
        keys_value = keys.clone()
        keys_value[..., 0] = torch.arange(tokens, device=device)
        return knn_attention(zeros, keys, keys_value, topk, bias=bias.to(device))[
            0, 0
        ].cpu()

    equal = torch.full((1, tokens), 0.5)
    assert weights(equal, 9)[0, 0] == pytest.approx(4.0)
    masked = equal.clone()
    masked[0, :100] = -torch.inf
    assert weights(masked, 9)[0, 0] == pytest.approx(104.0)
    few = torch.full((1, tokens), -torch.inf)
    few[0, 10] = few[0, 20] = 1.0
    assert weights(few, 9)[0, 0] == pytest.approx(15.0)
    rows = equal.repeat(4, 1)
    rows[1] = -torch.inf
    rows[2, 77] = torch.nan
    rows[3, 77] = torch.inf
    result = weights(rows, 9)
    assert result[1].eq(0).all()
    assert result[2:].isnan().all() and not result[:2].isnan().any()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_those_of_the_plain_form(device):
    torch.manual_seed(19)
    query, key, value = (
        t.double().requires_grad_() for t in random_qkv(5, 3, device=device, batch=1)
    )
    bias = torch.randn(2, 1, 5, dtype=torch.float64, device=device, requires_grad=True)

    def run(query, key, value, bias):
        return knn_attention(query, key, value, 3, 0.7, bias)

    assert torch.autograd.gradcheck(run, (query, key, value, bias))
    assert torch.autograd.gradgradcheck(run, (query, key, value, bias), fast_mode=True)
    ours = torch.autograd.grad(
        run(query, key, value, bias).square().sum(), (query, key, value, bias)
    )
    theirs = plain_knn(query, key, value, 3, 0.7, bias).square().sum()
    for a, b in zip(
        ours, torch.autograd.grad(theirs, (query, key, value, bias)), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fast_forward_and_reference_backward_go_together(device, dtype):
    torch.manual_seed(20)
    inputs = [
        t.detach().clone().requires_grad_() for t in random_qkv(50, 32, dtype, device)
    ]
    wide = [t.detach().double().requires_grad_() for t in inputs]
    ours = torch.autograd.grad(
        knn_attention(*inputs, 20).float().square().sum(), inputs
    )
    theirs = torch.autograd.grad(plain_knn(*wide, 20).square().sum(), wide)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == dtype
        tolerance = (1e-5 if dtype == torch.float32 else 4e-2) * b.abs().max().item()
        torch.testing.assert_close(a.double(), b, rtol=0, atol=tolerance)


def test_a_layer_with_it_trains():
    torch.manual_seed(21)
    tokens = torch.randn(16, 20, 8)
    target = tokens.flip(1).mean(-1)
    layer = torch.nn.Linear(8, 24)
    head = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], 1e-2)
    losses = []
    for _ in range(60):
        query, key, value = layer(tokens).view(16, 20, 3, 2, 4).permute(2, 0, 3, 1, 4)
        output = knn_attention(query, key, value, 5).transpose(1, 2).flatten(2)
        loss = (head(output).squeeze(-1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_nothing_is_recorded_where_no_gradient_is_wanted():
    query, key, value = random_qkv(7, 8)
    assert not knn_attention(query, key, value, 3).requires_grad
    with torch.no_grad():
        assert not knn_attention(query.requires_grad_(), key, value, 3).requires_grad
    with torch.inference_mode():
        assert knn_attention(*random_qkv(7, 8), 3).is_inference()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_keeps_the_rules_of_a_custom_operator():
    query, key, value = (t.detach().requires_grad_() for t in random_qkv(7, 8))
    torch.library.opcheck(knn_attention, (query, key, value, 3))
    torch.library.opcheck(knn_attention, (query, key, value, 3, 0.5, torch.randn(7)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_into_one_graph_with_the_same_strides(dynamic):
    def block(query, key, value):
        return knn_attention(query, key, value, 3).transpose(1, 2).flatten(2) * 2

    compiled = torch.compile(
        block, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    for tokens in (9, 13):
        inputs = [t.detach().requires_grad_() for t in random_qkv(tokens, 8)]
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
        def forward(self, query, key, value):
            return knn_attention(query, key, value, 4)

    inputs = random_qkv(9, 8)
    program = torch.export.export(Layer(), inputs)
    assert "fovea.knn_attention" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs), Layer()(*inputs))


def test_broken_contracts_name_operator_argument_and_value():
    query, key, value = random_qkv(7, 8)
    with pytest.raises(
        RuntimeError, match=r"knn_attention: topk must be in \[1, 7\].*got 8"
    ):
        knn_attention(query, key, value, 8)
    with pytest.raises(
        RuntimeError, match="knn_attention: key must be on query's device"
    ):
        knn_attention(query, key.to("meta"), value, 3)


FORCED = """
import sys, torch
torch.ops.load_library(sys.argv[1])
arguments = torch.load(sys.argv[2])
torch.save(torch.ops.fovea.knn_attention(*arguments), sys.argv[3])
"""


def run_forced(implementation, folder, arguments):
    """Leaves its output in the folder's out.pt."""
    torch.save(arguments, folder / "in.pt")
    return subprocess.run(
        [sys.executable, "-c", FORCED, LIBRARY, folder / "in.pt", folder / "out.pt"],
        env={**os.environ, "FOVEA_FORCE_KERNEL": implementation},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_picks_the_implementation(tmp_path):
    torch.manual_seed(1)
    arguments = KNN.with_margin(*torch.randn(3, 1, 2, 64, 32), 20)
    forced = run_forced("reference", tmp_path, arguments)
    assert forced.returncode == 0, forced.stderr
    output = torch.load(tmp_path / "out.pt")
    assert_within_rounding(output, KNN.expected(*arguments))
    # Other roundings: really another implementation.
    assert not torch.equal(output, knn_attention(*arguments))


@pytest.mark.parametrize(
    ("implementation", "dtype", "message"),
    [
        ("cuda", "float32", "knn_attention: FOVEA_FORCE_KERNEL=cuda, but "),
        ("cpu", "float64", "takes Float, BFloat16, got Double"),
        (
            "fast",
            "float32",
            'FOVEA_FORCE_KERNEL must be reference, cpu or cuda, got "fast"',
        ),
    ],
)
def test_a_forced_implementation_that_cannot_run_is_a_clear_error(
    tmp_path, implementation, dtype, message
):
    query, key, value = random_qkv(64, 32, getattr(torch, dtype))
    run = run_forced(implementation, tmp_path, [query, key, value, 20])
    assert run.returncode != 0
    assert message in run.stderr
