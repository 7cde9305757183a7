"""Writes a published model as OpenVINO's and ONNX Runtime's files: convert.py MODEL BATCH FOLDER.

A process of its own, so that what conversion holds is in no contender's memory.
"""

from __future__ import annotations

import pathlib
import sys
import warnings

import numpy
import openvino
import torch
from definitions import pixels, published


def main() -> None:
    name, batch, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    warnings.filterwarnings("ignore")
    example = pixels(batch)
    torch.save(example, folder / "pixels.pt")
    numpy.save(folder / "pixels.npy", example.numpy())
    model = published(name)
    with torch.inference_mode():
        converted = openvino.convert_model(
            model, example_input=example, input=[list(example.shape)]
        )
        openvino.save_model(converted, folder / "openvino.xml", compress_to_fp16=False)
        torch.onnx.export(
            model,
            (example,),
            folder / "onnxruntime.onnx",
            input_names=["pixels"],
            dynamo=False,
        )


if __name__ == "__main__":
    main()
