"""Rows 13, 14, 37, 38, 39, 52 and 65 of docs/faults.md: that the flags of docs/operations/README.md's table turn what they name."""

from __future__ import annotations

import http.client
import json
import pathlib
import queue
import struct
import time
import uuid

import grpc
import numpy as np
import pytest
import raw_http2 as http2
import tritonclient.grpc as triton
from fault_support import (
    SIZE,
    arrived,
    both,
    expect,
    image_request,
    in_parallel,
    infer_request,
    picture,
    wait_until,
    write_in_spec,
)
from http_caller import HttpCaller
from raw_http2 import RawConnection
from running_server import Server


def test_rows_13_and_14_pictures_are_within_the_flags(start_server, one_model):
    server = start_server(
        *("--model-repository", one_model),
        *("--max-image", "1", "--max-image-pixels", "5000"),
    )
    rgb = infer_request("image_rgb", "UINT8", (1, 63, 80, 3), [bytes(63 * 80 * 3)])
    for caller in both(server):
        caller.infer(image_request(picture(size=(80, 62))))
        too_long = caller.refused(image_request(picture() + bytes(1 << 20)))
        expect(too_long, "RESOURCE_EXHAUSTED", "image.too_many_bytes")
        assert str(1 << 20) in too_long.details()
        for request in (image_request(picture(size=(80, 63))), rgb):
            expect(caller.refused(request), "INVALID_ARGUMENT", "image.too_many_pixels")


def test_row_39_no_more_images_wait_than_the_flag_says(
    start_server, one_model, connect
):
    server = start_server(
        *("--model-repository", one_model, "--imaging-threads", "1"),
        *("--imaging-queue-size", "2"),
    )
    large = image_request(picture(size=(1600, 1200)))
    answers = in_parallel(connect(server), [large] * 24)
    refused = [one for one in answers if isinstance(one, grpc.RpcError)]
    assert 0 < len(refused) < len(answers)
    for error in refused:
        expect(error, "UNAVAILABLE", "image.queue_full")


def test_row_52_no_more_regions_are_registered_than_the_flag_says(
    start_server, one_model
):
    server = start_server(
        *("--model-repository", one_model, "--allow-client-shm"),
        *("--max-shared-memory-regions", "2"),
    )
    caller = HttpCaller(server.http)
    key = f"/{uuid.uuid4().hex}"
    path = pathlib.Path("/dev/shm" + key)
    path.write_bytes(bytes(64))
    try:
        body = json.dumps({"key": key, "offset": 0, "byte_size": 64}).encode()
        register = "/v2/systemsharedmemory/region/{}/register"
        for number in range(2):
            caller.ask("POST", register.format(number), body)
        refused = caller.refused_call("POST", register.format(2), body)
        expect(refused, "RESOURCE_EXHAUSTED", "shared_memory.too_many")
        with (
            triton.InferenceServerClient(server.grpc) as client,
            pytest.raises(triton.InferenceServerException, match="RESOURCE_EXHAUSTED"),
        ):
            client.register_system_shared_memory("2", key, 64)
    finally:
        path.unlink()


def test_row_65_a_stream_has_as_many_requests_under_way_as_the_flag_says(
    start_server, one_model
):
    write_in_spec(
        one_model,
        "max_batch_size: 16",
        "dynamic_batching { max_queue_delay_microseconds: 8000000 }",
    )
    server = start_server(
        "--model-repository", one_model, "--grpc-max-stream-requests", "3"
    )
    answers: queue.Queue = queue.Queue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        tensor = triton.InferInput("pixel_values", (1, 3, SIZE, SIZE), "FP32")
        tensor.set_data_from_numpy(np.ones((1, 3, SIZE, SIZE), np.float32))
        for _ in range(6):
            client.async_stream_infer("shapes", [tensor])
        wait_until(lambda: arrived(server.metrics) == 3)
        time.sleep(0.5)
        assert arrived(server.metrics) == 3
        for _ in range(6):
            _, error = answers.get(timeout=60)
            assert error is None, error
        client.stop_stream()


def test_row_38_the_flag_tells_callers_how_many_streams_there_may_be(
    start_server, identity_repository
):
    server = start_server(
        *("--model-repository", identity_repository),
        *("--grpc-max-concurrent-streams", "7"),
    )
    connection = RawConnection(server.grpc)
    connection.send(http2.PREFACE + http2.settings())
    told = {}
    while not told:
        kind, flags, _, payload = connection.read_frame()
        if kind == http2.SETTINGS and not flags:
            told = dict(
                struct.unpack_from(">HI", payload, at)
                for at in range(0, len(payload), 6)
            )
    assert told[3] == 7  # SETTINGS_MAX_CONCURRENT_STREAMS
    connection.close()


def test_row_37_what_is_slower_than_the_flags_say_is_closed(
    start_server, identity_repository
):
    server = start_server(
        *("--model-repository", identity_repository),
        *("--handshake-timeout", "300", "--http-transfer-timeout", "300"),
    )
    began = time.monotonic()
    silent = RawConnection(server.grpc)
    silent.read_to_end()
    silent.close()
    assert time.monotonic() - began < 8  # by default ten seconds
    began = time.monotonic()
    host, _, port = server.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.putrequest("POST", "/v2/models/identity/infer")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"a beginning")
    answer = connection.getresponse()
    assert answer.status == 408
    assert json.loads(answer.read())["reason"] == "http.body_timeout"
    connection.close()
    assert time.monotonic() - began < 15  # by default twenty


def test_http_has_as_many_threads_as_the_flag_says(start_server, identity_repository):
    def threads(count: int) -> int:
        server: Server = start_server(
            *("--model-repository", identity_repository),
            *("--http-thread-count", str(count)),
        )
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.split("Threads:")[1].split()[0])

    few, many = threads(1), threads(101)
    assert 80 <= many - few <= 120  # gRPC starts and ends some of its own
