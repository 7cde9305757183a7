"""Calls a Fovea server: pictures in, typed results with numpy arrays out.

    from fovea.client import Client

    with Client("127.0.0.1:8001") as client:
        answer = client.detect("finder", ["cat.jpg"], masks=True)
        for box, score, label in zip(answer.images[0].boxes, answer.images[0].scores, answer.images[0].labels):
            print(label, score, box)

Tensors as such go through any client of the Open Inference Protocol, for example tritonclient.
"""

from __future__ import annotations

import io
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import grpc
import numpy as np
from PIL import Image

from fovea.results import (
    STAGES,
    Answer,
    ClassArea,
    Classification,
    Detections,
    Mask,
    Receipt,
    Result,
    Segmentation,
    classification_of,
    detections_of,
    receipt_of,
    segmentation_of,
)
from fovea.v1 import vision_pb2

__all__ = [
    "STAGES",
    "Answer",
    "ClassArea",
    "Classification",
    "Client",
    "Detections",
    "Error",
    "Mask",
    "Picture",
    "Receipt",
    "Segmentation",
    "TimedOut",
    "Unreachable",
]

# A JPEG, PNG or WebP file: its bytes or its path; or pixels, uint8 [height, width, 3] RGB.
Picture = bytes | str | os.PathLike | np.ndarray

_MAX_MESSAGE_BYTES = 256 << 20
_SERVICE = "/fovea.v1.VisionService/"


class Error(Exception):
    """A call that failed.

    code: gRPC's, for example "INVALID_ARGUMENT". reason: the server's stable token, for example "image.truncated", for
    programs; empty where the server itself did not answer. message: a sentence for people, which may change.
    """

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code, self.reason, self.message = code, reason, message

    def __str__(self) -> str:
        return f"{self.message} [{' '.join(filter(None, (self.code, self.reason)))}]"


class Unreachable(Error):
    """There is no connection to the server, or it broke; the server did not answer."""


class TimedOut(Error):
    """No answer within the timeout."""


class Client:
    """A connection to a server.

    Thread-safe: calls from several threads share the connection and run at the same time, which lets the server run
    them in one batch. Every call blocks until the answer is there or an Error is raised. It is made at the first call,
    without encryption, and without the proxies that the environment names.
    """

    def __init__(self, address: str, *, timeout: float | None = 30) -> None:
        """address: HOST:PORT of the server's gRPC port, [IPV6]:PORT, or a target as gRPC writes them.

        timeout: seconds that each call may take; the server does not begin what it cannot finish by then. None: any time.
        ValueError: no address, or a timeout that is not above zero.
        """
        _check_address(address)
        _check_timeout(timeout)
        self._address, self._timeout = address, timeout
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._classify = self._method("Classify", vision_pb2.ClassifyResponse)
        self._detect = self._method("Detect", vision_pb2.DetectResponse)
        self._segment = self._method("Segment", vision_pb2.SegmentResponse)

    def close(self) -> None:
        """Ends the calls that are running, and refuses new ones, with CANCELLED."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def classify(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        top_k: int = 5,
        version: str = "",
        priority: int = 0,
        timeout: float | None = None,
    ) -> Answer[Classification]:
        """The `top_k` most probable classes of each picture. They share one batch."""
        request = vision_pb2.ClassifyRequest(
            model_name=model,
            model_version=version,
            images=_files(pictures),
            top_k=top_k,
            priority=priority,
        )
        return self._ask(self._classify, request, timeout, classification_of)

    def detect(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        score_threshold: float = 0,
        max_detections: int = 0,
        classes: Iterable[str] = (),
        masks: bool = False,
        version: str = "",
        priority: int = 0,
        timeout: float | None = None,
    ) -> Answer[Detections]:
        """The objects in each picture.

        score_threshold: objects of a lower score are left out. max_detections: of each picture, best first; 0: as many
        as the model gives. classes: only objects of these, labels or class numbers as text; empty: of all. masks: also
        which pixels show each object; only of models that have masks.
        """
        wanted = vision_pb2.DetectRequest
        request = wanted(
            model_name=model,
            model_version=version,
            images=_files(pictures),
            score_threshold=score_threshold,
            max_detections=max_detections,
            classes=_several(classes, "classes"),
            mask_format=wanted.RUN_LENGTHS if masks else wanted.MASK_FORMAT_UNSPECIFIED,
            priority=priority,
        )
        return self._ask(
            self._detect, request, timeout, lambda image: detections_of(image, masks)
        )

    def segment(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        confidence: bool = False,
        version: str = "",
        priority: int = 0,
        timeout: float | None = None,
    ) -> Answer[Segmentation]:
        """A class for each pixel of each picture. confidence: besides, how sure the model is of it."""
        request = vision_pb2.SegmentRequest(
            model_name=model,
            model_version=version,
            images=_files(pictures),
            confidence=confidence,
            priority=priority,
        )
        return self._ask(self._segment, request, timeout, segmentation_of)

    def _method(self, name: str, response: Any) -> Callable:
        return self._channel.unary_unary(
            _SERVICE + name,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )

    def _error(self, error: grpc.RpcError, timeout: float | None) -> Error:
        code = error.code().name
        reason = dict(error.trailing_metadata() or ()).get("fovea-reason", "")
        # What the server says has a reason. gRPC's own words name files of its sources and say little.
        if code == "UNAVAILABLE" and not reason:
            return Unreachable(
                code,
                reason,
                f"there is no connection to {self._address} ({error.details()})",
            )
        if code == "DEADLINE_EXCEEDED":
            return TimedOut(
                code,
                reason,
                error.details() if reason else f"no answer within {timeout:g} s",
            )
        if code == "UNIMPLEMENTED" and not reason:
            return Error(
                code, reason, f"the server at {self._address} does not know this call"
            )
        return Error(code, reason, error.details() or "")

    def _ask(
        self,
        method: Callable,
        request: Any,
        timeout: float | None,
        convert: Callable[[Any], Result],
    ) -> Answer[Result]:
        timeout = self._timeout if timeout is None else timeout
        _check_timeout(timeout)
        start = time.monotonic()
        try:
            response = method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise self._error(error, timeout) from error
        except ValueError as error:  # gRPC's, of a channel that is closed
            raise Error("CANCELLED", "", "the client is closed") from error
        round_trip_seconds = time.monotonic() - start
        if len(response.results) != len(request.images):
            raise Error(
                "INTERNAL",
                "",
                f"the server answered {len(response.results)} results to {len(request.images)} pictures",
            )
        return Answer(
            images=[convert(image) for image in response.results],
            receipt=receipt_of(response.receipt),
            round_trip_seconds=round_trip_seconds,
            model=response.model_name,
            version=response.model_version,
            attention=response.attention,
            untrained=response.untrained,
        )


def _check_address(address: str) -> None:
    """gRPC would take any text for a host and look for it."""
    if "/" in address:
        return  # a target as gRPC writes them
    match = re.fullmatch(r"(\[[^\]]+\]|[^\[\]:]+):([0-9]{1,5})", address)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(
            f"{address!r} is no server address: write HOST:PORT, for example 127.0.0.1:8001"
        )


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout > 0:
        raise ValueError(f"the timeout is {timeout} s: it must be above zero")


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
