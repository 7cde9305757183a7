"""Requests of HTTP and of gRPC are one queue: they share a batch."""

from __future__ import annotations

import json
import pathlib
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton

MODEL = "shapes"
PIXELS = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype=np.float32)
STAR = pathlib.Path(__file__).resolve().parents[2] / "client/examples/star.jpg"


def test_a_batch_holds_requests_of_both_protocols(
    start_server, one_model: pathlib.Path
) -> None:
    """It is run when three have come, and not before: each of them waits for the other two."""
    spec = one_model / MODEL / "model.textproto"
    kept = re.sub(
        r"(?m)^(max_batch_size|dynamic_batching|instance_group).*\n",
        "",
        spec.read_text(),
    )
    spec.write_text(
        kept
        + "max_batch_size: 3\ndynamic_batching { max_queue_delay_microseconds: 10000000 }\n"
        # Else a full batch may be run in parts, a core each, where that was measured to be quicker.
        + "instance_group { count: 1 threads: 1 }\n"
    )
    server = start_server("--model-repository", one_model)

    def tensors_over_grpc() -> int:
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            pixels = triton_grpc.InferInput("pixel_values", PIXELS.shape, "FP32")
            pixels.set_data_from_numpy(PIXELS)
            answer = client.infer(MODEL, [pixels]).get_response()
            return answer.parameters["fovea.batch_size"].int64_param

    def tensors_over_http() -> int:
        with triton.InferenceServerClient(server.http) as client:
            pixels = triton.InferInput("pixel_values", PIXELS.shape, "FP32")
            pixels.set_data_from_numpy(PIXELS)
            answer = client.infer(MODEL, [pixels]).get_response()
            return answer["parameters"]["fovea.batch_size"]

    def picture_over_http() -> int:
        url = f"http://{server.http}/v1/classify?model={MODEL}"
        with urllib.request.urlopen(url, STAR.read_bytes(), timeout=60) as answer:
            return json.load(answer)["receipt"]["batch_size"]

    calls = [tensors_over_grpc, tensors_over_http, picture_over_http]
    with ThreadPoolExecutor(len(calls)) as pool:
        sizes = [future.result(60) for future in [pool.submit(call) for call in calls]]
    assert sizes == [3, 3, 3]
