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
    if set(size) not in ({"shortest_edge"}, {"height", "width"}):
        raise _no_such("size", size)
    if size.get("height") != size.get("width"):
        raise _no_such("size", size)
    if crop.get("height") != crop.get("width"):
        raise _no_such("crop_size", crop)
    if side is None or fraction is None or fraction > 1:
        raise _no_such("crop_size", crop)
    mean, std = _normalisation(config)
    preprocessing = Preprocessing(
        resize_mode=mode,
        interpolation=_interpolation(config),
        crop_fraction=fraction,
        mean=mean,
        std=std,
        crop_offset="FLOOR" if fraction < 1 or mode == "SHORTEST_EDGE" else None,
    )
    return preprocessing, side


def of_segmenter(
    config: dict[str, Any],
) -> tuple[Preprocessing, tuple[int, int] | None, list[str]]:
    """And the height and width that it gives, None where they follow from the picture; and what differs in Fovea."""
    size = config.get("size") or {}
    sides: tuple[Any, Any] = size.get("shortest_edge"), size.get("longest_edge")
    squashes, fits = set(size) == {"height", "width"}, all(sides)
    for key in ("do_center_crop", "crop_pct"):
        if config.get(key):
            raise _no_such(key, config[key])
    if not (squashes or fits):
        raise _no_such("size", size)
    mean, std = _normalisation(config)
    preprocessing = Preprocessing(
        resize_mode="SQUASH" if squashes else "FIT",
        interpolation=_interpolation(config),
        crop_fraction=1.0 if squashes else None,
        mean=mean,
        std=std,
        sides=None if squashes else sides,
    )
    if squashes:
        return preprocessing, (size["height"], size["width"]), []
    return preprocessing, None, [_PADDED]


def _interpolation(config: dict[str, Any]) -> str:
    if not config.get("do_resize"):
        raise _no_such("do_resize", config.get("do_resize"))
    if config.get("resample") not in _INTERPOLATIONS:
        raise _no_such("resample", config.get("resample"))
    return _INTERPOLATIONS[config["resample"]]


Colours = tuple[float, float, float]


def _normalisation(config: dict[str, Any]) -> tuple[Colours, Colours]:
    """Mean and deviation for values from 0 to 1. Those of transformers are for 0 to 255, rescaled or not."""
    for key in ("rescale_offset", "offset"):
        if config.get(key):
            raise _no_such(key, config[key])
    most = (
        255 * config.get("rescale_factor", 1 / 255) if config.get("do_rescale") else 255
    )
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if config.get("do_normalize"):
        mean, std = _colours(config, "image_mean"), _colours(config, "image_std")
    if not most > 0 or not all(value > 0 for value in std):
        raise _no_such("rescale_factor", config.get("rescale_factor"))
    if abs(most - 1) < 1e-3:  # the factor is 1/255, as written in a file
        return mean, std
    return (
        (mean[0] / most, mean[1] / most, mean[2] / most),
        (std[0] / most, std[1] / most, std[2] / most),
    )


def _colours(config: dict[str, Any], key: str) -> Colours:
    given = config.get(key)
    if isinstance(given, int | float):
        return float(given), float(given), float(given)
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise _no_such(key, given)
    return float(given[0]), float(given[1]), float(given[2])


def _no_such(key: str, value: Any) -> PublishedError:
    return PublishedError(
        f"Fovea has no such preprocessing as this model was published with: {key} is {value}. It resizes pictures, "
        "bilinear or bicubic, to a square or by the shorter edge, and normalises them"
    )
