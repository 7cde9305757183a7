"""One library with one model, in a process of its own: its threads do not wait within another's turn, and its memory is its own.

    python tests/bench/models/contender.py ours deit_tiny_patch16_224 FP32 8 --threads 2

Says what it is in a line of JSON, and in another when the model has run, or that a vendor's library does not take it,
with the error; then it ends. For each line of its input, a number of passes, answers with their milliseconds and with
the most bytes that the process has held since the model was there, above what it held before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[3]
Pass = Callable[[], object]


def held(field: str) -> int:
    """Bytes, of /proc/self/status: VmRSS now, VmHWM the most since it was reset."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024


class NotConvertedError(Exception):
    """A vendor's library does not take the model."""


@contextlib.contextmanager
def conversion() -> Iterator[None]:
    """Around what a vendor's library makes of a model that is there, its first passes included: they compile."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines()
        what = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
        raise NotConvertedError(what) from error


def compile_in_this_process() -> None:
    """Before torch is there. Its compiling processes would outlive one that crashes, and keep its output open."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


def ours(options: argparse.Namespace) -> tuple[str, Callable[[], Pass]]:
    import torch

    build = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
    torch.ops.load_library(str(build / "lib" / "libfovea_models.so"))
    torch.set_num_threads(options.threads)
    description = {
        "backbone": options.model,
        "precision": options.precision,
        "random_weights_seed": 1,
    }
    pixels = torch.load(options.pixels)

    def load() -> Pass:
        model = torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)
        return lambda: model.run(pixels)

    return "Fovea", load


def eager(options: argparse.Namespace) -> tuple[str, Callable[[], Pass]]:
    import torch
    from definitions import published

    torch.set_num_threads(options.threads)
    dtype = {"FP32": torch.float32, "BF16": torch.bfloat16}[options.precision]
    pixels = torch.load(options.pixels).to(dtype)

    def load() -> Pass:
        model = published(options.model).to(dtype)

        def run() -> object:
            with torch.inference_mode():
                return model(pixels)

        return run

    return f"torch {torch.__version__} eager", load


def openvino(options: argparse.Namespace) -> tuple[str, Callable[[], Pass]]:
    import numpy
    import openvino

    pixels = numpy.load(options.pixels.with_suffix(".npy"))
    core = openvino.Core()
    # What is not quantised runs in bf16, as ours does.
    hint = {"FP32": "f32", "BF16": "bf16", "INT8": "bf16"}[options.precision]
    settings = {
        "INFERENCE_PRECISION_HINT": hint,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": options.threads,
    }

    def load() -> Pass:
        compiled = core.compile_model(str(options.converted), "CPU", settings)
        return lambda: compiled(pixels, share_inputs=True)

    return f"OpenVINO {openvino.__version__.partition('-')[0]}", load


def onnxruntime(options: argparse.Namespace) -> tuple[str, Callable[[], Pass]]:
    import numpy
    import onnxruntime

    pixels = {"pixels": numpy.load(options.pixels.with_suffix(".npy"))}

    def load() -> Pass:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        # Otherwise its threads take the other contenders' processors after its turn.
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(
            str(options.converted), settings, providers=["CPUExecutionProvider"]
        )
        return lambda: session.run(None, pixels)

    return f"ONNX Runtime {onnxruntime.__version__}", load


def ipex(options: argparse.Namespace) -> tuple[str, Callable[[], Pass]]:
    """As its quick start has it: optimised, then traced and frozen; bf16 by autocast."""
    compile_in_this_process()
    import torch

    # Its quick start asks for it to be right after torch.
    # isort: split
    import intel_extension_for_pytorch
    from definitions import published

    warnings.filterwarnings("ignore")  # those of tracing
    torch.set_num_threads(options.threads)
    dtype = {"FP32": torch.float32, "BF16": torch.bfloat16}[options.precision]
    mixed = torch.autocast("cpu", torch.bfloat16, dtype is torch.bfloat16)
    pixels = torch.load(options.pixels)

    def load() -> Pass:
        model = published(options.model)
        with conversion(), torch.no_grad(), mixed:
            model = intel_extension_for_pytorch.optimize(
                model, dtype=dtype, inplace=True
            )
            traced = torch.jit.freeze(torch.jit.trace(model, pixels))
            traced(pixels)  # notes the shapes that the second pass fuses for
            traced(pixels)

        def run() -> object:
            with torch.no_grad(), mixed:
                return traced(pixels)

        return run

    return f"IPEX {intel_extension_for_pytorch.__version__}", load


def zentorch(options: argparse.Namespace) -> tuple[str, Callable[[], Pass]]:
    """As its README and examples have it: a backend of torch.compile, with frozen weights; bf16 by autocast, too."""
    compile_in_this_process()
    os.environ["TORCHINDUCTOR_FREEZING"] = "1"
    os.environ["ZENDNNL_MATMUL_ALGO"] = "1"  # which its own script sets
    import torch
    import zentorch
    from definitions import published

    torch.set_num_threads(options.threads)
    dtype = {"FP32": torch.float32, "BF16": torch.bfloat16}[options.precision]
    mixed = torch.autocast("cpu", torch.bfloat16, dtype is torch.bfloat16)
    pixels = torch.load(options.pixels).to(dtype)

    def load() -> Pass:
        model = published(options.model).to(dtype)
        compiled = torch.compile(model, backend="zentorch", dynamic=False)

        def run() -> object:
            with torch.no_grad(), mixed:
                return compiled(pixels)

        with conversion():
            run()
        return run

    return f"zentorch {zentorch.__version__}", load


LIBRARIES = {
    "ours": ours,
    "eager": eager,
    "openvino": openvino,
    "onnxruntime": onnxruntime,
    "ipex": ipex,
    "zentorch": zentorch,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("model")
    parser.add_argument("precision", choices=["FP32", "BF16", "INT8"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pixels", type=pathlib.Path, required=True)
    parser.add_argument("--converted", type=pathlib.Path)
    options = parser.parse_args()
    name, load = LIBRARIES[options.library](options)
    print(json.dumps({"library": name}), flush=True)
    before = held("VmRSS")
    try:
        run = load()
    except NotConvertedError as error:
        print(json.dumps({"not_converted": str(error)}))
        return
    run()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM from now on
    print(json.dumps({"not_converted": ""}), flush=True)
    for line in sys.stdin:
        milliseconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            milliseconds.append((time.perf_counter() - start) * 1e3)
        answer = {
            "milliseconds": milliseconds,
            "peak_bytes": held("VmHWM") - before,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
