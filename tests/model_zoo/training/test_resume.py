"""A training that is killed and goes on writes the same bytes as one that is not."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
OPTIONS = (
    ("--head", "retinanet", "--head-channels", 32, "--image-size", 64)
    + ("--epochs", 3, "--images-per-epoch", 24, "--batch-size", 4, "--threads", 1)
    + ("--checkpoint-minutes", 0)
)


def command(out: pathlib.Path, *more: object) -> list[str]:
    """Of scenes, unless `more` names data; measured by few, unless it names how many."""
    scenes = () if "--data" in more else ("--scenes",)
    few = () if "--validation-images" in more else ("--validation-images", 8)
    return [
        str(BUILD / "bin/fovea-train"),
        "--out",
        str(out),
        *map(str, scenes + OPTIONS + few + more),
    ]


def run(out: pathlib.Path, *more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(out, *more), check=False, capture_output=True, text=True, timeout=300
    )


def kill_behind_step(out: pathlib.Path, step: int, *more: object) -> list[int]:
    """Starts or goes on, and kills it once a checkpoint of that step or a later one is there. Returns the steps of
    which checkpoints were seen, each step's being written over the one before."""
    checkpoints = out.with_name(out.name + "~checkpoint")
    seen: list[int] = []
    with subprocess.Popen(
        command(out, "--resume", *more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as training:
        deadline = time.monotonic() + 120
        while not seen or seen[-1] < step:
            # For a moment the one before is there too, and so it is where a kill came in between.
            steps = [
                path.name.removeprefix("step-") for path in checkpoints.glob("step-*")
            ]
            newest = max(map(int, steps), default=None)
            if newest is not None and newest not in seen:
                seen.append(newest)
            assert training.poll() is None, training.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        training.send_signal(signal.SIGKILL)
        assert training.wait() == -signal.SIGKILL
    assert not (out / "model.textproto").exists()
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("whole") / "finder"
    done = run(out)
    assert done.returncode == 0, done.stderr
    return out


def test_a_killed_training_goes_on_to_the_same_bytes(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "finder"
    reached = 0
    for step in (4, 9):
        seen = kill_behind_step(out, step)
        # It goes on where it was: no step is done again.
        assert min(seen) >= reached, seen
        reached = max(seen)
    csv = tmp_path / "log.csv"
    done = run(out, "--resume", "--csv", csv)
    assert done.returncode == 0, done.stderr
    for file in ("model.textproto", "labels.txt", "1/model.safetensors"):
        assert (out / file).read_bytes() == (whole / file).read_bytes(), file
    # The epochs of before are told again; what kept the training is gone.
    assert len(csv.read_text().splitlines()) == 1 + 3
    assert not out.with_name("finder~checkpoint").exists()


def test_another_recipe_does_not_go_on(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "finder"
    kill_behind_step(out, 1)
    csv = tmp_path / "log.csv"
    csv.write_text("what the training that goes on has written\n")
    refused = run(out, "--resume", "--learning-rate", 0.5, "--csv", csv)
    assert refused.returncode == 1
    assert csv.read_text() == "what the training that goes on has written\n"
    assert "is of another training" in refused.stderr
    assert "learning-rate=0.5" in refused.stderr
    # What differs, and not the options that are the same.
    assert "clip-norm" not in refused.stderr


def test_a_start_that_is_another_model_meanwhile_does_not_go_on(
    tmp_path: pathlib.Path,
) -> None:
    out, start = tmp_path / "finder", tmp_path / "detector_dense"
    shutil.copytree(ROOT / "model_zoo/demo" / start.name, start)
    kill_behind_step(out, 1, "--from", start)
    spec = (start / "model.textproto").read_text()
    other = spec.replace('attention: "dense"', 'attention: "key_only"')
    assert other != spec
    (start / "model.textproto").write_text(other)
    refused = run(out, "--resume", "--from", start)
    assert refused.returncode == 1
    assert "is of another training" in refused.stderr


def without_the_last_pictures(coco: dict[str, list]) -> None:
    dropped = {picture["id"] for picture in coco["images"][-4:]}
    del coco["images"][-4:]
    coco["annotations"] = [
        one for one in coco["annotations"] if one["image_id"] not in dropped
    ]


def with_a_box_moved(coco: dict[str, list]) -> None:
    """The file keeps its length: only what is in it differs."""
    box = coco["annotations"][0]["bbox"]
    before = len(json.dumps(box))
    moved = ([box[0] + step, *box[1:]] for step in (1, -1))
    box[0] = next(one[0] for one in moved if len(json.dumps(one)) == before)


def with_two_classes_swapped(coco: dict[str, list]) -> None:
    first, second = coco["categories"][:2]
    first["name"], second["name"] = second["name"], first["name"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without_the_last_pictures, "training samples: "),
        (with_a_box_moved, "training samples: "),
        (with_two_classes_swapped, "label: circle"),
    ],
)
def test_data_that_changed_meanwhile_does_not_go_on(
    tmp_path: pathlib.Path, change: Callable[[dict[str, list]], None], told: str
) -> None:
    """Fewer pictures have fewer steps; the weights of swapped classes would be served under each other's names."""
    out, data = tmp_path / "finder", tmp_path / "data"
    draw = [BUILD / "bin/fovea-train", "--write-scenes", data, "--scene-count", "24"]
    subprocess.run(list(map(str, draw)), check=True, timeout=60)
    annotations = data / "annotations.json"
    coco = json.loads(annotations.read_text())
    annotations.write_text(json.dumps(coco))  # as it is written below
    learned = ("--data", data, "--task", "detection")
    kill_behind_step(out, 1, *learned)
    change(coco)
    annotations.write_text(json.dumps(coco))
    refused = run(out, "--resume", *learned)
    assert refused.returncode == 1, refused.stdout
    assert "is of another training" in refused.stderr
    assert told in refused.stderr


@pytest.fixture
def written(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """A training of tmp_path/finder that has written its model and serves it for the first time: held there."""
    last = tmp_path / "finder~checkpoint/step-18"
    with subprocess.Popen(
        command(tmp_path / "finder", "--validation-images", 400),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as training:
        try:
            deadline = time.monotonic() + 240
            while not (tmp_path / "finder/model.textproto").exists():
                assert training.poll() is None, training.stdout.read()
                assert time.monotonic() < deadline
                time.sleep(0.005)
            training.send_signal(signal.SIGSTOP)
            assert last.exists()
            yield training
        finally:
            training.kill()


def test_no_other_training_has_the_checkpoints_before_the_model_was_served(
    tmp_path: pathlib.Path, written: subprocess.Popen[bytes]
) -> None:
    checkpoints = tmp_path / "finder~checkpoint"
    refused = run(tmp_path / "other", "--checkpoints", checkpoints)
    assert refused.returncode == 1
    assert "another training that has not ended" in refused.stderr
    assert (checkpoints / "step-18").exists()
    written.send_signal(signal.SIGCONT)
    told, _ = written.communicate(timeout=240)
    assert written.returncode == 0, told
    assert b"as it is served: validation_" in told
    assert not checkpoints.exists()


def test_the_checkpoint_stays_until_the_model_was_served(
    tmp_path: pathlib.Path, written: subprocess.Popen[bytes]
) -> None:
    written.kill()
    written.wait()
    (tmp_path / "finder/model.textproto").unlink()
    done = run(tmp_path / "finder", "--resume", "--validation-images", 400)
    assert done.returncode == 0, done.stderr
    assert "as it is served: validation_" in done.stdout
    assert (tmp_path / "finder/model.textproto").exists()
    assert not (tmp_path / "finder~checkpoint").exists()


def test_a_folder_with_another_version_is_refused(tmp_path: pathlib.Path) -> None:
    """Which would be measured and served in place of what is written."""
    out = tmp_path / "finder"
    (out / "2").mkdir(parents=True)
    refused = run(out)
    assert refused.returncode == 1
    assert "holds version 2" in refused.stderr
    assert not out.with_name("finder~checkpoint").exists()
