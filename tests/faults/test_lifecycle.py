"""Rows 34, 35, 44, 45, 47 and 96 of docs/faults.md: callers that go away, servers that are told to stop, hostile names,
a log that nobody reads."""

from __future__ import annotations

import collections
import concurrent.futures
import fcntl
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Self

import grpc
import numpy as np
import pytest
import raw_http2 as http2
import tritonclient.grpc as triton
from fault_support import (
    MODEL,
    SERVICE,
    Caller,
    arrived,
    both,
    expect,
    flood,
    gauge,
    health_of,
    hold_last_of_odd,
    image_request,
    infer_request,
    picture,
    pixel_values,
    reason,
    refusal_of,
    scrape,
    wait_until,
    write_in_spec,
)
from grpc_health.v1 import health_pb2
from http_caller import HttpCaller, infer_body, infer_path
from raw_http2 import RawConnection
from tritonclient.grpc import service_pb2


def test_rows_34_35_callers_that_cancel_at_any_moment_leave_nothing_behind(
    grpc_caller: Caller, server
):
    call = grpc_caller.channel.unary_unary(SERVICE + "ModelInfer")
    chance = random.Random(0)
    payloads = [
        infer_request().SerializeToString(),
        image_request(picture(size=(800, 600))).SerializeToString(),
    ]
    answers = cancelled = 0
    for _ in range(300):
        future = call.future(chance.choice(payloads), timeout=30)
        time.sleep(chance.random() * 0.004)
        if future.cancel() and future.cancelled():
            cancelled += 1
        else:
            answers += future.code() == grpc.StatusCode.OK
    assert answers + cancelled == 300 and cancelled > 0
    # Nothing is still waiting or held: the queue's places and requests in flight are all given back.
    end = time.monotonic() + 10
    while time.monotonic() < end:
        text = scrape(server.metrics)
        if (
            gauge(text, "fovea_queue_depth") == 0
            and gauge(text, "fovea_inflight_requests") == 0
        ):
            return
        time.sleep(0.05)
    raise AssertionError(text)


def test_rows_34_35_callers_that_close_at_any_moment_leave_nothing_behind(
    http_caller: HttpCaller, server
):
    """Before, within and behind their request; the next ones are answered."""
    chance = random.Random(0)
    host, _, port = server.http.rpartition(":")
    messages = []
    for request in (infer_request(), image_request(picture(size=(800, 600)))):
        head, tensors = infer_body(request)
        body = head + tensors
        messages.append(
            f"POST {infer_path(request)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            f"Inference-Header-Content-Length: {len(head)}\r\n\r\n".encode()
            + body
        )
    for _ in range(200):
        message = chance.choice(messages)
        with socket.create_connection((host, int(port))) as connection:
            whole = chance.random() < 0.7
            end = len(message) if whole else chance.randrange(len(message))
            connection.sendall(message[:end])
            time.sleep(chance.random() * 0.004)

    def idle() -> bool:
        text = scrape(server.metrics)
        return all(
            gauge(text, name) == 0
            for name in ("fovea_inflight_requests", "fovea_queue_depth")
        )

    wait_until(idle)
    http_caller.infer(infer_request())


def test_row_35_a_call_that_is_cancelled_before_its_message_is_no_fault_of_ours(
    grpc_caller: Caller, server
):
    def answered(code: str) -> float:
        series = rf'fovea_requests_total\{{.*code="{code}".*\}}'
        return gauge(scrape(server.metrics), series)

    before = answered("INTERNAL"), answered("CANCELLED")
    connection = RawConnection(server.grpc)
    connection.shake_hands()
    for stream in range(1, 40, 2):
        connection.send(http2.call_headers(SERVICE + "ModelInfer", stream))
        reset = struct.pack(">I", http2.CANCEL)
        connection.send(http2.frame(http2.RST_STREAM, 0, stream, reset))
    wait_until(lambda: answered("CANCELLED") == before[1] + 20)
    grpc_caller.infer(infer_request())
    connection.close()
    assert answered("INTERNAL") == before[0]


