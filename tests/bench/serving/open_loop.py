"""Measures the server under requests that come at random (Poisson), whatever it does, and prints a table.

  tail      p99 of deit_tiny_patch16_224 fp32 at 0.7 of the capacity, against Triton's with the same torch model at 0.7 of its
            own (where `make peers` was run); without a floor also against Triton's at the rate that fovea was asked
  goodput   what is answered within a deadline of a second at twice the capacity: tensors and 12-megapixel photographs to the
            bundled 64-pixel model, and tensors to that and to deit_tiny_patch16_224 in turn; for comparison Triton's, as it is
            and with the deadline as its queue's timeout

The capacity is what is answered a second with enough requests always under way and no deadline to speak of. Goodput is a share of
the capacity of the cores that the load generator, which shares them with the server, leaves: twice the requests cost it twice
the time. Both shares are printed, over the whole capacity and over that. Requests of two models count by what each costs, that is
by the capacity for it alone: a server that answers more of the cheap ones does no more work for that.

Models choose the cores of each batch, as is the default. The first round also measures, for comparison and without a floor, an
instance for each core and one on all cores, as an operator may set them.

Leaves open_loop.json in --out. Exits 1 when a floor of tests/bench/targets.csv is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
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
from servers import MODEL, start_triton, write_repository
from servers import SIZE as MODEL_SIZE
from tritonclient.grpc import service_pb2

SMALL, SMALL_SIZE = "shapes", 64
CORES = len(os.sched_getaffinity(0))
UNDER_WAY = 32 * CORES  # always enough for full batches
DEADLINE_MS, PATIENT_MS = 1000, 60_000
LOAD, OVERLOAD = 0.7, 2.0
ARRANGEMENTS = {
    "": "",
    "_one_instance": "instance_group { count: 1 }\n",
    "_instance_each": f"instance_group {{ count: {CORES} }}\n",
}
# What each kind of load sends, files of `requests`; of several, each has a kind of its own before.
KINDS = {
    "tail": ["deit_tensors"],
    "tensors": ["small_tensors"],
    "photographs": ["small_photographs"],
    "mix": ["small_tensors", "deit_tensors"],
}


def request(
    model: str, name: str, datatype: str, shape: list[int], content: bytes
) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=model)
    message.inputs.add(name=name, datatype=datatype, shape=shape)
    message.raw_input_contents.append(content)
    return message


def requests() -> dict[str, service_pb2.ModelInferRequest]:
    random = np.random.default_rng(0)

    def tensors(model: str, size: int) -> service_pb2.ModelInferRequest:
        shape = [1, 3, size, size]
        pixels = random.standard_normal(shape, dtype=np.float32)
        return request(model, "pixel_values", "FP32", shape, pixels.tobytes())

    jpeg = io.BytesIO()
    photograph(4000, 3000).save(jpeg, "JPEG", quality=85)
    file = jpeg.getvalue()
    bytes_tensor = len(file).to_bytes(4, "little") + file
    return {
        "small_tensors": tensors(SMALL, SMALL_SIZE),
        "deit_tensors": tensors(MODEL, MODEL_SIZE),
        "small_photographs": request(SMALL, "image", "BYTES", [1, 1], bytes_tensor),
    }


@dataclasses.dataclass
class Load:
    """What a load generator got, and the cores it took."""

    report: dict
    cores: float

    @property
    def in_time(self) -> float:
        return self.report["in_time_per_second"]

    def work(self, alone: list[float]) -> float:
        """Of a second's work, what was answered in time; by the capacity for each kind of request alone."""
        answered = self.report["in_time_of_each_per_second"]
        return sum(one / most for one, most in zip(answered, alone, strict=True))


class Generator:
    """Asks one server for one kind of load."""

    def __init__(
        self, build: pathlib.Path, address: str, files: list[pathlib.Path]
    ) -> None:
        self.program = build / "tests/bench_load"
        self.address = address
        self.files = files

    def run(self, kind: str, value: float, seconds: float, deadline_ms: int) -> Load:
        command = [self.program, self.address, kind, value, seconds, deadline_ms]

        def used() -> float:
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        before, start = used(), time.monotonic()
        printed = subprocess.check_output(
            [str(part) for part in [*command, *self.files]],
            timeout=seconds + PATIENT_MS / 1000 + 60,
        )
        cores = (used() - before) / (time.monotonic() - start)
        return Load(json.loads(printed), cores)

    def capacity(self, seconds: float) -> Load:
        self.run("closed", UNDER_WAY, seconds / 4, PATIENT_MS)  # warm
        return self.run("closed", UNDER_WAY, seconds, PATIENT_MS)

    def tail(self, per_second: float, seconds: float) -> Load:
        return self.run("open", per_second, seconds, PATIENT_MS)


def describe(load: Load) -> str:
    report = load.report
    return (
        f"p50 {report['p50_ms']:.1f} ms, p99 {report['p99_ms']:.1f} ms, codes {report['codes']}, "
        f"unsent {report['unsent']}, generator {load.cores:.2f} cores"
    )


