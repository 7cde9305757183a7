"""Vision transformers that were published in no such size: their sizes follow from the shapes of their weights."""

import re
from collections.abc import Collection
from pathlib import Path

import torch
from timm.models import VisionTransformer

from fovea.model_folder import Preprocessing, VitSizes
from fovea.published.checkpoint import Weights, check_fit, shape_of
from fovea.published.image_sizes import resized_note, trained_size
from fovea.published.model import PublishedError, PublishedModel, assumed_note

BACKBONE = "vit"
_CHANNELS_OF_A_HEAD = 64
# timm's of vision transformers that name no other.
_PREPROCESSING = Preprocessing(
    resize_mode="SHORTEST_EDGE",
    interpolation="BICUBIC",
    crop_fraction=0.9,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
)


def names() -> Collection[str]:
    """Names of the tensors that every size has."""
    sizes = VitSizes(depth=1, width=64, heads=1, patch_size=16, mlp_width=64)
    return _expected(sizes, (16, 16), 1).keys()


def of_weights(
    path: Path, weights: Weights, image_size: tuple[int, int] | None, heads: int | None
) -> PublishedModel:
    """timm's VisionTransformer with a class token and a classifier, as its weights say. Raises PublishedError."""
    width, channels, height, breadth = shape_of(
        path, weights, "patch_embed.proj.weight", 4
    )
    patch = (height, breadth)
    if channels != 3 or patch[0] != patch[1]:
        raise PublishedError(
            f"{path} cuts {channels} channels into patches of {patch[0]}x{patch[1]} pixels; "
            "vit takes three channels and square patches"
        )
    notes = []
    if heads is None:
        heads, rest = divmod(width, _CHANNELS_OF_A_HEAD)
        if rest:
            raise PublishedError(
                f"the width of {path} is {width}, which does not divide into heads of {_CHANNELS_OF_A_HEAD}: "
                "--heads says how many it has"
            )
        notes.append(
            f"The weights do not tell how many heads they have: taken to be {heads}, of {_CHANNELS_OF_A_HEAD} numbers "
            "each, as is usual. If they are others, --heads says so."
        )
    elif width % heads:
        raise PublishedError(
            f"the width of {path} is {width}, which does not divide into {heads} heads"
        )
    blocks = {
        int(match[1])
        for name in weights
        if (match := re.match(r"blocks\.(\d+)\.", name))
    }
    if blocks != set(range(len(blocks))):
        raise PublishedError(
            f"{path} has {len(blocks)} blocks, which are not numbered from 0 on"
        )
    sizes = VitSizes(
        depth=len(blocks),
        width=width,
        heads=heads,
        patch_size=patch[0],
        mlp_width=shape_of(path, weights, "blocks.0.mlp.fc1.weight", 2)[0],
    )
    classes = shape_of(path, weights, "head.weight", 2)[0]
    places = shape_of(path, weights, "pos_embed", 3)[1] - 1  # the class token has one
    trained = trained_size(path, places, patch, image_size)
    check_fit(
        str(path), weights, "vit in these sizes", _expected(sizes, trained, classes)
    )
    size = image_size or trained
    if size != trained:
        notes.append(resized_note(trained, size, patch))
    notes.append(
        "Preprocessing is not in the weights: it is that of timm's vision transformers "
        f"({describe(_PREPROCESSING)}). If yours is another, change it in model.textproto."
    )
    notes.append(assumed_note("timm's VisionTransformer (GELU, the class token, 1e-6)"))
    return PublishedModel(
        backbone=BACKBONE,
        weights=weights,
        num_classes=classes,
        preprocessing=_PREPROCESSING,
        image_size=size,
        labels=None,
        vit=sizes,
        sigmoid=classes == 1,
        notes=notes,
    )


def describe(preprocessing: Preprocessing) -> str:
    return ", ".join(preprocessing.to_lines())


def _expected(sizes: VitSizes, image: tuple[int, int], classes: int) -> Weights:
    with torch.device("meta"):
        model = VisionTransformer(
            img_size=image,
            patch_size=sizes.patch_size,
            embed_dim=sizes.width,
            depth=sizes.depth,
            num_heads=sizes.heads,
            # timm rounds the product down.
            mlp_ratio=(sizes.mlp_width + 0.5) / sizes.width,
            num_classes=classes,
        )
    return model.state_dict()