def vanish_while_queued(server, count: int, total: int) -> None:
    """One caller with so many requests, fewer than a batch; when the server has noticed a total of so many."""

    def cancelled() -> float:
        series = r'fovea_queue_rejected_total\{.*reason="cancelled".*\}'
        return gauge(scrape(server.metrics), series)

    caller = Caller(server.grpc)
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    futures = [call.future(infer_request().SerializeToString()) for _ in range(count)]
    wait_until(lambda: arrived(server.metrics) == total)
    caller.channel.close()
    assert {future.code() for future in futures} == {grpc.StatusCode.CANCELLED}
    wait_until(lambda: cancelled() == total)


def test_row_34_callers_that_vanish_with_their_connection_are_not_computed(
    start_server, one_model
):
    hold_last_of_odd(one_model, seconds=10)
    server = start_server("--model-repository", one_model)
    for total in range(15, 151, 15):
        vanish_while_queued(server, 15, total)
    wait_until(lambda: gauge(scrape(server.metrics), "fovea_inflight_requests") == 0)
    assert gauge(scrape(server.metrics), "fovea_queue_depth") == 0
    full = pixel_values(16)  # a batch that waits for nobody
    Caller(server.grpc).infer(infer_request(shape=full.shape, raw=[full.tobytes()]))
    assert gauge(scrape(server.metrics), "fovea_images_total") == len(full)


def series(text: str) -> set[str]:
    return {
        line.rsplit(" ", 1)[0]
        for line in text.splitlines()
        if line and not line.startswith("#")
    }


def test_row_47_hostile_names_add_no_series(
    caller: Caller | HttpCaller, grpc_caller: Caller, http_caller: HttpCaller, server
):
    caller.refused(infer_request(model="no_such_model"))
    caller.refused(infer_request(model_version="12345"))
    before = series(scrape(server.metrics))
    chance = random.Random(0)
    for number in range(200):
        caller.refused(infer_request(model=f"model-{chance.random()}"))
        caller.refused(infer_request(model_version=str(1000 + number)))
        grpc_caller.refused(infer_request(), method=f"{SERVICE}Method{number}")
        http_caller.refused_call("GET", f"/v2/{number}", User_Agent=f"agent-{number}")
    assert series(scrape(server.metrics)) == before


def test_row_44_sigterm_finishes_what_was_accepted_and_exits_with_0(
    start_server, one_model
):
    hold_last_of_odd(one_model, seconds=5)
    server = start_server(
        "--model-repository", one_model, "--drain-delay", "10000", "--drain-timeout", "300000"
    )  # fmt: skip
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.SERVING
    futures = flood(server.grpc, 101)
    pool = concurrent.futures.ThreadPoolExecutor(20)
    over_http = HttpCaller(server.http)
    values = pixel_values(8)
    request = infer_request(shape=values.shape, raw=[values.tobytes()])
    others = [pool.submit(over_http.infer, request, timeout=300) for _ in range(20)]
    wait_until(lambda: arrived(server.metrics) == len(futures) + len(others))
    server.process.send_signal(signal.SIGTERM)
    # Health turns first, while calls are still taken.
    wait_until(
        lambda: health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    )
    assert (
        health_of(server.grpc, f"model/{MODEL}")
        == health_pb2.HealthCheckResponse.NOT_SERVING
    )
    with triton.InferenceServerClient(server.grpc) as client:
        assert not client.is_server_ready() and client.is_server_live()
    assert over_http.refused_call("GET", "/readyz").status == 503
    over_http.ask("GET", "/healthz")
    assert [future.code() for _, future in futures] == [grpc.StatusCode.OK] * len(
        futures
    )
    assert all(other.result().shape[0] == 8 for other in others)
    assert server.process.wait(60) == 0


