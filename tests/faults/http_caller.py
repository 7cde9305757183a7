"""The requests of fault_support over HTTP: a caller that looks like the one over gRPC."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import grpc
import numpy as np
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

TYPES = {"FP32": np.float32, "UINT8": np.uint8, "INT32": np.int32, "INT64": np.int64}
# docs/faults.md, status policy.
STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "ALREADY_EXISTS": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 413,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "INTERNAL": 500,
}
STATUS_OF_REASON = {
    "experiment.too_many": 429,
    "image.unsupported_type": 415,
    "http.path_unknown": 404,
    "http.other_host": 421,
    "http.transfer_coding_unknown": 501,
    "request.encoding": 415,
    "http.target_too_long": 414,
    "http.head_too_large": 431,
    "quota.rate": 429,
    "quota.concurrency": 429,
    "shared_memory.too_many": 429,
}


class HttpRefusal(grpc.RpcError):
    """An error's answer, with what an error over gRPC has too."""

    def __init__(self, status: int, fields: http.client.HTTPMessage, body: bytes):
        self.status = status
        self.fields = fields
        self.body = json.loads(body)

    def code(self) -> grpc.StatusCode:
        return getattr(grpc.StatusCode, self.body["code"])

    def details(self) -> str:
        return self.body["error"]

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("fovea-reason", self.body["reason"]),)

    def __str__(self) -> str:
        return f"{self.status} {self.body}"

    def expect_shape(self) -> None:
        """The status, the fields and the members that docs/faults.md promises of every error."""
        code, reason = self.body["code"], self.body["reason"]
        assert self.status == STATUS_OF_REASON.get(reason, STATUS[code]), str(self)
        assert set(self.body) - {"id"} == {"error", "code", "reason"}, str(self)
        assert self.fields["Content-Type"] == "application/json"
        assert ("Retry-After" in self.fields) == (self.status in (429, 503)), str(self)


class LineRefusal(HttpRefusal):
    """An error that came as a line, behind others: the answer's status was 200 by then."""

    def expect_shape(self) -> None:
        assert self.status == 200
        assert set(self.body) == {"error", "code", "reason"}, str(self)


def lines(answer: http.client.HTTPResponse) -> Iterator[dict]:
    """Of an answer in lines of JSON. LineRefusal: one of them tells an error."""
    for line in answer:
        update = json.loads(line)
        if "error" in update:
            raise LineRefusal(answer.status, answer.headers, line)
        yield update


def lines_of(
    request: urllib.request.Request | str, timeout: float = 120
) -> Iterator[dict]:
    """Of the answer to a request. HttpRefusal besides: it was refused before the first."""
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            yield from lines(answer)
    except urllib.error.HTTPError as error:
        raise HttpRefusal(error.code, error.headers, error.read()) from None


def _value(parameter: service_pb2.InferParameter):
    kind = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, kind)


def _parameters(message: Message) -> dict:
    return {key: _value(one) for key, one in message.parameters.items()}


def _typed(contents: service_pb2.InferTensorContents) -> list | None:
    for field, values in contents.ListFields():
        if field.name == "bytes_contents":
            return [value.decode("latin-1") for value in values]
        return list(values)
    return None


def infer_body(request: service_pb2.ModelInferRequest) -> tuple[bytes, bytes]:
    """What ModelInfer's message is over HTTP: the JSON, and the tensors behind it. Answers come as bytes too."""
    inputs = []
    for number, tensor in enumerate(request.inputs):
        one = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            "parameters": _parameters(tensor),
        }
        if number < len(request.raw_input_contents):
            size = len(request.raw_input_contents[number])
            one["parameters"]["binary_data_size"] = size
        if (data := _typed(tensor.contents)) is not None:
            one["data"] = data
        inputs.append(one)
    body = {
        "parameters": {"binary_data_output": True, **_parameters(request)},
        "inputs": inputs,
    }
    if request.id:
        body["id"] = request.id
    if request.outputs:
        body["outputs"] = [
            {"name": output.name, "parameters": _parameters(output)}
            for output in request.outputs
        ]
    return json.dumps(body).encode(), b"".join(request.raw_input_contents)


def infer_path(request: service_pb2.ModelInferRequest) -> str:
    def quoted(text: str) -> str:
        return urllib.parse.quote(text, safe="")

    version = (
        f"/versions/{quoted(request.model_version)}" if request.model_version else ""
    )
    return f"/v2/models/{quoted(request.model_name)}{version}/infer"


class HttpCaller:
    """A connection for each call, so that any thread may call."""

    def __init__(self, address: str):
        self.address = address

    def ask(
        self, method: str, path: str, body: bytes = b"", timeout: float = 30, **fields
    ) -> tuple[http.client.HTTPMessage, bytes]:
        """The fields and the body of an answer; HttpRefusal where it is an error."""
        host, _, port = self.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        try:
            headers = {
                key.replace("_", "-"): str(value) for key, value in fields.items()
            }
            try:
                connection.request(method, path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it was sent: the answer is there
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 400:
                raise HttpRefusal(answer.status, answer.headers, content)
            return answer.headers, content
        finally:
            connection.close()

    def answer(
        self, request: service_pb2.ModelInferRequest, timeout: float = 30
    ) -> tuple[np.ndarray, dict]:
        """The one output, and the parameters of the answer."""
        head, tensors = infer_body(request)
        fields, body = self.ask(
            "POST",
            infer_path(request),
            head + tensors,
            timeout,
            Inference_Header_Content_Length=len(head),
        )
        size = int(fields["Inference-Header-Content-Length"])
        told = json.loads(body[:size])
        (output,) = told["outputs"]
        values = np.frombuffer(body[size:], TYPES[output["datatype"]])
        return values.reshape(output["shape"]), told.get("parameters", {})

    def infer(
        self, request: service_pb2.ModelInferRequest, timeout: float = 30
    ) -> np.ndarray:
        return self.answer(request, timeout)[0]

    def refused(
        self, request: service_pb2.ModelInferRequest, timeout: float = 30
    ) -> HttpRefusal:
        try:
            self.infer(request, timeout)
        except HttpRefusal as refusal:
            return refusal
        raise AssertionError("the request was answered")

    def refused_call(self, method: str, path: str, body: bytes = b"", **fields):
        """The error of any call."""
        try:
            self.ask(method, path, body, **fields)
        except HttpRefusal as refusal:
            return refusal
        raise AssertionError("the call was answered")

    def load(self, model: str, config: str | None = None, timeout: float = 60) -> None:
        body = {} if config is None else {"parameters": {"config": config}}
        path = f"/v2/repository/models/{urllib.parse.quote(model, safe='')}/load"
        self.ask("POST", path, json.dumps(body).encode(), timeout)

    def unload(self, model: str) -> None:
        self.ask("POST", f"/v2/repository/models/{model}/unload", b"{}", 60)

    def close(self) -> None:
        pass
