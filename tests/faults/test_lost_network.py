"""Row 37 of docs/faults.md: callers whose network is lost. Nothing of theirs arrives any more, the end neither.

Server and callers are in network namespaces of their own, joined by a cable of two ends (veth).
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import pathlib
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import raw_http2 as http2
from fault_support import (
    SERVICE,
    gauge,
    identity_request,
    scrape,
    wait_until,
)
from http_caller import infer_body
from raw_http2 import RawConnection
from running_server import SERVER, Server

T = TypeVar("T")
SERVERS, CALLERS = "192.0.2.1", "192.0.2.2"  # addresses for documents: RFC 5737
CLONE_NEWNET = 0x40000000
HELD_S = 10  # the requests below wait so long for company, which nobody sends
ESTABLISHED = "01"  # in /proc/net/tcp

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"
    ),
    pytest.mark.harmed,  # asked from outside of its network, the server would not be found
]


class Namespace:
    """A network, which lives as long as the process that holds it."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(
            # It ends when we do: nothing holds the other end of its input then.
            ["unshare", "--net", "sh", "-c", "echo made && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self.holder.stdout.readline() != "made\n":
            pytest.skip(f"no network can be made here: {self.holder.communicate()[1]}")
        self.enter = ("nsenter", "-t", str(self.holder.pid), "-n")

    def ip(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self.enter, "ip", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"ip {' '.join(arguments)}: {done.stderr}")

    def inside(self, work: Callable[..., T], *arguments: object) -> T:
        """What `work` returns on a thread that is in this network; its sockets stay there."""

        def run() -> T:
            with open(f"/proc/{self.holder.pid}/ns/net", "rb") as network:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(network.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            return work(*arguments)

        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(run).result()

    def close(self) -> None:
        self.holder.kill()
        self.holder.communicate()


class Cable:
    """Between the server's network and its callers'."""

    def __init__(self, at_server: Namespace, at_callers: Namespace):
        self.at_server, self.at_callers = at_server, at_callers
        at_server.ip("link", "set", "lo", "up")
        end = ("name", "cable", "netns", str(at_callers.holder.pid))
        at_server.ip("link", "add", "cable", "type", "veth", "peer", *end)
        for side, address in ((at_server, SERVERS), (at_callers, CALLERS)):
            side.ip("address", "add", f"{address}/24", "dev", "cable")
            side.ip("link", "set", "cable", "up")

    def lose(self) -> None:
        """The callers' machine has another address from here on: what is sent to the old one is dropped."""
        self.at_callers.ip("address", "flush", "dev", "cable")

    def connections(self, server: Server, port: str) -> int:
        """Those of callers' that the server has open at the port."""
        table = pathlib.Path(f"/proc/{server.process.pid}/net/tcp").read_text()
        rows = [line.split() for line in table.splitlines()[1:]]
        at = f":{int(port):04X}"
        return sum(row[1].endswith(at) and row[3] == ESTABLISHED for row in rows)


@pytest.fixture
def cable() -> Iterator[Cable]:
    networks: list[Namespace] = []
    try:
        networks.append(Namespace())
        networks.append(Namespace())
        yield Cable(*networks)
    finally:
        for network in networks:
            network.close()


@pytest.fixture
def start(
    start_server, cable: Cable, identity_repository: pathlib.Path
) -> Callable[..., Server]:
    """Starts a server in its network, whose requests wait for company until they are cancelled."""
    with (identity_repository / "identity/model.textproto").open("a") as spec:
        wait = HELD_S * 10**6
        spec.write(
            "max_batch_size: 16\n"
            f"dynamic_batching {{ max_queue_delay_microseconds: {wait} }}\n"
        )

    def start(*flags: object, **options) -> Server:
        server = start_server(
            *("--model-repository", identity_repository, "--host", "0.0.0.0"),
            *flags,
            program=(*cable.at_server.enter, SERVER),
            **options,
        )
        for port in ("grpc", "http", "metrics"):
            address = getattr(server, port).rpartition(":")[2]
            setattr(server, port, f"{SERVERS}:{address}")
        return server

    return start


def in_flight(server: Server, cable: Cable) -> float:
    return gauge(
        cable.at_server.inside(scrape, server.metrics), "fovea_inflight_requests"
    )


@pytest.fixture
def soon(tmp_path: pathlib.Path) -> dict[str, str]:
    """The environment of a server whose kernel asks after a second what the server says that it asks after a minute."""
    library = tmp_path / "soon.so"
    source = pathlib.Path(__file__).with_name("fast_keepalive.c")
    subprocess.check_call(["cc", "-shared", "-fPIC", "-o", library, source])
    return {"LD_PRELOAD": str(library)}


def expect_given_up(server: Server, cable: Cable, address: str) -> None:
    """What was waited for is cancelled, and the connections are closed, while it still would wait."""
    port = address.rpartition(":")[2]
    wait_until(lambda: cable.connections(server, port) == 0, timeout=HELD_S)
    wait_until(lambda: in_flight(server, cable) == 0, timeout=HELD_S)
    ended = re.findall(
        r'^fovea_requests_total\{.*code="(\w+)".*\} [1-9]',
        cable.at_server.inside(scrape, server.metrics),
        re.MULTILINE,
    )
    assert ended == ["CANCELLED"]


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_row_37_calls_of_a_grpc_caller_whose_network_is_lost_are_cancelled(
    start, cable: Cable, method: str
):
    server = start("--grpc-keepalive-time", "500", "--grpc-keepalive-timeout", "4000")
    port = server.grpc.rpartition(":")[2]
    connection = cable.at_callers.inside(RawConnection, server.grpc)
    connection.shake_hands()
    message = identity_request().SerializeToString()
    connection.send(
        http2.call_headers(SERVICE + method, 1) + http2.call_message(message, 1)
    )
    wait_until(lambda: in_flight(server, cable) == 1)
    assert cable.connections(server, port) == 1
    # As long as it answers pings it is waited for.
    while (received := connection.read_frame())[:2] != (http2.PING, 0):
        assert received[0] not in (http2.GOAWAY, http2.RST_STREAM)
    connection.send(http2.frame(http2.PING, 1, 0, received[3]))
    assert in_flight(server, cable) == 1
    cable.lose()
    expect_given_up(server, cable, server.grpc)
    connection.close()
    assert server.terminate() == 0


def test_row_37_an_http_caller_whose_network_is_lost_is_given_up(
    start, cable: Cable, soon: dict[str, str]
):
    """One that waits for its answer, and one that asks nothing and might stay for ever."""
    server = start("--http-max-connection-idle", "0", environment=soon)
    host, _, port = server.http.rpartition(":")
    waiting, idle = (
        cable.at_callers.inside(socket.create_connection, (host, int(port)), 30)
        for _ in range(2)
    )
    text, tensors = infer_body(identity_request())
    waiting.sendall(
        b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: localhost\r\n"
        b"Inference-Header-Content-Length: %d\r\n"
        % len(text)
        + b"Content-Length: %d\r\n\r\n" % len(text + tensors)
        + text
        + tensors
    )
    wait_until(lambda: in_flight(server, cable) == 1)
    wait_until(lambda: cable.connections(server, port) == 2)
    cable.lose()
    expect_given_up(server, cable, server.http)
    waiting.close()
    idle.close()
    assert server.terminate() == 0
