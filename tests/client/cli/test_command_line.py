"""The fovea command against a running server, as its user would type it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from running_server import BUILD, DEMO, ROOT

EXAMPLES = sorted((ROOT / "client/examples").glob("*.jpg"))


@pytest.fixture
def fovea(server):
    def run(*arguments: object, address: str = "") -> subprocess.CompletedProcess[str]:
        command = [BUILD / "bin/fovea", "--server", address or server.grpc, *arguments]
        return subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
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
    for word in ("decode", "compute", "batch", "MiB"):
        assert word in answer.stdout, answer.stdout


def test_train_runs_the_program_beside_fovea(fovea):
    own = subprocess.check_output([BUILD / "bin/fovea-train", "--help"], text=True)
    answer = fovea("train", "--help")
    assert (answer.returncode, answer.stdout) == (0, own), answer.stderr
    assert "--data" in own and "--out" in own
    refused = fovea("train", "--out", "/nowhere/model", "--data", "/nowhere/data")
    assert refused.returncode == 1
    assert refused.stderr.startswith("fovea-train: ")
    assert "there is no folder /nowhere/data" in refused.stderr


def test_compare_measures_attentions_over_the_same_weights_beside_a_control(
    fovea, tmp_path
):
    report = tmp_path / "report.html"
    answer = fovea(
        *("compare", EXAMPLES[0], "--model", "shapes", "--attention", "knn:k=65"),
        *("--attention", "knn:k=3", "--rounds", 20, "--max-rounds", 40, "--json"),
        *("--report", report),
    )
    assert answer.returncode == 0, answer.stderr
    comparison = json.loads(answer.stdout)
    assert comparison["rounds"] in (20, 40)
    every, few = comparison["variants"]
    for time in (comparison["control"], few["compute"]):
        ratio = time["ratio"]
        assert 0 < ratio["lower"] <= ratio["value"] <= ratio["upper"]
        assert time["verdict"] not in ("VERDICT_UNSPECIFIED", "FEW_ROUNDS")
    assert few["weights_of_attention"] == "dense"
    assert every["parameters"] == few["parameters"]
    assert 0 < few["attention_ms"]["median"] < few["compute"]["ms"]["upper"]
    assert 0 < few["feature_cosine"] < 1
    assert few["classes"]["kl_divergence"] > 0
    assert report.read_text().startswith("<!doctype html>")


def test_compare_says_what_cannot_be_compared(fovea, start_server, one_model):
    window = fovea("compare", EXAMPLES[0], "--model", "shapes", "--attention", "axial")
    assert window.returncode == 1
    assert "axial" in window.stderr
    plain = start_server("--model-repository", one_model)
    refused = fovea(
        *("compare", EXAMPLES[0], "--model", "shapes", "--attention", "dense"),
        address=plain.grpc,
    )
    assert refused.returncode == 1
    assert "--enable-experiments" in refused.stderr


def test_an_interrupted_classification_ends_in_order(fovea, server):
    """The list of files goes on: a Ctrl-C comes while the command waits for more of it."""
    with subprocess.Popen(
        [
            # A shell's background jobs, which the tests may be one of, ignore it.
            *("env", "--default-signal=INT"),
            *(str(BUILD / "bin/fovea"), "--server", server.grpc, "classify"),
            *("--model", "shapes", "--files-from", "-"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        for picture in EXAMPLES[:2]:
            process.stdin.write(f"{picture}\n")
            assert process.stdout.readline().startswith(f"{picture}: ")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == (
            "fovea: interrupted: 2 classified, 0 failed, "
            "the rest of the list not sent or without an answer\n"
        )


def test_fovea_import_is_not_taken_from_the_current_folder(tmp_path):
    """A copy of fovea outside the checkout, in a folder where somebody has put a program of that name."""
    planted = tmp_path / "elsewhere/.venv/bin/fovea-import"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    (tmp_path / "bin").mkdir()
    fovea = shutil.copy(BUILD / "bin/fovea", tmp_path / "bin")
    answer = subprocess.run(
        [fovea, "import", "timm:x"],
        cwd=tmp_path / "elsewhere",
        env={"PATH": "/usr/bin:/bin:.venv/bin"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert answer.stdout == ""
    assert answer.returncode == 1
    assert answer.stderr == (
        "fovea: fovea-import is neither beside fovea nor on PATH: "
        "pip install ./client/python, from Fovea's checkout into a Python environment whose programs are on PATH, "
        "installs it\n"
    )
    # In a checkout it is looked for in that one's environment.
    (tmp_path / "client/python").mkdir(parents=True)
    (tmp_path / "client/python/pyproject.toml").touch()
    answer = subprocess.run(
        [fovea, "import", "timm:x"], capture_output=True, check=False, text=True,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert answer.returncode == 1
    assert answer.stderr.endswith(
        ": .venv/bin/pip install ./client/python in this checkout installs it\n"
    )


def test_stats_counts_images(fovea):
    def images() -> int:
        rows = json.loads(fovea("stats", "--json").stdout)["models"]
        return next(row["images"] for row in rows if row["name"] == "shapes")

    before = images()
    fovea("classify", "--model", "shapes", *EXAMPLES[:3])
    assert images() == before + 3


def test_load_and_unload(start_server, one_model, fovea):
    server = start_server(
        "--model-repository", one_model, "--model-control-mode", "explicit"
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
    assert refused.returncode == 1
    assert refused.stderr == (
        f"fovea: {EXAMPLES[0]}: Request for unknown model: 'shapes' is not loaded: unloaded\n"
    )


def test_a_model_that_did_not_load_says_why(start_server, tmp_path, fovea):
    repository = tmp_path / "models"
    shutil.copytree(DEMO / "shapes", repository / "shapes")
    (repository / "shapes/labels.txt").write_text("only one\n")
    server = start_server("--model-repository", repository, ready=False)
    server.wait_for_log("ready: ")
    listed = fovea("models", "--json", address=server.grpc)
    rows = json.loads(listed.stdout)["models"]
    (reason,) = {row["reason"] for row in rows if row["name"] == "shapes"}
    assert reason
    refused = fovea("classify", "--model", "shapes", EXAMPLES[0], address=server.grpc)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"fovea: {EXAMPLES[0]}: Request for unknown model: 'shapes' is not loaded: {reason}\n"
    )


def test_exit_codes(fovea, tmp_path):
    assert fovea("classify", "--model", "no_such_model", EXAMPLES[0]).returncode == 1
    assert fovea("classify", "--model", "shapes", tmp_path / "none.jpg").returncode == 1
    assert fovea("classify", "--no-such-flag").returncode == 2
    unreachable = fovea("models", address="127.0.0.1:1")
    assert unreachable.returncode == 3
    assert len(unreachable.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["fovea", "classify", "--model", "shapes", EXAMPLES[0]],
        ["fovea", "classify", "--model", "shapes", "--json", EXAMPLES[0]],
        ["fovea", "models"],
        ["fovea", "--help"],
        ["fovea-capacity", "--help"],
        ["fovea-check", "--json", DEMO / "shapes"],
        ["fovea-kernels", "--help"],
        ["fovea-quantize", "--help"],
        ["fovea-server", "--help"],
        ["fovea-server", "--check-config", "--model-repository", DEMO],
        ["fovea-train", "--help"],
        ["fovea-zoo", "--help"],
    ],
    ids=lambda command: " ".join(str(part) for part in command[:2]),
)
def test_output_that_is_lost_is_an_error(server, command):
    """As of coreutils: a full disk is no success."""
    program, *arguments = command
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(
            [BUILD / "bin" / program, *arguments],
            env=os.environ | {"FOVEA_SERVER": server.grpc},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            timeout=120,
        )
    assert ended.returncode == 1
    assert f"{program}: cannot write standard output" in ended.stderr
