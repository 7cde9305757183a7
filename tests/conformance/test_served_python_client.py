"""fovea.client and `fovea evaluate` against a real server: equal to what tritonclient reads and pycocotools decodes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import Image
from pycocotools import mask as coco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from running_server import BUILD, DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client

EXAMPLES = sorted((ROOT / "client/examples").glob("*.jpg"))
LABELS = ["cat", "dog", "hen"]
MODELS = {
    "finder": 'backbone: "linglo_b0"\ntask: DETECTION\n'
    'head { name: "mask_rcnn" conventions: MMDETECTION detections_per_image: 12 }\n',
    "boxes": 'backbone: "linglo_b0"\ntask: DETECTION\nhead { name: "retinanet" }\n',
    "regions": 'backbone: "linglo_b0"\ntask: SEGMENTATION\n'
    'head { name: "semantic_fpn" }\n',
}
SIZES = [(64, 96), (128, 150), (30, 41)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a trained classifier, and a detector and a segmenter of random weights."""
    repository = tmp_path_factory.mktemp("models")
    shutil.copytree(DEMO / "shapes", repository / "shapes")
    for name, description in MODELS.items():
        (repository / name).mkdir()
        (repository / name / "labels.txt").write_text("\n".join(LABELS) + "\n")
        (repository / name / "model.textproto").write_text(
            f"spec_version: 1\nnum_classes: {len(LABELS)}\n{description}"
            "preprocessing { shorter_side: 64 longer_side: 96 }\n"
            "random_weights { seed: 2 }\n"
        )
    log = tmp_path_factory.mktemp("log") / "server.log"
    server = Server(log, "--model-repository", str(repository))
    yield server.grpc
    assert server.terminate() == 0
    server.close()


@pytest.fixture(scope="module")
def server(address: str) -> Iterator[client.Client]:
    with client.Client(address) as server:
        yield server


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("pictures")
    files = [folder / f"{number}.png" for number in range(len(SIZES))]
    for number, (file, size) in enumerate(zip(files, SIZES, strict=True)):
        noise = np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)
        Image.fromarray(noise).save(file)
    return files


def tensors(address: str, model: str, picture: pathlib.Path) -> dict[str, np.ndarray]:
    """What tritonclient reads of one picture."""
    file = triton.InferInput("image", [1, 1], "BYTES")
    file.set_data_from_numpy(np.array([[picture.read_bytes()]], dtype=object))
    with triton.InferenceServerClient(address) as asked:
        answer = asked.infer(model, [file])
        outputs = answer.get_response().outputs
        return {one.name: answer.as_numpy(one.name)[0] for one in outputs}


def test_classes_are_those_of_the_logits(address: str, server: client.Client):
    answer = server.classify("shapes", EXAMPLES[:2], top_k=3)
    assert answer.model == "shapes" and not answer.untrained and answer.attention
    for picture, found in zip(EXAMPLES, answer.images, strict=False):
        logits = tensors(address, "shapes", picture)["logits"]
        np.testing.assert_array_equal(found.classes, np.argsort(-logits)[:3])
        # Batches of other sizes may round otherwise.
        np.testing.assert_allclose(
            found.logits, np.sort(logits)[::-1][:3], atol=1e-4 * logits.std()
        )
        softmax = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        np.testing.assert_allclose(found.confidences, softmax[found.classes], rtol=1e-3)
        assert all(found.labels)


def test_boxes_are_those_of_the_tensors_and_masks_those_of_pycocotools(
    address: str, server: client.Client, pictures: list[pathlib.Path]
):
    answer = server.detect("finder", pictures, masks=True)
    assert answer.untrained
    for picture, size, found in zip(pictures, SIZES, answer.images, strict=True):
        expected = tensors(address, "finder", picture)
        count = int(expected["counts"])
        assert 0 < count == len(found.boxes) and found.size == size
        np.testing.assert_allclose(found.boxes, expected["boxes"][:count], atol=1e-3)
        np.testing.assert_allclose(found.scores, expected["scores"][:count], atol=1e-5)
        np.testing.assert_array_equal(found.classes, expected["labels"][:count])
        assert found.labels == [LABELS[number] for number in found.classes]
        assert np.all(np.diff(found.scores) <= 0)
        for mask in found.masks:
            decoded = coco.decode({"size": list(size), "counts": mask.run_lengths})
            np.testing.assert_array_equal(mask.array(), decoded.astype(bool))
            assert mask.pixels == decoded.sum()
    assert any(mask.pixels for image in answer.images for mask in image.masks)


def test_objects_are_chosen_by_score_number_and_class(
    server: client.Client, pictures: list[pathlib.Path]
):
    (everything,) = server.detect("finder", pictures[:1]).images
    threshold = float(np.sort(everything.scores)[-3])
    (best,) = server.detect("finder", pictures[:1], score_threshold=threshold).images
    assert len(best.scores) == 3
    (one,) = server.detect("finder", pictures[:1], max_detections=1).images
    assert one.scores.tolist() == everything.scores[:1].tolist()
    wanted = everything.labels[0]
    for name in (wanted, str(LABELS.index(wanted))):
        (chosen,) = server.detect("finder", pictures[:1], classes=[name]).images
        assert set(chosen.labels) == {wanted}
    (none,) = server.detect("finder", pictures[:1], score_threshold=1).images
    assert none.boxes.shape == (0, 4)


