"""client/examples: each program asks a running server, and all four of a task find the same."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from PIL import Image
from running_server import BUILD, DEMO, ROOT, Server

EXAMPLES = ROOT / "client/examples"
PICTURE = EXAMPLES / "ring.jpg"
SCENE = EXAMPLES / "scenes/scene_1.jpg"
WITH = ("with_curl.sh", "with_tritonclient.py", "with_fovea.py", "C++")
# By task: the model that is asked, and a picture.
ASKED = {
    "classify": ("shapes", PICTURE),
    "detect": ("detector_dense", SCENE),
    "segment": ("segmenter_dense", SCENE),
}


def run(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | {"PYTHONPATH": str(ROOT / "client/python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def ask(server: Server, task: str, form: str, *more: object) -> str:
    model, picture = ASKED[task]
    program = EXAMPLES / task / form
    if form == "C++":
        command: list[object] = [BUILD / "examples" / task, server.grpc]
    elif form == "with_curl.sh":
        command = [program, server.http]
    else:
        command = [sys.executable, program, server.grpc]
    return run(*command, model, picture, *more)


def labels_of(task: str) -> list[str]:
    return (DEMO / ASKED[task][0] / "labels.txt").read_text().split("\n")[:-1]


@pytest.mark.parametrize("form", WITH)
def test_a_picture_is_classified(server: Server, form: str) -> None:
    out = ask(server, "classify", form)
    if form == "with_curl.sh":
        classes = json.loads(out)["results"][0]["classes"]
        found = [one["label"] for one in classes]
        assert classes[0]["confidence"] > 0.5
    elif form == "with_tritonclient.py":
        found = re.findall(r"^(\w+)  logit -?\d+\.\d{3}, class \d+$", out, re.MULTILINE)
    else:
        found = re.findall(r"^(\w+)  0\.\d+$", out, re.MULTILINE)
        assert re.search(r"^computed in [\d.]+ ?ms", out, re.MULTILINE), out
    assert len(found) == 3 and found[0] == "ring", out


def objects_of(form: str, out: str) -> list[tuple[str, float, list[float]]]:
    """Label, score, box."""
    if form == "with_curl.sh":
        return [
            (
                one["label"],
                one["score"],
                [one["box"].get(end, 0) for end in ("left", "top", "right", "bottom")],
            )
            for one in json.loads(out)["results"][0]["detections"]
        ]
    line = r"^(?:class )?(\w+)  (0\.\d{3})  (\S+) (\S+) (\S+) (\S+)$"
    found = re.findall(line, out, re.MULTILINE)
    assert len(found) == len(out.splitlines()), out
    names = labels_of("detect")
    return [
        (
            names[int(name)] if name.isdigit() else name,
            float(score),
            [float(end) for end in box],
        )
        for name, score, *box in found
    ]


@pytest.mark.parametrize("form", WITH)
def test_objects_are_found_and_drawn(
    server: Server, form: str, tmp_path: pathlib.Path
) -> None:
    expected = objects_of("with_curl.sh", ask(server, "detect", "with_curl.sh"))
    drawn = form in ("with_curl.sh", "with_fovea.py")
    more = [tmp_path / "drawn.png"] if drawn else []
    found = objects_of(form, ask(server, "detect", form, *more))
    assert len(expected) >= 3 and len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one[0] == other[0]
        assert one[1] == pytest.approx(other[1], abs=2e-3)
        assert one[2] == pytest.approx(other[2], abs=0.2)
    if drawn:
        check_drawn(tmp_path / "drawn.png")


@pytest.mark.parametrize("form", WITH)
def test_pixels_are_classified_and_drawn(
    server: Server, form: str, tmp_path: pathlib.Path
) -> None:
    drawn = form in ("with_curl.sh", "with_fovea.py")
    more = [tmp_path / "drawn.png"] if drawn else []
    out = ask(server, "segment", form, *more)
    names = labels_of("segment")
    if form == "with_curl.sh":
        classes = json.loads(out)["results"][0]["classes"]
        found = [(one["label"], one["pixels"]) for one in classes]
    else:
        shown = re.findall(r"^(?:class )?(\w+)  (\d+) pixels$", out, re.MULTILINE)
        assert len(shown) == len(out.splitlines()), out
        found = [
            (names[int(name)] if name.isdigit() else name, int(pixels))
            for name, pixels in shown
        ]
    width, height = Image.open(SCENE).size
    assert sum(pixels for _, pixels in found) == width * height
    assert found == sorted(found, key=lambda one: -one[1])
    assert found[0][0] == names[0]  # the ground
    assert {"circle", "cross", "ring", "triangle"} <= {name for name, _ in found}
    if drawn:
        check_drawn(tmp_path / "drawn.png")


def check_drawn(file: pathlib.Path) -> None:
    with Image.open(SCENE) as scene, Image.open(file) as picture:
        # The server's may be enlarged, with a legend below it.
        assert picture.width >= scene.width and picture.height >= scene.height
        assert picture.convert("RGB").resize((8, 8)).getextrema() != ((0, 0),) * 3
        assert picture.convert("RGB").tobytes() != scene.convert("RGB").tobytes()


@pytest.mark.parametrize("form", ["with_curl.sh", "C++"])
@pytest.mark.parametrize("task", ASKED)
def test_a_model_that_is_not_there_is_said_so(
    server: Server, task: str, form: str
) -> None:
    program = BUILD / "examples" / task if form == "C++" else EXAMPLES / task / form
    address = server.grpc if form == "C++" else server.http
    done = subprocess.run(
        [program, address, "no_model", PICTURE],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "no_model" in done.stdout + done.stderr


@pytest.mark.parametrize("task", ASKED)
def test_without_arguments_a_program_says_which_it_takes(task: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / task / "with_fovea.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "client/python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert "with_fovea.py HOST:PORT MODEL IMAGE" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_notebook_runs_and_trains_models_without_a_server() -> None:
    out = run(sys.executable, EXAMPLES / "notebook.py", DEMO / "shapes", PICTURE)
    shown = re.findall(r"^(dense|knn:k=[\d.]+): (\w+) (\d\.\d{3})$", out, re.MULTILINE)
    assert [one[0] for one in shown] == ["dense", "knn:k=0.5", "knn:k=8"], out
    assert shown[0][1] == shown[1][1] == "ring"
    assert (
        len(re.findall(r"^blocks\.\d: \d+\.\d\d patches away$", out, re.MULTILINE)) == 6
    )
    assert "a query keeps 8 of 65 keys" in out
    losses = [float(one) for one in re.findall(r"^loss (\S+)$", out, re.MULTILINE)]
    assert len(losses) == 3 and losses[2] < losses[0]
    assert "swapped: blocks.0.attn, blocks.1.attn" in out


def test_the_table_names_every_program_and_no_other() -> None:
    text = (EXAMPLES / "README.md").read_text()
    for task in ASKED:
        files = {file.name for file in (EXAMPLES / task).iterdir()}
        assert files == {"with_curl.sh", "with_tritonclient.py", "with_fovea.py"} | {
            f"{task}.cc"
        }
        assert f"`{task}.cc`" in text
