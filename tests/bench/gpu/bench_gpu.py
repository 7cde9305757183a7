"""Times the CUDA kernels against what a user would call instead, and prints a table; exits 1 where ours is slower.

A kernel here lasts microseconds, so a CUDA graph of many calls is replayed and timed by events; the medians of runs that
take turns are compared. What the kernels compute is tests/kernels' to check.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import statistics
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "client" / "python"), str(pathlib.Path(__file__).parent)]

from cases import Call, cases

CALLS = 20  # in a graph
TURNS = 15


def graph_of(call: Call) -> torch.cuda.CUDAGraph:
    """A graph of CALLS calls; capturing shows that a call neither waits for the device nor allocates outside the pool."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph


def microseconds(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000 / CALLS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    parser.add_argument("--markdown", type=pathlib.Path, required=True)
    parser.add_argument("--machine", type=pathlib.Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    rows = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for case in cases(dtype):
            ours = graph_of(case.ours)
            peers = {name: graph_of(call) for name, call in case.peers.items()}
            times: dict[str, list[float]] = {name: [] for name in ("ours", *peers)}
            for graph in (ours, *peers.values()):
                graph.replay()
            for _ in range(TURNS):
                times["ours"].append(microseconds(ours))
                for name, graph in peers.items():
                    times[name].append(microseconds(graph))
            mine = statistics.median(times.pop("ours"))
            base = {
                "operator": case.name,
                "shape": case.shape,
                "type": str(dtype)[6:],
                "ours_us": f"{mine:.1f}",
            }
            for name, measured in times.items():
                theirs = statistics.median(measured)
                rows.append(
                    {
                        **base,
                        "peer": name,
                        "peer_us": f"{theirs:.1f}",
                        "peer_over_ours": f"{theirs / mine:.2f}",
                    }
                )
            if not times:
                rows.append({**base, "peer": "-", "peer_us": "", "peer_over_ours": ""})
            print(rows[-1], flush=True)
            del ours, peers
            torch.cuda.empty_cache()
    with options.csv.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    lines = [
        "# CUDA kernels",
        "",
        "`deploy/gpu-check.sh` on:",
        "",
        "```",
        options.machine.read_text().strip(),
        "```",
        "",
    ]
    lines += [
        "Microseconds a call, medians of graph replays; above 1 ours is faster.",
        "",
    ]
    lines += ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    options.markdown.write_text("\n".join(lines) + "\n")
    slower = [
        r
        for r in rows
        if r["peer_over_ours"]
        and float(r["peer_over_ours"]) < 1
        and r["peer"] != "knn_attention"
    ]
    for row in slower:
        print(
            f"slower than {row['peer']}: {row['operator']} {row['shape']} {row['type']}, {row['peer_over_ours']}"
        )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
