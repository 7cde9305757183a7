"""Rows 1-14, 25 and 36 of docs/faults.md: requests that no client should send."""

from __future__ import annotations

import concurrent.futures
import functools
import gzip
import random
import re
import signal
import struct
import time
import urllib.parse
import urllib.request
import zlib

import grpc
import numpy as np
import pytest
import raw_http2 as http2
from fault_support import (
    MODEL,
    SERVICE,
    SIZE,
    Caller,
    arrived,
    both,
    bytes_tensor,
    expect,
    gauge,
    hold_last_of_odd,
    identity_request,
    image_request,
    in_parallel,
    infer_request,
    picture,
    pixel_values,
    scrape,
    wait_until,
    write_in_spec,
)
from http_caller import HttpCaller, infer_body, infer_path
from raw_http2 import RawConnection
from tritonclient.grpc import service_pb2

CLASSIFY = "/fovea.v1.VisionService/Classify"


@pytest.mark.parametrize("method", [SERVICE + "ModelInfer", CLASSIFY])
def test_row_1_malformed_bytes_are_an_invalid_argument(
    grpc_caller: Caller, method: str
):
    good = infer_request().SerializeToString()
    chance = random.Random(0)
    for payload in (
        b"\xff" * 64,
        good[:-1],
        good[: len(good) // 2],
        b"\x0a\xff\xff\xff\xff\x0f",
        bytes(10),
    ):
        expect(grpc_caller.refused(payload, method=method), "INVALID_ARGUMENT")
    for _ in range(200):
        payload = chance.randbytes(chance.randrange(1, 400))
        error = grpc_caller.refused(payload, method=method)
        expect(error, "INVALID_ARGUMENT", "request.malformed")


def test_row_1_every_other_method_refuses_malformed_bytes_too(grpc_caller: Caller):
    for method in (
        "ModelMetadata",
        "ModelConfig",
        "RepositoryIndex",
        "ModelStatistics",
    ):
        error = grpc_caller.refused(b"\xff" * 16, method=SERVICE + method)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, method


def test_row_1_a_call_without_a_whole_message_is_refused(grpc_caller: Caller):
    for method in ("ModelInfer", "ServerMetadata"):
        ask = grpc_caller.channel.stream_unary(SERVICE + method)
        with pytest.raises(grpc.RpcError) as refused:
            ask(iter([]), timeout=30)
        expect(refused.value, "INVALID_ARGUMENT", "request.malformed")


def test_row_102_a_name_that_is_not_the_servers_is_refused(
    http_caller: HttpCaller, server
):
    metrics = HttpCaller(server.metrics)
    for caller, method, path in (
        (http_caller, "GET", "/v2/models/stats"),
        (http_caller, "POST", "/v2/repository/index"),
        (http_caller, "GET", "/"),
        (metrics, "GET", "/metrics"),
    ):
        error = caller.refused_call(method, path, Host="evil.example:8000")
        expect(error, "INVALID_ARGUMENT", "http.other_host")
        assert error.status == 421
        caller.ask(method, path, Host="localhost")


def test_row_2_a_deeply_nested_message_is_refused(grpc_caller: Caller):
    payload = b""
    for _ in range(
        20_000
    ):  # unknown groups inside each other: start-group tags of field 99
        payload += b"\x9b\x06"
    expect(grpc_caller.refused(payload), "INVALID_ARGUMENT", "request.malformed")


def test_row_3_headers_over_the_limit_are_refused(grpc_caller: Caller, server):
    request = infer_request()
    for metadata in (
        [("x-huge", "a" * (64 << 10))],
        [(f"x-{i}", "b" * 40) for i in range(2000)],
        [("x-huge-bin", bytes(64 << 10))],
    ):
        # gRPC answers the call and ends the offender's connection: who is still sending may hear of
        # that first.
        wait_until(
            functools.partial(is_told_of_its_headers, server.grpc, request, metadata)
        )
    grpc_caller.infer(request, metadata=[("x-blob-bin", bytes(range(256)))])


def is_told_of_its_headers(
    address: str, request: service_pb2.ModelInferRequest, metadata: list
) -> bool:
    offender = Caller(address)
    code = offender.refused(request, metadata=metadata).code()
    offender.channel.close()
    assert code in (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    )
    return code == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_row_4_a_message_over_the_limit_is_refused(start_server, identity_repository):
    server = start_server(
        "--model-repository", identity_repository, "--max-message", "1"
    )
    for caller in both(server):
        error = caller.refused(infer_request(raw=[bytes(2 << 20)], model="identity"))
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        caller.infer(identity_request())
    expect(error, "RESOURCE_EXHAUSTED", "request.too_large")


def test_row_5_a_compressed_bomb_is_not_unpacked(start_server, identity_repository):
    server = start_server(
        "--model-repository", identity_repository, "--max-message", "4"
    )
    bomber = Caller(server.grpc)
    before = server.peak_resident_bytes()
    assert len(gzip.compress(bytes(64 << 20))) < 1 << 20
    for _ in range(4):
        error = bomber.refused(
            infer_request(raw=[bytes(64 << 20)], model="identity"),
            compression=grpc.Compression.Gzip,
        )
        expect(error, "RESOURCE_EXHAUSTED", "request.decompressed_too_large")
    request = infer_request(raw=[bytes(64 << 20)], model="identity")
    head, tensors = infer_body(request)
    for coding, packed in (
        ("gzip", gzip.compress(head + tensors)),
        ("deflate", zlib.compress(head + tensors)),
    ):
        error = HttpCaller(server.http).refused_call(
            "POST",
            infer_path(request),
            packed,
            Content_Encoding=coding,
            Inference_Header_Content_Length=len(head),
        )
        expect(error, "RESOURCE_EXHAUSTED", "request.decompressed_too_large")
    assert server.peak_resident_bytes() - before < 32 << 20
    bomber.infer(identity_request())


def test_row_1_a_body_that_stops_anywhere_is_an_invalid_argument(
    http_caller: HttpCaller,
):
    """JSON with its tensors behind it, cut off anywhere, or bytes that are nothing."""
    request = infer_request()
    head, tensors = infer_body(request)
    chance = random.Random(0)
    ends = [0, 1, len(head) - 1, len(head), len(head) + 1, len(head + tensors) - 1]
    ends += [chance.randrange(len(head + tensors)) for _ in range(60)]
    path = infer_path(request)
    for end in ends:
        error = http_caller.refused_call(
            "POST",
            path,
            (head + tensors)[:end],
            Inference_Header_Content_Length=min(end, len(head)) or "none",
        )
        expect(error, "INVALID_ARGUMENT", "request.")
    for _ in range(100):
        noise = chance.randbytes(chance.randrange(1, 400))
        expect(http_caller.refused_call("POST", path, noise), "INVALID_ARGUMENT")


def test_row_2_deeply_nested_json_is_refused(http_caller: HttpCaller):
    for body in (b"[" * 100_000, b'{"inputs":' * 50_000):
        error = http_caller.refused_call("POST", "/v2/models/shapes/infer", body)
        expect(error, "INVALID_ARGUMENT", "request.")


def test_row_3_heads_over_the_limit_are_refused(http_caller: HttpCaller):
    for fields, reason in (
        ({"x_huge": "a" * (64 << 10)}, "http.head_too_large"),
        ({f"x_{i}": "b" * 40 for i in range(90)} | {"x": "c" * 12_000}, "http.head_"),
        ({f"x{i}": "b" for i in range(200)}, "http."),
    ):
        error = http_caller.refused_call("GET", "/v2", **fields)
        assert error.status == 431, error
        expect(error, "RESOURCE_EXHAUSTED", reason)
    http_caller.infer(infer_request())


def test_row_6_millions_of_empty_texts_are_refused(http_caller: HttpCaller):
    """Whether the shape tells of them or not; and more JSON than is read."""
    for told, count, code, refusal in (
        (5_000_000, 5_000_000, "INVALID_ARGUMENT", "request."),
        (1, 5_000_000, "INVALID_ARGUMENT", "request."),
        (1, 8_000_000, "RESOURCE_EXHAUSTED", "request."),
    ):
        body = (
            b'{"inputs":[{"name":"image","datatype":"BYTES","shape":[%d,1],"data":["" %s]}]}'
            % (told, b',""' * (count - 1))
        )
        error = http_caller.refused_call("POST", "/v2/models/shapes/infer", body)
        expect(error, code, refusal)


@pytest.mark.parametrize(
    ("told", "refusal"), [(5_000_000, "request.shape"), (1, "request.contents_count")]
)
def test_row_6_millions_of_empty_elements_are_refused(
    grpc_caller: Caller, told: int, refusal: str
):
    """Whether the shape tells of them or not."""
    request = service_pb2.ModelInferRequest(model_name=MODEL)
    tensor = request.inputs.add(name="image", datatype="BYTES", shape=[told, 1])
    contents = b"\x42\x00" * 5_000_000  # bytes_contents = "", so many times
    inner = tensor.SerializeToString() + b"\x2a" + varint(len(contents)) + contents
    error = grpc_caller.refused(
        b"\x0a\x06shapes" + b"\x2a" + varint(len(inner)) + inner
    )
    expect(error, "INVALID_ARGUMENT", refusal)


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
    "row 25: version with white space": lambda: infer_request(model_version="1 "),
}


