"""A server under mixed load, a second one with TLS, keys and spans, and a Prometheus that scrapes both."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import numpy as np
import tritonclient.grpc as triton
import yaml
from certificates import Authority
from PIL import Image
from queries import PROMETHEUS
from running_server import BUILD, DEMO, Server
from tritonclient.utils import InferenceServerException

# Two tasks, four attentions, and two resolutions of each model.
CLASSIFIERS = ("shapes", "shapes_knn")
DETECTORS = ("detector_dense", "detector_aewin", "detector_key_only")
ATTENTIONS = ["dense", "knn:k=0.5", "aewin", "key_only"]
CLASSIFIER_SIZES = (64, 96)
SCRAPE_SECONDS = 1
# Of each cycle the callers rest for a while: a device that always has work makes no shadow copies.
CYCLE_SECONDS, REST_SECONDS = 5, 1
# Of the experiment that runs on the traffic of `shapes`, the arm that is tested against the baseline.
EXPERIMENT, ARM = "night", "shapes_knn:knn:k=0.5"
KEY = "a key for the second server"
# Of both servers, as if they were pods: the first one has the load, the second one is asked nothing.
NAMESPACE, BUSY_POD, IDLE_POD = "default", "fovea-0", "fovea-1"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def make_repository(folder: pathlib.Path, max_batch_size: int) -> pathlib.Path:
    """The bundled models with a further size each; small batches are soon ready."""
    for name in (*CLASSIFIERS, *DETECTORS):
        shutil.copytree(DEMO / name, folder / name)
        file = folder / name / "model.textproto"
        lines = [
            line
            for line in file.read_text().splitlines()
            if "max_batch_size" not in line
        ]
        height, width = (96, 96) if name in CLASSIFIERS else (64, 128)
        lines += [
            f"max_batch_size: {max_batch_size}",
            f"further_image_sizes {{ height: {height} width: {width} }}",
        ]
        file.write_text("\n".join(lines) + "\n")
    return folder


def task_of(model: str) -> str:
    return "detect" if model in DETECTORS else "classify"


def picture(width: int, height: int, seed: int) -> bytes:
    noise = np.random.default_rng(seed).integers(
        0, 255, (height, width, 3), dtype=np.uint8
    )
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG")
    return file.getvalue()


def rest_left() -> float:
    """Seconds; 0 while callers work."""
    return max(0.0, REST_SECONDS - time.monotonic() % CYCLE_SECONDS)


class Load:
    """Callers of both protocols in closed loops: most ask for what can be answered, some do not. All but one rest now and
    then. Thread-safe."""

    def __init__(self, server: Server, callers: int):
        self._server = server
        self.pause = 0.0  # between two requests of a caller
        self._end = threading.Event()
        self.failures: list[str] = []
        self._pictures = [picture(128, height, seed=height) for height in (128, 60)]
        self._threads = [
            threading.Thread(target=self._loop, args=(caller, seed))
            for seed, caller in enumerate(
                [self._grpc, self._http, self._http] * callers
                + [self._unwell, self._at_leisure]
            )
        ]
        for thread in self._threads:
            thread.start()

    def _loop(self, caller, seed: int) -> None:
        chosen = random.Random(seed)
        try:
            with contextlib.closing(
                triton.InferenceServerClient(self._server.grpc)
            ) as client:
                rests = caller != self._at_leisure
                while not self._end.wait(self.pause + (rests and rest_left())):
                    caller(client, chosen)
        except Exception as error:  # noqa: BLE001 - a caller that ends is a failure
            self.failures.append(repr(error))

    def _pixels(self, chosen: random.Random) -> list[triton.InferInput]:
        side = chosen.choice(CLASSIFIER_SIZES)
        pixels = np.zeros((chosen.randint(1, 2), side, side, 3), np.uint8)
        tensor = triton.InferInput("image_rgb", pixels.shape, "UINT8")
        tensor.set_data_from_numpy(pixels)
        return [tensor]

    def _grpc(
        self, client: triton.InferenceServerClient, chosen: random.Random
    ) -> None:
        client.infer(chosen.choice(CLASSIFIERS), self._pixels(chosen))

    def _post(self, path: str, body: bytes) -> int:
        connection = http.client.HTTPConnection(self._server.http, timeout=120)
        try:
            connection.request("POST", path, body)
            return connection.getresponse().status
        finally:
            connection.close()

    def _http(
        self, client: triton.InferenceServerClient, chosen: random.Random
    ) -> None:
        model = chosen.choice((*CLASSIFIERS, *DETECTORS))
        status = self._post(
            f"/v1/{task_of(model)}?model={model}", chosen.choice(self._pictures)
        )
        assert status == 200, (model, status)

    def _unwell(
        self, client: triton.InferenceServerClient, chosen: random.Random
    ) -> None:
        """One that cannot be answered in time, one that is given up, a bad picture, and no model."""
        model = chosen.choice(CLASSIFIERS)
        with contextlib.suppress(InferenceServerException):
            client.infer(model, self._pixels(chosen), timeout=1)  # a microsecond
        done = threading.Event()
        call = client.async_infer(
            model, self._pixels(chosen), lambda result, error: done.set()
        )
        time.sleep(chosen.uniform(0, 0.01))
        call.cancel()
        assert done.wait(60), "a cancelled call never ended"
        broken = self._pictures[0][:200]
        for each in (model, "detector_dense"):
            assert self._post(f"/v1/{task_of(each)}?model={each}", broken) == 400
        assert self._post("/v1/classify?model=nobody", self._pictures[0]) == 404
        time.sleep(0.2)

    def _at_leisure(
        self, client: triton.InferenceServerClient, chosen: random.Random
    ) -> None:
        """While the others rest: a picture of the experiment's model, and time for its copy."""
        if rest_left():
            assert self._post("/v1/classify?model=shapes", self._pictures[0]) == 200
        self._end.wait(0.05)

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


