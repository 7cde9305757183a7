"""A detector through a running server: what tritonclient reads of it is what the zoo computes."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from running_server import BUILD, Server

torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))

NAME = "detector"
OUTPUTS = {
    "boxes": ("FP32", [-1, 20, 4]),
    "scores": ("FP32", [-1, 20]),
    "labels": ("INT64", [-1, 20]),
    "counts": ("INT64", [-1]),
}
SIZES = [(64, 96), (72, 56)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("detection")
    (folder / NAME).mkdir()
    (folder / NAME / "model.textproto").write_text(
        'spec_version: 1\nbackbone: "resnet50"\ntask: DETECTION\nnum_classes: 5\n'
        'head { name: "retinanet" score_threshold: 0.3 detections_per_image: 20 }\n'
        "image_height: 64 image_width: 96\n"
        "further_image_sizes { height: 72 width: 56 }\n"
        "random_weights { seed: 1 }\nmax_batch_size: 2\n"
    )
    return folder


@pytest.fixture(scope="module")
def client(
    repository: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[triton.InferenceServerClient]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    server = Server(log, "--model-repository", str(repository))
    with triton.InferenceServerClient(server.grpc) as client:
        yield client
    assert server.terminate() == 0
    server.close()


def test_outputs_are_described(client: triton.InferenceServerClient) -> None:
    described = client.get_model_metadata(NAME).outputs
    assert {o.name: (o.datatype, list(o.shape)) for o in described} == OUTPUTS


@pytest.mark.parametrize("size", SIZES)
def test_detections_are_those_of_the_zoo(
    size: tuple[int, int], client: triton.InferenceServerClient
) -> None:
    pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(2))
    description = {
        "backbone": "resnet50",
        "task": "DETECTION",
        "head": "retinanet",
        "num_classes": 5,
        "detection": {"score_threshold": 0.3, "detections_per_image": 20},
        "image_height": size[0],
        "image_width": size[1],
        "random_weights_seed": 1,
    }
    model = torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)
    tensor = triton.InferInput("pixel_values", pixels.shape, "FP32")
    tensor.set_data_from_numpy(pixels.numpy())
    answer = client.infer(NAME, [tensor])
    for name, expected in zip(OUTPUTS, model.run(pixels), strict=True):
        found = answer.as_numpy(name)
        assert found.dtype == expected.numpy().dtype
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
    assert (answer.as_numpy("counts") > 0).all()


def test_one_output_can_be_asked_for(client: triton.InferenceServerClient) -> None:
    pixels = np.zeros((1, 3, *SIZES[0]), np.float32)
    tensor = triton.InferInput("pixel_values", pixels.shape, "FP32")
    tensor.set_data_from_numpy(pixels)
    answer = client.infer(
        NAME, [tensor], outputs=[triton.InferRequestedOutput("counts")]
    )
    assert [o.name for o in answer.get_response().outputs] == ["counts"]


def test_classes_are_refused_in_words(client: triton.InferenceServerClient) -> None:
    pixels = np.zeros((1, 3, *SIZES[0]), np.float32)
    tensor = triton.InferInput("pixel_values", pixels.shape, "FP32")
    tensor.set_data_from_numpy(pixels)
    wanted = triton.InferRequestedOutput("labels", class_count=2)
    with pytest.raises(triton.InferenceServerException, match="FP32") as refused:
        client.infer(NAME, [tensor], outputs=[wanted])
    assert refused.value.status() == "StatusCode.INVALID_ARGUMENT"
