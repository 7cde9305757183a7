"""client/examples/demo.sh, the demonstration behind `make demo`, against the built programs."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import PIL.Image
import pytest
from running_server import BUILD, DEMO, ROOT

PICTURE = ROOT / "client/examples/ring.jpg"
SCENE = ROOT / "client/examples/scenes/scene_1.jpg"
ATTENTIONS = ("dense", "aewin", "key_only")


def demonstrate(*arguments: object) -> str:
    """What it prints."""
    demo = subprocess.run(
        [ROOT / "client/examples/demo.sh", BUILD, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "The server has drained and stopped (exit code 0)" in demo.stdout
    return demo.stdout


@pytest.mark.parametrize("model", ["shapes", str(DEMO / "shapes")])
def test_the_demonstration_shows_classes_a_receipt_and_comparisons(model: str) -> None:
    """A bundled model by its name, and one by its folder, as of one's own."""
    out = demonstrate(PICTURE, model)
    assert re.search(rf"^{PICTURE}: ring \d+\.\d %, \w+ \d+\.\d %", out, re.MULTILINE)
    stages = r"  receive [\d.]+, decode [\d.]+, .* ms; batch of 1 on \d+ threads?, peak [\d.]+ MiB"
    assert re.search(f"^{stages}$", out, re.MULTILINE)
    verdict = "(slower|faster|no difference|none)"
    compared = re.findall(rf"^([^ ,]+(?:, \S+)?) .* {verdict}$", out, re.MULTILINE)
    expected = {"knn:k=0.5"}
    if model == "shapes":
        trained = ("aewin", "cska", "key_only")
        expected |= {
            f"{kind}_{attention}/1, {attention}"
            for kind in ("frame", "detector", "segmenter")
            for attention in trained
        } | {"frame_conv/1, conv"}
    assert {name for name, _ in compared} == expected
    assert "knn:k=0.5: same weights as dense, not fine-tuned." in out
    controls = re.findall(r"^([^ ,]+(?:, \S+)?) again .* control", out, re.MULTILINE)
    assert set(controls) == (
        {"dense"}
        | {
            f"{kind}_dense/1, dense"
            for kind in ("frame", "detector", "segmenter")
            if model == "shapes"
        }
    )


def test_the_demonstration_finds_and_draws_the_shapes_of_a_scene() -> None:
    shutil.rmtree(BUILD / "demo", ignore_errors=True)
    out = demonstrate()
    drawn = re.findall(r"^\S+/demo/(\w+)\.png$", out, re.MULTILINE)
    models = [f"detector_{attention}" for attention in ATTENTIONS]
    assert drawn == sorted([*models, "instances_key_only", "segmenter_key_only"])
    width, height = PIL.Image.open(SCENE).size
    for name in drawn:
        picture = PIL.Image.open(BUILD / "demo" / f"{name}.png")
        # A legend is below it.
        assert picture.height / picture.width > 1.05 * height / width
    # All that it shows; five models say it.
    for shape in ("circle", "cross", "ring", "triangle"):
        assert len(re.findall(rf"\b{shape}\b", out)) >= 3


@pytest.mark.parametrize(
    ("model", "own", "question"),
    [
        ("detector_dense", False, "What is where in"),
        ("instances_key_only", True, "What is where in"),
        ("segmenter_key_only", True, "Of which class is each pixel of"),
    ],
    ids=["a bundled detector", "an own one", "an own segmenter"],
)
def test_a_detector_and_a_segmenter_draw_what_they_find(
    model: str, own: bool, question: str, tmp_path: pathlib.Path
) -> None:
    """By its name, and by its folder, whose name is the model's."""
    given, name = model, model
    if own:
        name = "mine"
        given = shutil.copytree(DEMO / model, tmp_path / name)
        # The server refuses a description of another name than its folder's.
        description = given / "model.textproto"
        description.write_text(description.read_text().replace(model, name))
    shutil.rmtree(BUILD / "demo", ignore_errors=True)
    out = demonstrate(SCENE, given)
    assert f"{question} {SCENE}?" in out
    assert len(re.findall(r"\b(circle|cross|ring|triangle)\b", out)) >= 3
    assert [file.name for file in (BUILD / "demo").iterdir()] == [f"{name}.png"]
    with (
        PIL.Image.open(SCENE) as scene,
        PIL.Image.open(BUILD / "demo" / f"{name}.png") as picture,
    ):
        # A legend is below it.
        assert picture.height / picture.width > 1.05 * scene.height / scene.width
    # Key-only weights have no queries for k-NN attention.
    compared = re.findall(
        r"^(\S+) .* (?:slower|faster|no difference|none)$", out, re.MULTILINE
    )
    assert compared == ([] if "key_only" in model else ["knn:k=0.5"])


def test_what_is_not_there_is_refused_in_a_sentence() -> None:
    for arguments, sentence in (
        (["no.jpg"], "there is no picture at no.jpg\n"),
        ([PICTURE, "no_model"], "there is no model no_model: give one of "),
    ):
        demo = subprocess.run(
            [ROOT / "client/examples/demo.sh", BUILD, *arguments],
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        assert demo.returncode == 2
        assert demo.stderr.startswith(sentence)
