"""Fixtures of the tests that talk to a running server as its users would."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
DEMO = ROOT / "model_zoo" / "demo"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked full")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: too long for continuous integration")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        chosen = [item for item in items if item.get_closest_marker("full") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


class Server:
    """A fovea-server process on free ports of the loopback interface."""

    def __init__(self, log: pathlib.Path, *flags: str, environment: dict[str, str] | None = None, ready: bool = True):
        self.log = log
        self._output = log.open("wb")
        command = [BUILD / "bin" / "fovea-server", "--grpc-port", "0", "--metrics-port", "0", *flags]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        found = self.wait_for_log(r"listening: grpc=(\S+:\d+) metrics=(\S+:\d+)")
        self.grpc, self.metrics = found.group(1), found.group(2)
        if ready:
            self.wait_for_log(r"\bready\b: \d+ model")

    def wait_for_log(self, pattern: str, timeout: float = 120) -> re.Match[str]:
        """The first match of `pattern` in what the server has printed."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if found := re.search(pattern, self.log.read_text(errors="replace")):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the server never printed {pattern!r}:\n{self.log.read_text(errors='replace')}")

    def resident_bytes(self) -> int:
        pages = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def alive(self) -> bool:
        return self.process.poll() is None

    def terminate(self, timeout: float = 60) -> int:
        """Sends SIGTERM and returns the exit code."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self) -> None:
        if self.alive():
            self.process.kill()
        self.process.wait(30)
        self._output.close()


@pytest.fixture
def start_server(tmp_path: pathlib.Path) -> Iterator[Callable[..., Server]]:
    """Starts servers that are gone after the test."""
    servers: list[Server] = []

    def start(*flags: str, **options) -> Server:
        servers.append(Server(tmp_path / f"server{len(servers)}.log", *flags, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with the bundled models for all tests that only ask."""
    running = Server(tmp_path_factory.mktemp("server") / "server.log", "--model-repository", str(DEMO))
    yield running
    code = running.terminate()
    running.close()
    assert code == 0, f"the shared server ended with {code}"


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the bundled models that a test may change."""
    copy = tmp_path / "models"
    shutil.copytree(DEMO, copy)
    return copy
