"""`make train-families` in little: two attentions, two seeds, a few pictures."""

from __future__ import annotations

import csv
import os
import pathlib
import re
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
SCRIPT = ROOT / "model_zoo/training/comparison/train_families.py"
torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, BUILD, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_models_are_trained_once_and_compared(tmp_path: pathlib.Path) -> None:
    models, results = tmp_path / "models", tmp_path / "results"
    arguments = (models, results, "--families", "knn", "conv")
    arguments += ("--epochs", 1, "--images-per-epoch", 64)
    arguments += ("--validation-images", 50, "--compared-images", 50)

    first = run(*arguments, "--seeds", 1)
    assert first.returncode == 0, first.stderr
    weights = models / "knn_seed1/1/model.safetensors"
    trained_at = weights.stat().st_mtime_ns
    assert (
        'attention: "knn:k=0.5"' in (models / "knn_seed1/model.textproto").read_text()
    )

    other = run(*arguments, "--seeds", 1, "--epochs", 2)
    assert other.returncode != 0
    assert "was trained by another recipe" in other.stderr

    bundle = tmp_path / "demo"
    second = run(*arguments, "--seeds", 2, "--bundle", bundle)
    assert second.returncode == 0, second.stderr
    assert weights.stat().st_mtime_ns == trained_at
    assert [folder.name for folder in bundle.iterdir()] == ["frame_conv"]
    assert 'name: "frame_conv"' in (bundle / "frame_conv/model.textproto").read_text()
    with (results / "runs.csv").open() as file:
        runs = {row["model"]: row for row in csv.DictReader(file)}
    assert set(runs) == {"knn_seed1", "knn_seed2", "conv_seed1", "conv_seed2"}
    assert {row["images"] for row in runs.values()} == {"50"}
    for name in runs:
        with (results / "training" / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == 1

    page = (results / "README.md").read_text()
    rows = re.findall(
        r"^\| `(.*?)` \| ([\d.]+)% \| ([\d.]+) to ([\d.]+)% ", page, re.MULTILINE
    )
    assert {row[0] for row in rows} == {"knn:k=0.5", "conv"}
    for attention, *printed in rows:
        reached = [
            2 * int(row["correct"])
            for row in runs.values()
            if row["attention"] == attention
        ]
        assert [float(number) for number in printed] == [
            sum(reached) / 2,
            min(reached),
            max(reached),
        ]
    means = [float(row[1]) for row in rows]
    assert means == sorted(means, reverse=True)


def test_every_attention_of_the_registry_is_a_family(tmp_path: pathlib.Path) -> None:
    """But "self", which is the module that the frame has around a core."""
    refused = run(tmp_path, tmp_path, "--families", "nothing")
    assert refused.returncode == 2
    assert "no such attention: nothing" in refused.stderr
    listed = refused.stderr.partition("there are ")[2].split(", ")
    known = set(torch.ops.fovea_models.attentions())
    assert {name.strip() for name in listed} == known - {"self"}
    assert {"dense", "knn", "key_only"} <= known
