"""fovea-import writes what transformers publishes, and what its users trained."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest
import torch
import transformers
from no_hub import NoHub
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import importer, published

torch.ops.load_library(BUILD / "lib" / "libfovea_models.so")
zoo = torch.ops.fovea_models

TINY = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
SMALL = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
NAMES = {0: "dog", 1: "cat", 2: "great auk"}
# Class, configuration, and the backbone that it is.
MODELS = {
    "vit": (
        transformers.ViTForImageClassification,
        transformers.ViTConfig(**TINY, id2label=NAMES),
        "vit_tiny_patch16_224",
    ),
    "deit": (
        transformers.DeiTForImageClassificationWithTeacher,
        transformers.DeiTConfig(**TINY, id2label=NAMES),
        "deit_tiny_distilled_patch16_224",
    ),
    "dino": (
        transformers.ViTModel,
        transformers.ViTConfig(**SMALL),
        "vit_small_patch16_224.dino",
    ),
    "swin": (
        transformers.SwinForImageClassification,
        transformers.SwinConfig(id2label=NAMES),
        "swin_tiny_patch4_window7_224",
    ),
    "cvt": (
        transformers.CvtForImageClassification,
        transformers.CvtConfig(id2label=NAMES),
        "cvt_13",
    ),
}


def save(folder: pathlib.Path, model, processor) -> pathlib.Path:
    """As a user of transformers does after training."""
    with torch.no_grad():  # its own start leaves biases zero, which any place may hold
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture
def vit(tmp_path: pathlib.Path) -> pathlib.Path:
    model, config, _ = MODELS["vit"]
    return save(tmp_path / "trained", model(config), transformers.ViTImageProcessor())


@pytest.mark.parametrize("kind", MODELS)
def test_server_computes_what_transformers_computes(
    kind: str, tmp_path: pathlib.Path
) -> None:
    cls, config, backbone = MODELS[kind]
    torch.manual_seed(5)
    model = cls(config)
    folder = save(tmp_path / "trained", model, transformers.ViTImageProcessor())
    source = f"transformers:{folder}"
    assert importer.main([source, "--out", str(tmp_path), "--name", "mine"]) == 0

    description = (tmp_path / "mine" / "model.textproto").read_text()
    assert f'backbone: "{backbone}"' in description
    pixels = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        output = model(pixels)
    expected = output.last_hidden_state[:, 0] if kind == "dino" else output.logits
    (found,) = zoo.run(str(tmp_path / "mine"), pixels)
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-3 * expected.std()
    labels = tmp_path / "mine" / "labels.txt"
    if kind == "dino":
        assert not labels.exists()
    else:
        assert labels.read_text().splitlines() == list(NAMES.values())


@pytest.mark.parametrize(
    ("processor", "pixels"),
    [
        (transformers.ViTImageProcessor(resample=2), ("SQUASH", "BILINEAR", 1.0)),
        (transformers.DeiTImageProcessor(), ("SQUASH", "BICUBIC", 0.875)),
        (
            transformers.ConvNextImageProcessor(
                size={"shortest_edge": 224}, crop_pct=0.9
            ),
            ("SHORTEST_EDGE", "BICUBIC", 0.9),
        ),
    ],
)
def test_preprocessing_is_the_image_processors(
    processor, pixels: tuple, vit: pathlib.Path
) -> None:
    processor.save_pretrained(vit)
    model = published.fetch(f"transformers:{vit}")
    read = model.preprocessing
    assert (read.resize_mode, read.interpolation, read.crop_fraction) == pixels
    assert read.mean == tuple(processor.image_mean)
    assert read.std == tuple(processor.image_std)


@pytest.mark.parametrize(
    "change",
    [
        {"size": {"height": 384, "width": 384}},
        {"do_normalize": False},
        {"rescale_factor": 1.0},
        {"resample": 1},
        {"size": {"height": 224, "width": 448}},
        {"size": {"longest_edge": 224}},
    ],
)
def test_another_preprocessing_is_refused(
    change: dict, vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    transformers.ViTImageProcessor(**change).save_pretrained(vit)
    models = tmp_path / "models"
    assert importer.main([f"transformers:{vit}", "--out", str(models)]) == 1
    error = capsys.readouterr().err
    assert "has no such preprocessing" in error or "the model takes 224" in error
    assert not models.exists()


@pytest.mark.parametrize("file", ["model.safetensors", "preprocessor_config.json"])
def test_a_folder_without_a_part_is_refused(
    file: str, vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    (vit / file).unlink()
    models = tmp_path / "models"
    assert importer.main([f"transformers:{vit}", "--out", str(models)]) == 1
    assert f"has no {file}: " in capsys.readouterr().err
    assert not models.exists()


def test_weights_without_a_classifier_are_refused(
    vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    """transformers would make one up."""
    file = vit / "model.safetensors"
    weights = load_file(file)
    save_file({key: weights[key] for key in weights if "classifier" not in key}, file)
    models = tmp_path / "models"
    assert importer.main([f"transformers:{vit}", "--out", str(models)]) == 1
    assert "no weights for classifier.bias" in capsys.readouterr().err
    assert not models.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 11},
        {"image_size": 384},
        {"hidden_act": "relu"},
        {"architectures": ["ViTForMaskedImageModeling"]},
    ],
)
def test_another_architecture_is_refused(
    change: dict, vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    config = json.loads((vit / "config.json").read_text()) | change
    (vit / "config.json").write_text(json.dumps(config))
    models = tmp_path / "models"
    assert importer.main([f"transformers:{vit}", "--out", str(models)]) == 2
    assert "no backbone of Fovea has" in capsys.readouterr().err
    assert not models.exists()


def of_transformers(size: str) -> list[str]:
    return [
        source
        for source in published.KNOWN
        if source.startswith("transformers:")
        and size in source
        and "upernet" not in source
    ]


@pytest.mark.parametrize("source", [*of_transformers("tiny"), *of_transformers("cvt")])
def test_known_models_load_with_random_weights(
    source: str, tmp_path: pathlib.Path
) -> None:
    assert importer.main([source, "--out", str(tmp_path), "--random"]) == 0
    name = published.KNOWN[source]
    (logits,) = zoo.run(str(tmp_path / name), torch.zeros(1, 3, 224, 224))
    assert logits.shape == (1, 1000)
    weights = load_file(tmp_path / name / "1/model.safetensors")
    assert sum(weight.numel() for weight in weights.values()) > 5e6


def test_published_weights_come_from_the_hubs_cache(
    no_hub: NoHub, tmp_path: pathlib.Path
) -> None:
    name = "facebook/deit-tiny-patch16-224"  # which transformers has as a ViT
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(**TINY, num_labels=1000)
    )
    save(no_hub.snapshot(name), model, transformers.DeiTImageProcessor())
    assert importer.main([f"transformers:{name}", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "deit_tiny_patch16_224"
    written = load_file(folder / "1" / "model.safetensors")
    assert torch.equal(written["head.weight"], model.classifier.weight)
    assert (folder / "labels.txt").read_text().startswith("tench")


def test_a_published_model_of_another_size_is_refused(
    no_hub: NoHub, tmp_path: pathlib.Path, capsys
) -> None:
    name = "google/vit-base-patch16-224"
    cls, config, _ = MODELS["vit"]
    save(no_hub.snapshot(name), cls(config), transformers.ViTImageProcessor())
    models = tmp_path / "models"
    assert importer.main([f"transformers:{name}", "--out", str(models)]) == 1
    assert "of another size than vit_base_patch16_224" in capsys.readouterr().err
    assert not models.exists()


def test_without_a_hub_the_error_suggests_random_weights(
    no_hub: NoHub, tmp_path: pathlib.Path, capsys
) -> None:
    source = "transformers:microsoft/cvt-13"
    assert importer.main([source, "--out", str(tmp_path / "models")]) == 1
    error = capsys.readouterr().err
    assert "could not be fetched" in error and "--random" in error


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", "{}"),
        ("config.json", '{"model_type": "nothing"}'),
        ("config.json", "no JSON"),
        ("model.safetensors", "no tensors"),
        ("preprocessor_config.json", '{"image_processor_type": "Nothing"}'),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    file: str, text: str, vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    (vit / file).write_text(text)
    models = tmp_path / "models"
    assert importer.main([f"transformers:{vit}", "--out", str(models)]) == 1
    error = capsys.readouterr().err
    assert "cannot be read: " in error and error.count("\n") == 1
    assert not models.exists()


def test_cvt_of_more_pixels_is_served_with_them(tmp_path: pathlib.Path) -> None:
    cls, config, _ = MODELS["cvt"]
    processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 384})
    model = published.fetch(
        f"transformers:{save(tmp_path / 'trained', cls(config), processor)}"
    )
    assert model.image_size == (384, 384)
    assert model.preprocessing.resize_mode == "SQUASH"
    assert model.preprocessing.crop_fraction == 1


def test_features_have_no_classes(tmp_path: pathlib.Path, capsys) -> None:
    arguments = ["transformers:facebook/dino-vits16", "--out", str(tmp_path)]
    assert importer.main([*arguments, "--random", "--num-classes", "12"]) == 1
    assert "has no classifier" in capsys.readouterr().err


SCENE = {0: "road", 1: "sky", 2: "great auk", 3: "sea", 4: "ship"}


def upernet(**backbone: object) -> transformers.UperNetForSemanticSegmentation:
    stages = [f"stage{i}" for i in range(1, 5)]
    torch.manual_seed(5)
    return transformers.UperNetForSemanticSegmentation(
        transformers.UperNetConfig(
            backbone_config=transformers.SwinConfig(out_features=stages, **backbone),
            id2label=SCENE,
        )
    )


@pytest.fixture(scope="module")
def segmenter() -> transformers.UperNetForSemanticSegmentation:
    return upernet()


def test_a_segmenter_answers_what_transformers_answers(
    segmenter, tmp_path: pathlib.Path
) -> None:
    size = {"height": 256, "width": 288}  # at which the coarsest map is no window
    processor = transformers.SegformerImageProcessor(size=size)
    folder = save(tmp_path / "trained", segmenter, processor)
    source = f"transformers:{folder}"
    assert importer.main([source, "--out", str(tmp_path), "--name", "mine"]) == 0

    mine = tmp_path / "mine"
    assert (mine / "labels.txt").read_text().splitlines() == list(SCENE.values())
    description = (mine / "model.textproto").read_text()
    for line in (
        'backbone: "swin_tiny_patch4_window7_224"',
        'task: SEGMENTATION\nhead {\n  name: "upernet"\n}',
        "num_classes: 5\nimage_height: 256\nimage_width: 288",
        "  resize_mode: SQUASH\n  interpolation: BILINEAR\n  crop_fraction: 1.0",
        "  mean: [0.485, 0.456, 0.406]",
    ):
        assert f"\n{line}\n" in description
    assert "auxiliary" not in str(load_file(mine / "1" / "model.safetensors").keys())
    pixels = torch.randn(2, 3, 256, 288, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = segmenter(pixels).logits
    (found,) = zoo.run(str(mine), pixels)
    large = torch.nn.functional.interpolate(found, (256, 288), mode="bilinear")
    assert (large - expected).abs().max() <= 1e-3 * expected.std()


def test_a_segmenters_whole_pictures_are_fitted_and_the_difference_is_said(
    segmenter, tmp_path: pathlib.Path, capsys
) -> None:
    size = {"shortest_edge": 512, "longest_edge": 2048}
    folder = save(
        tmp_path / "trained", segmenter, transformers.SegformerImageProcessor()
    )
    file = folder / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"size": size}))
    assert importer.main([f"transformers:{folder}", "--out", str(tmp_path)]) == 0
    assert "the rest is zeros; transformers runs it" in capsys.readouterr().out
    description = (tmp_path / "upernet_swin_tiny" / "model.textproto").read_text()
    assert "  resize_mode: FIT\n" in description
    assert "  shorter_side: 512\n  longer_side: 2048\n" in description
    assert "image_height" not in description and "crop_fraction" not in description


@pytest.mark.parametrize(
    "change",
    [
        {"do_resize": False},
        {"do_normalize": False},
        {"resample": 0},
        {"size": {"shortest_edge": 512}},
    ],
)
def test_a_segmenter_with_another_preprocessing_is_refused(
    change: dict, segmenter, tmp_path: pathlib.Path, capsys
) -> None:
    folder = save(
        tmp_path / "trained", segmenter, transformers.SegformerImageProcessor()
    )
    file = folder / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    models = tmp_path / "models"
    assert importer.main([f"transformers:{folder}", "--out", str(models)]) == 1
    assert "has no such preprocessing" in capsys.readouterr().err
    assert not models.exists()


@pytest.mark.parametrize("height", [224, 192])
def test_a_segmenter_for_pictures_of_one_window_is_refused(
    height: int, segmenter, tmp_path: pathlib.Path, capsys
) -> None:
    size = {"height": height, "width": 256}
    processor = transformers.SegformerImageProcessor(size=size)
    folder = save(tmp_path / "trained", segmenter, processor)
    models = tmp_path / "models"
    assert importer.main([f"transformers:{folder}", "--out", str(models)]) == 1
    error = capsys.readouterr().err
    assert f"{height}x256 pixels" in error and "must be above 224" in error
    assert not models.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"depths": [2, 2, 18, 2]},
        {"window_size": 12},
        {"model_type": "convnext"},
        {"out_features": ["stage1", "stage2", "stage3"], "out_indices": [1, 2, 3]},
    ],
)
def test_a_segmenter_on_another_backbone_is_refused(
    change: dict, segmenter, tmp_path: pathlib.Path, capsys
) -> None:
    folder = save(
        tmp_path / "trained", segmenter, transformers.SegformerImageProcessor()
    )
    config = json.loads((folder / "config.json").read_text())
    config["backbone_config"] |= change
    (folder / "config.json").write_text(json.dumps(config))
    models = tmp_path / "models"
    assert importer.main([f"transformers:{folder}", "--out", str(models)]) == 2
    assert "UperNetForSemanticSegmentation of a size that no" in capsys.readouterr().err
    assert not models.exists()


def test_a_published_segmenter_comes_from_the_hubs_cache(
    no_hub: NoHub, segmenter, tmp_path: pathlib.Path
) -> None:
    name = "openmmlab/upernet-swin-tiny"
    save(no_hub.snapshot(name), segmenter, transformers.SegformerImageProcessor())
    assert importer.main([f"transformers:{name}", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "upernet_swin_tiny"
    assert "image_height: 512\n" in (folder / "model.textproto").read_text()
    (logits,) = zoo.run(str(folder), torch.zeros(1, 3, 512, 512))
    assert logits.shape == (1, len(SCENE), 128, 128)


def test_a_random_segmenter_has_ade20ks_number_of_classes(
    tmp_path: pathlib.Path,
) -> None:
    source = "transformers:openmmlab/upernet-swin-tiny"
    assert importer.main([source, "--out", str(tmp_path), "--random"]) == 0
    description = (tmp_path / "upernet_swin_tiny" / "model.textproto").read_text()
    assert "num_classes: 150\n" in description and "untrained: true" in description
