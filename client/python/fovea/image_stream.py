"""Many requests over one call, as a camera, a video or a folder has them."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

import grpc

from fovea.errors import Error, check_timeout, error_of_request
from fovea.pictures import Picture
from fovea.requests import (
    Expected,
    Request,
    to_classify,
    to_detect,
    to_segment,
)
from fovea.results import Answer, Classification, Detections, Segmentation
from fovea.v1 import vision_pb2

_LONGEST_US = 1 << 62

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True, eq=False)
class StreamedAnswer:
    """To one request: `answer`, or `error` where the request failed."""

    number: int  # of the request: the first that was written has 0
    id: str  # the request's
    answer: Answer[Classification] | Answer[Detections] | Answer[Segmentation] | None
    error: Error | None  # what the request's own call would have raised


def order_of(in_order: bool) -> Any:
    wanted = vision_pb2.StreamImagesRequest
    return wanted.IN_ORDER if in_order else wanted.AS_THEY_COME


def message_of(request: Request[Any], order: Any, timeout: float | None) -> Any:
    """A stream's message with this request. ValueError: `timeout` is not above zero."""
    check_timeout(timeout)
    return vision_pb2.StreamImagesRequest(
        **{request.expected.task: request.message},
        order=order,
        # 0 would be none.
        timeout_us=0
        if timeout is None
        else max(1, int(min(timeout * 1e6, _LONGEST_US))),
    )


def streamed_answer(
    message: Any, expected: Expected[Any] | None, start: float
) -> StreamedAnswer:
    """The server's message, to a request that expects this and was written at `start`; None: to none that waits."""
    answer: Answer[Any] | None = None
    failed: Error | None = None
    try:
        answer = _answer_in(message, expected, start)
    except Error as error:
        failed = error
    return StreamedAnswer(message.number, message.id, answer, failed)


def _answer_in(
    message: Any, expected: Expected[Any] | None, start: float
) -> Answer[Any]:
    kind = message.WhichOneof("answer")
    if expected is None:
        what = f"request {message.number}, which waits for no answer"
        raise Error("INTERNAL", "", f"the server answered {what}")
    if kind == "error":
        raise error_of_request(message.error)
    if kind is None:
        raise Error("INTERNAL", "", "the server's answer has no result")
    if kind != expected.task:
        raise Error("INTERNAL", "", f"the server answered {kind} to {expected.task}")
    return expected.answer_of(getattr(message, kind), time.monotonic() - start)


