"""Measures the served models against the floors of tests/bench/targets.csv, and prints a table.

Three things, each against something measured in turn in the same run:
  served       images/s of deit_tiny_patch16_224 fp32 at concurrency 8, against the raw model at its best batch on all
               cores, with an allocator that keeps its pages, as a server's threads do; without a floor also against one
               that gives them back after each call. The server has an instance for each core and batches of two: the arrangement for throughput.
  triton       the same, against Triton Inference Server with the same torch model (where `make peers` was run)
  identity     p50 of an identity model at concurrency 1 with a 150 KB uint8 tensor, less an in-process call

Exits 1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Self

import numpy as np

sys.path[:0] = [
    str(pathlib.Path(__file__).resolve().parents[2]),
    str(pathlib.Path(__file__).resolve().parents[1]),
]
import perf_analyzer
import targets

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MODEL = "deit_tiny_patch16_224"
IDENTITY = "identity"
SIZE = 224


def write_repository(folder: pathlib.Path) -> None:
    """Both models with seeded weights."""
    for name, spec in {
        MODEL: (
            f'spec_version: 1\nbackbone: "{MODEL}"\nrandom_weights {{ seed: 1 }}\nmax_batch_size: 4\n'
            f"instance_group {{ count: {os.cpu_count()} }}\n"
            "dynamic_batching { preferred_batch_size: 2 max_queue_delay_microseconds: 10000 }\n"
        ),
        IDENTITY: (
            f'spec_version: 1\nbackbone: "{IDENTITY}"\nrandom_weights {{ seed: 1 }}\n'
            "max_batch_size: 1\nadvertised_input: IMAGE_RGB\n"
        ),
    }.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "model.textproto").write_text(spec)


def write_inputs(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """A folder per model with one binary file per input: perf_analyzer's own random floats hold NaN and infinity."""
    random = np.random.default_rng(0)
    inputs = {MODEL: folder / MODEL, IDENTITY: folder / IDENTITY}
    for path in inputs.values():
        path.mkdir()
    random.standard_normal((1, 3, SIZE, SIZE), dtype=np.float32).tofile(
        inputs[MODEL] / "pixel_values"
    )
    random.integers(0, 256, (1, SIZE, SIZE, 3), dtype=np.uint8).tofile(
        inputs[IDENTITY] / "image_rgb"
    )
    return inputs


