"""fovea.Model: a model's folder in this process. That it answers as a server does: tests/conformance/test_served_python_model.py."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from timm.data import create_transform
from timm.models import VisionTransformer

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))

import fovea
from fovea.model_input import ModelInput, resized

DEMO = ROOT / "model_zoo" / "demo"
EXAMPLES = sorted((ROOT / "client/examples").glob("*.jpg"))
# (fovea.Model loads the library when it is first asked for.)
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")


@pytest.fixture(scope="module")
def shapes() -> fovea.Model:
    return fovea.Model(DEMO / "shapes")


@pytest.fixture(scope="module")
def pixels(shapes: fovea.Model) -> torch.Tensor:
    return shapes.pixels(EXAMPLES[:3])


def published() -> VisionTransformer:
    """timm's, with the weights of shapes."""
    model = VisionTransformer(
        img_size=64,
        patch_size=8,
        embed_dim=128,
        depth=6,
        num_heads=4,
        mlp_ratio=2,
        num_classes=10,
    )
    file = DEMO / "shapes/1/model.safetensors"
    weights = safetensors.torch.load_file(file)
    model.load_state_dict({name: one.float() for name, one in weights.items()})
    return model.eval()


def test_it_says_what_it_is(shapes: fovea.Model) -> None:
    assert (shapes.name, shapes.version, shapes.task) == ("shapes", 1, "CLASSIFICATION")
    assert (shapes.backbone, shapes.attention) == ("vit_demo_patch8_64", "dense")
    assert shapes.labels == (DEMO / "shapes/labels.txt").read_text().split()
    assert shapes.num_classes == len(shapes.labels) == 10
    assert shapes.num_parameters == sum(p.numel() for p in published().parameters())
    assert not shapes.untrained and shapes.prepared
    assert "shapes version 1: vit_demo_patch8_64 with dense" in repr(shapes)


def test_it_runs_pixels_of_either_library(
    shapes: fovea.Model, pixels: torch.Tensor
) -> None:
    (expected,) = torch.ops.fovea_models.run(str(DEMO / "shapes"), pixels)
    logits = shapes(pixels)["logits"]
    assert torch.equal(logits, expected)
    arrays = shapes(pixels.numpy())
    np.testing.assert_array_equal(arrays["logits"], expected.numpy())
    logits.requires_grad_().sum().backward()  # a tensor like any other
    with pytest.raises(TypeError, match="not list"):
        shapes([1, 2])


def test_it_says_what_pictures_show(shapes: fovea.Model) -> None:
    found = shapes.predict(EXAMPLES, top_k=2)
    for file, one in zip(EXAMPLES, found, strict=True):
        assert one.labels[0] == file.stem and len(one.labels) == 2
        assert one.confidences[0] > one.confidences[1]
    image = Image.open(EXAMPLES[0])
    same = shapes.predict([image, np.asarray(image.convert("RGB"))], top_k=2)
    for one in same:
        assert one.confidences.tolist() == found[0].confidences.tolist()
    with pytest.raises(TypeError, match="list of pictures"):
        shapes.predict(EXAMPLES[0])


@pytest.mark.parametrize("prepared", [True, False])
def test_another_attention_stands_over_the_same_weights(
    pixels: torch.Tensor, prepared: bool
) -> None:
    """The bundled shapes_knn is shapes with knn:k=0.5."""
    (expected,) = torch.ops.fovea_models.run(str(DEMO / "shapes_knn"), pixels)
    model = fovea.Model(DEMO / "shapes", attention="knn:k=0.5", prepared=prepared)
    assert model.attention == fovea.Model(DEMO / "shapes_knn").attention
    found = model(pixels)["logits"].detach()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(found, published()(pixels), atol=1e-2)


