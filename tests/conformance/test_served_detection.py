"""A detector through a running server: what tritonclient reads of it is what the zoo computes."""

from __future__ import annotations

import io
import itertools
import json
import pathlib
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from batched_answers import batch_size, differing, objects, until_batched
from PIL import Image
from running_server import BUILD, Server
from tritonclient.grpc import model_config_pb2

torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))

NAME = "detector"
PICTURES = "pictures"  # the same at sizes that follow from the sides of pictures
SIDES = (64, 96)
# Untrained scores lie around the prior, 0.01: some of the 20 best are above it and some below.
THRESHOLD = 0.025
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
        f'head {{ name: "retinanet" score_threshold: {THRESHOLD} detections_per_image: 20 }}\n'
        "image_height: 64 image_width: 96\n"
        "further_image_sizes { height: 72 width: 56 }\n"
        "random_weights { seed: 1 }\nmax_batch_size: 2\n"
    )
    (folder / PICTURES).mkdir()
    (folder / PICTURES / "model.textproto").write_text(
        'spec_version: 1\nbackbone: "resnet50"\ntask: DETECTION\nnum_classes: 5\n'
        f'head {{ name: "retinanet" score_threshold: {THRESHOLD} detections_per_image: 20 }}\n'
        f"preprocessing {{ shorter_side: {SIDES[0]} longer_side: {SIDES[1]} }}\n"
        "random_weights { seed: 1 }\nmax_batch_size: 4\n"
    )
    (folder / PICTURES / "labels.txt").write_text("cat\ndog\nhen\nowl\nyak\n")
    return folder


