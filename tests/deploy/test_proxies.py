"""nginx and HAProxy in front of two servers, as deploy/proxies has them but for the ports."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import http.server
import json
import pathlib
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from proxies import MODEL, Proxy, in_front
from running_server import Server
from tritonclient.utils import InferenceServerException

PIXELS = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype=np.float32)


class Refusing:
    """Stands for a server that refuses every call over both protocols, and writes down which came."""

    def __init__(self, http_port: int = 0, grpc_port: int = 0) -> None:
        self.calls: list[str] = []
        self._http = http.server.ThreadingHTTPServer(
            ("127.0.0.1", http_port), self._handler(self.calls)
        )
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=[0.05], daemon=True
        )
        self._thread.start()
        self.http = f"127.0.0.1:{self._http.server_address[1]}"
        self._grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self._grpc.add_generic_rpc_handlers([self._rpc_handler()])
        port = self._grpc.add_insecure_port(f"127.0.0.1:{grpc_port}")
        self.grpc = f"127.0.0.1:{port}"
        self._grpc.start()

    @staticmethod
    def _handler(calls: list[str]) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status: int) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                if self.path == "/readyz":
                    return self.answer(200)
                calls.append(self.path)
                return self.answer(503)

            def do_POST(self) -> None:
                calls.append(self.path)
                self.answer(503)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _rpc_handler(self) -> grpc.GenericRpcHandler:
        class Handler(grpc.GenericRpcHandler):
            def service(_, details: grpc.HandlerCallDetails):
                def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
                    self.calls.append(details.method)
                    return self.answer_rpc(context)

                return grpc.unary_unary_rpc_method_handler(answer)

        return Handler()

    def answer_rpc(self, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._grpc.stop(0).wait()


class Answering(Refusing):
    """One that answers every call of gRPC, at the ports of one that is gone, and writes down how often each was made before."""

    def __init__(self, gone: Refusing) -> None:
        self.made_before: list[int] = []
        super().__init__(*(int(one.split(":")[1]) for one in (gone.http, gone.grpc)))

    def answer_rpc(self, context: grpc.ServicerContext) -> bytes:
        metadata = dict(context.invocation_metadata())
        self.made_before.append(int(metadata.get("grpc-previous-rpc-attempts", 0)))
        return b"answered"


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


SMUGGLED = f"POST /v2/repository/models/{MODEL}/unload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
HEAD = "POST /v2/models/nobody/infer HTTP/1.1\r\nHost: localhost\r\n"
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
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        # Both directions stay open: of a caller that has ended one nginx drops the answers that are not there yet.
        connection.sendall((HEAD + SMUGGLING[attempt] + SMUGGLED).encode())
        # To the end of the connection, which a refusal is, and the second request asks for.
        answers = received(connection)
        without = [server for server in proxy.servers if not has_model(server)]
    # Where both readers see two requests, it is no attack: both are answered to who sent them.
    assert not without or b"HTTP/1.1 200" in answers, answers
    for server in without:  # for the other attempts
        path = f"/v2/repository/models/{MODEL}/load"
        assert ask_server(server, "POST", path) == 200
    for number in range(8):
        status, text = proxy.ask("GET", f"/v2/models/nobody{number}")
        assert status == 404 and f"nobody{number}".encode() in text


def received(connection: socket.socket) -> bytes:
    """Until the connection ends."""
    answers = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65536):
            answers += more
    return answers


def has_model(server: Server) -> bool:
    return ask_server(server, "GET", f"/v2/models/{MODEL}/ready") == 200


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
    with in_front(kind, tmp_path, "--drain-delay", "6000") as (proxy, servers):
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


@pytest.fixture(params=["nginx", "haproxy"])
def refusing(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> Iterator[tuple[str, Proxy]]:
    proxy = Proxy(request.param, tmp_path, [Refusing(), Refusing()])
    yield request.param, proxy
    proxy.close()
    for server in proxy.servers:
        server.close()


def calls_of(proxy: Proxy) -> list[str]:
    return [call for server in proxy.servers for call in server.calls]


@pytest.mark.parametrize(
    "path",
    [
        f"/v2/repository/models/{MODEL}/load",
        f"/v2/repository/models/{MODEL}/unload",
        "/v2/systemsharedmemory/region/r/register",
        "/v2/systemsharedmemory/unregister",
        "/v2/trace/setting",
        f"/v2/models/{MODEL}/trace/setting",
        "/v2/logging",
    ],
)
def test_what_one_server_refuses_is_not_asked_of_the_other(refusing, path: str) -> None:
    _, proxy = refusing
    assert proxy.ask("POST", path, "{}")[0] == 503
    assert calls_of(proxy) == [path]


@pytest.mark.parametrize(
    "method", ["RepositoryModelLoad", "RepositoryModelUnload", "TraceSetting"]
)
def test_over_grpc_neither(refusing, method: str) -> None:
    _, proxy = refusing
    path = f"/inference.GRPCInferenceService/{method}"
    with (
        grpc.insecure_channel(proxy.grpc) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        channel.unary_unary(path)(b"", timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert calls_of(proxy) == [path]


@pytest.mark.parametrize(
    "path",
    [
        f"/v2/models/{MODEL}/infer",
        f"/v2/models/{MODEL}/versions/1/infer",
        "/v1/classify",
        "/v1/detect",
        "/v1/segment",
    ],
)
def test_inference_that_one_server_refuses_is_asked_of_the_other(
    refusing, path: str
) -> None:
    kind, proxy = refusing
    assert proxy.ask("POST", path, "{}")[0] == 503
    # HAProxy sends nobody's request twice: it asks the servers how they are.
    assert calls_of(proxy) == [path] * (2 if kind == "nginx" else 1)


def test_a_load_goes_to_the_server_that_is_there(refusing) -> None:
    """Where nothing of it was sent to the other."""
    _, proxy = refusing
    proxy.servers.pop(0).close()
    path = f"/v2/repository/models/{MODEL}/load"
    for number in range(1, 4):
        assert proxy.ask("POST", path, "{}")[0] == 503
        assert calls_of(proxy) == [path] * number


def test_where_no_server_answers_a_call_of_grpc_gets_a_status_alone(refusing) -> None:
    """gRPC may take a call that gets a page of HTML for answered, and not make it again."""
    _, proxy = refusing
    for server in proxy.servers:
        server.close()
    proxy.servers.clear()
    path, words = (
        "/fovea.v1.VisionService/Classify",
        "no server behind the proxy answered",
    )
    with (
        grpc.insecure_channel(proxy.grpc) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        channel.unary_unary(path)(b"", timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert refused.value.details() == words
    # Without a body: behind an answer to what it has not read whole, a proxy resets the stream, which confuses curl.
    command = ["curl", "-si", "--http2-prior-knowledge", f"http://{proxy.grpc}{path}"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    head, _, body = answer.stdout.partition("\n\n")
    assert {"grpc-status: 14", f"grpc-message: {words}"} <= set(head.splitlines())
    assert body == ""


def test_who_asks_while_no_server_is_there_is_answered_when_one_is(refusing) -> None:
    """The proxy's status is one for which gRPC makes a call again, as a page that it may take for an answer is not always."""
    _, proxy = refusing
    gone = proxy.servers[0]
    for server in proxy.servers:
        server.close()
    proxy.servers.clear()
    method = {"service": "fovea.v1.VisionService", "method": "Classify"}
    retry = {
        "maxAttempts": 5,
        **dict.fromkeys(("initialBackoff", "maxBackoff"), "4s"),
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [method], "retryPolicy": retry}]}
    options = [("grpc.service_config", json.dumps(config))]
    with grpc.insecure_channel(proxy.grpc, options) as channel:
        # HAProxy has seen that none is there when it answers without trying to connect.
        wait_for(lambda: unanswered_seconds(channel) < 0.5)
        classify = channel.unary_unary("/fovea.v1.VisionService/Classify")
        call = classify.future(b"", timeout=60)
        time.sleep(2)  # it is refused, and waits to be made again
        assert not call.done()
        back = Answering(gone)
        proxy.servers.append(back)
        assert call.result() == b"answered"
    assert back.made_before[-1] >= 1


def unanswered_seconds(channel: grpc.Channel) -> float:
    """Of a call that is not made again."""
    begin = time.monotonic()
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/fovea.v1.VisionService/Detect")(b"", timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    return time.monotonic() - begin


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
