"""What is measured or served: a model, with its own attention or another one over its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from fovea.v1 import comparison_pb2


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is measured: a served model, with its own attention or another one over its weights."""

    model: str
    version: str = ""  # empty: the latest that is served
    attention: str = ""  # for example "knn:k=100"; empty: the model's own


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


def messages_of(variants: Iterable[Variant]) -> list[Any]:
    return [
        comparison_pb2.Variant(
            model_name=one.model, model_version=one.version, attention=one.attention
        )
        for one in variants
    ]
