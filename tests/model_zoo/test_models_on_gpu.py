"""Every backbone, attention and head gives on a GPU what it gives on the CPU. Skipped where there is none.

deploy/gpu-check.sh models
"""

from __future__ import annotations

import json

import pytest
import torch
from parity import BUILD  # noqa: F401 (loads the zoo)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU here"
)

# Of the largest difference to the standard deviation of the outputs. Sums run in another order on a GPU.
FP32_BOUND = 1e-3
HEADS = {
    "retinanet": "DETECTION",
    "mask_rcnn": "DETECTION",
    "cascade_mask_rcnn": "DETECTION",
    "semantic_fpn": "SEGMENTATION",
    "upernet": "SEGMENTATION",
}


def outputs(
    description: dict[str, object], device: str, batch: int = 2
) -> list[torch.Tensor]:
    model = torch.classes.fovea_models.Model(json.dumps(description), device, True)
    facts = json.loads(model.facts())
    shape = (batch, 3, facts["image_height"], facts["image_width"])
    random = torch.Generator().manual_seed(2)
    if facts["pixel_input"] == "UINT8":
        batch_of = (batch, *shape[2:], 3)
        pixels = torch.randint(0, 256, batch_of, generator=random, dtype=torch.uint8)
    else:
        pixels = torch.randn(shape, generator=random)
    return [output.cpu() for output in model.run(pixels.to(device))]


def distance(ours: torch.Tensor, expected: torch.Tensor) -> float:
    return float((ours - expected).abs().max() / expected.std())


@pytest.fixture(autouse=True)
def without_tf32():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("name", torch.ops.fovea_models.backbones())
def test_backbone(name: str):
    description = {"backbone": name, "random_weights_seed": 1}
    expected = outputs(description, "cpu")[0].float()
    ours = outputs(description, "cuda")[0].float()
    assert ours.isfinite().all()
    if expected.std() > 0:
        assert distance(ours, expected) <= FP32_BOUND
    for precision in ("BF16", "FP16"):
        half = outputs({**description, "precision": precision}, "cuda")[0].float()
        cpu = outputs({**description, "precision": "BF16"}, "cpu")[0].float()
        if expected.std() > 0:
            assert distance(half, expected) <= 2 * distance(cpu, expected) + FP32_BOUND


@pytest.mark.parametrize("attention", torch.ops.fovea_models.attentions())
@pytest.mark.parametrize("backbone", ["vit_demo_patch8_64", "linglo_demo"])
def test_attention(backbone: str, attention: str):
    text = "knn:k=0.5" if attention == "knn" else attention
    description = {
        "backbone": backbone,
        "attention": text,
        "random_weights_seed": 1,
        "num_classes": 7,
    }
    try:
        expected = outputs(description, "cpu")[0]
    except RuntimeError as refused:
        pytest.skip(f"refused in words: {str(refused).splitlines()[0]}")
    assert distance(outputs(description, "cuda")[0], expected) <= FP32_BOUND


@pytest.mark.parametrize("head", HEADS)
def test_head(head: str):
    description = {
        "backbone": "linglo_demo",
        "task": HEADS[head],
        "head": head,
        "head_channels": 32,
        "num_classes": 5,
        "random_weights_seed": 1,
    }
    expected, ours = outputs(description, "cpu"), outputs(description, "cuda")
    assert [one.shape for one in ours] == [one.shape for one in expected]
    if HEADS[head] == "SEGMENTATION":
        # Of classes that are as likely either may be told.
        assert (ours[0] == expected[0]).float().mean() > 0.999
    else:
        # Whether two boxes overlap too much is decided by rounding where weights are random.
        counts = zip(ours[3].flatten().tolist(), expected[3].flatten().tolist())
        assert all(abs(mine - theirs) <= 2 for mine, theirs in counts)
