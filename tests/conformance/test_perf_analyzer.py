"""Unmodified perf_analyzer against a running server."""

from __future__ import annotations

import base64
import csv
import json
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZE = 64


@pytest.mark.parametrize(
    "extra", [[], ["--streaming"], ["--async"]], ids=["sync", "streaming", "async"]
)
def test_perf_analyzer_runs_to_its_end(server, tmp_path, extra):
    # Its own random floats are random bytes, NaN among them: it is given numbers.
    data = tmp_path / "data"
    data.mkdir()
    np.random.default_rng(0).standard_normal(
        (1, 3, SIZE, SIZE), dtype=np.float32
    ).tofile(data / "pixel_values")
    report = tmp_path / "report.csv"
    command = [
        ROOT / ".venv/bin/perf_analyzer", "-m", "shapes", "-i", "grpc", "-u", server.grpc,
        "--concurrency-range", "1:8:7" if extra else "1:8:1", "--input-data", data, "-p", "300", "-s", "500", "-r", "3",
        "-f", report, *extra,
    ]  # fmt: skip
    ran = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = list(csv.DictReader(report.open()))
    assert sorted(int(row["Concurrency"]) for row in rows) == (
        [1, 8] if extra else list(range(1, 9))
    )
    assert all(float(row["Inferences/Second"]) > 0 for row in rows)


def test_perf_analyzer_sends_images(start_server, repository, tmp_path):
    """It sends every input that metadata lists: where the spec advertises files, files."""
    spec = repository / "shapes" / "model.textproto"
    spec.write_text(spec.read_text() + "\nadvertised_input: IMAGE\n")
    server = start_server("--model-repository", repository)
    picture = min((ROOT / "client/examples").glob("*.jpg"))
    data = tmp_path / "data.json"
    # Base64 of the tensor as it goes over the wire: the element's length, then its bytes.
    file = picture.read_bytes()
    content = base64.b64encode(len(file).to_bytes(4, "little") + file).decode()
    data.write_text(json.dumps({"data": [{"image": {"b64": content}}]}))
    command = [
        ROOT / ".venv/bin/perf_analyzer", "-m", "shapes", "-i", "grpc", "-u", server.grpc,
        "--concurrency-range", "2", "--input-data", data, "-p", "300", "-s", "500", "-r", "3",
    ]  # fmt: skip
    ran = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
