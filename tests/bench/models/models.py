"""The zoo's models on this CPU against PyTorch eager, OpenVINO and ONNX Runtime with the published ones: make bench-models.

    .venv/bin/python tests/bench/models/models.py [--threads 2] [--rounds 9] [--models NAME ...] [--precisions FP32 ...]

Each contender is a process (contender.py). They run in turn, round after round; a figure is the median of the rounds' own
ratios, so that a machine's moods fall on all. Prints a table in Markdown and compares with the floors of targets.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import targets
from turns import median_interval, processor

ROOT = HERE.parents[2]
CACHE = pathlib.Path(
    os.environ.get("FOVEA_CACHE", pathlib.Path.home() / ".cache/fovea")
)
PEERS = pathlib.Path(os.environ.get("PEERS", CACHE / "peers")) / "bin/python"
OURS = ROOT / ".venv/bin/python"

MODELS = {
    "deit_tiny_patch16_224": "deit_tiny",
    "swin_tiny_patch4_window7_224": "swin_tiny",
    "pit_b_224": "pit_b",
    "caformer_s18": "caformer_s18",
    "linglo_b1": "linglo_b1",
    "aewin_tiny_224": "aewin_tiny",
    "deit_base_patch16_224": "deit_base",
}
# Whose time is mostly that of linear layers: in 8 bits only.
INT8_ONLY = {"deit_base_patch16_224"}
PRECISIONS = ["FP32", "BF16", "INT8"]
BATCHES = [1, 8]
# A turn lasts so long at least; its first pass does not count.
TURN_MS = 150


class Contender:
    def __init__(
        self,
        library: str,
        model: str,
        precision: str,
        folder: pathlib.Path,
        threads: int,
    ) -> None:
        int8 = "_int8" if precision == "INT8" else ""
        command = [
            str(PEERS if library in ("openvino", "onnxruntime") else OURS),
            str(HERE / "contender.py"),
            library,
            model,
            precision,
            f"--threads={threads}",
            f"--pixels={folder / 'pixels.pt'}",
        ]
        if library == "openvino":
            command.append(f"--converted={folder / f'openvino{int8}.xml'}")
        if library == "onnxruntime":
            command.append(f"--converted={folder / f'onnxruntime{int8}.onnx'}")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.name = self._answer()["library"]
        self.peak_mib = 0.0
        self.passes = 1
        milliseconds = min(self._run(2)[1:])
        self.passes = 1 + max(1, round(TURN_MS / milliseconds))
        self.rounds: list[float] = []

    def turn(self) -> None:
        """The milliseconds of a pass in this round: the median of its turn's."""
        self.rounds.append(statistics.median(self._run(self.passes)[1:]))

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()

    def _run(self, passes: int) -> list[float]:
        print(passes, file=self.process.stdin, flush=True)
        answer = self._answer()
        self.peak_mib = answer["peak_bytes"] / 2**20
        return answer["milliseconds"]

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[2:]} ended: {self.process.wait()}")
        return json.loads(line)


@contextlib.contextmanager
def contenders(
    model: str, precision: str, folder: pathlib.Path, threads: int
) -> Iterator[dict[str, Contender]]:
    """Those that there are: ONNX Runtime has no bf16 on CPUs, and PyTorch no int8; ours in bf16 stands beside int8."""
    libraries = {
        "FP32": ["ours", "eager", "openvino", "onnxruntime"],
        "BF16": ["ours", "eager", "openvino"],
        "INT8": ["ours", "bf16", "openvino", "onnxruntime"],
    }[precision]
    started: dict[str, Contender] = {}
    try:
        for name in libraries:
            library, type_ = ("ours", "BF16") if name == "bf16" else (name, precision)
            started[name] = Contender(library, model, type_, folder, threads)
        yield started
    finally:
        for contender in started.values():
            contender.end()


def over(ours: Contender, peer: Contender) -> tuple[float, float, float]:
    """How many times as fast as the peer: the median of the rounds' ratios, and the interval that holds it."""
    ratios = [
        theirs / own for theirs, own in zip(peer.rounds, ours.rounds, strict=True)
    ]
    return statistics.median(ratios), *median_interval(ratios)


def measure(
    model: str,
    precision: str,
    batch: int,
    folder: pathlib.Path,
    options: argparse.Namespace,
) -> dict[str, float]:
    """Prints a row; the ratios by peer."""
    with contenders(model, precision, folder, options.threads) as running:
        for _ in range(options.rounds):
            for contender in running.values():
                contender.turn()
        cells = [model, precision, str(batch)]
        ratios = {}
        for library in ("ours", "bf16", "eager", "openvino", "onnxruntime"):
            contender = running.get(library)
            if contender is None:
                cells += ["", "", ""]
                continue
            cells.append(f"{1e3 * batch / statistics.median(contender.rounds):.1f}")
            cells.append(f"{contender.peak_mib:.0f}")
            if library == "ours":
                continue
            ratio, low, high = over(running["ours"], contender)
            ratios[library] = ratio
            cells.append(f"{ratio:.2f} ({low:.2f} to {high:.2f})")
        print("| " + " | ".join(cells) + " |", flush=True)
        return ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS
    )
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options = parser.parse_args()
    if not PEERS.exists():
        sys.exit(f"{PEERS} is not there: make peers")
    print(f"{processor()}, {options.threads} threads, {datetime.date.today()}\n")
    heads = ["model", "precision", "batch", "Fovea img/s", "MiB"]
    for peer in ("its bf16", "eager", "OpenVINO", "ONNX Runtime"):
        heads += [f"{peer} img/s", "MiB", f"Fovea over {peer}"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    results: dict[str, float] = {}
    for model in options.models:
        precisions = [
            precision
            for precision in options.precisions
            if precision == "INT8" or model not in INT8_ONLY
        ]
        for batch in options.batches if precisions else []:
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                convert = [
                    str(PEERS),
                    str(HERE / "convert.py"),
                    model,
                    str(batch),
                    name,
                    *(["INT8"] if "INT8" in precisions else []),
                ]
                subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
                for precision in precisions:
                    ratios = measure(model, precision, batch, folder, options)
                    for peer, ratio in ratios.items():
                        row = f"{MODELS[model]}_{precision.lower()}_over_{peer}"
                        results[row] = min(ratio, results.get(row, ratio))
    rows = targets.rows_of("bench-models")
    left_out = rows.keys() - results.keys()
    return targets.report("bench-models", results, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
