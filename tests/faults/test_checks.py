"""The checks that follow every fault, on servers that fail them."""

from __future__ import annotations

import pathlib

import pytest
from fault_support import RESIDENT_BOUND, expect_memory_bounded
from running_server import Server


class Resident:
    """Holds the next of these numbers of bytes each time it is asked, the last for ever."""

    def __init__(self, *sizes: int):
        self.sizes = list(sizes)

    def resident_bytes(self) -> int:
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]


def test_memory_that_is_freed_late_is_waited_for_and_other_memory_is_not():
    more = 1000 + RESIDENT_BOUND
    freed_late = Resident(more, more, more - 1)
    expect_memory_bounded(freed_late, resident=1000)
    assert freed_late.sizes == [more - 1]
    with pytest.raises(AssertionError, match="holds 128 MiB more than before it"):
        expect_memory_bounded(Resident(more), resident=1000, timeout=0.3)


def test_a_server_that_does_not_stop_is_an_error_and_is_ended(tmp_path: pathlib.Path):
    stubborn = (
        "trap '' TERM; echo 'listening: grpc=a http=b metrics=c'; echo 'ready: 1 model'; "
        "while true; do sleep 0.1; done"
    )
    server = Server(tmp_path / "log", program=["sh", "-c", stubborn, "sh"])
    with pytest.raises(AssertionError, match=r"still there:\n(.*\n)*ready: 1 model"):
        server.terminate(timeout=0.3)
    assert not server.alive()
