"""What fovea.client asks a server, and how the answer is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypedDict

from fovea.errors import Error
from fovea.pictures import Picture, files_of
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


class ClassifyOptions(TypedDict, total=False):
    """Of a call, by name; Client.classify says what they mean."""

    top_k: int
    version: str
    priority: int


class DetectOptions(TypedDict, total=False):
    """Client.detect's."""

    score_threshold: float
    max_detections: int
    classes: Iterable[str]
    masks: bool
    version: str
    priority: int


class SegmentOptions(TypedDict, total=False):
    """Client.segment's."""

    confidence: bool
    version: str
    priority: int


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
    top_k: int = 5,
    version: str = "",
    priority: int = 0,
    id: str = "",
) -> Request[Classification]:
    message = vision_pb2.ClassifyRequest(
        model_name=model,
        model_version=version,
        id=id,
        images=files_of(pictures),
        top_k=top_k,
        priority=priority,
    )
    return _request("classify", message, classification_of)


def to_detect(
    model: str,
    pictures: Iterable[Picture],
    *,
    score_threshold: float = 0,
    max_detections: int = 0,
    classes: Iterable[str] = (),
    masks: bool = False,
    version: str = "",
    priority: int = 0,
    id: str = "",
) -> Request[Detections]:
    wanted = vision_pb2.DetectRequest
    message = wanted(
        model_name=model,
        model_version=version,
        id=id,
        images=files_of(pictures),
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
    confidence: bool = False,
    version: str = "",
    priority: int = 0,
    id: str = "",
) -> Request[Segmentation]:
    message = vision_pb2.SegmentRequest(
        model_name=model,
        model_version=version,
        id=id,
        images=files_of(pictures),
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
