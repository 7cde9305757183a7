"""What shadow copies cost the requests that they are copied from: tests/bench/serving/shadow_cost.py --rounds 60 --share 0.5

One caller in a closed loop asks `shapes` for the class of a picture, with pauses of 0 to 7 ms between its requests, so that
some come into a copy's run and some long after it. In each round it does so without an experiment and beside one that copies
to `shapes_knn` for up to that share of the threads' time, in turn the one or the other first. Told are the percentiles of all
requests of all rounds together, and their ratios, with the interval in which those lie at 95 % (a bootstrap of rounds).
What else the machine does is in both halves of a round.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS), str(TESTS / "conformance")]
from live_traffic import OverGrpc, Requests
from running_server import DEMO, Server

PERCENTILES = (50, 90, 99)
SHADOW = [
    {"variant": {"model_name": "shapes"}, "weight": 1},
    {"variant": {"model_name": "shapes_knn"}, "shadow": True},
]


def latencies(requests: Requests, count: int) -> list[float]:
    """Milliseconds."""
    times = []
    for i in range(count):
        begin = time.perf_counter()
        requests.classify(f"caller{i}")
        times.append((time.perf_counter() - begin) * 1e3)
        time.sleep((i % 8) * 0.001)
    return times


def measure(
    server: Server, rounds: int, count: int, share: float
) -> tuple[np.ndarray, int]:
    """Latencies by round, without (0) and beside copies (1), and request; and how many copies were made."""
    measured = np.empty((rounds, 2, count))
    copies = 0
    experiments = OverGrpc(server)
    with Requests(server) as requests:
        latencies(requests, count)  # its connection, its buffers
        for number in range(rounds):
            for beside in (number % 2, 1 - number % 2):
                if beside:
                    rails = {
                        "max_shadow_share": share,
                        "max_latency_ratio": 1000,
                        "max_error_excess": 0.99,
                    }
                    experiments.start(
                        {
                            "name": "cost",
                            "model_name": "shapes",
                            "arms": SHADOW,
                            "guard_rails": rails,
                        }
                    )
                measured[number, beside] = latencies(requests, count)
                if beside:
                    copies += experiments.stop("cost").arms[1].shadow_requests
                    experiments.delete("cost")
    experiments.close()
    return measured, copies


def percentiles(measured: np.ndarray) -> np.ndarray:
    """Of all rounds together: without and beside copies, by percentile."""
    pooled = measured.transpose(1, 0, 2).reshape(2, -1)
    return np.percentile(pooled, PERCENTILES, axis=1).T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--requests", type=int, default=100, help="in half a round")
    parser.add_argument("--share", type=float, default=0.5, help="max_shadow_share")
    given = parser.parse_args()

    flags = ["--model-repository", str(DEMO), "--model-control-mode", "explicit"]
    flags += ["--load-model", "shapes", "--load-model", "shapes_knn"]
    flags += ["--enable-experiments", "--threads", "1"]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(
            pathlib.Path(folder, "server.log"),
            *flags,
            environment={"FOVEA_THREADS": "1"},
        )
        try:
            measured, copies = measure(
                server, given.rounds, given.requests, given.share
            )
        finally:
            code = server.terminate()
            server.close()
    if code != 0:
        raise SystemExit(f"the server ended with {code}")
    if copies == 0:
        raise SystemExit("there was no copy: nothing was measured")

    draw = np.random.default_rng(0)
    resampled = np.array(
        [
            percentiles(measured[draw.integers(given.rounds, size=given.rounds)])
            for _ in range(1000)
        ]
    )
    low, high = np.percentile(resampled[:, 1] / resampled[:, 0], (2.5, 97.5), axis=0)
    without, beside = percentiles(measured)
    asked = given.rounds * given.requests
    print(f"{given.rounds} rounds; {copies} copies of {asked} requests")
    print("ms   without  beside  ratio  95 % interval")
    for i, percentile in enumerate(PERCENTILES):
        print(
            f"p{percentile}  {without[i]:7.2f} {beside[i]:7.2f}  {beside[i] / without[i]:5.2f}"
            f"  {low[i]:.2f} to {high[i]:.2f}"
        )


if __name__ == "__main__":
    main()