def test_features_are_the_published_blocks_tokens(
    shapes: fovea.Model, pixels: torch.Tensor
) -> None:
    reference, expected = published(), {}
    for i, block in enumerate(reference.blocks):
        block.register_forward_hook(
            lambda *args, name=f"blocks.{i}": expected.update({name: args[2]})
        )
    with torch.no_grad():
        reference(pixels)
    found = shapes.features(pixels)
    assert list(found) == list(expected)
    for name, tokens in found.items():
        assert tokens.shape == (3, 65, 128)
        torch.testing.assert_close(tokens, expected[name], rtol=1e-3, atol=1e-3)
    pyramid = shapes.pyramid(pixels)
    sides = [
        (32, 32),
        (16, 16),
        (8, 8),
        (4, 4),
    ]  # of the simple pyramid over 8 x 8 tokens
    assert [tuple(one.shape[2:]) for one in pyramid] == sides


def test_attention_maps_are_weights_of_tokens_on_a_grid(pixels: torch.Tensor) -> None:
    model = fovea.Model(DEMO / "shapes", attention="knn:k=5")
    maps = model.attention_maps(pixels)
    assert len(maps) == 6
    for one in maps.values():
        assert one.weights.shape == (3, 4, 65, 65)
        assert (one.grid, one.prefix_tokens) == ((8, 8), 1)
        torch.testing.assert_close(one.weights.sum(-1), torch.ones(3, 4, 65))
        assert ((one.weights > 0).sum(-1) <= 5).all()
    assert set(maps) == {f"{name}.attn" for name in model.features(pixels)}


def test_measures_are_those_of_the_maps(
    shapes: fovea.Model, pixels: torch.Tensor
) -> None:
    measures = shapes.measures(pixels)
    assert [one.layer for one in measures] == [f"blocks.{i}" for i in range(6)]
    from fovea import ops

    maps = shapes.attention_maps(pixels)
    tokens = shapes.features(pixels)
    for one in measures:
        weights = maps[f"{one.layer}.attn"].weights
        torch.testing.assert_close(one.nonlocality, ops.nonlocality(weights, (8, 8), 1))
        torch.testing.assert_close(
            one.attention_standard_deviation, ops.attention_standard_deviation(weights)
        )
        torch.testing.assert_close(
            one.cosine_similarity, ops.token_cosine_similarity(tokens[one.layer])
        )
        assert one.attention_norm_ratio.shape == one.mlp_norm_ratio.shape == (3,)
    frame = fovea.Model(DEMO / "frame_conv")
    without = frame.measures(frame.pixels(EXAMPLES[:1]))
    assert without[0].nonlocality is None


def test_gradients_are_the_published_models(pixels: torch.Tensor) -> None:
    model, reference = fovea.Model(DEMO / "shapes", prepared=False), published()
    classes = torch.tensor([1, 2, 3])
    for one in (lambda x: model(x)["logits"], reference):
        torch.nn.functional.cross_entropy(one(pixels), classes).backward()
    expected = dict(reference.named_parameters())
    found = model.parameters()
    assert set(found) == set(expected)
    for name, parameter in found.items():
        wanted = expected[name].grad
        bound = 1e-4 * wanted.abs().max().item()
        torch.testing.assert_close(
            parameter.grad, wanted, rtol=1e-3, atol=bound, msg=name
        )


def test_an_optimizer_trains_the_models_own_parameters(pixels: torch.Tensor) -> None:
    model = fovea.Model(DEMO / "shapes", attention="knn:k=0.5", prepared=False)
    assert model.train() is model
    steps = torch.optim.AdamW(model.parameters().values(), 1e-3)
    losses = []
    for _ in range(5):
        logits = model(pixels)["logits"]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([9, 9, 9]))
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses
    with torch.no_grad():
        model.parameters()["head.bias"].fill_(-7)
        model.parameters()["head.weight"].zero_()
        assert model.eval()(pixels)["logits"].unique().tolist() == [-7]


