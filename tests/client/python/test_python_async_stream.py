"""fovea.client.AsyncClient's streams, against a fake server. tests/conformance asks the real one."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client
from test_python_stream import FILE, Streamed, classified, serving


def ask(
    stream: Callable[[Iterator, grpc.ServicerContext], Iterator],
    use: Callable[[client.AsyncImageStream], Any],
    **options: Any,
) -> Any:
    """What `use` makes of a stream of a server whose StreamImages is `stream`."""

    async def run(address: str) -> Any:
        async with (
            client.AsyncClient(address, timeout=7) as server,
            server.stream(**options) as opened,
        ):
            return await use(opened)

    with serving(stream) as blocking:
        address = blocking._address.target
        return asyncio.run(asyncio.wait_for(run(address), 60))


def echo(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
    for number, request in enumerate(requests):
        count = len(request.classify.images)
        yield classified(number, pictures=count, id=request.classify.id)


def test_requests_go_out_with_their_options_and_answers_come_back() -> None:
    seen: list[Any] = []

    def stream(requests: Iterator, context: grpc.ServicerContext) -> Iterator:
        yield from echo((seen.append(r) or r for r in requests), context)

    async def use(opened: client.AsyncImageStream) -> list[client.StreamedAnswer]:
        assert await opened.classify("m", [FILE], top_k=2, id="first") == 0
        assert await opened.classify("m", [FILE] * 2, timeout=1e-9) == 1
        await opened.writes_done()
        with pytest.raises(ValueError, match="after writes_done"):
            await opened.classify("m", [FILE])
        return [one async for one in opened]

    first, second = ask(stream, use)
    assert (first.number, first.id, first.error) == (0, "first", None)
    assert len(second.answer.images) == 2 and second.answer.round_trip_seconds > 0
    assert [one.timeout_us for one in seen] == [7_000_000, 1]
    assert seen[0].classify.top_k == 2 and seen[0].order == seen[0].IN_ORDER


@pytest.mark.parametrize("kind", ["iterator", "asynchronous iterator"])
def test_feed_writes_no_further_ahead_than_it_is_told(kind: str) -> None:
    written = 0

    async def use(opened: client.AsyncImageStream) -> list[int]:
        def items() -> Iterator[int]:
            nonlocal written
            for number in range(50):
                written = number
                yield number

        async def slowly() -> Any:
            for number in items():
                yield number

        async def write(number: int) -> None:
            await opened.classify("m", [FILE], id=str(number))

        numbers, most = [], 0
        feed = opened.feed(items() if kind == "iterator" else slowly(), write)
        async for one in feed:
            most = max(most, written - len(numbers))
            numbers.append(int(one.id))
            await asyncio.sleep(0.002)
        assert most <= 5  # four whose answers are not read, and one that waits
        return numbers

    assert ask(echo, use, ahead=4) == list(range(50))


def test_a_failed_request_is_its_own_and_other_answers_are_refused() -> None:
    def stream(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
        for number, _request in enumerate(requests):
            if number == 0:
                failed = Streamed(number=0, id="a")
                failed.error.code = 3
                failed.error.reason = "image.truncated"
                failed.error.message = "too short"
                yield failed
            else:
                yield classified(number + 7)

    async def use(opened: client.AsyncImageStream) -> list[client.StreamedAnswer]:
        for _ in range(2):
            await opened.classify("m", [FILE])
        await opened.writes_done()
        return [one async for one in opened]

    first, second = ask(stream, use)
    assert (first.error.code, first.error.reason) == (
        "INVALID_ARGUMENT",
        "image.truncated",
    )
    assert "which waits for no answer" in second.error.message


@pytest.mark.parametrize("where", ["items", "write"])
def test_what_feed_meets_is_raised_where_the_answers_are_read(where: str) -> None:
    def items() -> Iterator[int]:
        yield 1
        if where == "items":
            raise KeyError("camera")
        yield 2

    async def use(opened: client.AsyncImageStream) -> None:
        async def write(number: int) -> None:
            if number == 2:
                raise KeyError("camera")
            await opened.classify("m", [FILE])

        with pytest.raises(KeyError, match="camera"):
            async for _ in opened.feed(items(), write):
                pass

    ask(echo, use)


def test_who_waits_to_write_hears_of_the_streams_end() -> None:
    go = threading.Event()

    def stream(requests: Iterator, context: grpc.ServicerContext) -> Iterator:
        next(requests)
        go.wait(30)
        context.set_trailing_metadata((("fovea-reason", "server.stopping"),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "the server stops")
        yield

    async def use(opened: client.AsyncImageStream) -> list[client.Error]:
        await opened.classify("m", [FILE])
        waiting = [asyncio.create_task(opened.classify("m", [FILE])) for _ in range(3)]
        await asyncio.sleep(0.1)
        go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(client.Error, match="the server stops"):
            async for _ in opened:
                pass
        return found

    for error in ask(stream, use, ahead=1):
        assert isinstance(error, client.Error)
        assert (error.code, error.reason) == ("UNAVAILABLE", "server.stopping")


def test_leaving_cancels_what_is_under_way() -> None:
    begun, ended = threading.Event(), threading.Event()

    def stream(requests: Iterator, context: grpc.ServicerContext) -> Iterator:
        context.add_callback(ended.set)
        begun.set()
        with contextlib.suppress(Exception):
            list(requests)
        yield from ()

    async def use(opened: client.AsyncImageStream) -> None:
        await opened.classify("m", [FILE])
        assert await asyncio.to_thread(begun.wait, 30)
        opened.cancel()
        with pytest.raises(client.Error) as caught:
            async for _ in opened:
                pass
        assert caught.value.code == "CANCELLED"

    ask(stream, use)
    assert ended.wait(30)


def test_a_timeout_of_the_stream_ends_it() -> None:
    release = threading.Event()

    def stream(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
        release.wait(30)
        yield from ()

    async def use(opened: client.AsyncImageStream) -> None:
        with pytest.raises(client.TimedOut, match=r"within 0\.2 s"):
            async for _ in opened:
                pass
        release.set()

    ask(stream, use, timeout=0.2)
    with pytest.raises(ValueError, match="ahead is 0"):
        ask(stream, use, ahead=0)
