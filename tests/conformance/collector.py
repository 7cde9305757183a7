"""A collector of spans, as the tests start it: OTLP over gRPC, by the messages of PyPI's opentelemetry-proto."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass

import grpc
from opentelemetry.proto.collector.trace.v1 import (
    trace_service_pb2,
    trace_service_pb2_grpc,
)
from opentelemetry.proto.trace.v1 import trace_pb2


@dataclass(frozen=True)
class Span:
    trace: str
    id: str
    parent: str  # empty: none
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, object]
    state: str
    failed: bool
    remote_parent: bool
    resource: dict[str, object]


def values(attributes) -> dict[str, object]:
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes
    }


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Thread-safe. Listens until it is closed, and again on the same port after `open`."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None):
        self._credentials = credentials
        self._changed = threading.Condition()
        self._spans: list[Span] = []
        self.refuse: grpc.StatusCode | None = None
        self.batches = 0
        self.port = 0
        self.open()

    def open(self) -> None:
        self._server = grpc.server(
            futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)]
        )
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        address = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, self._credentials)
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def Export(self, request, context):
        self.batches += 1
        if self.refuse is not None:
            context.abort(self.refuse, "as the test wants it")
        with self._changed:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self._spans.append(
                            Span(
                                trace=span.trace_id.hex(),
                                id=span.span_id.hex(),
                                parent=span.parent_span_id.hex(),
                                name=span.name,
                                kind=span.kind,
                                start=span.start_time_unix_nano,
                                end=span.end_time_unix_nano,
                                attributes=values(span.attributes),
                                state=span.trace_state,
                                failed=span.status.code
                                == trace_pb2.Status.STATUS_CODE_ERROR,
                                remote_parent=bool(span.flags & 0x200),
                                resource=values(resource.resource.attributes),
                            )
                        )
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self) -> list[Span]:
        with self._changed:
            return list(self._spans)

    def clear(self) -> None:
        with self._changed:
            self._spans.clear()

    def wait(
        self, enough: Callable[[list[Span]], bool], timeout: float = 60
    ) -> list[Span]:
        """What has come when `enough` of it has."""
        end = time.monotonic() + timeout
        with self._changed:
            while not enough(self._spans):
                left = end - time.monotonic()
                assert left > 0, f"only {len(self._spans)} spans came: {self._spans}"
                self._changed.wait(left)
            return list(self._spans)

    def trace(self, trace: str, roots: int = 1) -> list[Span]:
        """The spans of one trace, once so many of its requests have ended: their spans come together."""
        ours = self.wait(
            lambda spans: (
                sum(span.trace == trace and span.kind == SERVER for span in spans)
                >= roots
            )
        )
        return [span for span in ours if span.trace == trace]


SERVER = trace_pb2.Span.SPAN_KIND_SERVER
INTERNAL = trace_pb2.Span.SPAN_KIND_INTERNAL
