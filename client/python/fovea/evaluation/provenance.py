"""When, by what and from where models were asked."""

from __future__ import annotations

import dataclasses
import datetime
import os
import pathlib

import fovea


@dataclasses.dataclass(frozen=True)
class Provenance:
    at: str  # when it began: RFC 3339, in UTC
    by: str  # program and version
    # Of the machine that asked; latencies are what it saw. The server may run on another.
    client_processor: str
    client_cores: int


def provenance() -> Provenance:
    now = datetime.datetime.now(datetime.UTC)
    return Provenance(
        at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        by=f"fovea-evaluate {fovea.__version__}",
        client_processor=_processor(),
        client_cores=len(os.sched_getaffinity(0)),
    )


def _processor() -> str:
    """The processor's name as the system gives it."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
