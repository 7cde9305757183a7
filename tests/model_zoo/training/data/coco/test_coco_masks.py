"""The trainer's reading of COCO's masks, against pycocotools."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pycocotools_coco = pytest.importorskip("pycocotools.coco")
pycocotools_mask = pytest.importorskip("pycocotools.mask")

ROOT = Path(__file__).resolve().parents[5]
COPY = ROOT / os.environ.get("FOVEA_BUILD", "build/release") / "tests/copy_coco"
WIDTH, HEIGHT = 97, 61


def copied(tmp_path: Path, annotations: list[dict]) -> tuple:
    """The annotations as pycocotools reads them, and as it reads what the trainer wrote."""
    source, target = tmp_path / "from", tmp_path / "to"
    (source / "images").mkdir(parents=True)
    Image.fromarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8)).save(
        source / "images/a.png"
    )
    whole = {
        "images": [{"id": 1, "file_name": "a.png", "width": WIDTH, "height": HEIGHT}],
        "categories": [{"id": 4, "name": "thing"}],
        "annotations": [
            {"id": i + 1, "image_id": 1, "category_id": 4, "iscrowd": 0, **annotation}
            for i, annotation in enumerate(annotations)
        ],
    }
    (source / "annotations.json").write_text(json.dumps(whole))
    subprocess.run([COPY, source, target], check=True)
    return (
        pycocotools_coco.COCO(source / "annotations.json"),
        pycocotools_coco.COCO(target / "annotations.json"),
    )


def masks(coco) -> list[np.ndarray]:
    return [coco.annToMask(coco.anns[i]) for i in sorted(coco.anns)]


def distance_to_outline(polygon: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Of each point to the nearest edge of a closed polygon."""
    nearest = np.full(len(points), np.inf)
    for start, end in zip(polygon, np.roll(polygon, -1, axis=0)):
        along = end - start
        place = ((points - start) @ along) / max(along @ along, 1e-12)
        foot = start + np.clip(place, 0, 1)[:, None] * along
        nearest = np.minimum(nearest, np.linalg.norm(points - foot, axis=1))
    return nearest


def star(random: np.random.Generator) -> np.ndarray:
    corners = random.integers(3, 20)
    angles = np.sort(random.uniform(0, 2 * np.pi, corners))
    radii = random.uniform(3, 28, corners)
    centre = random.uniform([10, 10], [WIDTH - 10, HEIGHT - 10])
    polygon = centre + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    return np.clip(polygon, 0, [WIDTH, HEIGHT]).round(2)


def test_polygons_differ_along_their_outline_only(tmp_path):
    random = np.random.default_rng(1)
    polygons = [star(random) for _ in range(200)]
    theirs, ours = copied(
        tmp_path,
        [
            {"bbox": [0, 0, WIDTH, HEIGHT], "segmentation": [p.reshape(-1).tolist()]}
            for p in polygons
        ],
    )
    # The source leaves out what covers no pixel's middle; none of these is so small.
    assert len(ours.anns) == len(polygons)
    shared = united = 0
    for polygon, their, our in zip(polygons, masks(theirs), masks(ours)):
        y, x = np.nonzero(their != our)
        if len(x):
            # The outline crosses the pixel: half a diagonal, and a fifth of a pixel that pycocotools
            # rounds to in each direction, and as much where it takes the fifth's middle.
            middles = np.stack([x + 0.5, y + 0.5], 1)
            assert distance_to_outline(polygon, middles).max() < 0.71 + 0.29
        shared += (their & our).sum()
        united += (their | our).sum()
    assert shared / united > 0.95


def test_run_lengths_are_theirs(tmp_path):
    random = np.random.default_rng(2)
    drawn = [
        (random.random((HEIGHT, WIDTH)) < share).astype(np.uint8)
        for share in (0.01, 0.3, 0.9, 1.0)
    ]
    annotations = []
    for mask in drawn:
        coded = pycocotools_mask.encode(np.asfortranarray(mask))
        annotations.append(
            {
                "bbox": [0, 0, WIDTH, HEIGHT],
                "segmentation": {
                    "size": [HEIGHT, WIDTH],
                    "counts": coded["counts"].decode(),
                },
            }
        )
        columns = mask.T.reshape(-1)
        changes = np.flatnonzero(np.diff(columns)) + 1
        bounds = np.concatenate([[0], changes, [len(columns)]])
        counts = np.diff(bounds).tolist()
        annotations.append(
            {
                "bbox": [0, 0, WIDTH, HEIGHT],
                "segmentation": {
                    "size": [HEIGHT, WIDTH],
                    "counts": [0, *counts] if columns[0] else counts,
                },
                "iscrowd": 1,
            }
        )
    _, ours = copied(tmp_path, annotations)
    read = masks(ours)
    assert len(read) == 2 * len(drawn)
    for i, mask in enumerate(drawn):
        np.testing.assert_array_equal(read[2 * i], mask)
        np.testing.assert_array_equal(read[2 * i + 1], mask)
    assert [ours.anns[i + 1]["iscrowd"] for i in range(8)] == [0, 1] * 4
