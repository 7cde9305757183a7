"""What KServe's clients are told by a server: kserve_calls.py grpc|http ADDRESS PICTURE. Prints JSON.

A process of its own: KServe's messages have the names of Triton's, and one process cannot hold both.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import httpx
import numpy as np
from google.protobuf import json_format
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub
from kserve.protocol.infer_type import InferResponse, RequestedOutput

MODEL, SIZE = "shapes", 64
Infer = Callable[[InferRequest], Awaitable[InferResponse]]


def pixels() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(
        (2, 3, SIZE, SIZE), dtype=np.float32
    )


def request(
    name: str,
    datatype: str,
    values: np.ndarray,
    *,
    binary: bool,
    outputs: list[RequestedOutput] | None = None,
    model: str = MODEL,
) -> InferRequest:
    tensor = InferInput(name, list(values.shape), datatype)
    tensor.set_data_from_numpy(values, binary_data=binary)
    return InferRequest(
        model, [tensor], request_id="mine", request_outputs=outputs or []
    )


async def answers(infer: Infer, picture: bytes, binary: bool) -> dict[str, Any]:
    """Of inputs of every kind; a picture's bytes are no text, which JSON could carry."""
    rgb = np.random.default_rng(1).integers(0, 256, (1, SIZE, SIZE, 3), dtype=np.uint8)
    inputs = {"fp32": ("pixel_values", "FP32", pixels())}
    inputs["uint8"] = ("image_rgb", "UINT8", rgb)
    if binary:
        files = np.array([[picture]], dtype=np.object_)
        inputs["bytes"] = ("image", "BYTES", files)
    told: dict[str, Any] = {}
    for kind, (name, datatype, values) in inputs.items():
        answer = await infer(request(name, datatype, values, binary=binary))
        (output,) = answer.outputs
        told[kind] = {
            "id": answer.id,
            "model": answer.model_name,
            "output": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
            "values": output.as_numpy().tolist(),
        }
    classes = await infer(
        request(
            *inputs["fp32"],
            binary=binary,
            outputs=[RequestedOutput("logits", {"classification": 2})],
        )
    )
    texts = classes.outputs[0].as_numpy().reshape(-1)
    told["classes"] = [
        text if isinstance(text, str) else bytes(text).decode() for text in texts
    ]
    return told


BAD = {
    "unknown model": lambda: request(
        "pixel_values", "FP32", pixels(), binary=True, model="no_such_model"
    ),
    "wrong shape": lambda: request(
        "pixel_values", "FP32", pixels()[:, :, :32], binary=True
    ),
    "no picture": lambda: request(
        "image", "BYTES", np.array([[b"<svg/>"]], dtype=np.object_), binary=True
    ),
}


async def over_grpc(address: str, picture: bytes) -> dict[str, Any]:
    async with InferenceGRPCClient(address, retries=0) as client:
        told = {
            "live": await client.is_server_live(),
            "ready": await client.is_server_ready(),
            "model ready": await client.is_model_ready(MODEL),
            "unknown ready": await client.is_model_ready("no_such_model"),
            "binary": await answers(client.infer, picture, binary=True),
            "typed": await answers(client.infer, picture, binary=False),
            "errors": {},
        }
        for name, bad in BAD.items():
            try:
                await client.infer(bad())
            except grpc.RpcError as error:
                told["errors"][name] = [error.code().name, error.details()]
    # The client has no call for metadata; its messages do.
    async with grpc.aio.insecure_channel(address) as channel:
        stub = GRPCInferenceServiceStub(channel)
        server = await stub.ServerMetadata(messages.ServerMetadataRequest())
        model = await stub.ModelMetadata(messages.ModelMetadataRequest(name=MODEL))
    told["server"] = json_format.MessageToDict(server)
    told["metadata"] = json_format.MessageToDict(model)
    return told


async def over_http(address: str, picture: bytes) -> dict[str, Any]:
    url = f"http://{address}"
    config = RESTConfig(protocol="v2", retries=0)
    async with InferenceRESTClient(config) as client:

        async def infer(asked: InferRequest) -> InferResponse:
            return await client.infer(url, asked, model_name=asked.model_name)

        told = {
            "live": await client.is_server_live(url),
            "ready": await client.is_server_ready(url),
            "model ready": await client.is_model_ready(url, MODEL),
            "unknown ready": await client.is_model_ready(url, "no_such_model"),
            "binary": await answers(infer, picture, binary=True),
            "typed": await answers(infer, picture, binary=False),
            "errors": {},
        }
        for name, bad in BAD.items():
            try:
                await infer(bad())
            except httpx.HTTPStatusError as error:
                told["errors"][name] = [error.response.status_code, str(error)]
    async with httpx.AsyncClient() as client:
        told["server"] = (await client.get(f"{url}/v2")).json()
        told["metadata"] = (await client.get(f"{url}/v2/models/{MODEL}")).json()
    return told


if __name__ == "__main__":
    protocol, address, picture = sys.argv[1:]
    ask = {"grpc": over_grpc, "http": over_http}[protocol]
    print(json.dumps(asyncio.run(ask(address, pathlib.Path(picture).read_bytes()))))
