"""Soaks a server in what operators meet: mixed traffic over both protocols while models are reloaded and the process is killed.

Of the requests 10% are bad, 5% are given up by their callers and 5% have a deadline that cannot be met. Every 20 seconds the
model is loaded anew, and at times the server is killed and started again. Each answer is compared with that of a quiet
server to the same request, and the code of each refusal with what was asked: nothing is lost, and nothing mixed up.

    soak.py [--seconds 1800] [--kills 6]      exits 1 when anything was
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import http.client
import itertools
import json
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from running_server import DEMO, ROOT, Server
from tritonclient.utils import InferenceServerException

MODELS, SIZE = ("shapes", "shapes_knn"), 64
RELOADED = MODELS[0]
PICTURES = sorted((ROOT / "client/examples").glob("*.jpg"))
CALLERS = 4  # of each protocol
RELOAD_SECONDS = 20
# Batches of different sizes round differently.
TOLERANCE = 1e-3
MOST_SECONDS = 45  # that a request may take before it counts as lost
# In bytes, from the time when all has been seen once. test_memory.py has the tighter bound, by requests.
MOST_GROWTH = 96 << 20


@dataclasses.dataclass(frozen=True)
class Question:
    """A request and what a quiet server answered to it."""

    model: str
    picture: bytes | None  # a file, or `values`
    values: np.ndarray | None
    logits: np.ndarray


class Outages:
    """When the server was down. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._down: list[list[float]] = []
        self.up = threading.Event()
        self.up.set()

    def begin(self) -> None:
        with self._lock:
            self._down.append([time.monotonic(), float("inf")])
        self.up.clear()

    def end(self) -> None:
        with self._lock:
            self._down[-1][1] = time.monotonic()
        self.up.set()

    def overlap_since(self, start: float) -> bool:
        """Whether it was down at any time from `start` until now."""
        with self._lock:
            return any(end >= start for _, end in self._down)