def test_row_44_at_the_drain_timeout_the_rest_is_given_up_and_the_exit_code_says_so(
    start_server, one_model
):
    hold_last_of_odd(one_model, seconds=10)
    server = start_server("--model-repository", one_model, "--drain-timeout", "50")
    futures = flood(server.grpc, 51)
    # (gRPC's own words would answer those that come after the end.)
    wait_until(lambda: arrived(server.metrics) == len(futures))
    code = server.terminate()
    answers = {(future.code(), reason(future)) for _, future in futures}
    assert answers <= {
        (grpc.StatusCode.OK, ""),
        (grpc.StatusCode.UNAVAILABLE, "server.drain_timeout"),
    }
    assert (grpc.StatusCode.UNAVAILABLE, "server.drain_timeout") in answers
    assert code == 1
    given_up = server.wait_for_log(
        r"(\d+) requests did not finish within the drain timeout"
    )
    assert int(given_up.group(1)) > 0
    assert not any(
        "every accepted request was answered" in line for line in server.lines()
    )


def test_row_44_a_second_sigterm_ends_the_server_at_once(start_server, one_model):
    server = start_server("--model-repository", one_model, "--drain-delay", "60000")
    server.process.send_signal(signal.SIGTERM)
    server.wait_for_log("stopping: health reads NOT_SERVING")
    assert server.alive()
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) != 0
    assert time.monotonic() - start < 5


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a full pipe that nobody reads."""
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"\n" * size)
    yield writer
    for end in (reader, writer):
        os.close(end)


def test_row_96_a_log_that_nobody_reads_holds_up_nothing(
    start_server, one_model, unread
):
    server = start_server(
        *("--model-repository", one_model, "--access-log", "all"),
        *("--log-level", "debug"),
        errors=unread,
    )
    over_grpc, over_http = both(server)
    for _ in range(100):
        answers = [caller.infer(infer_request()) for caller in (over_grpc, over_http)]
        np.testing.assert_array_equal(*answers)
    expect(
        over_http.refused(infer_request(id="x" * 900, shape=(1,))), "INVALID_ARGUMENT"
    )
    for path in ("/v2/health/live", "/readyz"):
        over_http.ask("GET", path, timeout=5)
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.SERVING
    assert gauge(scrape(server.metrics), "fovea_log_dropped_lines_total") == 0
    assert server.terminate(30) == 0


def test_row_96_the_second_sigterm_waits_for_no_reader(start_server, one_model, unread):
    """Over no protocol: it is asked by signals alone."""
    server = start_server(
        *("--model-repository", one_model, "--drain-delay", "60000"), errors=unread
    )
    server.process.send_signal(signal.SIGTERM)
    wait_until(
        lambda: health_of(server.grpc, "") != health_pb2.HealthCheckResponse.SERVING
    )
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 1


def test_row_44_sigterm_while_loading_stops_the_server(start_server, tmp_path):
    folder = tmp_path / "models" / "large"
    (folder / "1").mkdir(parents=True)
    (folder / "model.textproto").write_text(
        'spec_version: 1\nbackbone: "deit_small_patch16_224"\nrandom_weights { seed: 1 }\nmax_batch_size: 64\n'
    )
    server = start_server("--model-repository", tmp_path / "models", ready=False)
    time.sleep(0.5)
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    start = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - start < 20


def test_row_44_sigterm_while_the_disk_hangs_finishes_what_was_accepted(
    start_server, one_model, hanging_disk
):
    environment, hang = hanging_disk
    hold_last_of_odd(one_model, seconds=2)
    server = start_server(
        "--model-repository", one_model, "--model-control-mode", "explicit", "--load-model", MODEL,
        environment=environment,
    )  # fmt: skip
    hang.touch()
    caller = Caller(server.grpc)
    load = caller.channel.unary_unary(SERVICE + "RepositoryModelLoad").future(
        service_pb2.RepositoryModelLoadRequest(model_name=MODEL).SerializeToString(),
        timeout=60,
    )
    accepted = flood(server.grpc, 21)
    wait_until(lambda: arrived(server.metrics) == len(accepted))
    wait_until(lambda: hang.read_text() == "hangs")
    server.process.send_signal(signal.SIGTERM)
    assert {future.code() for _, future in accepted} == {grpc.StatusCode.OK}
    assert load.code() == grpc.StatusCode.UNAVAILABLE
    assert server.process.wait(60) == 0
    server.wait_for_log("drained: every accepted request was answered")


def test_row_33_a_load_that_hangs_holds_up_no_other_call(
    start_server, one_model, hanging_disk
):
    """Over either protocol a second load is refused, and requests, health and metadata are answered."""
    environment, hang = hanging_disk
    server = start_server(
        "--model-repository", one_model, "--model-control-mode", "explicit", "--load-model", MODEL,
        environment=environment,
    )  # fmt: skip
    callers = both(server)
    before = callers[0].infer(infer_request())
    hang.touch()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    hanging = pool.submit(callers[0].load, MODEL)
    wait_until(lambda: hang.read_text() == "hangs")
    for caller in callers:
        refused = refusal_of(lambda: caller.load(MODEL))  # noqa: B023
        expect(refused, "UNAVAILABLE", "repository.busy")
        np.testing.assert_array_equal(caller.infer(infer_request()), before)
    callers[1].ask("GET", "/readyz")
    callers[1].ask("GET", f"/v2/models/{MODEL}")
    assert (
        health_of(server.grpc, f"model/{MODEL}")
        == health_pb2.HealthCheckResponse.SERVING
    )
    assert not hanging.done()
    hang.unlink()
    hanging.result(60)


def test_rows_44_and_96_sigterm_while_disk_and_log_hang_ends_the_server(
    start_server, one_model, hanging_disk, unread
):
    environment, hang = hanging_disk
    hang.touch()
    server = start_server(
        *("--model-repository", one_model),
        environment=environment,
        ready=False,
        errors=unread,
    )
    wait_until(lambda: hang.read_text() == "hangs")
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    assert server.terminate() == 0
    assert not any("ready" in line for line in server.lines())


def test_rejections_of_a_full_queue_come_at_once(start_server, one_model):
    """Promise 3: most take under a millisecond of the server's time, and nothing of them is decoded."""
    write_in_spec(
        one_model, "dynamic_batching { default_queue_policy { max_queue_size: 4 } }"
    )
    server = start_server(
        "--model-repository", one_model, "--log-format", "json", "--access-log", "all"
    )
    caller = Caller(server.grpc)
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    jpegs = [picture(size=(1600, 1200))] * 4
    payload = image_request(*jpegs).SerializeToString()
    futures = [call.future(payload, timeout=60) for _ in range(80)]
    codes = collections.Counter(future.code() for future in futures)
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert server.terminate() == 0
    requests = [
        line for line in map(json.loads, server.lines()) if line["message"] == "request"
    ]
    answered = [line for line in requests if line["code"] == "OK"]
    refused = [line for line in requests if line["reason"] == "queue.full"]
    assert len(answered) == codes[grpc.StatusCode.OK]
    assert len(refused) == codes[grpc.StatusCode.UNAVAILABLE]
    assert all(line["decode_ms"] > 0 for line in answered)
    assert all(line["decode_ms"] == line["preprocess_ms"] == 0 for line in refused)
    # (The time of most: beside a busy neighbour the slowest one may have waited for a processor.)
    times = sorted(line["total_ms"] for line in refused)
    assert times[len(times) * 3 // 4] < 1, times


class BusyCaller:
    """Keeps 64 requests under way within its context, and counts what became of them."""

    def __init__(self, address: str) -> None:
        self.codes: collections.Counter[grpc.StatusCode] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self._channel = Caller(address).channel
        self._call = self._channel.unary_unary(SERVICE + "ModelInfer")
        self._payload = infer_request().SerializeToString()
        self._places = threading.Semaphore(64)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pump, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Returns when every request has come back."""
        self._stop.set()
        self._thread.join()
        for _ in range(64):
            assert self._places.acquire(timeout=60)
        self._channel.close()

    def _pump(self) -> None:
        while not self._stop.is_set():
            self._places.acquire()
            future = self._call.future(self._payload, timeout=60)
            future.add_done_callback(self._finish)

    def _finish(self, future) -> None:
        self.codes[future.code()] += 1
        self.reasons[reason(future)] += future.code() != grpc.StatusCode.OK
        self._places.release()


def restart_under_load(
    start_server, repository: pathlib.Path
) -> collections.Counter[str]:
    """The reasons that its caller heard."""
    server = start_server("--model-repository", repository)
    with BusyCaller(server.grpc) as busy:
        wait_until(lambda: busy.codes[grpc.StatusCode.OK] > 100)
        assert server.terminate() == 0
        wait_until(lambda: busy.codes[grpc.StatusCode.UNAVAILABLE] > 0)
    server.wait_for_log("drained: every accepted request was answered")
    assert set(busy.codes) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    return busy.reasons


def test_row_44_no_caller_of_a_busy_server_is_told_that_it_cancelled(
    start_server, one_model
):
    """A restart under load: every request has its answer, or UNAVAILABLE."""
    reasons: collections.Counter[str] = collections.Counter()
    for _ in range(6):
        reasons += restart_under_load(start_server, one_model)
    # (What comes when the connection has ended reads gRPC's own words: one restart's may all.)
    assert reasons["server.draining"] > 0
    assert set(reasons) <= {"", "server.draining"}


def files_below(folder: pathlib.Path) -> set[pathlib.Path]:
    return set(folder.rglob("*"))


def kill_under_load(server) -> np.ndarray:
    """The answer of a server that is then killed while it is busy."""
    # Ready only when the model is warm: until then health says no.
    states = {
        health_pb2.HealthCheckResponse.NOT_SERVING: False,
        health_pb2.HealthCheckResponse.SERVING: True,
    }
    wait_until(lambda: states[health_of(server.grpc, "")])
    caller = Caller(server.grpc)
    full = pixel_values(16)  # a batch that waits for nobody
    answer = caller.infer(infer_request(shape=full.shape, raw=[full.tobytes()]))
    futures = flood(server.grpc, 51)
    pool = concurrent.futures.ThreadPoolExecutor(1)
    over_http = pool.submit(HttpCaller(server.http).infer, infer_request(), timeout=60)
    wait_until(lambda: arrived(server.metrics) > 2)
    server.process.kill()
    assert server.process.wait(60) == -signal.SIGKILL
    # A whole answer, or none.
    error = over_http.exception(60)
    assert error is None or isinstance(error, (OSError, http.client.HTTPException))
    codes = {future.code() for _, future in futures}
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert grpc.StatusCode.UNAVAILABLE in codes
    # Else they would connect to the next server on this port.
    for channel in {caller.channel, *(flooding.channel for flooding, _ in futures)}:
        channel.close()
    return answer


def test_row_45_a_server_that_is_killed_under_load_starts_again(
    start_server, one_model, tmp_path
):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    hold_last_of_odd(one_model, seconds=10)
    before = files_below(one_model)
    port, answers = "0", []  # the first takes a free port, the next ones the same again
    for _ in range(3):
        server = start_server(
            "--model-repository", one_model, "--grpc-port", port,
            environment={"TMPDIR": str(temporary)}, ready=False,
        )  # fmt: skip
        port = server.grpc.rsplit(":", 1)[1]
        answers.append(kill_under_load(server))
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])
    assert files_below(one_model) == before
    assert files_below(temporary) == set()
