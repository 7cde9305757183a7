"""fovea-import takes the checkpoints that users of timm have on disk."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.models import VisionTransformer

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import importer

torch.ops.load_library(BUILD / "lib" / "libfovea_models.so")
zoo = torch.ops.fovea_models

TINY = "deit_tiny_patch16_224"
NAMES = ["dog", "cat", "great auk"]


def trained(model: torch.nn.Module) -> torch.nn.Module:
    """Every tensor moved: at the start many are zero, which any place may hold."""
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def timm_model(name: str = TINY, **options: object) -> torch.nn.Module:
    torch.manual_seed(8)
    return trained(timm.create_model(name, num_classes=len(NAMES), **options))


def own_vit(**options: object) -> VisionTransformer:
    sizes = {"img_size": 40, "patch_size": 8, "embed_dim": 96, "depth": 3}
    torch.manual_seed(8)
    return trained(
        VisionTransformer(
            **{**sizes, "num_heads": 4, "mlp_ratio": 2.5, "num_classes": 3, **options}
        )
    )


def run_import(file: pathlib.Path, architecture: str, *options: str) -> int:
    models = file.parent / "models"
    where = ["--out", str(models), "--name", "mine"]
    return importer.main([f"file:{file}", "--as", architecture, *where, *options])


def description(file: pathlib.Path) -> str:
    return (file.parent / "models" / "mine" / "model.textproto").read_text()


def check_answers(
    file: pathlib.Path, model: torch.nn.Module, size: tuple[int, int] = (224, 224)
) -> None:
    """The folder's answers are the model's."""
    pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(pixels)
    (found,) = zoo.run(str(file.parent / "models" / "mine"), pixels)
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-3 * expected.std()


def wrapped(key: str, weights: dict) -> dict:
    return {key: weights, "epoch": 3, "args": argparse.Namespace(lr=0.1, model=TINY)}


def test_a_safetensors_file_answers_as_timm_does(
    tmp_path: pathlib.Path, capsys
) -> None:
    model = timm_model()
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(NAMES))
    assert run_import(file, TINY, "--labels", str(labels)) == 0
    check_answers(file, model)
    assert "num_classes: 3\n" in description(file)
    written = (tmp_path / "models" / "mine" / "labels.txt").read_text()
    assert written.splitlines() == NAMES
    # What the file does not say is said, where it is read and where it is kept.
    told = capsys.readouterr().out
    assert "Preprocessing is not in the weights" in told
    assert "no names" not in told
    assert "Preprocessing is not in the weights" in description(file)
    assert "crop_fraction: 0.9\n" in description(file)


@pytest.mark.parametrize(
    ("suffix", "wrap", "told"),
    [
        (".pth", lambda weights: weights, None),
        (".pth.tar", lambda weights: wrapped("state_dict", weights), "'state_dict'"),
        (".bin", lambda weights: wrapped("model", weights), "'model'"),
        (
            ".pth.tar",
            lambda weights: wrapped(
                "state_dict",
                {f"module.{name}": weights[name] for name in weights},
            ),
            "'state_dict'",
        ),
        (
            ".pth.tar",
            lambda weights: {
                **wrapped("state_dict", {name: weights[name] + 1 for name in weights}),
                "state_dict_ema": weights,
            },
            "'state_dict_ema' in the file, and not 'state_dict'",
        ),
    ],
)
def test_what_timms_trainer_writes_is_unwrapped(
    suffix: str, wrap, told: str | None, tmp_path: pathlib.Path, capsys
) -> None:
    model = timm_model()
    file = tmp_path / f"model_best{suffix}"
    torch.save(wrap(model.state_dict()), file)
    assert run_import(file, TINY) == 0
    check_answers(file, model)
    output = capsys.readouterr().out
    assert told is None or f"The weights are those of {told}" in output
    assert "The classes have no names" in output
    assert not (tmp_path / "models" / "mine" / "labels.txt").exists()


def prefixed(prefix: str, weights: dict) -> dict:
    return {prefix + name: weights[name] for name in weights}


def other(weights: dict) -> dict:
    return {name: weights[name] + 1 for name in weights}


KEYS = ("model_state_dict", "net", "weights", "params", "model_state", "module")
PREFIXES = ("model.", "net.", "backbone.", "encoder.", "model._orig_mod.", "module.")


@pytest.mark.parametrize(
    ("wrap", "told"),
    [
        *(
            (lambda weights, key=key: {"epoch": 3, key: weights}, f"'{key}'")
            for key in (*KEYS, "teacher", "student")
        ),
        *(
            (
                lambda weights, prefix=prefix: {
                    "state_dict": prefixed(prefix, weights)
                },
                "'state_dict', under names that begin with",
            )
            for prefix in PREFIXES
        ),
        (
            lambda weights: {"teacher": weights, "student": other(weights)},
            "'teacher' in the file, and not 'student'",
        ),
        (
            lambda weights: {
                "state_dict": {
                    **prefixed("model.", other(weights)),
                    **prefixed("ema_model.", weights),
                    "ema_model.n_averaged": torch.tensor(9),
                    "criterion.weight": torch.ones(3),
                }
            },
            "Left out, because vit has no place for them: criterion.weight, n_averaged",
        ),
        (
            lambda weights: {
                "model": other(weights),
                "model_ema": {
                    **prefixed("module.", weights),
                    "n_averaged": torch.tensor(9),
                },
            },
            "and not 'model'",
        ),
        (  # the classifier beside the backbone
            lambda weights: {
                name if name.startswith("head.") else f"backbone.{name}": tensor
                for name, tensor in weights.items()
            },
            "names that begin with 'backbone.'",
        ),
        (
            lambda weights: {"model": weights, "best": {"weights": weights}},
            "'model'",
        ),
        (
            lambda weights: {
                "model": weights,
                "best_acc": np.float64(0.93),
                "epoch": np.int64(3),
                "better": np.bool_(True),
                "losses": [np.float32(1), np.arange(3.0)],
            },
            "'model'",
        ),
        (
            lambda weights: {
                "model": weights,
                "optimizer": {"state": {0: {"exp_avg": torch.ones(3, 3)}}},
            },
            "'model'",
        ),
    ],
)
def test_the_one_set_of_tensors_that_fits_is_found(
    wrap, told: str, tmp_path: pathlib.Path, capsys
) -> None:
    model = own_vit(depth=1)
    file = tmp_path / "mine.pth"
    torch.save(wrap(model.state_dict()), file)
    assert run_import(file, "vit", "--heads", "4") == 0
    check_answers(file, model, (40, 40))
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrap", "told"),
    [
        (
            lambda weights: {"last": weights, "best": other(weights)},
            "holds different weights of vit ('last', 'best')",
        ),
        (
            lambda weights: {
                **prefixed("model.", weights),
                "fc.weight": torch.ones(3, 3),
            },
            "holds what vit has no place for: fc.weight",
        ),
        (
            lambda weights: {"state_dict": {"conv.weight": torch.ones(3, 3)}},
            "has none of the names that vit has, such as cls_token: its own are conv.weight",
        ),
        (
            lambda _: {
                "vit.embeddings.patch_embeddings.projection.bias": torch.ones(3)
            },
            "has transformers' names, such as vit.embeddings",
        ),
        (
            lambda weights: {
                name: tensor.to(torch.float8_e4m3fn) for name, tensor in weights.items()
            },
            "as float8_e4m3fn: weights are float32, float16 or bfloat16",
        ),
    ],
)
def test_no_set_of_tensors_is_guessed(
    wrap, told: str, tmp_path: pathlib.Path, capsys
) -> None:
    file = tmp_path / "mine.pth"
    torch.save(wrap(own_vit(depth=1).state_dict()), file)
    assert run_import(file, "vit", "--heads", "4") == 1
    assert told in capsys.readouterr().err


def test_swins_older_names_are_taken(tmp_path: pathlib.Path, capsys) -> None:
    """timm's before 0.9, and its authors'."""
    name = "swin_tiny_patch4_window7_224"
    model = timm_model(name)
    older = {
        re.sub(
            r"layers\.(\d)\.downsample",
            lambda match: f"layers.{int(match[1]) - 1}.downsample",
            key.replace("head.fc.", "head."),
        ): tensor
        for key, tensor in model.state_dict().items()
    }
    file = tmp_path / "my.pth"
    torch.save({"model": older}, file)
    assert run_import(file, name) == 0
    assert "The names are those of timm before 0.9" in capsys.readouterr().out
    check_answers(file, model)


@pytest.mark.parametrize("size", [(256, 256), (320, 288)])
def test_swin_rolls_before_it_pads_as_timm_does(
    size: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    name = "swin_tiny_patch4_window7_224"
    model = timm_model(name)
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    wanted = f"{size[0]}x{size[1]}"
    assert run_import(file, name, "--image-size", wanted) == 0
    assert "window_padding: ROLL_THEN_PAD\n" in description(file)
    # Otherwise timm scales its windows with the map, and nothing would be padded.
    model.set_input_size(size, window_size=7)
    check_answers(file, model, size)


def test_a_tensor_with_two_names_is_written_twice(tmp_path: pathlib.Path) -> None:
    model = own_vit(depth=2)
    model.blocks[1] = model.blocks[0]
    file = tmp_path / "mine.pth"
    torch.save(model.state_dict(), file)
    assert run_import(file, "vit", "--heads", "4") == 0
    check_answers(file, model, (40, 40))


def test_one_class_has_a_confidence_of_its_own(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.pth"
    torch.save(own_vit(num_classes=1).state_dict(), file)
    assert run_import(file, "vit", "--heads", "4") == 0
    assert "classifier_activation: SIGMOID\n" in description(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\ufeffdog\r\ncat\r\ngreat auk\r\n\r\n", None),
        ("dog\ncat\ngreat\tauk\n", "line 3, 'great\\tauk', has a control character"),
        ("dog\n\ngreat auk\n", "line 2 is empty"),
        ("dog\ncat\n", "has 2 lines, and the model has 3 classes"),
    ],
)
def test_labels_are_checked_as_the_server_does(
    text: str, told: str | None, tmp_path: pathlib.Path, capsys
) -> None:
    file, labels = tmp_path / "mine.pth", tmp_path / "labels.txt"
    torch.save(own_vit(depth=1).state_dict(), file)
    labels.write_bytes(text.encode())
    code = run_import(file, "vit", "--heads", "4", "--labels", str(labels))
    if told is None:
        assert code == 0
        written = (tmp_path / "models/mine/labels.txt").read_text("utf-8")
        assert written.splitlines() == NAMES
    else:
        assert code == 1 and told in capsys.readouterr().err
        assert not (tmp_path / "models" / "mine").exists()


def hub_folder(
    folder: pathlib.Path, model: torch.nn.Module, **config: object
) -> pathlib.Path:
    """As timm's push_to_hf_hub writes one."""
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    described = {
        "architecture": TINY,
        "num_classes": len(NAMES),
        "label_names": NAMES,
        "global_pool": "token",
        "pretrained_cfg": {
            "tag": "mine",
            "mean": [0.1, 0.2, 0.3],
            "std": [0.5, 0.5, 0.5],
            "crop_pct": 0.95,
            "interpolation": "bilinear",
            "input_size": [3, 224, 224],
        },
    }
    (folder / "config.json").write_text(json.dumps(described | config))
    return folder


