"""A ComparisonService whose messages a test knows, for the Python package."""

from __future__ import annotations

import concurrent.futures
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import grpc
from fovea.v1 import comparison_pb2 as pb

_PHASES = pb.ComparisonProgress.Phase
MEASURED = pb.Provenance(
    at="2026-03-01T14:05:09Z",
    by="fovea-server 1.2.0",
    processor="A processor",
    cores=2,
    other_cores=1.5,
    busy=True,
)


class FakeComparison:
    """Serves on a free port what `answer(request)` gives, one message after the other."""

    def __init__(self, answer: Callable[[Any], Iterator[Any]]) -> None:
        self.requests: list[Any] = []
        self.cancelled = threading.Event()  # a caller has gone before the end
        self._answer = answer
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        handlers = {
            name: grpc.unary_stream_rpc_method_handler(
                self._compare,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, request in (
                ("Compare", pb.CompareRequest),
                ("Sweep", pb.SweepRequest),
            )
        }
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "fovea.v1.ComparisonService", handlers
                ),
            )
        )
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _compare(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.requests.append(request)
        ended = False

        def gone() -> None:
            if not ended:
                self.cancelled.set()

        context.add_callback(gone)
        yield from self._answer(request)
        ended = True


def progress(phase: str, done: int, total: int, kind: Any = pb.CompareResponse) -> Any:
    message = pb.ComparisonProgress(phase=_PHASES.Value(phase), done=done, total=total)
    return kind(progress=message)


def estimate(value: float) -> Any:
    return pb.Estimate(value=value, lower=0.9 * value, upper=1.1 * value)


def quartiles(median: float) -> Any:
    return pb.Quartiles(lower=0.9 * median, median=median, upper=1.2 * median)


def variant(attention: str, milliseconds: float, **fields: Any) -> Any:
    """Of a classifier that takes so long; the fields in place of usual ones."""
    usual = {
        "model_name": "shapes",
        "model_version": "1",
        "backbone": "vit_demo_patch8_64",
        "attention": attention,
        "compute": pb.ComparedTime(ms=quartiles(milliseconds)),
        "postprocess_ms": quartiles(0.25),
        "decode_ms": quartiles(0.5),
        "preprocess_ms": quartiles(0.125),
        "answers": [pb.BriefAnswer(label="ring", confidence=0.75)] * 2,
        "attention_ms": quartiles(milliseconds / 4),
        "images_per_second": 1000 / milliseconds,
        "peak_bytes": 3 << 20,
        "weight_bytes": 5 << 40,  # more than 32 bits hold
        "parameters": 800_000,
        "multiply_adds": 52_000_000,
    }
    return pb.ComparedVariant(**usual | fields)


def of_classifier() -> Any:
    """Dense attention and k-NN attention over the same weights."""
    compared = pb.ComparedTime(
        ms=quartiles(2.5),
        ratio=estimate(1.25),
        difference_ms=estimate(0.5),
        verdict=pb.SLOWER,
    )
    agreement = pb.ClassAgreement(
        images=2,
        same_top1=1,
        top5_overlap=0.9,
        kl_divergence=0.125,
        max_confidence_difference=0.0625,
    )
    return pb.Comparison(
        id="mine",
        variants=[
            variant("dense", 2),
            variant(
                "knn:k=0.5",
                2.5,
                compute=compared,
                weights_of_attention="dense",
                classes=agreement,
                feature_cosine=0.96875,
            ),
        ],
        control=pb.ComparedTime(
            ms=quartiles(2), ratio=estimate(1), verdict=pb.EQUIVALENT
        ),
        rounds=20,
        batch_size=1,
        threads=2,
        device="CPU",
        images=[
            pb.ComparedImage(height=64, width=80),
            pb.ComparedImage(height=30, width=40),
        ],
        measured=MEASURED,
    )


def of_k() -> Any:
    """Two curves over k; a point of the second could not be built."""

    def point(milliseconds: float) -> Any:
        return pb.SweptPoint(
            attention="knn:k=9",
            compute_ms=quartiles(milliseconds),
            compute_estimate_ms=estimate(milliseconds),
            attention_ms=quartiles(milliseconds / 4),
            images_per_second=1000 / milliseconds,
            peak_bytes=5 << 40,  # more than 32 bits hold
            weight_bytes=3 << 20,
            multiply_adds=52_000_000,
        )

    def curve(attention: str, points: list[Any], **fields: Any) -> Any:
        return pb.SweptCurve(
            model_name="shapes",
            model_version="1",
            backbone="vit_demo_patch8_64",
            attention=attention,
            weights_of_attention="dense",
            points=points,
            **fields,
        )

    fitted = pb.FittedExponent(exponent=estimate(0.5), points=3, worst_ratio=1.125)
    return pb.Sweep(
        id="mine",
        over=pb.SweepRequest.K,
        values=["9", "18", "36"],
        places=[9, 18, 36],
        curves=[
            curve("knn", [point(1), point(1.5), point(2)], compute_exponent=fitted),
            curve(
                "knn:exact", [point(2), point(3), pb.SweptPoint(failure="too <few>")]
            ),
        ],
        rounds=20,
        batch_size=4,
        threads=2,
        device="CPU",
        measured=MEASURED,
    )


def printed_as_json_and_csv(command: list[Any]) -> tuple[str, str]:
    """What `fovea` prints of a measurement with --json, and with --csv."""
    as_json, as_csv = (
        subprocess.run(
            [*command, form], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for form in ("--json", "--csv")
    )
    return as_json, as_csv