# Over HTTP the name is a part of the path, which has rules of its own.
OF_THE_PATH = {
    "row 25: empty name": ("NOT_FOUND", "http.path_unknown"),
    "row 25: 10 kB": ("INVALID_ARGUMENT", "http.target_too_long"),
}


@pytest.mark.parametrize("case", INVALID, ids=list(INVALID))
def test_rows_7_to_10_and_25_are_invalid_arguments(
    caller: Caller | HttpCaller, case: str
):
    refusal = caller.refused(INVALID[case]())
    if isinstance(caller, HttpCaller) and case in OF_THE_PATH:
        expect(refusal, *OF_THE_PATH[case])
    else:
        expect(refusal, "INVALID_ARGUMENT")


def test_row_11_denormals_are_numbers(caller: Caller | HttpCaller):
    assert np.isfinite(
        caller.infer(infer_request(raw=[pixel_values(fill=1e-42).tobytes()]))
    ).all()


def test_row_11_numbers_that_are_not_finite_are_refused_where_the_model_says_so(
    start_server, one_model, connect
):
    write_in_spec(one_model, "allow_non_finite: false")
    caller = connect(start_server("--model-repository", one_model))
    for fill in (float("nan"), float("inf")):
        request = infer_request(raw=[pixel_values(fill=fill).tobytes()])
        expect(caller.refused(request), "INVALID_ARGUMENT", "request.non_finite")


