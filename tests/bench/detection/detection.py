"""Measures detectors against the floors of tests/bench/targets.csv, prints a table and draws the plots.

  contest    RetinaNet and Mask R-CNN on ResNet-50, fp32, against torchvision's in eager PyTorch: the same weights, in
             turns; and that both find the same, one to one, with the same masks
  share      what NMS, RoIAlign and pasting the masks into the caller's picture take of Mask R-CNN with 1,000 proposals
  attention  one detector with dense, key-only and AEWin attention from 400 to 1,333 pixels: time and peak memory of the
             receipts, and the exponents with which they grow
  served     pictures of shapes like COCO's arriving at random, against the same model called in process

Leaves attention_scaling.csv and .png in --out. Exits 1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import sys

# What a pass frees stays with the process, as in the server; set before the first allocation.
KEEP_PAGES = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
}
if not KEEP_PAGES.items() <= os.environ.items():
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_PAGES})

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
ROOT = TESTS.parent
sys.path[:0] = [
    str(HERE),
    str(HERE.parent),
    str(TESTS),
    str(ROOT / "client" / "python"),
]
import torch

PARTS = ("contest", "share", "attention", "served")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--seconds", type=float, default=40, help="for each contest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=24, help="of a served round")
    arguments = parser.parse_args()
    os.environ["FOVEA_BUILD"] = str(arguments.build.resolve())
    import attention_scaling
    import contest
    import served
    import targets
    from turns import processor

    torch.ops.load_library(str(arguments.build.resolve() / "lib/libfovea_models.so"))
    torch.set_num_threads(arguments.threads)
    machine = (
        f"{processor()}, {torch.backends.cpu.get_cpu_capability()}, {arguments.threads} threads, fp32, torch "
        f"{torch.__version__}, {datetime.date.today()}"
    )
    print(machine, flush=True)
    out = arguments.out or arguments.build / "bench"
    out.mkdir(parents=True, exist_ok=True)
    parts = arguments.part or PARTS
    results: dict[str, float] = {}
    if "contest" in parts:
        for head in contest.HEADS:
            results |= contest.contest(head, arguments.seconds)
    if "share" in parts:
        results["mask_rcnn_postprocessing"] = contest.postprocessing_share(
            arguments.build.resolve()
        )
    if "served" in parts:
        results |= served.measure(arguments.rounds, arguments.pictures)
    if "attention" in parts:
        rows = attention_scaling.measure(arguments.rounds)
        for column in ("ms", "peak_bytes"):
            power = attention_scaling.exponent(rows, "dense", column)
            print(f"  dense: {column} grows as pixels to the power of {power:.2f}")
        attention_scaling.write(rows, machine, out)
        results |= attention_scaling.figures(rows)
    whole = set(parts) == set(PARTS)
    left_out = () if whole else targets.rows_of("bench-detection")
    return targets.report("bench-detection", results, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
