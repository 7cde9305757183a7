"""client/examples/demo.sh, the demonstration behind `make demo`, against the built programs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess

import PIL.Image
import pytest
from running_server import BUILD, DEMO, ROOT

PICTURE = ROOT / "client/examples/ring.jpg"
SCENE = ROOT / "client/examples/scenes/scene_1.jpg"
ATTENTIONS = ("dense", "aewin", "key_only")
# Longer than demo.sh waits for its server.
MOST_SECONDS = 900


def run_demo(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Ends the server that it has started, too, where it takes too long."""
    demo = subprocess.Popen(
        [ROOT / "client/examples/demo.sh", BUILD, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = demo.communicate(timeout=MOST_SECONDS)
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.communicate()
    return subprocess.CompletedProcess(demo.args, demo.returncode, out, errors)


def demonstrate(*arguments: object) -> str:
    """What it prints."""
    demo = run_demo(*arguments)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "The server has drained and stopped (exit code 0)" in demo.stdout
    return demo.stdout


@dataclasses.dataclass(frozen=True)
class Demonstration:
    out: str
    drawn: pathlib.Path  # the folder of its pictures


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """Of the bundled models, with the pictures that it takes where none is given."""
    shutil.rmtree(BUILD / "demo", ignore_errors=True)
    out = demonstrate()
    drawn = tmp_path_factory.mktemp("bundled") / "demo"
    return Demonstration(out, shutil.copytree(BUILD / "demo", drawn))


def check_classification(
    out: str, picture: object, shape: str, *pairs: str, controls: set[str]
) -> None:
    """`pairs`: what is compared; `controls`: what it is compared with, measured twice."""
    assert re.search(
        rf"^{picture}: {shape} \d+\.\d %, \w+ \d+\.\d %", out, re.MULTILINE
    )
    stages = r"  receive [\d.]+, decode [\d.]+, .* ms; batch of 1 on \d+ threads?, peak [\d.]+ MiB"
    assert re.search(f"^{stages}$", out, re.MULTILINE)
    verdict = "(slower|faster|equivalent|undecided)"
    compared = re.findall(rf"^([^ ,]+(?:, \S+)?) .* {verdict}$", out, re.MULTILINE)
    assert {name for name, _ in compared} == {"knn:k=0.5", *pairs}
    assert "knn:k=0.5: same weights as dense, not fine-tuned." in out
    again = re.findall(r"^([^ ,]+(?:, \S+)?) again .* control", out, re.MULTILINE)
    assert set(again) == {"dense"} | controls


def test_the_demonstration_shows_classes_a_receipt_and_comparisons(
    bundled: Demonstration,
) -> None:
    picture = min((ROOT / "client/examples").glob("*.jpg"))
    kinds = ("frame", "detector", "segmenter")
    trained = ("aewin", "cska", "key_only")
    check_classification(
        bundled.out, picture.relative_to(ROOT), picture.stem,
        *(f"{kind}_{attention}/1, {attention}" for kind in kinds for attention in trained),
        "frame_conv/1, conv",
        controls={f"{kind}_dense/1, dense" for kind in kinds},
    )  # fmt: skip


def test_a_model_of_ones_own_is_shown_with_ones_own_picture() -> None:
    """Given by its folder; nothing else is compared with it."""
    out = demonstrate(PICTURE, DEMO / "shapes")
    check_classification(out, PICTURE, "ring", controls=set())


def test_the_demonstration_finds_and_draws_the_shapes_of_a_scene(
    bundled: Demonstration,
) -> None:
    drawn = re.findall(r"^\S+/demo/(\w+)\.png$", bundled.out, re.MULTILINE)
    models = [f"detector_{attention}" for attention in ATTENTIONS]
    assert drawn == sorted([*models, "instances_key_only", "segmenter_key_only"])
    width, height = PIL.Image.open(SCENE).size
    for name in drawn:
        picture = PIL.Image.open(bundled.drawn / f"{name}.png")
        # A legend is below it.
        assert picture.height / picture.width > 1.05 * height / width
    # All that it shows; five models say it.
    for shape in ("circle", "cross", "ring", "triangle"):
        assert len(re.findall(rf"\b{shape}\b", bundled.out)) >= 3


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
        r"^(\S+) .* (?:slower|faster|equivalent|undecided)$", out, re.MULTILINE
    )
    assert compared == ([] if "key_only" in model else ["knn:k=0.5"])


def test_what_is_not_there_is_refused_in_a_sentence() -> None:
    for arguments, sentence in (
        (["no.jpg"], "there is no picture at no.jpg\n"),
        ([PICTURE, "no_model"], "there is no model no_model: give one of "),
    ):
        demo = run_demo(*arguments)
        assert demo.returncode == 2
        assert demo.stderr.startswith(sentence)
