"""Rows 1-14, 25 and 36 of docs/faults.md: requests that no client should send."""

from __future__ import annotations

import gzip
import random
import struct

import grpc
import numpy as np
import pytest
from fault_support import (
    MODEL,
    SERVICE,
    SIZE,
    Caller,
    bytes_tensor,
    expect,
    image_request,
    infer_request,
    picture,
    pixel_values,
)
from tritonclient.grpc import service_pb2

CLASSIFY = "/fovea.v1.VisionService/Classify"


@pytest.mark.parametrize("method", [SERVICE + "ModelInfer", CLASSIFY])
def test_row_1_malformed_bytes_are_an_invalid_argument(caller: Caller, method: str):
    good = infer_request().SerializeToString()
    chance = random.Random(0)
    payloads = [
        b"\xff" * 64,
        good[:-1],
        good[: len(good) // 2],
        b"\x0a\xff\xff\xff\xff\x0f",
        bytes(10),
    ]
    payloads += [chance.randbytes(chance.randrange(1, 400)) for _ in range(200)]
    for payload in payloads:
        with pytest.raises(grpc.RpcError) as error:
            caller.send(payload, method=method)
        assert error.value.code() in (
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.NOT_FOUND,
        )
    expect(caller.refused(b"\xff" * 64, method=method), "INVALID_ARGUMENT")


def test_row_1_every_other_method_refuses_malformed_bytes_too(caller: Caller):
    for method in (
        "ModelMetadata",
        "ModelConfig",
        "RepositoryIndex",
        "ModelStatistics",
    ):
        error = caller.refused(b"\xff" * 16, method=SERVICE + method)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, method


def test_row_2_a_deeply_nested_message_is_refused(caller: Caller):
    payload = b""
    for _ in range(
        20_000
    ):  # unknown groups inside each other: start-group tags of field 99
        payload += b"\x9b\x06"
    error = caller.refused(payload)
    assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)


def test_row_3_headers_over_the_limit_are_refused(caller: Caller):
    request = infer_request()
    huge = caller.refused(request, metadata=[("x-huge", "a" * (64 << 10))])
    assert huge.code() in (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
    )
    many = caller.refused(request, metadata=[(f"x-{i}", "b" * 40) for i in range(2000)])
    assert many.code() in (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
    )
    caller.infer(request, metadata=[("x-blob-bin", bytes(range(256)))])


def test_row_4_a_message_over_the_limit_is_refused(start_server, repository):
    server = start_server("--model-repository", repository, "--max-message", "1")
    small = Caller(server.grpc)
    error = small.refused(infer_request(raw=[bytes(2 << 20)]))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    small.infer(infer_request())


def test_row_5_a_compressed_bomb_is_not_unpacked(start_server, repository):
    server = start_server("--model-repository", repository, "--max-message", "4")
    bomber = Caller(server.grpc)
    resident = server.resident_bytes()
    assert len(gzip.compress(bytes(64 << 20))) < 1 << 20
    for _ in range(4):
        error = bomber.refused(
            infer_request(raw=[bytes(64 << 20)]), compression=grpc.Compression.Gzip
        )
        assert error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED,
                                grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)  # fmt: skip
    assert server.resident_bytes() - resident < 128 << 20
    bomber.infer(infer_request())


def test_row_6_millions_of_empty_elements_are_refused(caller: Caller):
    count = 5_000_000
    request = service_pb2.ModelInferRequest(model_name=MODEL)
    tensor = request.inputs.add(name="image", datatype="BYTES", shape=[count, 1])
    payload = request.SerializeToString()
    contents = b"\x42\x00" * count  # bytes_contents = "", so many times
    inner = tensor.SerializeToString() + b"\x2a" + varint(len(contents)) + contents
    expect(
        caller.refused(b"\x0a\x06shapes" + b"\x2a" + varint(len(inner)) + inner),
        "INVALID_ARGUMENT",
    )
    assert payload


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def with_typed_contents() -> service_pb2.ModelInferRequest:
    request = infer_request()
    request.inputs[0].contents.fp32_contents.extend([0.0] * 12)
    return request


def with_two_inputs(first: str, second: str) -> service_pb2.ModelInferRequest:
    request = infer_request(first)
    request.inputs.add(name=second, datatype="FP32", shape=(1, 3, SIZE, SIZE))
    request.raw_input_contents.append(pixel_values().tobytes())
    return request


def with_outputs(*names: str) -> service_pb2.ModelInferRequest:
    request = infer_request()
    for name in names:
        request.outputs.add(name=name)
    return request


