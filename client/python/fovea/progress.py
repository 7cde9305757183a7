"""How far a server is with what takes long: comparing, sweeping, or loading what it is to serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from fovea.estimates import Quartiles, quartiles_of
from fovea.v1 import comparison_pb2


@dataclasses.dataclass(frozen=True)
class TimeSoFar:
    """Of a variant, before its comparison ends: without an interval or a verdict, which are of all rounds."""

    compute_ms: Quartiles
    ratio: float  # to the baseline: median of the rounds' own


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a comparison or a sweep is, or the loading of what is to be served."""

    phase: str  # "WAITING", "LOADING", "MEASURING" or "ANALYSING"
    done: int  # of the phase's variants or rounds
    total: int  # may become more
    # Of each variant of a comparison that measures, the baseline first; none before the first round.
    so_far: tuple[TimeSoFar, ...] = ()


def tell_progress(message: Any, progress: Callable[[Progress], object] | None) -> None:
    """message: the proto's ComparisonProgress. progress: is called with it; None: nobody wants to know."""
    if progress is None:
        return
    # Of a server that is newer than this client the phase may be one without a name.
    phases = comparison_pb2.ComparisonProgress.Phase
    name = phases.Name(message.phase) if message.phase in phases.values() else ""
    so_far = (
        TimeSoFar(quartiles_of(time.compute_ms), time.ratio) for time in message.so_far
    )
    progress(Progress(name, message.done, message.total, tuple(so_far)))
