"""fovea-evaluate's average precision, on data sets and answers whose figures follow by hand."""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any

import grpc
import numpy as np
import pytest
from pycocotools import mask as coco_mask

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from evaluation_support import evaluate, figures, number_of, write_picture
from fake_vision import FakeVision, Refusal, objects
from fovea import results
from fovea.evaluation.datasets import open_dataset
from fovea.evaluation.detection import AveragePrecision
from fovea.evaluation.measure import Model, PictureError

# Thresholds of IoU are 0.50, 0.55, ..., 0.95; recall is looked at in 101 places.

SIZE = (100, 200)
CATEGORIES = [{"id": 90, "name": "dog"}, {"id": 18, "name": "cat"}]


def scene(
    folder: pathlib.Path,
    annotations: list[tuple[int, int, list, dict]],
    pictures: int,
    with_sizes: bool = True,
) -> pathlib.Path:
    """annotations: (picture, category, [left, top, width, height], further fields). Picture i has the id 100 + i."""
    document = {
        "images": [
            {"id": 100 + number, "file_name": f"{number}.png"}
            | ({"height": 100, "width": 200} if with_sizes else {})
            for number in range(pictures)
        ],
        "categories": CATEGORIES,
        "annotations": [
            {
                "id": number,
                "image_id": 100 + picture,
                "category_id": category,
                "bbox": box,
            }
            | fields
            for number, (picture, category, box, fields) in enumerate(annotations)
        ],
    }
    for number in range(pictures):
        write_picture(folder / f"images/{number}.png", number, SIZE)
    (folder / "objects.json").write_text(json.dumps(document))
    return folder


def finding(found: dict[int, list[dict]], masks: bool = False, known=("cat", "dog")):
    """A detector of cat (0) and dog (1) that finds these in each picture."""

    def result(request: Any, picture: bytes) -> Any:
        if request.mask_format and not masks:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION, "model.no_masks", "no masks"
            )
        for name in request.classes:
            if name not in known:
                raise Refusal(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "request.class_unknown",
                    f"the model has no class '{name}'",
                )
        return objects(SIZE, *found.get(number_of(picture), []))

    return result


def at(left: float, top: float, width: float, height: float, **fields: Any) -> dict:
    box = [left, top, left + width, top + height]
    return {"box": box, "score": 0.9, "index": 0, "label": "cat"} | fields


DOG = {"index": 1, "label": "dog"}


def average_precision(fake: FakeVision, folder: pathlib.Path) -> dict[str, Any]:
    (model,) = figures(fake.address, "-m", "m", "-d", folder)["models"]
    return model


def test_perfect_boxes_have_an_average_precision_of_one(tmp_path: pathlib.Path):
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {}), (1, 90, [0, 0, 50, 50], {})],
        pictures=3,
    )
    found = {0: [at(10, 10, 20, 10)], 1: [at(0, 0, 50, 50, **DOG)]}
    with FakeVision(Detect=finding(found)) as fake:
        model = average_precision(fake, tmp_path)
    assert [model["figures"][f"box {name}"] for name in ("AP", "AP50", "AR100")] == (
        pytest.approx([1, 1, 1])
    )
    # 20 x 10 pixels are a small object, 50 x 50 a medium one.
    assert model["figures"]["box AP small"] == pytest.approx(1)
    assert model["figures"]["box AP large"] is None
    assert model["classes"] == {
        name: {"box AP": pytest.approx(1), "box AP50": pytest.approx(1)}
        for name in ("cat", "dog")
    }
    assert "mask AP" not in model["figures"]
    assert any("no mask AP" in note for note in model["notes"])


def test_a_shifted_box_counts_up_to_its_overlap(tmp_path: pathlib.Path):
    """20x10 pixels shifted by 4: 160 of 240 are of both, which four thresholds take."""
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    with FakeVision(Detect=finding({0: [at(14, 10, 20, 10)]})) as fake:
        found = average_precision(fake, tmp_path)["figures"]
    assert found["box AP"] == pytest.approx(0.4)
    assert (found["box AP50"], found["box AP75"]) == (pytest.approx(1), 0)


