"""fovea.client's streams: what goes out and what is made of the answers. tests/conformance asks the real server."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import pathlib
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fake_vision import class_map, classes, objects
from fovea import client
from fovea.v1 import vision_pb2

FILE = b"a picture"
CLASSIFIED = classes((3, "yak", 0.5))
Streamed = vision_pb2.StreamImagesResponse


@contextlib.contextmanager
def serving(
    stream: Callable[[Iterator, grpc.ServicerContext], Iterator], **options: Any
) -> Iterator[client.Client]:
    """A client of a server whose StreamImages is `stream`."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    handler = grpc.stream_stream_rpc_method_handler(
        stream,
        request_deserializer=vision_pb2.StreamImagesRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "fovea.v1.VisionService", {"StreamImages": handler}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with client.Client(f"127.0.0.1:{port}", **options) as asked:
            yield asked
    finally:
        server.stop(None).wait()


def classified(number: int, *, pictures: int = 1, id: str = "") -> Any:
    response = vision_pb2.ClassifyResponse(results=[CLASSIFIED] * pictures)
    return Streamed(number=number, id=id, classify=response)


def test_an_experiments_key_is_of_all_requests():
    def stream(requests: Iterator, context: grpc.ServicerContext) -> Iterator:
        key = dict(context.invocation_metadata()).get("fovea-experiment-key", "")
        receipt = vision_pb2.Receipt(experiment_arm=f"shapes/{key}")
        for number, _ in enumerate(requests):
            answer = vision_pb2.ClassifyResponse(results=[CLASSIFIED], receipt=receipt)
            yield Streamed(number=number, classify=answer)

    with serving(stream) as asked:
        with asked.stream(experiment_key="camera 3") as written:
            written.classify("a", [FILE])
            written.classify("b", [FILE])
            written.writes_done()
            arms = [one.answer.receipt.experiment_arm for one in written]
        with pytest.raises(ValueError, match="printable ASCII"):
            asked.stream(experiment_key="line\nbreak")
    assert arms == ["shapes/camera 3"] * 2


