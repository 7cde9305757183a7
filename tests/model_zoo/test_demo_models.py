"""The bundled demo models against timm with the same trained weights, on a thousand validation pictures."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import numpy
import pytest
import safetensors.torch
import torch
from PIL import Image
from published_knn import knn_attention
from timm.layers import Attention
from timm.models import VisionTransformer

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
DEMO = ROOT / "model_zoo" / "demo"
torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))

IMAGES = 1000
SIDE, GAP, CLASSES = 64, 2, 10
# Folder, the folder with its weights, and how many of its 65 keys a query keeps.
MODELS = [
    ("shapes", "shapes", None),
    ("shapes_knn", "shapes", 33),
    ("shapes_with_knn", "shapes_with_knn", 33),
]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> torch.Tensor:
    """Validation pictures of four seeds, cut from the trainer's contact sheets, as UINT8 [N, H, W, 3]."""
    folder = tmp_path_factory.mktemp("pictures")
    tiles = []
    for seed in range(1, 5):
        sheet = folder / f"{seed}.png"
        command = [BUILD / "bin" / "fovea-train", "--contact-sheet", sheet]
        subprocess.run([*command, "--seed", str(seed)], check=True, timeout=120)
        pixels = numpy.asarray(Image.open(sheet).convert("RGB"))
        for top in range(0, pixels.shape[0], SIDE + GAP):
            for left in range(0, pixels.shape[1], SIDE + GAP):
                tiles.append(pixels[top : top + SIDE, left : left + SIDE])
    assert len(tiles) >= IMAGES
    return torch.from_numpy(numpy.stack(tiles[:IMAGES]))


def normalised(pictures: torch.Tensor) -> torch.Tensor:
    return ((pictures.float() / 255 - 0.5) / 0.5).permute(0, 3, 1, 2).contiguous()


def keep(k: int):
    """timm's Attention with the published k-NN attention inside."""

    def forward(
        self: Attention, x: torch.Tensor, *_: object, **__: object
    ) -> torch.Tensor:
        return knn_attention(self, x, k)

    return forward


@pytest.mark.parametrize(("folder", "weights", "k"), MODELS)
def test_trained_demo_models_answer_as_timm(
    folder: str,
    weights: str,
    k: int | None,
    pictures: torch.Tensor,
    monkeypatch: pytest.MonkeyPatch,
    record_property,
) -> None:
    if k is not None:
        monkeypatch.setattr(Attention, "forward", keep(k))
    file = DEMO / weights / "1" / "model.safetensors"
    reference = VisionTransformer(
        img_size=SIDE,
        patch_size=8,
        embed_dim=128,
        depth=6,
        num_heads=4,
        mlp_ratio=2,
        num_classes=CLASSES,
    ).eval()
    reference.load_state_dict(
        {name: t.float() for name, t in safetensors.torch.load_file(file).items()}
    )
    others = {
        precision: torch.classes.fovea_models.Model(
            json.dumps(
                {
                    "backbone": "vit_demo_patch8_64",
                    "attention": "dense" if k is None else "knn:k=0.5",
                    "num_classes": CLASSES,
                    "precision": precision,
                    "weights": str(file),
                }
            ),
            "cpu",
            True,
        )
        for precision in ("BF16", "INT8")
    }
    agreed = {"FP32": 0, "BF16": 0, "INT8": 0}
    worst = 0.0
    classes = set()
    for batch in pictures.split(100):
        pixels = normalised(batch)
        with torch.inference_mode():
            expected = reference(pixels)
        (fp32,) = torch.ops.fovea_models.run(str(DEMO / folder), pixels)
        answer = expected.argmax(-1)
        agreed["FP32"] += (fp32.argmax(-1) == answer).sum().item()
        for precision, model in others.items():
            (logits,) = model.run(pixels)
            agreed[precision] += (logits.argmax(-1) == answer).sum().item()
        worst = max(worst, ((fp32 - expected).abs().max() / expected.std()).item())
        classes.update(answer.tolist())
    record_property("agreed", agreed)
    print(f"{folder}: agreed {agreed} of {IMAGES}, fp32 error {worst:.1e}")
    assert len(classes) == CLASSES  # a model that always says the same would agree too
    assert min(agreed.values()) >= 0.99 * IMAGES
    if k is None:
        assert worst <= 1e-3
