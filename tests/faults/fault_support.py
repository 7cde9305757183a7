"""What the fault tests share: good and bad requests, a raw way in, and what an error must look like."""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import pathlib
import re
import time
import urllib.request
from collections.abc import Callable

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from http_caller import HttpCaller, HttpRefusal
from PIL import Image
from running_server import Server
from tritonclient.grpc import service_pb2

MODEL = "shapes"
SIZE = 64
SERVICE = "/inference.GRPCInferenceService/"
# A fault may not make the server grow by more than this: its largest message, of 33 MiB, received and once more in one
# piece, and as much again for what gRPC and malloc keep of thousands of calls at a time.
RESIDENT_BOUND = 128 << 20


def pixel_values(batch: int = 1, fill: float | None = None) -> np.ndarray:
    values = np.random.default_rng(0).standard_normal(
        (batch, 3, SIZE, SIZE), dtype=np.float32
    )
    return np.full_like(values, fill) if fill is not None else values


def picture(
    format: str = "JPEG", size: tuple[int, int] = (80, 60), mode: str = "RGB", **options
) -> bytes:
    values = np.random.default_rng(1).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(values).convert(mode).save(out, format, **options)
    return out.getvalue()


def bytes_tensor(*elements: bytes) -> bytes:
    return b"".join(
        len(element).to_bytes(4, "little") + element for element in elements
    )


def infer_request(
    name: str = "pixel_values",
    datatype: str = "FP32",
    shape: tuple[int, ...] = (1, 3, SIZE, SIZE),
    raw: list[bytes] | None = None,
    model: str = MODEL,
    **fields,
) -> service_pb2.ModelInferRequest:
    """A ModelInferRequest that is good unless told otherwise."""
    request = service_pb2.ModelInferRequest(model_name=model, **fields)
    request.inputs.add(name=name, datatype=datatype, shape=shape)
    request.raw_input_contents.extend(
        [pixel_values().tobytes()] if raw is None else raw
    )
    return request


def image_request(*files: bytes, **fields) -> service_pb2.ModelInferRequest:
    return infer_request(
        "image", "BYTES", (len(files), 1), [bytes_tensor(*files)], **fields
    )


def add_identity(
    repository: pathlib.Path, name: str = "identity", side: int = SIZE
) -> pathlib.Path:
    """A model that answers the pixels it gets, at its size. Gives the repository."""
    model = repository / name
    (model / "1").mkdir(parents=True)
    (model / "model.textproto").write_text(
        f'spec_version: 1\nbackbone: "identity"\nimage_height: {side}\nimage_width: {side}\n'
        "advertised_input: IMAGE_RGB\nrandom_weights { seed: 1 }\n"
    )
    return repository


def write_in_spec(repository: pathlib.Path, *lines: str) -> None:
    """Puts lines into the model's description, in place of those of the same fields."""
    spec = repository / MODEL / "model.textproto"
    fields = {re.match(r"\w+", line).group() for line in lines}
    kept = [
        line
        for line in spec.read_text().splitlines()
        if re.match(r"\w*", line).group() not in fields
    ]
    spec.write_text("\n".join([*kept, *lines, ""]))


def hold_last_of_odd(repository: pathlib.Path, seconds: int) -> None:
    """Flood's requests are half a batch each: of an odd number the last waits so long for a partner."""
    write_in_spec(
        repository,
        "max_batch_size: 16",
        f"dynamic_batching {{ max_queue_delay_microseconds: {seconds * 10**6} }}",
    )


def identity_request(
    side: int = SIZE, model: str = "identity", **fields
) -> service_pb2.ModelInferRequest:
    """For a model of add_identity."""
    pixels = bytes(side * side * 3)
    return infer_request(
        "image_rgb", "UINT8", (1, side, side, 3), [pixels], model, **fields
    )