def test_a_folder_of_timms_is_taken(tmp_path: pathlib.Path, capsys) -> None:
    model = timm_model()
    folder = hub_folder(tmp_path / "hub", model)
    models = tmp_path / "models"
    where = ["--out", str(models), "--name", "mine"]
    assert importer.main([f"timm:{folder}", *where]) == 0
    assert "your weights" in capsys.readouterr().out
    check_answers(models.parent / "a file beside it", model)
    written = (models / "mine" / "model.textproto").read_text()
    for line in (
        "crop_fraction: 0.95",
        "mean: [0.1, 0.2, 0.3]",
        "interpolation: BILINEAR",
    ):
        assert line in written
    assert (models / "mine" / "labels.txt").read_text().splitlines() == NAMES


@pytest.mark.parametrize(
    ("config", "code", "told"),
    [
        (
            {"architecture": "convnext_tiny"},
            2,
            "holds timm's convnext_tiny, which Fovea does",
        ),
        ({"global_pool": "avg"}, 1, "pools by avg, and Fovea's"),
        ({"model_args": {"reg_tokens": 4}}, 1, "sets reg_tokens of"),
    ],
)
def test_a_folder_of_timms_with_another_model_is_refused(
    config: dict, code: int, told: str, tmp_path: pathlib.Path, capsys
) -> None:
    folder = hub_folder(tmp_path / "hub", torch.nn.Linear(1, 1), **config)
    assert importer.main([f"timm:{folder}", "--out", str(tmp_path / "models")]) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["timm", "transformers"])
