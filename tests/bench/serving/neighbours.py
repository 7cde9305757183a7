"""Measures what busy neighbours cost, and what it costs a quiet machine to be ready for them: prints a table.

  start     of a server until all bundled models are ready
  latency   of one caller in a closed loop, of the bundled 64-pixel model
  compare   of two attentions over that model's weights, of so many rounds
  train     of the small classifier, for so many steps, from the start of the program to its end

Each is measured on the quiet machine and beside a busy loop for each of its cores, which leaves half of the processors'
time: twice as long is as good as it gets. On the quiet machine it is measured in turn as it is and without
AdaptiveBarrierWaits, which GOMP_SPINCOUNT in the environment switches off; its value here is libgomp's own default.
Beside the loops the median of the rounds counts, against that of the quiet ones; between the two ways on the quiet machine
the least of the rounds, which other programs have disturbed least.

Leaves neighbours.json in --out. Exits 1 when a floor of tests/bench/targets.csv is missed, or where the machine is not quiet.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

TESTS = pathlib.Path(__file__).resolve().parents[2]
ROOT = TESTS.parent
sys.path[:0] = [str(TESTS), str(TESTS / "bench"), str(ROOT / "client" / "python")]
import targets
from turns import processor

CORES = len(os.sched_getaffinity(0))
TASKS = ("start", "latency", "compare", "train")
SPINNING = {"GOMP_SPINCOUNT": "300000"}
MODEL, SIDE = "shapes", 64
PICTURE = ROOT / "client/examples/star.jpg"
LATENCY_SECONDS = 3
COMPARED_ROUNDS = 150
TRAINING = ("--epochs", "1", "--images-per-epoch", "1600", "--validation-images", "64")
# Cores' worth of other programs' work, at most, on a machine that is quiet.
QUIET = 0.1

# Seconds of each task.
Times = dict[str, float]


def figures(
    quiet: list[Times], spinning: list[Times], busy: list[Times]
) -> dict[str, float]:
    """By the rows of targets.csv."""

    def median(rounds: list[Times], task: str) -> float:
        return statistics.median(times[task] for times in rounds)

    def least(rounds: list[Times], task: str) -> float:
        return min(times[task] for times in rounds)

    beside = {
        f"busy_{task}": median(busy, task) / median(quiet, task) for task in TASKS
    }
    return beside | {
        f"adaptive_{task}": least(quiet, task) / least(spinning, task) for task in TASKS
    }


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def used_cores(seconds: float) -> float:
    """By all programs, over so many seconds."""

    def ticks() -> tuple[int, int]:
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        numbers = list(map(int, fields))
        return sum(numbers) - numbers[3] - numbers[4], sum(numbers)

    used, total = ticks()
    time.sleep(seconds)
    used_then, total_then = ticks()
    return (used_then - used) / (total_then - total) * (os.cpu_count() or 1)


def write_request(path: pathlib.Path) -> None:
    """For bench_load."""
    import numpy as np
    from tritonclient.grpc import service_pb2

    pixels = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE), np.float32)
    message = service_pb2.ModelInferRequest(model_name=MODEL)
    message.inputs.add(name="pixel_values", datatype="FP32", shape=pixels.shape)
    message.raw_input_contents.append(pixels.tobytes())
    path.write_bytes(message.SerializeToString())


def measure(
    build: pathlib.Path, work: pathlib.Path, environment: dict[str, str]
) -> Times:
    import running_server
    from fovea import client

    # What kernels were chosen before is known to all, as on a machine that has run them before.
    environment = {"FOVEA_CHOICES": str(work / "choices.json"), **environment}
    begin = time.perf_counter()
    server = running_server.Server(
        work / "server.log",
        *("--model-repository", str(running_server.DEMO), "--enable-experiments"),
        environment=environment,
    )
    times = {"start": time.perf_counter() - begin}
    try:
        load = [build / "tests/bench_load", server.grpc, "closed", 1, LATENCY_SECONDS]
        load += [60_000, work / "request"]
        told = json.loads(subprocess.check_output(list(map(str, load))))
        if set(told["codes"]) != {"0"}:
            raise RuntimeError(f"not all were answered: {told['codes']}")
        times["latency"] = 1 / told["in_time_per_second"]
        with client.Client(server.grpc, timeout=600) as asked:
            begin = time.perf_counter()
            asked.compare(
                MODEL,
                [PICTURE],
                attentions=["knn:k=9"],
                rounds=COMPARED_ROUNDS,
                max_rounds=COMPARED_ROUNDS,
                max_seconds=600,
            )
            times["compare"] = time.perf_counter() - begin
        if server.terminate() != 0:
            raise RuntimeError("the server did not end with 0")
    finally:
        server.close()
    begin = time.perf_counter()
    subprocess.run(
        [
            build / "bin/fovea-train",
            "--out",
            work / "trained",
            "--overwrite",
            *TRAINING,
        ],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return times | {"train": time.perf_counter() - begin}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3, help="on the quiet machine")
    parser.add_argument("--busy-rounds", type=int, default=2)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    out = arguments.out or build / "bench"
    os.environ["FOVEA_BUILD"] = str(build)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "FOVEA_THREADS"):
        os.environ.pop(name, None)  # they would decide what is to be measured
    if (used := used_cores(3)) > QUIET:
        print(f"other programs use {used:.2f} cores: nothing is measured", flush=True)
        return 1
    rounds: dict[str, list[Times]] = {"quiet": [], "spinning": [], "busy": []}

    def run(way: str, work: pathlib.Path) -> None:
        times = measure(build, work, SPINNING if way == "spinning" else {})
        rounds[way].append(times)
        text = "  ".join(f"{task} {times[task]:.4g} s" for task in TASKS)
        print(f"{way:8}  {text}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_request(work / "request")
        measure(build, work, {})  # the disk's pages, and the choice of kernels
        for number in range(arguments.rounds):
            for way in ("quiet", "spinning")[:: 1 if number % 2 == 0 else -1]:
                run(way, work)
        with busy_loops(CORES):
            time.sleep(1)
            for _ in range(arguments.busy_rounds):
                run("busy", work)
    results = figures(**rounds)
    out.mkdir(parents=True, exist_ok=True)
    told = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": processor(),
        "cores": CORES,
        "seconds": rounds,
        "figures": results,
    }
    (out / "neighbours.json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"written: {out / 'neighbours.json'}")
    return targets.report("bench-neighbours", results)


if __name__ == "__main__":
    sys.exit(main())