class Caller:
    """Calls any method of the server with any bytes, on a connection of its own."""

    def __init__(self, address: str, tls: grpc.ChannelCredentials | None = None):
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                   ("grpc.max_metadata_size", 1 << 20),
                   ("grpc.use_local_subchannel_pool", 1)]  # fmt: skip
        self.channel = (
            grpc.secure_channel(address, tls, options=options)
            if tls
            else grpc.insecure_channel(address, options=options)
        )

    def send(
        self,
        payload: bytes,
        method: str = SERVICE + "ModelInfer",
        timeout: float = 30,
        **options,
    ) -> bytes:
        call = self.channel.unary_unary(
            method
        )  # no serializers: bytes go in and come out
        return call(payload, timeout=timeout, **options)

    def answer(
        self, request: service_pb2.ModelInferRequest, **options
    ) -> tuple[np.ndarray, dict]:
        """The one output, and the parameters of the answer."""
        response = service_pb2.ModelInferResponse.FromString(
            self.send(request.SerializeToString(), **options)
        )
        (output,) = response.outputs
        type = {"FP32": np.float32, "UINT8": np.uint8}[output.datatype]
        if response.raw_output_contents:
            values = np.frombuffer(response.raw_output_contents[0], type)
        else:  # in the form of the request's inputs
            values = np.array(output.contents.fp32_contents, type)
        parameters = {
            key: getattr(one, one.WhichOneof("parameter_choice"))
            for key, one in response.parameters.items()
        }
        return values.reshape(output.shape), parameters

    def infer(self, request: service_pb2.ModelInferRequest, **options) -> np.ndarray:
        return self.answer(request, **options)[0]

    def load(self, model: str, config: str | None = None, timeout: float = 60) -> None:
        request = service_pb2.RepositoryModelLoadRequest(model_name=model)
        if config is not None:
            request.parameters["config"].string_param = config
        self.send(
            request.SerializeToString(),
            method=SERVICE + "RepositoryModelLoad",
            timeout=timeout,
        )

    def unload(self, model: str) -> None:
        request = service_pb2.RepositoryModelUnloadRequest(model_name=model)
        method = SERVICE + "RepositoryModelUnload"
        self.send(request.SerializeToString(), method=method, timeout=60)

    def close(self) -> None:
        self.channel.close()

    def refused(
        self, request: service_pb2.ModelInferRequest | bytes, **options
    ) -> grpc.RpcError:
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        with pytest.raises(grpc.RpcError) as error:
            self.send(payload, **options)
        return error.value


def both(server: Server) -> list[Caller | HttpCaller]:
    """A caller over either protocol."""
    return [Caller(server.grpc), HttpCaller(server.http)]


def refusal_of(call) -> grpc.RpcError:
    """The error that `call` ends with, over either protocol."""
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value


def in_parallel(caller: Caller | HttpCaller, requests: list, timeout: float = 60):
    """What became of each of the requests, which are sent at the same time: (values, parameters), or the error."""

    def ask(request):
        try:
            return caller.answer(request, timeout=timeout)
        except grpc.RpcError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(ask, requests))


def reason(error: grpc.RpcError) -> str:
    return dict(error.trailing_metadata() or ()).get("fovea-reason", "")


def expect(error: grpc.RpcError, code: str, reason_prefix: str = "") -> None:
    """The status, its reason, and a message that says something without showing the server's insides."""
    assert error.code() == getattr(grpc.StatusCode, code), (
        error.code(),
        error.details(),
    )
    assert reason(error).startswith(reason_prefix), (reason(error), error.details())
    if isinstance(error, HttpRefusal):
        error.expect_shape()
    text = error.details()
    assert len(text) > 5
    for inside in (
        "/work",
        "/root",
        "/usr",
        ".cc:",
        "c10::",
        "cv::",
        "Exception",
        str(pathlib.Path.home()),
    ):
        assert inside not in text, text
    assert not re.search(r"\b0x", text), text  # an address


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


def gauge(text: str, name: str) -> float:
    """The sum over all series of a metric."""
    return sum(
        float(value)
        for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
    )


def arrived(address: str) -> float:
    """The inference requests that have come so far: unlike those in flight, they never become fewer."""
    text = scrape(address)
    return gauge(text, "fovea_requests_total") + gauge(text, "fovea_inflight_requests")


def wait_until(condition, timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def expect_memory_bounded(server: Server, resident: int, timeout: float = 30) -> None:
    """The server holds hardly more than `resident` bytes, as soon as it has let go of what it answered.

    A caller has its answer before the server frees the request: where the machine is busy, long before. What is never
    freed fails here.
    """
    end = time.monotonic() + timeout
    while (grown := server.resident_bytes() - resident) >= RESIDENT_BOUND:
        assert time.monotonic() < end, (
            f"{timeout:.0f} s after the fault the server holds {grown >> 20} MiB more than before it, and "
            f"{RESIDENT_BOUND >> 20} MiB are the bound"
        )
        time.sleep(0.1)


@contextlib.contextmanager
def leaves_unharmed(server: Server, ask: Callable[[], object], before: object):
    """What holds after every fault (docs/faults.md): the server lives, the next good requests, which `ask` sends, have the
    answers `before`, to the bit, and memory is bounded."""
    resident = server.resident_bytes()
    yield
    assert server.alive()
    np.testing.assert_equal(ask(), before)
    expect_memory_bounded(server, resident)


def ask_both(server: Server) -> list[np.ndarray]:
    """The good request over both protocols."""
    callers = both(server)
    answers = [caller.infer(infer_request()) for caller in callers]
    for caller in callers:
        caller.close()
    return answers


def health_of(address: str, service: str) -> int:
    with grpc.insecure_channel(address) as channel:
        return (
            health_pb2_grpc.HealthStub(channel)
            .Check(health_pb2.HealthCheckRequest(service=service))
            .status
        )


def flood(address: str, count: int) -> list:
    caller = Caller(address)
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    values = pixel_values(8)
    payload = infer_request(
        shape=values.shape, raw=[values.tobytes()]
    ).SerializeToString()
    # (A deadline that nobody reaches: a slow machine would refuse what it cannot meet.)
    return [(caller, call.future(payload, timeout=300)) for _ in range(count)]
