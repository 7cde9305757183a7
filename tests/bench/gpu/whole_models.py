"""Times whole models on a GPU against timm's: eager, torch.compile and a CUDA graph, in turn; appends each row as it is measured.

The zoo's model is recorded as the server records it. Prints a table; exits 1 where a graph of ours is not TIMES_EAGER times as
fast as eager at batch 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import statistics
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))

MODELS = {
    "deit_tiny_patch16_224": "deit_tiny_patch16_224",
    "deit_small_patch16_224": "deit_small_patch16_224",
    "swin_tiny_patch4_window7_224": "swin_tiny_patch4_window7_224",
    "linglo_b1": None,  # timm has none
}
BATCHES = (1, 8, 64)
TURNS = 11
TIMES_EAGER = 3.0


def graph_of(call) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def milliseconds(call) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def contenders(name: str, published: str | None, batch: int) -> dict[str, object]:
    pixels = torch.randn(batch, 3, 224, 224, device="cuda")
    description = {
        "backbone": name, "random_weights_seed": 1, "precision": "BF16", "num_classes": 1000,
    }  # fmt: skip
    ours = torch.classes.fovea_models.Model(json.dumps(description), "cuda", True)
    calls = {
        "ours eager": lambda: ours.run(pixels),
        "ours graph": graph_of(lambda: ours.run(pixels)).replay,
    }
    if published is None:
        return calls
    import timm

    model = timm.create_model(published).cuda().eval().to(torch.bfloat16)
    half = pixels.to(torch.bfloat16)
    compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")

    def run(of):
        with torch.inference_mode():
            return of(half)

    for _ in range(3):
        run(compiled)
    return {
        **calls,
        "eager": lambda: run(model),
        "graph": graph_of(lambda: run(model)).replay,
        "compile": lambda: run(compiled),
        "compile, graph": graph_of(lambda: run(compiled)).replay,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    options = parser.parse_args()
    missed = False
    with options.csv.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "batch", "contender", "ms", "images_per_second"])
        for name, published in MODELS.items():
            for batch in BATCHES:
                calls = contenders(name, published, batch)
                for call in calls.values():
                    call()
                times: dict[str, list[float]] = {key: [] for key in calls}
                for _ in range(TURNS):
                    for key, call in calls.items():
                        times[key].append(milliseconds(call))
                medians = {key: statistics.median(all) for key, all in times.items()}
                for key, ms in medians.items():
                    rows.writerow(
                        [name, batch, key, f"{ms:.4f}", f"{1000 * batch / ms:.0f}"]
                    )
                    print(f"{name:30} {batch:3} {key:16} {ms:8.3f} ms", flush=True)
                file.flush()
                if batch == 1 and "eager" in medians:
                    missed |= medians["eager"] / medians["ours graph"] < TIMES_EAGER
    if missed:
        print(f"MISSED: our graph is not {TIMES_EAGER} times as fast as eager")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
