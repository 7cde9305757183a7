"""JPEGs to a model's normalised 224 x 224: Fovea's imaging against torchvision and Pillow, one thread each, in turn.

    .venv/bin/python tests/bench/imaging/decode_resize.py [--build build/release] [--rounds 30]

All decode, resize the shorter side to 248 with antialiased bicubic interpolation, cut out the middle and normalise it. A
photograph of 500 x 375, and one of 12 megapixels, which Fovea decodes exactly and as a model with fast_decode does; Pillow's
draft mode decodes at the same scale. Exits 1 where a floor of tests/bench/targets.csv is missed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.v2 import functional as transforms

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from photograph import photograph
from targets import report

ROOT = pathlib.Path(__file__).resolve().parents[3]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RESIZED, SIDE = 248, 224  # floor(224 / 0.9)


def median_us(run: Callable[[], object], count: int) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter_ns()
        run()
        took.append(time.perf_counter_ns() - start)
    return statistics.median(took) / 1e3


def normalised(rgb: torch.Tensor) -> torch.Tensor:
    window = transforms.center_crop(rgb, [SIDE, SIDE])
    return transforms.normalize(window.float() / 255, MEAN, STD)


def by_torchvision(encoded: torch.Tensor) -> torch.Tensor:
    image = decode_jpeg(encoded, mode=ImageReadMode.RGB)
    bicubic = transforms.InterpolationMode.BICUBIC
    return normalised(
        transforms.resize(image, [RESIZED], interpolation=bicubic, antialias=True)
    )


def by_pillow(file: pathlib.Path, margin: int) -> torch.Tensor:
    """Decoded as small as leaves the resize `margin` times the shorter side that it makes; 0: whole."""
    image = Image.open(file)
    width, height = image.size
    if margin:
        image.draft("RGB", (margin * RESIZED * width // height, margin * RESIZED))
    size = (RESIZED * width // height, RESIZED)
    resized = image.convert("RGB").resize(size, Image.Resampling.BICUBIC)
    return normalised(torch.from_numpy(np.array(resized)).permute(2, 0, 1))


class Imaging:
    """Fovea's, in a process of its own."""

    def __init__(self, build: str) -> None:
        dump = ROOT / build / "tests" / "imaging_dump"
        self._process = subprocess.Popen(
            [dump], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def us(self, how: str, file: pathlib.Path, count: int) -> float:
        assert self._process.stdin and self._process.stdout
        print(
            f"time {count} {SIDE} {SIDE} shortest 0.9 bicubic {how} {file}",
            file=self._process.stdin,
            flush=True,
        )
        return int(self._process.stdout.readline()) / 1e3


def measure(
    ways: dict[str, Callable[[int], float]], rounds: int, count: int
) -> dict[str, list[float]]:
    """Microseconds of each way, in turn; the median of `count` in each round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(way(count))
    return times


def over(times: dict[str, list[float]], slow: str, fast: str) -> float:
    """How many times as fast, as the median of the rounds."""
    return statistics.median(
        a / b for a, b in zip(times[slow], times[fast], strict=True)
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--build", default="build/release")
    arguments.add_argument("--rounds", type=int, default=30)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    model = next(
        line.split(": ")[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    print(
        f"{model}, {os.cpu_count()} cores, torch {torch.__version__}, {datetime.date.today()}"
    )

    with (
        tempfile.TemporaryDirectory() as folder,
        Imaging(options.build) as imaging,
    ):

        def run(width: int, height: int, quality: int, count: int, large: bool):
            file = pathlib.Path(folder) / f"{width}x{height}.jpg"
            photograph(width, height).save(file, quality=quality)
            data = bytearray(file.read_bytes())
            encoded = torch.frombuffer(data, dtype=torch.uint8)
            ways: dict[str, Callable[[int], float]] = {
                "fovea": lambda n: imaging.us("exact", file, n),
                "torchvision": lambda n: median_us(lambda: by_torchvision(encoded), n),
                "pillow": lambda n: median_us(lambda: by_pillow(file, 0), n),
            }
            if large:
                ways |= {
                    "fovea fast_decode": lambda n: imaging.us("fast", file, n),
                    "pillow draft": lambda n: median_us(lambda: by_pillow(file, 2), n),
                    "pillow draft, no margin": lambda n: median_us(
                        lambda: by_pillow(file, 1), n
                    ),
                }
            times = measure(ways, options.rounds, count)
            print(
                f"\n{width} x {height}, {len(data)} bytes: medians of {options.rounds} interleaved rounds, one thread"
            )
            for name, took in times.items():
                print(f"{name:26} {statistics.median(took) / 1e3:8.2f} ms")
            return times

        small = run(500, 375, quality=90, count=50, large=False)
        large = run(4000, 3000, quality=85, count=3, large=True)
    return report(
        "bench-imaging",
        {
            "jpeg_500_over_torchvision": over(small, "torchvision", "fovea"),
            "jpeg_12mp_over_torchvision": over(large, "torchvision", "fovea"),
            "jpeg_12mp_fast_over_torchvision": over(
                large, "torchvision", "fovea fast_decode"
            ),
            "jpeg_12mp_fast_over_pillow_draft": over(
                large, "pillow draft", "fovea fast_decode"
            ),
            "jpeg_12mp_fast_over_exact": over(large, "fovea", "fovea fast_decode"),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
