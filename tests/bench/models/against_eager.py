"""What Prepare is worth: the zoo's models against the same models in timm, eager PyTorch, in this process.

    .venv/bin/python tests/bench/models/against_eager.py [--threads 1] [--seconds 4] [MODEL ...]

Prints two tables in Markdown: single linear layers (at::linear against oneDNN's packed form, which decides what
Prepare does), then whole models. Times are medians of interleaved runs; only the ratios mean anything on another
machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import sys
from collections.abc import Callable

import timm
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from turns import in_turns, medians, processor

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
DTYPES = {"FP32": torch.float32, "BF16": torch.bfloat16}


def linear_layer(
    rows: int, inputs: int, outputs: int, precision: str, seconds: float
) -> None:
    ops = torch.ops.mkldnn
    x, weight, bias = (
        torch.randn(shape).to(DTYPES[precision])
        for shape in ((rows, inputs), (outputs, inputs), (outputs,))
    )
    packed = ops._reorder_linear_weight(weight)
    plain, ours = medians(
        in_turns(
            [
                lambda: torch.nn.functional.linear(x, weight, bias),
                lambda: ops._linear_pointwise(x, packed, bias, "none", [], ""),
            ],
            seconds,
        )
    )
    print(
        f"| {rows} x {inputs} -> {outputs} | {precision} | {plain:.3f} | {ours:.3f} | {plain / ours:.2f} |",
        flush=True,
    )


def model(name: str, precision: str, batch: int, seconds: float) -> None:
    published = timm.create_model(name).eval().to(DTYPES[precision])
    pixels = torch.randn(batch, *published.default_cfg["input_size"])
    cast = pixels.to(DTYPES[precision])

    def prepared(attention: str) -> Callable[[], object]:
        description = {
            "backbone": name,
            "attention": attention,
            "precision": precision,
            "random_weights_seed": 1,
        }
        loaded = torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)
        return lambda: loaded.run(pixels)

    eager, dense, knn = medians(
        in_turns(
            [lambda: published(cast), prepared("dense"), prepared("knn:k=0.5")], seconds
        )
    )
    print(
        f"| {name} | {precision} | {batch} | {eager:.1f} | {dense:.1f} | {eager / dense:.2f} | {knn:.1f} | {knn / dense:.2f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["deit_tiny_patch16_224"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--seconds", type=float, default=4, help="for each row of a table"
    )
    options = parser.parse_args()
    torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))
    torch.set_num_threads(options.threads)
    print(
        f"{processor()}, {torch.backends.cpu.get_cpu_capability()}, {options.threads} thread(s), torch "
        f"{torch.__version__}, {datetime.date.today()}\n"
    )
    with torch.inference_mode():
        print("| linear | precision | at::linear ms | packed ms | ratio |")
        print("|---|---|---|---|---|")
        for precision in DTYPES:
            for shape in ((192, 576), (192, 192), (192, 768), (768, 192)):
                linear_layer(197, *shape, precision, options.seconds / 4)
        print(
            "\n| model | precision | batch | timm eager ms | dense ms | eager / dense | knn k=0.5 ms | knn / dense |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for name in options.models:
            for precision in DTYPES:
                for batch in (1, 8):
                    model(name, precision, batch, options.seconds)


if __name__ == "__main__":
    main()
