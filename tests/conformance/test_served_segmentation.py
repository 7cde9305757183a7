"""A segmenter through a running server: the class maps that tritonclient reads are the largest of the zoo's logits."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from batched_answers import batch_size, until_batched
from running_server import BUILD, Server
from torch.nn import functional

torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))

NAME = "segmenter"
CLASSES = 6
SEED = 11  # of weights that tell noise apart; with some all of it is one class


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[triton.InferenceServerClient]:
    folder = tmp_path_factory.mktemp("segmentation")
    (folder / NAME).mkdir()
    (folder / NAME / "model.textproto").write_text(
        f'spec_version: 1\nbackbone: "resnet50"\ntask: SEGMENTATION\nnum_classes: {CLASSES}\n'
        'head { name: "semantic_fpn" }\n'
        "preprocessing { shorter_side: 64 longer_side: 96 }\n"
        f"random_weights {{ seed: {SEED} }}\nmax_batch_size: 2\n"
        # Pictures share a batch, whether or not that pays on this machine.
        "instance_group { count: 1 }\n"
        "dynamic_batching { max_queue_delay_microseconds: 20000 }\n"
    )
    log = tmp_path_factory.mktemp("log") / "server.log"
    server = Server(log, "--model-repository", str(folder))
    with triton.InferenceServerClient(server.grpc) as client:
        yield client
    assert server.terminate() == 0
    server.close()


def logits_of(pixels: torch.Tensor) -> torch.Tensor:
    description = {
        "backbone": "resnet50",
        "task": "SEGMENTATION",
        "head": "semantic_fpn",
        "num_classes": CLASSES,
        "image_height": pixels.shape[2],
        "image_width": pixels.shape[3],
        "random_weights_seed": SEED,
    }
    model = torch.classes.fovea_models.Model(json.dumps(description), "cpu", True)
    return model.run(pixels)[0]


def check_map(
    found: np.ndarray, logits: torch.Tensor, size: tuple[int, int], crop: tuple
) -> None:
    """Equal but where two classes are as likely, which rounding decides."""
    large = functional.interpolate(
        logits, size=size, mode="bilinear", align_corners=False
    )[..., : crop[0], : crop[1]]
    two = large.topk(2, dim=1).values
    decided = (two[:, 0] - two[:, 1]) > 1e-3 * large.std()
    assert decided.float().mean() > 0.95
    expected = large.argmax(1).numpy()
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found[decided.numpy()], expected[decided.numpy()])
    assert len(np.unique(found)) > 1


def test_outputs_are_described(client: triton.InferenceServerClient) -> None:
    described = client.get_model_metadata(NAME).outputs
    assert {o.name: (o.datatype, list(o.shape)) for o in described} == {
        "class_map": ("UINT8", [-1, -1, -1]),
        "logits": ("FP32", [-1, CLASSES, -1, -1]),
    }


def test_pixels_get_their_classes(client: triton.InferenceServerClient) -> None:
    pixels = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(2))
    tensor = triton.InferInput("pixel_values", pixels.shape, "FP32")
    tensor.set_data_from_numpy(pixels.numpy())
    answer = client.infer(NAME, [tensor])
    logits = logits_of(pixels)
    np.testing.assert_allclose(
        answer.as_numpy("logits"), logits.numpy(), rtol=1e-3, atol=1e-3
    )
    assert answer.as_numpy("class_map").dtype == np.uint8
    check_map(answer.as_numpy("class_map"), logits, (64, 96), (64, 96))


def test_a_picture_gets_them_at_its_own_size(
    client: triton.InferenceServerClient,
) -> None:
    height, width = 64, 80  # in 64x96, filled up
    picture = np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
    tensor = triton.InferInput("image_rgb", [1, height, width, 3], "UINT8")
    tensor.set_data_from_numpy(picture[None])
    wanted = triton.InferRequestedOutput("class_map")
    answer = client.infer(NAME, [tensor], outputs=[wanted])
    assert [o.name for o in answer.get_response().outputs] == ["class_map"]
    mean = torch.tensor([0.485, 0.456, 0.406])
    std = torch.tensor([0.229, 0.224, 0.225])
    pixels = torch.zeros(1, 3, 64, 96)
    normalised = (torch.from_numpy(picture) / 255 - mean) / std
    pixels[..., :width] = normalised.permute(2, 0, 1)
    check_map(
        answer.as_numpy("class_map"), logits_of(pixels), (64, 96), (height, width)
    )


def test_a_large_picture_keeps_its_resolution(
    client: triton.InferenceServerClient,
) -> None:
    picture = np.random.default_rng(3).integers(0, 256, (300, 201, 3), np.uint8)
    tensor = triton.InferInput("image_rgb", [1, 300, 201, 3], "UINT8")
    tensor.set_data_from_numpy(picture[None])
    answer = client.infer(NAME, [tensor])
    assert answer.as_numpy("class_map").shape == (1, 300, 201)


def test_pictures_of_one_size_share_one_tensor(
    client: triton.InferenceServerClient,
) -> None:
    pictures = np.random.default_rng(4).integers(0, 256, (3, 40, 75, 3), np.uint8)

    def ask(images: np.ndarray) -> triton.InferResult:
        tensor = triton.InferInput("image_rgb", images.shape, "UINT8")
        tensor.set_data_from_numpy(images)
        return client.infer(NAME, [tensor])

    shared = until_batched(lambda: ask(pictures), batch_size)
    together = shared.as_numpy("class_map")
    assert together.shape == (3, 40, 75)
    alone = np.concatenate([ask(one[None]).as_numpy("class_map") for one in pictures])
    # But for what a batch of another number of images rounds otherwise.
    assert (together != alone).mean() < 0.01
    assert (together[0] != together[1]).any()


def test_the_configuration_leaves_the_batch_out(
    client: triton.InferenceServerClient,
) -> None:
    outputs = client.get_model_config(NAME, as_json=True)["config"]["output"]
    assert [(o["name"], o["data_type"], o["dims"]) for o in outputs] == [
        ("class_map", "TYPE_UINT8", ["-1", "-1"]),
        ("logits", "TYPE_FP32", [str(CLASSES), "-1", "-1"]),
    ]


def test_pictures_of_several_sizes_do_not_fit_one_tensor(
    client: triton.InferenceServerClient,
) -> None:
    png = (
        pathlib.Path(__file__).parents[1] / "server/imaging/data/rgb_8.png"
    ).read_bytes()
    jpeg = (pathlib.Path(__file__).parents[2] / "client/examples/star.jpg").read_bytes()
    tensor = triton.InferInput("image", [2, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[png], [jpeg]], dtype=object))
    with pytest.raises(triton.InferenceServerException, match="one by one") as refused:
        client.infer(NAME, [tensor])
    assert refused.value.status() == "StatusCode.INVALID_ARGUMENT"
