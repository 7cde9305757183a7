"""Measuring in turns, so that a machine's moods fall on all contenders."""

from __future__ import annotations

import math
import pathlib
import statistics
import time
from collections.abc import Callable


def in_turns(
    calls: list[Callable[[], object]], seconds: float, least: int = 5
) -> list[list[float]]:
    """The milliseconds of each call, round by round, after a warm-up."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < least:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append((time.perf_counter() - start) * 1e3)
    return times


def median_interval(values: list[float]) -> tuple[float, float]:
    """Holds the median in 95% of all cases at least: order statistics, as signs are binomial. Of fewer than six values it is
    the whole range, which holds it less often."""
    ordered, n = sorted(values), len(values)
    below, tail = 0, 0.5**n
    while tail + math.comb(n, below + 1) * 0.5**n <= 0.025 and below + 1 < n // 2:
        below += 1
        tail += math.comb(n, below) * 0.5**n
    return ordered[below], ordered[n - 1 - below]


def medians(times: list[list[float]]) -> list[float]:
    return [statistics.median(taken) for taken in times]


def processor() -> str:
    return _of_processor("model name")


def vendor() -> str:
    """The processor's, as it calls itself: GenuineIntel, AuthenticAMD, ..."""
    return _of_processor("vendor_id")


def has_amx_int8() -> bool:
    return "amx_int8" in _of_processor("flags").split()


def _of_processor(field: str) -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith(field)),
        "unknown",
    )
