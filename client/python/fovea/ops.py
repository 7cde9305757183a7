"""Fovea's operators for PyTorch: the kernels that the server runs, on the CPU and on CUDA.

    from fovea import ops
    out = ops.knn_attention(query, key, value, topk=98)

Every operator takes fp32, bf16, fp16 and fp64 tensors of one device (what has no fast kernel there runs on its
reference), reads strided views in place, is differentiable (but nms), and goes through torch.compile and torch.export;
those composed of others (axial, cross-shaped and pale attention, maps, measures) with fixed shapes. Logits are
accumulated, biased and selected in fp32 whatever the type. `scale=None` is `head_dim ** -0.5`. A broken contract raises
RuntimeError naming operator, argument and value. `kernels/*/<operator>/op.h` holds the full contracts.

Token sets are [batch, heads, tokens, head_dim]; maps are [batch, heads, height, width, head_dim]; the last dimension is
contiguous. Outputs are laid out so that moving the heads behind the tokens and flattening is a view.

The operators live in libfovea_kernels.so (fovea.libraries says where it is looked for), which is built for one release
of torch.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import torch
from torch import Tensor

from fovea import libraries

__all__ = [
    "attention_standard_deviation",
    "axial_attention",
    "axial_window_attention",
    "axial_window_attention_map",
    "conv_static_key_attention",
    "conv_static_key_attention_map",
    "criss_cross_attention",
    "criss_cross_attention_map",
    "cross_shaped_window_attention",
    "dense_attention",
    "dense_attention_map",
    "fold_key_only_weights",
    "key_only_attention",
    "key_only_layer",
    "knn_attention",
    "knn_attention_exact",
    "knn_attention_exact_map",
    "knn_attention_map",
    "library_path",
    "nms",
    "nonlocality",
    "pale_attention",
    "residual_norm_ratio",
    "roi_align",
    "rp_cpe",
    "static_key_attention",
    "static_key_attention_map",
    "token_cosine_similarity",
    "window_attention",
    "window_attention_map",
]


def library_path() -> pathlib.Path:
    """Where libfovea_kernels.so is. Raises ImportError where it is not."""
    return libraries.path_of("fovea_kernels")


libraries.load("fovea_kernels")
_ops = torch.ops.fovea


def dense_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Softmax attention: softmax(query @ key.mT * scale + bias) @ value.

    query [B, H, Nq, D], key and value [B, H, Nk, D]; bias broadcasts to [B, H, Nq, Nk], fp32 or query's type, -inf masks;
    a row without a finite logit is zero. Returns [B, H, Nq, D].
    """
    return _ops.dense_attention(query, key, value, scale, bias)


def knn_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk: int,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """k-NN attention, fast version: softmax over the `topk` largest logits of each row, ties to the lower key index.

    Shapes as dense_attention; topk in [1, Nk]. Paper: KVT (Wang et al., ECCV 2022), equation 3.
    """
    return _ops.knn_attention(query, key, value, topk, scale, bias)