def test_class_maps_and_areas_are_those_of_the_tensors(
    address: str, server: client.Client, pictures: list[pathlib.Path]
):
    answer = server.segment("regions", pictures, confidence=True)
    for picture, size, found in zip(pictures, SIZES, answer.images, strict=True):
        expected = tensors(address, "regions", picture)["class_map"]
        assert found.class_map.shape == size and found.class_map.dtype == np.uint8
        np.testing.assert_array_equal(found.class_map, expected)
        numbers, counts = np.unique(expected, return_counts=True)
        areas = {area.class_index: area for area in found.classes}
        assert {n: area.pixels for n, area in areas.items()} == dict(
            zip(numbers.tolist(), counts.tolist(), strict=True)
        )
        assert all(area.label == LABELS[n] for n, area in areas.items())
        # The most probable of three classes is at least a third.
        assert found.confidence.shape == size and found.confidence.min() >= 255 // 3


@pytest.mark.parametrize("call", ["classify", "detect", "segment"])
def test_pixels_are_answered_as_their_file_is(
    call: str, server: client.Client, pictures: list[pathlib.Path]
):
    model = {"classify": "shapes", "detect": "finder", "segment": "regions"}[call]
    ask = getattr(server, call)
    for file in pictures:
        with Image.open(file) as image:
            pixels = np.asarray(image)
        answers = [
            ask(model, [one]).images[0] for one in (file, pixels, file.read_bytes())
        ]
        for other in answers[1:]:
            for name, value in vars(answers[0]).items():
                if isinstance(value, np.ndarray):
                    np.testing.assert_array_equal(getattr(other, name), value)
                else:
                    assert getattr(other, name) == value


def test_the_receipt_adds_up(server: client.Client, pictures: list[pathlib.Path]):
    answer = server.detect("finder", pictures)
    receipt = answer.receipt
    assert min(receipt.seconds.values()) >= 0 and receipt.seconds["compute"] > 0
    assert 0 < receipt.total_seconds <= answer.round_trip_seconds
    assert receipt.batch_size >= 1 and receipt.batch_peak_bytes > 0
    assert 0 <= receipt.padding < 1


def test_errors_have_a_code_and_a_reason(
    server: client.Client, pictures: list[pathlib.Path]
):
    whole = EXAMPLES[0].read_bytes()
    cases = [
        (server.classify, "shapes", [whole[:500]], {}, "INVALID_ARGUMENT", "image.truncated"),
        (server.classify, "nobody", [whole], {}, "NOT_FOUND", ""),
        (server.detect, "shapes", [whole], {}, "FAILED_PRECONDITION", "model.no_detector"),
        (server.segment, "shapes", [whole], {}, "FAILED_PRECONDITION", "model.no_segmenter"),
        (server.detect, "boxes", [whole], {"masks": True}, "FAILED_PRECONDITION", "model.no_masks"),
        (server.detect, "finder", [whole], {"classes": ["yak"]}, "INVALID_ARGUMENT", "request.class_unknown"),
        (server.detect, "finder", [whole], {"score_threshold": 2}, "INVALID_ARGUMENT", "request.score_threshold"),
        (server.classify, "shapes", [], {}, "INVALID_ARGUMENT", ""),
    ]  # fmt: skip
    for call, model, images, options, code, reason in cases:
        with pytest.raises(client.Error) as caught:
            call(model, images, **options)
        assert caught.value.code == code, caught.value
        assert caught.value.reason == reason or (not reason and caught.value.reason)
        assert caught.value.message
        assert not isinstance(caught.value, client.Unreachable)


def test_a_deadline_that_cannot_be_met_is_a_timeout(
    server: client.Client, pictures: list[pathlib.Path]
):
    with pytest.raises(client.TimedOut) as caught:
        server.detect("finder", pictures, timeout=1e-3)
    assert caught.value.code == "DEADLINE_EXCEEDED"


# --- `fovea evaluate`, on data sets made of what the models answer.


@pytest.fixture(scope="module")
def fovea(address: str, tmp_path_factory: pytest.TempPathFactory):
    """The command, with fovea-evaluate on the path as pip would install it."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "fovea-evaluate"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT / 'client/python'} exec {sys.executable} "
        '-m fovea.evaluation.command "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(*arguments: object) -> dict:
        done = subprocess.run(
            [
                *(str(BUILD / "bin/fovea"), "--server", address, "evaluate"),
                *map(str, arguments),
                "--json",
            ],
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def by_pycocotools(file: pathlib.Path, results: list[dict], kind: str) -> list[float]:
    """COCO's own way: the annotation file and a list of results."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(file))
        evaluated = COCOeval(truth, truth.loadRes(results), kind)
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    return evaluated.stats.tolist()