def test_a_missing_box_ends_recall_at_a_half(tmp_path: pathlib.Path):
    """51 of the 101 places are at a recall of 0.5 or less."""
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {}), (1, 18, [60, 60, 20, 10], {})],
        pictures=2,
    )
    with FakeVision(Detect=finding({0: [at(10, 10, 20, 10)]})) as fake:
        found = average_precision(fake, tmp_path)
    assert found["figures"]["box AP"] == pytest.approx(51 / 101)
    assert found["figures"]["box AR100"] == pytest.approx(0.5)
    assert found["classes"]["dog"] == {"box AP": None, "box AP50": None}


def test_a_wrong_box_of_a_higher_score_halves_precision(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    wrong = at(100, 50, 20, 10, score=0.95)
    with FakeVision(Detect=finding({0: [wrong, at(10, 10, 20, 10)]})) as fake:
        found = average_precision(fake, tmp_path)["figures"]
    assert found["box AP"] == pytest.approx(0.5)


def test_a_crowd_is_neither_missed_nor_found(tmp_path: pathlib.Path):
    crowd = {"iscrowd": 1, "segmentation": {"size": [100, 200], "counts": [0, 20000]}}
    scene(
        tmp_path,
        [(0, 18, [0, 0, 200, 100], crowd), (0, 18, [10, 10, 20, 10], {})],
        pictures=1,
    )
    inside = at(100, 50, 20, 10, score=0.95)
    with FakeVision(Detect=finding({0: [inside, at(10, 10, 20, 10)]})) as fake:
        assert average_precision(fake, tmp_path)["figures"]["box AP"] == (
            pytest.approx(1)
        )


def test_nothing_found_is_zero(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    with FakeVision(Detect=finding({})) as fake:
        found = average_precision(fake, tmp_path)["figures"]
    assert found["box AP"] == 0 and found["box AR100"] == 0


def test_classes_are_matched_by_name_not_by_id(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 90, [10, 10, 20, 10], {})], pictures=1)
    file = tmp_path / "objects.json"
    file.write_text(file.read_text().replace("dog", "d\u00f6g"))
    decomposed = "do\u0308g"  # as macOS names folders, from which a model may have it
    dog = at(10, 10, 20, 10, index=18, label=decomposed)
    bird = at(50, 50, 20, 10, index=90, label="bird")
    known = ("cat", decomposed)
    with FakeVision(Detect=finding({0: [dog, bird]}, known=known)) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == pytest.approx(1)
    assert any("does not have are left out: bird (1)" in n for n in model["notes"])


def test_a_detector_without_labels_has_the_categories_in_order_of_their_ids(
    tmp_path: pathlib.Path,
):
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {}), (0, 90, [0, 0, 50, 50], {})],
        pictures=1,
    )
    found = {0: [at(10, 10, 20, 10, label=""), at(0, 0, 50, 50, index=1, label="")]}
    with FakeVision(Detect=finding(found)) as fake:
        assert average_precision(fake, tmp_path)["figures"]["box AP"] == (
            pytest.approx(1)
        )


def test_a_category_that_the_detector_does_not_have_is_named(tmp_path: pathlib.Path):
    box = [10, 10, 20, 10]
    scene(tmp_path, [(0, 18, box, {}), (0, 90, box, {})], pictures=1)
    result = finding({0: [at(10, 10, 20, 10)]}, known=("cat", "bird"))
    with FakeVision(Detect=result) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    assert refused.returncode == 2
    assert "1 of the 2 categories of the data set are no classes of model m: dog" in (
        refused.stderr
    )


def test_a_category_without_objects_need_not_be_known(tmp_path: pathlib.Path):
    """Exporters write one that stands for all."""
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)
    result = finding({0: [at(10, 10, 20, 10)]}, known=("cat",))
    with FakeVision(Detect=result) as fake:
        assert average_precision(fake, tmp_path)["figures"]["box AP"] == (
            pytest.approx(1)
        )


