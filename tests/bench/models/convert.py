"""Writes a published model as OpenVINO's and ONNX Runtime's files: convert.py MODEL BATCH FOLDER [INT8].

With INT8 also quantised: for OpenVINO by NNCF with scales from pictures (noise, as the weights are), for ONNX Runtime
by its dynamic quantisation.

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
    quantised = sys.argv[4:] == ["INT8"]
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
        if quantised:
            quantise(converted, batch, folder)


def quantise(model: openvino.Model, batch: int, folder: pathlib.Path) -> None:
    import nncf
    import onnxruntime.quantization

    pictures = [pixels(batch, seed).numpy() for seed in range(max(1, 64 // batch))]
    int8 = nncf.quantize(
        model,
        nncf.Dataset(pictures),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(pictures),
    )
    openvino.save_model(int8, folder / "openvino_int8.xml", compress_to_fp16=False)
    onnxruntime.quantization.quantize_dynamic(
        folder / "onnxruntime.onnx",
        folder / "onnxruntime_int8.onnx",
        # Its convolutions in 8 bits are slower, and refuse weights that are computed.
        op_types_to_quantize=["MatMul", "Gemm"],
    )


if __name__ == "__main__":
    main()
