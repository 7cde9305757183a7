"""Trains one small model per attention of the registry in one frame, and compares them.

    train_families.py BUILD MODELS RESULTS [--families NAME...] [--seeds 3] [--epochs 8] [--validation-images N] [--jobs N]
        [--bundle FOLDER]

Every model has the same frame (demo_frame_64: width, depth, MLPs, positions), recipe and number of pictures; only the
attention differs. MODELS keeps the trained models as folders that a server can serve: a second run goes on where the first
one ended. RESULTS gets training/*.csv (an epoch a line), runs.csv (a model a line, measured on this machine) and, between
the markers of its README.md, the table; plot_families.py draws them. The folder of --bundle gets the first seed's model of
some of the families.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import re
import shutil
import subprocess

import torch
from family_runs import Family, name_of, read_runs

FRAME = "demo_frame_64"
# Of those that cannot be named alone. Half the keys, as the demo models have it.
OPTIONS = {"knn": "knn:k=0.5"}
# The three that learn most, dense attention to compare with, and key-only for the comparison of the papers' attentions.
BUNDLED = ("dense", "aewin", "cska", "conv", "key_only")
# With dense attention, seed 1 and eight epochs 86.2% of the validation pictures against 81.7% with 1e-3.
LEARNING_RATE = 2e-3
BEGIN, END = "<!-- families: begin -->\n", "<!-- families: end -->\n"


def registered_families(build: pathlib.Path) -> list[str]:
    torch.ops.load_library(str(build / "lib" / "libfovea_models.so"))
    # "self" with its core inside is the frame's own module: that is "dense".
    return [name for name in torch.ops.fovea_models.attentions() if name != "self"]


def recipe(arguments: argparse.Namespace, family: str, seed: int) -> list[str]:
    validation = arguments.validation_images
    return [
        *("--backbone", FRAME, "--attention", OPTIONS.get(family, family)),
        *("--seed", str(seed), "--epochs", str(arguments.epochs)),
        *("--images-per-epoch", str(arguments.images_per_epoch)),
        *("--learning-rate", str(LEARNING_RATE)),
        *(() if validation is None else ("--validation-images", str(validation))),
        # As near to the same numbers as machines come: sums in one order, products of one precision.
        *("--threads", "1", "--arithmetic", "bf16", "--keep", "last"),
    ]


def train(arguments: argparse.Namespace, family: str, seed: int) -> None:
    """Trains one model unless it is there already. Raises RuntimeError where it is there by another recipe."""
    name = name_of(family, seed)
    folder = arguments.models / name
    trained_by = arguments.models / f"{name}.recipe"
    options = recipe(arguments, family, seed)
    if trained_by.exists():
        if trained_by.read_text() != " ".join(options):
            raise RuntimeError(
                f"{folder} was trained by another recipe, which {trained_by} has: remove it, or choose another folder"
            )
        return
    csv = arguments.results / "training" / f"{name}.csv"
    command = [arguments.build / "bin" / "fovea-train", *options]
    command += ["--out", folder, "--csv", csv, "--overwrite"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    trained_by.write_text(" ".join(options))
    print(done.stdout.splitlines()[-1], flush=True)


def train_all(arguments: argparse.Namespace) -> None:
    # Every family with the first seed before any with the second: what is there of a broken-off run compares, too.
    runs = [
        (family, seed) for seed in arguments.all_seeds for family in arguments.families
    ]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(train, arguments, *run) for run in runs]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def compare(arguments: argparse.Namespace) -> None:
    """All models on the same test pictures, and timed in turns: runs.csv."""
    folders = [
        arguments.models / name_of(family, seed)
        for family in arguments.families
        for seed in arguments.all_seeds
    ]
    command = [arguments.build / "bin" / "fovea-train", "--threads", "1"]
    command += ["--compare", *folders, "--csv", arguments.results / "runs.csv"]
    command += ["--compared-images", str(arguments.compared_images)]
    subprocess.run(command, check=True)


def bundle(models: pathlib.Path, family: str, repository: pathlib.Path) -> None:
    """Copies a trained model under the name that it is served by."""
    name = f"frame_{family}"
    shutil.copytree(models / name_of(family, 1), repository / name, dirs_exist_ok=True)
    spec = repository / name / "model.textproto"
    spec.write_text(
        re.sub(r'^name: ".*"$', f'name: "{name}"', spec.read_text(), flags=re.MULTILINE)
    )


def machine() -> str:
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return model[1] if model else os.uname().machine


def table(families: list[Family]) -> str:
    lines = [
        (
            "| attention | accuracy, mean | lowest to highest | parameters | multiply-adds, M "
            "| ms, batch 1 | ms, batch 16 | peak KiB, batch 1 | peak KiB, batch 16 |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for family in families:
        reached = family.accuracies
        lines.append(
            f"| `{family.attention}` | {family.mean_accuracy:.2f}% "
            f"| {min(reached):.2f} to {max(reached):.2f}% "
            f"| {family.middle('parameters'):,.0f} | {family.middle('multiply_adds') / 1e6:.1f} "
            f"| {family.middle('milliseconds_1'):.3f} | {family.middle('milliseconds_16'):.2f} "
            f"| {family.middle('peak_bytes_1') / 1024:.0f} "
            f"| {family.middle('peak_bytes_16') / 1024:.0f} |"
        )
    return "\n".join(lines) + "\n"


def write_table(arguments: argparse.Namespace, text: str) -> None:
    """Replaces what lies between the markers."""
    path = arguments.results / "README.md"
    page = (
        path.read_text()
        if path.exists()
        else f"# Attentions in one frame\n\n{BEGIN}{END}"
    )
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    made = (
        f"`train_families.py` on one thread of {machine()}, {datetime.date.today()}: "
        f"{arguments.seeds} seeds, {arguments.epochs} epochs of {arguments.images_per_epoch:,} pictures. "
        "Times and memory are medians over the seeds.\n\n"
    )
    path.write_text(before + BEGIN + made + text + END + after)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--bundle", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument(
        "--families", nargs="+", metavar="NAME", help="default: every attention"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--images-per-epoch", type=int, default=9600)
    parser.add_argument("--validation-images", type=int, help="default: fovea-train's")
    parser.add_argument("--compared-images", type=int, default=4800)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="models at a time"
    )
    arguments = parser.parse_args()
    known = registered_families(arguments.build)
    arguments.families = arguments.families or known
    if unknown := set(arguments.families) - set(known):
        parser.error(
            f"no such attention: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    arguments.all_seeds = range(1, arguments.seeds + 1)
    return arguments


def main() -> None:
    arguments = parse()
    arguments.results.mkdir(parents=True, exist_ok=True)
    train_all(arguments)
    for family in BUNDLED:
        if arguments.bundle and family in arguments.families:
            bundle(arguments.models, family, arguments.bundle)
    compare(arguments)
    write_table(arguments, table(read_runs(arguments.results)))


if __name__ == "__main__":
    main()
