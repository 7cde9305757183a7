"""`fovea zoo`: parameters and multiply-adds, beside what the papers print."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import torch

BUILD = pathlib.Path(__file__).resolve().parents[2] / os.environ.get(
    "FOVEA_BUILD", "build/release"
)
torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BUILD / "bin" / "fovea-zoo", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def table() -> list[dict]:
    result = run("--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def rounds_to(value: float, printed: str) -> bool:
    digits = len(printed.partition(".")[2])
    return f"{value:.{digits}f}" == f"{float(printed):.{digits}f}"


def test_every_model_is_listed(table: list[dict]) -> None:
    names = set(torch.ops.fovea_models.backbones())
    assert {row["backbone"] for row in table} == names - {"identity"}


def test_counts_round_to_the_papers_or_the_difference_is_explained(
    table: list[dict],
) -> None:
    printed = [row for row in table if "printed" in row]
    assert printed
    wrong = []
    for row in printed:
        paper = row["printed"]
        operations = row["multiply_adds"] * paper["operations_per_multiply_add"]
        for ours, theirs, explanation in (
            (row["parameters"] / 1e6, paper["parameters_m"], "parameters_differ"),
            (operations / 1e9, paper["operations_g"], "operations_differ"),
        ):
            same = not theirs or rounds_to(ours, theirs)
            # An explanation of a difference that is not there would be wrong too.
            if same == bool(paper[explanation]):
                wrong.append((row["backbone"], row["attention"], ours, theirs, paper))
    assert not wrong, "\n".join(map(str, wrong))


def test_multiply_adds_are_those_that_fvcore_counts(table: list[dict]) -> None:
    """DeiT-Ti by hand: patches, 12 blocks of four projections and two products, the head."""
    (row, *_) = [row for row in table if row["backbone"] == "deit_tiny_patch16_224"]
    n, c = 197, 192
    patches = 196 * 3 * 16 * 16 * c
    block = n * (3 * c * c + c * c + 8 * c * c) + 2 * n * n * c
    assert row["multiply_adds"] == patches + 12 * block + c * 1000


def test_memory_is_measured_at_batch_1_and_16() -> None:
    result = run("--json", "--memory", "vit_demo_patch8_64")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    tokens = 65 * 128 * 4  # bytes of the tokens of an image
    assert 2 * tokens < row["peak_bytes_1"] < 40 * tokens
    assert 8 * row["peak_bytes_1"] < row["peak_bytes_16"] < 24 * row["peak_bytes_1"]


def test_any_attention_and_size_are_counted() -> None:
    """A linear attention's operations grow as the pixels do, dense attention's faster."""
    attentions = ("--attention", "dense", "--attention", "key_only")
    rows = {}
    for size in ("64", "128"):
        result = run("--json", *attentions, "--image-size", size, "vit_demo_patch8_64")
        assert result.returncode == 0, result.stderr
        for row in json.loads(result.stdout):
            assert row["image_side"] == int(size) and "printed" not in row
            rows[row["attention"], size] = row["multiply_adds"]
    assert len(rows) == 4
    growth = {name: rows[name, "128"] / rows[name, "64"] for name, _ in rows}
    assert growth["key_only"] <= 4 < growth["dense"]


def test_the_papers_rows_are_left_out_where_another_attention_is_asked_for() -> None:
    result = run("--json", "--attention", "ska", "deit_tiny_patch16_224")
    assert result.returncode == 0, result.stderr
    assert [row["attention"] for row in json.loads(result.stdout)] == ["ska"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["resnet18"], "there is no backbone 'resnet18'"),
        (["--attention", "knn:k=9"], "--attention and --image-size need a MODEL"),
        (
            ["pit_b_224", "--image-size", "0"],
            "--image-size '0' is not a number of pixels",
        ),
        (["pit_b_224", "--attention"], "--attention needs a value"),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments: list[str], reason: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stderr == f"fovea-zoo: {reason}\n"
    assert not result.stdout


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_says_what_there_is(flag: str) -> None:
    for command in ([BUILD / "bin/fovea-zoo"], [BUILD / "bin/fovea", "zoo"]):
        result = subprocess.run(
            [*command, flag], check=True, capture_output=True, text=True
        )
        for option in ("--memory", "--json", "--attention TEXT", "--image-size N"):
            assert option in result.stdout


def test_a_pair_that_does_not_load_is_refused_in_the_loaders_words() -> None:
    result = run("--attention", "aewin", "deit_tiny_patch16_224")
    assert result.returncode == 2
    assert "cannot stand in deit_tiny_patch16_224" in result.stderr
    assert not result.stdout
