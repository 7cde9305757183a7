"""What fovea.client asks a server, and how the answer is read."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, Generic

import numpy as np
from PIL import Image

from fovea.errors import Error
from fovea.results import (
    Answer,
    Classification,
    Detections,
    Result,
    Segmentation,
    classification_of,
    detections_of,
    receipt_of,
    segmentation_of,
)
from fovea.v1 import vision_pb2

# A JPEG, PNG or WebP file: its bytes or its path; or pixels, uint8 [height, width, 3] RGB.
Picture = bytes | str | os.PathLike | np.ndarray


@dataclasses.dataclass(frozen=True)
class Expected(Generic[Result]):
    """What a request is answered with."""

    task: str  # as a stream's messages name it: "classify", "detect", "segment"
    pictures: int
    result_of: Callable[[Any], Result]  # one picture's

    def answer_of(self, response: Any, seconds: float) -> Answer[Result]:
        """seconds: from the request to the response. Error: the response does not fit the request."""
        if len(response.results) != self.pictures:
            raise Error(
                "INTERNAL",
                "",
                f"the server answered {len(response.results)} results to {self.pictures} pictures",
            )
        return Answer(
            images=[self.result_of(image) for image in response.results],
            receipt=receipt_of(response.receipt),
            round_trip_seconds=seconds,
            model=response.model_name,
            version=response.model_version,
            attention=response.attention,
            untrained=response.untrained,
        )


@dataclasses.dataclass(frozen=True)
class Request(Generic[Result]):
    message: Any  # holds the pictures' files
    expected: Expected[Result]


def to_classify(
    model: str,
    pictures: Iterable[Picture],
    *,
    top_k: int,
    version: str,
    priority: int,
    id: str = "",
) -> Request[Classification]:
    message = vision_pb2.ClassifyRequest(
        model_name=model,
        model_version=version,
        id=id,
        images=_files(pictures),
        top_k=top_k,
        priority=priority,
    )
    return _request("classify", message, classification_of)


def to_detect(
    model: str,
    pictures: Iterable[Picture],
    *,
    score_threshold: float,
    max_detections: int,
    classes: Iterable[str],
    masks: bool,
    version: str,
    priority: int,
    id: str = "",
) -> Request[Detections]:
    wanted = vision_pb2.DetectRequest
    message = wanted(
        model_name=model,
        model_version=version,
        id=id,
        images=_files(pictures),
        score_threshold=score_threshold,
        max_detections=max_detections,
        classes=_several(classes, "classes"),
        mask_format=wanted.RUN_LENGTHS if masks else wanted.MASK_FORMAT_UNSPECIFIED,
        priority=priority,
    )
    return _request("detect", message, lambda image: detections_of(image, masks))


def to_segment(
    model: str,
    pictures: Iterable[Picture],
    *,
    confidence: bool,
    version: str,
    priority: int,
    id: str = "",
) -> Request[Segmentation]:
    message = vision_pb2.SegmentRequest(
        model_name=model,
        model_version=version,
        id=id,
        images=_files(pictures),
        confidence=confidence,
        priority=priority,
    )
    return _request("segment", message, segmentation_of)


def _request(
    task: str, message: Any, result_of: Callable[[Any], Result]
) -> Request[Result]:
    return Request(message, Expected(task, len(message.images), result_of))


def _several(texts: Iterable[str], name: str) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"{name} is a text: give a list of texts")
    return list(texts)


def _files(pictures: Iterable[Picture]) -> list[bytes]:
    if isinstance(pictures, (str, bytes, os.PathLike)):
        raise TypeError("pictures is one file: give a list of pictures")
    return [_file(picture) for picture in pictures]


def _file(picture: Picture) -> bytes:
    if isinstance(picture, bytes):
        return picture
    if isinstance(picture, (str, os.PathLike)):
        return pathlib.Path(picture).read_bytes()
    if (
        not isinstance(picture, np.ndarray)
        or picture.dtype != np.uint8
        or picture.shape[2:] != (3,)
        or not picture.size
    ):
        raise TypeError(
            "a picture is a file's bytes, its path, or pixels: uint8 [height, width, 3]"
        )
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", compress_level=1)
    return file.getvalue()
