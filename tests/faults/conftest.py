"""The checks that follow every fault."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fault_support import (
    Caller,
    add_identity,
    expect_memory_bounded,
    infer_request,
)
from running_server import SERVER


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers of a test's own: not their speed is tested, and some tests start several."""
    monkeypatch.setenv("FOVEA_THREADS", "1")


@pytest.fixture(scope="session")
def caller(server) -> Iterator[Caller]:
    caller = Caller(server.grpc)
    yield caller
    caller.channel.close()


@pytest.fixture(scope="session")
def good_answer(caller) -> np.ndarray:
    return caller.infer(infer_request())


@pytest.fixture
def identity_repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """One model that computes nothing and loads at once: for servers of a test's own."""
    return add_identity(tmp_path / "models")


@pytest.fixture(autouse=True)
def unharmed(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every fault: the server lives, the next good request has the same bits, and memory is bounded."""
    if "caller" not in request.fixturenames:
        yield
        return
    server, caller, before = (
        request.getfixturevalue(name) for name in ("server", "caller", "good_answer")
    )
    resident = server.resident_bytes()
    yield
    assert server.alive()
    np.testing.assert_array_equal(caller.infer(infer_request()), before)
    expect_memory_bounded(server, resident)


@pytest.fixture
def limited(tmp_path: pathlib.Path) -> Iterator[Callable[..., tuple[object, ...]]]:
    """Makes a cgroup with limits, by the files of version 1 and of 2, and gives a server's `program` that enters it."""
    groups: list[pathlib.Path] = []

    def make(controller: str, version1: dict, version2: dict) -> tuple[object, ...]:
        old = pathlib.Path("/sys/fs/cgroup") / controller
        group = (old if old.is_dir() else old.parent) / f"fovea_test_{os.getpid()}"
        try:
            group.mkdir()
            groups.append(group)
            for file, value in (version1 if old.is_dir() else version2).items():
                (group / file).write_text(str(value))
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        enter = tmp_path / f"enter_{controller}.sh"
        enter.write_text(f'echo $$ > {group}/cgroup.procs; exec "$@"\n')
        return ("sh", enter, SERVER)

    yield make
    for group in groups:
        for process in (group / "cgroup.procs").read_text().split():
            os.kill(int(process), signal.SIGKILL)
        end = time.monotonic() + 30
        while (group / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.02)
        group.rmdir()
