"""What the blocking client and asyncio's have in common: where the server is, how to reach it, and its methods."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from typing import Any

import grpc

from fovea.errors import Error, check_timeout
from fovea.retry import channel_options
from fovea.v1 import comparison_pb2, experiment_pb2, vision_pb2

# gRPC's own, of targets (grpc/doc/naming.md).
_SCHEMES = "dns|ipv4|ipv6|unix|unix-abstract|vsock|xds|google-c2p"
_MAX_MESSAGE_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of the server, by its path."""

    path: str
    response: Any  # the message's class

    def codecs(self) -> dict[str, Any]:
        """What both of gRPC's channels take as keywords."""
        return {
            "request_serializer": lambda message: message.SerializeToString(),
            "response_deserializer": self.response.FromString,
        }


CLASSIFY = Method("/fovea.v1.VisionService/Classify", vision_pb2.ClassifyResponse)
DETECT = Method("/fovea.v1.VisionService/Detect", vision_pb2.DetectResponse)
SEGMENT = Method("/fovea.v1.VisionService/Segment", vision_pb2.SegmentResponse)
STREAM_IMAGES = Method(
    "/fovea.v1.VisionService/StreamImages", vision_pb2.StreamImagesResponse
)
SERVE = Method("/fovea.v1.ComparisonService/Serve", comparison_pb2.ServeResponse)
COMPARE = Method("/fovea.v1.ComparisonService/Compare", comparison_pb2.CompareResponse)
SWEEP = Method("/fovea.v1.ComparisonService/Sweep", comparison_pb2.SweepResponse)
_EXPERIMENTS = "/fovea.v1.ExperimentService"
START_EXPERIMENT = Method(f"{_EXPERIMENTS}/StartExperiment", experiment_pb2.Experiment)
GET_EXPERIMENT = Method(f"{_EXPERIMENTS}/GetExperiment", experiment_pb2.Experiment)
LIST_EXPERIMENTS = Method(
    f"{_EXPERIMENTS}/ListExperiments", experiment_pb2.ListExperimentsResponse
)
STOP_EXPERIMENT = Method(f"{_EXPERIMENTS}/StopExperiment", experiment_pb2.Experiment)
DELETE_EXPERIMENT = Method(
    f"{_EXPERIMENTS}/DeleteExperiment", experiment_pb2.DeleteExperimentResponse
)


@dataclasses.dataclass(frozen=True)
class Address:
    """A server, and how to be let in. ValueError and OSError: as the clients' own."""

    target: str
    timeout: float | None  # seconds of a call that names none; None: any time
    tls_ca: str | os.PathLike[str] | None = None
    tls_certificate: str | os.PathLike[str] | None = None
    tls_key: str | os.PathLike[str] | None = None
    api_key: str | None = dataclasses.field(default=None, repr=False)
    max_attempts: int = 4  # fovea.retry says of what
    balance: bool = False  # calls go in turn to all that the target stands for

    def __post_init__(self) -> None:
        _check_address(self.target)
        check_timeout(self.timeout)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("a certificate needs its key, and a key its certificate")
        if self.tls_ca is None and self.tls_certificate is not None:
            raise ValueError("a certificate needs tls_ca: it is shown over TLS only")

    def credentials(self) -> grpc.ChannelCredentials | None:
        """None: without encryption."""
        if self.tls_ca is None:
            return None
        issuers, shown, its_key = (
            None if file is None else pathlib.Path(file).read_bytes()
            for file in (self.tls_ca, self.tls_certificate, self.tls_key)
        )
        return grpc.ssl_channel_credentials(issuers, its_key, shown)

    def options(self) -> list[tuple[str, Any]]:
        """gRPC's, of the channel. ValueError: more attempts than there may be, or none."""
        return [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.enable_http_proxy", 0),
            *channel_options(self.max_attempts, self.balance),
        ]

    def metadata(self, experiment_key: str = "") -> list[tuple[str, str]]:
        """Of every call. ValueError: `experiment_key` cannot be sent."""
        found = [("authorization", f"Bearer {self.api_key}")] if self.api_key else []
        if experiment_key:
            if not re.fullmatch("[ -~]+", experiment_key):
                raise ValueError(
                    f"experiment_key is {experiment_key!r}: it must be printable ASCII"
                )
            found.append(("fovea-experiment-key", experiment_key))
        return found

    def timeout_of(self, timeout: float | None) -> float | None:
        """Of a call with this one of its own. ValueError: it is not above zero."""
        timeout = self.timeout if timeout is None else timeout
        check_timeout(timeout)
        return timeout


def closed() -> Error:
    """Of a call of a client that is closed."""
    return Error("CANCELLED", "", "the client is closed")


def _check_address(address: str) -> None:
    """Refuses URLs: gRPC would try to resolve any string as a host name."""
    if re.match(f"({_SCHEMES}):.*/", address):
        return  # a target as gRPC writes them
    if url := re.match("[^:/]+://", address):
        raise ValueError(
            f"{address!r} is no server address: write HOST:PORT without {url[0]!r}, for example 127.0.0.1:8001"
        )
    match = re.fullmatch(r"(\[[^\]/]+\]|[^\[\]:/]+):([0-9]{1,5})", address)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(
            f"{address!r} is no server address: write HOST:PORT, for example 127.0.0.1:8001"
        )
