"""Draws what attentions.py measured: plot_attentions.py RESULTS writes its pictures again, attentions.png and resolutions.png."""

from __future__ import annotations

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogFormatter

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea.comparison import ComparedVariant, Comparison
from fovea.sweep import Sweep

REST, ATTENTION, MEMORY = "#0072b2", "#e69f00", "#009e73"
STYLES = {
    "dense": ("#000000", "o"),
    "knn": ("#e69f00", "s"),
    "aewin": ("#009e73", "^"),
    "cska": ("#d55e00", "v"),
    "key_only": ("#0072b2", "D"),
}


def named(variant: ComparedVariant) -> str:
    if variant.untrained:
        return f"{variant.attention}\n(random weights)"
    if variant.weights_of_attention:
        return f"{variant.attention}\n(not fine-tuned)"
    return variant.attention


def plot(
    comparisons: dict[str, Comparison], sweeps: dict[str, Sweep], out: pathlib.Path
) -> None:
    draw_costs(comparisons, out / "attentions.png")
    draw_growth(sweeps, out / "resolutions.png")


def draw_costs(comparisons: dict[str, Comparison], out: pathlib.Path) -> None:
    figure, axes = plt.subplots(
        2, len(comparisons), figsize=(4 * len(comparisons), 8), constrained_layout=True
    )
    for (times, memory), (kind, one) in zip(axes.T, comparisons.items(), strict=True):
        names = [named(variant) for variant in one.variants]
        medians = [variant.compute.ms.median for variant in one.variants]
        attention = [variant.attention_ms.median for variant in one.variants]
        rest = [
            max(0.0, all_ - part) for all_, part in zip(medians, attention, strict=True)
        ]
        spread = [
            [
                variant.compute.ms.median - variant.compute.ms.lower
                for variant in one.variants
            ],
            [
                variant.compute.ms.upper - variant.compute.ms.median
                for variant in one.variants
            ],
        ]
        times.bar(names, rest, color=REST, label="the rest of the model")
        times.bar(
            names, attention, bottom=rest, color=ATTENTION, label="attention alone"
        )
        times.errorbar(
            names, medians, yerr=spread, fmt="none", ecolor="black", capsize=3
        )
        times.set_title(f"{kind}, {one.variants[0].backbone}", fontsize=10)
        memory.bar(
            names,
            [variant.peak_bytes / 2**20 for variant in one.variants],
            color=MEMORY,
        )
        for axis in (times, memory):
            axis.tick_params(axis="x", rotation=60, labelsize=8)
            axis.grid(visible=True, axis="y", alpha=0.3)
    axes[0, 0].set_ylabel("ms a picture: median and quartiles")
    axes[0, 0].legend(fontsize=8, frameon=False)
    axes[1, 0].set_ylabel("MiB of tensors at most")
    figure.savefig(out, dpi=100)


def draw_growth(sweeps: dict[str, Sweep], out: pathlib.Path) -> None:
    figure, axes = plt.subplots(
        2, len(sweeps), figsize=(4 * len(sweeps), 8), constrained_layout=True
    )
    for (times, memory), (kind, sweep) in zip(axes.T, sweeps.items(), strict=True):
        for curve in sweep.curves:
            measured = [
                (place**0.5, point)
                for place, point in zip(sweep.places, curve.points, strict=True)
                if not point.failure
            ]
            sides = [side for side, _ in measured]
            name = curve.attention or curve.points[0].attention
            colour, marker = STYLES[name.split(":")[0]]
            times.loglog(
                sides,
                [point.attention_ms.median for _, point in measured],
                color=colour,
                marker=marker,
                label=name.split(":")[0],
            )
            memory.loglog(
                sides,
                [point.peak_bytes / 2**20 for _, point in measured],
                color=colour,
                marker=marker,
                label=name.split(":")[0],
            )
        times.set_title(f"{kind}, {sweep.curves[0].backbone}", fontsize=10)
        memory.set_xlabel("side of the input, pixels")
        # Within a decade its ticks alone have no numbers.
        memory.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
        for axis in (times, memory):
            axis.set_xticks(
                [place**0.5 for place in sweep.places], labels=sweep.values, minor=False
            )
            axis.xaxis.minorticks_off()
            axis.grid(visible=True, alpha=0.3)
    axes[0, 0].set_ylabel("attention alone, ms a picture")
    axes[1, 0].set_ylabel("MiB of tensors at most")
    axes[0, 0].legend(fontsize=8, frameon=False)
    figure.savefig(out, dpi=100)


if __name__ == "__main__":
    results = pathlib.Path(sys.argv[1])
    names = ["classification", "detection", "instance_masks", "segmentation"]
    plot(
        {
            name.replace("_", " "): Comparison.from_json(
                (results / f"{name}.json").read_text()
            )
            for name in names
        },
        {
            name.replace("_", " "): Sweep.from_json(
                (results / f"{name}_sweep.json").read_text()
            )
            for name in names
        },
        results,
    )
