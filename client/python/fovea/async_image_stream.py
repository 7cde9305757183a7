"""Many requests over one call, from asyncio: fovea.image_stream's, with the same options, answers and errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Self, TypeVar, Unpack

import grpc
import grpc.aio

from fovea.errors import Error
from fovea.image_stream import StreamedAnswer, message_of, order_of, streamed_answer
from fovea.pictures import Picture
from fovea.requests import (
    ClassifyOptions,
    DetectOptions,
    Expected,
    Request,
    SegmentOptions,
    to_classify,
    to_detect,
    to_segment,
)

Item = TypeVar("Item")


class AsyncImageStream:
    """Requests are written, answers are iterated over. Made by AsyncClient.stream; leaving `async with` cancels what is under way.

    As ImageStream: writing waits while the answers of `ahead` requests have not been read, so one task writes while another
    reads, as `feed` does. Any tasks may write, one reads. The iteration ends after `writes_done` and the last answer.
    """

    def __init__(
        self,
        call: Any,
        error_of: Callable[[grpc.RpcError], Error],
        *,
        in_order: bool,
        ahead: int,
        request_timeout: float | None,
    ) -> None:
        """call: gRPC's, which has begun."""
        self._call, self._error_of = call, error_of
        self._order, self._request_timeout = order_of(in_order), request_timeout
        self._room = asyncio.Semaphore(ahead)
        self._writing = asyncio.Lock()
        self._count = 0
        self._finished = self._ended = False
        # Whose answer has not been read, by number; with the time of writing.
        self._waiting: dict[int, tuple[Expected[Any], float]] = {}
        self._feeding: asyncio.Task[None] | None = None
        self._failure: Exception | None = None  # what `feed` met
        call.add_done_callback(self._end)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.gather(self._feeding, return_exceptions=True)

    async def classify(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        id: str = "",
        timeout: float | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> int:
        """As ImageStream.classify: writes a request, its number."""
        request = await asyncio.to_thread(
            to_classify, model, pictures, id=id, **options
        )
        return await self._write(request, timeout)

    async def detect(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        id: str = "",
        timeout: float | None = None,
        **options: Unpack[DetectOptions],
    ) -> int:
        """As ImageStream.detect."""
        request = await asyncio.to_thread(to_detect, model, pictures, id=id, **options)
        return await self._write(request, timeout)

    async def segment(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        id: str = "",
        timeout: float | None = None,
        **options: Unpack[SegmentOptions],
    ) -> int:
        """As ImageStream.segment."""
        request = await asyncio.to_thread(to_segment, model, pictures, id=id, **options)
        return await self._write(request, timeout)

    async def writes_done(self) -> None:
        """No more will be written: the iteration ends with the last answer."""
        async with self._writing:
            self._finished = True
            if not self._ended:
                await self._call.done_writing()

    def feed(
        self,
        items: Iterable[Item] | AsyncIterable[Item],
        write: Callable[[Item], Awaitable[Any]],
    ) -> Self:
        """Awaits `write`, which writes to the stream, with one item after the other, in a task of its own.

        async for answer in stream.feed(camera, lambda frame: stream.detect("finder", [frame])): ...

        As ImageStream.feed: an exception of `items` or of `write` cancels the stream, and is raised where it is read.
        """

        async def run() -> None:
            try:
                if isinstance(items, AsyncIterable):
                    async for item in items:
                        await write(item)
                else:
                    for item in items:
                        await write(item)
                await self.writes_done()
            except Exception as error:  # noqa: BLE001 - any, of a task that nobody awaits
                # The reader learns by itself why the stream has ended.
                if not self._ended:
                    self._failure = error
                    self.cancel()

        self._feeding = asyncio.create_task(run(), name="fovea-feed")
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamedAnswer:
        """Waits for the next answer."""
        try:
            message = await self._call.read()
        except grpc.RpcError as error:
            raise self._why(error) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._call.done() or (task is not None and task.cancelling()):
                raise
            raise self._why(await self._status()) from None
        if message is grpc.aio.EOF:
            status = await self._status()
            if status.code() is grpc.StatusCode.OK:
                raise StopAsyncIteration
            raise self._why(status)
        expected, start = self._waiting.pop(message.number, (None, 0.0))
        if expected is not None:
            self._room.release()
        return streamed_answer(message, expected, start)

    def cancel(self) -> None:
        """Drops the requests under way; the stream ends with CANCELLED. Nothing, where it has ended."""
        self._call.cancel()

    async def _write(self, request: Request[Any], timeout: float | None) -> int:
        timeout = self._request_timeout if timeout is None else timeout
        message = message_of(request, self._order, timeout)
        await self._room.acquire()
        async with self._writing:
            if self._ended:
                self._room.release()  # to the next that waits
                raise await self._end_of_writes()
            if self._finished:
                self._room.release()
                raise ValueError("a request was written after writes_done")
            number = self._count
            self._count += 1
            self._waiting[number] = request.expected, time.monotonic()
            try:
                await self._call.write(message)
            except (grpc.RpcError, asyncio.InvalidStateError):
                raise await self._end_of_writes() from None
            return number

    def _end(self, _: object) -> None:
        """gRPC takes no more messages: who waits to write has to hear of it."""
        self._ended = True
        self._room.release()

    def _why(self, error: grpc.RpcError) -> Exception:
        return self._failure if self._failure is not None else self._error_of(error)

    async def _end_of_writes(self) -> Error:
        status = await self._status()
        if status.code() is grpc.StatusCode.OK:
            return Error("CANCELLED", "", "the stream has ended")
        return self._error_of(status)

    async def _status(self) -> grpc.aio.AioRpcError:
        """How the call has ended."""
        return grpc.aio.AioRpcError(
            await self._call.code(),
            grpc.aio.Metadata(),
            await self._call.trailing_metadata(),
            await self._call.details(),
        )
