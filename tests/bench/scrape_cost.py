"""What a scrape of the metrics takes of a server with many models: time, bytes, series.

scrape_cost.py [--models 20] [--scrapes 50]
"""

from __future__ import annotations

import argparse
import http.client
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from running_server import DEMO, Server


def make_repository(folder: pathlib.Path, models: int) -> pathlib.Path:
    """Copies of one bundled model, which are soon ready."""
    text = (DEMO / "shapes" / "model.textproto").read_text()
    for number in range(models):
        name = f"shapes_{number}"
        shutil.copytree(DEMO / "shapes", folder / name)
        own = text.replace('name: "shapes"', f'name: "{name}"')
        own = own.replace("max_batch_size: 16", "max_batch_size: 1")
        (folder / name / "model.textproto").write_text(own)
    return folder


def scrape(
    connection: http.client.HTTPConnection, **fields: str
) -> tuple[float, bytes]:
    start = time.perf_counter()
    connection.request("GET", "/metrics", headers=fields)
    body = connection.getresponse().read()
    return time.perf_counter() - start, body


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--scrapes", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = make_repository(pathlib.Path(folder, "models"), arguments.models)
        server = Server(
            pathlib.Path(folder, "log"), "--model-repository", str(repository)
        )
        try:
            connection = http.client.HTTPConnection(server.metrics, timeout=60)
            for what, fields in (
                ("plain", {}),
                ("gzip", {"Accept-Encoding": "gzip"}),
            ):
                taken = [scrape(connection, **fields) for _ in range(arguments.scrapes)]
                seconds = sorted(seconds for seconds, _ in taken)
                print(
                    f"{what}: median {1e3 * statistics.median(seconds):.1f} ms, "
                    f"least {1e3 * seconds[0]:.1f} ms, {len(taken[0][1]):,} bytes"
                )
            lines = scrape(connection)[1].decode().splitlines()
            series = sum(not line.startswith("#") for line in lines)
            print(f"{series} series of {arguments.models} models")
        finally:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
