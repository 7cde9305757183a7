"""What is known of a number that was measured in many rounds: its quartiles, and an estimate with an interval."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Quartiles:
    lower: float
    median: float
    upper: float


@dataclasses.dataclass(frozen=True)
class Estimate:
    """An estimate (a median, or the slope of a fit) and its 95% interval."""

    value: float
    lower: float
    upper: float


def quartiles_of(message: Any) -> Quartiles:
    return Quartiles(message.lower, message.median, message.upper)


def quartiles_in(message: Any, name: str) -> Quartiles | None:
    """message: whose field `name` is the proto's Quartiles. None: it has none."""
    return quartiles_of(getattr(message, name)) if message.HasField(name) else None


def estimate_of(message: Any, name: str) -> Estimate | None:
    """message: whose field `name` is the proto's Estimate. None: it has none."""
    if not message.HasField(name):
        return None
    found = getattr(message, name)
    return Estimate(found.value, found.lower, found.upper)
