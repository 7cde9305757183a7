"""Attention maps, the attentions composed of windows, and KVT's measures, against their definitions in loops."""

from __future__ import annotations

import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import ops


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(7)


def token_sets(tokens: int = 20, dim: int = 8) -> list[torch.Tensor]:
    return list(torch.randn(3, 2, 3, tokens, dim).unbind(0))


def maps(height: int = 6, width: int = 4) -> list[torch.Tensor]:
    return list(torch.randn(3, 2, 4, height, width, 8).unbind(0))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dense_attention", ()),
        ("knn_attention", (5,)),
        ("knn_attention_exact", (5,)),
    ],
)
def test_a_map_times_the_values_is_the_attention(name: str, arguments: tuple) -> None:
    query, key, value = token_sets()
    bias = torch.randn(20, 20)
    bias[:, 3] = -torch.inf
    weights = getattr(ops, f"{name}_map")(query, key, *arguments, bias=bias)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(
        weights @ value, getattr(ops, name)(query, key, value, *arguments, bias=bias)
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 20))
    assert weights[..., 3].eq(0).all()
    if arguments:
        assert weights.gt(0).sum(-1).eq(5).all()


@pytest.mark.parametrize("activation", ["softmax", "gelu", "relu", "star_relu"])
def test_static_key_maps_times_the_values_are_the_attention(activation: str) -> None:
    query, _, value = token_sets()
    static = torch.randn(3, 20, 8)
    weights = ops.static_key_attention_map(query, static, activation)
    torch.testing.assert_close(
        weights @ value, ops.static_key_attention(query, static, value, activation)
    )
    weight = torch.randn(3 * 19, 8, 3, 3)
    cls_key = torch.randn(3, 1, 8)
    arguments = ((19, 1), weight, torch.randn(57), cls_key, activation)
    weights = ops.conv_static_key_attention_map(query, *arguments)
    torch.testing.assert_close(
        weights @ value, ops.conv_static_key_attention(query, value, *arguments)
    )


def test_maps_of_windows_cover_the_whole_map_and_are_zero_outside() -> None:
    query, key, value = maps()
    flat = value.flatten(2, 3)
    weights = ops.window_attention_map(query, key, (3, 2), (1, 1))
    torch.testing.assert_close(
        weights @ flat,
        ops.window_attention(query, key, value, (3, 2), (1, 1)).flatten(2, 3),
    )
    # Unshifted, the first position sees its window of 3x2 places alone.
    first = ops.window_attention_map(query, key, (3, 2))[0, 0, 0].view(6, 4)
    assert first[:3, :2].gt(0).all() and first.count_nonzero() == 6
    weights = ops.criss_cross_attention_map(query, key)
    torch.testing.assert_close(
        weights @ flat, ops.criss_cross_attention(query, key, value).flatten(2, 3)
    )
    assert weights[0, 0, 5].count_nonzero() == 6 + 4 - 1
    weights = ops.axial_window_attention_map(query, key, 4, 1)
    torch.testing.assert_close(
        weights @ flat,
        ops.axial_window_attention(query, key, value, 4, 1).flatten(2, 3),
    )


def test_a_map_checks_the_operators_contract() -> None:
    query, key, _ = token_sets()
    with pytest.raises(RuntimeError, match=r"knn_attention: topk must be in \[1, 20\]"):
        ops.knn_attention_map(query, key, 21)


def softmax_over(query, keys, values):
    return torch.softmax(query @ keys.mT * query.shape[-1] ** -0.5, -1) @ values


def test_axial_attention_is_columns_of_rows() -> None:
    query, key, value = maps()
    rows = softmax_over(query, key, value)  # [B, heads, H, W, D]: a row is a set
    expected = softmax_over(*(t.transpose(2, 3) for t in (query, key, rows))).transpose(
        2, 3
    )
    torch.testing.assert_close(ops.axial_attention(query, key, value), expected)


def test_cross_shaped_windows_are_stripes_of_rows_and_of_columns() -> None:
    query, key, value = maps()
    output = ops.cross_shaped_window_attention(query, key, value, 2)
    for first in range(0, 6, 2):
        stripe = [
            t[:, :2, first : first + 2].flatten(2, 3) for t in (query, key, value)
        ]
        expected = softmax_over(*stripe).unflatten(2, (2, 4))
        torch.testing.assert_close(output[:, :2, first : first + 2], expected)
    for first in range(0, 4, 2):
        stripe = [
            t[:, 2:, :, first : first + 2].flatten(2, 3) for t in (query, key, value)
        ]
        expected = softmax_over(*stripe).unflatten(2, (6, 2))
        torch.testing.assert_close(output[:, 2:, :, first : first + 2], expected)


