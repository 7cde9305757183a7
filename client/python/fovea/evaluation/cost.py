"""What answers cost, measured after the figures: the models are asked in turn about the same pictures.

The model that is asked first pays for cold caches, of pictures and weights, and for whatever the machine does then. So a unit of
the measurement asks every model about a block of pictures, in one order and then in the reverse one (in_order), and the first
unit does not count. A difference is taken within each unit; its interval is distribution-free (order statistics of the units'
differences: Conover, Practical Nonparametric Statistics, section 3.2), because times have bursts and no normal distribution.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import math
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tqdm

from fovea import client
from fovea.evaluation.intervals import Interval

WARM_UP_UNITS = 1
UNITS = 30
_MOST_SECONDS = (
    20.0  # after which no unit begins, once there are enough for an interval
)
_LEAST_UNITS = (
    7  # of six, not even the least and the largest hold the median at that confidence
)
# More than the 95 % that are promised, so that 95 % are held although neighbouring units are not quite independent of each other.
_CONFIDENCE_OF_UNITS = 0.98


@dataclasses.dataclass(frozen=True)
class Cost:
    """Figures from the receipts of the units that count; None: not measured."""

    latency_ms_median: float | None = None  # in the server
    latency_ms_p95: float | None = None
    compute_ms_median: float | None = None  # of the batches that the pictures were in
    batch_size_mean: float | None = None
    batch_peak_bytes: int | None = None  # the largest


@dataclasses.dataclass(frozen=True)
class Difference:
    """Difference to the first model's figure, the median over the units."""

    value: float
    interval: Interval


# Figures of a unit for each model, in milliseconds, by the names in Cost.
_TIMES: dict[str, Callable[[Sequence[client.Receipt]], float]] = {
    "latency_ms_median": lambda receipts: float(np.median(_totals(receipts))),
    "latency_ms_p95": lambda receipts: float(np.percentile(_totals(receipts), 95)),
    "compute_ms_median": lambda receipts: float(np.median(_computes(receipts))),
}

Ask = Callable[[pathlib.Path], client.Receipt]


def measure_costs(
    asks: Sequence[Ask],
    pictures: Sequence[pathlib.Path],
    concurrency: int,
    rounds: int = UNITS,
) -> list[tuple[Cost, dict[str, Difference]]]:
    """The cost of each model, and its differences to the first one's, by the names in Cost.

    `asks`: each asks one model about a picture, from several threads. `pictures`: those that every model can answer; repeated
    if they are fewer than a unit needs. `rounds`: units at most; 0: nothing is measured. client.Error: a model refuses one.
    """
    if not pictures or not asks or rounds == 0:
        return [(Cost(), {}) for _ in asks]
    size = min(concurrency, len(pictures))
    endless = itertools.cycle(pictures)
    units: list[list[list[client.Receipt]]] = []  # by unit and model
    began = time.monotonic()
    with (
        tqdm.tqdm(
            total=WARM_UP_UNITS + rounds,
            desc="costs",
            unit="round",
            disable=None,
            file=sys.stderr,
        ) as bar,
        concurrent.futures.ThreadPoolExecutor(size) as workers,
    ):
        while len(units) < WARM_UP_UNITS + rounds:
            late = time.monotonic() - began > _MOST_SECONDS
            if late and len(units) >= WARM_UP_UNITS + _LEAST_UNITS:
                break
            block = list(itertools.islice(endless, size))
            units.append(_unit(asks, block, workers))
            bar.update()
    units = units[WARM_UP_UNITS:]
    times = {
        name: np.array([[of(receipts) for receipts in unit] for unit in units])
        for name, of in _TIMES.items()
    }
    return [
        (
            _cost([receipt for unit in units for receipt in unit[model]]),
            differences({name: unit[:, [0, model]] for name, unit in times.items()})
            if model
            else {},
        )
        for model in range(len(asks))
    ]


class Turn(NamedTuple):
    model: int
    counts: bool


def in_order(models: int) -> list[Turn]:
    """The turns of a unit: all models there and back, so that an even drift favours none.

    For three models (1) 0 1 2 (0) 2 1 0, as in the server's RoundOrder: the two turns in brackets do not count, so that each of
    the others finds the pictures and another model's weights in the caches. A single model, which is compared with none, needs
    no turn for the caches.
    """
    if models == 1:
        return [Turn(0, True)]
    there = [Turn(model, True) for model in range(models)]
    return [Turn(1, False), *there, Turn(0, False), *reversed(there)]


def differences(times: dict[str, np.ndarray]) -> dict[str, Difference]:
    """Differences of the second column from the first, by name, of arrays [units, 2]. Empty if there are too few units."""
    found = {}
    for name, of_units in times.items():
        apart = np.sort(of_units[:, 1] - of_units[:, 0])
        ends = _order_statistics(len(apart))
        if ends is not None:
            lower, upper = apart[ends[0]], apart[ends[1]]
            found[name] = Difference(
                float(np.median(apart)), Interval(float(lower), float(upper))
            )
    return found


def _order_statistics(units: int) -> tuple[int, int] | None:
    """The narrowest pair of order statistics, equally far from both ends, that holds the median with at least that confidence."""
    below = 0.0  # the chance that the median lies below the statistic `end`
    for end in range(units // 2):
        below += math.comb(units, end) / 2**units
        if 1 - 2 * below < _CONFIDENCE_OF_UNITS:
            return (end - 1, units - end) if end > 0 else None
    return None


def _unit(
    asks: Sequence[Ask],
    block: Sequence[pathlib.Path],
    workers: concurrent.futures.ThreadPoolExecutor,
) -> list[list[client.Receipt]]:
    receipts: list[list[client.Receipt]] = [[] for _ in asks]
    for turn in in_order(len(asks)):
        answered = list(workers.map(asks[turn.model], block))
        if turn.counts:
            receipts[turn.model] += answered
    return receipts


def _totals(receipts: Sequence[client.Receipt]) -> np.ndarray:
    return np.array([receipt.total_seconds for receipt in receipts]) * 1e3


def _computes(receipts: Sequence[client.Receipt]) -> np.ndarray:
    return np.array([receipt.seconds["compute"] for receipt in receipts]) * 1e3


def _cost(receipts: Sequence[client.Receipt]) -> Cost:
    return Cost(
        **{name: of(receipts) for name, of in _TIMES.items()},
        batch_size_mean=float(np.mean([receipt.batch_size for receipt in receipts])),
        batch_peak_bytes=max(receipt.batch_peak_bytes for receipt in receipts),
    )
