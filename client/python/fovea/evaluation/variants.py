"""Attentions over models' weights, served for as long as they are measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from fovea import client
from fovea.evaluation.measure import Model
from fovea.variant import variants_of


def models_of(
    models: str | client.Variant | Iterable[str | client.Variant],
    attentions: Iterable[str],
) -> list[Model]:
    """What is measured of them, as Client.compare has them: of one attention, each model as it is before it."""
    return [
        Model(one.model, one.version, one.attention)
        for one in variants_of(models, attentions, own_before_one=True)
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