def test_a_folder_that_is_not_there_is_said_to_be_missing(kind: str, capsys) -> None:
    assert importer.main([f"{kind}:./nope"]) == 1
    assert "there is no such folder ./nope" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "vit_small_patch16_224.dino",
        "deit_tiny_distilled_patch16_224",
        "swin_tiny_patch4_window7_224",
        "resnet50",
    ],
)
def test_other_architectures_of_timms_are_taken_too(
    name: str, tmp_path: pathlib.Path
) -> None:
    model = timm_model(name)
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, name) == 0
    check_answers(file, model)


def test_features_are_taken_where_none_but_features_were_published(
    tmp_path: pathlib.Path,
) -> None:
    name = "vit_small_patch16_224.dino"
    model = trained(timm.create_model(name))
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, name) == 0
    check_answers(file, model)


def test_the_positions_tell_the_size_of_the_images(tmp_path: pathlib.Path) -> None:
    model = timm_model(img_size=96)
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, TINY) == 0
    assert "image_height: 96\nimage_width: 96\n" in description(file)
    check_answers(file, model, (96, 96))


def test_positions_of_an_oblong_need_its_size(tmp_path: pathlib.Path, capsys) -> None:
    model = timm_model(img_size=(64, 96))
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, TINY) == 1
    assert "--image-size says what they are of" in capsys.readouterr().err
    assert run_import(file, TINY, "--image-size", "64x96") == 0
    check_answers(file, model, (64, 96))


