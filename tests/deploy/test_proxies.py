"""nginx and HAProxy in front of two servers, as deploy/proxies has them but for the ports."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import queue
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from running_server import DEMO, ROOT, Server
from tritonclient.utils import InferenceServerException

MODEL = "shapes"
PIXELS = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype=np.float32)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Proxy:
    """A proxy's process, and the two servers behind it."""

    def __init__(self, kind: str, folder: pathlib.Path, servers: list[Server]):
        self.servers = servers
        self.http, self.grpc = (f"127.0.0.1:{free_port()}" for _ in range(2))
        first, second = servers
        places = {
            "127.0.0.1:8080": self.http,
            "127.0.0.1:8081": self.grpc,
            "127.0.0.1:8000": first.http,
            "127.0.0.1:8001": first.grpc,
            "127.0.0.1:9000": second.http,
            "127.0.0.1:9001": second.grpc,
        }
        name = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[kind]
        text = (ROOT / "deploy/proxies" / name).read_text()
        pattern = "|".join(map(re.escape, places))
        self.config = folder / name
        self.config.write_text(re.sub(pattern, lambda m: places[m[0]], text))
        command = {
            "nginx": ["nginx", "-e", folder / "log", "-p", folder, "-c", self.config]
            + ["-g", f"daemon off; pid {folder}/pid;"],
            "haproxy": ["haproxy", "-db", "-f", self.config],
        }[kind]
        self.log = (folder / "output").open("wb")
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=self.log, stderr=subprocess.STDOUT
        )
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            assert self.process.poll() is None, self.config.parent
            time.sleep(0.05)
        raise AssertionError("the proxy never answered")

    def ask(self, method: str, path: str, body=None, **fields: str):
        connection = http.client.HTTPConnection(self.http, timeout=60)
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self.log.close()


@contextlib.contextmanager
def in_front(
    kind: str, folder: pathlib.Path, *flags: str
) -> Iterator[tuple[Proxy, list[Server]]]:
    servers = [
        Server(
            folder / f"server{number}.log",
            *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
            *("--load-model", MODEL, *flags),
        )
        for number in range(2)
    ]
    proxy = None
    try:
        proxy = Proxy(kind, folder, servers)
        yield proxy, servers
    finally:
        if proxy is not None:
            proxy.close()
        for server in servers:
            server.close()


@pytest.fixture(scope="module", params=["nginx", "haproxy"])
def proxy(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with in_front(request.param, tmp_path_factory.mktemp(request.param)) as (one, _):
        yield one


def infer_body(spaces: int = 0) -> bytes:
    request = {
        "inputs": [
            {
                "name": "pixel_values",
                "datatype": "FP32",
                "shape": list(PIXELS.shape),
                "data": PIXELS.ravel().tolist(),
            }
        ]
    }
    return json.dumps(request).encode() + b" " * spaces


def sockets_of(server: Server) -> int:
    """Connections to the server's HTTP port, those that have just ended among them."""
    port = f":{int(server.http.split(':')[1]):04X}"
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = "0A"
    return sum(
        port in (line.split()[1][-5:], line.split()[2][-5:])
        for line in lines
        if line.split()[3] != listening
    )


def test_connections_to_the_servers_are_used_again(proxy: Proxy) -> None:
    before, began = sum(map(sockets_of, proxy.servers)), time.monotonic()
    connection = http.client.HTTPConnection(proxy.http, timeout=60)
    for _ in range(500):
        connection.request("GET", f"/v2/models/{MODEL}")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()
    connection.close()
    # Meanwhile HAProxy asks for health, every time over a new one.
    most = 100 + 20 * (time.monotonic() - began)
    assert sum(map(sockets_of, proxy.servers)) - before < most < 500


def test_refusals_take_no_server_out_of_service(proxy: Proxy) -> None:
    """A model that is not ready is answered 503, as often as a caller likes to ask."""
    connection = http.client.HTTPConnection(proxy.http, timeout=60)
    for _ in range(10):
        connection.request("GET", "/v2/models/none/ready")
        answer = connection.getresponse()
        assert answer.status == 503 and answer.read()
        connection.request("GET", f"/v2/models/{MODEL}")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()
    connection.close()


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "chunked"])
def test_long_bodies_go_through(proxy: Proxy, chunked: bool) -> None:
    body = infer_body(15 << 20)
    parts = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    status, text = proxy.ask(
        "POST", f"/v2/models/{MODEL}/infer", parts if chunked else body
    )
    assert status == 200, text[:300]
    assert len(json.loads(text)["outputs"][0]["data"]) > 5


