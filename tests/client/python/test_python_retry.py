"""Which calls the Python client makes again, how often, when, and at whom. tests/client/cpp/retry_test.cc asks the same of C++'s."""

from __future__ import annotations

import collections
import concurrent.futures
import json
import pathlib
import sys
import time

import grpc
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fake_vision import FakeVision, Refusal, classes
from fovea import client, retry

PICTURE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


def refusing_first(times: int, then):
    """Refuses so many calls as busy, and answers the others."""
    calls = []

    def answer(*arguments: object):
        calls.append(arguments)
        if len(calls) <= times:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "queue.full", "busy")
        return then(*arguments)

    answer.calls = calls
    return answer


def test_a_call_that_is_refused_is_made_again():
    answers = refusing_first(2, lambda *_: classes((0, "cat", 0.75)))
    long = bytes(3 << 20)  # gRPC's own buffer has 256 KiB
    with FakeVision(Classify=answers) as fake, client.Client(fake.address) as server:
        assert server.classify("m", [long]).images[0].labels == ["cat"]
    assert len(answers.calls) == 3


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_it_is_made_as_often_as_it_is_said(attempts: int):
    answers = refusing_first(100, lambda *_: classes((0, "cat", 0.75)))
    with (
        FakeVision(Classify=answers) as fake,
        client.Client(fake.address, max_attempts=attempts) as server,
        pytest.raises(client.Error) as caught,
    ):
        server.classify("m", [PICTURE])
    assert caught.value.reason == "queue.full"
    assert len(answers.calls) == attempts


def test_a_server_that_refuses_everything_is_not_asked_several_times_as_much():
    answers, calls = refusing_first(10_000, lambda *_: classes((0, "cat", 0.75))), 64

    def ask(_: int) -> str:
        with pytest.raises(client.Error) as caught:
            server.classify("m", [PICTURE])
        return caught.value.reason

    with FakeVision(Classify=answers) as fake, client.Client(fake.address) as server:
        with concurrent.futures.ThreadPoolExecutor(calls) as pool:
            assert set(pool.map(ask, range(calls))) == {"queue.full"}
        asked = len(answers.calls)
        assert calls < asked <= calls + 100
        ask(0)
        assert len(answers.calls) == asked + 1  # nothing is left to spend


def test_callers_do_not_come_back_together():
    """Calls that are refused together. What a busy machine adds makes waits longer, never shorter."""
    calls = 32  # three further attempts each are within the budget
    times: dict[bytes, list[float]] = collections.defaultdict(list)

    def busy(_: object, picture: bytes):
        times[picture].append(time.monotonic())
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "queue.full", "busy")

    def ask(number: int) -> None:
        with pytest.raises(client.Error):
            server.classify("m", [b"picture %d" % number])

    with (
        FakeVision(Classify=busy) as fake,
        client.Client(fake.address, max_attempts=4) as server,
        concurrent.futures.ThreadPoolExecutor(calls) as pool,
    ):
        list(pool.map(ask, range(calls)))
    waits = np.diff(np.array(list(times.values())))
    assert waits.shape == (calls, 3)
    middles = np.array([0.1, 0.2, 0.4])
    assert (waits >= 0.8 * middles - 0.001).all()  # timers count whole milliseconds
    # Some lie beyond a quarter of the range: early ones of all waits, late ones of the longest. Three in eight do of each:
    # that there is none has a probability below a millionth.
    assert (waits < 0.95 * middles).any()
    assert (waits[:, 2] > 1.05 * 0.4).any()


def test_calls_go_in_turn_to_all_addresses_where_they_are_to_be_balanced():
    def answer(*_: object):
        return classes((0, "cat", 0.75))

    with FakeVision(Classify=answer) as first, FakeVision(Classify=answer) as second:
        both = f"ipv4:///{first.address},{second.address}"
        with client.Client(both) as server:
            for _ in range(10):
                server.classify("m", [PICTURE])
        assert sorted(len(one.requests) for one in (first, second)) == [0, 10]
        with client.Client(both, balance=True) as server:
            end = time.monotonic() + 20
            while not (first.requests and second.requests):
                assert time.monotonic() < end
                server.classify("m", [PICTURE])
            before = [len(one.requests) for one in (first, second)]
            for _ in range(10):
                server.classify("m", [PICTURE])
        after = [len(one.requests) for one in (first, second)]
        assert [b - a for a, b in zip(before, after, strict=True)] == [5, 5]


def test_other_numbers_of_attempts_are_refused():
    for attempts in (0, 6):
        with pytest.raises(ValueError, match="max_attempts"):
            client.Client("127.0.0.1:8001", max_attempts=attempts)


def test_both_clients_retry_alike():
    """But for what the Python one does not call."""
    ((_, text), *_) = retry.channel_options(4, True)
    ours = json.loads(text)
    source = (ROOT / "client/cpp/retry.cc").read_text()
    for key, value in {
        **ours["methodConfig"][0]["retryPolicy"],
        **ours["retryThrottling"],
    }.items():
        if key != "maxAttempts":
            assert f'"{key}":{json.dumps(value)}' in source
    for name in ours["methodConfig"][0]["name"]:
        assert json.dumps(name, separators=(",", ":")) in source