def test_as_many_positions_of_another_shape_are_resized_and_said_to_be(
    tmp_path: pathlib.Path, capsys
) -> None:
    """A square number of them is a square's, whatever else it could be of."""
    model = timm_model()
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, TINY, "--image-size", "112x448") == 0
    assert "of 14x14 patches are resized to 7x28" in capsys.readouterr().out
    model.set_input_size((112, 448))
    check_answers(file, model, (112, 448))


def test_maps_of_positions_are_resized_and_said_to_be(
    tmp_path: pathlib.Path, capsys
) -> None:
    name = "visformer_tiny"
    model = timm_model(name)
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, name, "--image-size", "160") == 0
    assert "another size than 160x160, and resized when the model is loaded: pos_" in (
        capsys.readouterr().out
    )
    output, *_ = zoo.run(str(tmp_path / "models" / "mine"), torch.zeros(1, 3, 160, 160))
    assert output.shape == (1, len(NAMES))


def test_another_size_resizes_the_positions_and_says_so(
    tmp_path: pathlib.Path, capsys
) -> None:
    model = timm_model()
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, TINY, "--image-size", "192") == 0
    assert "Positions of 14x14 patches are resized to 12x12" in capsys.readouterr().out
    model.set_input_size((192, 192))
    check_answers(file, model, (192, 192))