def test_pales_are_interlaced_rows_and_columns() -> None:
    query, key, value = maps()
    output = ops.pale_attention(query, key, value, (3, 2))
    for first in range(2):  # rows 0, 2, 4 and rows 1, 3, 5
        pale = [t[:, :2, first::2].flatten(2, 3) for t in (query, key, value)]
        torch.testing.assert_close(
            output[:, :2, first::2], softmax_over(*pale).unflatten(2, (3, 4))
        )
    for first in range(2):  # columns 0, 2 and columns 1, 3
        pale = [t[:, 2:, :, first::2].flatten(2, 3) for t in (query, key, value)]
        torch.testing.assert_close(
            output[:, 2:, :, first::2], softmax_over(*pale).unflatten(2, (6, 2))
        )


def test_compositions_are_differentiable_and_refuse_what_does_not_divide() -> None:
    inputs = [t.requires_grad_() for t in maps()]
    for output in (
        ops.axial_attention(*inputs),
        ops.cross_shaped_window_attention(*inputs, 2),
        ops.pale_attention(*inputs, (3, 2)),
    ):
        gradients = torch.autograd.grad(output.square().sum(), inputs)
        assert all(g.abs().sum() > 0 for g in gradients)
    with pytest.raises(
        RuntimeError,
        match="cross_shaped_window_attention: stripe must divide the map's height 6, got 4",
    ):
        ops.cross_shaped_window_attention(*inputs, 4)
    with pytest.raises(RuntimeError, match="pale_attention: pale must divide"):
        ops.pale_attention(*inputs, (3, 3))


def test_cosine_similarity_is_the_mean_over_pairs() -> None:
    tokens = torch.randn(2, 5, 7)
    expected = torch.stack(
        [
            torch.stack(
                [
                    torch.cosine_similarity(image[i], image[j], dim=0)
                    for i in range(5)
                    for j in range(5)
                    if i != j
                ]
            ).mean()
            for image in tokens
        ]
    )
    torch.testing.assert_close(ops.token_cosine_similarity(tokens), expected)
    tokens[0, 2] = 0
    assert ops.token_cosine_similarity(tokens).isfinite().all()
    with pytest.raises(RuntimeError, match="token_cosine_similarity: tokens"):
        ops.token_cosine_similarity(tokens[:, :1])


def test_standard_deviation_is_of_each_row_and_averaged() -> None:
    weights = torch.softmax(torch.randn(2, 3, 4, 6), -1)
    expected = weights.numpy().std(axis=-1).mean(axis=(1, 2))
    torch.testing.assert_close(
        ops.attention_standard_deviation(weights), torch.from_numpy(expected)
    )


def test_norm_ratio_is_of_branch_to_main() -> None:
    branch, main = torch.randn(2, 2, 5, 7).unbind(0)
    expected = torch.stack(
        [
            torch.stack(
                [branch[b, i].norm() / main[b, i].norm() for i in range(5)]
            ).mean()
            for b in range(2)
        ]
    )
    torch.testing.assert_close(ops.residual_norm_ratio(branch, main), expected)


def test_nonlocality_weighs_distances_between_patches() -> None:
    weights = torch.softmax(torch.randn(2, 3, 7, 7), -1)
    expected = torch.zeros(2, 3)
    places = [(i // 3, i % 3) for i in range(6)]  # a 2x3 grid behind one class token
    for i, (yi, xi) in enumerate(places):
        for j, (yj, xj) in enumerate(places):
            distance = ((yi - yj) ** 2 + (xi - xj) ** 2) ** 0.5
            expected += weights[:, :, 1 + i, 1 + j] * distance / 6
    torch.testing.assert_close(ops.nonlocality(weights, (2, 3), 1), expected)
    with pytest.raises(RuntimeError, match="nonlocality: weights must have 5 tokens"):
        ops.nonlocality(weights, (2, 2), 1)


def test_what_attends_itself_alone_is_local() -> None:
    assert ops.nonlocality(torch.eye(6).expand(1, 1, 6, 6), (2, 3)).item() == 0