def knn_attention_exact(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk: int,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """k-NN attention, slow version: each query attends its `topk` nearest keys in Euclidean distance.

    Shapes as dense_attention; keys whose bias is not finite are no neighbours. Paper: KVT, section 3.2.
    """
    return _ops.knn_attention_exact(query, key, value, topk, scale, bias)


def window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: Sequence[int],
    shift: Sequence[int] = (0, 0),
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Attention within windows of (h, w) tokens that divide the map, rolled by -shift and masked as Swin does.

    Maps [B, H, height, width, D]; a row is a window (1, width), a column (height, 1); bias [H, h*w, h*w].
    Paper: Swin Transformer (Liu et al., ICCV 2021), section 3.2.
    """
    return _ops.window_attention(
        query, key, value, list(window), list(shift), scale, bias
    )


def axial_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    """Each position attends its row, then its column what the rows gathered. Maps.

    Paper: Axial Attention in Multidimensional Transformers (Ho et al., 2019).
    """
    return _ops.axial_attention(query, key, value, scale)


def cross_shaped_window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    stripe: int,
    scale: float | None = None,
) -> Tensor:
    """Half of the heads attend stripes of `stripe` rows, half stripes of `stripe` columns. Maps.

    Paper: CSWin Transformer (Dong et al., CVPR 2022), section 3.2.
    """
    return _ops.cross_shaped_window_attention(query, key, value, stripe, scale)


def pale_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pale: Sequence[int],
    scale: float | None = None,
) -> Tensor:
    """Half of the heads attend pale[0] interlaced rows at a time, half pale[1] interlaced columns. Maps.

    Paper: Pale Transformer (Wu et al., AAAI 2022), section 3.2.
    """
    return _ops.pale_attention(query, key, value, list(pale), scale)


def criss_cross_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    """One softmax over the row and the column of each position, itself counted once. Maps.

    Paper: CCNet (Huang et al., ICCV 2019), section 3.2.
    """
    return _ops.criss_cross_attention(query, key, value, scale)


def axial_window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    shift: int = 0,
    scale: float | None = None,
    bias_rows: Tensor | None = None,
    bias_columns: Tensor | None = None,
    bias_window: Tensor | None = None,
    pad_key: Tensor | None = None,
    pad_value: Tensor | None = None,
) -> Tensor:
    """AEWin in one pass: a quarter of the heads attends rows, a quarter columns, half windows.

    Maps [B, H, height, width, D], H a multiple of 4; biases [H/4, width, width], [H/4, height, height],
    [H/2, window**2, window**2]; where the window does not divide the map, window heads see pad_key and pad_value
    [H/2, D] (zeros) at padded places. Paper: AEWin Transformer, section 3.2.
    """
    return _ops.axial_window_attention(
        query,
        key,
        value,
        window,
        shift,
        scale,
        bias_rows,
        bias_columns,
        bias_window,
        pad_key,
        pad_value,
    )


def static_key_attention(
    query: Tensor,
    static_key: Tensor,
    value: Tensor,
    activation: str = "softmax",
    scale: float | None = None,
    activation_scale: float = 1.0,
    activation_bias: float = 0.0,
) -> Tensor:
    """Attention to learned keys [H, keys, D]: activation(query @ static_key.mT * scale) @ value.

    activation: "softmax", "gelu", "relu" or "star_relu" (activation_scale * relu(x)**2 + activation_bias); all but softmax
    normalise nothing. Paper: Static Key Attention in Vision, section 4.1.
    """
    return _ops.static_key_attention(
        query,
        static_key,
        value,
        activation,
        scale,
        activation_scale,
        activation_bias,
    )


def conv_static_key_attention(
    query: Tensor,
    value: Tensor,
    grid: Sequence[int],
    weight: Tensor,
    bias: Tensor | None = None,
    cls_key: Tensor | None = None,
    activation: str = "softmax",
    scale: float | None = None,
    activation_scale: float = 1.0,
    activation_bias: float = 0.0,
) -> Tensor:
    """Static-key attention whose logits are a 3x3 convolution of the query map; they are never stored.

    query, value [B, H, M, D], M = grid[0] * grid[1], or 1 + M tokens with cls_key [H, 1, D], the class token first;
    weight [H*M, D, 3, 3], bias [H*M]. Paper: Static Key Attention in Vision, section 4.2.
    """
    return _ops.conv_static_key_attention(
        query,
        value,
        list(grid),
        weight,
        bias,
        cls_key,
        activation,
        scale,
        activation_scale,
        activation_bias,
    )


def key_only_attention(
    key: Tensor, value: Tensor, saliency: Tensor, scale: float | None = None
) -> Tensor:
    """Linear attention without queries: G * value, G the mean of the keys weighted by softmax(key . saliency * scale).

    key, value [B, H, N, D], saliency [H, D]. Time and memory are linear in N.
    Paper: Rethinking Query-Key Pairwise Interactions in Vision Transformers (LinGlo), equations 2 to 4.
    """
    return _ops.key_only_attention(key, value, saliency, scale)


def key_only_layer(
    x: Tensor,
    key_weight: Tensor,
    key_bias: Tensor | None,
    value_weight: Tensor,
    value_bias: Tensor | None,
    saliency: Tensor,
    u1_weight: Tensor,
    u1_bias: Tensor | None,
    u2_weight: Tensor,
    u2_bias: Tensor | None,
    scale: float | None = None,
    folded: Sequence[Tensor] | None = None,
) -> Tensor:
    """The whole key-only layer, ((G * V) U_1 + K) U_2, folded into one product per image where that is cheaper.

    x [B, N, C]; weights [C, C] and biases [C] as torch.nn.Linear's; saliency [H, D]. `folded`: what
    fold_key_only_weights makes of the same weights, once. Paper: LinGlo, equation 4.
    """
    return _ops.key_only_layer(
        x,
        key_weight,
        key_bias,
        value_weight,
        value_bias,
        saliency,
        u1_weight,
        u1_bias,
        u2_weight,
        u2_bias,
        scale,
        None if folded is None else list(folded),
    )


def fold_key_only_weights(
    key_weight: Tensor,
    key_bias: Tensor | None,
    value_weight: Tensor,
    value_bias: Tensor | None,
    saliency: Tensor,
    u1_weight: Tensor,
    u1_bias: Tensor | None,
    u2_weight: Tensor,
    u2_bias: Tensor | None,
) -> list[Tensor]:
    """Products of key_only_layer's parameters, for its `folded`: to be made once, when the weights are final."""
    return _ops.fold_key_only_weights(
        key_weight,
        key_bias,
        value_weight,
        value_bias,
        saliency,
        u1_weight,
        u1_bias,
        u2_weight,
        u2_bias,
    )


def rp_cpe(x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """Residual parallel conditional positional encoding: x + the sum of 3x3 depth-wise branches, as one convolution.

    x [B, C, height, width] (channels-last is fastest), weights [branches, C, 3, 3], biases [branches, C].
    Paper: LinGlo, section 3.2.
    """
    return _ops.rp_cpe(x, weights, biases)


def nms(boxes: Tensor, scores: Tensor, iou: float) -> Tensor:
    """Indices of the boxes that non-maximum suppression keeps, by descending score; torchvision.ops.nms' answer.

    boxes [N, 4] as x1, y1, x2, y2; scores [N].
    """
    return _ops.nms(boxes, scores, iou)


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    h: int,
    w: int,
    sampling: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Pools each region to h x w by bilinear sampling; torchvision.ops.roi_align's answer.

    input [B, C, H, W], rois [K, 5] as image index, x1, y1, x2, y2; sampling <= 0: as many samples as pixels.
    """
    return _ops.roi_align(input, rois, spatial_scale, h, w, sampling, aligned)


def dense_attention_map(
    query: Tensor,
    key: Tensor,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The weights [B, H, Nq, Nk] that dense_attention gives, from its reference, in fp32."""
    return _ops.dense_attention_map(query, key, scale, bias)


def knn_attention_map(
    query: Tensor,
    key: Tensor,
    topk: int,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The weights [B, H, Nq, Nk] that knn_attention gives, from its reference, in fp32."""
    return _ops.knn_attention_map(query, key, topk, scale, bias)


def knn_attention_exact_map(
    query: Tensor,
    key: Tensor,
    topk: int,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The weights [B, H, Nq, Nk] that knn_attention_exact gives, from its reference, in fp32."""
    return _ops.knn_attention_exact_map(query, key, topk, scale, bias)


def static_key_attention_map(
    query: Tensor,
    static_key: Tensor,
    activation: str = "softmax",
    scale: float | None = None,
    activation_scale: float = 1.0,
    activation_bias: float = 0.0,
) -> Tensor:
    """The weights [B, H, Nq, keys] that static_key_attention gives, from its reference, in fp32."""
    return _ops.static_key_attention_map(
        query, static_key, activation, scale, activation_scale, activation_bias
    )


def conv_static_key_attention_map(
    query: Tensor,
    grid: Sequence[int],
    weight: Tensor,
    bias: Tensor | None = None,
    cls_key: Tensor | None = None,
    activation: str = "softmax",
    scale: float | None = None,
    activation_scale: float = 1.0,
    activation_bias: float = 0.0,
) -> Tensor:
    """The weights [B, H, N, N] that conv_static_key_attention gives, from its reference, in fp32."""
    return _ops.conv_static_key_attention_map(
        query,
        list(grid),
        weight,
        bias,
        cls_key,
        activation,
        scale,
        activation_scale,
        activation_bias,
    )


def window_attention_map(
    query: Tensor,
    key: Tensor,
    window: Sequence[int],
    shift: Sequence[int] = (0, 0),
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The weights [B, H, height*width, height*width] that window_attention gives, zero outside the windows."""
    return _ops.window_attention_map(query, key, list(window), list(shift), scale, bias)


def criss_cross_attention_map(
    query: Tensor, key: Tensor, scale: float | None = None
) -> Tensor:
    """The weights [B, H, height*width, height*width] that criss_cross_attention gives."""
    return _ops.criss_cross_attention_map(query, key, scale)


def axial_window_attention_map(
    query: Tensor,
    key: Tensor,
    window: int,
    shift: int = 0,
    scale: float | None = None,
    bias_rows: Tensor | None = None,
    bias_columns: Tensor | None = None,
    bias_window: Tensor | None = None,
    pad_key: Tensor | None = None,
) -> Tensor:
    """The weights [B, H, height*width, height*width] that axial_window_attention gives to real places."""
    return _ops.axial_window_attention_map(
        query,
        key,
        window,
        shift,
        scale,
        bias_rows,
        bias_columns,
        bias_window,
        pad_key,
    )


def token_cosine_similarity(tokens: Tensor) -> Tensor:
    """The mean cosine between different tokens [B, N, C], one number per image. KVT, section 4.5."""
    return _ops.token_cosine_similarity(tokens)


def attention_standard_deviation(weights: Tensor) -> Tensor:
    """The standard deviation of each query's weights, mean over queries and heads: a map to [B]. KVT, section 4.5."""
    return _ops.attention_standard_deviation(weights)


def residual_norm_ratio(branch: Tensor, main: Tensor) -> Tensor:
    """The mean over tokens of ||branch|| / ||main||, both [B, N, C]: [B]. KVT, section 4.5."""
    return _ops.residual_norm_ratio(branch, main)


def nonlocality(weights: Tensor, grid: Sequence[int], prefix_tokens: int = 0) -> Tensor:
    """How far each head looks, in patches: a map over prefix tokens and a grid to [B, heads]. KVT, section 4.5."""
    return _ops.nonlocality(weights, list(grid), prefix_tokens)
