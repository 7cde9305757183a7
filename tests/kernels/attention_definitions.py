"""The attention operators in plain PyTorch, and a call of each with all that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from rounding import (
    PRECISIONS,
    Rounded,
    apply,
    assert_within_rounding,
    attend_largest,
    concatenated,
    exact,
    softmax_average,
    with_margin,
)

# The definitions, in their inputs' type; with a precision, how far rounding may take them as well.


def logits_of(query, key, scale=None, bias=None, precision=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    logits = exact(query, precision) @ exact(key, precision).mT * scale
    if bias is not None:
        logits = logits + bias.to(query.dtype)
    return logits


def plain_dense(query, key, value, scale=None, bias=None, hidden=None, precision=None):
    logits = logits_of(query, key, scale, bias, precision)
    if hidden is not None:
        logits = logits.masked_fill(hidden, -torch.inf)
    return softmax_average(logits, exact(value, precision))


def plain_knn(query, key, value, topk, scale=None, bias=None, precision=None):
    logits = logits_of(query, key, scale, bias, precision)
    return attend_largest(logits, logits, topk, exact(value, precision))


def plain_exact(query, key, value, topk, scale=None, bias=None, precision=None):
    logits = logits_of(query, key, scale, bias, precision)
    distance = torch.cdist(
        query.detach().double(),
        key.detach().double(),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    nearness = -distance
    if precision is not None:
        # As kernels have it: q.k - |k|^2 / 2, in the same order.
        rows, columns = (
            exact(key[..., None, :], precision),
            exact(key[..., None], precision),
        )
        lengths = (rows @ columns).map(lambda t: t.flatten(-3)[..., None, :])
        products = exact(query, precision) @ exact(key, precision).mT
        half = (query.square().sum(-1, keepdim=True) - distance.square()) / 2
        nearness = replace(products + lengths * -0.5, value=half)
    return attend_largest(logits, nearness, topk, exact(value, precision))


def same_window(height, width, window, shift):
    """[places, places]: which see each other, by where they lie; `window` divides the map."""

    def axis(size, step, offset):
        place = torch.arange(size)
        number = (place - offset) % size // step
        wrapped = place < offset  # has come round to the far end
        return number * 2 + wrapped

    rows, columns = axis(height, window[0], shift[0]), axis(width, window[1], shift[1])
    places = rows[:, None] * 1000 + columns[None]
    return places.flatten()[:, None] == places.flatten()[None]


def plain_map(query, key, value, visible, scale, bias=None, precision=None):
    flat = [t.flatten(2, 3) for t in (query, key, value)]
    hidden = ~visible.to(query.device)
    output = plain_dense(*flat, scale, bias, hidden, precision)
    return apply(output, lambda t: t.view_as(query))


def window_bias(bias, height, width, window, shift):
    """[heads, h*w, h*w] spread over [heads, places, places]."""

    def index(size, step, offset):
        return (torch.arange(size) - offset) % size % step

    number = (
        index(height, window[0], shift[0])[:, None] * window[1]
        + index(width, window[1], shift[1])[None]
    ).flatten()
    return bias[:, number][:, :, number]


def plain_window(
    query, key, value, window, shift, scale=None, bias=None, precision=None
):
    height, width = query.shape[2:4]
    if bias is not None:
        bias = window_bias(bias, height, width, window, shift)
    visible = same_window(height, width, window, shift)
    return plain_map(query, key, value, visible, scale, bias, precision)


def plain_criss_cross(query, key, value, scale=None, precision=None):
    height, width = query.shape[2:4]
    row = torch.arange(height * width) // width
    column = torch.arange(height * width) % width
    visible = (row[:, None] == row) | (column[:, None] == column)
    return plain_map(query, key, value, visible, scale, precision=precision)


def plain_axial(
    query,
    key,
    value,
    window,
    shift,
    scale=None,
    bias_rows=None,
    bias_columns=None,
    bias_window=None,
    pad_key=None,
    pad_value=None,
    precision=None,
):
    quarter, height, width = query.shape[1] // 4, *query.shape[2:4]
    rows = plain_window(
        *(t[:, :quarter] for t in (query, key, value)),
        (1, width),
        (0, 0),
        scale,
        bias_rows,
        precision,
    )
    columns = plain_window(
        *(t[:, quarter : 2 * quarter] for t in (query, key, value)),
        (height, 1),
        (0, 0),
        scale,
        bias_columns,
        precision,
    )
    below, right = -height % window, -width % window

    def padded(t, pad):
        t = t[:, 2 * quarter :]
        if pad is None:
            pad = t.new_zeros(2 * quarter, t.shape[-1])
        full = pad[None, :, None, None].expand(
            t.shape[0], -1, height + below, width + right, -1
        )
        wide = torch.cat([t, full[:, :, :height, width:]], 3)
        return torch.cat([wide, full[:, :, height:]], 2)

    windows = plain_window(
        padded(query, None),
        padded(key, pad_key),
        padded(value, pad_value),
        (window, window),
        (shift, shift),
        scale,
        bias_window,
        precision,
    )
    windows = apply(windows, lambda t: t[:, :, :height, :width])
    return concatenated([rows, columns, windows], 1)


def weighted_sum(activation, logits, value, scale, bias):
    """The values, weighted by what the activation makes of the logits."""
    if activation == "softmax":
        return softmax_average(logits, value)
    if activation == "gelu":
        bounded = isinstance(logits, Rounded)
        weights = logits.gelu() if bounded else torch.nn.functional.gelu(logits)
    else:
        weights = logits.relu()
    if activation == "star_relu":
        weights = weights.square() * scale + bias
    return (weights.stored() if isinstance(weights, Rounded) else weights) @ value


def plain_static_key(
    query,
    static_key,
    value,
    activation="softmax",
    scale=None,
    activation_scale=1.0,
    activation_bias=0.0,
    precision=None,
):
    logits = logits_of(query, static_key, scale, None, precision)
    value = exact(value, precision)
    return weighted_sum(activation, logits, value, activation_scale, activation_bias)


def plain_conv_static_key(
    query,
    value,
    grid,
    weight,
    bias=None,
    cls_key=None,
    activation="softmax",
    scale=None,
    activation_scale=1.0,
    activation_bias=0.0,
    precision=None,
):
    batch, heads, tokens, dim = query.shape
    positions = grid[0] * grid[1]
    filters = exact(weight.reshape(heads, positions, dim * 9), precision)

    def convolved(part, size):
        maps = part.mT.reshape(batch * heads, dim, *size)
        patches = torch.nn.functional.unfold(maps, 3, padding=1)
        patches = patches.view(batch, heads, dim * 9, -1)
        logits = (filters @ exact(patches, precision)).mT
        return logits if bias is None else logits + bias.view(heads, 1, positions)

    logits = convolved(query[:, :, tokens - positions :], grid)
    if cls_key is not None:
        logits = concatenated([convolved(query[:, :, :1], (1, 1)), logits], 2)
        of_class = exact(query, precision) @ exact(cls_key, precision).mT
        logits = concatenated([of_class, logits], 3)
    logits = logits * (dim**-0.5 if scale is None else scale)
    value = exact(value, precision)
    return weighted_sum(activation, logits, value, activation_scale, activation_bias)


# A call of each operator, with all it takes, at a size.


def tokens(count, dim, like, batch=2, heads=4):
    """Query, key and value as a model has them: views of one QKV tensor."""
    qkv = torch.randn(batch, count, 3, heads, dim).to(**like)
    return list(qkv.permute(2, 0, 3, 1, 4).unbind(0))


def maps(height, width, dim, like, batch=2, heads=4):
    qkv = torch.randn(batch, height, width, 3, heads, dim).to(**like)
    return list(qkv.permute(3, 0, 4, 1, 2, 5).unbind(0))


def random(*shape, like):
    return torch.randn(shape).to(**like)


@dataclass(frozen=True)
class Operator:
    name: str
    schema: str
    plain: Callable
    # make(dim, {"dtype": ..., "device": ...}): the arguments.
    make: Callable
    options: dict = field(default_factory=dict)

    def __str__(self):
        return "-".join([self.name, *map(str, self.options.values())])

    def run(self, *arguments):
        return getattr(torch.ops.fovea, self.name)(*arguments, **self.options)

    def define(self, *arguments, **options):
        return self.plain(*arguments, **self.options, **options)

    def expected(self, *arguments) -> Rounded:
        """In fp64, with what rounding in the arguments' type may do."""
        wide = with_tensors(arguments, (t.double() for t in tensors_of(arguments)))
        return self.define(*wide, precision=PRECISIONS[arguments[0].dtype])

    def assert_right(self, *arguments):
        output = self.run(*arguments)
        assert output.dtype == arguments[0].dtype
        assert_within_rounding(output, self.expected(*arguments))

    def with_margin(self, *arguments):
        """The arguments with queries in whose rows rounding decides nothing."""
        rest = arguments[1:]
        query = with_margin(arguments[0], lambda query: self.expected(query, *rest))
        return [query, *rest]

    def arguments(self, dim=32, dtype=torch.float32, device="cpu"):
        return self.make(dim, {"dtype": dtype, "device": device})


