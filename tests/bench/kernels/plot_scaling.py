"""Draws time and peak memory of every attention against the number of tokens, from bench_kernels' CSV.

plot_scaling.py scaling.csv scaling.png
"""

from __future__ import annotations

import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PANELS = [
    ("ms", 1.0, "time of a call, ms"),
    ("peak_bytes", 2**-20, "peak memory of a call, MiB"),
]
MARKERS = "osD^v<>Pp*Xhd"


def main() -> None:
    source, target = (pathlib.Path(argument) for argument in sys.argv[1:])
    with source.open() as file:
        machine = file.readline().removeprefix("# ").strip()
        rows = list(csv.DictReader(file))
    lines: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        lines.setdefault(row["attention"], []).append(row)

    figure, axes = plt.subplots(1, 2, figsize=(15, 7), constrained_layout=True)
    colours = plt.get_cmap("tab20")
    for axis, (column, factor, label) in zip(axes, PANELS, strict=True):
        for i, (name, points) in enumerate(lines.items()):
            axis.plot(
                [int(p["tokens"]) for p in points],
                [float(p[column]) * factor for p in points],
                label=name,
                color=colours(i % 20),
                marker=MARKERS[i % len(MARKERS)],
                markersize=5,
                linestyle="--" if name.startswith("torch") else "-",
            )
        axis.set(xscale="log", yscale="log", xlabel="tokens", ylabel=label)
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    figure.suptitle(f"Attention against tokens\n{machine}", fontsize=11)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
