"""A VisionService whose answers a test knows, for the Python package: what a picture shows is said for its bytes."""

from __future__ import annotations

import concurrent.futures
import io
import threading
from collections.abc import Callable
from typing import Any, Self

import grpc
import numpy as np
from fovea import client
from fovea.v1 import vision_pb2
from PIL import Image


class Refusal(Exception):
    """Ends a call with an error as the server words them."""

    def __init__(self, code: grpc.StatusCode, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


class FakeVision:
    """Serves on a free port. `results(request, picture)` is the result for one picture; it may raise a Refusal.

    The receipts say 1, 2, ..., 7 ms for the stages, 11, 12 and 13 ms for a GPU's steps, a batch of 3 and `peak_bytes`.
    """

    def __init__(self, **results: Callable[[Any, bytes], Any]) -> None:
        """results: by method: Classify, Detect, Segment."""
        self.requests: list[Any] = []
        self.metadata: list[dict[str, Any]] = []  # of each request
        self.peak_bytes = 1000
        self._lock = threading.Lock()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(32))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                lambda request, context, method=method, result=result: self._answer(
                    method, result, request, context
                ),
                request_deserializer=getattr(vision_pb2, f"{method}Request").FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for method, result in results.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("fovea.v1.VisionService", handlers),)
        )
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(
        self, method: str, result: Callable, request: Any, context: grpc.ServicerContext
    ) -> Any:
        with self._lock:
            self.requests.append(request)
            sent = dict(context.invocation_metadata())
            self.metadata.append(sent)
        key = sent.get("fovea-experiment-key", "")
        try:
            results = [result(request, picture) for picture in request.images]
        except Refusal as refusal:
            context.set_trailing_metadata((("fovea-reason", refusal.reason),))
            context.abort(refusal.code, refusal.message)
        receipt = vision_pb2.Receipt(
            **{
                f"{stage}_ns": number * 1_000_000
                for number, stage in enumerate(client.STAGES, start=1)
            },
            batch_size=3,
            batch_threads=4,
            batch_peak_bytes=self.peak_bytes,
            h2d_ns=11_000_000,
            kernels_ns=12_000_000,
            d2h_ns=13_000_000,
            # As where the experiment "night" has the traffic, and calls its arms like the keys.
            experiment="night" if key else "",
            experiment_arm=f"shapes/{key}" if key else "",
        )
        return getattr(vision_pb2, f"{method}Response")(
            model_name=request.model_name,
            model_version=request.model_version or "1",
            results=results,
            receipt=receipt,
            attention="dense",
        )


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def classes(*scores: tuple[int, str, float]) -> Any:
    """A classification: (index, label, confidence), most probable first."""
    return vision_pb2.Classification(
        classes=[
            vision_pb2.ClassScore(index=index, label=label, confidence=confidence)
            for index, label, confidence in scores
        ]
    )


def objects(size: tuple[int, int], *found: dict) -> Any:
    """Detections in a picture of `size`: {"box": [left, top, right, bottom], "score", "index", "label", "counts"}."""
    return vision_pb2.Detections(
        image_height=size[0],
        image_width=size[1],
        detections=[
            vision_pb2.Detection(
                box=vision_pb2.Box(
                    **dict(
                        zip(("left", "top", "right", "bottom"), one["box"], strict=True)
                    )
                ),
                score=one["score"],
                class_index=one["index"],
                label=one.get("label", ""),
                mask=vision_pb2.InstanceMask(
                    run_lengths=one.get("counts", ""), pixels=one.get("pixels", 0)
                ),
            )
            for one in found
        ],
    )


def class_map(pixels: np.ndarray, labels: dict[int, str]) -> Any:
    numbers, counts = np.unique(pixels, return_counts=True)
    return vision_pb2.Segmentation(
        class_map_png=png(pixels),
        image_height=pixels.shape[0],
        image_width=pixels.shape[1],
        classes=[
            vision_pb2.ClassArea(
                class_index=number, label=labels.get(number, ""), pixels=count
            )
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        ],
    )
