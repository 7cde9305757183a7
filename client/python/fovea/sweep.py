"""How costs grow, as a server measured it and fovea.client gives it.

    sweep = client.sweep("deit_tiny", "resolution", [128, 192, 256, 384], attentions=["dense", "knn:k=100"])
    sweep                            # curves and a table, in a notebook; printed a table
    sweep.curves[0].compute_exponent # how the time of a batch grows with the pixels
    sweep.to_frame()                 # pandas: a row for each point
    sweep.to_json()                  # as POST /v1/sweep answers it, and Sweep.from_json reads it

An open end of an interval is "Infinity" or "-Infinity" in to_json() and in what `fovea sweep --json` prints, null over HTTP;
from_json reads both. Times are in milliseconds of a batch. Every field has the name that proto/fovea/v1/comparison.proto gives
it, which says more.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from fovea import sweep_text, tables
from fovea.estimates import (
    Estimate,
    Provenance,
    Quartiles,
    estimate_of,
    provenance_of,
    quartiles_in,
    quartiles_of,
)
from fovea.message_json import message_in, with_named_infinity, without_none
from fovea.v1 import comparison_pb2

if TYPE_CHECKING:
    import pandas


@dataclasses.dataclass(frozen=True)
class SweptPoint:
    """A curve at a value."""

    failure: str  # why it was not measured; what follows is empty then
    attention: str  # canonical text
    compute_ms: Quartiles
    compute_estimate_ms: Estimate | None  # None: fewer than 20 rounds
    # Of compute, what attention alone takes, without the projections around it; None: the model has no attention, or
    # what was measured contradicts compute, and attention_left_out says so.
    attention_ms: Quartiles | None
    attention_left_out: bool
    images_per_second: float
    peak_bytes: int  # of a batch's tensors, without the weights
    weight_bytes: int
    multiply_adds: int  # of one image; 0: not counted


@dataclasses.dataclass(frozen=True)
class FittedExponent:
    """Of cost = factor * place ** exponent."""

    exponent: Estimate  # the interval tells the noise of the rounds alone; of fewer than 20 it is -inf to inf
    points: int  # that it was fitted to
    worst_ratio: float  # by which a point lies above or below the line, at least 1


@dataclasses.dataclass(frozen=True)
class SweptCurve:
    model_name: str
    model_version: str
    backbone: str
    attention: str  # as it was asked for; of none the model's own, or "knn" over k
    # The attention that the weights are served with, where it is another one: same weights, not fine-tuned. Else empty.
    weights_of_attention: str
    untrained: bool  # the weights are random numbers
    points: list[SweptPoint]  # of each value
    # None: fewer than three points were measured, or costs do not grow with the axis.
    compute_exponent: FittedExponent | None
    attention_exponent: FittedExponent | None
    peak_exponent: FittedExponent | None


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A curve for each variant. A notebook shows it as plots and a table."""

    id: str
    over: str  # "RESOLUTION", "BATCH", "K", "TEMPERATURE", "HEADS", "THREADS" or "PRECISION"
    values: list[str]
    # Of each value, what exponents are of; of resolutions the pixels. Empty: values that are no numbers.
    places: list[float]
    curves: list[SweptCurve]
    rounds: int  # 0: no point could be measured
    batch_size: int
    threads: int
    device: str
    measured: (
        Provenance | None
    )  # None: no point could be measured, or the server does not say

    def to_dict(self) -> dict[str, Any]:
        """As POST /v1/sweep answers it: the proto's names; what is absent is left out.

        An open end of an interval is the number infinity or minus infinity, where HTTP writes null.
        """
        found: dict[str, Any] = without_none(dataclasses.asdict(self))
        for curve in found["curves"]:
            curve["points"] = [
                {"failure": one["failure"]} if one["failure"] else one
                for one in curve["points"]
            ]
        return found

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(with_named_infinity(self.to_dict()), indent=indent)

    @staticmethod
    def from_json(text: str) -> Sweep:
        """What to_json wrote, a server answered, or `fovea sweep --json` printed. ValueError: it is something else."""
        empty = comparison_pb2.Sweep()
        return sweep_of(message_in(text, empty, "sweep", holding="curves"))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each point, with its curve's fields; numbers in nested fields are columns named FIELD_PART.

        The column `curve` is the curve's attention, `attention` the point's. What a point or a curve does not have is missing
        (NaN). The columns have the names of `fovea sweep --csv`. `attrs` has what all points share besides where they were
        measured. ImportError: pandas is missing.
        """
        import pandas

        whole = self.to_dict()
        values, places = whole.pop("values"), whole.pop("places")
        measured = tables.flat({"measured": whole.pop("measured", {})})
        rows = []
        for curve in whole.pop("curves"):
            points = curve.pop("points")
            shared = {"curve": curve.pop("attention")} | tables.flat(curve)
            for number, point in enumerate(points):
                place = {"value": values[number]}
                if places:
                    place["place"] = places[number]
                rows.append(shared | place | tables.flat(point) | measured)
        frame = pandas.DataFrame(rows)
        frame.attrs.update(whole)
        return frame

    def __str__(self) -> str:
        return sweep_text.plain(self)

    def _repr_html_(self) -> str:
        return sweep_text.html(self)


def sweep_of(message: Any) -> Sweep:
    """message: the proto's Sweep."""
    axes = comparison_pb2.SweepRequest.Axis
    return Sweep(
        id=message.id,
        # Of a server that is newer than this client the axis may be one without a name.
        over=axes.Name(message.over) if message.over in axes.values() else "",
        values=list(message.values),
        places=list(message.places),
        curves=[_curve_of(one) for one in message.curves],
        rounds=message.rounds,
        batch_size=message.batch_size,
        threads=message.threads,
        device=message.device,
        measured=provenance_of(message),
    )


def _curve_of(message: Any) -> SweptCurve:
    return SweptCurve(
        model_name=message.model_name,
        model_version=message.model_version,
        backbone=message.backbone,
        attention=message.attention,
        weights_of_attention=message.weights_of_attention,
        untrained=message.untrained,
        points=[_point_of(one) for one in message.points],
        compute_exponent=_exponent_of(message, "compute_exponent"),
        attention_exponent=_exponent_of(message, "attention_exponent"),
        peak_exponent=_exponent_of(message, "peak_exponent"),
    )


def _point_of(message: Any) -> SweptPoint:
    return SweptPoint(
        failure=message.failure,
        attention=message.attention,
        compute_ms=quartiles_of(message.compute_ms),
        compute_estimate_ms=estimate_of(message, "compute_estimate_ms"),
        attention_ms=quartiles_in(message, "attention_ms"),
        attention_left_out=message.attention_left_out,
        images_per_second=message.images_per_second,
        peak_bytes=message.peak_bytes,
        weight_bytes=message.weight_bytes,
        multiply_adds=message.multiply_adds,
    )


def _exponent_of(message: Any, name: str) -> FittedExponent | None:
    if not message.HasField(name):
        return None
    found = getattr(message, name)
    exponent = estimate_of(found, "exponent") or Estimate(0, 0, 0)
    return FittedExponent(exponent, found.points, found.worst_ratio)