def test_a_network_without_positions_takes_the_size_that_is_asked_for(
    tmp_path: pathlib.Path, capsys
) -> None:
    name = "resnet50"
    model = timm_model(name)
    file = tmp_path / "my.safetensors"
    save_file(model.state_dict(), file)
    assert run_import(file, name, "--image-size", "96x64") == 0
    assert "resized" not in capsys.readouterr().out
    check_answers(file, model, (96, 64))


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, (40, 40)),
        ({"embed_dim": 65, "num_heads": 13, "depth": 1, "mlp_ratio": 0.5}, (40, 40)),
        ({"img_size": (48, 24), "patch_size": 12}, (48, 24)),
    ],
)
def test_a_vit_of_any_size_is_deduced_from_its_weights(
    options: dict, size: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    model = own_vit(**options)
    file = tmp_path / "mine.pth"
    torch.save(model.state_dict(), file)
    heads = ["--heads", str(model.blocks[0].attn.num_heads)]
    oblong = ["--image-size", "48x24"] if size[0] != size[1] else []
    assert run_import(file, "vit", *heads, *oblong) == 0
    sizes = {
        "depth": len(model.blocks),
        "width": model.embed_dim,
        "heads": model.blocks[0].attn.num_heads,
        "patch_size": model.patch_embed.patch_size[0],
        "mlp_width": model.blocks[0].mlp.fc1.out_features,
    }
    lines = "".join(f"  {name}: {value}\n" for name, value in sizes.items())
    assert f"vit {{\n{lines}}}\n" in description(file)
    check_answers(file, model, size)


def test_heads_that_no_weight_tells_are_said_aloud(
    tmp_path: pathlib.Path, capsys
) -> None:
    model = own_vit(embed_dim=128, num_heads=2)
    file = tmp_path / "mine.pth"
    torch.save(model.state_dict(), file)
    assert run_import(file, "vit") == 0
    assert "taken to be 2, of 64 numbers each" in capsys.readouterr().out
    check_answers(file, model, (40, 40))


def test_heads_that_cannot_be_guessed_are_asked_for(
    tmp_path: pathlib.Path, capsys
) -> None:
    file = tmp_path / "mine.pth"
    torch.save(own_vit().state_dict(), file)
    assert run_import(file, "vit") == 1
    assert "--heads says how many" in capsys.readouterr().err
    assert run_import(file, "vit", "--heads", "5") == 1
    assert "96, which does not divide into 5 heads" in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


def test_positions_of_a_vit_of_ones_own_are_resized(
    tmp_path: pathlib.Path, capsys
) -> None:
    model = own_vit()
    file = tmp_path / "mine.pth"
    torch.save(model.state_dict(), file)
    assert run_import(file, "vit", "--heads", "4", "--image-size", "64x32") == 0
    assert "Positions of 5x5 patches are resized to 8x4" in capsys.readouterr().out
    model.set_input_size((64, 32))
    check_answers(file, model, (64, 32))


def without(weights: dict, name: str) -> dict:
    return {key: weights[key] for key in weights if key != name}


@pytest.mark.parametrize(
    ("change", "architecture", "told"),
    [
        (
            lambda weights: without(weights, "blocks.3.norm1.bias"),
            TINY,
            f"lacks what {TINY} needs: blocks.3.norm1.bias\n",
        ),
        (
            lambda weights: {**weights, "blocks.3.ls1.gamma": torch.ones(192)},
            TINY,
            f"holds what {TINY} has no place for: blocks.3.ls1.gamma\n",
        ),
        (
            lambda weights: {**weights, "norm.bias": torch.ones(191)},
            TINY,
            f"norm.bias as [191], and {TINY} needs [192]",
        ),
        (lambda weights: without(weights, "head.weight"), TINY, "has no head.weight"),
        (lambda weights: weights, "vit_small_patch16_224", "needs [1, 1, 384]"),
        (
            lambda weights: weights,
            "swin_tiny_patch4_window7_224",
            "has no head.fc.weight",
        ),
        (
            lambda weights: without(weights, "cls_token"),
            "vit",
            "lacks what vit in these sizes needs: cls_token\n",
        ),
        (lambda weights: without(weights, "pos_embed"), "vit", "has no pos_embed\n"),
        (
            lambda weights: {**weights, "blocks.100000000.norm1.bias": torch.ones(3)},
            "vit",
            "13 blocks, which are not numbered from 0 on",
        ),
        (
            lambda weights: {**weights, "head.weight": torch.zeros(())},
            TINY,
            "has head.weight as [], of which nothing follows",
        ),
        (
            lambda weights: {**weights, "pos_embed": torch.zeros(())},
            TINY,
            f"has pos_embed as [], and {TINY} needs [1, 197, 192]",
        ),
        (
            lambda weights: {**weights, "pos_embed": torch.zeros(1, 196, 192)},
            "vit",
            "is of 195 patches, which are no square",
        ),
        (
            lambda weights: {**weights, "fc_norm.bias": torch.zeros(192)},
            "vit",
            "has no place for: fc_norm.bias\n",
        ),
        (
            lambda weights: {
                **weights,
                "norm.bias": torch.ones(1, dtype=torch.float64).expand(10**12),
            },
            TINY,
            "does not hold every number of norm.bias\n",
        ),
        (
            lambda weights: {**weights, "norm.bias": torch.ones(192).to_sparse()},
            TINY,
            "does not hold every number of norm.bias\n",
        ),
        (
            lambda weights: {**weights, "norm.bias": torch.ones(192, device="meta")},
            TINY,
            "does not hold every number of norm.bias\n",
        ),
        (
            lambda _: {"epoch": 3},
            TINY,
            "holds no weights by name: epoch is no tensor with a name",
        ),
        (
            lambda weights: {**weights, 7: torch.ones(1)},
            TINY,
            "by name: 7 is no tensor with a name",
        ),
        (lambda _: {}, TINY, "holds no weights by name\n"),
        (lambda _: [1, 2], TINY, "holds a list, and not weights by name"),
    ],
)
def test_what_does_not_fit_is_told_in_words(
    change, architecture: str, told: str, tmp_path: pathlib.Path, capsys
) -> None:
    file = tmp_path / "my.pth"
    torch.save(change(timm_model().state_dict()), file)
    assert run_import(file, architecture) == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "models").exists()


