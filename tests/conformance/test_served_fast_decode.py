"""Models with fast_decode, served: they say so, answer as fovea.Model with the same folder, and know where things lie."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import ExifTags, Image
from running_server import BUILD, DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))

import fovea
from fovea.client import Client

SHAPES = sorted((ROOT / "client/examples").glob("*.jpg"))
SCENES = sorted((ROOT / "client/examples/scenes").glob("*.jpg"))
# Neither is a multiple of a block's side.
LARGE = (2043, 1533)
MODELS = ("shapes", "detector_dense", "segmenter_dense")


def fast_copy(name: str, repository: pathlib.Path) -> None:
    folder = shutil.copytree(DEMO / name, repository / f"fast_{name}")
    text = (folder / "model.textproto").read_text()
    for old, new in (
        (f'name: "{name}"', f'name: "fast_{name}"'),
        ("preprocessing {", "preprocessing {\n  fast_decode: true"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "model.textproto").write_text(text)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("models")
    for name in MODELS:
        shutil.copytree(DEMO / name, folder / name)
        fast_copy(name, folder)
    return folder


@pytest.fixture(scope="module")
def server(
    repository: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    flags = ["--model-repository", str(repository), "--enable-experiments"]
    running = Server(log, *flags)
    yield running
    assert running.terminate() == 0
    running.close()


def large_jpeg(
    file: pathlib.Path,
    orientation: int = 1,
    suffix: str = "JPEG",
    size: tuple[int, int] = LARGE,
) -> bytes:
    """The picture of `file`, 3 megapixels of it, as a camera stores it that was held so."""
    image = Image.open(file).convert("RGB").resize(size, Image.Resampling.BICUBIC)
    turned = {
        1: image,
        3: image.transpose(Image.Transpose.ROTATE_180),
        6: image.transpose(Image.Transpose.ROTATE_90),
        7: image.transpose(Image.Transpose.TRANSVERSE),
    }[orientation]
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    stored = io.BytesIO()
    turned.save(stored, suffix, quality=95, exif=exif)
    return stored.getvalue()


def test_a_model_says_in_its_metadata_and_its_check_that_it_has_it(
    server: Server, repository: pathlib.Path
) -> None:
    with triton.InferenceServerClient(server.grpc) as client:
        for name in MODELS:
            exact, fast = (
                client.get_model_config(one).config.parameters
                for one in (name, f"fast_{name}")
            )
            assert "fovea.fast_decode" not in exact
            assert fast["fovea.fast_decode"].string_value == "true"
    url = f"http://{server.http}/v2/models/fast_shapes"
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert json.load(answer)["properties"]["fovea.fast_decode"] == "true"
    done = subprocess.run(
        [BUILD / "bin/fovea-check", repository / "fast_shapes", "--json"],
        capture_output=True,
        check=True,
    )
    (folder,) = json.loads(done.stdout)["folders"]
    assert folder["fast_decode"] and folder["ok"]


def test_classes_are_those_of_fovea_model_and_hardly_other_than_the_exact_ones(
    server: Server, repository: pathlib.Path
) -> None:
    pictures = [large_jpeg(file, 6) for file in SHAPES]
    model = fovea.Model(repository / "fast_shapes")
    with Client(server.grpc) as client:
        fast = client.classify("fast_shapes", pictures).images
        exact = client.classify("shapes", pictures).images
    apart = 0.0
    for one, whole, ours in zip(fast, exact, model.predict(pictures), strict=True):
        np.testing.assert_allclose(ours.logits, one.logits, rtol=0, atol=2e-3)
        assert one.labels[0] == whole.labels[0]
        apart = max(apart, np.abs(one.logits - whole.logits).max())
    # Above what two runs of one picture differ by: it was decoded smaller. Measured: 0.02.
    assert 4e-3 < apart < 0.2


def test_other_formats_and_small_pictures_are_answered_as_before(
    server: Server,
) -> None:
    # The model sees 64 pixels of a side; of 256 on it would be halved.
    pictures = [
        large_jpeg(SHAPES[0], size=(255, 400)),
        large_jpeg(SHAPES[0], suffix="PNG"),
        large_jpeg(SHAPES[0], suffix="WEBP"),
    ]
    with Client(server.grpc) as client:
        for picture in pictures:
            (fast,) = client.classify("fast_shapes", [picture]).images
            (exact,) = client.classify("shapes", [picture]).images
            np.testing.assert_array_equal(fast.logits, exact.logits)


@pytest.mark.parametrize("orientation", [1, 3, 6, 7])
def test_boxes_and_maps_lie_where_they_do_in_the_callers_picture(
    server: Server, orientation: int
) -> None:
    objects = 0
    with Client(server.grpc) as client:
        for file in SCENES:
            picture = large_jpeg(file, orientation)
            (fast,) = client.detect(
                "fast_detector_dense", [picture], score_threshold=0.3
            ).images
            (exact,) = client.detect(
                "detector_dense", [picture], score_threshold=0.3
            ).images
            assert fast.size == exact.size == (LARGE[1], LARGE[0])
            if np.abs(exact.scores - 0.3).min(initial=1) > 0.01:
                assert fast.labels == exact.labels
                # A pixel of the model's input is 16 of the picture's.
                np.testing.assert_allclose(fast.boxes, exact.boxes, rtol=0, atol=8)
                objects += len(exact.labels)
            (seen,) = client.segment("fast_segmenter_dense", [picture]).images
            (whole,) = client.segment("segmenter_dense", [picture]).images
            assert seen.class_map.shape == whole.class_map.shape == LARGE[::-1]
            assert (seen.class_map != whole.class_map).mean() < 0.01
    assert objects >= 3


def test_a_comparison_gives_each_model_what_it_takes(server: Server) -> None:
    with Client(server.grpc) as client:
        found = client.compare(
            ["shapes", "fast_shapes"],
            [large_jpeg(SHAPES[0])],
            rounds=2,
            max_rounds=2,
            timeout=120,
        )
    _, fast = found.variants
    assert fast.agreement.same_top1 == 1
    assert fast.agreement.max_confidence_difference > 0


def test_an_explanation_is_of_what_the_model_sees_and_drawn_on_the_callers_picture(
    server: Server,
) -> None:
    query = "method=rollout&model="
    explained = []
    for name in ("shapes", "fast_shapes"):
        request = urllib.request.Request(
            f"http://{server.http}/v1/explain?{query}{name}", large_jpeg(SHAPES[0], 6)
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            explained.append(json.load(answer))
    exact, fast = explained
    assert exact["maps"][0]["values"] != fast["maps"][0]["values"]
    np.testing.assert_allclose(
        fast["maps"][0]["values"], exact["maps"][0]["values"], rtol=0.1, atol=1e-3
    )
    for found in explained:
        assert (found["width"], found["height"]) == LARGE
        png = base64.b64decode(found["maps"][0]["png"])
        assert Image.open(io.BytesIO(png)).size == LARGE


def test_what_is_damaged_is_refused_and_the_limits_are_the_files(
    repository: pathlib.Path, tmp_path: pathlib.Path, server: Server
) -> None:
    picture = large_jpeg(SHAPES[0])
    with (
        Client(server.grpc) as client,
        pytest.raises(Exception, match="stops before its end"),
    ):
        client.classify("fast_shapes", [picture[:-2000]])
    small = Server(
        tmp_path / "server.log",
        "--model-repository",
        str(repository),
        "--max-image-pixels",
        str(LARGE[0] * LARGE[1] - 1),
    )
    try:
        with (
            Client(small.grpc) as client,
            pytest.raises(Exception, match="at most 3131918"),
        ):
            client.classify("fast_shapes", [picture])
    finally:
        assert small.terminate() == 0
        small.close()
