"""Draws each panel of the dashboards from what a real Prometheus answers to its queries: our own plot, not Grafana's.

    render.py [--seconds 240] [--output docs/pictures/dashboards] [--only attention-latency ...]

The servers and their load are those of the tests (monitored.py), with a break and a rush in the load.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import re
import sys
import tempfile
import time

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

sys.path += [str(pathlib.Path(__file__).resolve().parents[2])]
from monitored import ARM, ATTENTIONS, Monitored, values
from queries import dashboards, filled_in
from running_server import ROOT

STEPS = 120  # of a line
WIDTH = 24  # of Grafana's grid
COLOURS = [
    "#3b6fb6",
    "#d1762c",
    "#4a9a63",
    "#b04a5a",
    "#7b62a8",
    "#8a6d4b",
    "#c77fb0",
    "#6f6f6f",
    "#a3a13a",
]
# The values of variables by which panels are repeated.
REPEATS = {"attention": ATTENTIONS, "arm": [ARM]}
# Which rows of a dashboard are in one picture.
PICTURES = {
    "attention-latency": ("fovea-attention", ("Latency", "Throughput")),
    "attention-stages": ("fovea-attention", ("Where the time goes",)),
    "attention-batches-memory": ("fovea-attention", ("Batches", "Memory")),
    "attention-resolution": ("fovea-attention", ("Against resolution", "Cost")),
    "attention-promises": ("fovea-attention", ("Promises",)),
    "attention-experiments": ("fovea-attention", ("Experiments",)),
    "server": ("fovea-server", ("State", "Requests", "Process", "GPUs", "Around it")),
}


def in_unit(unit: str):
    """How a number of that unit is written."""

    def scaled(value: float, steps: list[tuple[float, str]]) -> str:
        for size, name in steps:
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.2g}" if value else "0"

    def text(value: float, _: object = None) -> str:
        if unit == "s":
            steps = [
                (86400, "d"),
                (3600, "h"),
                (60, "min"),
                (1, "s"),
                (1e-3, "ms"),
                (1e-6, "us"),
            ]
            return scaled(value, steps)
        if unit == "bytes":
            return scaled(value, [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")])
        if unit == "percentunit":
            return f"{100 * value:.3g} %"
        if value >= 1000:
            return f"{value:,.0f}"
        return f"{value:.3g}" + {"reqps": " /s", "cps": " /s"}.get(unit, "")

    return text


def legend(target: dict, labels: dict[str, str]) -> str:
    return re.sub(
        r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), target["legendFormat"]
    )


class Asked:
    """What Prometheus answers about the time that has been."""

    def __init__(self, monitored: Monitored, start: float, end: float):
        self._prometheus = monitored.prometheus
        self._start, self._end = start, end
        self.seconds = end - start
        self.step = max(1, round((end - start) / STEPS))
        self._values = values(__range=f"{int(end - start)}s", __rate_interval="15s")

    def expr(self, target: dict, more: dict[str, str]) -> str:
        return filled_in(target["expr"], {**self._values, **more})

    def over_time(
        self, target: dict, more: dict[str, str]
    ) -> list[tuple[dict, np.ndarray, np.ndarray]]:
        """Labels, seconds since the start, and values of each series."""
        found = self._prometheus.ask(
            "query_range",
            query=self.expr(target, more),
            start=self._start,
            end=self._end,
            step=self.step,
        )
        series = []
        for each in found:
            points = np.array(
                [(at - self._start, float(value)) for at, value in each["values"]]
            )
            series.append((each["metric"], points[:, 0], points[:, 1]))
        return sorted(series, key=lambda one: str(one[0]))

    def now(self, target: dict, more: dict[str, str]) -> list[tuple[dict, float]]:
        found = self._prometheus.ask(
            "query", query=self.expr(target, more), time=self._end
        )
        return [(each["metric"], float(each["value"][1])) for each in found]


def minutes(seconds: float, _: object = None) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02}"


def colour(order: dict[str, str], name: str) -> str:
    """The same for the same name in a panel; attentions have theirs in all panels."""
    return order.setdefault(name, COLOURS[len(order) % len(COLOURS)])


def draw_lines(axes, panel: dict, asked: Asked, more: dict[str, str]) -> int:
    custom = panel["fieldConfig"]["defaults"]["custom"]
    drawn = []
    for target in panel["targets"]:
        for labels, seconds, numbers in asked.over_time(target, more):
            drawn.append((legend(target, labels), seconds, numbers))
    order: dict[str, str] = {}
    if {name.removesuffix(" missed") for name, _, _ in drawn} <= set(ATTENTIONS):
        order = dict(zip(ATTENTIONS, COLOURS))
    if "stacking" in custom:
        grid = np.unique(np.concatenate([seconds for _, seconds, _ in drawn]))
        rows = [
            np.nan_to_num(np.interp(grid, seconds, numbers))
            for _, seconds, numbers in drawn
        ]
        names = [name for name, _, _ in drawn]
        axes.stackplot(
            grid,
            rows,
            labels=names,
            colors=[colour(order, name) for name in names],
            alpha=0.8,
        )
    else:
        styles = {
            each["matcher"]["options"]: {
                one["id"].removeprefix("custom."): one["value"]
                for one in each["properties"]
            }
            for each in panel["fieldConfig"]["overrides"]
        }
        by_name = {
            name: (seconds, np.where(np.isfinite(numbers), numbers, np.nan))
            for name, seconds, numbers in drawn
        }
        for name, seconds, numbers in drawn:
            if below := styles.get(name, {}).get("fillBelowTo"):
                axes.fill_between(
                    seconds,
                    np.interp(seconds, *by_name[below]),
                    by_name[name][1],
                    color=COLOURS[0],
                    alpha=0.25,
                    label="interval",
                    linewidth=0,
                )
            if styles.get(name, {}).get("lineWidth") == 0:
                continue
            style = "--" if name.endswith(("missed", "total")) else "-"
            hue = colour(order, name.removesuffix(" missed"))
            axes.plot(seconds, numbers, style, label=name, color=hue, linewidth=1.2)
    for step in panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", []):
        if step["value"] is not None:
            axes.axhline(step["value"], color="#999999", linewidth=0.8, zorder=0)
    axes.set_xlim(0, asked.seconds)
    if panel["fieldConfig"]["defaults"].get("min") == 0:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(minutes)
    return len(drawn)


def draw_bars(axes, panel: dict, asked: Asked, more: dict[str, str]) -> int:
    (target,) = panel["targets"]
    matrix = next(
        each for each in panel["transformations"] if each["id"] == "groupingToMatrix"
    )["options"]
    cells: dict[tuple[str, str], float] = collections.defaultdict(float)
    for labels, number in asked.now(target, more):
        cells[
            labels.get(matrix["rowField"], ""), labels.get(matrix["columnField"], "")
        ] += number
    rows = sorted(
        {row for row, _ in cells},
        key=lambda row: (float(row) if row.isdigit() else 0, row),
    )
    columns = sorted({column for _, column in cells})
    stacked = panel["options"]["stacking"] == "normal"
    order: dict[str, str] = dict(zip(ATTENTIONS, COLOURS)) if not stacked else {}
    bottom = np.zeros(len(rows))
    for number, column in enumerate(columns):
        heights = np.array([cells.get((row, column), np.nan) for row in rows])
        hue = colour(order, column)
        if stacked:
            axes.bar(
                range(len(rows)),
                np.nan_to_num(heights),
                0.6,
                bottom,
                label=column,
                color=hue,
                alpha=0.85,
            )
            bottom += np.nan_to_num(heights)
        else:
            width = 0.8 / len(columns)
            at = np.arange(len(rows)) + (number - (len(columns) - 1) / 2) * width
            axes.bar(at, heights, 0.9 * width, label=column, color=hue, alpha=0.85)
    axes.set_xticks(range(len(rows)), rows)
    if panel["title"].endswith("baseline's"):
        axes.axhline(1, color="#999999", linewidth=0.8, zorder=0)
    return len(columns)


def draw_heatmap(axes, panel: dict, asked: Asked, more: dict[str, str]) -> int:
    (target,) = panel["targets"]
    by_bound = {
        float(labels["le"].replace("+Inf", "inf")): (seconds, numbers)
        for labels, seconds, numbers in asked.over_time(target, more)
    }
    bounds = sorted(by_bound)
    grid = by_bound[bounds[0]][0]
    counts = np.diff(
        [np.zeros(len(grid)), *(by_bound[bound][1] for bound in bounds)], axis=0
    )
    shown = [
        number
        for number in range(len(bounds))
        if counts[: number + 1].sum() < counts.sum() * (1 - 1e-9)
    ]
    shown = [*shown, len(shown)][: len(bounds)]
    axes.pcolormesh(
        grid, np.arange(len(shown)), counts[shown], cmap="Blues", shading="nearest"
    )
    axes.set_yticks(range(len(shown)), [f"{bounds[number]:g}" for number in shown])
    axes.xaxis.set_major_formatter(minutes)
    return 0


def draw_number(axes, panel: dict, asked: Asked, more: dict[str, str]) -> int:
    (target,) = panel["targets"]
    ((_, number),) = asked.now(target, more)
    text = in_unit(panel["fieldConfig"]["defaults"]["unit"])(number)
    axes.text(0.5, 0.45, text, ha="center", va="center", fontsize=18, color=COLOURS[0])
    axes.axis("off")
    return 0


DRAW = {
    "timeseries": draw_lines,
    "barchart": draw_bars,
    "heatmap": draw_heatmap,
    "stat": draw_number,
}


def sections(
    dashboard: dict, wanted: tuple[str, ...]
) -> list[tuple[str, list[tuple[dict, dict[str, str]]]]]:
    """The wanted rows, with a panel for each attention where one is repeated."""
    found: list[tuple[str, list]] = []
    take = False
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            take = panel["title"].startswith(wanted)
            if take:
                found.append((filled_in(panel["title"], {"baseline": "dense"}), []))
        elif take:
            repeats: list[dict[str, str]] = [{}]
            if name := panel.get("repeat"):
                repeats = [{name: each} for each in REPEATS[name]]
            found[-1][1].extend((panel, more) for more in repeats)
    return found


def picture(
    dashboard: dict, wanted: tuple[str, ...], asked: Asked, file: pathlib.Path
) -> None:
    lines: list[
        tuple[str, list, float]
    ] = []  # what is above a line of panels, the panels, its height
    for title, panels in sections(dashboard, wanted):
        heading, line, used = title, [], 0
        for panel, more in panels:
            several = len(REPEATS.get(panel.get("repeat"), ())) > 1
            width = 12 if several else panel["gridPos"]["w"]
            if used + width > WIDTH:
                lines.append((heading, line, 1))
                heading, line, used = "", [], 0
            line.append((panel, more, used, width))
            used += width
        lines.append((heading, line, 1))
    heights = [
        0.45 if all(panel["type"] == "stat" for panel, *_ in line) else 1.0
        for _, line, _ in lines
    ]
    figure = plt.figure(figsize=(14, 0.3 + 3.1 * sum(heights)), layout="constrained")
    figure.suptitle(
        dashboard["title"], fontsize=11, x=0.01, ha="left", fontweight="bold"
    )
    strips = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)[
        :, 0
    ]
    for strip, (heading, line, _) in zip(strips, lines):
        if heading:
            strip.suptitle(heading, fontsize=10, x=0.01, ha="left", color="#444444")
        grid = strip.add_gridspec(1, WIDTH)
        for panel, more, at, width in line:
            axes = strip.add_subplot(grid[0, at : at + width])
            drawn = DRAW[panel["type"]](axes, panel, asked, more)
            axes.set_title(
                filled_in(panel["title"], {**more, "baseline": "dense"}),
                fontsize=9,
                loc="left",
            )
            if panel["type"] in ("timeseries", "barchart"):
                unit = panel["fieldConfig"]["defaults"]["unit"]
                axes.yaxis.set_major_formatter(in_unit(unit))
                if unit == "bytes":  # round in powers of two
                    largest = axes.get_ylim()[1]
                    step = 2.0 ** np.ceil(np.log2(largest / 6))
                    axes.set_yticks(np.arange(0, largest, step))
                axes.grid(axis="y", color="#dddddd", linewidth=0.6)
                axes.set_axisbelow(True)
                if drawn:
                    axes.legend(fontsize=6.5, ncols=min(drawn, 4 if width > 8 else 3), frameon=False,
                                loc="upper center", bbox_to_anchor=(0.5, -0.1))  # fmt: skip
            axes.tick_params(labelsize=7, length=2)
            axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=100)
    plt.close(figure)
    # Few colours: a quarter of the bytes.
    Image.open(file).convert("RGB").quantize(128).save(file, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument(
        "--output", type=pathlib.Path, default=ROOT / "docs/pictures/dashboards"
    )
    parser.add_argument("--only", choices=PICTURES, action="append")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        monitored = Monitored(pathlib.Path(folder), max_batch_size=4, callers=2)
        try:
            time.sleep(20)  # until the first rates are there
            start = time.time()
            for pause in (0.2, 1, 0):
                monitored.load.pause = pause
                time.sleep(arguments.seconds / 3)
            asked = Asked(monitored, start, time.time())
            by_uid = {dashboard["uid"]: dashboard for dashboard in dashboards()}
            for name in arguments.only or PICTURES:
                uid, rows = PICTURES[name]
                picture(by_uid[uid], rows, asked, arguments.output / f"{name}.png")
                print(arguments.output / f"{name}.png")
        finally:
            monitored.close()
    return 1 if monitored.load.failures else 0


if __name__ == "__main__":
    sys.exit(main())
