"""Times the CUDA kernels against what a user would call instead, and prints a table; exits 1 where ours is slower,
or where no peer took a case.

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

from cases import Call, Case, cases

CALLS = 20  # in a graph
TURNS = 15
L2_BYTES = 60 << 20
# Copies of a case whose calls take turns, so that the least of them finds nothing of its own in the cache.
MOST_COPIES = 6
COLUMNS = (
    "operator",
    "shape",
    "type",
    "ours_us",
    "peer",
    "peer_us",
    "peer_over_ours",
)


def copies_of(case_bytes: int) -> int:
    """How many copies of a case do not fit in the cache together: one more than fill it."""
    return min(MOST_COPIES, max(1, L2_BYTES // max(case_bytes, 1) + 2))


def graph_of(calls: list[Call]) -> torch.cuda.CUDAGraph:
    """A graph of CALLS calls; capturing shows that a call neither waits for the device nor allocates outside the pool."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in 3 * calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            calls[i % len(calls)]()
    return graph


def microseconds(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000 / CALLS


def measured(same: list[Case]) -> list[dict[str, str]]:
    """The rows of one case, of which `same` are copies. A peer that cannot take it says why, and is no row."""
    ours = graph_of([case.ours for case in same])
    peers = {}
    for name in same[0].peers:
        try:
            peers[name] = graph_of([case.peers[name] for case in same])
        except RuntimeError as error:
            print(f"{same[0].name} {same[0].shape}: no {name}: {error}", flush=True)
    times: dict[str, list[float]] = {name: [] for name in ("ours", *peers)}
    for graph in (ours, *peers.values()):
        graph.replay()
    for _ in range(TURNS):
        times["ours"].append(microseconds(ours))
        for name, graph in peers.items():
            times[name].append(microseconds(graph))
    mine = statistics.median(times.pop("ours"))
    base = {
        "operator": same[0].name,
        "shape": same[0].shape,
        "ours_us": f"{mine:.1f}",
    }
    rows = []
    for name, taken in times.items():
        theirs = statistics.median(taken)
        rows.append(
            base
            | {
                "peer": name,
                "peer_us": f"{theirs:.1f}",
                "peer_over_ours": f"{theirs / mine:.2f}",
            }
        )
    return rows or [base | {"peer": "-", "peer_us": "", "peer_over_ours": ""}]


def append(path: pathlib.Path, rows: list[dict[str, str]]) -> None:
    """To the table, so that a run that is cut off keeps what it has."""
    with path.open("a", newline="") as file:
        csv.DictWriter(file, COLUMNS).writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    parser.add_argument("--markdown", type=pathlib.Path, required=True)
    parser.add_argument("--machine", type=pathlib.Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    with options.csv.open("w", newline="") as file:
        csv.DictWriter(file, COLUMNS).writeheader()
    rows: list[dict[str, str]] = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for i, case in enumerate(cases(dtype)):
            # A call's output is as large as one of its inputs, of which there are two to four.
            copies = copies_of(4 * case.ours().nbytes)
            same = [case, *(cases(dtype)[i] for _ in range(copies - 1))]
            found = [row | {"type": str(dtype)[6:]} for row in measured(same)]
            append(options.csv, found)
            for row in found:
                print(row, flush=True)
            rows += found
            del same
            torch.cuda.empty_cache()
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
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row[c] for c in COLUMNS) + " |" for row in rows]
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
    alone = [r for r in rows if r["peer"] == "-"]
    for row in alone:
        print(f"compared with nothing: {row['operator']} {row['shape']} {row['type']}")
    return 1 if slower or alone else 0


if __name__ == "__main__":
    sys.exit(main())
