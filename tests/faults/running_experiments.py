"""What tests of experiments have in common: several callers, and work that cannot end while somebody waits for its end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from fault_support import Caller, image_request
from running_server import ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import comparison_pb2

# In which whatever waits for an abandoned experiment has its turn: far more than that takes where the machine is busy.
WAIT_SECONDS = 20
HOUR_US = 3_600_000_000


def until_measuring(updates: Iterator[Any]) -> float:
    """Reads an experiment's updates until it has made a few rounds. Gives the seconds that its other rounds will take."""
    first: tuple[float, int] | None = None
    for update in updates:
        if update.phase != comparison_pb2.ComparisonProgress.MEASURING:
            continue
        now = time.monotonic()
        if first is None:
            first = now, update.done
        elif update.done >= first[1] + 2:
            pace = (now - first[0]) / (update.done - first[1])
            return pace * (update.total - update.done)
    raise AssertionError("it ended before it had been measured")


def expect_answers(server: Server, picture: bytes) -> None:
    """Requests are answered beside what runs: each waits for a pass of it at most, which is a fraction of a second here."""
    caller = Caller(server.grpc)
    for _ in range(5):
        caller.infer(image_request(picture), timeout=30)
    caller.close()


def in_threads(count: int, act: Callable[[], None]) -> list[threading.Thread]:
    """Daemons: one that waits for ever fails its test, and must not hold up the others."""
    threads = [threading.Thread(target=act, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads: list[threading.Thread], seconds: float) -> None:
    """All of them end before so many seconds have passed, counted once for all."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    late = sum(thread.is_alive() for thread in threads)
    assert late == 0, f"{late} of {len(threads)} still wait after {seconds:.0f} s"
