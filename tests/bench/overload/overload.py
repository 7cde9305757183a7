"""Measures the goodput under twice the load that the server can carry, and prints a table.

For tensors and for 12-megapixel photographs, to the bundled 64-pixel model: first the capacity (answers a second with
enough requests always under way and no deadline to speak of), then twice that rate, at random, each request with a
deadline of one second. Goodput is what is answered in time, over the capacity. The load generator shares the machine's
cores with the server: what it takes is taken from both measurements.

Exits 1 when a floor of tests/bench/targets.csv is missed.
"""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

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


def load(
    build: pathlib.Path,
    address: str,
    message: pathlib.Path,
    kind: str,
    value: float,
    seconds: float,
    deadline_ms: int,
) -> dict:
    command = [build / "tests/bench_load", address, message, kind, value, seconds]
    return json.loads(
        subprocess.check_output(
            [str(part) for part in [*command, deadline_ms]], timeout=seconds + 120
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=running_server.BUILD)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    goodput: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        server = running_server.Server(
            folder / "server.log", "--model-repository", str(running_server.DEMO)
        )
        try:
            for number in range(arguments.rounds):
                for name, message in requests().items():
                    file = folder / name
                    file.write_bytes(message.SerializeToString())

                    def run(kind, value, deadline_ms, file=file):
                        return load(
                            arguments.build,
                            server.grpc,
                            file,
                            kind,
                            value,
                            arguments.seconds,
                            deadline_ms,
                        )

                    capacity = run("closed", 16, PATIENT_MS)["in_time_per_second"]
                    over = run("open", OVERLOAD * capacity, DEADLINE_MS)
                    share = over["in_time_per_second"] / capacity
                    goodput.setdefault(name, []).append(share)
                    print(
                        f"round {number + 1}, {name}: capacity {capacity:.1f}/s, goodput {share:.3f} of it, "
                        f"p50 {over['p50_ms']:.0f} ms, p99 {over['p99_ms']:.0f} ms, codes {over['codes']}, "
                        f"unsent {over['unsent']}",
                        flush=True,
                    )
        finally:
            server.terminate()
            server.close()
    results = {
        f"goodput_{name}": statistics.median(shares) for name, shares in goodput.items()
    }
    return targets.report(results)


if __name__ == "__main__":
    sys.exit(main())
