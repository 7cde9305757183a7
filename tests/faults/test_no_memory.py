"""Row 39 of docs/faults.md: one allocation of 64 KiB or more fails, at many points of each kind of request but a load."""

from __future__ import annotations

import ctypes
import json
import mmap
import pathlib
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
from fault_support import Caller, image_request, infer_request, picture, pixel_values
from http_caller import HttpCaller, HttpRefusal, lines_of
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import vision_pb2

# Smaller allocations are not guarded: where those fail, nothing can go on (base/out_of_memory.h).
LEAST_BYTES = 64 << 10
# Of what one request allocates: the first, and others spread over the rest.
TRIED = 24
FEWER_TRIED = {"compare": 10}  # a comparison takes a tenth of a second
MODELS = ("shapes", "detector_key_only", "segmenter_key_only")


class Control(ctypes.Structure):
    """As failing_allocations.c has it."""

    _fields_ = [("fails", ctypes.c_long), ("counted", ctypes.c_long), ("failed", ctypes.c_long)]  # fmt: skip


class Allocations:
    """Of a server that failing_allocations.c is loaded into."""

    def __init__(self, file: pathlib.Path):
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as shared:
            self._memory = mmap.mmap(shared.fileno(), 0)
        self._control = Control.from_buffer(self._memory)

    def counted_in(self, ask: Callable[[], object]) -> int:
        self._control.fails = 0
        self._control.counted = 0
        ask()
        return self._control.counted

    def let_fail(self, number: int) -> None:
        self._control.failed = 0
        self._control.counted = 0
        self._control.fails = number

    def have_failed(self) -> bool:
        failed = self._control.failed > 0
        self._control.fails = 0
        return failed


@pytest.fixture(scope="module")
def starved(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Server, Allocations]]:
    folder = tmp_path_factory.mktemp("starved")
    library = folder / "failing_allocations.so"
    source = pathlib.Path(__file__).with_name("failing_allocations.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    allocations = Allocations(folder / "allocations")
    server = Server(
        folder / "server.log",
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *(part for model in MODELS for part in ("--load-model", model)),
        *("--threads", "1", "--imaging-threads", "1", "--enable-experiments"),
        environment={
            "LD_PRELOAD": str(library),
            "FOVEA_TEST_ALLOCATIONS": str(folder / "allocations"),
            "FOVEA_TEST_LEAST_BYTES": str(LEAST_BYTES),
            "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
        },
    )
    yield server, allocations
    assert server.terminate() == 0
    server.close()


PICTURE = picture(size=(640, 480))


def json_of(batch: int, fields: int = 0) -> bytes:
    """ModelInfer's body in JSON; each of `fields` is a string that its reader has to unescape."""
    values = np.random.default_rng(0).standard_normal((batch, 3, 64, 64)).tolist()
    tensor = {"name": "pixel_values", "datatype": "FP32", "shape": [batch, 3, 64, 64], "data": values}  # fmt: skip
    notes = {f"note\n{number}": "é" * 50 for number in range(fields)}
    return json.dumps({"inputs": [tensor], "parameters": notes}).encode()


def post(path: str, body: bytes, **fields: str) -> Callable[[Server], object]:
    return lambda server: HttpCaller(server.http).ask("POST", path, body, **fields)


def vision(
    task: str, model: str, accept: str = "application/json"
) -> Callable[[Server], object]:
    query = urllib.parse.urlencode({"model": model})
    return post(f"/v1/{task}?{query}", PICTURE, Accept=accept, Content_Type="image/jpeg")  # fmt: skip


class StreamRefusal(grpc.RpcError):
    """The error of one request of a stream, with the interface of a call's error."""

    def __init__(self, error: vision_pb2.RequestError):
        super().__init__(error.message)
        self._error = error

    def code(self) -> grpc.StatusCode:
        return next(one for one in grpc.StatusCode if one.value[0] == self._error.code)

    def details(self) -> str:
        return self._error.message


def stream(server: Server) -> None:
    """Two pictures over one call, which goes on after an error."""
    one = vision_pb2.StreamImagesRequest(classify={"model_name": "shapes", "images": [PICTURE]})  # fmt: skip
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.stream_stream(
            "/fovea.v1.VisionService/StreamImages",
            request_serializer=vision_pb2.StreamImagesRequest.SerializeToString,
            response_deserializer=vision_pb2.StreamImagesResponse.FromString,
        )
        answers = list(call(iter([one, one]), timeout=30))
    assert [answer.number for answer in answers] == [0, 1]
    for answer in answers:
        if answer.HasField("error"):
            raise StreamRefusal(answer.error)


def compare(server: Server) -> None:
    query = "model=shapes&attention=knn:k=9&rounds=2&max_rounds=2"
    request = urllib.request.Request(f"http://{server.http}/v1/compare?{query}", PICTURE)  # fmt: skip
    assert "comparison" in list(lines_of(request, timeout=30))[-1]


def tensors(
    connect: Callable[[Server], Caller | HttpCaller],
) -> Callable[[Server], object]:
    """ModelInfer of pixels in bytes."""
    values = pixel_values(batch=8)
    request = infer_request(shape=values.shape, raw=[values.tobytes()])
    return lambda server: connect(server).infer(request)


# Loads are not among them: oneDNN, as LibTorch 2.11 has it, writes through null where it gets no memory for the description of a
# product.
REQUESTS: dict[str, Callable[[Server], object]] = {
    "an image over gRPC": lambda server: Caller(server.grpc).infer(image_request(PICTURE)),
    "tensors over HTTP": tensors(lambda server: HttpCaller(server.http)),
    "a stream of images": stream,
    "compare": compare,
    "infer in JSON": post("/v2/models/shapes/infer", json_of(batch=4)),
    "infer in JSON with strings": post("/v2/models/shapes/infer", json_of(batch=4, fields=16)),
    "classify": vision("classify", "shapes"),
    "detect": vision("detect", "detector_key_only"),
    "detect and draw": vision("detect", "detector_key_only", "image/png"),
    "segment": vision("segment", "segmenter_key_only"),
    "segment and draw": vision("segment", "segmenter_key_only", "image/png"),
    "explain and draw": post(
        "/v1/explain?model=shapes&method=rollout", PICTURE, Accept="image/png", Content_Type="image/jpeg"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REQUESTS)
def test_row_39_where_a_large_allocation_fails_the_caller_is_told_and_the_server_lives(
    starved: tuple[Server, Allocations], kind: str
):
    server, allocations = starved
    ask = REQUESTS[kind]
    ask(server)  # what is made once is not the request's
    count = allocations.counted_in(lambda: ask(server))
    assert count > 0, "nothing of this request can be let fail"
    injected = refused = 0
    tried = FEWER_TRIED.get(kind, TRIED)
    for number in sorted({1 + place * count // tried for place in range(tried)}):
        allocations.let_fail(number)
        try:
            ask(server)
        except (grpc.RpcError, HttpRefusal) as error:
            refused += 1
            assert error.code() == grpc.StatusCode.UNAVAILABLE, (number, str(error))
            assert "llocat" not in error.details(), "a library's words"
        injected += allocations.have_failed()
        assert server.alive(), (number, server.lines()[-5:])
        ask(server)  # as good as before, and at once
    assert injected > 0
    assert refused > 0, "no allocation that failed was the request's own"
