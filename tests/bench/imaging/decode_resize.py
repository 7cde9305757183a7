"""A JPEG of 500 x 375 to a model's 224 x 224: Fovea's imaging against torchvision's, one thread each, in turn.

    .venv/bin/python tests/bench/imaging/decode_resize.py [--build build/release] [--rounds 30]

Both decode, resize the shorter side to 248 with antialiased bicubic interpolation and cut out the middle. Fovea stops
at 8-bit pixels, because its executor normalises while it gathers the batch; torchvision's normalisation is shown apart.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.v2 import functional as transforms

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from photograph import photograph

ROOT = pathlib.Path(__file__).resolve().parents[3]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def median_us(run, count: int) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter_ns()
        run()
        took.append(time.perf_counter_ns() - start)
    return statistics.median(took) / 1e3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--build", default="build/release")
    arguments.add_argument("--rounds", type=int, default=30)
    options = arguments.parse_args()
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "photograph.jpg"
        photograph(500, 375).save(file, quality=90)
        encoded = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8)

        def decode_and_resize() -> torch.Tensor:
            image = decode_jpeg(encoded, mode=ImageReadMode.RGB)
            bicubic = transforms.InterpolationMode.BICUBIC
            image = transforms.resize(
                image, [248], interpolation=bicubic, antialias=True
            )
            return transforms.center_crop(image, [224, 224])

        def with_normalisation() -> torch.Tensor:
            return transforms.normalize(decode_and_resize().float() / 255, MEAN, STD)

        dump = ROOT / options.build / "tests" / "imaging_dump"
        with subprocess.Popen(
            [dump], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as fovea:

            def fovea_us() -> float:
                fovea.stdin.write(f"time 50 224 224 shortest 0.9 bicubic exact {file}\n")
                fovea.stdin.flush()
                return int(fovea.stdout.readline()) / 1e3

            rows = []
            for _ in range(options.rounds):
                ours, theirs = fovea_us(), median_us(decode_and_resize, 50)
                rows.append((ours, theirs, median_us(with_normalisation, 50)))
            fovea.stdin.close()
    ours, theirs, normalised = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    ratio = statistics.median(row[1] / row[0] for row in rows)
    print(
        f"{file.name}: {len(encoded)} bytes; medians of {options.rounds} interleaved rounds, one thread"
    )
    print(f"fovea        decode + resize              {ours:8.0f} us")
    print(
        f"torchvision  decode + resize              {theirs:8.0f} us   {ratio:.2f} times fovea's"
    )
    print(
        f"torchvision  decode + resize + normalise  {normalised:8.0f} us   {normalised / ours:.2f} times fovea's"
    )


if __name__ == "__main__":
    main()
