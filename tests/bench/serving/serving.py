"""Measures the served models against the floors of tests/bench/targets.csv, and prints a table.

Four things, each against something measured in turn in the same run:
  served       images/s of deit_tiny_patch16_224 fp32 at concurrency 8, against the raw model at its best batch on all
               cores, with an allocator that keeps its pages, as a server's threads do; without a floor also against one
               that gives them back after each call, and as a share of the cores that the load generator leaves, which the
               raw model has for itself. The model is served as it is by default
  http         the same over HTTP
  triton       the same over gRPC, against Triton Inference Server with the same torch model (where `make peers` was run)
  identity     p50 of an identity model at concurrency 1 with a 150 KB uint8 tensor, less an in-process call; without a floor
               also by a load generator that reads no answers, against a gRPC server that sends the request's bytes back

Exits 1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [
    str(pathlib.Path(__file__).resolve().parents[2]),
    str(pathlib.Path(__file__).resolve().parents[1]),
]
import perf_analyzer
import targets
from servers import (
    IDENTITY,
    MODEL,
    ROOT,
    requests_answered,
    start_echo,
    start_fovea,
    start_triton,
    write_inputs,
    write_repository,
)


def measure_served(
    address: str,
    model: str,
    data: pathlib.Path,
    concurrency: int,
    window_ms: int,
    protocol: str = "grpc",
) -> dict[str, float]:
    """Inferences per second, the median latency, and the cores that the load generator took."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, start = used(), time.monotonic()
    row = perf_analyzer.run(
        address,
        model,
        data,
        protocol=protocol,
        concurrency=str(concurrency),
        window_ms=window_ms,
    )[-1]
    return {
        "per_second": float(row["Inferences/Second"]),
        "p50_us": float(row["p50 latency"]),
        "cores": (used() - before) / (time.monotonic() - start),
    }


def p50_us(build: pathlib.Path, address: str, request: pathlib.Path) -> float:
    """Of one request at a time."""
    command = [build / "tests/bench_load", address, "closed", 1, 3, 60_000, request]
    return (
        json.loads(subprocess.check_output([str(part) for part in command]))["p50_ms"]
        * 1000
    )


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
                for name, protocol, address in (
                    ("served img/s", "grpc", fovea.match[1]),
                    ("served over HTTP img/s", "http", fovea.match[2]),
                ):
                    served = measure_served(
                        address, MODEL, inputs[MODEL], 8, window_ms, protocol
                    )
                    add(name, served["per_second"])
                    left = (threads - served["cores"]) / threads
                    add(f"{name}, on the cores left", served["per_second"] / left)
                add(
                    "in-process us",
                    raw_model(build, IDENTITY, threads, 0.5, [1])[0]["p50_us"],
                )
                add(
                    "identity p50 us, answers unread",
                    p50_us(build, fovea.match[1], inputs["identity_request"]),
                )
                with start_echo(build) as echo:
                    add(
                        "echo p50 us",
                        p50_us(build, echo.match[1], inputs["identity_request"]),
                    )
                before = fovea.cpu_seconds()
                identity = measure_served(
                    fovea.match[1], IDENTITY, inputs[IDENTITY], 1, 1000
                )
                busy = fovea.cpu_seconds() - before
                add("identity p50 us", identity["p50_us"])
                add(
                    "identity server CPU us/request",
                    busy / requests_answered(fovea.match[3], IDENTITY) * 1e6,
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
        "http_over_raw": median["served over HTTP img/s"]
        / median["raw img/s, pages kept"],
        "identity_overhead_us": median["identity p50 us"] - median["in-process us"],
    }
    if peers is not None:
        results["served_over_triton"] = median["served img/s"] / median["triton img/s"]

    for name, value in median.items():
        print(f"{name:32} {value:10.1f}  (median of {arguments.rounds} rounds)")
    given_back = median["served img/s"] / median["raw img/s"]
    print(f"{'served over raw, pages given back':32} {given_back:10.2f}  (no floor)")
    left = median["served img/s, on the cores left"] / median["raw img/s, pages kept"]
    print(f"{'served over raw, on the cores left':32} {left:10.2f}  (no floor)")
    if peers is None:
        print("served_over_triton was not measured: `make peers` was not run")
    left_out = {"served_over_triton"} if peers is None else ()
    return targets.report("bench", results, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