@pytest.mark.parametrize("name", ["segmenter_key_only", "detector_aewin"])
def test_detectors_and_segmenters_have_gradients_too(name: str) -> None:
    model = fovea.Model(DEMO / name, prepared=False)
    scene = ROOT / "client/examples/scenes/scene_1.jpg"
    outputs = model(model.pixels([scene]))
    wanted = outputs["logits" if "logits" in outputs else "scores"]
    wanted.sum().backward()
    given = [one.grad for one in model.parameters().values() if one.grad is not None]
    assert len(given) > 20
    assert all(one.isfinite().all() for one in given)
    assert model.predict([scene])


def test_a_prepared_model_has_no_parameters(shapes: fovea.Model) -> None:
    for call in (shapes.parameters, shapes.buffers, shapes.train, shapes.eval):
        with pytest.raises(ValueError, match="shapes is prepared.*prepared=False"):
            call()
    with pytest.raises(ValueError, match="runs on the CPU, not on cuda"):
        fovea.Model(DEMO / "shapes", prepared=False, device="cuda")


def test_versions_are_chosen_and_read(tmp_path: pathlib.Path) -> None:
    folder = shutil.copytree(DEMO / "shapes", tmp_path / "shapes")
    shutil.copytree(folder / "1", folder / "3")
    assert fovea.Model(folder).version == 3
    assert fovea.Model(folder, version=1).version == 1
    with pytest.raises(RuntimeError, match="model shapes has no version 2"):
        fovea.Model(folder, version=2)
    with pytest.raises(TypeError, match="version is a number or None, not '1'"):
        fovea.Model(folder, version="1")


@pytest.mark.parametrize("prepared", [True, False])
def test_errors_are_the_sentences_of_the_loader(
    tmp_path: pathlib.Path, pixels: torch.Tensor, prepared: bool
) -> None:
    for attention, sentence in (
        ("knn:k=66", "a query sees only 65 keys"),
        ("axail", "axail"),
        ("aewin", "map"),
        ("ska", "blocks.0.attn"),
    ):
        with pytest.raises(ValueError, match=sentence):
            fovea.Model(DEMO / "shapes", attention=attention, prepared=prepared)
    with pytest.raises(RuntimeError, match="there is no model folder"):
        fovea.Model(tmp_path / "none", prepared=prepared)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/model.textproto").write_text("spec_version: x")
    with pytest.raises(RuntimeError, match="model bad: model.textproto:1:"):
        fovea.Model(tmp_path / "bad", prepared=prepared)
    model = fovea.Model(DEMO / "shapes", prepared=prepared)
    with pytest.raises(ValueError, match=r"takes .*64, 64\].*not .*32, 32\]"):
        model(pixels[..., :32, :32])
    with pytest.raises(ValueError, match="takes"):
        model(pixels.double())


def test_a_folder_says_how_its_pictures_are_prepared(tmp_path: pathlib.Path) -> None:
    folder = shutil.copytree(DEMO / "shapes", tmp_path / "shapes")
    published = fovea.Model(folder).input
    assert published.resize_mode == "SHORTEST_EDGE"
    text = folder / "model.textproto"
    description = text.read_text().partition("preprocessing")[0]
    text.write_text(
        description
        + "preprocessing { resize_mode: SQUASH mean: [0.25, 0.5, 0.75] std: [1, 1, 1] }\n"
    )
    changed = fovea.Model(folder).input
    assert (changed.resize_mode, changed.crop_fraction) == ("SQUASH", 1)
    assert changed.mean == (0.25, 0.5, 0.75)
    assert changed.std == (1, 1, 1) and changed.sizes == ((64, 64),)


SIZES = [(64, 64), (224, 224), (100, 333), (333, 100), (511, 77), (480, 640)]