INVALID = {
    "row 7: raw and typed contents": with_typed_contents,
    "row 7: fewer raw contents than inputs": lambda: infer_request(raw=[]),
    "row 7: more raw contents than inputs": lambda: infer_request(
        raw=[pixel_values().tobytes()] * 2
    ),
    "row 7: one input twice": lambda: with_two_inputs("pixel_values", "pixel_values"),
    "row 7: two kinds of input": lambda: with_two_inputs("pixel_values", "image"),
    "row 7: unknown input": lambda: infer_request("no_such_input"),
    "row 7: one output twice": lambda: with_outputs("logits", "logits"),
    "row 7: unknown output": lambda: with_outputs("no_such_output"),
    "row 7: no input": lambda: service_pb2.ModelInferRequest(model_name=MODEL),
    "row 8: the shape's product overflows": lambda: infer_request(
        shape=(2**4, 2**60 + 2)
    ),
    "row 8: times the element's size overflows": lambda: infer_request(shape=(2**61,)),
    "row 9: negative dimension": lambda: infer_request(shape=(-1, 3, SIZE, SIZE)),
    "row 9: zero dimension": lambda: infer_request(shape=(0, 3, SIZE, SIZE), raw=[b""]),
    "row 9: rank 9": lambda: infer_request(shape=(1,) * 6 + (3, SIZE, SIZE)),
    "row 9: rank 0": lambda: infer_request(shape=(), raw=[struct.pack("<f", 1)]),
    "row 9: wrong size": lambda: infer_request(
        shape=(1, 3, 32, 32), raw=[bytes(3 * 32 * 32 * 4)]
    ),
    "row 9: more images than a batch": lambda: infer_request(
        shape=(1024, 3, SIZE, SIZE), raw=[bytes(1024 * 3 * SIZE * SIZE * 4)]
    ),
    "row 10: one byte short": lambda: infer_request(
        raw=[pixel_values().tobytes()[:-1]]
    ),
    "row 10: one byte long": lambda: infer_request(
        raw=[pixel_values().tobytes() + b"\0"]
    ),
    "row 10: unknown type": lambda: infer_request(datatype="FP8"),
    "row 10: another type": lambda: infer_request(
        datatype="FP64", raw=[bytes(3 * SIZE * SIZE * 8)]
    ),
    "row 10: length past the end": lambda: infer_request(
        "image", "BYTES", (1, 1), [b"\x10\0\0\0abc"]
    ),
    "row 10: length 2^32-1": lambda: infer_request(
        "image", "BYTES", (1, 1), [b"\xff\xff\xff\xffabc"]
    ),
    "row 10: bytes after the last element": lambda: infer_request(
        "image", "BYTES", (1, 1), [bytes_tensor(picture()) + b"rest"]
    ),
    "row 11: NaN": lambda: infer_request(
        raw=[pixel_values(fill=float("nan")).tobytes()]
    ),
    "row 11: infinity": lambda: infer_request(
        raw=[pixel_values(fill=float("inf")).tobytes()]
    ),
    "row 25: parent folder": lambda: infer_request(model="../shapes"),
    "row 25: absolute path": lambda: infer_request(model="/etc"),
    "row 25: a path": lambda: infer_request(model="a/b"),
    "row 25: percent escapes": lambda: infer_request(model="%2e%2e"),
    "row 25: NUL": lambda: infer_request(model="shapes\0"),
    "row 25: white space": lambda: infer_request(model=" shapes"),
    "row 25: 10 kB": lambda: infer_request(model="a" * 10_000),
    "row 25: look-alike": lambda: infer_request(model="shаpes"),  # a Cyrillic a
    "row 25: empty name": lambda: infer_request(model=""),
    "row 25: version -1": lambda: infer_request(model_version="-1"),
    "row 25: version 0001": lambda: infer_request(model_version="0001"),
    "row 25: version 2^64": lambda: infer_request(model_version=str(2**64)),
    "row 25: version text": lambda: infer_request(model_version="latest"),
}


@pytest.mark.parametrize("case", INVALID, ids=list(INVALID))
def test_rows_7_to_11_and_25_are_invalid_arguments(caller: Caller, case: str):
    expect(caller.refused(INVALID[case]()), "INVALID_ARGUMENT")


def test_row_11_denormals_are_numbers(caller: Caller):
    assert np.isfinite(
        caller.infer(infer_request(raw=[pixel_values(fill=1e-42).tobytes()]))
    ).all()


def test_row_12_an_output_that_is_not_finite_fails_its_own_request_only(
    start_server, repository
):
    """Where a model lets them in, infinities reach its output: an error for that request, in a batch with good ones."""
    spec = repository / MODEL / "model.textproto"
    spec.write_text(spec.read_text() + "\nallow_non_finite: true\n")
    server = start_server("--model-repository", repository)
    caller = Caller(server.grpc)
    bad = infer_request(
        raw=[pixel_values(fill=float("nan")).tobytes()]
    ).SerializeToString()
    good = infer_request().SerializeToString()
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    futures = [
        (payload is bad, call.future(payload, timeout=30))
        for payload in [good, bad, good, good] * 8
    ]
    for poisoned, future in futures:
        if poisoned:
            assert future.code() == grpc.StatusCode.INTERNAL
        else:
            assert future.code() == grpc.StatusCode.OK


def test_row_13_an_encoded_image_over_the_limit_is_refused(caller: Caller):
    expect(
        caller.refused(image_request(picture() + bytes(33 << 20))), "RESOURCE_EXHAUSTED"
    )


def test_row_25_well_formed_names_of_nothing_are_not_found(caller: Caller):
    for model, version in [
        ("no_such_model", ""),
        ("a" * 128, ""),
        (MODEL, "77"),
        ("...", ""),
    ]:
        expect(
            caller.refused(infer_request(model=model, model_version=version)),
            "NOT_FOUND",
        )


def test_row_36_a_deadline_that_has_passed_is_not_run(caller: Caller):
    request = infer_request()
    for timeout in (0.0, 1e-9, 0.0005):
        with pytest.raises(grpc.RpcError) as error:
            for _ in range(200):
                caller.send(request.SerializeToString(), timeout=timeout)
        assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    request.parameters["timeout"].int64_param = 1  # microseconds
    expect(caller.refused(request), "DEADLINE_EXCEEDED")
    request.parameters["timeout"].int64_param = 10 * 365 * 24 * 3600 * 10**6
    caller.infer(request, timeout=10 * 365 * 24 * 3600)
