"""Row 44 of docs/faults.md, as Kubernetes stops a server: `fovea-server --pre-stop` in its container, then SIGTERM."""

from __future__ import annotations

import json
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Self

import grpc
import pytest
from fault_support import Caller, add_identity, health_of, identity_request, wait_until
from grpc_health.v1 import health_pb2
from running_server import SERVER, Server

SIDE = 8


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A program file of this test's own: --pre-stop finds servers by their file, and others run beside this one."""
    copy = tmp_path / "fovea-server"
    shutil.copy(SERVER, copy)
    yield copy
    copy.unlink()


def pre_stop(program: pathlib.Path, delay_ms: int) -> subprocess.CompletedProcess:
    return subprocess.run(
        [program, "--pre-stop", "--drain-delay", str(delay_ms)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def send_grpc(server: Server) -> Callable[[], object]:
    caller = Caller(server.grpc)
    return lambda: caller.infer(identity_request(SIDE))


def send_http(server: Server) -> Callable[[], object]:
    pixels = {"name": "image_rgb", "datatype": "UINT8", "shape": [1, SIDE, SIDE, 3]}
    body = json.dumps({"inputs": [{**pixels, "data": [0] * SIDE * SIDE * 3}]}).encode()
    url = f"http://{server.http}/v2/models/identity/infer"
    return lambda: urllib.request.urlopen(url, body, timeout=30).read()


def is_ready(server: Server) -> bool:
    try:
        urllib.request.urlopen(f"http://{server.http}/readyz", timeout=30).read()
    except urllib.error.HTTPError:
        return False
    return True


class Balanced:
    """Callers of both protocols behind a load balancer: it sends them no more once the server is not ready."""

    def __init__(self, server: Server):
        self.taken_out = threading.Event()
        self.answers = 0
        self.failures: list[object] = []
        self._server = server
        sends = [send_grpc(server), send_http(server)] * 2
        self._threads = [threading.Thread(target=self._call, args=(s,)) for s in sends]
        self._threads.append(threading.Thread(target=self._probe))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.taken_out.set()
        self.join()

    def join(self) -> None:
        """Until nobody sends any more."""
        for thread in self._threads:
            thread.join()

    def _call(self, send: Callable[[], object]) -> None:
        while not self.taken_out.is_set():
            try:
                send()
                self.answers += 1
            except (grpc.RpcError, OSError) as error:
                self.failures.append(error)

    def _probe(self) -> None:
        while not self.taken_out.is_set():
            if not is_ready(self._server):
                self.taken_out.set()
            time.sleep(0.05)


def test_row_44_no_request_fails_where_pre_stop_goes_before_sigterm(
    start_server, program, tmp_path
):
    repository = add_identity(tmp_path / "models", side=SIDE)
    server = start_server(
        "--model-repository", repository, "--drain-delay", "1500", program=(program,)
    )
    with Balanced(server) as balanced:
        wait_until(lambda: balanced.answers > 50)
        done = pre_stop(program, 1500)
        assert done.returncode == 0, done.stderr
        wait_until(balanced.taken_out.is_set)
        balanced.join()
        assert server.alive()
        # Who has not noticed yet is answered, too.
        send_grpc(server)()
        send_http(server)()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    assert balanced.failures == []
    server.wait_for_log("drained: every accepted request was answered")


def test_pre_stop_makes_readiness_fall_and_returns_when_the_server_has_ended(
    start_server, program, identity_repository
):
    server = start_server("--model-repository", identity_repository, program=(program,))
    waiting = subprocess.Popen([program, "--pre-stop", "--drain-delay", "600000"])
    server.wait_for_log("SIGUSR1: health reads NOT_SERVING")
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    assert not is_ready(server)
    assert waiting.poll() is None
    assert server.terminate() == 0
    assert waiting.wait(30) == 0


def test_pre_stop_without_a_server_or_with_two_says_so(
    start_server, program, identity_repository
):
    done = pre_stop(program, 0)
    assert done.returncode == 1 and "no server of this program runs" in done.stderr
    for _ in range(2):
        start_server("--model-repository", identity_repository, program=(program,))
    done = pre_stop(program, 0)
    assert done.returncode == 1 and "2 servers of this program" in done.stderr
