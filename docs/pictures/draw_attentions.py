"""Draws which places each attention looks at: docs/pictures/attentions/*.png.

After `make build`, with what `deploy/setup/setup.sh bench` installs, from the checkout:

    .venv/bin/python docs/pictures/draw_attentions.py            # all
    .venv/bin/python docs/pictures/draw_attentions.py knn aewin  # these

The picture is client/examples/heart.jpg. Queries, keys and biases are those of the bundled models, in the second block of
frame_dense, frame_aewin, frame_cska and frame_conv (8x8 patches, four heads). key_only is segmenter_key_only's, of a scene. The weights
are the operators' own; each page says which model its picture shows.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Callable

import matplotlib as mpl
import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))
from fovea import ops

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

DEMO = ROOT / "model_zoo" / "demo"
PICTURE = ROOT / "client" / "examples" / "heart.jpg"
OTHERS = ("star.jpg", "arrow.jpg", "crescent.jpg", "ring.jpg", "cross.png")
SIDE = 8  # patches
HEADS = 4
WINDOW = 4  # of demo_frame_64
SCENE = PICTURE.parent / "scenes" / "scene_1.jpg"
QUERY = (3, 2)  # row, column: on the heart
KEPT = 16  # of the 64 keys
Panel = tuple[str, torch.Tensor]  # a title, and the weights of the query: [SIDE * SIDE]


def pixels(
    picture: pathlib.Path, side: int, mean: float = 0.5, std: float = 0.5
) -> torch.Tensor:
    with Image.open(picture) as image:
        square = min(image.size)
        left, top = ((length - square) // 2 for length in image.size)
        image = image.convert("RGB").crop((left, top, left + square, top + square))
        values = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))
    return ((torch.tensor(values).permute(2, 0, 1)[None] / 255 - mean) / std).float()


class Frame:
    """The second block of a bundled frame, and what stands before it."""

    def __init__(self, name: str, attention: str):
        file = DEMO / name / "1" / "model.safetensors"
        self.weights = load_file(file)
        description = {
            "backbone": "demo_frame_64",
            "attention": attention,
            "num_classes": 10,
            "weights": str(file),
        }
        self.model = torch.classes.fovea_models.Model(
            json.dumps(description), "cpu", False
        )

    def tokens(self, picture: pathlib.Path) -> torch.Tensor:
        before = self.model.records(pixels(picture, 64))["blocks.0.output"]
        return torch.nn.functional.layer_norm(
            before,
            before.shape[-1:],
            self.of("norm1.weight"),
            self.of("norm1.bias"),
            1e-6,
        )

    def of(self, name: str) -> torch.Tensor:
        return self.weights[f"blocks.1.{name}"].float()

    def projected(self, picture: pathlib.Path) -> tuple[torch.Tensor, ...]:
        """query, key, value [1, HEADS, tokens, D]."""
        qkv = torch.nn.functional.linear(
            self.tokens(picture), self.of("attn.qkv.weight"), self.of("attn.qkv.bias")
        )
        return tuple(qkv.unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4))


def place(at: tuple[int, int] = QUERY) -> int:
    return at[0] * SIDE + at[1]


def mean_of_heads(weights: torch.Tensor, heads: slice = slice(None)) -> torch.Tensor:
    return weights[0, heads, place()].mean(0)


def as_map(tokens: torch.Tensor) -> torch.Tensor:
    return tokens.unflatten(2, (SIDE, SIDE))


def from_identity(
    attend: Callable[..., torch.Tensor], query: torch.Tensor, key: torch.Tensor
) -> torch.Tensor:
    """The weights of an operator that has no map of its own: what it gives for the identity in place of values."""
    count = SIDE * SIDE
    wide = [
        torch.nn.functional.pad(one, (0, count - one.shape[-1])) for one in (query, key)
    ]
    value = torch.eye(count).expand(1, HEADS, count, count)
    scale = 1 / math.sqrt(query.shape[-1])
    return attend(*map(as_map, (*wide, value)), scale=scale).flatten(2, 3)


def dense(frame: Frame) -> list[Panel]:
    query, key, _ = frame.projected(PICTURE)
    weights = ops.dense_attention_map(query, key)
    return [(f"head {head + 1}", weights[0, head, place()]) for head in range(3)]


def knn(frame: Frame) -> list[Panel]:
    query, key, _ = frame.projected(PICTURE)
    return [
        ("dense", ops.dense_attention_map(query, key)[0, 0, place()]),
        (f"knn:k={KEPT}", ops.knn_attention_map(query, key, topk=KEPT)[0, 0, place()]),
        (
            f"knn:k={KEPT},exact",
            ops.knn_attention_exact_map(query, key, topk=KEPT)[0, 0, place()],
        ),
    ]


def shifted_window(frame: Frame) -> list[Panel]:
    query, key, _ = map(as_map, frame.projected(PICTURE))
    return [
        (
            f"{words} block",
            mean_of_heads(
                ops.window_attention_map(query, key, (WINDOW, WINDOW), (shift, shift))
            ),
        )
        for words, shift in (("every first", 0), ("every second", WINDOW // 2))
    ]


def axial(frame: Frame) -> list[Panel]:
    query, key, _ = map(as_map, frame.projected(PICTURE))
    rows = ops.window_attention_map(query, key, (1, SIDE), (0, 0))
    columns = ops.window_attention_map(query, key, (SIDE, 1), (0, 0))
    return [
        ("rows gather", mean_of_heads(rows)),
        ("columns of that", mean_of_heads(columns)),
        ("together", mean_of_heads(columns @ rows)),
    ]


def criss_cross(frame: Frame) -> list[Panel]:
    query, key, _ = map(as_map, frame.projected(PICTURE))
    return [("all heads", mean_of_heads(ops.criss_cross_attention_map(query, key)))]


def striped(attend: Callable[..., torch.Tensor], frame: Frame) -> list[Panel]:
    query, key, _ = frame.projected(PICTURE)
    weights = from_identity(attend, query, key)
    return [
        ("first half of the heads", mean_of_heads(weights, slice(0, HEADS // 2))),
        ("second half", mean_of_heads(weights, slice(HEADS // 2, None))),
    ]


def cross_shaped(frame: Frame) -> list[Panel]:
    return striped(
        lambda q, k, v, scale: ops.cross_shaped_window_attention(
            q, k, v, 2, scale=scale
        ),
        frame,
    )


def pale(frame: Frame) -> list[Panel]:
    return striped(
        lambda q, k, v, scale: ops.pale_attention(q, k, v, (2, 2), scale=scale), frame
    )


def distances(side: int) -> torch.Tensor:
    """Of the tokens of a row of `side`, in the table of relative positions: [side, side]."""
    at = torch.arange(side)
    return at[:, None] - at[None] + side - 1


def aewin(frame: Frame) -> list[Panel]:
    query, key, _ = map(as_map, frame.projected(PICTURE))

    def bias(name: str, index: torch.Tensor) -> torch.Tensor:
        return frame.of(f"attn.{name}")[index].permute(2, 0, 1).contiguous()

    row = torch.arange(WINDOW * WINDOW)
    down = distances(WINDOW)[row // WINDOW][:, row // WINDOW]
    across = distances(WINDOW)[row % WINDOW][:, row % WINDOW]
    weights = ops.axial_window_attention_map(
        query,
        key,
        WINDOW,
        WINDOW // 2,  # the second block's
        bias_rows=bias("bias_rows", distances(SIDE)),
        bias_columns=bias("bias_columns", distances(SIDE)),
        bias_window=bias("bias_window", down * (2 * WINDOW - 1) + across),
    )
    return [
        ("a quarter: rows", mean_of_heads(weights, slice(0, 1))),
        ("a quarter: columns", mean_of_heads(weights, slice(1, 2))),
        ("half: windows", mean_of_heads(weights, slice(2, 4))),
    ]


def ska(frame: Frame) -> list[Panel]:
    query, _, _ = frame.projected(PICTURE)
    folder = PICTURE.parent
    keys = torch.cat([frame.projected(folder / name)[1] for name in OTHERS])
    weights = ops.static_key_attention_map(query, keys.mean(0))
    return [(f"head {head + 1}", weights[0, head, place()]) for head in range(3)]


def cska(frame: Frame) -> list[Panel]:
    qv = torch.nn.functional.linear(
        frame.tokens(PICTURE), frame.of("attn.to_qv.weight")
    )
    query = qv.unflatten(2, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)[0]
    weights = ops.conv_static_key_attention_map(
        query, (SIDE, SIDE), frame.of("attn.to_k.weight"), frame.of("attn.to_k.bias")
    )
    return [(f"head {head + 1}", weights[0, head, place()]) for head in range(3)]


def conv(frame: Frame) -> list[Panel]:
    """How much the kernel of a channel weighs each neighbour: the same for every picture."""
    kernels = frame.of("attn.dwconv.weight")[:3, 0].abs()
    reach = kernels.shape[-1] // 2
    row, column = QUERY
    panels = []
    for channel, kernel in enumerate(kernels):
        wide = torch.zeros(SIDE + 2 * reach, SIDE + 2 * reach)
        wide[row : row + 2 * reach + 1, column : column + 2 * reach + 1] = kernel
        panels.append(
            (f"channel {channel + 1}", wide[reach:-reach, reach:-reach].flatten())
        )
    return panels


def key_only() -> list[Panel]:
    """Of the second block of the segmenter's second stage, 16 x 16 places: one map for all queries."""
    file = DEMO / "segmenter_key_only" / "1" / "model.safetensors"
    weights = load_file(file)
    description = {
        "backbone": "linglo_demo",
        "attention": "key_only",
        "head": "semantic_fpn",
        "task": "SEGMENTATION",
        "head_channels": 80,
        "num_classes": 7,
        "image_height": 128,
        "image_width": 128,
        "weights": str(file),
    }
    model = torch.classes.fovea_models.Model(json.dumps(description), "cpu", False)
    mean, std = (
        torch.tensor(three).view(1, 3, 1, 1)
        for three in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    records = model.records((pixels(SCENE, 128, 0, 1) - mean) / std)
    before = records["stages.1.blocks.0.output"]
    stage = "backbone.stages.1.blocks.1."
    normed = torch.nn.functional.layer_norm(
        before,
        before.shape[-1:],
        weights[stage + "norm1.weight"].float(),
        weights[stage + "norm1.bias"].float(),
        1e-6,
    )
    key = torch.nn.functional.linear(
        normed,
        weights[stage + "attn.k.weight"].float(),
        weights[stage + "attn.k.bias"].float(),
    )
    saliency = weights[stage + "attn.saliency"].float()
    heads, width = saliency.shape
    logits = (key.unflatten(2, (heads, width)) * saliency).sum(3) / math.sqrt(width)
    shown = logits.softmax(1)[0].T  # [heads, tokens]
    return [(f"head {head + 1}", shown[head]) for head in range(3)]


def draw(
    name: str,
    panels: list[Panel],
    source: pathlib.Path = PICTURE,
    query: bool = True,
) -> None:
    """The picture with the query's place, then how much the query takes of each place."""
    with Image.open(source) as image:
        picture = np.asarray(image.convert("RGB")) / 255
    grey = picture.mean(2, keepdims=True).repeat(3, 2) * 0.5 + 0.5
    side = picture.shape[0]
    figure, axes = plt.subplots(
        1, 1 + len(panels), figsize=(2.3 * (1 + len(panels)), 2.6), dpi=110
    )
    outline = {"fill": False, "edgecolor": "#0b6fb8", "linewidth": 2.2}

    def mark(axis: plt.Axes) -> None:
        patch = side / SIDE
        if query:
            axis.add_patch(
                Rectangle((QUERY[1] * patch, QUERY[0] * patch), patch, patch, **outline)
            )
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set_color("#999999")

    axes[0].imshow(picture)
    axes[0].set_title("query" if query else "picture", fontsize=9)
    mark(axes[0])
    for axis, (title, weights) in zip(axes[1:], panels, strict=True):
        tokens = math.isqrt(weights.numel())
        shown = weights.reshape(tokens, tokens).numpy()
        attended = shown > 0
        strength = np.sqrt(np.where(attended, shown, 0) / shown.max())
        scale = side // tokens
        strength, attended = (
            one.repeat(scale, 0).repeat(scale, 1) for one in (strength, attended)
        )
        ground = np.where(attended[..., None], grey, 1 - (1 - grey) * 0.25)
        colour = np.array([0.85, 0.33, 0.05])
        share = np.where(attended, 0.12 + 0.83 * strength, 0)[..., None]
        axis.imshow(ground * (1 - share) + colour * share)
        axis.set_title(title, fontsize=9)
        mark(axis)
    figure.tight_layout(pad=0.4)
    out = ROOT / "docs" / "pictures" / "attentions" / f"{name}.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(
        out, metadata={"Software": None}, bbox_inches="tight", pad_inches=0.05
    )
    plt.close(figure)
    with Image.open(out) as drawn:  # few colours: a palette takes a third of the bytes
        drawn.convert("RGB").quantize(128).save(out, optimize=True)


OF_FRAME_DENSE = {
    "dense": dense,
    "knn": knn,
    "shifted_window": shifted_window,
    "axial": axial,
    "criss_cross": criss_cross,
    "cross_shaped": cross_shaped,
    "pale": pale,
    "ska": ska,
}


def main() -> None:
    names = [*OF_FRAME_DENSE, "aewin", "cska", "conv", "key_only"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", help=", ".join(names))
    chosen = parser.parse_args().name or names
    torch.ops.load_library(
        str(ROOT / "build" / "release" / "lib" / "libfovea_models.so")
    )
    with torch.no_grad():
        frame = Frame("frame_dense", "dense")
        for name in chosen:
            if name in OF_FRAME_DENSE:
                draw(name, OF_FRAME_DENSE[name](frame))
            elif name == "key_only":
                draw(name, key_only(), SCENE, query=False)
            else:
                panels = {"aewin": aewin, "cska": cska, "conv": conv}[name]
                draw(name, panels(Frame(f"frame_{name}", name)))


if __name__ == "__main__":
    main()
