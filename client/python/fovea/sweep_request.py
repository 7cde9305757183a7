"""What fovea.client asks of a sweep, and how its answers are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from fovea.comparison_request import microseconds
from fovea.errors import Error
from fovea.pictures import Picture, files_of
from fovea.progress import Progress, tell_progress
from fovea.sweep import Sweep, sweep_of
from fovea.v1 import comparison_pb2
from fovea.variant import Variant, messages_of, variants_of


class SweepOptions(TypedDict, total=False):
    """Of a call, by name; Client.sweep says what they mean."""

    attentions: Iterable[str]
    picture: Picture | None
    rounds: int
    max_seconds: float | None
    batch_size: int
    threads: int
    id: str


def to_sweep(
    models: str | Variant | Iterable[str | Variant],
    over: str,
    values: Iterable[str | float],
    *,
    attentions: Iterable[str] = (),
    picture: Picture | None = None,
    rounds: int = 0,
    max_seconds: float | None = None,
    batch_size: int = 0,
    threads: int = 0,
    id: str = "",
) -> Any:
    """The request's message. ValueError: an axis that there is not, numbers that mean nothing, or a Variant whose attention is
    named twice."""
    axes = comparison_pb2.SweepRequest.Axis
    names = list(axes.keys())[1:]  # without the one that says nothing
    if over.upper() not in names:
        known = ", ".join(name.lower() for name in names)
        raise ValueError(f"nothing is swept over {over!r}: {known}")
    if isinstance(values, str):
        raise TypeError("values is a text: give a list")
    return comparison_pb2.SweepRequest(
        variants=messages_of(variants_of(models, attentions)),
        over=axes.Value(over.upper()),
        # A float keeps its decimal point, which makes a share of k.
        values=[str(one) for one in values],
        image=b"" if picture is None else files_of([picture])[0],
        id=id,
        rounds=rounds,
        max_time_us=microseconds(max_seconds),
        batch_size=batch_size,
        threads=threads,
    )


def sweep_in(
    message: Any, progress: Callable[[Progress], object] | None
) -> Sweep | None:
    """What a message of the server brings; None: the sweep goes on, as `progress` has been told."""
    kind = message.WhichOneof("update")
    if kind == "sweep":
        return sweep_of(message.sweep)
    if kind != "progress":
        raise Error("INTERNAL", "", "the server's message tells nothing")
    tell_progress(message.progress, progress)
    return None
