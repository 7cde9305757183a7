"""One detector with each attention, from 400 to 1,333 pixels: compute time and peak memory, as the server's receipts tell
them, and how they grow."""

from __future__ import annotations

import csv
import math
import pathlib
import statistics
import tempfile

import matplotlib
import numpy as np
import tritonclient.grpc as triton
from running_server import Server

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib import ticker

# A frame in which all three stand, RetinaNet by mmdetection's conventions behind it. `self`: every token attends all.
BACKBONE = "aewin_tiny_224"
ATTENTIONS = {"dense": "self", "key_only": "key_only", "aewin": "aewin"}
SIDES = [416, 544, 736, 992, 1344]  # of the picture, multiples of 32
COLUMNS = ("attention", "side", "pixels", "ms", "peak_bytes")
PANELS = [
    ("ms", 1e-3, "time of a picture, s"),
    ("peak_bytes", 2.0**-20, "peak memory of a picture, MiB"),
]


def write_repository(folder: pathlib.Path, side: int) -> None:
    for name, attention in ATTENTIONS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "model.textproto").write_text(
            f'spec_version: 1\nbackbone: "{BACKBONE}"\nattention: "{attention}"\ntask: DETECTION\n'
            # Every place is a candidate, as where a picture shows much; seeded weights are sure of nothing. Of one class: the
            # logits of eighty would take more memory than any attention.
            'head { name: "retinanet" conventions: MMDETECTION score_threshold: 0 }\nnum_classes: 1\n'
            f"image_height: {side}\nimage_width: {side}\nmax_batch_size: 1\nrandom_weights {{ seed: 1 }}\n"
        )


def ask(client: triton.InferenceServerClient, model: str, side: int) -> dict:
    pixels = np.random.default_rng(0).standard_normal(
        (1, 3, side, side), dtype=np.float32
    )
    wanted = triton.InferInput("pixel_values", pixels.shape, "FP32")
    wanted.set_data_from_numpy(pixels)
    receipt = client.infer(model, [wanted]).get_response().parameters
    return {
        "ms": receipt["fovea.compute_ns"].int64_param / 1e6,
        "peak_bytes": receipt["fovea.batch_peak_bytes"].int64_param,
    }


def measure(rounds: int) -> list[dict]:
    """A row for each attention and side: the median time, and the peak."""
    rows = []
    for side in SIDES:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            write_repository(folder / "models", side)
            flags = ("--model-repository", str(folder / "models"))
            server = Server(folder / "server.log", *flags, ready=False)
            try:
                server.wait_for_log(r"\bready\b: 3 models", timeout=1800)
                client = triton.InferenceServerClient(server.grpc)
                found: dict[str, list[dict]] = {name: [] for name in ATTENTIONS}
                for _ in range(rounds):
                    for name in ATTENTIONS:
                        found[name].append(ask(client, name, side))
            finally:
                server.terminate()
                server.close()
        for name, receipts in found.items():
            rows.append(
                {
                    "attention": name,
                    "side": side,
                    "pixels": side * side,
                    "ms": statistics.median(receipt["ms"] for receipt in receipts),
                    "peak_bytes": max(receipt["peak_bytes"] for receipt in receipts),
                }
            )
            print(
                f"  {name:9} {side:5} pixels: {rows[-1]['ms']:9.1f} ms, {rows[-1]['peak_bytes'] / 2**20:8.1f} MiB",
                flush=True,
            )
    return rows


def exponent(rows: list[dict], attention: str, column: str) -> float:
    """b where `column` grows as pixels ** b: least squares over all sides."""
    points = [row for row in rows if row["attention"] == attention]
    x = [math.log(row["pixels"]) for row in points]
    y = [math.log(row[column]) for row in points]
    return statistics.linear_regression(x, y).slope


def figures(rows: list[dict]) -> dict[str, float]:
    """What targets.csv has floors for: time and peak memory against dense at the largest side, and the exponents of time.

    The exponents of memory are 1 for all of them: the wide maps of the pyramid, which every attention has, take most.
    """
    largest = {row["attention"]: row for row in rows if row["side"] == SIDES[-1]}
    found = {}
    for name in ("key_only", "aewin"):
        found[f"detector_{name}_over_dense"] = (
            largest["dense"]["ms"] / largest[name]["ms"]
        )
        found[f"detector_{name}_time_exponent"] = exponent(rows, name, "ms")
        found[f"detector_{name}_memory_to_dense"] = (
            largest[name]["peak_bytes"] / largest["dense"]["peak_bytes"]
        )
    return found


def write(rows: list[dict], machine: str, out: pathlib.Path) -> None:
    """attention_scaling.csv and .png."""
    with (out / "attention_scaling.csv").open("w") as file:
        file.write(f"# {machine}\n")
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), constrained_layout=True)
    for axis, (column, factor, label) in zip(axes, PANELS, strict=True):
        for name, colour, marker in zip(
            ATTENTIONS, ("#0072b2", "#d55e00", "#009e73"), "osD", strict=True
        ):
            points = [row for row in rows if row["attention"] == name]
            axis.plot(
                [row["side"] for row in points],
                [row[column] * factor for row in points],
                label=f"{name}: pixels to the power of {exponent(rows, name, column):.2f}",
                color=colour,
                marker=marker,
            )
        axis.set(xscale="log", yscale="log", xlabel="side of the picture, pixels")
        axis.set_ylabel(label)
        axis.set_xticks(SIDES, [str(side) for side in SIDES])
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.minorticks_off()
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(frameon=False)
    figure.suptitle(
        f"RetinaNet on {BACKBONE} with each attention\n{machine}", fontsize=10
    )
    figure.savefig(out / "attention_scaling.png", dpi=110)
    plt.close(figure)
