"""Variants that a server serves for a while, as models with names of their own.

with client.serve("shapes", attentions=["knn:k=9", "knn:k=20"]) as serving:
    for variant in serving.variants:
        print(variant.attention, client.classify(variant.served_as, ["cat.jpg"]).images[0].labels[0])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Self

from fovea.errors import Error
from fovea.progress import Progress, tell_progress
from fovea.v1 import comparison_pb2
from fovea.variant import Variant, messages_of, variants_of


@dataclasses.dataclass(frozen=True)
class ServedVariant:
    served_as: str  # the model's name in every other call
    model_name: str
    model_version: str
    backbone: str
    attention: str  # canonical text
    # The attention that the weights are served with, where it is another one: same weights, not fine-tuned. Else empty.
    weights_of_attention: str
    untrained: bool  # the weights are random numbers: what is found means nothing


class Serving:
    """Until it is closed, `variants` are served, in the order in which they were asked for. A context."""

    def __init__(self, call: Any, variants: list[ServedVariant]) -> None:
        self._call = call
        self.variants = variants

    def close(self) -> None:
        self._call.cancel()  # nothing, where it has ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncServing:
    """The same for asyncio."""

    def __init__(self, call: Any, variants: list[ServedVariant]) -> None:
        self._call = call
        self.variants = variants

    def close(self) -> None:
        self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def to_serve(
    models: str | Variant | Iterable[str | Variant], *, attentions: Iterable[str] = ()
) -> Any:
    """The request's message. ValueError: a Variant whose attention is named twice."""
    return comparison_pb2.ServeRequest(
        variants=messages_of(variants_of(models, attentions))
    )


def served_in(
    message: Any, progress: Callable[[Progress], object] | None
) -> list[ServedVariant] | None:
    """What a message of the server brings; None: they are not served yet, as `progress` has been told."""
    kind = message.WhichOneof("update")
    if kind == "served":
        return [
            ServedVariant(
                one.served_as,
                one.model_name,
                one.model_version,
                one.backbone,
                one.attention,
                one.weights_of_attention,
                one.untrained,
            )
            for one in message.served.variants
        ]
    if kind != "progress":
        raise Error("INTERNAL", "", "the server's message tells nothing")
    tell_progress(message.progress, progress)
    return None
