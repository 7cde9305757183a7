"""How far rounding may take a result from what is exact: rounding.h says how, this is it in Python.

Definitions are written once: of tensors they make tensors, of `exact(tensor, precision)` a Rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

LAMBDA = 4.0


@dataclass(frozen=True)
class Precision:
    """The unit roundoff of each kind of number in an operator."""

    sums: float  # of logits and sums: fp32 whatever the tensors' type, fp64 for fp64
    type: float  # of the tensors, and of weights before they multiply
    least: float  # half the least positive number of the tensors' type


PRECISIONS = {
    torch.float32: Precision(2**-24, 2**-24, 2**-127),
    torch.bfloat16: Precision(2**-24, 2**-8, 2**-127),
    torch.float16: Precision(2**-24, 2**-11, 2**-25),
}


@dataclass(frozen=True)
class Rounded:
    """A value in fp64, and the sum of the squares of what roundings may have moved it by."""

    value: Tensor
    squares: Tensor
    precision: Precision

    def map(self, shape: Callable[[Tensor], Tensor]) -> Rounded:
        return replace(self, value=shape(self.value), squares=shape(self.squares))

    @property
    def mT(self) -> Rounded:  # as torch's
        return self.map(lambda t: t.mT)

    @property
    def margin(self) -> Tensor:
        return LAMBDA * self.squares.sqrt()

    def stored(self) -> Rounded:
        """Rounded once more, to the tensors' type."""
        rounding = (self.value * self.precision.type).square()
        return replace(self, squares=self.squares + rounding)

    def __matmul__(self, other: Rounded) -> Rounded:
        return self.product(other, self.value.shape[-1])

    def product(self, other: Rounded, terms: float | Tensor) -> Rounded:
        """`terms`: how many independent roundings those of a sum are worth."""
        sums = self.value.abs() @ other.value.abs() * self.precision.sums
        squares = terms * sums.square()
        squares = squares + self.squares @ other.value.square()
        squares = squares + self.value.square() @ other.squares
        return replace(self, value=self.value @ other.value, squares=squares)

    def __mul__(self, other: float | Rounded) -> Rounded:
        if isinstance(other, Rounded):
            value = self.value * other.value
            squares = (
                (value * self.precision.sums).square()
                + self.squares * other.value.square()
                + self.value.square() * other.squares
            )
        else:  # which is rounded, too
            value = self.value * other
            rounding = (value * (2 * self.precision.sums)).square()
            squares = self.squares * other**2 + rounding
        return replace(self, value=value, squares=squares)

    def __add__(self, other: float | Tensor | Rounded) -> Rounded:
        if not isinstance(other, Rounded):
            other = exact(torch.as_tensor(other), self.precision)
        value = self.value + other.value
        squares = self.squares + other.squares + (value * self.precision.sums).square()
        squares = squares.masked_fill(value.isneginf(), 0)
        return replace(self, value=value, squares=squares)

    def masked_fill(self, mask: Tensor, value: float) -> Rounded:
        return replace(
            self,
            value=self.value.masked_fill(mask, value),
            squares=self.squares.masked_fill(mask, 0),
        )

    def gelu(self) -> Rounded:
        phi = 0.5 * torch.erfc(self.value * -(0.5**0.5))
        slope = (
            phi + self.value * torch.exp(-0.5 * self.value.square()) / 6.2831853**0.5
        )
        promised = self.value.abs().clamp_min(1) * (4 * self.precision.sums)
        squares = slope.square() * self.squares + promised.square()
        return replace(self, value=self.value * phi, squares=squares)

    def relu(self) -> Rounded:
        squares = self.squares.masked_fill(self.value + self.margin < 0, 0)
        return replace(self, value=self.value.relu(), squares=squares)

    def square(self) -> Rounded:
        value = self.value.square()
        squares = 4 * value * self.squares + (value * self.precision.sums).square()
        return replace(self, value=value, squares=squares)


def exact(tensor: Tensor, precision: Precision | None) -> Any:
    """The tensor itself where no precision is asked for."""
    if precision is None:
        return tensor
    value = tensor.double()
    return Rounded(value, torch.zeros_like(value), precision)


