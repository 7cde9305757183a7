"""Writes a model folder, the form in which fovea-server reads a model.

The description is protobuf's text format of fovea.v1.ModelSpec
(proto/fovea/v1/model_spec.proto). It is written by hand, so that importing a model
needs no protobuf.
"""

import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file

_MOST_LABEL_BYTES = 1024
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


class FolderError(Exception):
    """The folder cannot be written; the message is one sentence for the user."""


@dataclass(frozen=True)
class Preprocessing:
    """From an image's bytes to the model's pixels.

    `mean` and `std` are of pixels in [0, 1], in RGB order.
    """

    resize_mode: str  # SHORTEST_EDGE, SQUASH or FIT
    interpolation: str  # BILINEAR or BICUBIC
    crop_fraction: float | None  # in (0, 1]; None with FIT
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    sides: tuple[int, int] | None = None  # FIT: the shorter one, the longer at most
    crop_offset: str | None = None  # NEAREST or FLOOR; None: the server's default

    def to_lines(self) -> list[str]:
        lines = [
            f"resize_mode: {self.resize_mode}",
            f"interpolation: {self.interpolation}",
        ]
        if self.crop_fraction is not None:
            lines.append(f"crop_fraction: {self.crop_fraction!r}")
        if self.crop_offset is not None:
            lines.append(f"crop_offset: {self.crop_offset}")
        if self.sides:
            shorter, longer = self.sides
            lines += [f"shorter_side: {shorter}", f"longer_side: {longer}"]
        return [
            *lines,
            f"mean: [{', '.join(map(repr, self.mean))}]",
            f"std: [{', '.join(map(repr, self.std))}]",
        ]


@dataclass(frozen=True)
class Head:
    """What stands behind the backbone, if not its own classifier."""

    task: str  # DETECTION or SEGMENTATION
    name: str  # of model_zoo/heads
    # Of a detector, by torchvision's conventions; None with SEGMENTATION.
    score_threshold: float | None = None
    nms_iou: float | None = None
    detections_per_image: int | None = None

    def to_lines(self) -> list[str]:
        lines = [f"name: {_quoted(self.name)}"]
        if self.task == "DETECTION":
            lines += [
                "conventions: TORCHVISION",
                f"score_threshold: {self.score_threshold!r}",
                f"nms_iou: {self.nms_iou!r}",
                f"detections_per_image: {self.detections_per_image}",
            ]
        return lines


@dataclass(frozen=True)
class VitSizes:
    """Of the backbone "vit"."""

    depth: int
    width: int
    heads: int
    patch_size: int  # pixels a side
    mlp_width: int

    def to_lines(self) -> list[str]:
        return [f"{name}: {size}" for name, size in vars(self).items()]


@dataclass(frozen=True)
class ModelSpec:
    """The fields of fovea.v1.ModelSpec that an imported model needs."""

    name: str
    backbone: str
    num_classes: int
    preprocessing: Preprocessing
    image_size: tuple[int, int] | None = None  # height, width; None: the usual one
    head: Head | None = None  # None: the backbone's own classifier
    vit: VitSizes | None = None
    attention: Sequence[str] = ()  # empty: the published one
    precision: str = "FP32"  # or BF16, FP16, INT8
    untrained: bool = False  # the weights are random: answers say so
    sigmoid: bool = False  # confidences are each class's own, and no shares
    rolls_first: bool = False  # Swin's maps are rolled before they are padded
    comments: Sequence[str] = field(default=())  # lines above the description

    def to_text(self) -> str:
        height, width = self.image_size or (None, None)
        lines = [f"# {' '.join(comment.split())}" for comment in self.comments]
        lines += [
            "spec_version: 1",
            f"name: {_quoted(self.name)}",
            f"backbone: {_quoted(self.backbone)}",
            *(f"attention: {_quoted(text)}" for text in self.attention),
            *(_message("vit", self.vit.to_lines()) if self.vit else []),
            f"task: {self.head.task if self.head else 'CLASSIFICATION'}",
            *(_message("head", self.head.to_lines()) if self.head else []),
            f"num_classes: {self.num_classes}",
            *([f"image_height: {height}", f"image_width: {width}"] if height else []),
            f"precision: {self.precision}",
            *(["untrained: true"] if self.untrained else []),
            *(["classifier_activation: SIGMOID"] if self.sigmoid else []),
            *(["window_padding: ROLL_THEN_PAD"] if self.rolls_first else []),
            *_message("preprocessing", self.preprocessing.to_lines()),
        ]
        return "\n".join(lines) + "\n"


def check_name(name: str) -> None:
    """Raises FolderError where the server would not take `name` as a model's."""
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise FolderError(
            f"{name!r} cannot be a model's name: "
            "use 1 to 128 letters, digits, '.', '_' and '-', and no '.' first"
        )


def check_labels(labels: Sequence[str]) -> None:
    """Raises FolderError where the server would not take them, one a line."""
    for number, label in enumerate(labels, 1):
        if not label:
            raise FolderError(f"the label in line {number} is empty")
        if len(label.encode()) > _MOST_LABEL_BYTES:
            raise FolderError(f"the label in line {number} is longer than 1024 bytes")
        if any(unicodedata.category(character) == "Cc" for character in label):
            raise FolderError(
                f"the label in line {number}, {label!r}, has a control character in it"
            )


def check_absent(folder: Path) -> None:
    """Raises FolderError where there is such a folder or file."""
    if os.path.lexists(folder):
        raise FolderError(
            f"{folder} exists already: remove it, or choose another --name"
        )


def write_model_folder(
    repository: Path,
    spec: ModelSpec,
    weights: dict[str, torch.Tensor],
    labels: Sequence[str] | None,
) -> Path:
    """Writes repository/NAME with the weights as version 1 and returns its path.

    The folder appears complete or not at all: a server that watches the repository
    never sees half of it. An existing one is never touched.
    """
    check_name(spec.name)
    check_labels(labels or ())
    folder = repository / spec.name
    check_absent(folder)
    staging = None
    try:
        repository.mkdir(parents=True, exist_ok=True)
        # "~" is in no model's name, so that a server takes no notice of the folder.
        staging = Path(tempfile.mkdtemp(prefix="importing~", dir=repository))
        (staging / "1").mkdir()
        file = staging / "1" / "model.safetensors"
        save_file(_apart(weights), file)
        # Both are made for their owner only; the server may be another user.
        staging.chmod(0o755)
        file.chmod(0o644)
        if labels is not None:
            (staging / "labels.txt").write_text(
                "".join(f"{label}\n" for label in labels), encoding="utf-8"
            )
        (staging / "model.textproto").write_text(spec.to_text(), encoding="utf-8")
        os.rename(staging, folder)
        staging = None
    except OSError as error:
        raise FolderError(
            f"cannot write {folder}: {error.strerror or error}"
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
    return folder


def _apart(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each contiguous and in memory of its own, as safetensors wants them: a network may use one tensor twice."""
    apart: dict[str, torch.Tensor] = {}
    seen = set()
    for name, tensor in weights.items():
        own = tensor.detach().cpu().contiguous()
        place = own.untyped_storage().data_ptr()
        apart[name] = own.clone() if place in seen else own
        seen.add(place)
    return apart


def _quoted(text: str) -> str:
    """A string literal of protobuf's text format."""
    escaped = (
        text.replace("\\", "\\\\")
        .replace('"', '\\"')
        .replace("\n", "\\n")
        .replace("\r", "\\r")
    )
    return f'"{escaped}"'


def _message(name: str, lines: list[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]
