"""Which of Fovea's architectures a configuration of transformers' describes."""

from dataclasses import dataclass, field
from typing import Any

from fovea.published.model import PublishedError, UnknownModel


@dataclass(frozen=True)
class Architecture:
    model: str  # transformers' class
    config: str  # the class of its configuration
    differs: dict[str, Any] = field(default_factory=dict)  # from that class's defaults
    backbone: str | None = None  # Fovea's, where a head stands on it


ANY_VIT = "vit"  # Fovea's backbone that takes its sizes from the description


def _vit(model: str, config: str, width: int, heads: int) -> Architecture:
    return Architecture(
        model,
        config,
        {
            "hidden_size": width,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
        },
    )


# A folder's architecture is named after the first that fits.
_SIZES = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}
_SWIN_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "base": {
        "embed_dim": 128,
        "depths": [2, 2, 18, 2],
        "num_heads": [4, 8, 16, 32],
    },
}
# The DeiT that Trainer trains: with the teacher's token, but without a classifier that reads it.
WITHOUT_TEACHER = "DeiTForImageClassification"
ARCHITECTURES = {
    **{
        f"{paper}_{size}_patch16_224": _vit(
            "ViTForImageClassification", "ViTConfig", *shape
        )
        for paper in ("vit", "deit")
        for size, shape in _SIZES.items()
    },
    **{
        f"deit_{size}_distilled_patch16_224": _vit(
            "DeiTForImageClassificationWithTeacher", "DeiTConfig", *shape
        )
        for size, shape in _SIZES.items()
    },
    **{
        f"vit_{size}_patch16_224.dino": _vit("ViTModel", "ViTConfig", *_SIZES[size])
        for size in ("small", "base")
    },
    **{
        f"swin_{size}_patch4_window7_224": Architecture(
            "SwinForImageClassification", "SwinConfig", differs
        )
        for size, differs in _SWIN_SIZES.items()
    },
    "cvt_13": Architecture("CvtForImageClassification", "CvtConfig", {}),
    # Settings of the Swin under the head.
    **{
        f"upernet_swin_{size}": Architecture(
            "UperNetForSemanticSegmentation",
            "SwinConfig",
            {**differs, "out_features": [f"stage{i}" for i in range(1, 5)]},
            backbone=f"swin_{size}_patch4_window7_224",
        )
        for size, differs in _SWIN_SIZES.items()
    },
    # After the published ones, whose names say more.
    ANY_VIT: Architecture("ViTForImageClassification", "ViTConfig"),
}
# Classes accepted besides an architecture's own.
_ALSO = {f"deit_{size}_distilled_patch16_224": WITHOUT_TEACHER for size in _SIZES}

# Settings that change what is computed.
_DECISIVE = {
    # ViT, DeiT
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "qkv_bias",
    # ViT, DeiT, Swin
    "image_size",
    "patch_size",
    "num_channels",
    # Swin
    "embed_dim",
    "depths",
    "num_heads",
    "window_size",
    "mlp_ratio",
    "use_absolute_embeddings",
    # CvT
    "depth",
    "patch_sizes",
    "patch_stride",
    "patch_padding",
    "cls_token",
    "qkv_projection_method",
    "kernel_qkv",
    "padding_kv",
    "stride_kv",
    "padding_q",
    "stride_q",
}
# Settings that Fovea's "vit" takes from the description.
_FREE = {
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "image_size",
    "patch_size",
}
_UPERNET = {"hidden_size": 512, "pool_scales": [1, 2, 3, 6]}
# Fovea's epsilons of layer norms are timm's. transformers' own default for ViT, 1e-12, gives the same numbers.
_EPSILONS = {"vit": 1e-6, "deit": 1e-6, "swin": 1e-5}
_EPSILON_TOLERANCE = 1e-5


def class_of(config: Any) -> str:
    return str((config.architectures or [f"a {config.model_type}"])[0])


def find(name: str, config: Any) -> str:
    """The key in ARCHITECTURES. UnknownModel: there is none, and what differs from the nearest."""
    found = {key: differences(config, key) for key in ARCHITECTURES}
    fitting = [key for key, differs in found.items() if differs == []]
    if fitting:
        return fitting[0]
    kind = class_of(config)
    near = {key: differs for key, differs in found.items() if differs is not None}
    if not near:
        taken = dict.fromkeys(
            [*(one.model for one in ARCHITECTURES.values()), *_ALSO.values()]
        )
        raise UnknownModel(
            f"{name} holds {kind}, which Fovea does not have. It takes {', '.join(taken)}"
        )
    key = min(near, key=lambda key: len(near[key]))
    raise UnknownModel(
        f"{name} holds {kind} with {', '.join(near[key])}: the nearest that Fovea has is {_described(key)}"
    )


def check(name: str, config: Any, key: str) -> None:
    """Raises PublishedError where `config` is another model than the known ARCHITECTURES[key]."""
    differs = differences(config, key)
    if differs != []:
        what = f" with {', '.join(differs)}" if differs else ""
        raise PublishedError(f"{name} holds {class_of(config)}{what}, and not {key}")


def _described(key: str) -> str:
    return "a ViT of any size (vit)" if key == ANY_VIT else key


def differences(config: Any, key: str) -> list[str] | None:
    """The decisive settings that differ, in words; None for a model of another class."""
    import transformers

    architecture = ARCHITECTURES[key]
    if class_of(config) not in (architecture.model, _ALSO.get(key)):
        return None
    kind = getattr(transformers, architecture.config)
    expected = kind(**architecture.differs).to_dict()
    given, decisive = config.to_dict(), _DECISIVE
    found = []
    if architecture.backbone:
        found += _unequal(given, _UPERNET, _UPERNET)
        # Windows are of one size whatever the image's.
        given = given.get("backbone_config") or {}
        decisive = _DECISIVE - {"image_size"} | {"out_features"}
    if key == ANY_VIT:
        decisive = _DECISIVE - _FREE
        found += _impossible(given)
    if given.get("model_type") != expected["model_type"]:
        return [f"a {given.get('model_type')} behind it (not {expected['model_type']})"]
    found += _unequal(given, expected, [key for key in expected if key in decisive])
    epsilon = _EPSILONS.get(given["model_type"])
    own = given.get("layer_norm_eps")
    if epsilon and own is not None and abs(own - epsilon) > _EPSILON_TOLERANCE:
        found.append(f"layer_norm_eps {own} (not {epsilon})")
    return found


def _unequal(given: dict[str, Any], expected: dict[str, Any], keys: Any) -> list[str]:
    return [
        f"{key} {given.get(key)} (not {expected[key]})"
        for key in keys
        if given.get(key) != expected[key]
    ]


def _impossible(given: dict[str, Any]) -> list[str]:
    """What is wrong with a ViT's sizes, in words."""
    side, patch = given.get("image_size"), given.get("patch_size")
    if not isinstance(side, int) or not isinstance(patch, int):
        return [f"image_size {side} and patch_size {patch} (not one number each)"]
    if side % patch:
        return [f"image_size {side} (no multiple of patch_size {patch})"]
    return []
