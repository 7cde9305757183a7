"""fovea.client.AsyncClient: the blocking client's calls, results and errors, from asyncio."""

from __future__ import annotations

import asyncio
import inspect
import pathlib
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, get_type_hints

import grpc
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fake_vision import FakeVision, Refusal, class_map, classes, objects
from fovea import client, comparison_request, requests, sweep_request

PICTURE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


def ask(address: str, call: Callable[[client.AsyncClient], Any], **options: Any) -> Any:
    async def run() -> Any:
        async with client.AsyncClient(address, **options) as server:
            return await call(server)

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_every_call_answers_as_the_blocking_clients() -> None:
    with FakeVision(
        Classify=lambda *_: classes((3, "yak", 0.5)),
        Detect=lambda *_: objects((5, 7), {"box": [2, 1, 6, 4], "score": 0.75, "index": 2}),
        Segment=lambda *_: class_map(np.zeros((5, 7), np.uint8), {0: "sky"}),
    ) as fake, client.Client(fake.address) as blocking:  # fmt: skip
        for name, options in (
            ("classify", {"top_k": 2, "version": "7", "priority": 1}),
            ("detect", {"score_threshold": 0.5, "classes": ["cat"], "masks": True}),
            ("segment", {"confidence": True}),
        ):
            fake.requests.clear()
            expected = getattr(blocking, name)("m", [PICTURE], **options)
            found = ask(
                fake.address,
                lambda server, name=name, options=options: getattr(server, name)(
                    "m", [PICTURE], **options
                ),
            )
            one, other = fake.requests
            assert one == other
            assert str(found.images) == str(expected.images)
            assert (found.receipt, found.model) == (expected.receipt, "m")


@pytest.mark.parametrize(
    ("options", "call"),
    [
        (requests.ClassifyOptions, client.Client.classify),
        (requests.DetectOptions, client.Client.detect),
        (requests.SegmentOptions, client.Client.segment),
        (comparison_request.CompareOptions, client.Client.compare),
        (sweep_request.SweepOptions, client.Client.sweep),
    ],
)
def test_it_takes_the_blocking_clients_options(options: type, call: Callable) -> None:
    own = set(inspect.signature(getattr(client.AsyncClient, call.__name__)).parameters)
    own -= {"options"}
    if call is client.Client.compare:
        own |= {"dataset", "limit"}  # a blocking client alone measures data sets
    assert set(get_type_hints(options)) == set(inspect.signature(call).parameters) - own


def test_calls_that_are_awaited_together_run_together() -> None:
    together = threading.Barrier(4, timeout=30)

    def result(_: object, __: bytes) -> Any:
        together.wait()  # until all of them are there
        return classes((0, "cat", 1.0))

    async def four(server: client.AsyncClient) -> list[Any]:
        return await asyncio.gather(
            *(server.classify("m", [PICTURE]) for _ in range(4))
        )

    with FakeVision(Classify=result) as fake:
        assert len(ask(fake.address, four)) == 4
    assert not together.broken


def test_errors_are_the_blocking_clients() -> None:
    def refuse(*_: object) -> None:
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "image.truncated", "too short")

    with (
        FakeVision(Classify=refuse) as fake,
        pytest.raises(client.Error) as caught,
    ):
        ask(fake.address, lambda server: server.classify("m", [PICTURE]))
    assert str(caught.value) == "too short [INVALID_ARGUMENT image.truncated]"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(client.Unreachable, match=f"nothing listens at {address}"):
        ask(address, lambda server: server.classify("m", [PICTURE]))
    with pytest.raises(TypeError, match="list of pictures"):
        ask(address, lambda server: server.classify("m", "a.png"))
    with pytest.raises(ValueError, match="HOST:PORT"):
        ask("here", lambda server: server.classify("m", []))


def test_a_call_that_takes_too_long_says_how_long_it_waited() -> None:
    release = threading.Event()
    with FakeVision(Classify=lambda *_: release.wait(60)) as fake:
        for own, options in ({"timeout": 0.2}, {}), ({}, {"timeout": 0.2}):
            with pytest.raises(client.TimedOut, match=r"within 0\.2 s"):
                ask(
                    fake.address,
                    lambda server, options=options: server.classify(
                        "m", [PICTURE], **options
                    ),
                    **own,
                )
        release.set()


def test_a_cancelled_task_cancels_its_call_and_no_other() -> None:
    release, begun = threading.Event(), threading.Semaphore(0)

    def hang(request: Any, _: bytes) -> Any:
        begun.release()
        if request.model_name == "slow":
            release.wait(60)
        return classes()

    async def run(server: client.AsyncClient) -> Any:
        slow = asyncio.create_task(server.classify("slow", [PICTURE]))
        while not begun.acquire(blocking=False):
            await asyncio.sleep(0.01)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        return await server.classify("m", [PICTURE])

    with FakeVision(Classify=hang) as fake:
        assert ask(fake.address, run).model == "m"
        release.set()


def test_closing_ends_the_calls_that_run_and_refuses_new_ones() -> None:
    release, begun = threading.Event(), threading.Event()

    def hang(*_: object) -> Any:
        begun.set()
        release.wait(60)
        return classes()

    async def run(server: client.AsyncClient) -> None:
        running = asyncio.create_task(server.classify("m", [PICTURE], timeout=50))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        await server.close()
        with pytest.raises(client.Error, match="closed") as caught:
            await running
        assert caught.value.code == "CANCELLED"
        with pytest.raises(client.Error, match="closed"):
            await server.classify("m", [PICTURE])

    with FakeVision(Classify=hang) as fake:
        ask(fake.address, run)
        release.set()