def static_key_arguments(dim, like):
    query, value = tokens(9, dim, like)[0], tokens(7, dim, like)[2]
    return [query, random(4, 7, dim, like=like), value]


def conv_arguments(dim, like, grid=(2, 3)):
    positions = grid[0] * grid[1]
    query, _, value = tokens(positions + 1, dim, like)
    weight = random(4 * positions, dim, 3, 3, like=like) / 3
    return [
        query,
        value,
        list(grid),
        weight,
        random(4 * positions, like=like),
        random(4, 1, dim, like=like),
    ]


def axial_arguments(dim, like):
    return [
        *maps(4, 5, dim, like),
        3,
        1,
        None,
        random(1, 5, 5, like=like),
        random(1, 4, 4, like=like),
        random(2, 9, 9, like=like),
        random(2, dim, like=like),
        random(2, dim, like=like),
    ]


ACTIVATION = 'str activation="softmax", float? scale=None, float activation_scale=1.0, float activation_bias=0.0'
STATIC_KEY = f"Tensor query, Tensor static_key, Tensor value, {ACTIVATION}"
OPERATORS = [
    Operator(
        "dense_attention",
        "Tensor query, Tensor key, Tensor value, float? scale=None, Tensor? bias=None",
        plain_dense,
        lambda dim, like: [*tokens(9, dim, like), None, random(4, 9, 9, like=like)],
    ),
    Operator(
        "knn_attention_exact",
        "Tensor query, Tensor key, Tensor value, int topk, float? scale=None, Tensor? bias=None",
        plain_exact,
        lambda dim, like: [*tokens(9, dim, like), 4, None, random(4, 9, 9, like=like)],
    ),
    Operator(
        "window_attention",
        "Tensor query, Tensor key, Tensor value, int[2] window, int[2] shift, float? scale=None, "
        "Tensor? bias=None",
        plain_window,
        lambda dim, like: [
            *maps(4, 6, dim, like),
            [2, 3],
            [1, 2],
            None,
            random(4, 6, 6, like=like),
        ],
    ),
    Operator(
        "criss_cross_attention",
        "Tensor query, Tensor key, Tensor value, float? scale=None",
        plain_criss_cross,
        lambda dim, like: maps(3, 4, dim, like),
    ),
    Operator(
        "axial_window_attention",
        "Tensor query, Tensor key, Tensor value, int window, int shift, float? scale=None, "
        "Tensor? bias_rows=None, Tensor? bias_columns=None, Tensor? bias_window=None, "
        "Tensor? pad_key=None, Tensor? pad_value=None",
        plain_axial,
        axial_arguments,
    ),
    Operator(
        "static_key_attention", STATIC_KEY, plain_static_key, static_key_arguments
    ),
    Operator(
        "static_key_attention",
        STATIC_KEY,
        plain_static_key,
        static_key_arguments,
        {"activation": "star_relu", "activation_scale": 0.9, "activation_bias": -0.4},
    ),
    Operator(
        "conv_static_key_attention",
        "Tensor query, Tensor value, int[2] grid, Tensor weight, Tensor? bias=None, "
        f"Tensor? cls_key=None, {ACTIVATION}",
        plain_conv_static_key,
        conv_arguments,
        {"activation": "gelu", "scale": 1.0},
    ),
]


def with_tensors(arguments, tensors):
    """`arguments` with other tensors in their places."""
    tensors = iter(tensors)
    return [next(tensors) if isinstance(a, torch.Tensor) else a for a in arguments]


def tensors_of(arguments):
    return [a for a in arguments if isinstance(a, torch.Tensor)]


def leaves(arguments):
    """`arguments` with tensors that want gradients, and those."""
    inputs = [t.detach().clone().requires_grad_() for t in tensors_of(arguments)]
    return with_tensors(arguments, inputs), inputs
