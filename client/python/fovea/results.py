"""What a Fovea server answers, as fovea.client gives it."""

from __future__ import annotations

import dataclasses
import io
import math
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fovea import drawing, run_lengths
from fovea.pictures import Picture

STAGES = (
    "receive",
    "decode",
    "preprocess",
    "queue",
    "compute",
    "postprocess",
    "encode",
)

DEVICE_STEPS = ("h2d", "kernels", "d2h")  # of a GPU

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Receipt:
    """What a request cost."""

    seconds: dict[str, float]  # by stage, as STAGES names them
    batch_size: int  # pictures in the batch that the request was run in
    batch_threads: int  # of the server's CPU, that ran it; 0: the server is older
    # Most that the whole batch's tensors held at one time, without the weights.
    batch_peak_bytes: int
    padding: float  # the share of the model's input that shows nothing of the pictures
    # The experiment that chose who answers, and the arm that it chose, by its name: "shapes:knn:k=9". Empty: none has the traffic.
    experiment: str
    experiment_arm: str
    # What a GPU did during the compute stage, by its own clock: "h2d", "kernels" and "d2h". None: the batch ran on the CPU.
    device_seconds: dict[str, float] | None = None

    @property
    def total_seconds(self) -> float:
        """From the request's arrival at the server to the answer's encoding."""
        return math.fsum(self.seconds.values())


@dataclasses.dataclass(frozen=True, eq=False)
class Classification:
    """Of one picture; the most probable class first."""

    classes: NDArray[np.int64]  # [k]
    labels: list[str]  # [k]; empty texts where the model has no labels
    confidences: NDArray[np.float32]  # [k]; `.tolist()` for json
    logits: NDArray[np.float32]  # [k]


@dataclasses.dataclass(frozen=True)
class InstanceMask:
    """The pixels of one object."""

    run_lengths: str  # COCO's compressed run lengths, of the whole picture
    size: tuple[int, int]  # of the picture: height, width
    pixels: int  # of the object

    def array(self) -> NDArray[np.bool_]:
        """[height, width]."""
        return run_lengths.decode(self.run_lengths, *self.size)

    def image(self) -> Image.Image:
        """255 where the object is, mode "L"."""
        return drawing.image_of_mask(self.array())


@dataclasses.dataclass(frozen=True, eq=False)
class Detections:
    """Of one picture, by descending score; none is no error."""

    # [n, 4]: left, top, right, bottom, in pixels of the upright picture.
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]  # [n]
    classes: NDArray[np.int64]  # [n]
    labels: list[str]  # [n]; empty texts where the model has no labels
    masks: list[InstanceMask] | None  # [n]; None: not asked for
    size: tuple[int, int]  # of the upright picture: height, width

    def drawn(self, picture: Picture) -> Image.Image:
        """The picture, upright, with the objects in it. ValueError: it is not the one that they were found in."""
        return drawing.objects_over(self, picture)


@dataclasses.dataclass(frozen=True)
class ClassArea:
    class_index: int
    label: str  # empty where the model has no labels
    pixels: int


@dataclasses.dataclass(frozen=True, eq=False)
class Segmentation:
    """Of one picture, upright."""

    # [height, width]; uint16 of more than 256 classes.
    class_map: NDArray[np.uint8] | NDArray[np.uint16]
    classes: list[ClassArea]  # of the classes that it shows, the largest first
    # [height, width]: 255 times the softmax of the pixel's class. None: not asked for.
    confidence: NDArray[np.uint8] | None

    def image(self) -> Image.Image:
        """The colours of the pixels' classes."""
        return drawing.image_of_classes(self)

    def drawn(self, picture: Picture) -> Image.Image:
        """The picture, upright, under the colours of its classes. ValueError: it is not the one that was segmented."""
        return drawing.classes_over(self, picture)


@dataclasses.dataclass(frozen=True, eq=False)
class Answer(Generic[Result]):
    images: list[Result]  # in the order of the pictures
    receipt: Receipt
    round_trip_seconds: float  # as the caller saw it, with the network
    model: str
    version: str
    attention: str  # canonical text, for example "knn:k=100"
    untrained: bool  # the weights are random numbers: the results mean nothing


def pixels_of(png: bytes) -> NDArray[Any]:
    """uint8 or uint16."""
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image)
    # Older releases of Pillow read 16 bits as int32.
    return pixels if pixels.dtype == np.uint8 else pixels.astype(np.uint16)


def classification_of(image: Any) -> Classification:
    return Classification(
        classes=np.array([one.index for one in image.classes], np.int64),
        labels=[one.label for one in image.classes],
        confidences=np.array([one.confidence for one in image.classes], np.float32),
        logits=np.array([one.logit for one in image.classes], np.float32),
    )


def detections_of(image: Any, masks: bool) -> Detections:
    size = (image.image_height, image.image_width)
    found = image.detections
    boxes = [
        (one.box.left, one.box.top, one.box.right, one.box.bottom) for one in found
    ]
    return Detections(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array([one.score for one in found], np.float32),
        classes=np.array([one.class_index for one in found], np.int64),
        labels=[one.label for one in found],
        masks=[
            InstanceMask(one.mask.run_lengths, size, one.mask.pixels) for one in found
        ]
        if masks
        else None,
        size=size,
    )


def segmentation_of(image: Any) -> Segmentation:
    return Segmentation(
        class_map=pixels_of(image.class_map_png),
        classes=[
            ClassArea(one.class_index, one.label, one.pixels) for one in image.classes
        ],
        confidence=pixels_of(image.confidence_png) if image.confidence_png else None,
    )


def receipt_of(receipt: Any) -> Receipt:
    return Receipt(
        seconds={stage: getattr(receipt, f"{stage}_ns") / 1e9 for stage in STAGES},
        batch_size=receipt.batch_size,
        batch_threads=receipt.batch_threads,
        batch_peak_bytes=receipt.batch_peak_bytes,
        padding=receipt.padding,
        experiment=receipt.experiment,
        experiment_arm=receipt.experiment_arm,
        device_seconds={
            step: getattr(receipt, f"{step}_ns") / 1e9 for step in DEVICE_STEPS
        }
        if receipt.HasField("kernels_ns")
        else None,
    )
