"""Draws what train_families.py measured: plot_families.py RESULTS writes RESULTS/families.png."""

from __future__ import annotations

import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from family_runs import Family, read_runs, read_training

MARKERS = "os^v<>DPX*hp"  # colours come in pairs that are alike


def mean_curve(results: pathlib.Path, family: Family) -> list[float]:
    curves = [read_training(results, run) for run in family.runs]
    return [statistics.mean(values) for values in zip(*curves, strict=True)]


def plot(results: pathlib.Path) -> None:
    figure, (points, costs, epochs) = plt.subplots(
        1, 3, figsize=(18, 6), constrained_layout=True
    )
    colours = plt.get_cmap("tab20")
    families = read_runs(results)
    for i, family in enumerate(families):
        reached, mean = family.accuracies, family.mean_accuracy
        style = {
            "color": colours(i % colours.N),
            "marker": MARKERS[i % len(MARKERS)],
            "label": family.name,
        }
        points.plot(
            [min(reached), max(reached)], [family.name] * 2, color=style["color"]
        )
        points.plot(
            reached, [family.name] * len(reached), "o", color=style["color"], ms=4
        )
        points.plot(mean, family.name, "D", color=style["color"], ms=9)
        costs.errorbar(
            family.middle("milliseconds_16"),
            mean,
            yerr=[[mean - min(reached)], [max(reached) - mean]],
            linestyle="none",
            capsize=3,
            **style,
        )
        curve = mean_curve(results, family)
        epochs.plot(range(1, len(curve) + 1), curve, **style)
    points.set(xlabel="accuracy on test pictures, %: a dot a seed, and their mean")
    points.invert_yaxis()
    costs.set(xlabel="ms, batch of 16, one thread", ylabel="accuracy, %")
    epochs.set(xlabel="epoch", ylabel="validation accuracy, %: mean of the seeds")
    for axis in (costs, epochs):
        axis.legend(fontsize=8, frameon=False)
    for axis in (points, costs, epochs):
        axis.grid(visible=True, alpha=0.3)
    frame = families[0].runs[0]["backbone"]
    figure.suptitle(
        f"One frame ({frame}), one recipe, {len(families)} attentions", fontsize=11
    )
    figure.savefig(results / "families.png", dpi=100)


if __name__ == "__main__":
    plot(pathlib.Path(sys.argv[1]))
