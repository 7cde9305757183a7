"""Serves models on a GPU and asks them under load; appends each row as it is measured: serve.py --build BUILD --csv FILE.

BUILD is what deploy/gpu-bundle.sh packed: the server, the load generator and the requests of serving_requests.py. For each model
and number of images in a request: the median latency of one request at a time, and the images a second with several under
way. Exits 1 where a request was not answered, or the server does not end well.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2])]
from running_server import Server
from serving_requests import BATCHES, MODELS

SECONDS = 2
UNDER_WAY = 8


def load(build: pathlib.Path, address: str, under_way: int, request: pathlib.Path):
    command = [build / "bin/bench_load", address, "closed", under_way, SECONDS, 60_000, request]  # fmt: skip
    return json.loads(subprocess.check_output([str(part) for part in command]))


def main() -> int:
    failed = False
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    options = parser.parse_args()
    requests = options.build / "requests"
    with (
        tempfile.TemporaryDirectory() as folder,
        options.csv.open("w") as file,
    ):
        server = Server(
            pathlib.Path(folder, "log"),
            "--model-repository",
            requests / "models",
            program=(options.build / "bin/fovea-server",),
            environment=dict(os.environ),
        )
        rows = csv.writer(file)
        rows.writerow(["model", "images", "p50_ms", "images_per_second"])
        try:
            for name, _, _, _, most in MODELS:
                for batch in (size for size in BATCHES if size <= most):
                    request = requests / f"{name}_{batch}.bin"
                    alone = load(options.build, server.grpc, 1, request)
                    many = load(options.build, server.grpc, UNDER_WAY, request)
                    rate = batch * many["in_time_per_second"]
                    failed |= {*alone["codes"], *many["codes"]} != {"0"}
                    rows.writerow(
                        [name, batch, f"{alone['p50_ms']:.3f}", f"{rate:.0f}"]
                    )
                    file.flush()
                    print(f"{name:16} {batch:3} {alone['p50_ms']:8.3f} ms {rate:9.0f} images/s", flush=True)  # fmt: skip
        finally:
            code = server.terminate()
            server.close()
    if failed or code != 0:
        print(f"FAILED: not every request was answered, or the server's end: {code}")
    return int(failed or code != 0)


if __name__ == "__main__":
    sys.exit(main())
