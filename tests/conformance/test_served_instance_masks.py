"""Instance masks through a running server: the probabilities that tritonclient reads, pasted by torchvision's code, and
by mmdetection's definition, are the masks that the command line gets."""

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
from batched_answers import (
    batch_size,
    differing,
    objects,
    same_objects,
    until_batched,
)
from PIL import Image
from published_masks import mmdetection_masks
from pycocotools import mask as coco
from running_server import BUILD, Server
from torchvision.models.detection.roi_heads import paste_masks_in_image

MOST = 12
BATCHES = "batches"  # a model that takes several pictures at once
# A picture of the shape that the model wants, one that it sees smaller, and one that it sees larger.
PICTURES = [(64, 96), (128, 150), (30, 41)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("instances")
    for name, conventions, batch in [
        ("TORCHVISION", "TORCHVISION", 1),
        ("MMDETECTION", "MMDETECTION", 1),
        (BATCHES, "TORCHVISION", 4),
    ]:
        (folder / name).mkdir()
        (folder / name / "model.textproto").write_text(
            'spec_version: 1\nbackbone: "linglo_b0"\ntask: DETECTION\nnum_classes: 3\n'
            f'head {{ name: "mask_rcnn" channels: 64 conventions: {conventions} detections_per_image: {MOST} }}\n'
            "preprocessing { shorter_side: 64 longer_side: 96 }\n"
            f"random_weights {{ seed: 2 }}\nmax_batch_size: {batch}\n"
        )
    server = Server(
        tmp_path_factory.mktemp("log") / "server.log", "--model-repository", str(folder)
    )
    yield server
    assert server.terminate() == 0
    server.close()


def pasted(
    conventions: str,
    masks: torch.Tensor,
    boxes: torch.Tensor,
    size: tuple[int, int],
) -> torch.Tensor:
    """Probabilities [n, height, width] in a picture."""
    if conventions == "TORCHVISION":
        return paste_masks_in_image(masks[:, None], boxes, size)[:, 0]
    return mmdetection_masks(masks, boxes, size)


@pytest.mark.parametrize("conventions", ["TORCHVISION", "MMDETECTION"])
def test_masks_are_pasted_by_the_models_conventions(
    conventions: str, server: Server, tmp_path: pathlib.Path
) -> None:
    files = []
    for number, size in enumerate(PICTURES):
        noise = np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)
        files.append(tmp_path / f"{number:012}.png")
        Image.fromarray(noise).save(files[-1])
    done = subprocess.run(
        [
            *(str(BUILD / "bin" / "fovea"), "--server", server.grpc, "detect"),
            *("--model", conventions, "--score-threshold", "0", "--json"),
            *("--output", str(tmp_path / "drawn"), *map(str, files)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    results = json.loads(done.stdout)
    with triton.InferenceServerClient(server.grpc) as client:
        described = {o.name: o for o in client.get_model_metadata(conventions).outputs}
        assert list(described["masks"].shape) == [-1, MOST, 28, 28]
        for number, (file, size) in enumerate(zip(files, PICTURES, strict=True)):
            tensor = triton.InferInput("image", [1, 1], "BYTES")
            tensor.set_data_from_numpy(np.array([[file.read_bytes()]], dtype=object))
            answer = client.infer(conventions, [tensor])
            count = int(answer.as_numpy("counts")[0])
            assert count > 0
            boxes, masks = (
                torch.from_numpy(answer.as_numpy(name)[0, :count].copy())
                for name in ("boxes", "masks")
            )
            probable = pasted(conventions, masks, boxes, size)
            decided = (probable - 0.5).abs() > 1e-4
            told = [one for one in results if one["image_id"] == number]
            assert len(told) == count
            shown = 0
            for one, expected, sure in zip(told, probable, decided, strict=True):
                assert one["segmentation"]["size"] == list(size)
                mask = coco.decode(one["segmentation"]).astype(bool)
                wrong = (mask != (expected >= 0.5).numpy()) & sure.numpy()
                assert not wrong.any()
                shown += int(mask.sum())
            assert shown > 0
            with Image.open(tmp_path / "drawn" / f"{number:012}.png") as drawn:
                assert drawn.width >= 300


def test_pictures_of_several_sizes_share_one_tensor_of_masks(server: Server) -> None:
    files = []
    sizes = [*PICTURES, PICTURES[0], PICTURES[0]]
    for number, size in enumerate(sizes):
        out = io.BytesIO()
        pixels = np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)
        Image.fromarray(pixels).save(out, "PNG")
        files.append([out.getvalue()])

    with triton.InferenceServerClient(server.grpc) as client:

        def ask(contents: list[list[bytes]]) -> triton.InferResult:
            tensor = triton.InferInput("image", [len(contents), 1], "BYTES")
            tensor.set_data_from_numpy(np.array(contents, dtype=object))
            return client.infer(BATCHES, [tensor])

        together = until_batched(lambda: ask(files), batch_size)
        alone = [ask([one]) for one in files]
    masks, counts = together.as_numpy("masks"), together.as_numpy("counts")
    assert masks.shape == (len(files), MOST, 28, 28)
    for image, (count, one) in enumerate(zip(counts, alone, strict=True)):
        assert count > 0
        found, expected = objects(together, image), objects(one)
        # A proposal that rounding has let in or out may suppress an object, or be one.
        assert differing(found, expected) <= 4
        for place, other in same_objects(found, expected):
            np.testing.assert_allclose(
                masks[image, place], one.as_numpy("masks")[0, other], atol=2e-3
            )
        assert (masks[image, count:] == 0).all()
    same_size = [objects(alone[image]) for image in (0, 3, 4)]
    for one, other in itertools.combinations(same_size, 2):
        assert differing(one, other) > 4, "pictures that were swapped would be seen"
