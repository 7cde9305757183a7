"""fovea-import writes model folders that say what timm says."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import timm
import torch
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from no_hub import NoHub
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import importer, published

TINY = "timm:deit_tiny_patch16_224"
HUB_ID = "timm/deit_tiny_patch16_224.fb_in1k"


@pytest.fixture(scope="session")
def model_spec(tmp_path_factory: pytest.TempPathFactory):
    """The message class of model.textproto, from the proto itself."""
    descriptors = tmp_path_factory.mktemp("proto") / "model_spec.pb"
    subprocess.run(
        [
            "protoc",
            "--proto_path=proto",
            f"--descriptor_set_out={descriptors}",
            "fovea/v1/model_spec.proto",
        ],
        cwd=ROOT,
        check=True,
    )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(
        descriptors.read_bytes()
    ).file:
        pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("fovea.v1.ModelSpec")
    )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of one import with random weights."""
    models = tmp_path_factory.mktemp("models")
    assert importer.main([TINY, "--out", str(models), "--random", "--seed", "7"]) == 0
    return models / "deit_tiny_patch16_224"


def read_spec(folder: pathlib.Path, model_spec):
    return text_format.Parse((folder / "model.textproto").read_text(), model_spec())


def test_folder_holds_the_three_files_readable_by_all_and_nothing_else(
    tiny: pathlib.Path,
):
    files = sorted(
        str(path.relative_to(tiny)) for path in tiny.rglob("*") if path.is_file()
    )
    assert files == ["1/model.safetensors", "labels.txt", "model.textproto"]
    assert all((tiny / file).stat().st_mode & 0o044 == 0o044 for file in files)
    assert tiny.stat().st_mode & 0o055 == 0o055
    assert [path.name for path in tiny.parent.iterdir()] == [tiny.name]


def test_weights_are_timms_under_timms_names(tiny: pathlib.Path):
    torch.manual_seed(7)
    expected = timm.create_model("deit_tiny_patch16_224").state_dict()
    written = load_file(tiny / "1" / "model.safetensors")
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in expected)


def test_labels_are_imagenets_in_order(tiny: pathlib.Path):
    labels = (tiny / "labels.txt").read_text().splitlines()
    assert len(labels) == 1000
    assert (
        labels[0].startswith("tench")
        and labels[281].startswith("tabby")
        and labels[999].startswith("toilet")
    )


def test_description_parses_and_carries_timms_preprocessing(
    tiny: pathlib.Path, model_spec
):
    spec = read_spec(tiny, model_spec)
    config = timm.get_pretrained_cfg("deit_tiny_patch16_224")
    assert (spec.spec_version, spec.name, spec.backbone) == (
        1,
        "deit_tiny_patch16_224",
        "deit_tiny_patch16_224",
    )
    assert (spec.task, spec.precision, spec.num_classes) == (
        spec.CLASSIFICATION,
        spec.FP32,
        1000,
    )
    assert (
        not spec.attention
        and not spec.HasField("weights_of")
        and not spec.HasField("random_weights")
    )
    pixels = spec.preprocessing
    assert (pixels.resize_mode, pixels.interpolation) == (
        pixels.SHORTEST_EDGE,
        pixels.BICUBIC,
    )
    assert pixels.crop_fraction == config.crop_pct
    assert list(pixels.mean) == pytest.approx(config.mean, rel=1e-6)
    assert list(pixels.std) == pytest.approx(config.std, rel=1e-6)


def test_description_of_random_weights_says_so(tiny: pathlib.Path, model_spec):
    assert "random weights (seed 7)" in (tiny / "model.textproto").read_text()
    assert read_spec(tiny, model_spec).untrained


