"""The checks that follow every fault."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fault_support import (
    MODEL,
    Caller,
    add_identity,
    ask_both,
    both,
    expect_memory_bounded,
    identity_request,
    infer_request,
    leaves_unharmed,
)
from http_caller import HttpCaller
from running_server import DEMO, SERVER, Server


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers of a test's own: not their speed is tested, and some tests start several."""
    monkeypatch.setenv("FOVEA_THREADS", "1")
    # malloc keeps freed memory for each thread that had it. Of this size on it goes back at once, so that what is
    # resident is what is held.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(1 << 20))


@pytest.fixture(scope="session")
def grpc_caller(server) -> Iterator[Caller]:
    caller = Caller(server.grpc)
    yield caller
    caller.close()


@pytest.fixture(scope="session")
def http_caller(server) -> HttpCaller:
    return HttpCaller(server.http)


@pytest.fixture(params=["grpc", "http"])
def caller(
    request: pytest.FixtureRequest, grpc_caller: Caller, http_caller: HttpCaller
) -> Caller | HttpCaller:
    """Over either protocol, one test after the other."""
    return grpc_caller if request.param == "grpc" else http_caller


@pytest.fixture(params=["grpc", "http"])
def connect(request: pytest.FixtureRequest) -> Callable[[Server], Caller | HttpCaller]:
    """Makes callers of servers that a test starts, over either protocol, one test after the other."""

    def connect(server: Server) -> Caller | HttpCaller:
        over_grpc, over_http = both(server)
        return over_grpc if request.param == "grpc" else over_http

    return connect


@pytest.fixture(scope="session")
def good_answer(server: Server) -> np.ndarray:
    answers = ask_both(server)
    np.testing.assert_array_equal(answers[0], answers[1])
    return answers[0]


@pytest.fixture
def identity_repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """One model that computes nothing and loads at once: for servers of a test's own."""
    return add_identity(tmp_path / "models")


@pytest.fixture(scope="session")
def alone_answer(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What MODEL answers to the good request on a server of its own that nothing has happened to."""
    server = Server(
        tmp_path_factory.mktemp("alone") / "server.log",
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *("--load-model", MODEL, "--threads", "1"),
    )
    answer = HttpCaller(server.http).infer(infer_request())
    assert server.terminate() == 0
    server.close()
    return answer


@pytest.fixture(autouse=True)
def unharmed(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every fault that the shared server met: it lives, the next good request has the same bits over both
    protocols, and memory is bounded. Servers of a test's own: start_server."""
    if "server" not in request.fixturenames:
        yield
        return
    server, before = (
        request.getfixturevalue(name) for name in ("server", "good_answer")
    )
    with leaves_unharmed(server, lambda: ask_both(server), [before, before]):
        yield


# Whose callers show something, or may not ask for everything.
GUARDED = {"--tls-cert", "--api-keys-file", "--grpc-api", "--http-api"}


class Unharmed:
    """What holds of a server of a test's own after the test, where it still runs: the next good request is answered
    over both protocols, as the same model of an unharmed server does, and it has not grown. Nothing is asked of one
    that wants credentials or whose model the test has changed."""

    def __init__(self, server: Server, flags: tuple[object, ...], ready: bool):
        self._server = server
        given = [str(flag) for flag in flags]
        self._folders = [
            pathlib.Path(value)
            for flag, value in itertools.pairwise(given)
            if flag == "--model-repository" and not GUARDED & set(given)
        ]
        self.model = next(
            (
                name
                for name in (MODEL, "identity")
                for folder in self._folders
                if (folder / name).is_dir()
                and not (folder / name).is_symlink()
                and ("explicit" not in given or name in given)
            ),
            None,
        )
        self._files = self._state()
        self._resident = server.resident_bytes() if ready else None

    def _state(self) -> list[tuple[str, int]]:
        """Of the model's files: what a test writes into them may change the answers."""
        return [
            (str(path), path.stat().st_mtime_ns)
            for folder in self._folders
            for path in sorted((folder / str(self.model)).rglob("*"))
        ]

    def to_be_asked(self) -> bool:
        return (
            self.model is not None
            and self._server.alive()
            and self._files == self._state()
        )

    def check(self, expected: np.ndarray | None) -> None:
        request = infer_request() if self.model == MODEL else identity_request()
        request.parameters["priority"].uint64_param = 1  # before all who wait
        callers = both(self._server)
        # At the same time: what waits for company waits once.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(one.infer, request, timeout=120) for one in callers]
            answers = [one.result() for one in asked]
        for caller in callers:
            caller.close()
        np.testing.assert_array_equal(answers[0].shape, answers[1].shape)
        for answer in answers:
            if self.model == "identity":
                assert answer.tobytes() == request.raw_input_contents[0]
            else:  # other batches and threads: docs/faults.md, row 43
                assert np.abs(answer - expected).max() <= 1e-4 * expected.std()
        assert self._server.alive()
        if self._resident is not None:
            expect_memory_bounded(self._server, self._resident)


@pytest.fixture
def start_server(
    start_server: Callable[..., Server], request: pytest.FixtureRequest
) -> Iterator[Callable[..., Server]]:
    """Starts servers that are gone after the test, and that a fault leaves as they were (Unharmed)."""
    watched: list[Unharmed] = []
    expected: dict[str, np.ndarray] = {}

    def start(*flags: object, **options) -> Server:
        server = start_server(*flags, **options)
        if request.node.get_closest_marker("harmed") is None:
            watched.append(Unharmed(server, flags, options.get("ready", True)))
            if watched[-1].model == MODEL:
                expected[MODEL] = request.getfixturevalue("alone_answer")
        return server

    yield start
    for one in watched:
        if one.to_be_asked():
            one.check(expected.get(one.model))


@pytest.fixture
def hanging_disk(tmp_path: pathlib.Path) -> tuple[dict[str, str], pathlib.Path]:
    """The environment of a server whose disk hangs, and the file that makes it hang while it is there."""
    library, hang = tmp_path / "hanging_disk.so", tmp_path / "hang"
    source = pathlib.Path(__file__).with_name("hanging_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library), "FOVEA_TEST_HANG": str(hang)}, hang


@pytest.fixture
def limited(tmp_path: pathlib.Path) -> Iterator[Callable[..., tuple[object, ...]]]:
    """Makes a cgroup with limits, by the files of version 1 and of 2, and gives a server's `program` that enters it."""
    groups: list[pathlib.Path] = []

    def make(controller: str, version1: dict, version2: dict) -> tuple[object, ...]:
        old = pathlib.Path("/sys/fs/cgroup") / controller
        group = (old if old.is_dir() else old.parent) / f"fovea_test_{os.getpid()}"
        try:
            group.mkdir()
            groups.append(group)
            for file, value in (version1 if old.is_dir() else version2).items():
                (group / file).write_text(str(value))
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        enter = tmp_path / f"enter_{controller}.sh"
        enter.write_text(f'echo $$ > {group}/cgroup.procs; exec "$@"\n')
        return ("sh", enter, SERVER)

    yield make
    for group in groups:
        for process in (group / "cgroup.procs").read_text().split():
            os.kill(int(process), signal.SIGKILL)
        end = time.monotonic() + 30
        while (group / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.02)
        group.rmdir()