@pytest.fixture(scope="module")
def server(
    repository: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    server = Server(log, "--model-repository", str(repository))
    yield server
    assert server.terminate() == 0
    server.close()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(server.grpc) as client:
        yield client


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
        "detection": {"score_threshold": THRESHOLD, "detections_per_image": 20},
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


def test_the_configuration_says_the_same_without_the_batch(
    client: triton.InferenceServerClient,
) -> None:
    for name in (NAME, PICTURES):
        config = client.get_model_config(name).config
        assert config.max_batch_size > 0
        assert {
            o.name: (model_config_pb2.DataType.Name(o.data_type), list(o.dims))
            for o in config.output
        } == {
            o: (f"TYPE_{kind}", shape[1:] or [1])
            for o, (kind, shape) in OUTPUTS.items()
        }
        # Triton writes one number for each image so: PyTriton's clients want a dimension.
        assert [o.name for o in config.output if o.HasField("reshape")] == ["counts"]
        metadata = client.get_model_metadata(name)
        for listed, told in zip(metadata.inputs, config.input, strict=True):
            assert list(listed.shape) == [-1, *told.dims]
            assert model_config_pb2.DataType.Name(told.data_type) == "TYPE_FP32"


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


def noise(height: int, width: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def expected(picture: np.ndarray, bucket: tuple[int, int]) -> list[torch.Tensor]:
    """What the zoo finds in a picture that is already as large as the model wants it."""
    height, width, _ = picture.shape
    mean = torch.tensor([0.485, 0.456, 0.406])
    std = torch.tensor([0.229, 0.224, 0.225])
    pixels = torch.zeros(1, 3, *bucket)
    normalised = (torch.from_numpy(picture.copy()) / 255 - mean) / std
    pixels[0, :, :height, :width] = normalised.permute(2, 0, 1)
    description = {
        "backbone": "resnet50",
        "task": "DETECTION",
        "head": "retinanet",
        "num_classes": 5,
        "detection": {"score_threshold": THRESHOLD, "detections_per_image": 20},
        "image_height": bucket[0],
        "image_width": bucket[1],
        "random_weights_seed": 1,
    }
    return torch.classes.fovea_models.Model(
        json.dumps(description), "cpu", True
    ).run_pictures(pixels, [[height, width]])


# Sizes whose sides are the model's, so that nothing is resized; what holds each.
@pytest.mark.parametrize(
    "size,bucket", [((64, 90), (64, 96)), ((90, 64), (96, 64)), ((64, 64), (64, 64))]
)
def test_pictures_keep_their_shape(
    size: tuple[int, int],
    bucket: tuple[int, int],
    client: triton.InferenceServerClient,
) -> None:
    picture = noise(*size)
    tensor = triton.InferInput("image_rgb", [1, *size, 3], "UINT8")
    tensor.set_data_from_numpy(picture[None])
    answer = client.infer(PICTURES, [tensor])
    for name, wanted in zip(OUTPUTS, expected(picture, bucket), strict=True):
        np.testing.assert_allclose(
            answer.as_numpy(name), wanted.numpy(), rtol=1e-4, atol=1e-3
        )
    padding = 1 - size[0] * size[1] / (bucket[0] * bucket[1])
    receipt = answer.get_response().parameters
    assert receipt["fovea.padding"].double_param == pytest.approx(padding)


def test_pictures_of_several_sizes_share_one_answer(
    client: triton.InferenceServerClient,
) -> None:
    """Each has its places, as many as there are at most, and its count; those of one size share batches."""
    files = []
    sizes = [(64, 96), (200, 90), (1, 1), (64, 96), (33, 500), (64, 96)]
    for seed, size in enumerate(sizes):
        out = io.BytesIO()
        Image.fromarray(noise(*size, seed=seed)).save(out, "PNG")
        files.append(out.getvalue())

    def ask(*contents: bytes) -> triton.InferResult:
        elements = np.array([[one] for one in contents], dtype=object)
        tensor = triton.InferInput("image", elements.shape, "BYTES")
        tensor.set_data_from_numpy(elements)
        return client.infer(PICTURES, [tensor])

    together = until_batched(lambda: ask(*files), batch_size)
    alone = [ask(one) for one in files]
    assert all(batch_size(one) == 1 for one in alone)
    for name, (_, shape) in OUTPUTS.items():
        assert together.as_numpy(name).shape == (len(files), *shape[1:])
    # One object may be in one of the two alone: which of two near scores is the last, rounding decides.
    for image, one in enumerate(alone):
        assert differing(objects(together, image), objects(one)) <= 2
    same_size = [objects(alone[image]) for image in (0, 3, 5)]
    for one, other in itertools.combinations(same_size, 2):
        assert differing(one, other) > 2, "pictures that were swapped would be seen"
    counts = together.as_numpy("counts")
    assert counts.dtype == np.int64
    assert (counts > 0).any() and (counts < OUTPUTS["scores"][1][1]).any()
    for image, count in enumerate(counts):
        scores = together.as_numpy("scores")[image]
        assert (scores[:count] >= THRESHOLD).all() and (scores[count:] == 0).all()
        assert (together.as_numpy("boxes")[image, count:] == 0).all()


def test_the_command_line_finds_and_draws(
    server: Server,
    client: triton.InferenceServerClient,
    tmp_path: pathlib.Path,
) -> None:
    files = []
    for number, size in enumerate([(128, 180), (180, 128), (40, 40)]):
        files.append(str(tmp_path / f"{number:012}.png"))
        Image.fromarray(noise(*size, seed=number)).save(files[-1])
    done = subprocess.run(
        [
            *(str(BUILD / "bin" / "fovea"), "--server", server.grpc, "detect"),
            *("--model", PICTURES, "--score-threshold", "0.026", "--json"),
            *("--output", str(tmp_path / "drawn"), *files),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    results = json.loads(done.stdout)
    for number, file in enumerate(files):
        tensor = triton.InferInput("image", [1, 1], "BYTES")
        contents = pathlib.Path(file).read_bytes()
        tensor.set_data_from_numpy(np.array([[contents]], dtype=object))
        answer = client.infer(PICTURES, [tensor])
        count = int((answer.as_numpy("scores")[0] >= 0.026).sum())
        of_image = [one for one in results if one["image_id"] == number]
        assert len(of_image) == count > 0
        left, top, right, bottom = answer.as_numpy("boxes")[0, 0]
        np.testing.assert_allclose(
            of_image[0]["bbox"], [left, top, right - left, bottom - top], atol=1e-2
        )
        assert of_image[0]["category_name"] in {"cat", "dog", "hen", "owl", "yak"}
        with Image.open(tmp_path / "drawn" / f"{number:012}.png") as drawn:
            assert drawn.width >= 480