def ask_about_experiments(server: Server, method: str, path: str, plan: object = None):
    request = urllib.request.Request(
        f"http://{server.http}/v1/experiments{path}",
        None if plan is None else json.dumps(plan).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def start_experiments(server: Server) -> None:
    """One that shares the traffic of `shapes` out and copies it as well, and one that has ended."""

    def plan(name: str, baseline: str, model: str, **arm: object) -> dict[str, object]:
        return {
            "name": name,
            "model_name": baseline,
            "arms": [
                {"variant": {"model_name": baseline}, "weight": 1},
                {"variant": {"model_name": model}, **arm},
            ],
            # On a busy machine anything may be slow: nothing but a caller ends them.
            "guard_rails": {"max_latency_ratio": 1000, "max_shadow_share": 0.5},
        }

    shared = plan(EXPERIMENT, "shapes", "shapes_knn", weight=1, shadow=True)
    ended = plan("ended", "detector_dense", "detector_aewin", weight=1)
    for each in (shared, ended):
        ask_about_experiments(server, "POST", "", each)
    ask_about_experiments(server, "POST", "/ended/stop")


class Prometheus:
    """Debian's, with the repository's configuration, but for the addresses and how often it looks. Its targets are pods of a
    namespace, with the labels that an operator gives them in Kubernetes."""

    def __init__(self, folder: pathlib.Path, pods: dict[str, str]):
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        config["global"] = dict.fromkeys(
            ("scrape_interval", "evaluation_interval"), f"{SCRAPE_SECONDS}s"
        )
        config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
        (scrape,) = config["scrape_configs"]
        scrape["static_configs"] = [
            {"targets": [target], "labels": {"namespace": NAMESPACE, "pod": pod}}
            for pod, target in pods.items()
        ]
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        self.address = f"127.0.0.1:{free_port()}"
        self._log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + 60
        while not self._ready():
            assert self.process.poll() is None and time.monotonic() < end, (
                self._log.name
            )
            time.sleep(0.1)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def ask(self, path: str, **parameters: object) -> list[dict]:
        """The series of an answer of its API."""
        body = urllib.parse.urlencode(parameters).encode()
        with urllib.request.urlopen(
            f"http://{self.address}/api/v1/{path}", body, 60
        ) as answer:
            return json.load(answer)["data"]["result"]

    def has_data(self, expr: str) -> bool:
        """Whether any series of it is a number now."""
        return any(
            series["value"][1] != "NaN" for series in self.ask("query", query=expr)
        )

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


class Monitored:
    """All of it, until `close`."""

    def __init__(self, folder: pathlib.Path, max_batch_size: int = 2, callers: int = 1):
        self._parts = contextlib.ExitStack()
        try:
            self._start(folder, max_batch_size, callers)
        except BaseException:
            self._parts.close()
            raise

    def _start(self, folder: pathlib.Path, max_batch_size: int, callers: int) -> None:
        # A driver that tells of two GPUs: tests/server/observe/fake_nvml.c.
        driver = folder / "driver"
        driver.mkdir()
        (driver / "libnvidia-ml.so.1").symlink_to(
            BUILD / "tests" / "libfovea_fake_nvml.so"
        )
        search = f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        self.server = Server(
            folder / "server.log",
            *(
                "--model-repository",
                str(make_repository(folder / "models", max_batch_size)),
                "--enable-experiments",
            ),
            environment={"LD_LIBRARY_PATH": search},
        )
        self._parts.callback(self.server.close)
        start_experiments(self.server)
        self.secured, self.keys = self._start_secured(folder)
        self._parts.callback(self.secured.close)
        self.load = Load(self.server, callers)
        self._parts.callback(self.load.close)
        self.prometheus = Prometheus(
            folder,
            {BUSY_POD: self.server.metrics, IDLE_POD: self.secured.metrics},
        )
        self._parts.callback(self.prometheus.close)

    @staticmethod
    def _start_secured(folder: pathlib.Path) -> tuple[Server, pathlib.Path]:
        """Another with what the first does not have: TLS, API keys, Triton's metrics, and a collector that is not there."""
        issued = Authority(folder / "certificates").issue("localhost")
        keys, alone = folder / "keys.json", folder / "one_model"
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        keys.write_text(
            json.dumps(
                {
                    "keys": [
                        {"name": "caller", "sha256": digest, "groups": ["inference"]}
                    ]
                }
            )
        )
        shutil.copytree(DEMO / "shapes", alone / "shapes")
        server = Server(
            folder / "secured.log",
            *("--model-repository", str(alone), "--api-keys-file", str(keys)),
            *("--tls-cert", str(issued.certificate), "--tls-key", str(issued.key)),
            *("--metrics-plaintext", "--otlp-endpoint", f"127.0.0.1:{free_port()}"),
            "--triton-metrics",
        )
        return server, keys

    def close(self) -> None:
        self._parts.close()


def values(**more: str | list[str]) -> dict[str, str | list[str]]:
    """Of the dashboards' variables, while everything is chosen and a minute is shown."""
    return {
        "job": "fovea",
        "instance": ".+",
        "model": ".+",
        "attention": ATTENTIONS,
        "baseline": "dense",
        "experiment": ".*",
        "arm": ARM,
        "resolution": ".+",
        "window": "5s",
        "__rate_interval": "20s",
        "__range": "60s",
        **more,
    }