def test_clients_of_triton_go_through(proxy: Proxy) -> None:
    with triton.InferenceServerClient(proxy.http) as client:
        pixels = triton.InferInput("pixel_values", PIXELS.shape, "FP32")
        pixels.set_data_from_numpy(PIXELS)
        over_http = client.infer(MODEL, [pixels]).as_numpy("logits")
    with triton_grpc.InferenceServerClient(proxy.grpc) as client:
        pixels = triton_grpc.InferInput("pixel_values", PIXELS.shape, "FP32")
        pixels.set_data_from_numpy(PIXELS)
        over_grpc = client.infer(MODEL, [pixels]).as_numpy("logits")
        answers: queue.Queue = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in range(50):
            client.async_stream_infer(MODEL, [pixels], request_id=str(number))
        seen = set()
        for _ in range(50):
            result, error = answers.get(timeout=60)
            assert error is None
            seen.add(result.get_response().id)
            np.testing.assert_array_equal(result.as_numpy("logits"), over_grpc)
        client.stop_stream()
    assert seen == {str(number) for number in range(50)}
    np.testing.assert_array_equal(over_http, over_grpc)


SMUGGLED = f"POST /v2/repository/models/{MODEL}/unload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
HEAD = "POST /v2/models/nobody/infer HTTP/1.1\r\nHost: x\r\n"
SMUGGLING = {
    "length and chunks": f"Content-Length: {5 + len(SMUGGLED)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n",
    "a coding that is none": f"Content-Length: {5 + len(SMUGGLED)}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": f"Content-Length: {5 + len(SMUGGLED)}\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a tab before the coding": f"Content-Length: {5 + len(SMUGGLED)}\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
    "a field that goes on": f"Content-Length: {5 + len(SMUGGLED)}\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a length with a sign": f"Content-Length: +{len(SMUGGLED)}\r\n\r\n",
    "line feeds alone": f"Content-Length: {5 + len(SMUGGLED)}\nTransfer-Encoding: chunked\n\r\n0\r\n\r\n",
    "a chunk's length that is too long": "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
    "an extension with a line feed": "Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n",
}


@pytest.mark.parametrize("attempt", SMUGGLING)
def test_no_request_hides_in_another(proxy: Proxy, attempt: str) -> None:
    """What one reader takes for a body and another for a request is refused by one of them, or a body to both."""
    host, port = proxy.http.split(":")
    with socket.create_connection((host, int(port)), timeout=2) as connection:
        connection.sendall((HEAD + SMUGGLING[attempt] + SMUGGLED).encode())
        connection.shutdown(socket.SHUT_WR)
        answers = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while more := connection.recv(65536):
                answers += more
    # Where both readers see two requests, it is no attack: both are answered to who sent them.
    is_open = answers.count(b"HTTP/1.1 200") > 0
    for server in proxy.servers:
        status = ask_server(server, "GET", f"/v2/models/{MODEL}/ready")
        assert status == 200 or is_open, answers
        if status != 200:  # for the other attempts
            assert (
                ask_server(server, "POST", f"/v2/repository/models/{MODEL}/load") == 200
            )
    for number in range(8):
        status, text = proxy.ask("GET", f"/v2/models/nobody{number}")
        assert status == 404 and f"nobody{number}".encode() in text


def ask_server(server: Server, method: str, path: str) -> int:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_a_server_that_drains_fails_no_request(
    kind: str, tmp_path: pathlib.Path
) -> None:
    """One of two is stopped while requests come: every one of them is answered."""
    with in_front(kind, tmp_path, "--drain-delay", "3000") as (proxy, servers):
        failures: list[object] = []
        counts = [0, 0]
        stop = threading.Event()

        def over_http() -> None:
            body = infer_body()
            while not stop.is_set():
                try:
                    status, text = proxy.ask("POST", f"/v2/models/{MODEL}/infer", body)
                    if status != 200:
                        failures.append((status, text[:200]))
                except (OSError, http.client.HTTPException) as error:
                    failures.append(error)
                counts[0] += 1

        def over_grpc() -> None:
            pixels = triton_grpc.InferInput("pixel_values", PIXELS.shape, "FP32")
            pixels.set_data_from_numpy(PIXELS)
            with triton_grpc.InferenceServerClient(proxy.grpc) as client:
                while not stop.is_set():
                    try:
                        client.infer(MODEL, [pixels])
                    except InferenceServerException as error:
                        failures.append(error)
                    counts[1] += 1

        # nginx asks no server how it is, and cannot tell a refusal of gRPC from an answer.
        calls = [over_http, over_http] + ([over_grpc] if kind == "haproxy" else [])
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        time.sleep(1)
        assert servers[0].terminate() == 0
        after = counts[0]
        time.sleep(1)
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert counts[0] > after > 0 and (kind == "nginx" or counts[1] > 0)