class Malicious:
    ran = False

    def __reduce__(self):
        return setattr, (Malicious, "ran", True)


def test_code_in_a_file_is_not_run(tmp_path: pathlib.Path, capsys) -> None:
    file = tmp_path / "my.pth"
    torch.save({"state_dict": timm_model().state_dict(), "x": Malicious()}, file)
    assert run_import(file, TINY) == 1
    assert "holds more than weights, and it could be code" in capsys.readouterr().err
    assert not Malicious.ran


@pytest.mark.parametrize("name", ["my.pth", "my.safetensors", "my.bin", "my"])
def test_what_is_no_file_of_weights_is_one_sentence(
    name: str, tmp_path: pathlib.Path, capsys
) -> None:
    file = tmp_path / name
    assert run_import(file, TINY) == 1
    assert f"there is no file {file}" in capsys.readouterr().err
    for content in (
        *(b"", b"no weights", b"\x80\x02}q\x00.", b"PK\x03\x04 and no more"),
        *(b"\x80\x02.", b"\x80\x02j\x00\x00\x00\x00", b"\x80\x02}]K\x00s"),
    ):
        file.write_bytes(content)
        assert run_import(file, TINY) == 1
        error = capsys.readouterr().err
        assert str(file) in error and error.count("\n") == 1


def test_what_is_left_out_or_rounded_is_said(tmp_path: pathlib.Path, capsys) -> None:
    name = "swin_tiny_patch4_window7_224"
    model = timm_model(name)
    weights = dict(model.state_dict())
    index = "layers.0.blocks.0.attn.relative_position_index"
    weights[index] = torch.zeros(49, 49, dtype=torch.int64)
    weights["norm.bias"] = weights["norm.bias"].double()
    file = tmp_path / "my.pth"
    torch.save(weights, file)
    assert run_import(file, name) == 0
    told = capsys.readouterr().out
    assert f"Left out, because Fovea computes them: {index}." in told
    assert "Rounded from 64 to 32 bits: norm.bias." in told
    written = load_file(tmp_path / "models" / "mine" / "1" / "model.safetensors")
    assert index not in written
    check_answers(file, model)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["file:a.pth"], "--as ARCHITECTURE does"),
        ([f"timm:{TINY}", "--as", TINY], "--as goes with file:PATH"),
        ([f"timm:{TINY}", "--image-size", "96"], "--image-size goes with --as"),
        (["file:a.pth", "--as", TINY, "--heads", "3"], "--heads goes with --as vit"),
        (["file:a.pth", "--as", TINY, "--random"], "do not go with it"),
        (["file:a.pth", "--as", TINY, "--num-classes", "3"], "do not go with it"),
        (["file:a.pth", "--as", "vit_huge"], "none of the architectures"),
        (["torchvision:a.pth", "--as", TINY], "none of the architectures"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    arguments: list[str], told: str, tmp_path: pathlib.Path, capsys
) -> None:
    assert importer.main([*arguments, "--out", str(tmp_path / "models")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("text", ["0", "-1", "a", "1x2x3", "96x", "x"])
def test_an_image_size_is_a_number_or_two(text: str, capsys) -> None:
    with pytest.raises(SystemExit) as exit:
        importer.main(["file:a.pth", "--as", TINY, f"--image-size={text}"])
    assert exit.value.code == 2
    assert "--image-size" in capsys.readouterr().err


def test_pixels_that_do_not_divide_into_patches_are_refused(
    tmp_path: pathlib.Path, capsys
) -> None:
    file = tmp_path / "mine.pth"
    torch.save(own_vit().state_dict(), file)
    assert run_import(file, "vit", "--heads", "4", "--image-size", "41") == 1
    assert "41x41 pixels do not divide into patches of 8" in capsys.readouterr().err
    torch.save(timm_model().state_dict(), file)
    assert run_import(file, TINY, "--image-size", "41") == 1
    assert "41x41 pixels do not divide into patches of 16" in capsys.readouterr().err
