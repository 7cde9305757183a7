"""What transformers' image processors do, as Fovea's preprocessing. Raises PublishedError where Fovea has no such one."""

from typing import Any

from fovea.model_folder import Preprocessing
from fovea.published.model import PublishedError

_INTERPOLATIONS = {2: "BILINEAR", 3: "BICUBIC"}  # Pillow's numbers
_PADDED = (
    "Fovea lays a picture into the upper left corner of the smallest of the model's sizes that holds it, and the rest is "
    "zeros; transformers runs it at its own size. What the model pools over the picture differs with it."
)


def of_classifier(config: dict[str, Any]) -> tuple[Preprocessing, int]:
    """And how many pixels a side it gives."""
    size, crop = config.get("size") or {}, config.get("crop_size") or {}
    mode = "SHORTEST_EDGE" if "shortest_edge" in size else "SQUASH"
    resized: int | None = size.get("shortest_edge", size.get("height"))
    side: int | None = crop.get("height") if config.get("do_center_crop") else resized
    fraction: float | None = None
    if resized and side:
        fraction = config.get("crop_pct") or side / resized
    # ConvNext's, which CvT has: it cuts nothing off from 384 pixels on.
    if config.get("crop_pct") and resized is not None and resized >= 384:
        mode, fraction = "SQUASH", 1.0
    known = (
        _is_usual(config)
        and set(size) in ({"shortest_edge"}, {"height", "width"})
        and size.get("height") == size.get("width")
        and crop.get("height") == crop.get("width")
        and fraction is not None
        and fraction <= 1
    )
    if not known or side is None:
        raise _no_such(config)
    preprocessing = Preprocessing(
        resize_mode=mode,
        interpolation=_INTERPOLATIONS[config["resample"]],
        crop_fraction=fraction,
        mean=tuple(config["image_mean"]),
        std=tuple(config["image_std"]),
    )
    return preprocessing, side


def of_segmenter(
    config: dict[str, Any],
) -> tuple[Preprocessing, tuple[int, int] | None, list[str]]:
    """And the height and width that it gives, None where they follow from the picture; and what differs in Fovea."""
    size = config.get("size") or {}
    sides: tuple[Any, Any] = size.get("shortest_edge"), size.get("longest_edge")
    squashes, fits = set(size) == {"height", "width"}, all(sides)
    crops = config.get("do_center_crop") or config.get("crop_pct")
    if not _is_usual(config) or crops or not (squashes or fits):
        raise _no_such(config)
    preprocessing = Preprocessing(
        resize_mode="SQUASH" if squashes else "FIT",
        interpolation=_INTERPOLATIONS[config["resample"]],
        crop_fraction=1.0 if squashes else None,
        mean=tuple(config["image_mean"]),
        std=tuple(config["image_std"]),
        sides=None if squashes else sides,
    )
    if squashes:
        return preprocessing, (size["height"], size["width"]), []
    return preprocessing, None, [_PADDED]


def _is_usual(config: dict[str, Any]) -> bool:
    """Resizes, then normalises numbers from 0 to 1."""
    return (
        all(config.get(key) for key in ("do_resize", "do_rescale", "do_normalize"))
        and config.get("resample") in _INTERPOLATIONS
        and abs(255 * config.get("rescale_factor", 0) - 1) < 1e-3
    )


def _no_such(config: dict[str, Any]) -> PublishedError:
    given = {key: config[key] for key in sorted(config) if not key.startswith("image_")}
    return PublishedError(
        f"Fovea has no such preprocessing as this model was published with: {given}"
    )
