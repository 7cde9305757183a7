"""What fovea.client asks of a comparison, and how its answers are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from fovea.comparison import Comparison, comparison_of
from fovea.errors import Error
from fovea.pictures import Picture, files_of
from fovea.progress import Progress, tell_progress
from fovea.v1 import comparison_pb2
from fovea.variant import Variant, messages_of, variants_of


class CompareOptions(TypedDict, total=False):
    """Of a call, by name; Client.compare says what they mean."""

    attentions: Iterable[str]
    rounds: int
    max_rounds: int
    max_seconds: float | None
    batch_size: int
    threads: int
    id: str


def to_compare(
    models: str | Variant | Iterable[str | Variant],
    pictures: Iterable[Picture],
    *,
    attentions: Iterable[str] = (),
    rounds: int = 0,
    max_rounds: int = 0,
    max_seconds: float | None = None,
    batch_size: int = 0,
    threads: int = 0,
    id: str = "",
) -> Any:
    """The request's message. ValueError: numbers that mean nothing, or a Variant whose attention is named twice."""
    return comparison_pb2.CompareRequest(
        variants=messages_of(variants_of(models, attentions, own_before_one=True)),
        images=files_of(pictures),
        id=id,
        rounds=rounds,
        max_rounds=max_rounds,
        max_time_us=microseconds(max_seconds),
        batch_size=batch_size,
        threads=threads,
    )


def comparison_in(
    message: Any, progress: Callable[[Progress], object] | None
) -> Comparison | None:
    """What a message of the server brings; None: the comparison goes on, as `progress` has been told."""
    kind = message.WhichOneof("update")
    if kind == "comparison":
        return comparison_of(message.comparison)
    if kind != "progress":
        raise Error("INTERNAL", "", "the server's message tells nothing")
    tell_progress(message.progress, progress)
    return None


def microseconds(seconds: float | None) -> int:
    """As requests have a time: 0 is the server's own. ValueError: it is not above zero."""
    if seconds is None:
        return 0
    if not 0 < seconds < 1e9:
        raise ValueError(f"max_seconds is {seconds}: it must be above zero")
    return max(1, int(seconds * 1e6))
