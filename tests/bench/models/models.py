"""The zoo's models on this CPU against the published ones in PyTorch eager, OpenVINO, ONNX Runtime and, in fp32 and bf16,
the library of the processor's vendor: make bench-models.

    .venv/bin/python tests/bench/models/models.py [--threads 2] [--rounds 9] [--models NAME ...] [--precisions FP32 ...]

Each contender is a process (contender.py). They run in turn, round after round; a figure is the median of the rounds' own
ratios, so that a machine's moods fall on all. Prints a table in Markdown and compares with the floors of targets.csv.

The vendors' libraries, which have no floor, are zentorch on AMD and Intel Extension for PyTorch (IPEX) on Intel, where make
peers has found one to install. IPEX 2.8.0 is the last: Intel has archived it as discontinued, with known security issues,
and sends its users to PyTorch itself.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import targets
from turns import has_amx_int8, median_interval, processor, vendor

ROOT = HERE.parents[2]
CACHE = pathlib.Path(
    os.environ.get("FOVEA_CACHE", pathlib.Path.home() / ".cache/fovea")
)
PEERS = os.environ.get("PEERS", str(CACHE / "peers"))
OURS = ROOT / ".venv/bin/python"
# The libraries in environments of their own, $PEERS-..., by the vendors of /proc/cpuinfo.
VENDOR_LIBRARIES = {"GenuineIntel": "ipex", "AuthenticAMD": "zentorch"}
TITLES = {
    "bf16": "its bf16",
    "eager": "eager",
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
    "ipex": "IPEX",
    "zentorch": "zentorch",
}

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
# Against whom: ONNX Runtime has no bf16 on CPUs, and PyTorch no int8; ours in bf16 stands beside int8.
PEERS_OF = {
    "FP32": ["eager", "openvino", "onnxruntime"],
    "BF16": ["eager", "openvino"],
    "INT8": ["bf16", "openvino", "onnxruntime"],
}
BATCHES = [1, 8]
# A turn lasts so long at least; its first pass does not count.
TURN_MS = 150

# Signals of native code that goes wrong, not those by which others end a process.
CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}


def python_of(library: str) -> pathlib.Path:
    """Of the environment that the library is in."""
    if library in ("ours", "eager"):
        return OURS
    own = f"-{library}" if library in VENDOR_LIBRARIES.values() else ""
    return pathlib.Path(PEERS + own) / "bin/python"


class Contender:
    """`not_converted`, where it is not empty, is why its library does not take the model: it has no turns then."""

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
            str(python_of(library)),
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
        self.not_converted = self._conversion(library in VENDOR_LIBRARIES.values())
        if self.not_converted:
            return
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

    def _conversion(self, may_crash: bool) -> str:
        """Why the library does not take the model; empty where it does. A vendor's may also crash."""
        try:
            return self._answer()["not_converted"]
        except EOFError:
            crash = -self.process.wait()
            if not may_crash or crash not in CRASHES:
                raise
            return f"its process ended by {signal.Signals(crash).name}"

    def _run(self, passes: int) -> list[float]:
        print(passes, file=self.process.stdin, flush=True)
        answer = self._answer()
        self.peak_mib = answer["peak_bytes"] / 2**20
        return answer["milliseconds"]

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"{self.process.args[2:]} ended: {self.process.wait()}")
        return json.loads(line)


@contextlib.contextmanager
def contenders(
    model: str,
    precision: str,
    folder: pathlib.Path,
    threads: int,
    vendor_libraries: list[str],
) -> Iterator[dict[str, Contender]]:
    """Ours and its peers. `vendor_libraries`: none, or the one of the processor's vendor."""
    libraries = ["ours", *PEERS_OF[precision]]
    if precision != "INT8":
        libraries += vendor_libraries
    started: dict[str, Contender] = {}
    try:
        for name in libraries:
            library, type_ = ("ours", "BF16") if name == "bf16" else (name, precision)
            started[name] = Contender(library, model, type_, folder, threads)
        yield started
    finally:
        for contender in started.values():
            contender.end()


@dataclasses.dataclass
class Footnotes:
    """Of the table: why a cell is empty, by number, and which versions the peers are."""

    notes: list[str] = dataclasses.field(default_factory=list)
    peers: set[str] = dataclasses.field(default_factory=set)


def precisions_of(model: str, precisions: list[str]) -> list[str]:
    return [p for p in precisions if p == "INT8" or model not in INT8_ONLY]


