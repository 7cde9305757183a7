"""Measures the goodput under twice the load that the server can carry, and prints a table.

For tensors and for 12-megapixel photographs, to the bundled 64-pixel model: first the capacity (answers a second with
enough requests always under way and no deadline to speak of), then twice that rate, at random, each request with a
deadline of one second. Goodput is what is answered in time, over the capacity of the cores that the load generator, which
shares them with the server, leaves: twice the requests cost it twice the time. Both shares are printed, over the whole
capacity and over that.

The model has an instance for each core, as an operator sets it who wants throughput. With one instance on all cores, the
default, whatever else a core does holds up the others (printed, without a floor).

Exits 1 when a floor of tests/bench/targets.csv is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import io
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path[:0] = [
    str(pathlib.Path(__file__).resolve().parents[2]),
    str(pathlib.Path(__file__).resolve().parents[1]),
]
import running_server
import targets
from photograph import photograph
from tritonclient.grpc import service_pb2

MODEL, SIZE = "shapes", 64
CORES = len(os.sched_getaffinity(0))
UNDER_WAY = 32 * CORES  # two full batches for each instance
DEADLINE_MS, PATIENT_MS = 1000, 30_000
OVERLOAD = 2.0


def request(
    name: str, datatype: str, shape: list[int], content: bytes
) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=MODEL)
    message.inputs.add(name=name, datatype=datatype, shape=shape)
    message.raw_input_contents.append(content)
    return message


def requests() -> dict[str, service_pb2.ModelInferRequest]:
    pixels = np.random.default_rng(0).standard_normal(
        (1, 3, SIZE, SIZE), dtype=np.float32
    )
    jpeg = io.BytesIO()
    photograph(4000, 3000).save(jpeg, "JPEG", quality=85)
    file = jpeg.getvalue()
    return {
        "tensors": request(
            "pixel_values", "FP32", [1, 3, SIZE, SIZE], pixels.tobytes()
        ),
        "photographs": request(
            "image", "BYTES", [1, 1], len(file).to_bytes(4, "little") + file
        ),
    }


@dataclasses.dataclass
class Load:
    """What a load generator got, and the cores it took."""

    report: dict
    cores: float

    @property
    def in_time(self) -> float:
        return self.report["in_time_per_second"]


def load(
    build: pathlib.Path,
    address: str,
    message: pathlib.Path,
    kind: str,
    value: float,
    seconds: float,
    deadline_ms: int,
) -> Load:
    command = [build / "tests/bench_load", address, message, kind, value, seconds]

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, start = used(), time.monotonic()
    printed = subprocess.check_output(
        [str(part) for part in [*command, deadline_ms]], timeout=seconds + 120
    )
    return Load(json.loads(printed), (used() - before) / (time.monotonic() - start))


def repository(folder: pathlib.Path, instances: int) -> pathlib.Path:
    """The bundled model with so many instances."""
    shutil.copytree(running_server.DEMO / MODEL, folder / MODEL)
    with (folder / MODEL / "model.textproto").open("a") as spec:
        spec.write(f"instance_group {{ count: {instances} }}\n")
    return folder


def goodput(
    arguments: argparse.Namespace,
    name: str,
    server: running_server.Server,
    message: pathlib.Path,
) -> float:
    """Of the capacity that the generator leaves; prints how it came about."""
    run = functools.partial(load, arguments.build, server.grpc, message)
    full = run("closed", UNDER_WAY, arguments.seconds, PATIENT_MS)
    over = run("open", OVERLOAD * full.in_time, arguments.seconds, DEADLINE_MS)
    left = full.in_time * (CORES - over.cores) / (CORES - full.cores)
    print(
        f"{name}: capacity {full.in_time:.1f}/s, in time {over.in_time:.1f}/s, {over.in_time / full.in_time:.3f} of it, "
        f"{over.in_time / left:.3f} of what the generator leaves ({full.cores:.2f} and {over.cores:.2f} cores), "
        f"p50 {over.report['p50_ms']:.0f} ms, p99 {over.report['p99_ms']:.0f} ms, codes {over.report['codes']}, "
        f"unsent {over.report['unsent']}",
        flush=True,
    )
    return over.in_time / left


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=running_server.BUILD)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    measured: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        folder = pathlib.Path(work)
        for name, message in requests().items():
            (folder / name).write_bytes(message.SerializeToString())
        servers = {}
        for suffix, instances in {"": CORES, "_one_instance": 1}.items():
            servers[suffix] = running_server.Server(
                folder / f"server{suffix}.log",
                "--model-repository",
                str(repository(folder / f"models{suffix}", instances)),
            )
            stack.callback(servers[suffix].close)
        for number in range(arguments.rounds):
            for suffix, server in servers.items():
                for name in requests():
                    share = goodput(
                        arguments,
                        f"round {number + 1}, {name}{suffix}",
                        server,
                        folder / name,
                    )
                    measured.setdefault(f"goodput_{name}{suffix}", []).append(share)
        for server in servers.values():
            server.terminate()
    median = {name: statistics.median(shares) for name, shares in measured.items()}
    beside = {name for name in median if name.endswith("_one_instance")}
    for name in sorted(beside):
        print(f"{name:36} {median.pop(name):.2f}  (no floor)")
    return targets.report("bench-overload", median)


if __name__ == "__main__":
    sys.exit(main())
