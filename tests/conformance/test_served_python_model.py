"""fovea.Model answers pictures as a server with the same folder does."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest
from PIL import Image
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))

import fovea
from fovea.client import Client

PICTURES = [
    *sorted((ROOT / "client/examples").glob("*.jpg")),
    ROOT / "client/examples/cross.png",
    *sorted((ROOT / "client/examples/scenes").iterdir()),
]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    """The examples, and two that are turned and transparent."""
    folder = tmp_path_factory.mktemp("pictures")
    image = Image.open(PICTURES[-1]).resize((90, 61))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(folder / "turned.png", exif=exif)
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    image.save(folder / "transparent.png")
    return [*PICTURES, folder / "turned.png", folder / "transparent.png"]


@pytest.mark.parametrize("name", ["shapes", "shapes_knn", "frame_aewin", "frame_cska"])
def test_classes_are_the_servers(server: Server, pictures, name: str) -> None:
    model = fovea.Model(DEMO / name)
    with Client(server.grpc) as client:
        answer = client.classify(name, pictures, top_k=3)
    assert answer.attention == model.attention
    for expected, found in zip(
        answer.images, model.predict(pictures, top_k=3), strict=True
    ):
        np.testing.assert_allclose(found.logits, expected.logits, rtol=0, atol=2e-3)
        np.testing.assert_allclose(
            found.confidences, expected.confidences, rtol=0, atol=1e-3
        )
        clear = np.diff(-expected.logits).min() > 5e-3  # else two may change places
        if clear:
            assert found.labels == expected.labels
            assert found.classes.tolist() == expected.classes.tolist()


@pytest.mark.parametrize("name", ["detector_dense", "instances_key_only"])
def test_objects_are_the_servers(server: Server, pictures, name: str) -> None:
    model = fovea.Model(DEMO / name)
    objects = 0
    with Client(server.grpc) as client:
        for picture in pictures:
            (expected,) = client.detect(name, [picture], score_threshold=0.3).images
            (found,) = model.predict([picture], score_threshold=0.3)
            near = np.abs(expected.scores - 0.3).min(initial=1) < 1e-3
            if near:
                continue
            objects += len(expected.labels)
            assert found.labels == expected.labels and found.size == expected.size
            np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-3)
            np.testing.assert_allclose(found.boxes, expected.boxes, rtol=0, atol=0.1)
    assert objects > 10


@pytest.mark.parametrize("name", ["segmenter_dense", "segmenter_aewin"])
def test_class_maps_are_the_servers(server: Server, pictures, name: str) -> None:
    model = fovea.Model(DEMO / name)
    with Client(server.grpc) as client:
        for picture in pictures:
            (expected,) = client.segment(name, [picture], confidence=True).images
            (found,) = model.predict([picture], confidence=True)
            assert found.class_map.dtype == expected.class_map.dtype
            assert found.class_map.shape == expected.class_map.shape
            # Where two classes are equally probable, rounding decides.
            assert (found.class_map != expected.class_map).mean() < 1e-3
            apart = found.confidence.astype(int) - expected.confidence
            assert np.abs(apart).max() <= 1
            largest = [one.label for one in expected.classes[:1]]
            assert [one.label for one in found.classes[:1]] == largest
