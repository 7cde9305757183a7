"""Draws goodput and tail latency of each scheduler against the load, from bench_simulate's CSV.

plot_simulation.py simulation.csv simulation.png
"""

from __future__ import annotations

import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PANELS = [
    ("goodput_per_s", "linear", "answers within their deadline, per second"),
    ("p99_ms", "log", "p99 of what is answered, ms"),
]
MARKERS = "osD^"


def main() -> None:
    source, target = (pathlib.Path(argument) for argument in sys.argv[1:])
    with source.open() as file:
        title = file.readline().removeprefix("# ").strip()
        rows = list(csv.DictReader(file))
    processes = list(dict.fromkeys(row["arrivals"] for row in rows))
    schedulers = list(dict.fromkeys(row["scheduler"] for row in rows))

    figure, axes = plt.subplots(
        len(PANELS),
        len(processes),
        figsize=(15, 8),
        sharey="row",
        constrained_layout=True,
    )
    for (column, scale, label), line in zip(PANELS, axes, strict=True):
        for process, axis in zip(processes, line, strict=True):
            for marker, scheduler in zip(MARKERS, schedulers, strict=True):
                points = [
                    row
                    for row in rows
                    if row["arrivals"] == process and row["scheduler"] == scheduler
                ]
                axis.plot(
                    [float(point["load"]) for point in points],
                    [float(point[column]) for point in points],
                    label=scheduler,
                    marker=marker,
                )
            axis.set(xlabel="load, of full batches", yscale=scale, title=process)
            axis.grid(visible=True, which="major", alpha=0.3)
        line[0].set_ylabel(label)
    axes[0][0].legend(loc="lower left", frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
