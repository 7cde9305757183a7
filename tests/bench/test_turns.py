"""That the interval of a median is as wide as its few measurements ask for."""

from __future__ import annotations

import math
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import turns


@pytest.mark.parametrize("count", [6, 10, 19, 40])
def test_the_narrowest_interval_that_holds_the_median_in_95_percent(count: int) -> None:
    places = list(range(count))
    lower, upper = turns.median_interval([float(place) for place in reversed(places)])
    assert upper == count - 1 - lower

    def outside(below: float) -> float:
        """How often so many measurements or fewer lie on one side of the median, on either."""
        return 2 * sum(math.comb(count, i) for i in range(int(below) + 1)) / 2**count

    assert outside(lower) <= 0.05 < outside(lower + 1)


def test_too_few_measurements_give_all_of_them() -> None:
    assert turns.median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
