"""The fovea command against a running server, as its user would type it."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from running_server import BUILD, ROOT

EXAMPLES = sorted((ROOT / "client/examples").glob("*.jpg"))


@pytest.fixture
def fovea(server):
    def run(*arguments: object, address: str = "") -> subprocess.CompletedProcess[str]:
        command = [BUILD / "bin/fovea", "--server", address or server.grpc, *arguments]
        return subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )

    return run


def test_models_lists_what_is_served(fovea):
    table = fovea("models")
    assert table.returncode == 0, table.stderr
    assert {"shapes", "shapes_knn", "shapes_with_knn"} <= set(table.stdout.split())
    rows = json.loads(fovea("models", "--json").stdout)["models"]
    attention = {row["name"]: row["attention"] for row in rows}
    assert "knn" in attention["shapes_knn"] and "knn" not in attention["shapes"]


def test_classify_names_what_is_in_the_examples(fovea):
    """The pictures are called after what they show."""
    answer = fovea(
        "classify", "--model", "shapes", "--json", ROOT / "client/examples/*.jpg"
    )
    assert answer.returncode == 0, answer.stderr
    files = json.loads(answer.stdout)["results"]
    assert len(files) == len(EXAMPLES) > 0
    right = sum(
        file["classes"][0]["label"] in pathlib.Path(file["file"]).stem for file in files
    )
    assert right >= 0.8 * len(files), files
    assert all(0 < file["classes"][0]["confidence"] <= 1 for file in files)


def test_one_bad_file_fails_alone(fovea, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(EXAMPLES[0].read_bytes()[:500])
    answer = fovea("classify", "--model", "shapes", "--json", EXAMPLES[0], bad)
    assert answer.returncode == 1
    assert EXAMPLES[0].name in answer.stdout
    assert "bad.jpg" in answer.stdout + answer.stderr


def test_the_receipt_is_shown(fovea):
    answer = fovea("classify", "--model", "shapes", "--receipt", EXAMPLES[0])
    assert answer.returncode == 0
    for word in ("DECODE", "COMPUTE", "BATCH", "MiB"):
        assert word in answer.stdout, answer.stdout


def test_compare_measures_the_models_in_turn(fovea):
    answer = fovea(
        "compare", "shapes", "shapes_knn", "--image", EXAMPLES[0], "--pairs", "5"
    )
    assert answer.returncode == 0, answer.stderr
    assert "shapes_knn" in answer.stdout and "ms" in answer.stdout


def test_stats_counts_images(fovea):
    fovea("classify", "--model", "shapes", EXAMPLES[0])
    rows = json.loads(fovea("stats", "--json").stdout)["models"]
    shapes = next(row for row in rows if row["name"] == "shapes")
    assert shapes["images"] >= 1, shapes


def test_load_and_unload(start_server, repository, fovea):
    server = start_server(
        "--model-repository", repository, "--model-control-mode", "explicit"
    )
    assert fovea("load", "shapes", address=server.grpc).returncode == 0
    assert (
        fovea(
            "classify", "--model", "shapes", EXAMPLES[0], address=server.grpc
        ).returncode
        == 0
    )
    assert fovea("unload", "shapes", address=server.grpc).returncode == 0
    refused = fovea("classify", "--model", "shapes", EXAMPLES[0], address=server.grpc)
    assert refused.returncode == 1 and len(refused.stderr.strip().splitlines()) <= 2


def test_exit_codes(fovea, tmp_path):
    assert fovea("classify", "--model", "no_such_model", EXAMPLES[0]).returncode == 1
    assert fovea("classify", "--model", "shapes", tmp_path / "none.jpg").returncode in (
        1,
        2,
    )
    assert fovea("classify", "--no-such-flag").returncode == 2
    unreachable = fovea("models", address="127.0.0.1:1")
    assert unreachable.returncode == 3
    assert len(unreachable.stderr.strip().splitlines()) == 1