@pytest.mark.parametrize("fraction", [0.875, 0.9, 1.0])
@pytest.mark.parametrize("target", [(224, 224), (96, 160)])
def test_pixels_are_those_of_timms_evaluation_transform(
    target: tuple[int, int], fraction: float
) -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    theirs = create_transform(
        (3, *target), interpolation="bicubic", mean=mean, std=std, crop_pct=fraction
    )
    ours = ModelInput(
        resize_mode="SHORTEST_EDGE",
        interpolation="BICUBIC",
        crop_fraction=fraction,
        crop_offset="NEAREST",
        shorter_side=0,
        longer_side=0,
        fast_decode=False,
        mean=mean,
        std=std,
        sizes=(target,),
        takes_bytes=False,
    )
    for number, size in enumerate(SIZES):
        noise = np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)
        image = Image.fromarray(noise)
        expected = theirs(image).numpy()
        found = ours.pixels(image, ours.place(*size))
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=1e-5, err_msg=str(size)
        )


@pytest.mark.parametrize("name", ["BILINEAR", "BICUBIC"])
def test_two_passes_resize_as_pillow_13_does(name: str) -> None:
    """Of one pass all versions of Pillow make the same."""
    resample = Image.Resampling[name]
    random = np.random.default_rng(1)
    for height, width, to_height, to_width in random.integers(1, 200, (100, 4)):
        picture = Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8))
        left, top, right, bottom = random.uniform([0, 0, 0.6, 0.6], [0.4, 0.4, 1, 1])
        part = (left * width, top * height, right * width, bottom * height)
        for box in (None, part):
            passes = resized(picture, (to_height, to_width), resample, box)
            whole = picture.resize((to_width, to_height), resample, box)
            assert np.array_equal(passes, whole)


def test_pictures_of_different_input_sizes_are_no_batch() -> None:
    model = fovea.Model(DEMO / "segmenter_dense")
    model.input = ModelInput(**vars(model.input) | {"sizes": ((128, 128), (64, 128))})
    wide, square = (np.zeros((*size, 3), np.uint8) for size in ((64, 128), (128, 128)))
    assert model.pixels([wide]).shape == (1, 3, 64, 128)
    with pytest.raises(ValueError, match="different sizes.*one by one"):
        model.pixels([wide, square])


def test_descriptions_are_read_as_they_are_written() -> None:
    """describe() writes what the classes read: it comes back from every bundled model."""
    fovea.Model(DEMO / "shapes")  # loads the library
    for folder in sorted(DEMO.iterdir()):
        on_disk = json.loads(torch.ops.fovea_models.describe(str(folder)))
        model = torch.classes.fovea_models.Trainable(json.dumps(on_disk["description"]))
        facts = json.loads(model.facts())
        assert facts["backbone"] == on_disk["description"]["backbone"]
        assert facts["num_classes"] == len(on_disk["labels"]), folder


def test_what_is_no_preprocessing_is_refused(shapes: fovea.Model) -> None:
    folder = str(DEMO / "shapes")
    facts = json.loads(shapes._loaded.facts())["preprocessing"]
    read = torch.ops.fovea_models.preprocessing
    assert json.loads(read(folder, json.dumps(facts)))["resize_mode"] == "SHORTEST_EDGE"
    for wrong in (facts | {"resize_mode": "ANY"}, facts | {"more": 1}):
        with pytest.raises(ValueError, match="unknown value or field"):
            read(folder, json.dumps(wrong))
    for text in ("{}", "[", '{"crop_fraction": "x"}'):
        with pytest.raises(ValueError, match="the preprocessing of a model"):
            read(folder, text)


def test_seeds_of_64_bits_come_through(tmp_path: pathlib.Path) -> None:
    seed = 2**64 - 5
    (tmp_path / "seeded").mkdir()
    (tmp_path / "seeded/model.textproto").write_text(
        'spec_version: 1\nbackbone: "vit_demo_patch8_64"\n'
        f"random_weights {{ seed: {seed} }}\n"
    )
    model = fovea.Model(tmp_path / "seeded", prepared=False)
    assert model.untrained and model.labels == []
    on_disk = json.loads(torch.ops.fovea_models.describe(str(tmp_path / "seeded")))
    assert on_disk["description"]["random_weights_seed"] == seed
