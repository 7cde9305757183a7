"""UPerNet against transformers on the same seeded weights, stage by stage; SemanticFPN against a second implementation."""

from __future__ import annotations

import copy
import json
import pathlib
import sys

import pytest
import torch
from mmsegmentation_reference import SemanticFpn, own_name
from parity import BUILD, distance, facts_of, perturbed, save
from torch.nn import functional
from torchvision.models import resnet50
from transformers import SwinConfig, UperNetConfig, UperNetForSemanticSegmentation
from weights_like_trained import settled

sys.path.insert(0, str(BUILD.parents[1] / "client" / "python"))
from fovea.published.transformers_weights import published_names

CLASSES = 17
# At the second neither windows nor maps divide. The coarsest maps are larger than a window: where one fits into a window,
# transformers' Swin shifts it as a backbone and not as a classifier; ours never does.
SIZES = [(256, 288), (260, 300)]
# What strides divide is the easier one.
TRIED = [pytest.param(SIZES[0], marks=pytest.mark.full), SIZES[1]]


def published_model(size: tuple[int, int]) -> UperNetForSemanticSegmentation:
    """Swin-T's; the attention's biases follow from the window, which no input size changes."""
    backbone = SwinConfig(
        image_size=size[0],
        embed_dim=96,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=7,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    torch.manual_seed(0)
    return UperNetForSemanticSegmentation(
        UperNetConfig(backbone_config=backbone, num_labels=CLASSES)
    )


@pytest.fixture(scope="module")
def published() -> UperNetForSemanticSegmentation:
    model = perturbed(published_model(SIZES[0]), "upernet")
    settled(model, torch.randn(2, 3, *SIZES[0]))
    return model.eval()


@pytest.fixture(scope="module")
def weights(
    published: UperNetForSemanticSegmentation, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    path = tmp_path_factory.mktemp("upernet") / "model.safetensors"
    save(published_names("upernet", published.state_dict()), path)
    return path


def pixels_of(size: tuple[int, int], images: int = 2) -> torch.Tensor:
    return torch.randn(
        images, 3, *size, generator=torch.Generator().manual_seed(images)
    )


def ours(weights: pathlib.Path, size: tuple[int, int], **options: object):
    return torch.classes.fovea_models.Model(
        json.dumps(
            {
                "backbone": "swin_tiny_patch4_window7_224",
                "task": "SEGMENTATION",
                "head": "upernet",
                "num_classes": CLASSES,
                "weights": str(weights),
                "image_height": size[0],
                "image_width": size[1],
                **options,
            }
        ),
        "cpu",
        True,
    )


def stages(
    model: UperNetForSemanticSegmentation, pixels: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What our head records, and the logits before they are brought to the pixels' size."""
    head = model.decode_head
    kept: dict[str, torch.Tensor] = {}
    hooks = [
        head.bottleneck.register_forward_hook(
            lambda *call: kept.update(pooled=call[-1])
        ),
        head.fpn_bottleneck.register_forward_hook(
            lambda *call: kept.update(fused=call[-1])
        ),
    ]
    with torch.inference_mode():
        maps = model.backbone(pixels).feature_maps
        kept["coarsest"] = maps[-1]
        kept["logits"] = head(maps)
    for hook in hooks:
        hook.remove()
    return kept


@pytest.mark.parametrize("size", TRIED)
def test_every_stage_is_transformers(
    size: tuple[int, int],
    published: UperNetForSemanticSegmentation,
    weights: pathlib.Path,
) -> None:
    pixels = pixels_of(size)
    expected = stages(published, pixels)
    model = ours(weights, size)
    records = model.records(pixels)
    for name in ("coarsest", "pooled", "fused"):
        assert distance(records[f"head.{name}"], expected[name]) <= 1e-4, name
    (logits,) = model.run(pixels)
    assert logits.shape == (2, CLASSES, -(-size[0] // 4), -(-size[1] // 4))
    assert distance(logits, expected["logits"]) <= 1e-4
    # And at the pixels' size, as transformers answers.
    with torch.inference_mode():
        theirs = published(pixels).logits
    large = functional.interpolate(
        logits, size=size, mode="bilinear", align_corners=False
    )
    assert distance(large, theirs) <= 1e-4


def test_in_bf16_it_is_no_farther_off_than_transformers(
    published: UperNetForSemanticSegmentation, weights: pathlib.Path
) -> None:
    pixels = pixels_of(SIZES[0])
    exact = stages(published, pixels)["logits"]
    rounded = copy.deepcopy(published).to(torch.bfloat16)
    theirs = distance(stages(rounded, pixels.bfloat16())["logits"].float(), exact)
    (logits,) = ours(weights, SIZES[0], precision="BF16").run(pixels)
    error = distance(logits, exact)
    print(f"bf16 {error:.1e}, transformers' {theirs:.1e}")
    assert 0 < error <= 2 * theirs


def test_further_sizes_are_plans(weights: pathlib.Path) -> None:
    pixels = pixels_of(SIZES[1])
    model = ours(weights, SIZES[0], further_sizes=[list(SIZES[1])])
    (logits,) = model.run(pixels)
    assert torch.equal(logits, ours(weights, SIZES[1]).run(pixels)[0])


def test_an_image_does_not_depend_on_its_neighbour(weights: pathlib.Path) -> None:
    pixels = pixels_of(SIZES[1])
    model = ours(weights, SIZES[1])
    assert (
        distance(model.run(pixels)[0][1:], model.run(pixels[1:].contiguous())[0])
        <= 1e-4
    )


def test_parameters_are_transformers(published: UperNetForSemanticSegmentation) -> None:
    counted = sum(
        value.numel()
        for name, value in published.named_parameters()
        if not name.startswith("auxiliary_head.")
    )
    facts = facts_of(
        backbone="swin_tiny_patch4_window7_224",
        task="SEGMENTATION",
        head="upernet",
        num_classes=CLASSES,
        random_weights_seed=0,
    )
    assert facts["parameters"] == counted


# In millions, with 150 classes. What the papers print counts the auxiliary head, which only trains: a 3x3 convolution
# of the third map to 256 channels, its norm, and a classifier.
@pytest.mark.parametrize(
    ("backbone", "head", "third_map", "counted", "printed"),
    [
        (
            "swin_tiny_patch4_window7_224",
            "upernet",
            384,
            59.02,
            60,
        ),  # Liu et al., ICCV 2021, table 3
        ("linglo_b0", "semantic_fpn", None, 7.66, 7.6),  # paper 004
        ("linglo_b1", "semantic_fpn", None, 17.84, 17.8),
        # The paper's own tables contradict each other: model_zoo/costs/papers.cc.
        ("linglo_b2", "semantic_fpn", None, 29.63, 29.1),
    ],
)
def test_parameters_beside_the_papers(
    backbone: str,
    head: str,
    third_map: int | None,
    counted: float,
    printed: float,
) -> None:
    facts = facts_of(
        backbone=backbone, task="SEGMENTATION", head=head, random_weights_seed=0
    )
    parameters = facts["parameters"] / 1e6
    trained = (
        (9 * third_map * 256 + 2 * 256 + 256 * 150 + 150) / 1e6 if third_map else 0
    )
    print(
        f"{head} on {backbone}: {parameters:.2f} M and {trained:.2f} M to train with; paper {printed} M"
    )
    assert round(parameters, 2) == counted
    assert parameters + trained == pytest.approx(printed, rel=0.02)


@pytest.mark.parametrize("size", [(64, 96), (72, 40)])
def test_semantic_fpn_is_the_second_implementations(
    size: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    torch.manual_seed(5)
    body = settled(perturbed(resnet50(weights=None), "resnet50"), pixels_of(size))
    head = perturbed(SemanticFpn([256, 512, 1024, 2048], CLASSES), "semantic_fpn")
    weights = tmp_path / "model.safetensors"
    kept = {
        "backbone." + name: value
        for name, value in body.state_dict().items()
        if not name.startswith("fc.")
    }
    own = {own_name(name): value for name, value in head.state_dict().items()}
    save({**kept, **own}, weights)
    pixels = pixels_of(size)
    model = ours(weights, size, backbone="resnet50", head="semantic_fpn")
    with torch.inference_mode():
        expected = head(model.features(pixels))
    assert distance(model.run(pixels)[0], expected) <= 1e-4
