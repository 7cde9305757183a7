"""Runs perf_analyzer, unmodified, against a server on this machine."""

from __future__ import annotations

import csv
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(
    address: str,
    model: str,
    data: pathlib.Path | None,
    *extra: str,
    protocol: str = "grpc",
    concurrency: str = "1",
    window_ms: int | None = None,
    most_windows: int = 10,
    timeout: float = 300,
) -> list[dict[str, str]]:
    """The rows of its report, one for each concurrency, in its order.

    `data`: what it sends, a folder with a binary file for each input or a JSON file; None: its own, which are random
    bits, so that floats have NaN among them. `concurrency`: start[:end[:step]]. A window of measurement lasts `window_ms`, or as long as
    ten requests take, on however busy a machine; no spread between windows is too large. Raises RuntimeError with all it printed where it does not run to its end.
    """
    window = (
        ["--measurement-mode", "count_windows", "--measurement-request-count", 10]
        if window_ms is None
        else ["-p", window_ms]
    )
    with tempfile.NamedTemporaryFile(suffix=".csv") as report:
        command = [
            ROOT / ".venv/bin/perf_analyzer", "-m", model, "-i", protocol, "-u", address, "--concurrency-range", concurrency,
            *(["--input-data", data] if data else []), *window, "-s", 999, "-r", most_windows, "-f", report.name, *extra,
        ]  # fmt: skip
        ran = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            check=False,
            text=True,
            timeout=timeout,
        )
        rows = list(csv.DictReader(pathlib.Path(report.name).read_text().splitlines()))
    if ran.returncode != 0 or not rows:
        raise RuntimeError(
            f"perf_analyzer failed ({ran.returncode}):\n{ran.stdout}\n{ran.stderr}"
        )
    return rows