def test_options_reach_the_description(tmp_path: pathlib.Path, model_spec):
    options = [
        "--name",
        "knn",
        "--attention",
        "dense",
        "--attention",
        "knn:k=0.5",
        "--precision",
        "bf16",
    ]
    assert (
        importer.main(
            [TINY, "--out", str(tmp_path), "--random", "--num-classes", "12", *options]
        )
        == 0
    )
    spec = read_spec(tmp_path / "knn", model_spec)
    assert (spec.name, list(spec.attention)) == ("knn", ["dense", "knn:k=0.5"])
    assert (spec.precision, spec.num_classes) == (spec.BF16, 12)
    # ImageNet's labels would be those of other classes.
    assert not (tmp_path / "knn" / "labels.txt").exists()
    assert load_file(tmp_path / "knn" / "1" / "model.safetensors")[
        "head.weight"
    ].shape == (12, 192)


def test_text_is_quoted_whatever_it_holds(model_spec):
    from fovea.model_folder import ModelSpec, Preprocessing

    odd = 'back\\slash "quoted" \n Käfer'
    pixels = Preprocessing("SQUASH", "BILINEAR", 1.0, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    text = ModelSpec(odd, "b", 3, pixels, attention=[odd]).to_text()
    spec = text_format.Parse(text, model_spec())
    assert spec.name == odd and list(spec.attention) == [odd]
    assert spec.preprocessing.resize_mode == spec.preprocessing.SQUASH
    assert spec.preprocessing.crop_fraction == 1


def test_same_seed_gives_the_same_file(tiny: pathlib.Path, tmp_path: pathlib.Path):
    def weights(name: str, seed: str) -> bytes:
        assert (
            importer.main(
                [
                    TINY,
                    "--out",
                    str(tmp_path),
                    "--name",
                    name,
                    "--random",
                    "--seed",
                    seed,
                ]
            )
            == 0
        )
        return (tmp_path / name / "1" / "model.safetensors").read_bytes()

    first = (tiny / "1" / "model.safetensors").read_bytes()
    assert weights("again", "7") == first
    assert weights("other", "8") != first


# What timm loads of the second from its authors is not what the hub has.
@pytest.mark.parametrize("name", ["deit_tiny_patch16_224", "vit_tiny_patch16_224"])
def test_published_weights_come_from_the_hubs_cache(
    name: str, no_hub: NoHub, tmp_path: pathlib.Path
):
    hub_id = timm.get_pretrained_cfg(name).hf_hub_id
    trained = timm.create_model(name).state_dict()
    save_file(trained, no_hub.snapshot(hub_id) / "model.safetensors")

    assert importer.main([f"timm:{name}", "--out", str(tmp_path / "models")]) == 0
    folder = tmp_path / "models" / name
    written = load_file(folder / "1" / "model.safetensors")
    assert all(torch.equal(written[name], trained[name]) for name in trained)
    assert "published weights" in (folder / "model.textproto").read_text()


def test_without_a_hub_the_error_suggests_random_weights(
    no_hub: NoHub, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    models = tmp_path / "models"
    assert importer.main([TINY, "--out", str(models)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"fovea-import: the weights of {HUB_ID} could not be fetched ("
    )
    assert "--random" in error and error.count("\n") == 1
    assert not models.exists()


def test_published_head_has_no_other_size(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    assert importer.main([TINY, "--out", str(tmp_path), "--num-classes", "12"]) == 1
    assert "has 1000 classes, not 12" in capsys.readouterr().err


def test_weights_without_a_classifier_are_refused_where_the_backbone_has_one(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    source = "timm:vit_base_patch16_224.mae"
    assert importer.main([source, "--out", str(tmp_path), "--random"]) == 1
    assert "published without a classifier" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "side"),
    [("caformer_s18.sail_in1k_384", 384), ("caformer_s18.sail_in1k", None)],
)
def test_weights_for_other_pixels_are_served_with_them(
    name: str, side: int | None, zoo, tmp_path: pathlib.Path, model_spec
):
    source = f"timm:{name}"
    assert importer.main([source, "--out", str(tmp_path), "--random"]) == 0
    spec = read_spec(tmp_path / "caformer_s18", model_spec)
    assert spec.image_height == spec.image_width == (side or 0)
    pixels = torch.zeros(1, 3, side or 224, side or 224)
    (logits,) = zoo.run(str(tmp_path / "caformer_s18"), pixels)
    assert logits.shape == (1, 1000)


@pytest.mark.parametrize(
    "source",
    [
        "timm:resnet18",
        "deit_tiny_patch16_224",
        "timm:",
        "timm:vit_large_patch16_224.augreg_in21k",
    ],
)
def test_unknown_models_are_refused_with_the_known_ones(
    source: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    assert importer.main([source, "--out", str(tmp_path), "--random"]) == 2
    error = capsys.readouterr().err
    assert all(source in error for source in published.KNOWN)
    assert list(tmp_path.iterdir()) == []


def test_name_with_the_tag_of_its_weights_is_known():
    assert published.resolve("timm:deit_tiny_patch16_224.fb_in1k") == (
        "deit_tiny_patch16_224",
        "deit_tiny_patch16_224.fb_in1k",
    )


@pytest.mark.parametrize(
    "options",
    [
        ["--seed", "1"],
        ["--random", "--num-classes", "0"],
        ["--random", "--name", "a/b"],
        ["--random", "--name", ".."],
    ],
)
def test_wrong_usage_exits_with_2(
    options: list[str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    assert importer.main([TINY, "--out", str(tmp_path), *options]) == 2
    assert re.fullmatch(r"fovea-import: [^\n]+\n", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_existing_model_is_left_alone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    folder = tmp_path / "deit_tiny_patch16_224"
    folder.mkdir()
    assert importer.main([TINY, "--out", str(tmp_path), "--random"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    (tmp_path / "file").write_text("in the way")
    assert importer.main([TINY, "--out", str(tmp_path / "file"), "--random"]) == 1
    assert re.fullmatch(r"fovea-import: cannot write [^\n]+\n", capsys.readouterr().err)


@pytest.fixture(scope="session")
def zoo():
    torch.ops.load_library(BUILD / "lib" / "libfovea_models.so")
    return torch.ops.fovea_models


def test_known_models_are_the_backbones_that_timm_publishes(zoo):
    names = zoo.backbones()
    of_timm = {
        source.removeprefix("timm:")
        for source in published.KNOWN
        if source.startswith("timm:")
    }
    assert of_timm == {name for name in names if timm.is_model_pretrained(name)}
    assert set(published.KNOWN.values()) - set(names) == {  # heads on a backbone
        "retinanet_resnet50_fpn_v2",
        "maskrcnn_resnet50_fpn_v2",
        "upernet_swin_tiny",
    }


@pytest.mark.parametrize(
    "name",
    [
        "deit_tiny_patch16_224",
        "deit_tiny_distilled_patch16_224",
        "vit_small_patch16_224.dino",
        "vit_tiny_patch16_224",
    ],
)
def test_server_loads_the_folder_and_computes_what_timm_computes(
    name: str, zoo, tmp_path: pathlib.Path
):
    assert importer.main([f"timm:{name}", "--out", str(tmp_path), "--random"]) == 0
    model = timm.create_model(name).eval()
    model.load_state_dict(load_file(tmp_path / name / "1" / "model.safetensors"))
    pixels = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(pixels)
    (found,) = zoo.run(str(tmp_path / name), pixels)
    assert (found - expected).abs().max() <= 1e-3 * expected.std()


@pytest.mark.parametrize(
    "name",
    [
        "swin_tiny_patch4_window7_224",
        "pit_b_224",
        "twins_svt_base",
        "visformer_tiny",
        "volo_d1_384",
        "tnt_s_patch16_224",
        "cait_s24_224",
        "caformer_s18",
    ],
)
def test_server_loads_every_family(name: str, zoo, tmp_path: pathlib.Path):
    """What these compute, tests/model_zoo/test_parity_*.py compare."""
    assert importer.main([f"timm:{name}", "--out", str(tmp_path), "--random"]) == 0
    side = timm.get_pretrained_cfg(name).input_size[-1]
    (logits,) = zoo.run(str(tmp_path / name), torch.zeros(1, 3, side, side))
    assert logits.shape == (1, 1000)
    assert logits.isfinite().all()
