"""The costs that fovea-evaluate prints: models asked in turn, warm-up set apart, and intervals that hold."""

from __future__ import annotations

import itertools
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea.client import Receipt
from fovea.evaluation import cost
from fovea.evaluation.cost import (
    UNITS,
    WARM_UP_UNITS,
    differences,
    in_order,
    measure_costs,
)

BLOCK = 16
SMALL_BLOCK = 4
PICTURES = [pathlib.Path(f"{number}.png") for number in range(40)]


def receipt(milliseconds: float) -> Receipt:
    half = milliseconds / 2e3
    return Receipt(
        seconds={"compute": half, "queue": half},
        batch_size=2,
        batch_threads=1,
        batch_peak_bytes=1000,
        padding=0,
        experiment="",
        experiment_arm="",
    )


class Asked:
    """Two models, of which the second takes `slower` times as long. Both are slow at first."""

    def __init__(self, slower: float) -> None:
        self.calls: list[tuple[int, pathlib.Path]] = []
        self._lock = threading.Lock()
        self._slower = slower

    def __call__(self, model: int, picture: pathlib.Path) -> Receipt:
        with self._lock:
            self.calls.append((model, picture))
            warm = len(self.calls) > 6 * BLOCK * WARM_UP_UNITS
        took = 10.0 * (self._slower if model else 1)
        return receipt(took if warm else 100 * took)

    def measure(self, pictures: list[pathlib.Path]):
        asks = [lambda picture, one=one: self(one, picture) for one in range(2)]
        return measure_costs(asks, pictures, BLOCK)


def test_models_are_asked_in_turn_about_the_same_pictures_and_the_warm_up_does_not_count():
    asked = Asked(slower=1.5)
    (first, none), (second, apart) = asked.measure(PICTURES)
    assert first.latency_ms_median == pytest.approx(10) and none == {}
    assert first.latency_ms_p95 == pytest.approx(10)
    assert second.compute_ms_median == pytest.approx(7.5)
    assert (second.batch_size_mean, second.batch_peak_bytes) == (2, 1000)
    assert apart["latency_ms_median"].value == pytest.approx(5)
    assert apart["latency_ms_median"].interval.lower == pytest.approx(5)
    blocks = [asked.calls[at : at + BLOCK] for at in range(0, len(asked.calls), BLOCK)]
    assert len(blocks) == 6 * (UNITS + WARM_UP_UNITS)
    for unit in range(0, len(blocks), 6):
        models = [{model for model, _ in block} for block in blocks[unit : unit + 6]]
        assert models == [{1}, {0}, {1}, {0}, {1}, {0}]
        seen = [{picture for _, picture in block} for block in blocks[unit : unit + 6]]
        assert all(pictures == seen[0] for pictures in seen)


@pytest.mark.parametrize("models", range(2, 7))
def test_each_turn_that_counts_follows_another_models(models: int):
    """As in the server's RoundOrder. The places of each model have the same mean, so that an even drift favours none."""
    turns = in_order(models)
    assert not turns[0].counts
    for before, turn in itertools.pairwise(turns):
        assert before.model != turn.model
    for model in range(models):
        places = [at for at, turn in enumerate(turns) if turn == (model, True)]
        assert len(places) == 2
        assert sum(places) == len(turns)


def test_without_pictures_that_every_model_answers_there_is_no_cost():
    ((nothing, _), (also_nothing, apart)) = Asked(slower=1).measure([])
    assert nothing == also_nothing == cost.Cost()
    assert apart == {}


def test_slow_models_are_measured_for_twenty_seconds_and_in_as_many_rounds_as_an_interval_needs(
    monkeypatch: pytest.MonkeyPatch,
):
    times = iter(range(0, 10_000, 19))
    monkeypatch.setattr(cost.time, "monotonic", lambda: next(times))
    asked = Asked(slower=1)
    (_, (_, apart)) = asked.measure(PICTURES)
    assert len(asked.calls) == 6 * BLOCK * (WARM_UP_UNITS + 7)
    assert apart["latency_ms_median"].interval.lower == pytest.approx(0)


@pytest.mark.parametrize(
    ("units", "ends"), [(6, None), (7, (0, 6)), (12, (1, 10)), (30, (8, 21))]
)
def test_the_interval_is_between_order_statistics(units: int, ends):
    """The binomial table's: its coverage is 95 % or more, and of the next narrower one less."""
    times = np.zeros((units, 2))
    times[:, 1] = np.random.default_rng(1).permutation(units)
    found = differences({"latency_ms_median": times})
    if ends is None:
        assert found == {}
    else:
        interval = found["latency_ms_median"].interval
        assert (interval.lower, interval.upper) == ends


class Machine:
    """A simulated machine. Its speed drifts, its noise is autocorrelated and comes in bursts, and its caches hold what the turn
    before used: other pictures take half as long again, another model a twentieth longer.
    """

    def __init__(self, random: np.random.Generator, ratios: Sequence[float]) -> None:
        """`ratios`: how many times as long each model takes."""
        self._ratios = ratios
        asks = (WARM_UP_UNITS + UNITS) * 2 * (len(ratios) + 1) * SMALL_BLOCK
        # An AR(1) process: neighbours in time are alike.
        slow = np.convolve(random.normal(0, 0.01, asks), 0.98 ** np.arange(300))[:asks]
        drift = np.linspace(0, random.normal(0, 0.1), asks)
        burst = np.zeros(asks)
        for start in random.integers(0, asks, asks // 170):
            burst[start : start + random.integers(5, 60)] += random.exponential(0.5)
        single = random.lognormal(0, 0.08, asks)
        times = 10 * np.exp(slow + drift) * (1 + burst) * single
        self._times: Iterator[float] = iter(times.tolist())
        self._before: tuple[int, set[pathlib.Path]] = -1, set()
        self._turn: list[tuple[int, pathlib.Path]] = []

    def ask(self, model: int) -> Callable[[pathlib.Path], Receipt]:
        return lambda picture: receipt(self._took(model, picture))

    def _took(self, model: int, picture: pathlib.Path) -> float:
        weights, pictures = self._before
        colder = 1.0 if picture in pictures else 1.5
        colder *= 1.0 if model == weights else 1.05
        self._turn.append((model, picture))
        if len(self._turn) == SMALL_BLOCK:
            self._before = model, {one for _, one in self._turn}
            self._turn.clear()
        return next(self._times) * colder * self._ratios[model]


class Inline:
    """Stands in for the pool of threads, which simulated time has no use for."""

    def __init__(self, workers: int) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    map = staticmethod(map)


@pytest.mark.parametrize("ratios", [(1.0, 1.0), (1.0, 1.0, 1.05)])
def test_models_are_told_apart_where_they_differ_and_seldom_where_not(
    ratios: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
):
    """Of 200 runs, at most 5 % tell a model from itself, and at least 80 % find a difference of 5 %."""
    monkeypatch.setattr(cost.concurrent.futures, "ThreadPoolExecutor", Inline)
    random = np.random.default_rng(7)
    runs, apart = 200, np.zeros(len(ratios))
    for _ in range(runs):
        machine = Machine(random, ratios)
        asks = [machine.ask(model) for model in range(len(ratios))]
        costs = measure_costs(asks, PICTURES, SMALL_BLOCK)
        for model, (_, found) in enumerate(costs[1:], start=1):
            interval = found["latency_ms_median"].interval
            apart[model] += not interval.lower <= 0 <= interval.upper
    for ratio, share in zip(ratios[1:], apart[1:] / runs, strict=True):
        assert share <= 0.05 if ratio == 1 else share >= 0.8, apart
