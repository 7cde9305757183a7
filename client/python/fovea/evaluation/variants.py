"""Attentions over models' weights, served for as long as they are measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fovea import client
from fovea.evaluation.measure import Model


def variants_of(models: Sequence[Model], attentions: Sequence[str]) -> list[Model]:
    """Each attention over each model, as `fovea compare` has them: of one attention, the model as it is before it."""
    own = [""] if len(attentions) <= 1 else []
    return [
        Model(model.name, model.version, attention)
        for model in models
        for attention in [*own, *attentions]
    ]


@contextlib.contextmanager
def served(server: client.Client, variants: Sequence[Model]) -> Iterator[list[Model]]:
    """The variants under the names by which they are served meanwhile. client.Error: they cannot be."""
    if not any(one.attention for one in variants):
        yield list(variants)  # any server can do that
        return
    asked = [client.Variant(one.name, one.version, one.attention) for one in variants]
    with server.serve(asked) as serving:
        yield [
            Model(
                one.name,
                one.version,
                found.attention,
                # Of the model itself a version may be named, of a variant there is one.
                served_as="" if found.served_as == one.name else found.served_as,
                weights_of_attention=found.weights_of_attention,
            )
            for one, found in zip(variants, serving.variants, strict=True)
        ]
