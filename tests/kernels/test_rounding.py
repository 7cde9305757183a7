"""What the bounds of rounding.py let pass, and the smallest mistakes that they do not.

The same as rounding_test.cc, of the definitions in Python.
"""

from __future__ import annotations

import pytest
import torch
from attention_definitions import (
    OPERATORS,
    Operator,
    logits_of,
    plain_dense,
    plain_knn,
    tokens,
)
from kernel_library import DEVICES, FAST
from rounding import assert_within_rounding

DENSE, EXACT = OPERATORS[0], OPERATORS[1]
KNN = Operator("knn_attention", "", plain_knn, tokens)
COUNT = 197


def refused(op, output, *arguments):
    try:
        assert_within_rounding(output, op.expected(*arguments))
    except AssertionError:
        return True
    return False


def inputs(dtype, device):
    return tokens(COUNT, 64, {"dtype": dtype, "device": device}, batch=1, heads=2)


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
def test_a_dropped_key_is_refused(device, dtype):
    query, key, value = inputs(dtype, device)
    fewer = DENSE.run(query, key[:, :, 1:], value[:, :, 1:])
    assert not refused(DENSE, DENSE.run(query, key, value), query, key, value)
    assert refused(DENSE, fewer, query, key, value)
    static = OPERATORS[6]  # star_relu
    fewer = static.run(query, key[0, :, 1:], value[:, :, 1:])
    assert refused(static, fewer, query, key[0], value)


@pytest.mark.parametrize(("device", "dtype"), FAST, ids=str)
@pytest.mark.parametrize("op", [KNN, EXACT], ids=str)
def test_a_number_of_neighbours_off_by_one_is_refused(op, device, dtype):
    query, key, value = inputs(dtype, device)
    for topk in (1, 20, 98):
        arguments = op.with_margin(query, key, value, topk)
        assert not refused(op, op.run(*arguments), *arguments)
        assert refused(op, op.run(*arguments[:3], topk + 1), *arguments)


@pytest.mark.parametrize("device", DEVICES)
def test_a_scale_off_by_a_thousandth_and_weights_in_bf16_are_refused(device):
    query, key, value = inputs(torch.float32, device)
    off = DENSE.run(query, key, value, 0.125 * 1.001)
    assert refused(DENSE, off, query, key, value, 0.125)
    wide = [t.double() for t in (query, key, value)]
    weights = torch.softmax(logits_of(*wide[:2], 0.125), -1)
    rounded = (weights.bfloat16().double() @ wide[2]).float()
    assert refused(DENSE, rounded, query, key, value, 0.125)
    right = plain_dense(*wide, 0.125).float()
    assert not refused(DENSE, right, query, key, value, 0.125)


def test_equal_terms_that_are_added_one_by_one_are_accepted():
    # As a key beside a window's padding has it: of each weight a sum near one loses all, of each
    # product with the value it takes twice as much.
    equal, weight, other = 63, torch.tensor(0.49 * 2**-23), torch.tensor(1.04)
    products, weights = torch.tensor(1.0), torch.tensor(1.0)
    for _ in range(equal):
        products = products + weight * other
        weights = weights + weight
    key = torch.zeros(1, 1, equal + 1, 1)
    key[:, :, 0] = -weight.log()
    value = torch.full_like(key, 1.04)
    value[:, :, 0] = 1
    output = (products / weights).view(1, 1, 1, 1)
    assert not refused(DENSE, output, torch.ones(1, 1, 1, 1), key, value, 1.0)