def test_precision_is_that_of_pycocotools_on_the_results_that_fovea_detect_writes(
    fovea,
    address: str,
    server: client.Client,
    pictures: list[pathlib.Path],
    tmp_path: pathlib.Path,
):
    """The truth is what the model finds, every second object moved by a tenth of its sides."""
    images, annotations = [], []
    (tmp_path / "images").mkdir()
    for number, (picture, size) in enumerate(zip(pictures, SIZES, strict=True)):
        height, width = size
        (tmp_path / "images" / picture.name).symlink_to(picture)
        images.append(
            {
                "id": number,
                "file_name": picture.name,
                "height": height,
                "width": width,
            }
        )
        (found,) = server.detect("finder", [picture], masks=True).images
        for (left, top, right, bottom), name, mask in zip(
            found.boxes.tolist(), found.labels, found.masks, strict=True
        ):
            moved = 0.1 * (len(annotations) % 2)
            pixels = np.roll(mask.array(), int(moved * (bottom - top)), axis=0).astype(
                np.uint8, order="F"
            )
            counts = coco.encode(pixels)["counts"].decode()
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": 70 - LABELS.index(name),
                    "bbox": [
                        left + moved * (right - left),
                        top + moved * (bottom - top),
                        right - left,
                        bottom - top,
                    ],
                    "area": int(pixels.sum()),
                    "iscrowd": 0,
                    "segmentation": {"size": list(size), "counts": counts},
                }
            )
    categories = [{"id": 70 - n, "name": name} for n, name in enumerate(LABELS)]
    document = {"images": images, "annotations": annotations, "categories": categories}
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(document))
    written = subprocess.run(
        [
            *(str(BUILD / "bin/fovea"), "--server", address, "detect", "--json"),
            *("--model", "finder", "--score-threshold", "0", *map(str, pictures)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    results = [
        one | {"category_id": 70 - LABELS.index(one["category_name"])}
        for one in json.loads(written.stdout)
    ]
    boxes = by_pycocotools(file, results, "bbox")
    # What the command wrote, unmodified, where its numbers are the data set's: pictures that are called by their ids,
    # and the model's class numbers for those of the categories.
    class_of = {one["id"]: LABELS.index(one["name"]) for one in categories}
    numbered = document | {
        "categories": [one | {"id": class_of[one["id"]]} for one in categories],
        "annotations": [
            one | {"category_id": class_of[one["category_id"]]} for one in annotations
        ],
    }
    of_class_numbers = tmp_path / "of_class_numbers.txt"  # not a second data set
    of_class_numbers.write_text(json.dumps(numbered))
    assert by_pycocotools(
        of_class_numbers, json.loads(written.stdout), "bbox"
    ) == pytest.approx(boxes, abs=1e-9)
    # With boxes, loadRes takes their areas for the masks'.
    for one in results:
        del one["bbox"]
    masks = by_pycocotools(file, results, "segm")

    models = fovea("--model", "finder", "--model", "boxes", "--dataset", tmp_path)
    finder, without_masks = models["models"]
    for kind, expected in (("box", boxes), ("mask", masks)):
        for name, place in (("AP", 0), ("AP50", 1), ("AP75", 2), ("AR100", 8)):
            # The command writes boxes with the digits of a float32.
            assert finder["figures"][f"{kind} {name}"] == pytest.approx(
                expected[place], abs=1e-9
            ), (kind, name)
        assert 0 < expected[0] < 1
    assert finder["untrained"] and finder["cost"]["batch_peak_bytes"] > 0
    assert "mask AP" not in without_masks["figures"]
    assert without_masks["notes"] == ["no mask AP: model boxes gives no masks"]
    again = fovea("--model", "finder", "--dataset", tmp_path, "--concurrency", 1)
    assert again["models"][0]["figures"] == finder["figures"]


def test_maps_that_the_model_itself_drew_have_a_union_of_one(
    fovea, server: client.Client, pictures: list[pathlib.Path], tmp_path: pathlib.Path
):
    (tmp_path / "masks").mkdir()
    (tmp_path / "images").mkdir()
    for picture in pictures:
        (tmp_path / "images" / picture.name).symlink_to(picture)
        (found,) = server.segment("regions", [picture]).images
        mask = found.class_map.copy()
        mask[0] = 255  # and a row that nobody has looked at
        Image.fromarray(mask).save(tmp_path / "masks" / picture.name)
    (model,) = fovea("--model", "regions", "--dataset", tmp_path)["models"]
    assert model["figures"] == {"mIoU": 1, "pixel accuracy": 1, "class mean": 1}


def test_accuracy_is_that_of_the_classes_that_the_server_names(
    fovea, server: client.Client, tmp_path: pathlib.Path
):
    """The examples are named after what they show."""
    right = 0
    for picture in EXAMPLES:
        (found,) = server.classify("shapes", [picture], top_k=100).images
        shown = next(label for label in found.labels if label in picture.stem)
        right += found.labels[0] == shown
        (tmp_path / shown).mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (tmp_path / shown / picture.name).symlink_to(picture)
    (model,) = fovea("--model", "shapes", "--dataset", tmp_path)["models"]
    assert model["answered"] == len(EXAMPLES) > 0
    assert model["figures"]["top-1"] == pytest.approx(right / len(EXAMPLES))
    assert right > 0