def test_each_request_goes_out_with_its_options_and_comes_back_typed():
    seen: list[Any] = []
    pixels = np.array([[1, 1, 2]], np.uint8)
    found = {"box": [2, 1, 6, 4], "score": 0.75, "index": 2, "label": "cat"}
    tasks = {
        "classify": vision_pb2.ClassifyResponse(results=[CLASSIFIED] * 2),
        "detect": vision_pb2.DetectResponse(results=[objects((5, 7), found)]),
        "segment": vision_pb2.SegmentResponse(results=[class_map(pixels, {1: "cat"})]),
    }

    def stream(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
        for number, request in enumerate(requests):
            seen.append(request)
            task = request.WhichOneof("task")
            sent = getattr(request, task)
            yield Streamed(number=number, id=sent.id, **{task: tasks[task]})

    with serving(stream, timeout=7) as server, server.stream() as opened:
        opened.classify("m", [FILE] * 2, top_k=2, version="7", priority=1, id="first")
        opened.detect("n", [FILE], masks=True, classes=("cat",), timeout=1e-9)
        opened.segment("o", [FILE], confidence=True, timeout=float("inf"))
        opened.writes_done()
        first, second, third = opened
    assert [one.order for one in seen] == [seen[0].IN_ORDER] * 3
    assert seen[0].timeout_us == 7_000_000  # the client's
    assert seen[1].timeout_us == 1  # 0 would be none
    assert seen[2].timeout_us > 1e15
    asked = seen[0].classify
    assert (asked.model_name, asked.model_version, asked.id) == ("m", "7", "first")
    assert (asked.top_k, asked.priority, list(asked.images)) == (2, 1, [FILE] * 2)
    assert seen[1].detect.mask_format == vision_pb2.DetectRequest.RUN_LENGTHS
    assert list(seen[1].detect.classes) == ["cat"]
    assert seen[2].segment.confidence
    assert (first.number, first.id, first.error) == (0, "first", None)
    assert [one.labels for one in first.answer.images] == [["yak"]] * 2
    assert first.answer.round_trip_seconds > 0
    assert second.answer.images[0].boxes.tolist() == [[2, 1, 6, 4]]
    np.testing.assert_array_equal(third.answer.images[0].class_map, pixels)


def test_answers_that_come_out_of_order_belong_to_their_requests():
    def stream(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
        taken = list(requests)
        assert all(one.order == one.AS_THEY_COME for one in taken)
        for number in reversed(range(len(taken))):
            yield classified(number, pictures=len(taken[number].classify.images))

    with serving(stream) as server, server.stream(in_order=False) as opened:
        for count in (1, 2, 3):
            opened.classify("m", [FILE] * count)
        opened.writes_done()
        answers = list(opened)
    assert [one.number for one in answers] == [2, 1, 0]
    assert [len(one.answer.images) for one in answers] == [3, 2, 1]


def test_a_failed_request_has_the_servers_code_reason_and_sentence():
    def stream(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
        for number, _request in enumerate(requests):
            code, reason, message = [
                (3, "image.truncated", "the file ends too early"),
                (4, "deadline.passed", "too late"),
                (14, "queue.full", "the model's queue is full"),
                (99, "", "a code of the future"),
            ][number]
            error = vision_pb2.RequestError(code=code, reason=reason, message=message)
            yield Streamed(number=number, id=f"{number}", error=error)

    with serving(stream) as server, server.stream() as opened:
        opened.feed(range(4), lambda _: opened.classify("m", [FILE]))
        answers = list(opened)
    assert [one.id for one in answers] == ["0", "1", "2", "3"]
    assert all(one.answer is None for one in answers)
    errors = [one.error for one in answers]
    assert (
        str(errors[0]) == "the file ends too early [INVALID_ARGUMENT image.truncated]"
    )
    assert [type(one) for one in errors] == [
        client.Error,
        client.TimedOut,
        client.Error,
        client.Error,
    ]
    assert [one.code for one in errors[2:]] == ["UNAVAILABLE", "UNKNOWN"]


def test_answers_that_do_not_fit_their_requests_are_errors():
    def stream(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
        for _request in requests:
            pass
        yield classified(7)
        yield classified(0, pictures=2)
        yield classified(0)  # again
        yield Streamed(number=1, detect=vision_pb2.DetectResponse())
        yield Streamed(number=2)

    with serving(stream) as server, server.stream() as opened:
        for _ in range(3):
            opened.classify("m", [FILE])
        opened.writes_done()
        errors = [one.error for one in opened]
    assert [one.code for one in errors] == ["INTERNAL"] * 5
    assert [one.message for one in errors] == [
        "the server answered request 7, which waits for no answer",
        "the server answered 2 results to 1 pictures",
        "the server answered request 0, which waits for no answer",
        "the server answered detect to classify",
        "the server's answer has no result",
    ]


def test_a_stream_that_the_server_ends_says_why_to_reader_and_writer():
    def stream(requests: Iterator, context: grpc.ServicerContext) -> Iterator:
        next(requests)
        yield classified(0)
        context.set_trailing_metadata((("fovea-reason", "server.stopping"),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    with serving(stream) as server, server.stream() as opened:
        opened.feed(range(1000), lambda _: opened.classify("m", [FILE]))
        assert next(opened).answer
        for _ in range(2):
            with pytest.raises(client.Error, match="is stopping") as caught:
                next(opened)
            assert caught.value.reason == "server.stopping"
            assert not isinstance(caught.value, client.Unreachable)
        with pytest.raises(client.Error, match="is stopping"):
            while True:
                opened.classify("m", [FILE])


def test_without_a_server_the_stream_is_unreachable():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with client.Client(address) as server, server.stream() as opened:
        with pytest.raises(client.Unreachable, match=address):
            next(opened)
        with pytest.raises(client.Unreachable, match=address):
            while True:
                opened.classify("m", [FILE])


def echo(requests: Iterator, _: grpc.ServicerContext) -> Iterator:
    for number, _request in enumerate(requests):
        yield classified(number)


@pytest.mark.parametrize("ahead", [1, 3])
def test_a_feed_takes_the_next_item_when_there_is_room(ahead: int):
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    with serving(echo) as server, server.stream(ahead=ahead) as opened:
        opened.feed(items(), lambda _: opened.classify("m", [FILE]))
        for read, answer in enumerate(opened, start=1):
            assert answer.number == read - 1
            assert read <= taken <= read + ahead + 1
    assert read == taken == 100


def test_an_exception_of_the_feed_reaches_the_reader():
    def items() -> Iterator[int]:
        yield 0
        raise OSError("the camera is unplugged")

    with serving(echo) as server, server.stream() as opened:
        opened.feed(items(), lambda _: opened.classify("m", [FILE]))
        with pytest.raises(OSError, match="unplugged"):
            list(opened)


def test_nothing_is_written_after_the_writes_are_done():
    with serving(echo) as server, server.stream() as opened:
        opened.writes_done()
        with pytest.raises(ValueError, match="after writes_done"):
            opened.classify("m", [FILE])
        assert list(opened) == list(opened) == []
        with pytest.raises(client.Error, match="has ended"):
            opened.classify("m", [FILE])


def test_closing_the_client_ends_its_streams_and_refuses_new_ones():
    with serving(echo) as server:
        opened = server.stream()
        opened.classify("m", [FILE])
        assert next(opened).answer
        threading.Timer(0.2, server.close).start()
        with pytest.raises(client.Error) as caught:
            next(opened)
        assert caught.value.code == "CANCELLED"
        with pytest.raises(client.Error, match="client is closed"):
            server.stream()


def test_a_stream_that_nobody_holds_is_cancelled():
    ended = threading.Event()

    def stream(requests: Iterator, context: grpc.ServicerContext) -> Iterator:
        context.add_callback(ended.set)
        return echo(requests, context)

    with serving(stream) as server:
        opened = server.stream()
        opened.classify("m", [FILE])
        assert next(opened).answer
        gone = weakref.ref(opened)
        del opened
        gc.collect()
        assert gone() is None and ended.wait(30)


@pytest.mark.parametrize("options", [{"ahead": 0}, {"timeout": 0}, {"timeout": -1}])
def test_bounds_are_above_zero(options: dict):
    with (
        client.Client("127.0.0.1:8001") as server,
        pytest.raises(ValueError, match="above zero"),
    ):
        server.stream(**options)
