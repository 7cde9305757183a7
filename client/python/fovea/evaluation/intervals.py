"""How far figures over pictures can be trusted: they are made again of pictures that are drawn from these (a bootstrap)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fovea.evaluation.measure import Figures

RESAMPLES = 1000
LEAST_PICTURES = 20  # fewer give no interval, as elsewhere in Fovea
CONFIDENCE = 0.95
_AT_A_TIME = 50
_SEED = 1  # the same answers always give the same intervals


@dataclasses.dataclass(frozen=True)
class Interval:
    """In which the figure of endlessly many such pictures lies, at 95%."""

    lower: float
    upper: float


def resampled(
    figures: Figures, answered: Sequence[int], places: Sequence[int]
) -> dict[str, np.ndarray]:
    """By figure, what it is of each resample of the pictures at `places`; empty where they are too few.

    `answered`: those of `places` that the figures are made of, in the order of the figures' own. The resamples are the same
    for all models that are asked about the same places, so that their differences are of the same pictures.
    """
    if len(answered) < LEAST_PICTURES:
        return {}
    where = {place: column for column, place in enumerate(places)}
    columns = [where[place] for place in answered]
    parts = [figures.resample(counts[:, columns]) for counts in _counts(len(places))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def interval(samples: np.ndarray) -> Interval | None:
    """The percentile interval; None where the figure is not defined in most of the resamples."""
    defined = samples[~np.isnan(samples)]
    if 2 * defined.size < samples.size or not defined.size:
        return None
    tail = 100 * (1 - CONFIDENCE) / 2
    lower, upper = np.percentile(defined, [tail, 100 - tail])
    return Interval(float(lower), float(upper))


def intervals(samples: Mapping[str, np.ndarray]) -> dict[str, Interval]:
    found = {name: interval(of_figure) for name, of_figure in samples.items()}
    return {name: one for name, one in found.items() if one is not None}


def intervals_of_differences(
    samples: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]
) -> dict[str, Interval]:
    """Of `samples` from `others`, resample by resample: pictures that are hard for both cancel."""
    return intervals(
        {name: samples[name] - others[name] for name in samples if name in others}
    )


def _counts(pictures: int) -> Iterator[np.ndarray]:
    """How often each picture is drawn, [resamples, pictures], some resamples at a time."""
    random = np.random.default_rng(_SEED)
    share = np.full(pictures, 1 / pictures)
    for _ in range(0, RESAMPLES, _AT_A_TIME):
        yield random.multinomial(pictures, share, size=_AT_A_TIME)
