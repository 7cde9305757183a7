"""fovea-import writes what transformers publishes, and what its users trained."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from no_hub import NoHub
from PIL import Image
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
sys.path.insert(0, str(ROOT / "client" / "python"))

import fovea
from fovea import importer, published
from fovea.published import hub

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
    "deit of Trainer": (
        transformers.DeiTForImageClassification,
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
    ("change", "told"),
    [
        ({"size": {"height": 384, "width": 384}}, "the model takes 224"),
        ({"resample": 1}, "resample is 1"),
        ({"do_resize": False}, "do_resize is False"),
        (
            {"size": {"height": 224, "width": 448}},
            "size is {'height': 224, 'width': 448}",
        ),
        ({"size": {"longest_edge": 224}}, "size is {'longest_edge': 224}"),
    ],
)
def test_another_preprocessing_is_refused(
    change: dict, told: str, vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    transformers.ViTImageProcessor(**change).save_pretrained(vit)
    models = tmp_path / "models"
    assert importer.main([f"transformers:{vit}", "--out", str(models)]) == 1
    assert told in capsys.readouterr().err
    assert not models.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"do_normalize": False},
        {"do_normalize": False, "rescale_factor": 2 / 255},
        {"do_rescale": False},
        {"image_mean": 0.25, "image_std": [0.5, 0.25, 0.125]},
    ],
)
def test_pixels_are_normalised_as_the_image_processor_does(
    change: dict, small_vit: pathlib.Path
) -> None:
    file = small_vit / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    read = published.fetch(f"transformers:{small_vit}").preprocessing
    picture = Image.fromarray(
        np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    )
    processor = transformers.AutoImageProcessor.from_pretrained(small_vit)
    expected = np.asarray(processor(picture)["pixel_values"][0])
    pixels = np.asarray(picture).transpose(2, 0, 1) / 255
    mean, std = (np.array(one)[:, None, None] for one in (read.mean, read.std))
    assert np.allclose((pixels - mean) / std, expected, rtol=1e-5, atol=1e-5)


SMALL_VIT = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "image_size": 32,
    "patch_size": 8,
}


def small(folder: pathlib.Path, **config: object) -> pathlib.Path:
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(**{**SMALL_VIT, "id2label": NAMES, **config})
    )
    return save(folder, model, transformers.ViTImageProcessor(size=32))


@pytest.fixture
def small_vit(tmp_path: pathlib.Path) -> pathlib.Path:
    return small(tmp_path / "trained")


def check_small(folder: pathlib.Path, out: pathlib.Path) -> None:
    """What is written in `out` gives what transformers gives."""
    model = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(pixels).logits
    (found,) = zoo.run(str(out), pixels)
    assert (found - expected).abs().max() <= 1e-3 * expected.std()


def test_a_vit_of_any_size_is_taken(
    small_vit: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert importer.main([f"transformers:{small_vit}", "--out", str(tmp_path)]) == 0
    check_small(small_vit, tmp_path / "vit")
    assert 'backbone: "vit"\n' in (tmp_path / "vit" / "model.textproto").read_text()


def sharded(folder: pathlib.Path, model: transformers.PreTrainedModel) -> None:
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")


def pickled(folder: pathlib.Path, model: transformers.PreTrainedModel) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def pickled_in_parts(folder: pathlib.Path, model: transformers.PreTrainedModel) -> None:
    sharded(folder, model)
    index = folder / "model.safetensors.index.json"
    parts = json.loads(index.read_text())
    for part in set(parts["weight_map"].values()):
        weights = load_file(folder / part)
        torch.save(
            weights,
            folder
            / part.replace("model-", "pytorch_model-").replace(".safetensors", ".bin"),
        )
        (folder / part).unlink()
    named = {
        name: part.replace("model-", "pytorch_model-").replace(".safetensors", ".bin")
        for name, part in parts["weight_map"].items()
    }
    index.unlink()
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps(parts | {"weight_map": named})
    )


@pytest.mark.parametrize("form", [sharded, pickled, pickled_in_parts])
def test_weights_in_parts_and_pickles_are_read(
    form, small_vit: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    model = transformers.ViTForImageClassification.from_pretrained(small_vit).eval()
    form(small_vit, model)
    assert importer.main([f"transformers:{small_vit}", "--out", str(tmp_path)]) == 0
    check_small(small_vit, tmp_path / "vit")


class Malicious:
    ran = False

    def __reduce__(self):
        return setattr, (Malicious, "ran", True)


def test_code_in_a_pickle_is_not_run(
    small_vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    (small_vit / "model.safetensors").unlink()
    torch.save({"x": Malicious()}, small_vit / "pytorch_model.bin")
    models = tmp_path / "models"
    assert importer.main([f"transformers:{small_vit}", "--out", str(models)]) == 1
    error = capsys.readouterr().err
    assert "could be code" in error and error.count("\n") == 1
    assert not Malicious.ran and not models.exists()


def test_an_image_processor_may_lie_in_processor_config(
    small_vit: pathlib.Path,
) -> None:
    file = small_vit / "preprocessor_config.json"
    given = json.loads(file.read_text()) | {"image_mean": [0.1, 0.2, 0.3]}
    (small_vit / "processor_config.json").write_text(
        json.dumps({"image_processor": given})
    )
    file.unlink()
    model = published.fetch(f"transformers:{small_vit}")
    assert model.preprocessing.mean == (0.1, 0.2, 0.3)
    assert not model.notes


def test_a_folder_without_an_image_processor_gets_the_published_one_and_says_so(
    small_vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    """Trainer saves none without its processing_class."""
    (small_vit / "preprocessor_config.json").unlink()
    assert importer.main([f"transformers:{small_vit}", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "has no preprocessor_config.json: preprocessing is taken to be" in told
    assert "your weights" in told
    assert "mean: [0.5, 0.5, 0.5]" in (tmp_path / "vit/model.textproto").read_text()


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"model.safetensors"}, "has neither model.safetensors nor pytorch_model.bin"),
        ({"config.json"}, "has no config.json"),
    ],
)
def test_a_folder_without_a_part_is_refused(
    files: set, told: str, small_vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    for file in files:
        (small_vit / file).unlink()
    models = tmp_path / "models"
    assert importer.main([f"transformers:{small_vit}", "--out", str(models)]) == 1
    assert told in capsys.readouterr().err
    assert not models.exists()


@pytest.mark.parametrize(
    ("files", "code", "told"),
    [
        (
            {"adapter_config.json": "{}"},
            1,
            "holds a LoRA adapter and not a model: merge",
        ),
        (
            {"config.json": '{"architecture": "vit_tiny_patch16_224"}'},
            2,
            "is timm's: timm:",
        ),
    ],
)
def test_a_folder_of_another_kind_is_named(
    files: dict, code: int, told: str, tmp_path: pathlib.Path, capsys
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert importer.main([f"transformers:{tmp_path}", "--out", str(tmp_path)]) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ({1: "cat", 2: "dog"}, ["cat", "dog"]),
        ({0: "cat", 7: "dog"}, ["cat", "dog"]),
        ({0: "LABEL_0", 1: "LABEL_1"}, None),
    ],
)
def test_names_of_classes_are_taken_in_the_order_of_their_numbers(
    names: dict, labels: list | None, tmp_path: pathlib.Path, capsys
) -> None:
    folder = small(tmp_path / "trained", id2label=names)
    assert importer.main([f"transformers:{folder}", "--out", str(tmp_path)]) == 0
    written = tmp_path / "vit" / "labels.txt"
    assert (written.read_text().splitlines() if written.exists() else None) == labels
    told = "id2label has the numbers" in capsys.readouterr().out
    assert told == (labels is not None)


@pytest.mark.parametrize(
    "config",
    [{"problem_type": "multi_label_classification"}, {"id2label": {0: "cat"}}],
)
def test_labels_that_exclude_no_others_have_confidences_of_their_own(
    config: dict, tmp_path: pathlib.Path
) -> None:
    folder = small(tmp_path / "trained", **config)
    assert importer.main([f"transformers:{folder}", "--out", str(tmp_path)]) == 0
    written = (tmp_path / "vit" / "model.textproto").read_text()
    assert "classifier_activation: SIGMOID\n" in written
    model = fovea.Model(tmp_path / "vit")
    picture = np.random.default_rng(1).integers(0, 256, (40, 50, 3), np.uint8)
    (found,) = model.predict([picture])
    expected = 1 / (1 + np.exp(-found.logits))
    assert np.allclose(found.confidences, expected, atol=1e-6)


def test_a_regression_is_refused(tmp_path: pathlib.Path, capsys) -> None:
    folder = small(tmp_path / "trained", problem_type="regression")
    assert importer.main([f"transformers:{folder}", "--out", str(tmp_path)]) == 1
    assert "was trained for regression" in capsys.readouterr().err


def test_a_centre_crop_begins_where_transformers_begins_it(
    tmp_path: pathlib.Path,
) -> None:
    folder = small(tmp_path / "trained")
    processor = transformers.BitImageProcessor(
        size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}
    )
    processor.save_pretrained(folder)
    assert importer.main([f"transformers:{folder}", "--out", str(tmp_path)]) == 0
    model = fovea.Model(tmp_path / "vit")
    generator = np.random.default_rng(1)
    for width in (37, 39, 43):  # halves that are rounded to even otherwise
        picture = Image.fromarray(generator.integers(0, 256, (36, width, 3), np.uint8))
        expected = np.asarray(processor(picture)["pixel_values"][0])
        found = model.pixels([picture]).numpy()[0]
        assert np.allclose(found, expected, atol=1e-4), width


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
    ("change", "told"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act gelu_new (not gelu)"),
        ({"qkv_bias": False}, "qkv_bias False (not True)"),
        ({"layer_norm_eps": 1e-3}, "layer_norm_eps 0.001 (not 1e-06)"),
        ({"image_size": 36}, "image_size 36 (no multiple of patch_size 8)"),
        (
            {"architectures": ["ViTForMaskedImageModeling"]},
            "holds ViTForMaskedImageModeling, which Fovea does not have. It takes ViTFor",
        ),
    ],
)
def test_another_architecture_is_refused_with_what_differs(
    change: dict, told: str, small_vit: pathlib.Path, tmp_path: pathlib.Path, capsys
) -> None:
    config = json.loads((small_vit / "config.json").read_text()) | change
    (small_vit / "config.json").write_text(json.dumps(config))
    models = tmp_path / "models"
    assert importer.main([f"transformers:{small_vit}", "--out", str(models)]) == 2
    assert told in capsys.readouterr().err
    assert not models.exists()


def test_a_swin_is_refused_with_the_numbers_that_differ(
    tmp_path: pathlib.Path, capsys
) -> None:
    config = transformers.SwinConfig(window_size=12, image_size=384)
    config.architectures = ["SwinForImageClassification"]
    config.save_pretrained(tmp_path)
    assert importer.main([f"transformers:{tmp_path}", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "image_size 384 (not 224), window_size 12 (not 7)" in error
    assert "the nearest that Fovea has is swin_tiny_patch4_window7_224" in error


def test_a_model_of_somebodys_on_the_hub_is_imported_as_its_folder(
    no_hub: NoHub, tmp_path: pathlib.Path, capsys
) -> None:
    folder = small(no_hub.snapshot("somebody/vit-beans"))
    out = ["--out", str(tmp_path)]
    assert importer.main(["transformers:somebody/vit-beans", *out]) == 0
    check_small(folder, tmp_path / "vit")
    assert "published weights" in capsys.readouterr().out
    assert importer.main(["transformers:somebody/else", *out]) == 1
    assert "somebody/else could not be fetched" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (
            ["model.safetensors", "pytorch_model.bin", "README.md"],
            {"model.safetensors"},
        ),
        (["pytorch_model.bin", "tf_model.h5"], {"pytorch_model.bin"}),
        (
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors"],
            {"model.safetensors.index.json", "model-*.safetensors"},
        ),
    ],
)
def test_of_a_repository_the_weights_are_fetched_in_one_format(
    there: list, wanted: set, no_hub: NoHub, tmp_path, monkeypatch
) -> None:
    import huggingface_hub

    asked = {}
    found = SimpleNamespace(
        sha="abc", siblings=[SimpleNamespace(rfilename=name) for name in there]
    )
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: found)
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda name, **options: asked.update(options) or tmp_path,
    )
    assert hub.folder("somebody/vit-beans") == tmp_path
    descriptions = {name for name in asked["allow_patterns"] if "config" in name}
    assert descriptions >= {"config.json", "preprocessor_config.json"}
    assert set(asked["allow_patterns"]) - descriptions == wanted


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
    error = capsys.readouterr().err
    assert "hidden_size 192 (not 768)" in error and "and not vit_base" in error
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
    error = capsys.readouterr().err
    assert "holds UperNetForSemanticSegmentation with" in error
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
