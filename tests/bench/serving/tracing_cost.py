"""What tracing costs a request of the identity model: tests/bench/serving/tracing_cost.py --build build/release

In each round a server of its own for each way to trace, in turn, is asked at random (Poisson) by bench_load, at a rate far
below what it could answer. Told of each: the processor time of the server's process for a request (all its threads, that
which sends the spans among them), the latency, and what became of the spans; then, of each way, the median of the rounds,
and the median and the quartiles of the difference to the server without tracing of the same round. The collector takes
what it is sent and reads none of it.

Processor time is what a busy machine leaves alone; latencies want a quiet one.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import urllib.request

import grpc
from servers import (
    IDENTITY,
    ROOT,
    Process,
    requests_answered,
    write_inputs,
    write_repository,
)

OFF = "off"
SAMPLING = {OFF: None, "0": "0", "0.01": "0.01", "1": "1"}


class Sink(grpc.GenericRpcHandler):
    """A collector that takes everything."""

    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        # An empty ExportTraceServiceResponse: all were taken.
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


def spans(metrics: str, outcome: str) -> float:
    with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
        text = answer.read().decode()
    counts = re.findall(
        rf'^fovea_trace_spans_total{{outcome="{outcome}"}} (\S+)', text, re.MULTILINE
    )
    return sum(map(float, counts))


def measure(
    build: pathlib.Path,
    repository: pathlib.Path,
    request: pathlib.Path,
    flags: list[str],
    rate: int,
    seconds: int,
) -> dict[str, float]:
    def load(seconds: int) -> dict:
        command = [build / "tests/bench_load", address, "open", rate, seconds]
        command += [60_000, request]
        return json.loads(subprocess.check_output(list(map(str, command))))

    command = [build / "bin/fovea-server", "--model-repository", repository]
    command += ["--model-control-mode", "explicit", "--load-model", IDENTITY]
    for port in ("grpc", "http", "metrics"):
        command += [f"--{port}-port", "0"]
    pattern = r"listening: grpc=(\S+) http=(\S+) metrics=(\S+).*\bready\b"
    with Process(command + flags, pattern) as server:
        address, _, metrics = server.match.groups()
        load(1)  # its connections, its buffers
        answered, cpu = requests_answered(metrics, IDENTITY), server.cpu_seconds()
        told = load(seconds)
        cpu = server.cpu_seconds() - cpu
        answered = requests_answered(metrics, IDENTITY) - answered
        if set(told["codes"]) != {"0"}:
            raise RuntimeError(f"not all were answered: {told['codes']}")
        return {
            "CPU us": cpu / answered * 1e6,
            "p50 us": told["p50_ms"] * 1e3,
            "p99 us": told["p99_ms"] * 1e3,
            "exported": spans(metrics, "exported"),
            "dropped": spans(metrics, "dropped"),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=500, help="requests a second")
    parser.add_argument("--seconds", type=int, default=10)
    given = parser.parse_args()

    collector = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    collector.add_generic_rpc_handlers([Sink()])
    endpoint = f"127.0.0.1:{collector.add_insecure_port('127.0.0.1:0')}"
    collector.start()
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as work:
        repository, data = pathlib.Path(work, "models"), pathlib.Path(work, "data")
        repository.mkdir(), data.mkdir()
        write_repository(repository)
        request = write_inputs(data)["identity_request"]
        for number in range(given.rounds):
            ways = list(SAMPLING)
            ways = ways[number % len(ways) :] + ways[: number % len(ways)]
            measured = {}
            for way in ways:
                flags = []
                if (sampling := SAMPLING[way]) is not None:
                    flags = ["--otlp-endpoint", endpoint, "--trace-sampling", sampling]
                measured[way] = measure(
                    given.build, repository, request, flags, given.rate, given.seconds
                )
                told = "  ".join(f"{k} {v:.1f}" for k, v in measured[way].items())
                print(f"round {number + 1}  sampling {way}: {told}", flush=True)
            rounds.append(measured)
    collector.stop(0).wait()
    for way in SAMPLING:
        told = []
        for name in ("CPU us", "p50 us", "p99 us"):
            values = [one[way][name] for one in rounds]
            more = [one[way][name] - one[OFF][name] for one in rounds]
            told.append(f"{name} {statistics.median(values):.0f}")
            if way != OFF:
                low, _, high = statistics.quantiles(more)
                told[-1] += (
                    f", {statistics.median(more):+.1f} ({low:+.1f} to {high:+.1f})"
                )
        print(f"sampling {way}: " + "; ".join(told))


if __name__ == "__main__":
    main()
