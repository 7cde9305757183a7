"""What is known of a number that was measured in many rounds: its quartiles, an estimate with an interval, and where it was
measured."""

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


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where and when something was measured."""

    at: str  # when it began: RFC 3339, in UTC
    by: str  # program and version
    processor: str
    cores: int  # that the server may run on
    other_cores: (
        float | None
    )  # that other processes used meanwhile, mean; None: unknown
    # Others left the threads less than a core each: times are longer and vary more. None: unknown.
    busy: bool | None


def provenance_of(message: Any) -> Provenance | None:
    """The Provenance in the field `measured` of `message`; None: it has none."""
    if not message.HasField("measured"):
        return None
    found = message.measured
    other_cores = found.other_cores if found.HasField("other_cores") else None
    busy = found.busy if found.HasField("busy") else None
    return Provenance(
        found.at, found.by, found.processor, found.cores, other_cores, busy
    )


def provenance_notes(measured: Provenance | None) -> list[str]:
    """A sentence that says where and when, and one more where the machine was busy."""
    if measured is None:
        return []
    cores = "1 core" if measured.cores == 1 else f"{measured.cores} cores"
    notes = [
        f"Measured {measured.at} by {measured.by} on {cores} of {measured.processor}."
    ]
    if measured.busy:
        notes.append(
            f"The machine was busy: other programs used {measured.other_cores or 0:.1f} of {cores}, so that times are longer and "
            "vary more than on a quiet machine. Stop them, or measure on fewer threads (threads=)."
        )
    return notes


def attention_left_out_note(name: str) -> str:
    """A note that the attention time of the variant `name` is left out."""
    return f"The attention time of {name} is left out: it would exceed compute, of which it is a part."


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