def floor(model: str, precision: str, peer: str) -> str:
    """Its row of targets.csv: the least ratio of all BATCHES."""
    return f"{MODELS[model]}_{precision.lower()}_over_{peer}"


def has_floor(precision: str, peer: str) -> bool:
    """Vendors' libraries have none; int8 over bf16 has one on AMX alone: 1.1 to 1.7 on Zen 5 (docs/results/models_cpu.md)."""
    if (precision, peer) == ("INT8", "bf16"):
        return has_amx_int8()
    return peer not in VENDOR_LIBRARIES.values()


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
    vendor_libraries: list[str],
    footnotes: Footnotes,
    options: argparse.Namespace,
) -> dict[str, float]:
    """Prints a row, with a number that a note explains where a library does not take the model; the ratios by peer."""
    with contenders(
        model, precision, folder, options.threads, vendor_libraries
    ) as running:
        footnotes.peers.update(c.name for c in running.values() if c.name != "Fovea")
        taking = [c for c in running.values() if not c.not_converted]
        for _ in range(options.rounds):
            for contender in taking:
                contender.turn()
        cells = [model, precision, str(batch)]
        ratios = {}
        for library in (
            "ours",
            "bf16",
            "eager",
            "openvino",
            "onnxruntime",
            *vendor_libraries,
        ):
            contender = running.get(library)
            if contender is None:
                cells += ["", "", ""]
                continue
            if contender.not_converted:
                footnotes.notes.append(
                    f"{contender.name} does not take {model} in {precision}: "
                    f"{contender.not_converted}"
                )
                cells += [f"– [{len(footnotes.notes)}]", "–", "–"]
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


def compare_with_floors(results: dict[str, float], options: argparse.Namespace) -> int:
    """The exit code. What was asked for and is not among the results is an error: targets.report."""
    if not set(BATCHES) <= set(options.batches):
        print(f"\nNot compared with the floors, which are of batches {BATCHES}.")
        return 0
    asked_for = {
        floor(model, precision, peer)
        for model in options.models
        for precision in precisions_of(model, options.precisions)
        for peer in PEERS_OF[precision]
        if has_floor(precision, peer)
    }
    left_out = targets.rows_of("bench-models").keys() - asked_for
    return targets.report("bench-models", results, left_out=left_out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--precisions", nargs="+", choices=PEERS_OF, default=list(PEERS_OF)
    )
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options = parser.parse_args()
    peers = python_of("openvino")
    if not peers.exists():
        sys.exit(f"{peers} is not there: make peers")
    print(f"{processor()}, {options.threads} threads, {datetime.date.today()}\n")
    vendor_libraries = (
        [VENDOR_LIBRARIES[vendor()]] if vendor() in VENDOR_LIBRARIES else []
    )
    if vendor_libraries and not python_of(*vendor_libraries).exists():
        path = python_of(*vendor_libraries)
        print(
            f"{TITLES[vendor_libraries[0]]} is left out: {path} is not there (make peers)\n"
        )
        vendor_libraries = []
    heads = ["model", "precision", "batch", "Fovea img/s", "MiB"]
    for peer in ("bf16", "eager", "openvino", "onnxruntime", *vendor_libraries):
        title = TITLES[peer]
        heads += [f"{title} img/s", "MiB", f"Fovea over {title}"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    results: dict[str, float] = {}
    footnotes = Footnotes()
    for model in options.models:
        precisions = precisions_of(model, options.precisions)
        for batch in options.batches if precisions else []:
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                convert = [
                    str(peers),
                    str(HERE / "convert.py"),
                    model,
                    str(batch),
                    name,
                    *(["INT8"] if "INT8" in precisions else []),
                ]
                subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
                for precision in precisions:
                    ratios = measure(
                        model,
                        precision,
                        batch,
                        folder,
                        vendor_libraries,
                        footnotes,
                        options,
                    )
                    for peer, ratio in ratios.items():
                        if not has_floor(precision, peer):
                            continue
                        row = floor(model, precision, peer)
                        results[row] = min(ratio, results.get(row, ratio))
    for number, note in enumerate(footnotes.notes, 1):
        print(f"\n[{number}] {note}")
    print(f"\nAgainst {', '.join(sorted(footnotes.peers))}.")
    return compare_with_floors(results, options)


if __name__ == "__main__":
    sys.exit(main())
