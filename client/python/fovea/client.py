"""Calls a Fovea server: pictures in, typed results with numpy arrays out.

    from fovea.client import Client

    with Client("127.0.0.1:8001") as client:
        answer = client.detect("finder", ["cat.jpg"], masks=True)
        for box, score, label in zip(answer.images[0].boxes, answer.images[0].scores, answer.images[0].labels):
            print(label, score, box)

Tensors as such go through any client of the Open Inference Protocol, for example tritonclient.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import grpc

from fovea.errors import Error, TimedOut, Unreachable, check_timeout, error_of_call
from fovea.image_stream import ImageStream, StreamedAnswer
from fovea.requests import Picture, Request, to_classify, to_detect, to_segment
from fovea.results import (
    STAGES,
    Answer,
    ClassArea,
    Classification,
    Detections,
    InstanceMask,
    Receipt,
    Result,
    Segmentation,
)
from fovea.retry import channel_options
from fovea.v1 import vision_pb2

__all__ = [
    "STAGES",
    "Answer",
    "ClassArea",
    "Classification",
    "Client",
    "Detections",
    "Error",
    "ImageStream",
    "InstanceMask",
    "Picture",
    "Receipt",
    "Segmentation",
    "StreamedAnswer",
    "TimedOut",
    "Unreachable",
]

_MAX_MESSAGE_BYTES = 256 << 20
_SERVICE = "/fovea.v1.VisionService/"


class Client:
    """A connection to a server.

    Thread-safe: calls from several threads share the connection and run at the same time, which lets the server run
    them in one batch. Every call blocks until the answer is there or an Error is raised. It is made at the first call,
    without encryption unless `tls_ca` is given, and without the proxies that the environment names.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float | None = 30,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        api_key: str | None = None,
        max_attempts: int = 4,
        balance: bool = False,
    ) -> None:
        """address: HOST:PORT of the server's gRPC port, [IPV6]:PORT, or a target as gRPC writes them.

        timeout: seconds that each call may take; the server does not begin what it cannot finish by then. None: any time.
        tls_ca: a PEM file with the issuers of the server's certificate. tls_certificate, tls_key: PEM files of one's
        own, for a server that asks for it. api_key: for a server that wants one; without TLS everyone on the way reads it.
        max_attempts: how often a call is made at most, in [1, 5], that a server refuses as UNAVAILABLE or whose
        connection breaks; within the timeout, after pauses, and on a budget (fovea.retry). Streams are made once.
        balance: calls go in turn to all addresses that the host has, for example the replicas behind a headless service
        of Kubernetes; otherwise to the first that answers.
        ValueError: no address, a timeout that is not above zero, other attempts, or a certificate without its key or
        without `tls_ca`.
        OSError: a file that cannot be read.
        """
        _check_address(address)
        check_timeout(timeout)
        self._address, self._timeout = address, timeout
        self._metadata = [("authorization", f"Bearer {api_key}")] if api_key else []
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.enable_http_proxy", 0),
            *channel_options(max_attempts, balance),
        ]
        credentials = _credentials(tls_ca, tls_certificate, tls_key)
        self._channel = (
            grpc.insecure_channel(address, options)
            if credentials is None
            else grpc.secure_channel(address, credentials, options)
        )
        one, many = self._channel.unary_unary, self._channel.stream_stream
        self._classify = self._method(one, "Classify", vision_pb2.ClassifyResponse)
        self._detect = self._method(one, "Detect", vision_pb2.DetectResponse)
        self._segment = self._method(one, "Segment", vision_pb2.SegmentResponse)
        self._stream_images = self._method(
            many, "StreamImages", vision_pb2.StreamImagesResponse
        )

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
        request = to_classify(
            model, pictures, top_k=top_k, version=version, priority=priority
        )
        return self._ask(self._classify, request, timeout)

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
        as the model gives. classes: only objects of these, labels or class numbers as text, at most twice as many
        as the model has classes; empty: of all. masks: also which pixels show each object; only of models that have masks.
        """
        request = to_detect(
            model,
            pictures,
            score_threshold=score_threshold,
            max_detections=max_detections,
            classes=classes,
            masks=masks,
            version=version,
            priority=priority,
        )
        return self._ask(self._detect, request, timeout)

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
        request = to_segment(
            model, pictures, confidence=confidence, version=version, priority=priority
        )
        return self._ask(self._segment, request, timeout)

    def stream(
        self, *, in_order: bool = True, ahead: int = 128, timeout: float | None = None
    ) -> ImageStream:
        """Many requests over one call, each to a model and with options of its own.

        in_order: the answers come in the order of the requests; otherwise each as soon as it is there. ahead: requests
        whose answers have not been read, at most; then writing waits. Fewer keep a slow reader closer to its camera; the
        server takes 64 of a stream at a time. timeout: seconds for the whole stream, after which all its requests end.
        None: any time; the requests have timeouts of their own. ValueError: `ahead` or `timeout` is not above zero.
        """
        check_timeout(timeout)
        if ahead < 1:
            raise ValueError(f"ahead is {ahead}: it must be above zero")

        def begin(messages: Iterator) -> Any:
            try:
                return self._stream_images(messages, timeout=timeout)
            except ValueError as error:  # gRPC's, of a channel that is closed
                raise _closed() from error

        return ImageStream(
            begin,
            lambda error: error_of_call(error, self._address, timeout),
            in_order=in_order,
            ahead=ahead,
            request_timeout=self._timeout,
        )

    def _method(self, kind: Callable, name: str, response: Any) -> Callable:
        call = kind(
            _SERVICE + name,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return functools.partial(call, metadata=self._metadata)

    def _ask(
        self, method: Callable, request: Request[Result], timeout: float | None
    ) -> Answer[Result]:
        timeout = self._timeout if timeout is None else timeout
        check_timeout(timeout)
        start = time.monotonic()
        try:
            response = method(request.message, timeout=timeout)
        except grpc.RpcError as error:
            raise error_of_call(error, self._address, timeout) from error
        except ValueError as error:  # gRPC's, of a channel that is closed
            raise _closed() from error
        return request.expected.answer_of(response, time.monotonic() - start)


def _closed() -> Error:
    return Error("CANCELLED", "", "the client is closed")


def _credentials(
    tls_ca: str | os.PathLike[str] | None,
    certificate: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
) -> grpc.ChannelCredentials | None:
    if (certificate is None) != (key is None):
        raise ValueError("a certificate needs its key, and a key its certificate")
    if tls_ca is None:
        if certificate is not None:
            raise ValueError("a certificate needs tls_ca: it is shown over TLS only")
        return None
    issuers, shown, its_key = (
        None if file is None else pathlib.Path(file).read_bytes()
        for file in (tls_ca, certificate, key)
    )
    return grpc.ssl_channel_credentials(issuers, its_key, shown)


def _check_address(address: str) -> None:
    """gRPC would take any text for a host and look for it."""
    if "/" in address:
        return  # a target as gRPC writes them
    match = re.fullmatch(r"(\[[^\]]+\]|[^\[\]:]+):([0-9]{1,5})", address)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(
            f"{address!r} is no server address: write HOST:PORT, for example 127.0.0.1:8001"
        )