class Measurements:
    """Of every round, by name; and the load reports behind them, for the plots."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}
        self.reports: list[dict] = []

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)
        print(f"    {name} {value:.4g}", flush=True)

    def keep(
        self, server: str, kind: str, load: float, asked: float, got: Load
    ) -> None:
        self.reports.append(
            {
                "server": server,
                "kind": kind,
                "load": load,
                "asked_per_second": asked,
                **got.report,
            }
        )

    def medians(self) -> dict[str, float]:
        return {name: statistics.median(values) for name, values in self.values.items()}


def measure_goodput(
    measurements: Measurements,
    server: str,
    kind: str,
    generator: Generator,
    full: Load,
    alone: list[float],
    seconds: float,
) -> None:
    asked = OVERLOAD * full.in_time
    over = generator.run("open", asked, seconds, DEADLINE_MS)
    share = over.work(alone) / full.work(alone)
    print(
        f"  {server}, {kind}: capacity {full.in_time:.1f}/s, in time {over.in_time:.1f}/s, "
        f"{share:.3f} of it; {describe(over)}",
        flush=True,
    )
    left = (CORES - over.cores) / (CORES - full.cores)
    measurements.add(f"goodput_{kind}{server}", share / left)
    measurements.keep(server, kind, OVERLOAD, asked, over)


def measure_tail(
    measurements: Measurements,
    server: str,
    generator: Generator,
    per_second: float,
    seconds: float,
    name: str,
) -> None:
    load = generator.tail(per_second, seconds)
    print(f"  {server}, {name}: {per_second:.1f}/s, {describe(load)}", flush=True)
    measurements.add(f"{name}_{server}_ms", load.report["p99_ms"])
    measurements.keep(server, name, LOAD, per_second, load)


def repository(folder: pathlib.Path, arrangement: str) -> pathlib.Path:
    """The bundled model and DeiT-T, both arranged so."""
    write_repository(folder, arrangement)
    shutil.copytree(running_server.DEMO / SMALL, folder / SMALL)
    with (folder / SMALL / "model.textproto").open("a") as spec:
        spec.write(arrangement)
    return folder


def measure_fovea(
    measurements: Measurements,
    arguments: argparse.Namespace,
    folder: pathlib.Path,
    arrangements: dict[str, str],
) -> float:
    """All kinds of load, on a server for each arrangement. The requests a second of the tail, which is the default's."""
    rate = 0.0
    for suffix, arrangement in arrangements.items():
        models = folder / f"models{suffix}"
        if not models.exists():
            models.mkdir()
            repository(models, arrangement)
        server = running_server.Server(
            folder / f"server{suffix}.log", "--model-repository", str(models)
        )
        capacities: dict[str, float] = {}
        with contextlib.closing(server):
            for kind, files in KINDS.items():
                generator = Generator(
                    arguments.build, server.grpc, [folder / file for file in files]
                )
                full = generator.capacity(arguments.seconds)
                if len(files) == 1:
                    capacities[files[0]] = full.in_time
                if kind != "tail":
                    measure_goodput(
                        measurements,
                        suffix,
                        kind,
                        generator,
                        full,
                        [capacities[file] for file in files],
                        arguments.seconds,
                    )
                elif not suffix:
                    rate = LOAD * full.in_time
                    measure_tail(
                        measurements,
                        "fovea",
                        generator,
                        rate,
                        arguments.tail_seconds,
                        "p99",
                    )
            server.terminate()
    return rate


def measure_triton(
    measurements: Measurements,
    arguments: argparse.Namespace,
    folder: pathlib.Path,
    rate: float,
) -> None:
    """`rate`: at which fovea's tail was measured."""
    for suffix, timeout_us in {
        "_triton": None,
        "_triton_timeouts": DEADLINE_MS * 1000,
    }.items():
        with start_triton(arguments.peers, CORES, timeout_us) as triton:
            generator = Generator(
                arguments.build, triton.match[1], [folder / "deit_tensors"]
            )
            full = generator.capacity(arguments.seconds)
            if timeout_us is None:
                own = LOAD * full.in_time
                for name, per_second in (("p99", own), ("p99_same_rate", rate)):
                    measure_tail(
                        measurements,
                        "triton",
                        generator,
                        per_second,
                        arguments.tail_seconds,
                        name,
                    )
            measure_goodput(
                measurements,
                suffix,
                "tensors",
                generator,
                full,
                [full.in_time],
                arguments.seconds,
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=running_server.BUILD)
    parser.add_argument(
        "--peers", type=pathlib.Path, default=pathlib.Path.home() / ".cache/fovea/peers"
    )
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--tail-seconds", type=float, default=30)
    arguments = parser.parse_args()
    peers = (arguments.peers / "bin/python").exists()
    measurements = Measurements()
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        for name, message in requests().items():
            (folder / name).write_bytes(message.SerializeToString())
        for number in range(arguments.rounds):
            print(f"round {number + 1} of {arguments.rounds}", flush=True)
            arrangements = ARRANGEMENTS if number == 0 else {"": ARRANGEMENTS[""]}
            rate = measure_fovea(measurements, arguments, folder, arrangements)
            if peers:
                measure_triton(measurements, arguments, folder, rate)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "open_loop.json").write_text(
            json.dumps(
                {"values": measurements.values, "reports": measurements.reports},
                indent=1,
            )
        )

    median = measurements.medians()
    results = {
        f"goodput_{kind}": median.pop(f"goodput_{kind}")
        for kind in KINDS
        if kind != "tail"
    }
    if peers:
        results["p99_to_triton"] = median["p99_fovea_ms"] / median["p99_triton_ms"]
        same = median["p99_fovea_ms"] / median["p99_same_rate_triton_ms"]
        print(f"p99 over Triton's at the same rate: {same:.3g}  (no floor)")
    else:
        print("p99_to_triton was not measured: `make peers` was not run")
    for name, value in sorted(median.items()):
        print(f"{name:36} {value:10.4g}  (median, no floor)")
    left_out = () if peers else ("p99_to_triton",)
    return targets.report("bench-serving", results, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
