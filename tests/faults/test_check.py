"""Rows 26, 27, 29 and 30 of docs/faults.md: `fovea check` tells what is wrong before a server meets it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from fault_support import write_in_spec
from running_server import BUILD, DEMO, ROOT
from test_repository import SPECS, corruptions, weights_of

MODEL = "shapes"


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in (BUILD / "bin/fovea", "check", *arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )


def name_of(case: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", case)


def copy(repository: pathlib.Path, name: str) -> pathlib.Path:
    """A good model, whose files a test may spoil."""
    folder = repository / name
    shutil.copytree(DEMO / MODEL, folder)
    spec = folder / "model.textproto"
    spec.write_text(spec.read_text().replace(f'name: "{MODEL}"', f'name: "{name}"'))
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    """The findings of one repository, by model: a good one, and one for each fault."""
    repository = tmp_path_factory.mktemp("models")
    copy(repository, "good")
    for case, corrupt in corruptions().items():
        copy(repository, name_of(case))
        corrupt(weights_of(repository, name_of(case)))
    for case, line in SPECS.items():
        spec = copy(repository, name_of(case)) / "model.textproto"
        key = line.split(":")[0] + ":"
        lines = [
            kept for kept in spec.read_text().splitlines() if not kept.startswith(key)
        ]
        line = line.replace(f'"{MODEL}"', f'"{name_of(case)}"')  # weights of itself
        spec.write_text("\n".join([*lines, line, ""]))
    linked = copy(repository, "linked")
    outside = tmp_path_factory.mktemp("outside") / "model.safetensors"
    (linked / "1/model.safetensors").rename(outside)
    (linked / "1/model.safetensors").symlink_to(outside)
    os.mkfifo(copy(repository, "pipe") / "2")
    checked = check(repository, "--json")
    assert checked.returncode == 1, checked.stderr
    document = json.loads(checked.stdout)
    assert document["ok"] is False
    return {
        pathlib.Path(folder["path"]).name: folder["findings"]
        for folder in document["folders"]
    }


def test_a_good_model_has_no_finding(report):
    assert report["good"] == []


# What only a batch shows.
WARM_UP = {"row 61: answers that are infinite"}


@pytest.mark.parametrize("case", sorted(set(corruptions()) - WARM_UP))
def test_rows_27_29_and_61_bad_weights_are_told(report, case):
    (finding,) = report[name_of(case)]
    assert finding["version"] == 1
    assert finding["message"]


@pytest.mark.parametrize("case", SPECS, ids=list(SPECS))
def test_row_30_a_bad_description_is_told(report, case):
    findings = report[name_of(case)]
    assert findings, case
    if case in ("row 30: unknown field", "row 30: a negative batch"):
        (finding,) = findings
        assert finding["file"] == "model.textproto"
        assert finding["line"] > 10
        assert finding["reason"] == "model.bad_spec"


@pytest.mark.parametrize("model", ["linked", "pipe"])
def test_row_26_what_leads_out_of_the_folder_is_told(report, model):
    (finding,) = report[model]
    assert re.search(
        r"leads out|is not a|does not exist|no version", finding["message"]
    )


def test_all_faults_of_one_folder_are_told_a_line_each(tmp_path: pathlib.Path):
    folder = copy(tmp_path, "cats")
    with (folder / "model.textproto").open("a") as spec:
        spec.write(
            "nmae: 1\nmax_batch_size: 2\nadvertised_input: IMAGE\nuntraind: true\n"
        )
    (folder / "labels.txt").write_text("one\n\ntwo\n")
    corruptions()["row 29: a pickle"](weights_of(tmp_path, "cats"))
    checked = check(folder)
    assert checked.returncode == 1
    lines = checked.stdout.splitlines()
    assert all(line.startswith(f"{folder}: ") for line in lines), lines
    told = "\n".join(lines)
    assert 'unknown field "nmae"' in told
    assert "max_batch_size" in told  # given twice: the reading ends there
    assert "labels.txt:2: empty" in told
    assert "version 1: unsupported weight format" in told


def test_warm_up_finds_what_only_a_batch_shows(tmp_path: pathlib.Path):
    folder = copy(tmp_path, "cats")
    corruptions()["row 61: answers that are infinite"](weights_of(tmp_path, "cats"))
    assert check(folder).returncode == 0
    checked = check(folder, "--warm-up")
    assert checked.returncode == 1
    assert "a plain picture of 64x64" in checked.stdout


def test_warm_up_asks_the_canary(one_model: pathlib.Path):
    shutil.copy(ROOT / "client/examples/heart.jpg", one_model / MODEL / "canary.jpg")
    for best, code in (("heart", 0), ("star", 1)):
        write_in_spec(
            one_model, f'canary {{ input: "canary.jpg" top_class: "{best}" }}'
        )
        assert check(one_model).returncode == 0
        ran = check(one_model, "--warm-up", "--json")
        assert ran.returncode == code, ran.stdout + ran.stderr
    (finding,) = json.loads(ran.stdout)["folders"][0]["findings"]
    assert finding["reason"] == "canary.failed"
    assert "(heart) comes first, and star is expected" in finding["message"]


def test_a_command_line_that_cannot_be_meant_ends_with_2(tmp_path: pathlib.Path):
    assert check().returncode == 2
    assert check(tmp_path, "--warmup").returncode == 2
    missing = check(tmp_path / "nothing")
    assert missing.returncode == 2
    assert missing.stderr.startswith("fovea-check: there is no folder ")
    helped = check("--help")
    assert helped.returncode == 0
    assert "Exit codes" in helped.stdout