def test_rows_11_and_12_what_is_not_finite_concerns_its_own_request_only(
    start_server, repository, connect
):
    """NaN that came in is answered with what comes of it; of numbers, an output that is none is an error, and the
    model's. Either in a batch with good ones (row 43)."""
    batch = 4
    # Long enough for a full batch to come together, whatever the machine does besides.
    write_in_spec(
        repository,
        f"max_batch_size: {batch}",
        "dynamic_batching { max_queue_delay_microseconds: 10000000 }",
    )
    server = start_server(
        *("--model-repository", repository),
        *("--model-control-mode", "explicit", "--load-model", MODEL),
    )
    caller = connect(server)
    nan, huge = (
        infer_request(raw=[pixel_values(fill=fill).tobytes()])
        for fill in (float("nan"), 3e38)
    )
    alone = caller.infer(infer_request())
    for round in range(3):
        requests = [infer_request(), huge, nan, infer_request()]
        answers = in_parallel(caller, requests)
        expect(answers.pop(1), "INTERNAL")
        logits, told = answers.pop(1)
        assert not np.isfinite(logits).any() and told["fovea.non_finite_input"]
        for values, parameters in answers:
            # All four: the bad ones were among them.
            assert parameters["fovea.batch_size"] == batch
            assert "fovea.non_finite_input" not in parameters
            assert np.abs(values - alone).max() <= 1e-4 * alone.std()
        count = metric(
            server.metrics, f'fovea_non_finite_outputs_total{{.*model="{MODEL}".*}}'
        )
        assert count == round + 1


def metric(address: str, series: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return float(re.search(f"^{series} (\\S+)$", text, re.MULTILINE).group(1))


def test_row_13_an_encoded_image_over_the_limit_is_refused(
    caller: Caller | HttpCaller,
):
    expect(
        caller.refused(image_request(picture() + bytes(33 << 20))), "RESOURCE_EXHAUSTED"
    )


def test_row_25_well_formed_names_of_nothing_are_not_found(
    caller: Caller | HttpCaller,
):
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


NAMES_OF_NO_MODEL = ("../shapes", "/etc", "a/b", "%2e%2e", "shapes\0", "a" * 129, "..")


@pytest.mark.parametrize(
    ("method", "field"),
    [
        ("ModelReady", "name"),
        ("ModelMetadata", "name"),
        ("ModelConfig", "name"),
        ("ModelStatistics", "name"),
        ("RepositoryModelLoad", "model_name"),
        ("RepositoryModelUnload", "model_name"),
    ],
)
def test_row_25_every_method_refuses_names_that_no_model_can_have(
    grpc_caller: Caller, method: str, field: str
):
    for name in NAMES_OF_NO_MODEL:
        request = getattr(service_pb2, method + "Request")(**{field: name})
        error = grpc_caller.refused(
            request.SerializeToString(), method=SERVICE + method
        )
        expect(error, "INVALID_ARGUMENT", "model.bad_name")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/models/{}/ready"),
        ("GET", "/v2/models/{}"),
        ("GET", "/v2/models/{}/config"),
        ("GET", "/v2/models/{}/stats"),
        ("POST", "/v2/repository/models/{}/load"),
        ("POST", "/v2/repository/models/{}/unload"),
    ],
)
def test_row_25_every_path_refuses_names_that_no_model_can_have(
    http_caller: HttpCaller, method: str, path: str
):
    for name in NAMES_OF_NO_MODEL:
        quoted = path.format(urllib.parse.quote(name, safe=""))
        body = b"{}" if method == "POST" else b""
        error = http_caller.refused_call(method, quoted, body)
        # A NUL is refused before anybody asks whose name it is.
        reason = "http.bad_request" if "\0" in name else "model.bad_name"
        expect(error, "INVALID_ARGUMENT", reason)


