"""Rows 34, 35, 44 and 47 of docs/faults.md: callers that go away, servers that are told to stop, hostile names."""

from __future__ import annotations

import pathlib
import random
import re
import signal
import subprocess
import threading
import time
import urllib.request

import grpc
import pytest
import tritonclient.grpc as triton
from fault_support import (
    MODEL,
    SERVICE,
    Caller,
    image_request,
    infer_request,
    picture,
    pixel_values,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2


def test_rows_34_35_callers_that_cancel_at_any_moment_leave_nothing_behind(
    caller: Caller, server
):
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
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


def test_row_34_callers_that_vanish_with_their_connection_leave_the_server_well(server):
    for _ in range(10):
        vanishing = Caller(server.grpc)
        futures = [
            vanishing.channel.unary_unary(SERVICE + "ModelInfer").future(
                infer_request().SerializeToString()
            )
            for _ in range(16)
        ]
        vanishing.channel.close()
        for future in futures:
            assert future.code() in (
                grpc.StatusCode.OK,
                grpc.StatusCode.CANCELLED,
                grpc.StatusCode.UNAVAILABLE,
            )
    Caller(server.grpc).infer(infer_request())


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


def gauge(text: str, name: str) -> float:
    """The sum over all series of a metric."""
    return sum(
        float(value)
        for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
    )


def wait_until(condition, timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def series(text: str) -> set[str]:
    return {
        line.rsplit(" ", 1)[0]
        for line in text.splitlines()
        if line and not line.startswith("#")
    }


def test_row_47_hostile_names_add_no_series(caller: Caller, server):
    caller.refused(infer_request(model="no_such_model"))
    caller.refused(infer_request(model_version="12345"))
    before = series(scrape(server.metrics))
    chance = random.Random(0)
    for number in range(200):
        caller.refused(infer_request(model=f"model-{chance.random()}"))
        caller.refused(infer_request(model_version=str(1000 + number)))
        caller.refused(infer_request(), method=f"{SERVICE}Method{number}")
    assert series(scrape(server.metrics)) == before


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
    return [(caller, call.future(payload, timeout=120)) for _ in range(count)]


def test_row_44_sigterm_finishes_what_was_accepted_and_exits_with_0(
    start_server, repository
):
    server = start_server("--model-repository", repository, "--drain-delay", "1000")
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.SERVING
    futures = flood(server.grpc, 100)
    time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    # Health turns first, while the door is still open.
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    assert (
        health_of(server.grpc, f"model/{MODEL}")
        == health_pb2.HealthCheckResponse.NOT_SERVING
    )
    with triton.InferenceServerClient(server.grpc) as client:
        assert not client.is_server_ready() and client.is_server_live()
    assert [future.code() for _, future in futures] == [grpc.StatusCode.OK] * len(
        futures
    )
    assert server.process.wait(60) == 0


def test_row_44_at_the_drain_timeout_the_rest_is_given_up_and_the_exit_code_says_so(
    start_server, repository
):
    server = start_server("--model-repository", repository, "--drain-timeout", "50")
    futures = flood(server.grpc, 250)
    time.sleep(0.3)
    start = time.monotonic()
    code = server.terminate()
    assert time.monotonic() - start < 20
    codes = {future.code() for _, future in futures}
    assert codes <= {
        grpc.StatusCode.OK,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
    }
    assert codes != {grpc.StatusCode.OK}, (
        "the machine was faster than the drain timeout"
    )
    assert code == 1


def test_row_44_a_second_sigterm_ends_the_server_at_once(start_server, repository):
    server = start_server("--model-repository", repository, "--drain-delay", "60000")
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert server.alive()
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) != 0
    assert time.monotonic() - start < 5


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


@pytest.fixture
def hanging_disk(tmp_path) -> tuple[dict[str, str], pathlib.Path]:
    """The environment of a server whose disk hangs, and the file that makes it hang while it is there."""
    library, hang = tmp_path / "hanging_disk.so", tmp_path / "hang"
    source = pathlib.Path(__file__).with_name("hanging_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library), "FOVEA_TEST_HANG": str(hang)}, hang


def test_row_44_sigterm_while_the_disk_hangs_finishes_what_was_accepted(
    start_server, repository, hanging_disk
):
    environment, hang = hanging_disk
    server = start_server(
        "--model-repository", repository, "--model-control-mode", "explicit", "--load-model", MODEL,
        environment=environment,
    )  # fmt: skip
    hang.touch()
    caller = Caller(server.grpc)
    load = caller.channel.unary_unary(SERVICE + "RepositoryModelLoad").future(
        service_pb2.RepositoryModelLoadRequest(model_name=MODEL).SerializeToString(),
        timeout=60,
    )
    accepted = flood(server.grpc, 20)
    wait_until(lambda: gauge(scrape(server.metrics), "fovea_inflight_requests") > 0)
    server.process.send_signal(signal.SIGTERM)
    assert {future.code() for _, future in accepted} == {grpc.StatusCode.OK}
    assert load.code() == grpc.StatusCode.UNAVAILABLE
    assert server.process.wait(60) == 0
    server.wait_for_log("drained: every accepted request was answered")


def test_row_44_sigterm_while_the_disk_hangs_at_the_start_ends_the_server(
    start_server, repository, hanging_disk
):
    environment, hang = hanging_disk
    hang.touch()
    server = start_server(
        "--model-repository", repository, environment=environment, ready=False
    )
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    assert server.terminate() == 0


def test_rejections_of_a_full_queue_come_at_once(start_server, repository):
    """Promise 3: under a millisecond of the server's time, before anything is decoded."""
    spec = repository / MODEL / "model.textproto"
    small = "dynamic_batching { default_queue_policy { max_queue_size: 4 } }"
    lines = [
        line
        for line in spec.read_text().splitlines()
        if not line.startswith("dynamic_batching")
    ]
    spec.write_text("\n".join([*lines, small, ""]))
    server = start_server("--model-repository", repository)
    codes: list[grpc.StatusCode] = []
    done = threading.Semaphore(0)
    caller = Caller(server.grpc)
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    values = pixel_values(16)
    payload = infer_request(
        shape=values.shape, raw=[values.tobytes()]
    ).SerializeToString()

    def finish(future) -> None:
        codes.append(future.code())
        done.release()

    for _ in range(200):
        call.future(payload, timeout=60).add_done_callback(finish)
    for _ in range(200):
        assert done.acquire(timeout=60)
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert gauge(scrape(server.metrics), "fovea_queue_rejected_total") > 0


@pytest.mark.parametrize(
    "flags",
    [("--grpc-port", "99999"), ("--no-such-flag",), ("--model-control-mode", "maybe")],
)
def test_wrong_flags_are_told_and_exit_with_2(start_server, repository, flags):
    with pytest.raises(AssertionError, match="never printed"):
        start_server("--model-repository", repository, *flags)