class Record:
    """What came of the requests. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []

    def count(self, outcome: str) -> None:
        with self._lock:
            self.counts[outcome] += 1

    def fail(self, what: str) -> None:
        with self._lock:
            self.counts["FAILED"] += 1
            self.failures.append(what)


def inputs(module, question: Question, *, wrong: bool = False):
    if question.picture is not None:
        content = question.picture[: 500 if wrong else None]
        tensor = module.InferInput("image", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[content]], dtype=np.object_))
    else:
        values = question.values[:, :, : SIZE // 2 if wrong else None]
        tensor = module.InferInput("pixel_values", values.shape, "FP32")
        tensor.set_data_from_numpy(np.ascontiguousarray(values))
    return [tensor]


class Caller(threading.Thread):
    """One closed loop of random requests, until `end`."""

    def __init__(
        self, soak: Soak, name: str, seed: int, client: Callable[[], object], module
    ) -> None:
        super().__init__(name=name)
        self._soak, self._random = soak, random.Random(seed)
        self._make_client, self._module = client, module

    def run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001 - a caller that ends is a failure
            self._soak.record.fail(f"{self.name} ended: {error!r}")

    def _loop(self) -> None:
        number = 0
        while time.monotonic() < self._soak.end:
            self._soak.outages.up.wait(60)
            with contextlib.closing(self._make_client()) as client:
                while (
                    time.monotonic() < self._soak.end and self._soak.outages.up.is_set()
                ):
                    number += 1
                    self._ask(client, f"{self.name}-{number}")

    def _ask(self, client, request_id: str) -> None:
        question = self._random.choice(self._soak.questions)
        kind = self._random.choices(
            (self.good, self.bad, self.abandoned, self.hopeless), (80, 10, 5, 5)
        )[0]
        start = time.monotonic()
        try:
            kind(client, question, request_id)
            self._soak.record.count(f"{self._module.__name__} {kind.__name__}")
            self._soak.record.count(f"{self.name} {kind.__name__}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is judged here
            lost = time.monotonic() - start > MOST_SECONDS
            mixed_up = isinstance(error, AssertionError)
            if self._soak.outages.overlap_since(start) and not lost and not mixed_up:
                self._soak.record.count("met a killed server")
            else:
                self._soak.record.fail(f"{request_id} {kind.__name__}: {error!r}")

    def infer(self, client, question: Question, request_id: str = "", **options):
        return client.infer(
            question.model,
            inputs(self._module, question),
            request_id=request_id,
            **options,
        )

    def good(self, client, question: Question, request_id: str) -> None:
        answer = self.infer(client, question, request_id)
        told = answer.get_response()
        told_id = told["id"] if isinstance(told, dict) else told.id
        told_model = told["model_name"] if isinstance(told, dict) else told.model_name
        assert (told_id, told_model) == (request_id, question.model)
        np.testing.assert_allclose(
            answer.as_numpy("logits"), question.logits, rtol=0, atol=TOLERANCE
        )

    def bad(self, client, question: Question, request_id: str) -> None:
        model, wrong = self._random.choice(
            [("no_such_model", False), (question.model, True)]
        )
        try:
            client.infer(
                model,
                inputs(self._module, question, wrong=wrong),
                request_id=request_id,
            )
        except InferenceServerException as error:
            expected = ("INVALID_ARGUMENT", "400") if wrong else ("NOT_FOUND", "404")
            if any(code in str(error.status()) for code in expected):
                return
            raise
        raise AssertionError("a bad request was answered")

    def hopeless(self, client, question: Question, request_id: str) -> None:
        try:
            self.infer(client, question, request_id, timeout=1)
        except InferenceServerException as error:
            if any(code in str(error.status()) for code in ("DEADLINE", "504")):
                return
            raise
        raise AssertionError("an answer came after its deadline")

    def abandoned(self, client, question: Question, request_id: str) -> None:
        raise NotImplementedError


class GrpcCaller(Caller):
    def abandoned(self, client, question: Question, request_id: str) -> None:
        done = threading.Event()
        call = client.async_infer(
            question.model,
            inputs(triton_grpc, question),
            lambda result, error: done.set(),
            request_id=request_id,
        )
        time.sleep(self._random.uniform(0, 0.01))
        call.cancel()
        assert done.wait(30), "a cancelled call never ended"


class HttpCaller(Caller):
    def abandoned(self, client, question: Question, request_id: str) -> None:
        connection = http.client.HTTPConnection(self._soak.server.http, timeout=30)
        body = question.picture or PICTURES[0].read_bytes()
        connection.request("POST", f"/v1/classify?model={question.model}", body)
        time.sleep(self._random.uniform(0, 0.01))
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()


class Soak:
    """A server on ports of its own, and what happens to it."""

    def __init__(
        self, folder: pathlib.Path, seconds: float, kills: int, reload_seconds: float
    ) -> None:
        self.folder, self.kills, self.seconds = folder, kills, seconds
        self.reload_seconds = reload_seconds
        self.outages, self.record = Outages(), Record()
        self.reloads = 0
        self.server = self.start()
        self.flags = [
            *("--grpc-port", self.server.grpc.rpartition(":")[2]),
            *("--http-port", self.server.http.rpartition(":")[2]),
        ]
        self.questions = list(self.ask_quietly())
        # Answers to different questions differ, or a mix-up would not be seen.
        tensors = [one for one in self.questions if one.picture is None]
        for one, other in itertools.combinations(tensors, 2):
            distance = np.abs(one.logits - other.logits).max()
            assert one.model != other.model or distance > 10 * TOLERANCE
        self.end = time.monotonic() + seconds

    def start(self, *flags: str) -> Server:
        return Server(
            self.folder / f"server_{time.monotonic_ns()}.log",
            *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
            *(part for model in MODELS for part in ("--load-model", model)),
            *flags,
        )

    def ask_quietly(self):
        generator = np.random.default_rng(0)
        with contextlib.closing(
            triton_grpc.InferenceServerClient(self.server.grpc)
        ) as client:
            for number in range(32):
                picture, values = PICTURES[number % len(PICTURES)].read_bytes(), None
                if number % 2 == 1:
                    picture = None
                    values = generator.standard_normal(
                        (1, 3, SIZE, SIZE), dtype=np.float32
                    )
                asked = Question(
                    MODELS[number // 2 % len(MODELS)], picture, values, np.empty(0)
                )
                answer = client.infer(asked.model, inputs(triton_grpc, asked))
                yield dataclasses.replace(asked, logits=answer.as_numpy("logits"))

    def reload(self) -> None:
        """Alternately over the two protocols, with another size of batches each time."""
        make = (triton_grpc, triton_http)[self.reloads % 2].InferenceServerClient
        address = (self.server.grpc, self.server.http)[self.reloads % 2]
        with contextlib.closing(make(address)) as client:
            most = (8, 16)[self.reloads // 2 % 2]
            client.load_model(RELOADED, config=json.dumps({"max_batch_size": most}))
            told = client.get_model_config(RELOADED)
            told = (
                told["max_batch_size"]
                if isinstance(told, dict)
                else told.config.max_batch_size
            )
            assert told == most
        self.reloads += 1

    def kill(self) -> None:
        self.outages.begin()
        self.server.close()
        self.server = self.start(*self.flags)
        self.outages.end()

    def run(self) -> None:
        callers: list[Caller] = []
        for number in range(CALLERS):
            callers += [
                GrpcCaller(
                    self,
                    f"grpc{number}",
                    number,
                    lambda: triton_grpc.InferenceServerClient(self.server.grpc),
                    triton_grpc,
                ),
                HttpCaller(
                    self,
                    f"http{number}",
                    100 + number,
                    lambda: triton_http.InferenceServerClient(self.server.http),
                    triton_http,
                ),
            ]
        for caller in callers:
            caller.start()
        begin = time.monotonic()
        reload_at = begin + self.reload_seconds
        kill_at = [
            begin + self.seconds * (kill + 1) / (self.kills + 1)
            for kill in range(self.kills)
        ]
        warm_at, resident = begin + self.reload_seconds, None
        while time.monotonic() < self.end:
            time.sleep(0.2)
            now = time.monotonic()
            if now >= reload_at:
                reload_at += self.reload_seconds
                self.reload()
            if kill_at and now >= kill_at[0]:
                kill_at.pop(0)
                self.kill()
                warm_at, resident = time.monotonic() + self.reload_seconds, None
            if resident is None and now >= warm_at:
                resident = self.server.resident_bytes()
        for caller in callers:
            caller.join(120)
            if caller.is_alive():
                self.record.fail(f"{caller.name} waits for ever")
        if resident is None:
            self.record.fail("the run ended before the server was warm again")
        else:
            grown = self.server.resident_bytes() - resident
            minutes = (time.monotonic() - warm_at) / 60
            print(
                f"resident memory grew by {grown / (1 << 20):.1f} MiB in {minutes:.1f} minutes since the last warm-up"
            )
            if grown > MOST_GROWTH:
                self.record.fail(f"memory grew by {grown} bytes")
        if (code := self.server.terminate()) != 0:
            self.record.fail(f"the server ended with {code}")

    def close(self) -> None:
        self.server.close()


def soak(
    folder: pathlib.Path,
    seconds: float,
    kills: int,
    reload_seconds: float = RELOAD_SECONDS,
) -> Record:
    running = Soak(folder, seconds, kills, reload_seconds)
    try:
        running.run()
    finally:
        running.close()
    running.record.counts["reloads"] = running.reloads
    return running.record


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--kills", type=int, help="default: one every five minutes")
    options = parser.parse_args()
    kills = options.kills
    if kills is None:
        kills = max(1, int(options.seconds // 300))
    with tempfile.TemporaryDirectory() as folder:
        record = soak(pathlib.Path(folder), options.seconds, kills)
    for outcome, count in sorted(record.counts.items()):
        print(f"{count:9d}  {outcome}")
    print("\n".join(record.failures[:20]))
    return 1 if record.failures else 0


if __name__ == "__main__":
    sys.exit(main())
