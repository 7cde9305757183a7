"""Draws where a model's passes spend their time, by Linux' perf: every function over those that it was called from.

    .venv/bin/python tests/bench/models/flame_graph.py deit_tiny_patch16_224 BF16 8 --out flame.svg

The model runs as in models.py, in a process of its own (contender.py); its passes alone are looked at, of all threads.
Needs perf (Debian's linux-perf), which may have to be allowed: sysctl kernel.perf_event_paranoid=1.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from definitions import pixels
from matplotlib.patches import Rectangle

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import torch
from turns import processor

Stack = tuple[str, ...]  # outermost first

SAMPLES_PER_SECOND = 499
# Samples in none of our functions. Code that is made while a program runs says not who called it.
WAITING, GENERATED, OTHERS = "threads waiting", "oneDNN's generated code", "others"
WAITS = re.compile(r"gomp|futex|pthread|sched|poll|wait", re.IGNORECASE)
# How perf names memory that belongs to no file.
IN_NO_FILE = re.compile(r"perf-\d+\.map\)$|\(\[JIT\]|\(//anon\)")
FILE = re.compile(r" \([^()]*\)$")  # that perf prints behind a function
LEAST_SHARE = 0.002  # that is drawn
# What called the first of these is left out: who starts threads and passes.
OUTERMOST = re.compile(r"fovea::models::|fovea::kernels::")


def readable(symbol: str) -> str:
    """A C++ symbol without what instruction set, arguments and template arguments add to it."""
    symbol = symbol.replace("(anonymous namespace)::", "")
    symbol = symbol.partition("(")[0] if "{lambda" not in symbol else symbol
    previous = None
    while previous != symbol:
        previous, symbol = symbol, re.sub(r"<[^<>]*>|\([^()]*\)", "", symbol)
    symbol = re.sub(r"N_[A-Z0-9_]+::", "", symbol)
    return re.sub(r"\{lambda.*", "lambda", symbol).removeprefix("fovea::").strip()


def of_others(innermost: str) -> str:
    """What a sample is counted as that has none of our functions: by its function and, in brackets, its file."""
    if IN_NO_FILE.search(innermost):
        return GENERATED
    return WAITING if WAITS.search(innermost) else OTHERS


def stacks_of(script: str) -> collections.Counter[Stack]:
    """Samples by stack, of what `perf script -F ip,sym,dso` prints: innermost function first, a blank line between samples."""
    found: collections.Counter[Stack] = collections.Counter()
    for sample in script.split("\n\n"):
        symbols = [line.split(maxsplit=1)[-1] for line in sample.splitlines() if line]
        if not symbols:
            continue
        symbols.reverse()
        ours = [i for i, symbol in enumerate(symbols) if OUTERMOST.search(symbol)]
        if not ours:
            found[(of_others(symbols[-1]),)] += 1
            continue
        stack: list[str] = []
        for symbol in map(readable, (FILE.sub("", s) for s in symbols[ours[0] :])):
            if symbol not in ("lambda", "[unknown]") and symbol not in stack[-1:]:
                stack.append(symbol)
        found[tuple(stack)] += 1
    return found


def record(options: argparse.Namespace) -> collections.Counter[Stack]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        torch.save(pixels(options.batch), folder / "pixels.pt")
        command = [
            sys.executable,
            str(HERE / "contender.py"),
            "ours",
            options.model,
            options.precision,
            f"--threads={options.threads}",
            f"--pixels={folder / 'pixels.pt'}",
        ]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as contender:
            for _ in ("library", "not_converted"):  # then the model is there, and warm
                contender.stdout.readline()
            perf = subprocess.Popen(
                ["perf", "record", "--quiet", "--call-graph=dwarf,16384"]
                + [f"--freq={SAMPLES_PER_SECOND}", f"--pid={contender.pid}"]
                + [f"--output={folder / 'perf.data'}"]
            )
            print(options.passes, file=contender.stdin, flush=True)
            contender.stdout.readline()
            contender.stdin.close()
            contender.wait()
            perf.wait()
        script = subprocess.run(
            ["perf", "script", "--no-inline", "-F", "ip,sym,dso"]
            + [f"--input={folder / 'perf.data'}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return stacks_of(script)


def deepest(stacks: collections.Counter[Stack]) -> int:
    """The most functions over each other that are drawn."""
    shares: collections.Counter[Stack] = collections.Counter()
    for stack, samples in stacks.items():
        for depth in range(1, len(stack) + 1):
            shares[stack[:depth]] += samples
    least = LEAST_SHARE * stacks.total()
    return max(len(prefix) for prefix, samples in shares.items() if samples >= least)


def draw(stacks: collections.Counter[Stack], title: str, out: pathlib.Path) -> None:
    total = stacks.total()
    depth = deepest(stacks)
    figure, axes = plt.subplots(figsize=(16, 0.28 * depth + 1))
    colours = plt.get_cmap("YlOrRd")

    def place(prefix: Stack, left: float) -> None:
        inside = collections.Counter(
            {s: n for s, n in stacks.items() if s[: len(prefix)] == prefix}
        )
        names = sorted({s[len(prefix)] for s in inside if len(s) > len(prefix)})
        for name in names:
            here = (*prefix, name)
            width = sum(n for s, n in inside.items() if s[: len(here)] == here) / total
            if width >= LEAST_SHARE:
                level = len(prefix)
                shade = colours(0.15 + 0.5 * (sum(map(ord, name)) % 97) / 97)
                axes.add_patch(Rectangle((left, level), width, 0.94, color=shade))
                text = f"{name} {width:.1%}"
                letters = int(width * 230)
                if letters > 4:
                    shown = text if len(text) <= letters else text[: letters - 1] + "…"
                    axes.text(
                        left + 0.001, level + 0.42, shown, fontsize=7, va="center"
                    )
                place(here, left)
            left += width

    place((), 0.0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, depth)
    axes.axis("off")
    axes.set_title(title, fontsize=9, loc="left")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("precision", choices=["FP32", "BF16", "INT8"])
    parser.add_argument("batch", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    stacks = record(options)
    title = (
        f"{options.model}, {options.precision}, batch {options.batch}, {options.threads} threads on {processor()}: "
        f"{stacks.total()} samples of {options.passes} passes"
    )
    draw(stacks, title, options.out)


if __name__ == "__main__":
    main()
