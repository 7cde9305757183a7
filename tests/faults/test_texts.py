"""Rows 51 to 54 of docs/faults.md: texts that would mean something elsewhere - to a URL's reader, to the system's
shared memory, to a JSON parser, to a terminal."""

from __future__ import annotations

import json
import re
import socket

import pytest
from fault_support import (
    MODEL,
    SERVICE,
    Caller,
    bytes_tensor,
    expect,
    infer_request,
    refusal_of,
)
from http_caller import HttpCaller
from tritonclient.grpc import service_pb2


@pytest.fixture
def trap():
    """A port of ours that a server would knock at if it fetched what callers name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):  # nobody came
            listener.accept()


def urls(trap) -> list[str]:
    port = trap.getsockname()[1]
    return [
        f"http://127.0.0.1:{port}/cat.jpg",
        f"http://localhost:{port}/redirect?to=http://169.254.169.254/latest/meta-data",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "data:image/jpeg;base64," + "A" * 100_000,
    ]


@pytest.mark.parametrize("key", ["image_url", "url", "uri", "IMAGE_URI", "mask_url"])
def test_row_51_no_parameter_names_an_image_elsewhere(
    caller: Caller | HttpCaller, trap, key: str
):
    for url in urls(trap):
        of_request, of_input, of_output = (infer_request() for _ in range(3))
        of_request.parameters[key].string_param = url
        of_input.inputs[0].parameters[key].string_param = url
        of_output.outputs.add(name="logits").parameters[key].string_param = url
        for request in (of_request, of_input, of_output):
            expect(caller.refused(request), "INVALID_ARGUMENT", "request.url")


def test_row_51_a_url_in_an_images_place_is_no_image(caller: Caller | HttpCaller, trap):
    for url in urls(trap):
        request = infer_request("image", "BYTES", (1, 1), [bytes_tensor(url.encode())])
        expect(caller.refused(request), "INVALID_ARGUMENT", "image.")


REGIONS = [
    service_pb2.SystemSharedMemoryRegisterRequest(name=name, key=key, offset=offset, byte_size=size)
    for name, key, offset, size in [
        ("region", "/region", 0, 64),
        ("region", "/", 0, 64),
        ("region", "/../etc/passwd", 0, 64),
        ("region", "/triton_python_backend_shm_region_1", 0, 64),
        ("region", "/region", 2**64 - 8, 16),
        ("", "", 0, 2**64 - 1),
    ]
]  # fmt: skip


def test_row_52_there_is_no_shared_memory_to_register(grpc_caller: Caller):
    for region in REGIONS:
        expect(
            grpc_caller.refused(
                region.SerializeToString(),
                method=SERVICE + "SystemSharedMemoryRegister",
            ),
            "UNIMPLEMENTED",
            "request.shared_memory",
        )
    cuda = service_pb2.CudaSharedMemoryRegisterRequest(
        name="region", raw_handle=bytes(64), device_id=-1, byte_size=2**64 - 1
    )
    expect(
        grpc_caller.refused(
            cuda.SerializeToString(), method=SERVICE + "CudaSharedMemoryRegister"
        ),
        "UNIMPLEMENTED",
        "request.shared_memory",
    )


def test_row_52_no_tensor_lies_in_shared_memory(caller: Caller | HttpCaller):
    for of in ("input", "output"):
        request = infer_request()
        if of == "input":
            tensor = request.inputs[0]
            del request.raw_input_contents[:]
        else:
            tensor = request.outputs.add(name="logits")
        tensor.parameters["shared_memory_region"].string_param = "region"
        tensor.parameters["shared_memory_byte_size"].int64_param = 2**62
        tensor.parameters["shared_memory_offset"].int64_param = -1
        expect(caller.refused(request), "UNIMPLEMENTED", "request.shared_memory")


@pytest.mark.parametrize("kind", ["System", "Cuda"])
def test_row_52_status_and_unregister_always_answer(grpc_caller: Caller, kind: str):
    """Generic clients call them before they start. Inferences go on beside them."""
    for name in ("", "region", "../x"):
        for call in ("Status", "Unregister"):
            method = f"{kind}SharedMemory{call}"
            request = getattr(service_pb2, method + "Request")(name=name)
            grpc_caller.send(request.SerializeToString(), method=SERVICE + method)
            grpc_caller.infer(infer_request())


def test_row_52_there_is_no_shared_memory_over_http(http_caller: HttpCaller):
    for name, body in (
        ("region", {"key": "/region", "offset": 0, "byte_size": 64}),
        ("region", {"key": "/../etc/passwd", "offset": 0, "byte_size": 64}),
        ("region", {"key": "/region", "offset": 2**63, "byte_size": 2**63}),
    ):
        path = f"/v2/systemsharedmemory/region/{name}/register"
        error = http_caller.refused_call("POST", path, json.dumps(body).encode())
        expect(error, "UNIMPLEMENTED", "request.shared_memory")
    for kind in ("system", "cuda"):
        http_caller.ask("GET", f"/v2/{kind}sharedmemory/status")
        http_caller.ask("POST", f"/v2/{kind}sharedmemory/unregister")
        http_caller.ask("POST", f"/v2/{kind}sharedmemory/region/x/unregister")
        http_caller.infer(infer_request())


CONFIGS = {
    "a number past all doubles": '{"max_batch_size": 1e400}',
    "a number past 64 bits": '{"max_batch_size": 9223372036854775808}',
    "a number past 32 bits": '{"instance_group": [{"count": 4294967297}]}',
    "a fraction": '{"max_batch_size": 2.5}',
    "below zero": '{"max_batch_size": -1}',
    "NaN": '{"max_batch_size": NaN}',
    "infinity": '{"max_batch_size": -Infinity}',
    "one key twice": '{"max_batch_size": 2, "max_batch_size": 4}',
    "one key twice inside": '{"dynamic_batching": {"priority_levels": 1, "priority_levels": 2}}',
    "half a surrogate": r'{"name": "\ud800"}',
    "longer than it may be": " " * 65_537,
    "nested 65,536 deep": "[" * 65_536,
    "objects 16,384 deep": '{"":' * 16_384,
    "more behind the end": '{"max_batch_size": 2} {}',
    "no object": "null",
    "nothing": " ",
}


@pytest.fixture(scope="module")
def explicit(tmp_path_factory) -> Caller:
    import shutil

    from running_server import DEMO, Server

    folder = tmp_path_factory.mktemp("explicit")
    shutil.copytree(DEMO / MODEL, folder / "models" / MODEL)
    server = Server(
        folder / "server.log",
        *("--model-repository", folder / "models", "--log-level", "debug"),
        *("--model-control-mode", "explicit", "--load-model", MODEL),
    )
    caller = Caller(server.grpc)
    caller.server = server
    yield caller
    caller.channel.close()
    assert server.terminate() == 0
    server.close()


def load(config: str, model: str = MODEL) -> service_pb2.RepositoryModelLoadRequest:
    request = service_pb2.RepositoryModelLoadRequest(model_name=model)
    request.parameters["config"].string_param = config
    return request


@pytest.mark.parametrize("case", CONFIGS, ids=list(CONFIGS))
def test_row_53_json_that_means_nothing_is_refused(explicit: Caller, case: str):
    error = explicit.refused(
        load(CONFIGS[case]).SerializeToString(), method=SERVICE + "RepositoryModelLoad"
    )
    expect(error, "INVALID_ARGUMENT", "config.invalid")
    over_http = HttpCaller(explicit.server.http)
    error = refusal_of(lambda: over_http.load(MODEL, CONFIGS[case]))
    expect(error, "INVALID_ARGUMENT", "config.invalid")
    explicit.infer(infer_request())  # what served before serves on


BODIES = {
    "a number past all doubles": b'{"inputs":[{"name":"pixel_values","shape":[1e400]}]}',
    "a number past 64 bits": b'{"inputs":[{"name":"x","shape":[18446744073709551616]}]}',
    "a fraction": b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1.5],"data":[1]}]}',
    "NaN": b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}',
    "bad UTF-8": b'{"id":"\xff\xfe","inputs":[]}',
    "one key twice": b'{"inputs":[],"inputs":[]}',
    "nested 65,536 deep": b'{"inputs":' + b"[" * 65_536,
    "no object": b"null",
    "nothing": b"",
}


@pytest.mark.parametrize("case", BODIES, ids=list(BODIES))
def test_row_53_json_of_an_inference_that_means_nothing_is_refused(
    http_caller: HttpCaller, case: str
):
    error = http_caller.refused_call("POST", f"/v2/models/{MODEL}/infer", BODIES[case])
    expect(error, "INVALID_ARGUMENT", "request.")


def test_row_53_bytes_that_are_no_text_are_refused(explicit: Caller):
    payload = load('{"name": "@@"}').SerializeToString().replace(b"@@", b"\xff\xfe")
    expect(
        explicit.refused(payload, method=SERVICE + "RepositoryModelLoad"),
        "INVALID_ARGUMENT",
        "request.malformed",
    )


HOSTILE = [
    "shapes\r\n2026-01-01T00:00:00.000 error   forged",
    "shapes\n\x1b[2J\x1b[31mforged",
    "\x1b]0;forged\x07",
    "shapes\u009b31mforged",  # C1: one character that does what ESC [ does
    "forged\x00\x08\x7f",
]


def test_row_54_nothing_that_a_caller_writes_moves_the_logs_reader(explicit: Caller):
    for text in HOSTILE:
        for request in (
            infer_request(model=text),
            infer_request(model_version=text),
            infer_request(text),
            infer_request(datatype=text),
            infer_request(id=text, raw=[b"short"]),
        ):
            explicit.refused(request)
        request = infer_request(id=text)
        request.parameters[text].string_param = text
        explicit.infer(request, metadata=[("x-name-bin", text.encode())])
        explicit.refused(
            load("{}", model=text).SerializeToString(),
            method=SERVICE + "RepositoryModelLoad",
        )
        explicit.refused(
            load('{"name": "' + text + '"}').SerializeToString(),
            method=SERVICE + "RepositoryModelLoad",
        )
        over_http = HttpCaller(explicit.server.http)
        for request in (
            infer_request(model=text),
            infer_request(model_version=text),
            infer_request(text),
            infer_request(id=text, raw=[b"short"]),
        ):
            over_http.refused(request)
        refusal_of(lambda: over_http.load(text, "{}"))  # noqa: B023
    log = explicit.server.log.read_bytes().decode()  # as UTF-8, all of it
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", log)
    start = re.compile(
        r"\d{4}-\d\d-\d\dT[\d:.]+ (debug|info|warning|error) |listening: |ready: "
    )
    forged = [line for line in log.splitlines() if not start.match(line)]
    assert not forged, forged
    assert not re.search(r"^\S+ error   forged", log, re.MULTILINE)
