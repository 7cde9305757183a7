"""Experiments of a running server, over either protocol, and requests for them."""

from __future__ import annotations

import json
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Self

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import experiment_pb2, vision_pb2
from google.protobuf import json_format

KEY = "fovea-experiment-key"
PICTURE = (ROOT / "client/examples/star.jpg").read_bytes()


class Refused(Exception):
    def __init__(self, code: str, reason: str, message: str):
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason = code, reason


def plan(name: str = "trial", model: str = "shapes", **fields) -> dict:
    """The bundled model against its k-NN sibling, half of the traffic each."""
    arms = [
        {"variant": {"model_name": model}, "weight": 1},
        {"variant": {"model_name": "shapes_knn"}, "weight": 1},
    ]
    return {"name": name, "model_name": model, "arms": arms} | fields


class OverGrpc:
    """fovea.v1.ExperimentService."""

    def __init__(self, server):
        self._channel = grpc.insecure_channel(server.grpc)

    def _call(self, method: str, request, response):
        call = self._channel.unary_unary(
            f"/fovea.v1.ExperimentService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        try:
            return call(request, timeout=60)
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            raise Refused(
                error.code().name, trailers.get("fovea-reason", ""), error.details()
            ) from None

    def start(self, plan: dict):
        message = json_format.ParseDict(plan, experiment_pb2.ExperimentPlan())
        request = experiment_pb2.StartExperimentRequest(plan=message)
        return self._call("StartExperiment", request, experiment_pb2.Experiment)

    def get(self, name: str):
        request = experiment_pb2.GetExperimentRequest(name=name)
        return self._call("GetExperiment", request, experiment_pb2.Experiment)

    def names(self) -> list[str]:
        request = experiment_pb2.ListExperimentsRequest()
        answer = self._call(
            "ListExperiments", request, experiment_pb2.ListExperimentsResponse
        )
        return [experiment.plan.name for experiment in answer.experiments]

    def stop(self, name: str):
        request = experiment_pb2.StopExperimentRequest(name=name)
        return self._call("StopExperiment", request, experiment_pb2.Experiment)

    def delete(self, name: str) -> None:
        request = experiment_pb2.DeleteExperimentRequest(name=name)
        self._call("DeleteExperiment", request, experiment_pb2.DeleteExperimentResponse)

    def close(self) -> None:
        self._channel.close()


class OverHttp:
    """The paths under /v1/experiments. What they answer is read as the messages."""

    def __init__(self, server):
        self._address = f"http://{server.http}/v1/experiments"

    def _ask(self, method: str, path: str = "", body: dict | None = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            told = json.load(error)
            raise Refused(told["code"], told["reason"], told["error"]) from None

    @staticmethod
    def _message(answer: dict):
        def without_nulls(value):
            if isinstance(value, dict):
                return {
                    name: without_nulls(inner)
                    for name, inner in value.items()
                    if inner is not None
                }
            return (
                [without_nulls(one) for one in value]
                if isinstance(value, list)
                else value
            )

        return json_format.ParseDict(without_nulls(answer), experiment_pb2.Experiment())

    def start(self, plan: dict):
        return self._message(self._ask("POST", body=plan))

    def get(self, name: str):
        return self._message(self._ask("GET", f"/{urllib.parse.quote(name)}"))

    def names(self) -> list[str]:
        return [
            experiment["plan"]["name"] for experiment in self._ask("GET")["experiments"]
        ]

    def stop(self, name: str):
        return self._message(self._ask("POST", f"/{urllib.parse.quote(name)}/stop"))

    def delete(self, name: str) -> None:
        assert self._ask("DELETE", f"/{urllib.parse.quote(name)}") == {}

    def close(self) -> None:
        pass


class Requests:
    """Pictures to classify over gRPC, each with a key."""

    def __init__(self, server):
        self._channel = grpc.insecure_channel(server.grpc)
        self._classify = self._channel.unary_unary(
            "/fovea.v1.VisionService/Classify",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=vision_pb2.ClassifyResponse.FromString,
        )

    def classify(self, key: str = "", model: str = "shapes", version: str = ""):
        request = vision_pb2.ClassifyRequest(
            model_name=model, model_version=version, images=[PICTURE]
        )
        metadata = ((KEY, key),) if key else ()
        return self._classify(request, metadata=metadata, timeout=60)

    def arm(self, key: str = "") -> str:
        return self.classify(key).receipt.experiment_arm

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self._channel.close()
