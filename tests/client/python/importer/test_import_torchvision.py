"""fovea-import writes what torchvision publishes, and what its users trained."""

from __future__ import annotations

import os
import pathlib
import sys
import urllib.request

import pytest
import torch
import torchvision
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
sys.path[:0] = [str(ROOT / "client" / "python"), str(ROOT / "tests" / "model_zoo")]

import torchvision_detectors
from fovea import importer, published

torch.ops.load_library(BUILD / "lib" / "libfovea_models.so")
zoo = torch.ops.fovea_models

RETINANET = "retinanet_resnet50_fpn_v2"
MASK_RCNN = "maskrcnn_resnet50_fpn_v2"
NAMES = ["dog", "cat", "great auk"]


class NoDownloads:
    """Where torchvision keeps what it has fetched; nothing more can be fetched."""

    def __init__(self, cache: pathlib.Path) -> None:
        self.checkpoints = cache / "checkpoints"
        self.checkpoints.mkdir(parents=True)

    def has(self, weights, model: torch.nn.Module) -> None:
        file = weights.url.rpartition("/")[2]
        torch.save(model.state_dict(), self.checkpoints / file)


@pytest.fixture
def no_downloads(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> NoDownloads:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    # urlopen keeps the opener of its first call, and with it the proxies: for this test alone.
    monkeypatch.setattr(urllib.request, "_opener", None)
    for variable in ("http_proxy", "https_proxy"):  # port 1 refuses at once
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    return NoDownloads(tmp_path / "hub")


@pytest.fixture(scope="module")
def detectors() -> dict[str, torch.nn.Module]:
    """With classes of a user's own; Mask R-CNN's first is the background."""
    return {
        RETINANET: torchvision_detectors.retinanet(len(NAMES)),
        MASK_RCNN: torchvision_detectors.mask_rcnn(1 + len(NAMES)),
    }


def labels_file(folder: pathlib.Path, names: list[str] = NAMES) -> pathlib.Path:
    file = folder / "labels.txt"
    file.write_text("".join(f"{name}\n" for name in names))
    return file


def run_at(folder: pathlib.Path, pixels: torch.Tensor) -> list[torch.Tensor]:
    """The folder as it was written, but for the sizes that it runs at: the usual ones are large."""
    height, width = pixels.shape[2:]
    with (folder / "model.textproto").open("a") as description:
        description.write(f"image_height: {height}\nimage_width: {width}\n")
    return zoo.run(str(folder), pixels)


def expected_of(model: torch.nn.Module, pixels: torch.Tensor) -> list[dict]:
    """What the whole model answers to pixels that need neither resizing nor normalising, masks as in their boxes."""
    transform = model.transform
    transform.min_size, transform.max_size = (pixels.shape[2],), pixels.shape[3]
    transform.image_mean, transform.image_std = [0.0] * 3, [1.0] * 3
    transform.postprocess = lambda detections, *_: detections
    with torch.inference_mode():
        return model(list(pixels))


def check_detections(found: list[torch.Tensor], image: int, expected: dict) -> None:
    """Object by object; one of nearly equal score may have changed places or let in another at the list's end."""
    boxes, scores, labels, count, *masks = (output[image] for output in found)
    assert count >= 20
    assert int(count) == pytest.approx(len(expected["scores"]), abs=1)
    left = set(range(int(count)))
    missed = 0
    for i, (box, score, label) in enumerate(
        zip(expected["boxes"], expected["scores"], expected["labels"], strict=True)
    ):
        same = [
            j
            for j in left
            if labels[j] == label
            and (scores[j] - score).abs() <= 1e-3
            and (boxes[j] - box).abs().max() <= 0.05
        ]
        if not same:
            missed += 1
            continue
        left.remove(same[0])
        if masks:
            assert (masks[0][same[0]] - expected["masks"][i, 0]).abs().max() <= 2e-3
    assert missed <= 2


@pytest.mark.parametrize("architecture", [RETINANET, MASK_RCNN])
def test_what_a_user_trained_finds_what_torchvision_finds(
    architecture: str, detectors: dict, tmp_path: pathlib.Path, capsys
) -> None:
    model = detectors[architecture]
    torch.save({"model": model.state_dict(), "epoch": 26}, tmp_path / "model_26.pth")
    source = f"torchvision:{tmp_path / 'model_26.pth'}"
    options = ["--as", architecture, "--labels", str(labels_file(tmp_path))]
    where = ["--out", str(tmp_path), "--name", "mine"]
    assert importer.main([source, *options, *where]) == 0

    told = capsys.readouterr().out
    assert "those of 'model' in the file" in told
    assert f"they are those of torchvision's {architecture}" in told
    labels = (tmp_path / "mine" / "labels.txt").read_text().splitlines()
    background = ["__background__"] if architecture == MASK_RCNN else []
    assert labels == background + NAMES
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(2, 3, *torchvision_detectors.SIZE, generator=generator)
    expected = expected_of(model, pixels)
    found = run_at(tmp_path / "mine", pixels)
    assert len(found) == (5 if architecture == MASK_RCNN else 4)
    for image, theirs in enumerate(expected):
        check_detections(found, image, theirs)


def test_a_classifier_answers_what_torchvisions_answers(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(3)
    model = torchvision.models.resnet50(num_classes=len(NAMES)).eval()
    for parameter in model.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    torch.save(model.state_dict(), tmp_path / "mine.pth")
    source = f"torchvision:{tmp_path / 'mine.pth'}"
    arguments = [source, "--as", "resnet50", "--out", str(tmp_path)]
    assert importer.main([*arguments, "--labels", str(labels_file(tmp_path))]) == 0
    pixels = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(pixels)
    (found,) = zoo.run(str(tmp_path / "resnet50"), pixels)
    assert (found - expected).abs().max() <= 1e-3 * expected.std()


@pytest.mark.parametrize("architecture", [RETINANET, MASK_RCNN])
def test_a_published_detector_comes_with_its_labels_and_thresholds(
    architecture: str, no_downloads: NoDownloads, tmp_path: pathlib.Path
) -> None:
    weights = torchvision.models.get_model_weights(architecture).DEFAULT
    torch.manual_seed(9)
    model = torchvision.models.get_model(
        architecture, weights=None, weights_backbone=None
    )
    no_downloads.has(weights, model)
    arguments = [f"torchvision:{architecture}", "--out", str(tmp_path)]
    assert importer.main(arguments) == 0
    folder = tmp_path / architecture
    labels = (folder / "labels.txt").read_text().splitlines()
    assert labels == weights.meta["categories"]
    assert (len(labels), labels[0], labels[12]) == (91, "__background__", "N/A")
    written = load_file(folder / "1" / "model.safetensors")
    body = model.backbone.body.conv1.weight
    assert torch.equal(written["backbone.conv1.weight"], body)
    description = (folder / "model.textproto").read_text()
    most = 300 if architecture == RETINANET else 100
    for line in (
        'backbone: "resnet50"',
        "task: DETECTION",
        f'head {{\n  name: "{"retinanet" if most == 300 else "mask_rcnn"}"',
        "  conventions: TORCHVISION",
        "  score_threshold: 0.05",
        "  nms_iou: 0.5",
        f"  detections_per_image: {most}",
        "num_classes: 91",
        "  resize_mode: FIT",
        "  interpolation: BILINEAR",
        "  shorter_side: 800\n  longer_side: 1333",
        "  mean: [0.485, 0.456, 0.406]",
    ):
        assert f"\n{line}\n" in description
    assert "untrained" not in description
    assert "without anti-aliasing" in description  # which Fovea does not do
    boxes, *_ = run_at(folder, torch.zeros(1, 3, 64, 96))
    assert boxes.shape == (1, most, 4)


@pytest.mark.parametrize(
    ("name", "fraction"),
    [("resnet50", 224 / 232), ("resnet50.IMAGENET1K_V1", 224 / 256)],
)
def test_published_classifiers_come_with_their_preprocessing(
    name: str, fraction: float, no_downloads: NoDownloads, tmp_path: pathlib.Path
) -> None:
    known = torchvision.models.ResNet50_Weights
    tag = name.partition(".")[2]
    model = torchvision.models.resnet50()
    no_downloads.has(known[tag] if tag else known.DEFAULT, model)
    assert importer.main([f"torchvision:{name}", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "resnet50"
    description = (folder / "model.textproto").read_text()
    assert f"crop_fraction: {fraction!r}" in description
    assert "interpolation: BILINEAR" in description
    assert (folder / "labels.txt").read_text().startswith("tench\n")
    written = load_file(folder / "1" / "model.safetensors")
    assert torch.equal(written["fc.bias"], model.fc.bias)


@pytest.mark.parametrize("architecture", ["resnet50", RETINANET, MASK_RCNN])
def test_random_weights_load_and_say_so(
    architecture: str, tmp_path: pathlib.Path
) -> None:
    arguments = [f"torchvision:{architecture}", "--out", str(tmp_path), "--random"]
    assert importer.main([*arguments, "--num-classes", "7"]) == 0
    folder = tmp_path / architecture
    assert "untrained: true" in (folder / "model.textproto").read_text()
    assert not (folder / "labels.txt").exists()
    output, *_ = run_at(folder, torch.zeros(1, 3, 64, 64))
    assert output.isfinite().all()


def test_without_downloads_the_error_suggests_random_weights(
    no_downloads: NoDownloads, tmp_path: pathlib.Path, capsys
) -> None:
    arguments = [f"torchvision:{RETINANET}", "--out", str(tmp_path / "models")]
    assert importer.main(arguments) == 1
    error = capsys.readouterr().err
    assert "could not be fetched" in error and "--random" in error
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("retinanet_resnet50_fpn", "have no norms"),
        ("maskrcnn_resnet50_fpn", "have no norms"),
        ("fasterrcnn_resnet50_fpn", "without masks"),
        ("fasterrcnn_resnet50_fpn_v2", "without masks"),
        ("keypointrcnn_resnet50_fpn", "keypoints"),
        ("fcos_resnet50_fpn", "without anchors"),
        ("ssd300_vgg16", "neither its backbone nor its head"),
    ],
)
def test_detectors_that_the_heads_cannot_hold_are_refused_in_words(
    name: str, reason: str, tmp_path: pathlib.Path, capsys
) -> None:
    assert importer.main([f"torchvision:{name}", "--out", str(tmp_path)]) == 2
    assert reason in capsys.readouterr().err
    torch.save({}, tmp_path / "a.pth")
    file = f"torchvision:{tmp_path / 'a.pth'}"
    assert importer.main([file, "--as", name, "--out", str(tmp_path)]) == 2
    assert reason in capsys.readouterr().err


def test_every_detector_of_torchvisions_is_known_or_refused_with_a_reason() -> None:
    for name in torchvision.models.list_models(torchvision.models.detection):
        try:
            assert published.resolve(f"torchvision:{name}") == (name, name)
        except published.UnknownModel as error:
            assert f"torchvision's {name} cannot be had: " in str(error)


def test_the_weights_of_another_version_are_refused(
    tmp_path: pathlib.Path, capsys
) -> None:
    model = torchvision.models.get_model(
        "retinanet_resnet50_fpn", weights=None, weights_backbone=None
    )
    torch.save(model.state_dict(), tmp_path / "v1.pth")
    source = f"torchvision:{tmp_path / 'v1.pth'}"
    models = tmp_path / "models"
    assert importer.main([source, "--as", RETINANET, "--out", str(models)]) == 1
    assert f"lacks what {RETINANET} needs: head." in capsys.readouterr().err
    assert not models.exists()


def test_anchors_of_another_number_are_refused(
    detectors: dict, tmp_path: pathlib.Path, capsys
) -> None:
    weights = dict(detectors[RETINANET].state_dict())
    boxes = "head.regression_head.bbox_reg.weight"
    weights[boxes] = weights[boxes][:12]
    torch.save(weights, tmp_path / "mine.pth")
    source = f"torchvision:{tmp_path / 'mine.pth'}"
    models = tmp_path / "models"
    assert importer.main([source, "--as", RETINANET, "--out", str(models)]) == 1
    assert f"{boxes} as [12, 256, 3, 3]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("architecture", "names", "told"),
    [
        (RETINANET, NAMES[:1], "1 lines, and the model has 3 classes, the background"),
        (RETINANET, [*NAMES, "dodo"], "4 lines, and the model has 3 classes, the back"),
        (MASK_RCNN, NAMES[:2], "4 classes, the background among them"),
        (MASK_RCNN, ["dog", "", "cat"], "line 2 is empty"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    architecture: str,
    names: list[str],
    told: str,
    detectors: dict,
    tmp_path: pathlib.Path,
    capsys,
) -> None:
    torch.save(detectors[architecture].state_dict(), tmp_path / "mine.pth")
    source = f"torchvision:{tmp_path / 'mine.pth'}"
    labels = ["--labels", str(labels_file(tmp_path, names))]
    models = tmp_path / "models"
    arguments = [source, "--as", architecture, "--out", str(models), *labels]
    assert importer.main(arguments) == 1
    assert told in capsys.readouterr().err
    assert not models.exists()
