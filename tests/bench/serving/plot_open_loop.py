"""Draws the latencies at 0.7 of the capacity and the goodput at twice the capacity, from open_loop.json.

plot_open_loop.py open_loop.json open_loop.png
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TAILS = {
    ("fovea", "p99"): ("Fovea at 0.7 of its capacity", "C0", "-"),
    ("triton", "p99"): ("Triton at 0.7 of its own", "C1", "-"),
    ("triton", "p99_same_rate"): ("Triton at Fovea's rate", "C1", "--"),
}
BARS = {
    "goodput_tensors": "Fovea\ntensors",
    "goodput_photographs": "Fovea\nphotographs",
    "goodput_mix": "Fovea\ntwo models",
    "goodput_tensors_triton_timeouts": "Triton\ntensors,\ntimeouts",
    "goodput_tensors_triton": "Triton\ntensors",
}


def main() -> None:
    source, target = (pathlib.Path(argument) for argument in sys.argv[1:])
    data = json.loads(source.read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    for report in data["reports"]:
        style = TAILS.get((report["server"], report["kind"]))
        if style is None:
            continue
        label, colour, line = style
        shares = [*range(100), 99.9]
        # One line a round; the first names them.
        first = label not in left.get_legend_handles_labels()[1]
        left.plot(
            report["percentiles_ms"],
            shares,
            line,
            color=colour,
            label=label if first else None,
        )
    left.set(
        xscale="log",
        xlabel="latency, ms",
        ylabel="% of the answers that took less",
        title="deit_tiny_patch16_224, Poisson arrivals",
    )
    left.axhline(99, color="grey", linewidth=0.6)
    left.legend()
    left.grid(alpha=0.3)
    bars = {
        label: statistics.median(data["values"][name])
        for name, label in BARS.items()
        if name in data["values"]
    }
    drawn = right.bar(
        bars.keys(),
        bars.values(),
        color=["C0" if label.startswith("Fovea") else "C1" for label in bars],
    )
    right.bar_label(drawn, fmt="%.2f")
    right.axhline(0.95, color="grey", linewidth=0.6)
    right.set(
        ylabel="of the capacity, answered within a second",
        title="Offered twice the capacity",
        ylim=(0, 1.1 * max(1.0, *bars.values())),
    )
    figure.tight_layout()
    figure.savefig(target, dpi=120)


if __name__ == "__main__":
    main()