def apply(x: Any, shape: Callable[[Tensor], Tensor]) -> Any:
    return x.map(shape) if isinstance(x, Rounded) else shape(x)


def concatenated(parts: list[Any], dim: int) -> Any:
    if not isinstance(parts[0], Rounded):
        return torch.cat(parts, dim)
    return replace(
        parts[0],
        value=torch.cat([p.value for p in parts], dim),
        squares=torch.cat([p.squares for p in parts], dim),
    )


def softmax(logits: Tensor) -> Tensor:
    """Zero where all of a row is -inf."""
    masked = logits.isneginf().all(-1, keepdim=True)
    return torch.softmax(logits, -1).masked_fill(masked, 0)


def count_of_equal(rows: Tensor) -> Tensor:
    """How many of a row's elements are equal to each, in fp32."""
    rows = rows.float().contiguous()
    ordered = rows.sort(-1).values
    after = torch.searchsorted(ordered, rows, right=True)
    return (after - torch.searchsorted(ordered, rows)).double()


def softmax_average(logits: Any, value: Any) -> Any:
    """softmax(logits) @ value: a logit moves it by p_j (v_j - the average)."""
    if not isinstance(logits, Rounded):
        return softmax(logits) @ value
    precision = logits.precision
    weights = softmax(logits.value)
    below = logits.value.amax(-1, keepdim=True) - logits.value
    exponential = max(2 * precision.sums, precision.type / 1024)
    # Equal logits, as padding has them, are rounded alike, and so are the sums of their weights.
    masked = logits.value.isneginf()
    alike = count_of_equal(logits.value)
    squares = weights.square() * alike
    moved = squares * (
        logits.squares + (below * (3 * precision.sums) + exponential).square()
    ).masked_fill(masked, 0)
    rounded = moved + squares * precision.type**2
    terms = weights.shape[-1] + (alike - 1).masked_fill(masked, 0).sum(-1, keepdim=True)
    average = Rounded(weights, rounded, precision).product(value, terms)
    total = moved.sum(-1, keepdim=True) + terms * precision.sums**2
    squares = (
        average.squares
        + average.value.square() * total
        - 2 * average.value * (moved @ value.value)
    )
    return replace(average, squares=squares.clamp_min(0))


def attend_largest(logits: Any, scores: Any, topk: int, value: Any) -> Any:
    """Attention to the keys of the largest scores, ties to the lower index, those of -inf never.

    A row is ambiguous where a key that is taken may score less than one that is not.
    """
    of = scores.value if isinstance(scores, Rounded) else scores.detach()
    order = torch.sort(of, dim=-1, descending=True, stable=True).indices
    left = torch.ones_like(of, dtype=torch.bool).scatter(-1, order[..., :topk], False)
    left |= of.isneginf()
    average = softmax_average(logits.masked_fill(left, -torch.inf), value)
    if not isinstance(scores, Rounded):
        return average
    least = (of - scores.margin).masked_fill(left, torch.inf).amin(-1)
    most = (of + scores.margin).masked_fill(~left, -torch.inf).amax(-1)
    ambiguous = (most >= least)[..., None]
    return replace(average, squares=average.squares.masked_fill(ambiguous, torch.inf))


def with_margin(query: Tensor, define: Callable[[Tensor], Rounded]) -> Tensor:
    """Queries of which `define` calls no row ambiguous: such rows are drawn again."""
    for _ in range(20):
        ambiguous = define(query).squares.isinf().any(-1, keepdim=True)
        if not ambiguous.any():
            break
        query = torch.where(ambiguous, torch.randn_like(query), query)
    return query


def assert_within_rounding(output: Tensor, expected: Rounded) -> None:
    """Rows that rounding decides are set aside and counted; more than 1% of them fails."""
    aside = expected.squares.isinf()
    assert aside.double().mean() <= 0.01, "of the rows are ambiguous"
    # The output's own rounding, to nearest, is certain.
    precision = PRECISIONS[output.dtype]
    rounding = expected.value.abs() * precision.type + precision.least
    error = (output.double() - expected.value).abs()
    share = (error - rounding).clamp_min(0) / (expected.margin + 1e-30)
    worst = share.masked_fill(aside, 0).max()
    assert worst <= 1, f"{worst} of its bound is the error"