def test_a_model_of_another_task_is_refused_in_words(tmp_path: pathlib.Path):
    scene(tmp_path, [(0, 18, [10, 10, 20, 10], {})], pictures=1)

    def result(*_: object):
        raise Refusal(
            grpc.StatusCode.FAILED_PRECONDITION,
            "model.no_detector",
            "the model gives no detections",
        )

    with FakeVision(Detect=result) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == (
        "fovea-evaluate: model m: the model gives no detections (the data set is for detection)\n"
    )


@pytest.mark.parametrize(
    "mask",
    [
        {"size": [100, 200], "counts": ["a"]},
        {"size": [100, 200], "counts": [-1, 20001]},
        {"size": [100, 200], "counts": [0, 19999]},
        {"size": [100, 200], "counts": {"0": 20000}},
        # It ends within a number.
        {"size": [100, 200], "counts": "0" * 4000 + "P"},
        {"size": [100, 200], "counts": "ÿ"},
        {"size": [0, 8], "counts": "0"},
        {"size": [100, 200, 1], "counts": [0, 20000]},
        {"size": [True, 20000], "counts": [0, 20000]},
        {"size": 20000, "counts": [0, 20000]},
        [[1, 2, "x", 4, 5, 6]],
        [[1, 2, float("nan"), 4, 5, 6]],
        [[0, 0, 1e9, 0, 0, 1e9]],
        [[0, 0, 1e6, 1e6] * 10],
    ],
)
@pytest.mark.parametrize("with_sizes", [True, False])
def test_a_mask_that_cannot_be_read_is_named_before_anything_is_measured(
    mask: object, with_sizes: bool, tmp_path: pathlib.Path
):
    """Read by pycocotools, some of them end the process."""
    scene(
        tmp_path,
        [(0, 18, [10, 10, 20, 10], {"segmentation": mask})],
        pictures=1,
        with_sizes=with_sizes,
    )
    with FakeVision(Detect=finding({}, masks=True)) as fake:
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
        assert fake.requests == []
    assert refused.returncode == 2
    assert "the mask of an object in image 100 cannot be read" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_mask_of_another_size_than_its_picture_is_named_or_does_not_count(
    tmp_path: pathlib.Path,
):
    """Named where the annotations have the picture's size; otherwise it is known with the answer."""
    mask = {"segmentation": {"size": [50, 50], "counts": [0, 2500]}}
    cat = [10, 10, 20, 10]
    objects = [(0, 18, cat, outline(*cat)), (1, 18, cat, mask)]
    found = {number: [at(*cat, **rectangle(*cat))] for number in range(2)}
    with FakeVision(Detect=finding(found, masks=True)) as fake:
        scene(tmp_path, objects, pictures=2)
        refused = evaluate(fake.address, "-m", "m", "-d", tmp_path)
        assert refused.returncode == 2 and fake.requests == []
        assert "its size is [50, 50], and its picture's [100, 200]" in refused.stderr
        scene(tmp_path, objects, pictures=2, with_sizes=False)
        done = evaluate(fake.address, "-m", "m", "-d", tmp_path, "--json")
    assert done.returncode == 1
    (model,) = json.loads(done.stdout)["models"]
    assert [one["message"] for one in model["failed"]] == [
        "the annotations have a mask of 50x50, and upright it is 200x100"
    ]
    assert model["figures"]["mask AP"] == pytest.approx(1)


def test_compressed_run_lengths_are_read(tmp_path: pathlib.Path):
    cat = [10, 10, 20, 10]
    drawn = rectangle(*cat)
    mask = {"segmentation": {"size": list(SIZE), "counts": drawn["counts"]}}
    scene(tmp_path, [(0, 18, cat, mask)], pictures=1, with_sizes=False)
    with FakeVision(Detect=finding({0: [at(*cat, **drawn)]}, masks=True)) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["mask AP"] == pytest.approx(1)


