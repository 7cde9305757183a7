"""The servers under measurement, and what they are asked."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from typing import Self

import numpy as np
from tritonclient.grpc import service_pb2

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MODEL = "deit_tiny_patch16_224"
IDENTITY = "identity"
SIZE = 224


def write_repository(folder: pathlib.Path, arrangement: str = "") -> None:
    """Both models with seeded weights; the first as it is by default, but for what `arrangement` says."""
    for name, spec in {
        MODEL: (
            f'spec_version: 1\nbackbone: "{MODEL}"\nrandom_weights {{ seed: 1 }}\n{arrangement}'
        ),
        IDENTITY: (
            f'spec_version: 1\nbackbone: "{IDENTITY}"\nrandom_weights {{ seed: 1 }}\n'
            "max_batch_size: 1\nadvertised_input: IMAGE_RGB\n"
        ),
    }.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "model.textproto").write_text(spec)


def write_inputs(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """A folder per model with one binary file per input: perf_analyzer's own random floats hold NaN and infinity. And the
    identity model's as a message for bench_load."""
    random = np.random.default_rng(0)
    inputs = {MODEL: folder / MODEL, IDENTITY: folder / IDENTITY}
    for path in inputs.values():
        path.mkdir()
    random.standard_normal((1, 3, SIZE, SIZE), dtype=np.float32).tofile(
        inputs[MODEL] / "pixel_values"
    )
    pixels = random.integers(0, 256, (1, SIZE, SIZE, 3), dtype=np.uint8)
    pixels.tofile(inputs[IDENTITY] / "image_rgb")
    message = service_pb2.ModelInferRequest(model_name=IDENTITY)
    message.inputs.add(name="image_rgb", datatype="UINT8", shape=pixels.shape)
    message.raw_input_contents.append(pixels.tobytes())
    inputs["identity_request"] = folder / "identity_request"
    inputs["identity_request"].write_bytes(message.SerializeToString())
    return inputs


class Process:
    """A server under measurement; ends with the block."""

    def __init__(
        self,
        command: list[object],
        pattern: str,
        environment: dict[str, str] | None = None,
    ):
        self.log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115  (lives as long as we do)
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        end = time.monotonic() + 180
        while True:
            text = pathlib.Path(self.log.name).read_text(errors="replace")
            if found := re.search(pattern, text, re.DOTALL):
                self.match = found
                return
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start:\n{text[-3000:]}")
            time.sleep(0.1)

    def cpu_seconds(self) -> float:
        fields = (
            pathlib.Path(f"/proc/{self.process.pid}/stat")
            .read_text()
            .rsplit(")", 1)[1]
            .split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def start_fovea(build: pathlib.Path, repository: pathlib.Path) -> Process:
    return Process(
        [
            build / "bin/fovea-server",
            "--model-repository",
            repository,
            "--grpc-port",
            "0",
            "--http-port",
            "0",
            "--metrics-port",
            "0",
        ],
        r"listening: grpc=(\S+) http=(\S+) metrics=(\S+).*\bready\b: 2 models",
    )


def start_echo(build: pathlib.Path) -> Process:
    return Process([build / "tests/bench_echo"], r"listening: (\S+)")


def requests_answered(metrics_address: str, model: str) -> float:
    with urllib.request.urlopen(f"http://{metrics_address}/metrics") as answer:
        text = answer.read().decode()
    pattern = (
        rf'^fovea_requests_total{{[^}}]*code="OK"[^}}]*model="{model}"[^}}]*}} (\S+)'
    )
    return sum(float(count) for count in re.findall(pattern, text, re.MULTILINE))


def start_triton(
    peers: pathlib.Path, threads: int, timeout_us: int | None = None
) -> Process:
    """`timeout_us`: after which a request that waits is rejected; none by default, as Triton has it."""
    return Process(
        [ROOT / "tests/peers/triton.sh", MODEL, "float32"],
        r"Started GRPCInferenceService at (\S+)",
        {
            "PEERS": str(peers),
            "THREADS": str(threads),
            **({} if timeout_us is None else {"TIMEOUT_US": str(timeout_us)}),
        },
    )
