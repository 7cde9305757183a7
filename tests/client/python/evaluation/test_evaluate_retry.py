"""How long a server that does not answer yet is asked again."""

from __future__ import annotations

import pathlib
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))
from fovea import client
from fovea.evaluation.retry import with_retries

BACKOFF = (0.001, 0.002)


class Server:
    """Refuses `refusals` times."""

    def __init__(self, reason: str, refusals: int, code: str = "UNAVAILABLE") -> None:
        self.error = client.Error(code, reason, "not now")
        self.refusals = refusals
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.refusals:
            raise self.error
        return "an answer"


def test_a_busy_server_is_asked_as_often_as_there_are_waits() -> None:
    server = Server("queue.full", 2)
    assert with_retries(server, backoff=BACKOFF) == "an answer"
    server = Server("queue.full", 3)
    with pytest.raises(client.Error, match="not now"):
        with_retries(server, backoff=BACKOFF)
    assert server.asked == 3


def test_a_model_that_is_being_loaded_is_waited_for_and_the_user_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = Server("model.loading", 40)
    assert with_retries(server, backoff=BACKOFF) == "an answer"
    assert server.asked == 41
    waiting = "fovea-evaluate: the model is being loaded: waiting\n"
    assert capsys.readouterr().err == waiting


def test_a_server_that_is_busy_once_the_model_is_loaded_is_asked_again() -> None:
    loading, busy = Server("model.loading", 10), Server("queue.full", 2)

    def ask() -> str:
        return busy() if loading.asked == 10 else loading()

    assert with_retries(ask, backoff=BACKOFF) == "an answer"
    assert busy.asked == 3


def test_a_model_that_is_never_loaded_is_given_up() -> None:
    server = Server("model.loading", 10**9)
    before = time.monotonic()
    with pytest.raises(client.Error):
        with_retries(server, backoff=BACKOFF, loading=0.2)
    assert 0.2 <= time.monotonic() - before < 60
    assert server.asked > len(BACKOFF) + 1


def test_another_error_and_a_stop_end_it_at_once() -> None:
    server = Server("request.malformed", 1, "INVALID_ARGUMENT")
    with pytest.raises(client.Error):
        with_retries(server, backoff=BACKOFF)
    assert server.asked == 1
    stop = threading.Event()
    stop.set()
    server = Server("model.loading", 10**9)
    with pytest.raises(client.Error):
        with_retries(server, stop, backoff=(60.0,))
    assert server.asked == 1
