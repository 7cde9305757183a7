"""Trains one small model per family of attention in one frame, and compares them.

    train_families.py BUILD MODELS RESULTS [--seeds 3] [--epochs 8] [--jobs N] [--bundle FOLDER]

Every model has the same frame (demo_frame_64: width, depth, MLPs, positions), recipe and number of pictures; only the
attention differs. MODELS keeps the trained models as folders that a server can serve: a second run goes on where the first
one ended. RESULTS gets training/*.csv (an epoch a line), runs.csv (a model a line, measured on this machine), families.png
and, between the markers of its README.md, the table. The folder of --bundle gets the first seed's model of some families.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import datetime
import os
import pathlib
import re
import shutil
import statistics
import subprocess

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FRAME = "demo_frame_64"
# Half the keys, as the demo models have it; the others as the frame's size has them.
FAMILIES = {
    "dense": "dense",
    "knn": "knn:k=0.5",
    "shifted_window": "shifted_window",
    "axial": "axial",
    "criss_cross": "criss_cross",
    "pale": "pale",
    "cross_shaped": "cross_shaped",
    "aewin": "aewin",
    "ska": "ska",
    "cska": "cska",
    "key_only": "key_only",
    "conv": "conv",
}
# The three that learn most, and dense attention to compare with.
BUNDLED = ("dense", "aewin", "cska", "conv")
# With dense attention, seed 1 and eight epochs 86.2% of the validation pictures against 81.7% with 1e-3.
LEARNING_RATE = 2e-3
MARKERS = "os^v<>DPX*hp"  # one a family: their colours come in pairs that are alike
BEGIN, END = "<!-- families: begin -->\n", "<!-- families: end -->\n"


def name_of(family: str, seed: int) -> str:
    return f"{family}_seed{seed}"


def train(arguments: argparse.Namespace, family: str, seed: int) -> None:
    """Trains one model unless it is there already."""
    name = name_of(family, seed)
    folder = arguments.models / name
    if (folder / "1" / "model.safetensors").exists():
        return
    # One thread: sums in the same order give the same models, whatever the machine has.
    command = [arguments.build / "bin" / "fovea-train", "--threads", "1"]
    command += ["--backbone", FRAME, "--attention", FAMILIES[family]]
    command += ["--seed", str(seed), "--epochs", str(arguments.epochs)]
    command += ["--learning-rate", str(LEARNING_RATE)]
    command += [
        "--out",
        folder,
        "--csv",
        arguments.results / "training" / f"{name}.csv",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    print(done.stdout.splitlines()[-1], flush=True)


def train_all(arguments: argparse.Namespace) -> None:
    # Every family with the first seed before any with the second: what is there of a broken-off run compares, too.
    runs = [(family, seed) for seed in arguments.all_seeds for family in FAMILIES]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(train, arguments, *run) for run in runs]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def compare(arguments: argparse.Namespace) -> list[dict[str, str]]:
    """All models on the same test pictures, and timed in turns."""
    folders = [
        arguments.models / name_of(family, seed)
        for family in FAMILIES
        for seed in arguments.all_seeds
    ]
    target = arguments.results / "runs.csv"
    tool = arguments.build / "bin" / "fovea-train"
    subprocess.run(
        [tool, "--threads", "1", "--compare", *folders, "--csv", target], check=True
    )
    with target.open() as file:
        return list(csv.DictReader(file))


def bundle(models: pathlib.Path, family: str, repository: pathlib.Path) -> None:
    """Copies a trained model under the name that it is served by."""
    name = f"frame_{family}"
    shutil.copytree(models / name_of(family, 1), repository / name, dirs_exist_ok=True)
    spec = repository / name / "model.textproto"
    spec.write_text(
        re.sub(r'^name: ".*"$', f'name: "{name}"', spec.read_text(), flags=re.MULTILINE)
    )


def accuracies(runs: list[dict[str, str]]) -> list[float]:
    return [100 * int(run["correct"]) / int(run["images"]) for run in runs]


def middle(runs: list[dict[str, str]], column: str) -> float:
    return statistics.median(float(run[column]) for run in runs)


def machine() -> str:
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return model[1] if model else os.uname().machine


def table(families: dict[str, list[dict[str, str]]]) -> str:
    lines = [
        (
            "| attention | accuracy, mean | lowest to highest | parameters | multiply-adds, M "
            "| ms, batch 1 | ms, batch 16 | peak KiB, batch 1 | peak KiB, batch 16 |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for family, runs in families.items():
        reached = accuracies(runs)
        first = runs[0]
        lines.append(
            f"| `{FAMILIES[family]}` | {statistics.mean(reached):.2f}% "
            f"| {min(reached):.2f} to {max(reached):.2f}% "
            f"| {int(first['parameters']):,} | {int(first['multiply_adds']) / 1e6:.1f} "
            f"| {middle(runs, 'milliseconds_1'):.3f} | {middle(runs, 'milliseconds_16'):.2f} "
            f"| {int(first['peak_bytes_1']) / 1024:.0f} | {int(first['peak_bytes_16']) / 1024:.0f} |"
        )
    return "\n".join(lines) + "\n"


def write_table(arguments: argparse.Namespace, text: str, seeds: int) -> None:
    """Replaces what lies between the markers."""
    path = arguments.results / "README.md"
    before, rest = path.read_text().split(BEGIN)
    after = rest.split(END)[1]
    made = (
        f"`make train-families` on one thread of {machine()}, {datetime.date.today()}: {seeds} seeds, "
        f"{arguments.epochs} epochs. Times and memory are medians over the seeds.\n\n"
    )
    path.write_text(before + BEGIN + made + text + END + after)


def curves(arguments: argparse.Namespace, family: str) -> list[list[float]]:
    """Validation accuracy after each epoch, a list a seed."""
    found = []
    for seed in arguments.all_seeds:
        path = arguments.results / "training" / f"{name_of(family, seed)}.csv"
        with path.open() as file:
            found.append(
                [
                    100 * float(row["validation_accuracy"])
                    for row in csv.DictReader(file)
                ]
            )
    return found


def plot(
    arguments: argparse.Namespace, families: dict[str, list[dict[str, str]]]
) -> None:
    figure, (points, costs, epochs) = plt.subplots(
        1, 3, figsize=(18, 6), constrained_layout=True
    )
    colours = plt.get_cmap("tab20")
    for i, (family, runs) in enumerate(families.items()):
        reached = accuracies(runs)
        mean = statistics.mean(reached)
        colour = colours(i)
        points.plot([min(reached), max(reached)], [family] * 2, color=colour)
        points.plot(reached, [family] * len(reached), "o", color=colour, markersize=4)
        points.plot(mean, family, "D", color=colour, markersize=9)
        costs.errorbar(
            middle(runs, "milliseconds_16"),
            mean,
            yerr=[[mean - min(reached)], [max(reached) - mean]],
            fmt=MARKERS[i],
            color=colour,
            capsize=3,
            label=family,
        )
        mean_curve = [
            statistics.mean(values)
            for values in zip(*curves(arguments, family), strict=True)
        ]
        epochs.plot(
            range(1, len(mean_curve) + 1),
            mean_curve,
            marker=MARKERS[i],
            color=colour,
            label=family,
        )
    points.set(xlabel="accuracy on test pictures, %: a dot a seed, and their mean")
    points.invert_yaxis()
    costs.set(xlabel="ms, batch of 16, one thread", ylabel="accuracy, %")
    epochs.set(xlabel="epoch", ylabel="validation accuracy, %: mean of the seeds")
    for axis in (costs, epochs):
        axis.legend(fontsize=8, frameon=False)
    for axis in (points, costs, epochs):
        axis.grid(visible=True, alpha=0.3)
    figure.suptitle(
        f"One frame ({FRAME}), one recipe, {len(families)} attentions", fontsize=11
    )
    figure.savefig(arguments.results / "families.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--bundle", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="models at a time"
    )
    arguments = parser.parse_args()
    arguments.all_seeds = range(1, arguments.seeds + 1)
    train_all(arguments)
    for family in BUNDLED if arguments.bundle else ():
        bundle(arguments.models, family, arguments.bundle)
    runs = compare(arguments)
    families = {}
    for family in FAMILIES:
        names = [name_of(family, seed) for seed in arguments.all_seeds]
        families[family] = [run for run in runs if run["model"] in names]
    best_first = dict(
        sorted(
            families.items(),
            key=lambda item: -statistics.mean(accuracies(item[1])),
        )
    )
    write_table(arguments, table(best_first), arguments.seeds)
    plot(arguments, best_first)


if __name__ == "__main__":
    main()
