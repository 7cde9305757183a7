"""Calls every CUDA kernel once on a small shape: what compute-sanitizer watches."""

from __future__ import annotations

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "client" / "python"), str(pathlib.Path(__file__).parent)]

from cases import cases
from fovea import ops


def main() -> None:
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for case in cases(dtype, small=True):
            case.ours()
        boxes = torch.rand(70, 4, device="cuda") * 20
        boxes[:, 2:] += boxes[:, :2]
        ops.nms(boxes.to(dtype), torch.rand(70, device="cuda").to(dtype), 0.3)
        rois = torch.tensor([[0, 1, 1, 9, 7], [0, -3, 2, 30, 8]], device="cuda")
        image = torch.randn(1, 5, 12, 12, device="cuda").to(dtype)
        ops.roi_align(image, rois.float(), 0.5, 3, 3)
    torch.cuda.synchronize()
    print("every kernel ran")


if __name__ == "__main__":
    main()
