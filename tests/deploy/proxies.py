"""nginx and HAProxy in front of two servers, as deploy/proxies has them but for the ports."""

from __future__ import annotations

import contextlib
import http.client
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from containers import free_port
from running_server import DEMO, ROOT, Server

MODEL = "shapes"


class Listening(Protocol):
    """Whatever stands behind a proxy: HOST:PORT of each protocol."""

    http: str
    grpc: str


class Proxy:
    """A proxy's process, and the two servers behind it."""

    def __init__(self, kind: str, folder: pathlib.Path, servers: Sequence[Listening]):
        self.servers = servers
        self.config = folder / {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[kind]
        self.log = (folder / "output").open("wb")
        for left in (2, 1, 0):
            try:
                self._start(kind, folder)
                break
            except AssertionError:  # another program took a port between
                if left == 0 or self.process.poll() is None:
                    raise

    def _start(self, kind: str, folder: pathlib.Path) -> None:
        self.http, self.grpc = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._write_config()
        command = {
            "nginx": ["nginx", "-e", folder / "log", "-p", folder, "-c", self.config]
            + ["-g", f"daemon off; pid {folder}/pid;"],
            "haproxy": ["haproxy", "-db", "-f", self.config],
        }[kind]
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=self.log, stderr=subprocess.STDOUT
        )
        self.wait_until_it_answers()

    def _write_config(self) -> None:
        first, second = self.servers
        places = {
            "127.0.0.1:8080": self.http,
            "127.0.0.1:8081": self.grpc,
            "127.0.0.1:8000": first.http,
            "127.0.0.1:8001": first.grpc,
            "127.0.0.1:9000": second.http,
            "127.0.0.1:9001": second.grpc,
        }
        text = (ROOT / "deploy/proxies" / self.config.name).read_text()
        pattern = "|".join(map(re.escape, places))
        self.config.write_text(re.sub(pattern, lambda m: places[m[0]], text))

    def reload(self) -> None:
        """Of nginx: from now on the servers are those of `servers`, for connections that are already there too.

        Processes with the old list serve theirs to the end, which callers that always ask put off: a connection is
        closed after a thousand requests at the latest (keepalive_requests).
        """
        old = self._workers()
        self._write_config()
        self.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 120
        while old & self._workers():
            assert time.monotonic() < end, "the old processes serve on"
            time.sleep(0.05)

    def _workers(self) -> set[str]:
        pid = self.process.pid
        return set(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

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
