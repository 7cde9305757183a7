"""From a user's own pictures to a model folder, for each task: the layouts of README.md in little."""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from running_server import BUILD, DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))
from fovea.client import Client

COLOURS = {"red": (200, 40, 40), "blue": (40, 60, 220)}
SIZE = (80, 60)  # width, height
PICTURES = 12


def train(
    *options: object, cwd: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [BUILD / "bin/fovea-train", "--threads", 1, *options]
    command += ["--image-size", 64, "--batch-size", 4, "--epochs", 2]
    return subprocess.run(
        list(map(str, command)),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
    )


def drawn(seed: int) -> tuple[Image.Image, str, tuple[int, int, int, int]]:
    """A picture with a rectangle in it: its colour, and left, top, width, height."""
    random = np.random.default_rng(seed)
    pixels = random.integers(90, 150, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    colour = list(COLOURS)[seed % 2]
    width, height = int(random.integers(18, 40)), int(random.integers(18, 40))
    left = int(random.integers(0, SIZE[0] - width))
    top = int(random.integers(0, SIZE[1] - height))
    pixels[top : top + height, left : left + width] = COLOURS[colour]
    return Image.fromarray(pixels), colour, (left, top, width, height)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """A folder in the layout of each task."""
    root = tmp_path_factory.mktemp("own")
    folders = {
        task: root / task for task in ("classification", "detection", "segmentation")
    }
    coco: dict[str, list] = {"images": [], "annotations": [], "categories": []}
    coco["categories"] = [{"id": i + 3, "name": name} for i, name in enumerate(COLOURS)]
    for path in ("detection/images", "segmentation/images", "segmentation/masks"):
        (root / path).mkdir(parents=True)
    for i in range(PICTURES):
        picture, colour, (left, top, width, height) = drawn(i)
        name = f"{i:03}.png"
        (folders["classification"] / colour).mkdir(parents=True, exist_ok=True)
        picture.save(folders["classification"] / colour / name)
        picture.save(folders["detection"] / "images" / name)
        picture.save(folders["segmentation"] / "images" / name)
        levels = np.zeros((SIZE[1], SIZE[0]), dtype=np.uint8)
        levels[top : top + height, left : left + width] = 1 + list(COLOURS).index(
            colour
        )
        Image.fromarray(levels).save(folders["segmentation"] / "masks" / name)
        coco["images"].append(
            {"id": i, "file_name": name, "width": SIZE[0], "height": SIZE[1]}
        )
        right, bottom = left + width, top + height
        coco["annotations"].append(
            {
                "id": i + 1,
                "image_id": i,
                "category_id": 3 + list(COLOURS).index(colour),
                "bbox": [left, top, width, height],
                "area": width * height,
                "iscrowd": 0,
                "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
            }
        )
    (folders["detection"] / "annotations.json").write_text(json.dumps(coco))
    (folders["segmentation"] / "labels.txt").write_text("ground\nred\nblue\n")
    return folders


@pytest.mark.parametrize(
    ("task", "options", "spec", "labels"),
    [
        ("classification", (), ["task: CLASSIFICATION"], ["blue", "red"]),
        (
            "detection",
            ("--head-channels", 32),
            ["task: DETECTION", 'name: "retinanet"'],
            ["red", "blue"],
        ),
        (
            "detection",
            ("--head", "mask_rcnn", "--head-channels", 16),
            ['name: "mask_rcnn"'],
            ["background", "red", "blue"],
        ),
        (
            "segmentation",
            ("--head", "semantic_fpn", "--head-channels", 32),
            ["task: SEGMENTATION"],
            ["ground", "red", "blue"],
        ),
    ],
)
def test_own_pictures_become_a_model(
    data: dict[str, pathlib.Path],
    tmp_path: pathlib.Path,
    task: str,
    options: tuple[object, ...],
    spec: list[str],
    labels: list[str],
) -> None:
    out = tmp_path / "mine"
    done = train(
        "--out", out, "--data", data[task], "--backbone", "linglo_demo", *options
    )
    assert done.returncode == 0, done.stderr
    text = (out / "model.textproto").read_text()
    for part in spec:
        assert part in text
    assert (out / "labels.txt").read_text().splitlines() == labels
    assert "as it is served: validation_" in done.stdout


def test_a_model_is_the_start_of_another(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    detector = tmp_path / "detector"
    options = ("--backbone", "linglo_demo", "--head-channels", 32)
    done = train("--out", detector, "--data", data["detection"], *options)
    assert done.returncode == 0, done.stderr
    done = train(
        *("--out", tmp_path / "segmenter", "--data", data["segmentation"], *options),
        *("--head", "semantic_fpn", "--from", detector, "--attention", "dense"),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    kept = next(line for line in lines if line.startswith("  kept: "))
    fresh = next(line for line in lines if line.startswith("  new here: "))
    dropped = next(line for line in lines if line.startswith("  dropped: "))
    assert int(kept.split()[1]) > 20
    assert ".attn.qkv" in fresh
    assert ".attn.k" in dropped


def test_from_a_bundled_detector_to_a_served_one_that_knows_other_objects(
    data: dict[str, pathlib.Path],
    tmp_path: pathlib.Path,
    start_server: Callable[..., Server],
) -> None:
    """What is not said is as of the model to start from; what is learned is found in new pictures."""
    finder = tmp_path / "models" / "finder"
    command = [BUILD / "bin/fovea-train", "--threads", 1, "--data", data["detection"]]
    command += ["--from", DEMO / "instances_key_only", "--out", finder]
    # The last: by the few pictures that are held out, one that knows one colour alone may be the best.
    command += ["--batch-size", 4, "--epochs", 25, "--keep", "last"]
    done = subprocess.run(
        list(map(str, command)),
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert re.search(r"^  kept: \d{3} ", done.stdout, re.MULTILINE)
    text = (finder / "model.textproto").read_text()
    for part in (
        'backbone: "linglo_demo"',
        'attention: "key_only"',
        'name: "mask_rcnn"',
        "channels: 48",
        "conventions: MMDETECTION",
        "detections_per_image: 50",
        "image_height: 128",
    ):
        assert part in text
    server = start_server("--model-repository", str(finder.parent))
    right = 0
    pictures = [drawn(seed) for seed in range(1000, 1010)]
    with Client(server.grpc) as client:
        for picture, colour, (left, top, width, height) in pictures:
            file = io.BytesIO()
            picture.save(file, "PNG")
            answer = client.detect("finder", [file.getvalue()], masks=True)
            found = answer.images[0]
            if len(found.labels) == 0 or found.labels[0] != colour:
                continue
            truth = np.zeros((SIZE[1], SIZE[0]), dtype=bool)
            truth[top : top + height, left : left + width] = True
            mask = found.masks[0].array().astype(bool)
            right += (mask & truth).sum() >= 0.6 * (mask | truth).sum()
    assert right >= 7  # of ten


def test_weights_go_on_with_the_colours_that_they_know(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "mine"
    done = train(
        "--out", out, "--data", data["classification"], "--from", DEMO / "shapes"
    )
    assert done.returncode == 0, done.stderr
    assert "mean: [0.5, 0.5, 0.5]" in (out / "model.textproto").read_text()


def test_an_input_that_is_no_square_is_not_guessed(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    wide = tmp_path / "wide"
    wide.mkdir()
    (wide / "model.textproto").write_text(
        'spec_version: 1\nbackbone: "linglo_b0"\ntask: DETECTION\nnum_classes: 2\n'
        "preprocessing { shorter_side: 160 longer_side: 256 }\nrandom_weights { seed: 1 }\n"
    )
    command = [BUILD / "bin/fovea-train", "--data", data["detection"], "--from", wide]
    done = subprocess.run(
        list(map(str, [*command, "--out", tmp_path / "mine"])),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "say --image-size" in done.stderr


def test_data_without_masks_teaches_no_masks(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """The refusal names the way out, which is one, from a model with masks too."""
    coco = json.loads((data["detection"] / "annotations.json").read_text())
    for annotation in coco["annotations"]:
        del annotation["segmentation"]
    folder = tmp_path / "boxes"
    folder.mkdir()
    (folder / "images").symlink_to(data["detection"] / "images")
    (folder / "annotations.json").write_text(json.dumps(coco))
    out = tmp_path / "mine"
    start = ("--from", DEMO / "instances_key_only")
    for options in (("--head", "mask_rcnn"), start):
        done = train("--out", out, "--data", folder, *options)
        assert done.returncode == 1
        assert "mask_rcnn learns from masks" in done.stderr
        assert "--head retinanet learns from boxes alone" in done.stderr
        assert not out.exists()
    boxes = ("--head", "retinanet", "--head-channels", 32)
    done = train("--out", out, "--data", folder, *start, *boxes)
    assert done.returncode == 0, done.stderr
    assert 'name: "retinanet"' in (out / "model.textproto").read_text()


def test_the_folder_that_one_is_in_has_a_name(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    done = train("--out", "./", "--data", data["classification"], cwd=out)
    assert done.returncode == 0, done.stderr
    assert 'name: "mine"' in (out / "model.textproto").read_text()
    # The checkpoints were beside it.
    assert {path.name for path in out.iterdir()} == {
        "model.textproto",
        "labels.txt",
        "1",
    }


@pytest.mark.parametrize("name", ["my finder", 'a"b', "knn:k=3"])
def test_a_name_that_no_server_takes_is_refused_before_the_training(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path, name: str
) -> None:
    done = train("--out", tmp_path / name, "--data", data["classification"])
    assert done.returncode == 1
    assert "a model's name is" in done.stderr
    assert "epoch" not in done.stdout
    assert not (tmp_path / name).exists()


def test_a_place_that_cannot_be_written_is_refused_before_the_training(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "notes").write_text("no folder")
    for out in ("notes", "notes/mine"):
        done = train("--out", tmp_path / out, "--data", data["classification"])
        assert done.returncode == 1
        assert f"{tmp_path}/notes is no folder that can be written to" in done.stderr
        assert "epoch" not in done.stdout
    assert (tmp_path / "notes").read_text() == "no folder"
    # What stands where the checkpoints would.
    (tmp_path / "mine~checkpoint").write_text("no folder")
    done = train("--out", tmp_path / "mine", "--data", data["classification"])
    assert done.returncode == 1
    assert "mine~checkpoint" in done.stderr
    assert "epoch" not in done.stdout
    assert (tmp_path / "mine~checkpoint").read_text() == "no folder"


def test_a_training_that_gets_no_better_ends_early(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    csv = tmp_path / "log.csv"
    command = [BUILD / "bin/fovea-train", "--threads", 1, "--out", tmp_path / "mine"]
    command += ["--data", data["classification"], "--image-size", 64, "--csv", csv]
    command += ["--epochs", 9, "--patience", 2, "--learning-rate", 1e-12]
    subprocess.run(list(map(str, command)), check=True, timeout=300)
    _, *lines = csv.read_text().splitlines()
    scores = [float(line.split(",")[4]) for line in lines]
    # Rounding may make an epoch better; then come two that are not.
    assert len(scores) < 9
    assert scores.index(max(scores)) == len(scores) - 3


def test_an_imported_detector_is_the_start_of_another(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """The body and the pyramid are kept, what depends on the number of classes is new."""
    command = [sys.executable, "-m", "fovea.importer"]
    command += ["torchvision:retinanet_resnet50_fpn_v2", "--random"]
    command += ["--num-classes", 7, "--name", "imported", "--out", tmp_path]
    subprocess.run(
        list(map(str, command)),
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "client" / "python")},
        timeout=300,
    )
    mine = tmp_path / "mine"
    start = ("--from", tmp_path / "imported")
    done = train("--out", mine, "--data", data["detection"], *start)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  kept: \d{3} ", done.stdout, re.MULTILINE)
    assert re.search(r"^  new here: 2 .*cls_logits", done.stdout, re.MULTILINE)
    assert "as it is served: validation_" in done.stdout
    text = (mine / "model.textproto").read_text()
    assert 'backbone: "resnet50"' in text and "conventions: TORCHVISION" in text


def test_a_label_that_no_server_takes_is_refused_before_the_training(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "blue").symlink_to(data["classification"] / "blue")
    (pictures / "re\td").symlink_to(data["classification"] / "red")
    done = train("--out", tmp_path / "mine", "--data", pictures)
    assert done.returncode == 1
    assert "labels.txt:2: a control character" in done.stderr
    assert "epoch" not in done.stdout
    assert not (tmp_path / "mine").exists()


def test_data_of_no_layout_is_refused_in_words(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    done = train("--out", tmp_path / "mine", "--data", tmp_path / "empty")
    assert done.returncode == 1
    assert "holds data for no task" in done.stderr
    done = train("--out", tmp_path / "mine", "--data", tmp_path / "nowhere")
    assert done.stderr == f"fovea-train: there is no folder {tmp_path}/nowhere\n"


def test_broken_pictures_are_listed_before_the_training_which_goes_on(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    pictures = tmp_path / "elsewhere"
    shutil.copytree(data["detection"] / "images", pictures)
    shutil.copy(data["detection"] / "annotations.json", tmp_path)
    (pictures / "003.png").write_bytes((pictures / "003.png").read_bytes()[:400])
    (pictures / "004.png").write_text("<html>404</html>")
    (pictures / "005.png").unlink()
    where = ("--data", tmp_path / "annotations.json", "--images", pictures)
    done = train("--out", tmp_path / "mine", *where, "--head-channels", 32)
    assert done.returncode == 0, done.stderr
    told, _, trained = done.stdout.partition("epoch ")
    assert "3 of 12 pictures are left out:" in told
    for name in ("003.png", "004.png", "005.png"):
        assert name in told
    assert "as it is served: validation_" in trained
    done = train("--out", tmp_path / "other", *where, "--head", "semantic_fpn")
    assert done.returncode == 1
    assert "--images goes with annotations of COCO's format" in done.stderr


def test_a_second_run_overwrites_nothing(
    data: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "mine"
    step = tmp_path / "mine~checkpoint" / "step-7"
    step.mkdir(parents=True)
    for name in ("state.json", "tensors.safetensors"):
        (step / name).write_text("of a training that was stopped")
    again = ("--out", out, "--data", data["classification"])
    done = train(*again)
    assert done.returncode == 1
    assert "mine~checkpoint holds a training that was stopped: --resume" in done.stderr
    assert (step / "state.json").read_text() == "of a training that was stopped"
    shutil.rmtree(step.parent)
    out.mkdir()
    (out / "model.textproto").write_text("somebody's")
    done = train(*again)
    assert done.returncode == 1
    assert "mine holds a model: --overwrite replaces it" in done.stderr
    done = train(*again, "--resume")
    assert done.returncode == 0
    assert "mine is finished: there is nothing to go on with" in done.stdout
    assert (out / "model.textproto").read_text() == "somebody's"
    done = train(*again, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert 'name: "mine"' in (out / "model.textproto").read_text()


def test_written_scenes_are_data_on_disk(tmp_path: pathlib.Path) -> None:
    scenes = tmp_path / "scenes"
    command = [BUILD / "bin/fovea-train", "--write-scenes", scenes, "--scene-count", 4]
    subprocess.run(list(map(str, command)), check=True, timeout=60)
    coco = json.loads((scenes / "annotations.json").read_text())
    assert len(coco["images"]) == len(list((scenes / "images").iterdir())) == 4
    # Square, landscape and portrait in turn.
    sizes = [
        Image.open(scenes / "images" / f"{index:06}.png").size for index in range(4)
    ]
    assert sizes == [(128, 128), (128, 96), (96, 128), (128, 128)]
    # They would do for either task.
    done = train("--out", tmp_path / "mine", "--data", scenes)
    assert "say which with --task" in done.stderr
    done = train(
        "--out", tmp_path / "mine", "--data", scenes, "--from", DEMO / "segmenter_dense"
    )
    assert done.returncode == 0, done.stderr
    assert "task: SEGMENTATION" in (tmp_path / "mine/model.textproto").read_text()
