"""A published model, imported and served: its answers through the running server are timm's on the same weights."""

from __future__ import annotations

import io
import pathlib
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
import safetensors.torch
import timm
import torch
import tritonclient.grpc as triton
from PIL import Image
from published_knn import is_decided_by_rounding, knn_attention
from running_server import ROOT, Server
from timm.data import create_transform, resolve_data_config
from timm.layers import Attention, resample_abs_pos_embed

NAME = "deit_tiny_patch16_224"
KEYS = 100  # of 197, as in the paper
FURTHER_SIZE = (160, 192)
TOLERANCE = 1e-3  # of the logits' standard deviation


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A repository with the imported model, and its weights again under k-NN attention."""
    folder = tmp_path_factory.mktemp("imported")
    script = "import sys; from fovea.importer import main; sys.exit(main())"
    command = [
        ROOT / ".venv/bin/python",
        "-c",
        script,
        f"timm:{NAME}",
        "--random",
        "--seed",
        "3",
        "--out",
        folder,
    ]
    subprocess.run(
        [str(part) for part in command], check=True, timeout=300, cwd=ROOT / "client/python"
    )  # fmt: skip
    spec = folder / NAME / "model.textproto"
    height, width = FURTHER_SIZE
    text = spec.read_text().replace(f'name: "{NAME}"\n', "") + (
        "\nmax_batch_size: 2\n"
        f"further_image_sizes {{ height: {height} width: {width} }}\n"
    )
    spec.write_text(text)
    twin = folder / "with_knn"
    (twin / "1").mkdir(parents=True)
    (twin / "model.textproto").write_text(
        f'{text}\nattention: "knn:k={KEYS}"\nweights_of: "{NAME}"\n'
    )
    return folder


@pytest.fixture(scope="module")
def client(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[triton.InferenceServerClient]:
    log = tmp_path_factory.mktemp("parity") / "server.log"
    server = Server(log, "--model-repository", str(models))
    with triton.InferenceServerClient(server.grpc) as client:
        yield client
    assert server.terminate() == 0
    server.close()


@pytest.fixture
def reference(models: pathlib.Path) -> torch.nn.Module:
    model = timm.create_model(NAME).eval()
    model.load_state_dict(
        safetensors.torch.load_file(models / NAME / "1/model.safetensors")
    )
    return model


def published_knn(
    self: Attention, x: torch.Tensor, *_: object, **__: object
) -> torch.Tensor:
    return knn_attention(self, x, KEYS)


def served(
    client: triton.InferenceServerClient, model: str, name: str, values: np.ndarray
) -> np.ndarray:
    datatype = {"pixel_values": "FP32", "image": "BYTES"}[name]
    tensor = triton.InferInput(name, values.shape, datatype)
    tensor.set_data_from_numpy(values)
    return client.infer(model, [tensor]).as_numpy("logits")


def error_of(actual: np.ndarray, expected: torch.Tensor) -> float:
    """Of the logits' standard deviation."""
    error = np.abs(actual - expected.numpy()).max() / expected.std().item()
    print(f"largest difference over standard deviation: {error:.1e}")
    return error


def assert_same(actual: np.ndarray, expected: torch.Tensor) -> None:
    assert error_of(actual, expected) <= TOLERANCE


def test_dense_logits_are_timms(client, reference):
    pixels = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert_same(
            served(client, NAME, "pixel_values", pixels.numpy()), reference(pixels)
        )


def test_a_loaded_model_runs_at_its_further_sizes_as_timms_does(client, models):
    parameters = client.get_model_config(NAME).config.parameters
    assert parameters["fovea.sizes"].string_value == "224x224; 160x192"
    weights = safetensors.torch.load_file(models / NAME / "1/model.safetensors")
    weights["pos_embed"] = resample_abs_pos_embed(
        weights["pos_embed"], new_size=[side // 16 for side in FURTHER_SIZE]
    )
    reference = timm.create_model(NAME, img_size=FURTHER_SIZE).eval()
    reference.load_state_dict(weights)
    pixels = torch.randn(2, 3, *FURTHER_SIZE)
    with torch.inference_mode():
        assert_same(
            served(client, NAME, "pixel_values", pixels.numpy()), reference(pixels)
        )
    with pytest.raises(triton.InferenceServerException) as refused:
        served(client, NAME, "pixel_values", pixels[..., :176].numpy())
    assert "[-1,3,224,224] or [-1,3,160,192]" in str(refused.value)


def test_knn_logits_are_those_of_the_published_form(client, reference, monkeypatch):
    """Of five images; two at most are set aside where rounding decides them in the published form as well."""
    monkeypatch.setattr(Attention, "forward", published_knn)
    pixels = torch.randn(5, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    aside = []
    with torch.inference_mode():
        for seed, image in enumerate(pixels.split(1)):
            logits = served(client, "with_knn", "pixel_values", image.numpy())
            if error_of(logits, reference(image)) > TOLERANCE:
                aside.append(seed)
                assert is_decided_by_rounding(reference, image, TOLERANCE, seed)
    assert len(aside) <= 2


def test_a_file_is_preprocessed_as_timm_does(client, reference):
    values = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(values).resize((500, 375), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "JPEG")
    transform = create_transform(**resolve_data_config({}, model=reference))
    pixels = transform(Image.open(file).convert("RGB"))[None]
    encoded = np.array([[file.getvalue()]], dtype=np.object_)
    with torch.inference_mode():
        assert_same(served(client, NAME, "image", encoded), reference(pixels))