def test_a_picture_that_is_not_what_the_annotations_say_does_not_count(
    tmp_path: pathlib.Path,
):
    scene(tmp_path, [(0, 18, [1, 1, 20, 10], {})], pictures=2)
    file = tmp_path / "objects.json"
    document = json.loads(file.read_text())
    document["images"][1]["width"] = 100
    document["images"][1]["height"] = 200
    file.write_text(json.dumps(document))
    with FakeVision(Detect=finding({0: [at(1, 1, 20, 10)]})) as fake:
        done = evaluate(fake.address, "-m", "m", "-d", tmp_path, "--json")
    assert done.returncode == 1
    sentence = "the annotations say that it is 100x200, and upright it is 200x100"
    assert sentence in done.stderr
    (model,) = json.loads(done.stdout)["models"]
    assert [one["message"] for one in model["failed"]] == [sentence]
    assert model["figures"]["box AP"] == pytest.approx(1)


def rectangle(left: int, top: int, width: int, height: int) -> dict[str, Any]:
    pixels = np.zeros(SIZE, np.uint8, order="F")
    pixels[top : top + height, left : left + width] = 1
    counts = coco_mask.encode(pixels)["counts"].decode()
    return {"counts": counts, "pixels": width * height}


def outline(left: int, top: int, width: int, height: int) -> dict[str, Any]:
    right, bottom = left + width, top + height
    return {"segmentation": [[left, top, right, top, right, bottom, left, bottom]]}


def test_masks_have_their_own_average_precision(tmp_path: pathlib.Path):
    """The boxes are right; the mask of the cat is, and of the dog's 20x10 pixels 13 columns are found: 0.65."""
    cat, dog = [10, 10, 20, 10], [60, 50, 20, 10]
    scene(
        tmp_path,
        [(0, 18, cat, outline(*cat)), (0, 90, dog, outline(*dog))],
        pictures=1,
    )
    found = {
        0: [at(*cat, **rectangle(*cat)), at(*dog, **DOG, **rectangle(60, 50, 13, 10))]
    }
    with FakeVision(Detect=finding(found, masks=True)) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == pytest.approx(1)
    assert model["classes"]["cat"]["mask AP"] == pytest.approx(1)
    # 0.50, 0.55, 0.60 and 0.65.
    assert model["classes"]["dog"]["mask AP"] == pytest.approx(0.4)
    assert model["figures"]["mask AP"] == pytest.approx(0.7)
    assert model["notes"] == []


def text_of(*numbers: int) -> str:
    """As COCO's tools write them, differences and all left to the caller."""
    text = ""
    for number in numbers:
        more = True
        while more:
            group = number & 0x1F
            number >>= 5
            more = number != (-1 if group & 0x10 else 0)
            text += chr(ord("0") + group + (0x20 if more else 0))
    return text


PIXELS = SIZE[0] * SIZE[1]
MOST = (1 << 29) - 1  # in six characters
# What a server may send for the mask of 10 pixels, and what is said of it.
BROKEN_MASKS = {
    "none": ("", "not those of 100x200 pixels"),
    "too few pixels": (text_of(0, 10, PIXELS - 11), "not those of 100x200 pixels"),
    "too many pixels": (text_of(0, 10, PIXELS), "not those of 100x200 pixels"),
    "another picture's": (text_of(0, 10, 50 * 50 - 10), "not those of 100x200 pixels"),
    "negative": (text_of(20, -10, PIXELS - 10), "not those of 100x200 pixels"),
    "a negative difference": (
        text_of(0, 10, PIXELS - 10, -11, 1),
        "not those of 100x200 pixels",
    ),
    "huge": (text_of(1 << 31, 10), "none of COCO's"),
    "huge, and negative": (
        text_of(MOST, 10, PIXELS - 10 - MOST),
        "not those of 100x200 pixels",
    ),
    "right in 32 bits alone": (
        text_of(MOST, MOST, MOST, 0, 0, 0, 0, 0, PIXELS + 8 - MOST),
        "not those of 100x200 pixels",
    ),
    "a number without an end": (text_of(0, 10, PIXELS - 10) + "P", "not those"),
    "nothing but beginnings": ("o" * 5000, "none of COCO's"),
    "other characters": ("0\0" + text_of(10, PIXELS - 10), "none of COCO's"),
    "no ASCII": ("\u20ac", "none of COCO's"),
    "other pixels than are said": (
        text_of(0, 11, PIXELS - 11),
        "has 11 pixels, and is said to have 10",
    ),
}