class ImageStream:
    """Requests are written, answers are iterated over. Made by Client.stream; leaving `with` cancels what is under way.

    Writing waits while the answers of `ahead` requests (Client.stream) have not been read, and while the server takes no more.
    So one thread writes while another reads, as `feed` does: one that writes everything before it reads may wait for ever.

    Any threads may write, one reads; `cancel` is thread-safe too. The iteration ends after `writes_done` and the last
    answer. An Error that it raises, or that a write raises, is the whole stream's: Client's errors, with UNAVAILABLE and
    a reason where the server stops, which has answered what it had taken. That of one request comes as an answer.
    """

    def __init__(
        self,
        begin: Callable[[Iterator[Any]], Any],
        error_of: Callable[[grpc.RpcError], Error],
        *,
        in_order: bool,
        ahead: int,
        request_timeout: float | None,
    ) -> None:
        """begin: makes gRPC's call that sends these messages."""
        self._error_of, self._request_timeout = error_of, request_timeout
        self._order = order_of(in_order)
        self._messages = _Messages(ahead)
        self._failure: Exception | None = None  # what `feed` met
        self._call = begin(self._messages)
        # gRPC takes no more messages when the call has ended: who waits to write has to hear of it.
        if not self._call.add_callback(self._messages.stop):
            self._messages.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def classify(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        top_k: int = 5,
        version: str = "",
        priority: int = 0,
        id: str = "",
        timeout: float | None = None,
    ) -> int:
        """Writes a request, with Client.classify's options; waits while no more are taken. Its number.

        id: comes back with the answer. timeout: seconds from the request's arrival at the server; after them the answer
        is a TimedOut. None: the client's.
        """
        return self._write(
            to_classify(
                model, pictures, top_k=top_k, version=version, priority=priority, id=id
            ),
            timeout,
        )

    def detect(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        score_threshold: float = 0,
        max_detections: int = 0,
        classes: Iterable[str] = (),
        masks: bool = False,
        version: str = "",
        priority: int = 0,
        id: str = "",
        timeout: float | None = None,
    ) -> int:
        """As `classify`, with Client.detect's options."""
        return self._write(
            to_detect(
                model,
                pictures,
                score_threshold=score_threshold,
                max_detections=max_detections,
                classes=classes,
                masks=masks,
                version=version,
                priority=priority,
                id=id,
            ),
            timeout,
        )

    def segment(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        confidence: bool = False,
        version: str = "",
        priority: int = 0,
        id: str = "",
        timeout: float | None = None,
    ) -> int:
        """As `classify`, with Client.segment's options."""
        return self._write(
            to_segment(
                model,
                pictures,
                confidence=confidence,
                version=version,
                priority=priority,
                id=id,
            ),
            timeout,
        )

    def writes_done(self) -> None:
        """No more will be written: the iteration ends with the last answer."""
        self._messages.finish()

    def feed(self, items: Iterable[Item], write: Callable[[Item], Any]) -> Self:
        """Calls `write`, which writes to the stream, with one item after the other, on a thread of its own.

        for answer in stream.feed(camera, lambda frame: stream.detect("finder", [frame])): ...

        The next item is taken when the stream has taken the requests of the one before it. After the last one nothing
        more is written. An exception of `items` or of `write` cancels the stream, and is raised where it is read.
        """

        def run() -> None:
            try:
                for item in items:
                    write(item)
            except Exception as error:  # noqa: BLE001 - any, of a thread that has no caller
                # The reader learns by itself why the stream has ended.
                if not self._messages.stopped:
                    self._failure = error
                    self.cancel()
            self.writes_done()

        threading.Thread(target=run, name="fovea-feed", daemon=True).start()
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamedAnswer:
        """Waits for the next answer."""
        try:
            message = next(self._call)
        except grpc.RpcError as error:
            if self._failure is not None:
                raise self._failure from None
            raise self._error_of(error) from error
        expected, start = self._messages.take(message.number)
        return streamed_answer(message, expected, start)

    def cancel(self) -> None:
        """Drops the requests under way; the stream ends with CANCELLED. Nothing, where it has ended."""
        self._call.cancel()

    def _write(self, request: Request[Any], timeout: float | None) -> int:
        timeout = self._request_timeout if timeout is None else timeout
        message = message_of(request, self._order, timeout)
        number = self._messages.put(message, request.expected)
        if number is not None:
            return number
        if self._call.code() is grpc.StatusCode.OK:
            raise Error("CANCELLED", "", "the stream has ended")
        raise self._error_of(self._call)


class _Messages:
    """Those on their way, as the iterator that gRPC's thread takes one from when the one before it is sent.

    One place: a writer waits until the message before its own has been taken. It waits too while the answers of `ahead`
    requests have not been read: gRPC alone would take thousands, as it holds megabytes of answers, and most are small.
    Thread-safe.
    """

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._changed = threading.Condition()
        self._next: Any = None
        self._finished = False
        self._count = 0
        # Whose answer has not been read, by number; with the time of writing.
        self._waiting: dict[int, tuple[Expected[Any], float]] = {}
        self.stopped = False  # as the call has ended

    def put(self, message: Any, expected: Expected[Any]) -> int | None:
        """The request's number. None: the call has ended. ValueError: nothing more was to be written."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    (self._next is None and len(self._waiting) < self._ahead)
                    or self._finished
                    or self.stopped
                )
            )
            if self.stopped:
                return None
            if self._finished:
                raise ValueError("a request was written after writes_done")
            number = self._count
            self._waiting[number] = expected, time.monotonic()
            self._next = message
            self._count += 1
            self._changed.notify_all()
            return number

    def finish(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        with self._changed:
            self._changed.wait_for(
                lambda: self._next is not None or self._finished or self.stopped
            )
            if self.stopped or self._next is None:
                raise StopIteration
            message, self._next = self._next, None
            self._changed.notify_all()
            return message

    def take(self, number: int) -> tuple[Expected[Any] | None, float]:
        """What the request whose answer has come expects, and when it was written; None: no such one waits."""
        with self._changed:
            found = self._waiting.pop(number, (None, 0.0))
            self._changed.notify_all()
            return found
