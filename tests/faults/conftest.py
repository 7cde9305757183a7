"""The checks that follow every fault."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from fault_support import RESIDENT_BOUND, Caller, infer_request


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
    assert server.resident_bytes() - resident < RESIDENT_BOUND
