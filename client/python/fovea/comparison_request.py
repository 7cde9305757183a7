"""What fovea.client asks of a comparison, and how its answers are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from fovea.comparison import (
    Comparison,
    Progress,
    TimeSoFar,
    Variant,
    comparison_of,
    quartiles_of,
)
from fovea.errors import Error
from fovea.pictures import Picture, files_of
from fovea.v1 import comparison_pb2


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
    tell(message.progress, progress)
    return None


def tell(told: Any, progress: Callable[[Progress], object] | None) -> None:
    """told: the proto's ComparisonProgress."""
    if progress is not None:
        # Of a server that is newer than this client the phase may be one without a name.
        phases = comparison_pb2.ComparisonProgress.Phase
        name = phases.Name(told.phase) if told.phase in phases.values() else ""
        so_far = (
            TimeSoFar(quartiles_of(time.compute_ms), time.ratio) for time in told.so_far
        )
        progress(Progress(name, told.done, told.total, tuple(so_far)))


def microseconds(seconds: float | None) -> int:
    """As requests have a time: 0 is the server's own. ValueError: it is not above zero."""
    if seconds is None:
        return 0
    if not 0 < seconds < 1e9:
        raise ValueError(f"max_seconds is {seconds}: it must be above zero")
    return max(1, int(seconds * 1e6))


def to_serve(
    models: str | Variant | Iterable[str | Variant], *, attentions: Iterable[str] = ()
) -> Any:
    """The request's message. ValueError: a Variant whose attention is named twice."""
    return comparison_pb2.ServeRequest(
        variants=messages_of(variants_of(models, attentions))
    )


def messages_of(variants: Iterable[Variant]) -> list[Any]:
    return [
        comparison_pb2.Variant(
            model_name=one.model, model_version=one.version, attention=one.attention
        )
        for one in variants
    ]


def variants_of(
    models: str | Variant | Iterable[str | Variant],
    attentions: Iterable[str],
    own_before_one: bool = False,
) -> list[Variant]:
    """Each attention over each model; without any, the models.

    own_before_one: of one attention, each model as it is before it, as `fovea compare` and POST /v1/compare have them: what is
    compared needs a baseline. ValueError: an attention that is named twice.
    """
    if isinstance(attentions, str):
        raise TypeError("attentions is a text: give a list of texts")
    texts = list(attentions)
    if own_before_one and len(texts) == 1:
        texts.insert(0, "")
    several = [models] if isinstance(models, (str, Variant)) else list(models)
    found = []
    for model in several:
        one = model if isinstance(model, Variant) else Variant(model)
        if one.attention and texts:
            raise ValueError(
                f"the variant of {one.model} has an attention of its own: name it there or in attentions"
            )
        found += [
            Variant(one.model, one.version, text) for text in texts or [one.attention]
        ]
    return found