class Process:
    """A server under measurement; ends with the block."""

    def __init__(
        self,
        command: list[object],
        pattern: str,
        environment: dict[str, str] | None = None,
    ):
        self.log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115  (lives as long as we do)
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        end = time.monotonic() + 180
        while True:
            text = pathlib.Path(self.log.name).read_text(errors="replace")
            if found := re.search(pattern, text, re.DOTALL):
                self.match = found
                return
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start:\n{text[-3000:]}")
            time.sleep(0.1)

    def cpu_seconds(self) -> float:
        fields = (
            pathlib.Path(f"/proc/{self.process.pid}/stat")
            .read_text()
            .rsplit(")", 1)[1]
            .split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def measure_served(
    address: str, model: str, data: pathlib.Path, concurrency: int, window_ms: int
) -> dict[str, float]:
    """Inferences per second and the median latency."""
    row = perf_analyzer.run(
        address, model, data, concurrency=str(concurrency), window_ms=window_ms
    )[-1]
    return {
        "per_second": float(row["Inferences/Second"]),
        "p50_us": float(row["p50 latency"]),
    }


def raw_model(
    build: pathlib.Path,
    backbone: str,
    threads: int,
    seconds: float,
    batches: list[int],
    *flags: str,
) -> list[dict]:
    command = [build / "tests/bench_raw_model", *flags, backbone, threads, seconds]
    command += batches
    return json.loads(subprocess.check_output([str(part) for part in command]))["runs"]


def start_fovea(build: pathlib.Path, repository: pathlib.Path) -> Process:
    return Process(
        [
            build / "bin/fovea-server",
            "--model-repository",
            repository,
            "--grpc-port",
            "0",
            "--http-port",
            "0",
            "--metrics-port",
            "0",
        ],
        r"listening: grpc=(\S+) http=\S+ metrics=(\S+).*\bready\b: 2 models",
    )


def requests_answered(metrics_address: str, model: str) -> float:
    with urllib.request.urlopen(f"http://{metrics_address}/metrics") as answer:
        text = answer.read().decode()
    pattern = (
        rf'^fovea_requests_total{{[^}}]*code="OK"[^}}]*model="{model}"[^}}]*}} (\S+)'
    )
    return sum(float(count) for count in re.findall(pattern, text, re.MULTILINE))


def start_triton(peers: pathlib.Path, threads: int) -> Process:
    return Process(
        [ROOT / "tests/peers/triton.sh", MODEL, "float32"],
        r"Started GRPCInferenceService at (\S+)",
        {"PEERS": str(peers), "THREADS": str(threads)},
    )


def measure(
    build: pathlib.Path, peers: pathlib.Path | None, rounds: int, window_ms: int
) -> dict[str, float]:
    """Each round measures every contender once, so that the machine's moods fall on all of them."""
    threads = os.cpu_count() or 1
    samples: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)
        print(f"  {name} {value:.1f}", flush=True)

    with tempfile.TemporaryDirectory() as work:
        repository, data = pathlib.Path(work, "models"), pathlib.Path(work, "data")
        repository.mkdir(), data.mkdir()
        write_repository(repository)
        inputs = write_inputs(data)
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", flush=True)
            for name, flags in {
                "raw img/s": (),
                "raw img/s, pages kept": ("--keep-pages",),
            }.items():
                runs = raw_model(build, MODEL, threads, 1, [1, 2, 4, 8, 16], *flags)
                add(name, max(run["images_per_second"] for run in runs))
            with start_fovea(build, repository) as fovea:
                served = measure_served(
                    fovea.match[1], MODEL, inputs[MODEL], 8, window_ms
                )
                add("served img/s", served["per_second"])
                add(
                    "in-process us",
                    raw_model(build, IDENTITY, threads, 0.5, [1])[0]["p50_us"],
                )
                before = fovea.cpu_seconds()
                identity = measure_served(
                    fovea.match[1], IDENTITY, inputs[IDENTITY], 1, 1000
                )
                busy = fovea.cpu_seconds() - before
                add("identity p50 us", identity["p50_us"])
                add(
                    "identity server CPU us/request",
                    busy / requests_answered(fovea.match[2], IDENTITY) * 1e6,
                )
            if peers is not None:
                with start_triton(peers, threads) as triton:
                    add(
                        "triton img/s",
                        measure_served(
                            triton.match[1], MODEL, inputs[MODEL], 8, window_ms
                        )["per_second"],
                    )
    return {name: statistics.median(values) for name, values in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument(
        "--peers", type=pathlib.Path, default=pathlib.Path.home() / ".cache/fovea/peers"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window-ms", type=int, default=4000)
    arguments = parser.parse_args()
    peers = arguments.peers if (arguments.peers / "bin/python").exists() else None

    median = measure(arguments.build, peers, arguments.rounds, arguments.window_ms)
    results = {
        "served_over_raw": median["served img/s"] / median["raw img/s, pages kept"],
        "identity_overhead_us": median["identity p50 us"] - median["in-process us"],
    }
    if peers is not None:
        results["served_over_triton"] = median["served img/s"] / median["triton img/s"]

    for name, value in median.items():
        print(f"{name:32} {value:10.1f}  (median of {arguments.rounds} rounds)")
    given_back = median["served img/s"] / median["raw img/s"]
    print(f"{'served over raw, pages given back':32} {given_back:10.2f}  (no floor)")
    if peers is None:
        print("served_over_triton was not measured: `make peers` was not run")
    left_out = {"served_over_triton"} if peers is None else ()
    return targets.report("bench", results, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