def images_run(caller: Caller) -> int:
    request = service_pb2.ModelStatisticsRequest(name=MODEL)
    answer = caller.send(
        request.SerializeToString(), method=SERVICE + "ModelStatistics"
    )
    (statistics,) = service_pb2.ModelStatisticsResponse.FromString(answer).model_stats
    return statistics.inference_count


def test_row_36_a_deadline_that_has_passed_is_not_run(
    grpc_caller: Caller, http_caller: HttpCaller, server
):
    before = images_run(grpc_caller)
    request = infer_request()
    request.parameters["timeout"].int64_param = 1  # microseconds
    for caller in (grpc_caller, http_caller):
        for _ in range(20):
            expect(caller.refused(request), "DEADLINE_EXCEEDED", "queue.")
    # Callers that do not themselves give up when their deadline comes. gRPC rounds it up to a millisecond, in which a
    # fast processor runs the model: none is left here.
    for _ in range(20):
        connection = RawConnection(server.grpc)
        connection.send(
            http2.PREFACE
            + http2.settings()
            + http2.call_headers(SERVICE + "ModelInfer", 1, grpc_timeout="0u")
            + http2.call_message(infer_request().SerializeToString(), 1)
        )
        ends = (http2.HEADERS, http2.RST_STREAM)
        while connection.read_frame()[0] not in ends:
            pass
        connection.close()
    assert images_run(grpc_caller) == before


def test_row_36_a_deadline_that_passes_in_the_queue_ends_the_call(
    start_server, one_model
):
    """Whether the caller tells it as gRPC's or as the request's; neither gives up by itself."""
    hold_last_of_odd(one_model, seconds=10)
    server = start_server("--model-repository", one_model)
    seconds = 5
    connection = RawConnection(server.grpc)
    connection.send(
        http2.PREFACE
        + http2.settings()
        + http2.call_headers(SERVICE + "ModelInfer", 1, grpc_timeout=f"{seconds}S")
        + http2.call_message(infer_request().SerializeToString(), 1)
    )
    request = infer_request()
    request.parameters["timeout"].int64_param = seconds * 10**6
    call = Caller(server.grpc).channel.unary_unary(SERVICE + "ModelInfer")
    future = call.future(request.SerializeToString(), timeout=60)
    pool = concurrent.futures.ThreadPoolExecutor(1)
    over_http = pool.submit(HttpCaller(server.http).refused, request, timeout=60)
    wait_until(lambda: arrived(server.metrics) == 3)
    passed = time.monotonic() + seconds
    # The scheduler would run them in time, were the machine not to stand still.
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(max(0, passed + 1 - time.monotonic()))
    server.process.send_signal(signal.SIGCONT)
    expect(future.exception(timeout=60), "DEADLINE_EXCEEDED", "queue.expired")
    expect(over_http.result(), "DEADLINE_EXCEEDED", "queue.expired")
    while (received := connection.read_frame())[0] != http2.HEADERS:
        pass
    assert b"grpc-status\x014" in received[3]  # DEADLINE_EXCEEDED, gRPC's or ours
    connection.close()
    # gRPC's own answer may come before ours.
    wait_until(lambda: gauge(scrape(server.metrics), "fovea_queue_rejected_total") == 3)
    assert gauge(scrape(server.metrics), "fovea_images_total") == 0


def test_row_36_any_deadline_is_taken(grpc_caller: Caller, http_caller: HttpCaller):
    request = infer_request()
    for timeout in (0.0, 1e-9, 0.0005):
        with pytest.raises(grpc.RpcError) as error:
            for _ in range(200):
                grpc_caller.send(request.SerializeToString(), timeout=timeout)
        assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    request.parameters["timeout"].int64_param = 10 * 365 * 24 * 3600 * 10**6
    grpc_caller.infer(request, timeout=10 * 365 * 24 * 3600)
    http_caller.infer(request)


def test_classes_of_an_output_without_floats_are_refused(
    start_server, identity_repository
):
    server = start_server("--model-repository", identity_repository)
    request = identity_request()
    request.outputs.add(name="output").parameters["classification"].int64_param = 1
    for caller in both(server):
        refusal = caller.refused(request)
        expect(refusal, "INVALID_ARGUMENT", "request.classification_type")
    caller = Caller(server.grpc)
    classify = b"\x0a\x08identity" + b"\x22" + varint(len(picture())) + picture()
    expect(
        caller.refused(classify, method=CLASSIFY),
        "FAILED_PRECONDITION",
        "model.no_classifier",
    )
    error = HttpCaller(server.http).refused_call(
        "POST", "/v1/classify?model=identity", picture()
    )
    expect(error, "FAILED_PRECONDITION", "model.no_classifier")
