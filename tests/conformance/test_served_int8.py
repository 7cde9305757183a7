"""`fovea quantize`, and what it writes: served over both protocols, and refused in words where it cannot be written."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest
import safetensors.numpy
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from PIL import Image
from running_server import BUILD, DEMO, Server

MODEL = "shapes"
CALIBRATION, DATASET = 160, 300


def quantize(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in (BUILD / "bin/fovea", "quantize", *arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )


def shapes(folder: pathlib.Path, seed: int, count: int) -> pathlib.Path:
    """Pictures that the trainer draws, in a folder for each class."""
    options = ["--seed", seed, "--write-shapes", folder, "--shape-count", count]
    command = [BUILD / "bin/fovea-train", *options]
    subprocess.run([str(part) for part in command], check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shapes(tmp_path_factory.mktemp("pictures") / "some", 11, CALIBRATION)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shapes(tmp_path_factory.mktemp("dataset") / "others", 12, DATASET)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(DEMO / MODEL, folder / MODEL)
    # By token, which needs nothing but the word.
    copy = shutil.copytree(DEMO / MODEL, folder / "by_token")
    spec = copy / "model.textproto"
    text = spec.read_text()
    for old, new in ((f'name: "{MODEL}"', 'name: "by_token"'), ("FP32", "INT8")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    spec.write_text(text)
    return folder


@pytest.fixture(scope="module")
def report(
    repository: pathlib.Path, pictures: pathlib.Path, dataset: pathlib.Path
) -> dict:
    options = ["--calibrate", pictures, "--dataset", dataset, "--json"]
    done = quantize(repository / MODEL, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server(
    repository: pathlib.Path, report: dict, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    running = Server(log, "--model-repository", str(repository))
    yield running
    assert running.terminate() == 0
    running.close()


def test_the_report_tells_what_changed(report: dict, repository: pathlib.Path) -> None:
    assert report["out"] == str(repository / f"{MODEL}_int8")
    assert report["calibration_pictures"] == CALIBRATION
    assert report["pictures"] == DATASET
    assert report["agreement"] >= 0.99
    assert 0 < report["kl_nats"] < 0.05
    accuracy = report["accuracy"]
    assert accuracy["fp32"] > 0.9 and abs(accuracy["fp32"] - accuracy["int8"]) <= 0.01
    # Four layers in each of six blocks.
    assert len(report["layers"]) == 24
    assert any(layer["scales"] == "channel" for layer in report["layers"])
    bytes_ = report["weight_bytes"]
    assert bytes_["int8"] < 0.5 * bytes_["fp32"]
    for speeds in report["images_per_second"].values():
        assert min(speeds.values()) > 0


def test_the_folder_holds_the_weights_and_the_scales(
    report: dict, repository: pathlib.Path
) -> None:
    files = [
        safetensors.numpy.load_file(repository / name / "1/model.safetensors")
        for name in (MODEL, f"{MODEL}_int8")
    ]
    published, written = files
    scales = {
        layer["name"] for layer in report["layers"] if layer["scales"] == "channel"
    }
    assert written.keys() - published.keys() == {
        f"{name}.input_scales" for name in scales
    }
    for name, tensor in published.items():
        np.testing.assert_array_equal(written[name], tensor.astype(np.float32))
    for name in scales:
        assert written[f"{name}.input_scales"].min() > 0
    check = subprocess.run(
        [BUILD / "bin/fovea-check", repository / f"{MODEL}_int8"], check=False
    )
    assert check.returncode == 0


@pytest.mark.parametrize("name", [f"{MODEL}_int8", "by_token"])
def test_it_is_served_over_both_protocols(
    server: Server, name: str, dataset: pathlib.Path
) -> None:
    images = [
        np.asarray(Image.open(file)) for file in sorted(dataset.rglob("*.png"))[:16]
    ]
    pixels = ((np.stack(images) / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2)
    pixels = np.ascontiguousarray(pixels, np.float32)
    answers = []
    with (
        triton.InferenceServerClient(server.grpc) as grpc,
        triton_http.InferenceServerClient(server.http) as http,
    ):
        assert (
            grpc.get_model_config(name)
            .config.parameters["fovea.precision"]
            .string_value
            == "INT8"
        )
        for client, library in ((grpc, triton), (http, triton_http)):
            value = library.InferInput("pixel_values", list(pixels.shape), "FP32")
            value.set_data_from_numpy(pixels)
            answers.append(client.infer(name, [value]).as_numpy("logits"))
        value = triton.InferInput("pixel_values", list(pixels.shape), "FP32")
        value.set_data_from_numpy(pixels)
        exact = grpc.infer(MODEL, [value]).as_numpy("logits")
    np.testing.assert_array_equal(*answers)
    # One that two classes nearly share may go to the other.
    assert (answers[0].argmax(-1) == exact.argmax(-1)).sum() >= len(images) - 1
    assert 0 < np.abs(answers[0] - exact).max() < 0.25 * exact.std()
    url = f"http://{server.http}/v2/models/{name}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert json.load(answer)["properties"]["fovea.precision"] == "INT8"


def test_without_a_data_set_a_quarter_of_the_pictures_is_kept_back(
    repository: pathlib.Path, pictures: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "small"
    done = quantize(repository / MODEL, "--calibrate", pictures, "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"calibrated with {CALIBRATION * 3 // 4} pictures" in done.stdout
    assert f"on {CALIBRATION // 4} pictures, with which it was not" in done.stdout
    assert "accuracy" not in done.stdout
    assert (out / "model.textproto").read_text().count("precision: INT8") == 1
    again = quantize(repository / MODEL, "--calibrate", pictures, "--out", out)
    assert again.returncode == 1
    assert f"{out} exists already" in again.stderr


def leave_readable(folder: pathlib.Path, places: set[int]) -> None:
    """Breaks the other pictures of the folder than those of these places in the order of their names."""
    for place, file in enumerate(sorted(folder.rglob("*.png"))):
        if place not in places:
            file.write_bytes(b"no picture")


def test_of_more_pictures_it_reads_as_many_as_are_wanted_spread_over_the_folder(
    repository: pathlib.Path,
    pictures: pathlib.Path,
    dataset: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    """The others cannot be read. Of fewer than eight none is kept back."""
    few = shutil.copytree(pictures, tmp_path / "few")
    leave_readable(few, {place * CALIBRATION // 7 for place in range(7)})
    options = ["--calibrate", few, "--pictures", 7, "--json"]
    done = quantize(repository / MODEL, *options, "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["calibration_pictures"], report["pictures"]) == (7, 7)
    assert report["measured_on_calibration_pictures"] is True

    labelled = shutil.copytree(dataset, tmp_path / "labelled")
    leave_readable(labelled, {place * DATASET // 7 for place in range(7)})
    options = ["--calibrate", few, "--dataset", labelled, "--pictures", 7]
    done = quantize(repository / MODEL, *options, "--out", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert "against fp32 on 7 pictures of the data set:" in done.stdout


def test_what_cannot_be_done_is_refused_in_words(
    repository: pathlib.Path, pictures: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "1.png").write_bytes(b"no picture")
    other = tmp_path / "other"
    (other / "elephant").mkdir(parents=True)
    shutil.copy(next(pictures.rglob("*.png")), other / "elephant" / "1.png")
    # Read when the folder has been written.
    (tmp_path / "data" / "star").mkdir(parents=True)
    data = shutil.copy(broken / "1.png", tmp_path / "data" / "star" / "2.png")
    out = tmp_path / "out"
    cases = {
        (tmp_path / "nothing", "--calibrate", pictures): "there is no model folder",
        (repository / MODEL, "--calibrate", tmp_path / "nowhere"): "nowhere",
        (repository / MODEL, "--calibrate", empty): "holds no picture",
        (repository / MODEL, "--calibrate", broken): f"{broken / '1.png'}: ",
        (repository / MODEL, "--calibrate", pictures, "--dataset", other): "elephant",
        (repository / MODEL, "--calibrate", pictures, "--dataset", data.parents[1]): (
            f"{data}: "
        ),
        (DEMO / "detector_dense", "--calibrate", pictures): "is for detection",
    }
    for arguments, words in cases.items():
        refused = quantize(*arguments, "--out", out)
        assert refused.returncode == 1, arguments
        assert refused.stderr.startswith("fovea-quantize: "), refused.stderr
        assert words in refused.stderr
        assert not out.exists()
    assert quantize(repository / MODEL).returncode == 2


def test_scales_that_are_wrong_are_refused_when_the_model_loads(
    report: dict, repository: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    name = next(
        layer["name"] for layer in report["layers"] if layer["scales"] == "channel"
    )
    good = safetensors.numpy.load_file(
        repository / f"{MODEL}_int8" / "1/model.safetensors"
    )
    scales = good[f"{name}.input_scales"]
    for wrong, words in (
        (np.zeros_like(scales), "is not between"),
        (scales[:-1], "the input scales are"),
    ):
        folder = shutil.copytree(
            repository / f"{MODEL}_int8",
            tmp_path / "wrong" / f"{MODEL}_int8",
            dirs_exist_ok=True,
        )
        safetensors.numpy.save_file(
            {**good, f"{name}.input_scales": wrong}, folder / "1/model.safetensors"
        )
        done = subprocess.run(
            [BUILD / "bin/fovea-check", folder],
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 1
        assert f"{name}.input_scales" in done.stdout and words in done.stdout