@pytest.fixture
def one_cat(tmp_path: pathlib.Path) -> AveragePrecision:
    cat = [10, 10, 20, 10]
    scene(tmp_path, [(0, 18, cat, outline(*cat))], pictures=1, with_sizes=False)
    return AveragePrecision(open_dataset(tmp_path), Model("m", ""), by_number=False)


def found(run_lengths: str, size: tuple[int, int] = SIZE) -> results.Detections:
    return results.detections_of(
        objects(size, at(0, 0, 1, 10, counts=run_lengths, pixels=10)), masks=True
    )


@pytest.mark.parametrize("case", BROKEN_MASKS)
def test_a_mask_of_the_servers_that_cannot_be_read_does_not_count(
    case: str, one_cat: AveragePrecision
):
    """Read by pycocotools, some of them write into other memory of the process."""
    text, sentence = BROKEN_MASKS[case]
    whole = found(text_of(0, 10, PIXELS - 10))
    assert one_cat.reduce(0, whole) is whole
    with pytest.raises(PictureError, match=re.escape(sentence)) as refused:
        one_cat.reduce(0, found(text))
    assert str(refused.value).startswith("a mask that the server sent ")


@pytest.mark.parametrize(
    "size", [(0, 200), (100, -1), (1, 32_768), (30_000, 30_000), (2**31 - 1, 2**31 - 1)]
)
def test_a_picture_that_no_server_answers_does_not_count(
    size: tuple[int, int], one_cat: AveragePrecision
):
    """pycocotools has places for all of its pixels, for the polygons of the data set."""
    text = text_of(0, 10, size[0] * size[1] - 10)
    with pytest.raises(PictureError, match=f"says that it is {size[1]}x{size[0]}"):
        one_cat.reduce(0, found(text, size))


def test_broken_masks_are_told_and_the_other_pictures_measured(tmp_path: pathlib.Path):
    cat = [10, 10, 20, 10]
    scene(tmp_path, [(i, 18, cat, outline(*cat)) for i in range(3)], pictures=3)
    whole = rectangle(*cat)
    broken = whole | {"counts": text_of(0, 10, PIXELS)}
    sent = {0: [at(*cat, **whole)], 1: [at(*cat, **whole), at(*cat, **broken)]}
    with FakeVision(Detect=finding(sent | {2: sent[0]}, masks=True)) as fake:
        done = evaluate(fake.address, "-m", "m", "-d", tmp_path, "--json")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    (model,) = json.loads(done.stdout)["models"]
    assert [pathlib.Path(one["picture"]).name for one in model["failed"]] == ["1.png"]
    assert "a mask that the server sent cannot be read" in model["failed"][0]["message"]
    assert model["figures"]["mask AP"] == pytest.approx(1)


def test_objects_that_are_left_out_of_the_annotations_are_told(tmp_path: pathlib.Path):
    cat = [10, 10, 20, 10]
    point = {"segmentation": [[10, 10, 10, 10]]}
    scene(tmp_path, [(0, 18, cat, outline(*cat)), (0, 18, cat, point)], pictures=1)
    sent = {0: [at(*cat, **rectangle(*cat))]}
    with FakeVision(Detect=finding(sent, masks=True)) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == model["figures"]["mask AP"] == pytest.approx(1)
    assert model["notes"] == [
        "1 objects whose polygons have fewer than three corners are left out"
    ]


def test_a_model_without_masks_has_its_boxes_measured(tmp_path: pathlib.Path):
    box = [10, 10, 20, 10]
    scene(tmp_path, [(0, 18, box, outline(*box))], pictures=1)
    with FakeVision(Detect=finding({0: [at(*box)]})) as fake:
        model = average_precision(fake, tmp_path)
    assert model["figures"]["box AP"] == pytest.approx(1)
    assert "mask AP" not in model["figures"]
    assert model["notes"] == ["no mask AP: model m gives no masks"]
