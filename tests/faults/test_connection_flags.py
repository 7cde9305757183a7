"""Rows 37 and 38 of docs/faults.md: the flags that bound connections, over both protocols."""

from __future__ import annotations

import collections
import socket
import struct
import time
from collections.abc import Callable

import raw_http2 as http2
from fault_support import SERVICE, SIZE, Caller, identity_request
from raw_http2 import RawConnection

INFER = SERVICE + "ModelInfer"


class Http2Calls:
    """Calls of ModelInfer on one connection of our own, which is told of what the server says besides."""

    def __init__(self, address: str):
        self.connection = RawConnection(address)
        self.connection.send(http2.PREFACE + http2.settings())
        self.answered: set[int] = set()
        self.goaway: list[int] = []  # error codes
        self.ended = False
        self._next = 1
        self._bytes: collections.Counter[int] = collections.Counter()

    def call(self) -> None:
        message = identity_request().SerializeToString()
        self.connection.send(
            http2.call_headers(INFER, self._next)
            + http2.call_message(message, self._next)
        )
        self._next += 2

    def calls(self) -> int:
        return self._next // 2

    def read(self, until: Callable[[], bool]) -> None:
        """Frames of the server until `until`, or until it has hung up; answers its pings."""
        while not until():
            received = self.connection.read_frame()
            if received is None:
                self.ended = True
                return
            kind, flags, stream, payload = received
            if kind == http2.GOAWAY:
                self.goaway.append(int.from_bytes(payload[4:8], "big"))
            elif kind == http2.PING and not flags:
                self.connection.send(http2.frame(http2.PING, 1, 0, payload))
            elif kind == http2.DATA:
                self._bytes[stream] += len(payload)
                # So much more may come, of the call and of all.
                for one in (0, stream):
                    more = struct.pack(">I", max(len(payload), 1))
                    self.connection.send(http2.frame(http2.WINDOW_UPDATE, 0, one, more))
            elif kind == http2.HEADERS and flags & http2.END_STREAM:
                assert self._bytes[stream] > 3 * SIZE * SIZE, "an error, not the pixels"
                self.answered.add(stream)


def test_a_connection_of_its_age_is_asked_to_end_and_loses_no_request(
    start_server, identity_repository
):
    """GOAWAY, once and again with the last stream that counts; what came before it is answered."""
    server = start_server(
        *("--model-repository", identity_repository),
        *("--grpc-max-connection-age", "1000"),
        *("--grpc-max-connection-age-grace", "60000"),
    )
    began = time.monotonic()
    calls = Http2Calls(server.grpc)
    while not calls.goaway:
        calls.call()
        calls.read(lambda: len(calls.answered) == calls.calls())
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    assert time.monotonic() - began > 0.8  # within a tenth, and a little for clocks
    calls.read(lambda: False)
    assert calls.ended and set(calls.goaway) == {0}  # NO_ERROR
    assert len(calls.answered) == calls.calls()
    # A client of gRPC's goes on on a new connection, and nobody sees that.
    caller = Caller(server.grpc)
    end = time.monotonic() + 4
    asked = 0
    while time.monotonic() < end:
        caller.infer(identity_request())
        asked += 1
    assert asked > 0


def test_a_connection_without_calls_is_asked_to_end(start_server, identity_repository):
    server = start_server(
        *("--model-repository", identity_repository),
        *("--grpc-max-connection-idle", "500"),
    )
    idle = Http2Calls(server.grpc)
    idle.call()
    idle.read(lambda: len(idle.answered) == 1)
    began = time.monotonic()
    idle.read(lambda: False)
    assert idle.ended and idle.goaway and time.monotonic() - began < 10


def test_row_38_who_pings_more_often_than_the_flags_say_is_closed(
    start_server, identity_repository
):
    def pings_until_closed(*flags: str, count: int, pause: float) -> bool:
        server = start_server("--model-repository", identity_repository, *flags)
        connection = RawConnection(server.grpc)
        connection.send(http2.PREFACE + http2.settings())
        closed = False
        for _ in range(count):
            if not connection.send(http2.frame(http2.PING, 0, 0, bytes(8))):
                closed = True
                break
            time.sleep(pause)
        connection.send(http2.frame(http2.PING, 0, 0, b"the last"))
        while (received := connection.read_frame()) is not None:
            if received[0] == http2.GOAWAY:
                closed = True
                break
            if received[0] == http2.PING and received[3] == b"the last":
                break
        connection.close()
        return closed

    interval = "--grpc-http2-min-recv-ping-interval-without-data"
    assert pings_until_closed(interval, "5000", count=10, pause=0.05)
    assert not pings_until_closed(interval, "0", count=10, pause=0.05)
    strikes = "--grpc-http2-max-ping-strikes"
    assert not pings_until_closed(strikes, "0", count=40, pause=0.02)


def test_a_caller_that_does_not_answer_pings_is_given_up(
    start_server, identity_repository
):
    server = start_server(
        *("--model-repository", identity_repository),
        *("--grpc-keepalive-time", "1000", "--grpc-keepalive-timeout", "500"),
    )
    # It reads and says nothing, also to pings: its network is gone.
    began = time.monotonic()
    connection = RawConnection(server.grpc)
    connection.send(http2.PREFACE + http2.settings() + http2.call_headers(INFER, 1))
    connection.read_to_end()  # a timeout where the server does not hang up
    assert 1 <= time.monotonic() - began < 30
    connection.close()


def test_http_connections_are_kept_as_long_as_the_flag_says(
    start_server, identity_repository
):
    # 0 is not "at once"; that it is longer than the default's 75 s is not waited for.
    for idle, kept in (("300", False), ("0", True)):
        server = start_server(
            *("--model-repository", identity_repository),
            *("--http-max-connection-idle", idle),
        )
        host, _, port = server.http.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=30)
        ask = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(ask)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.settimeout(2 if kept else 30)
        try:
            ended = connection.recv(4096) == b""
        except TimeoutError:
            ended = False
        assert ended != kept
        if kept:
            connection.sendall(ask)
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.close()


def test_row_37_a_head_that_comes_slower_than_the_flag_says_is_refused(
    start_server, identity_repository
):
    server = start_server(
        "--model-repository", identity_repository, "--http-head-timeout", "300"
    )
    host, _, port = server.http.rpartition(":")
    # By default ten seconds.
    with socket.create_connection((host, int(port)), timeout=8) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")
        assert b"http.head_timeout" in connection.recv(4096)
