"""HTTP as clients of Triton, curl and plain programs speak it."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from PIL import Image, ImageChops, ImageStat
from running_server import BUILD, Server
from tritonclient.utils import InferenceServerException

MODEL = "shapes"
SIZE = 64
EXAMPLES = sorted(
    (pathlib.Path(__file__).resolve().parents[2] / "client/examples").glob("*.jpg")
)


@pytest.fixture
def client(server: Server):
    with triton.InferenceServerClient(server.http) as client:
        yield client


def random_pixels(batch: int = 1) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(
        (batch, 3, SIZE, SIZE), dtype=np.float32
    )


def pixels(values: np.ndarray, *, binary: bool = True, client=triton):
    tensor = client.InferInput("pixel_values", values.shape, "FP32")
    if client is triton:
        tensor.set_data_from_numpy(values, binary_data=binary)
    else:
        tensor.set_data_from_numpy(values)
    return tensor


def encoded(paths: list[pathlib.Path], client=triton):
    values = np.array([[path.read_bytes()] for path in paths], dtype=np.object_)
    tensor = client.InferInput("image", values.shape, "BYTES")
    tensor.set_data_from_numpy(values)
    return tensor


def ask(server: Server, method: str, path: str, body: bytes = b"", **fields: str):
    """The status, the fields and the body of the answer."""
    connection = http.client.HTTPConnection(server.http, timeout=60)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    told = answer.status, answer.headers, answer.read()
    connection.close()
    return told


def curl(*arguments: object) -> str:
    return subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", "60", *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_health_and_metadata(client, server: Server) -> None:
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready(MODEL) and client.is_model_ready(MODEL, "1")
    assert not client.is_model_ready("no_such_model")
    told = client.get_server_metadata()
    assert told["name"] == "fovea" and "binary_tensor_data" in told["extensions"]
    with triton_grpc.InferenceServerClient(server.grpc) as grpc:
        for name in (MODEL, "shapes_knn"):
            metadata = client.get_model_metadata(name)
            other = grpc.get_model_metadata(name, as_json=True)
            # JSON of protobuf has numbers of 64 bits as texts.
            for kind in ("inputs", "outputs"):
                for one, same in zip(metadata[kind], other[kind], strict=True):
                    assert one["shape"] == [int(side) for side in same["shape"]]
                    assert one["datatype"] == same["datatype"]
            assert metadata["versions"] == other["versions"]
            assert (
                client.get_model_config(name)["max_batch_size"]
                == (grpc.get_model_config(name, as_json=True)["config"])[
                    "max_batch_size"
                ]
            )
    with pytest.raises(InferenceServerException, match="no_such_model"):
        client.get_model_metadata("no_such_model")


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
@pytest.mark.parametrize("packing", [None, "gzip", "deflate"])
def test_logits_are_those_of_grpc(
    client, server: Server, binary: bool, packing: str | None
) -> None:
    values = random_pixels()
    answer = client.infer(
        MODEL,
        [pixels(values, binary=binary)],
        outputs=[triton.InferRequestedOutput("logits", binary_data=binary)],
        request_id="mine",
        timeout=5_000_000,
        priority=1,
        request_compression_algorithm=packing,
    )
    with triton_grpc.InferenceServerClient(server.grpc) as grpc:
        same = grpc.infer(MODEL, [pixels(values, client=triton_grpc)])
    # JSON has as many digits as tell floats apart.
    np.testing.assert_array_equal(answer.as_numpy("logits"), same.as_numpy("logits"))
    response = answer.get_response()
    assert response["id"] == "mine" and response["model_name"] == MODEL
    assert response["parameters"]["fovea.compute_ns"] > 0


def test_pictures_and_classes_through_the_protocol(client, server: Server) -> None:
    wanted = [triton.InferRequestedOutput("logits", class_count=2)]
    answer = client.infer(MODEL, [encoded(EXAMPLES[:3])], outputs=wanted)
    classes = answer.as_numpy("logits")
    assert classes.shape == (3, 2)
    value, index, label = classes[0][0].decode().split(":")
    assert float(value) and int(index) >= 0 and label
    # The whole body as one picture.
    status, fields, body = ask(
        server,
        "POST",
        f"/v2/models/{MODEL}/infer",
        EXAMPLES[0].read_bytes(),
        Inference_Header_Content_Length="0",
    )
    assert status == 200
    size = int(fields["Inference-Header-Content-Length"])
    head = json.loads(body[:size])
    (output,) = head["outputs"]
    logits = np.frombuffer(body[size:], np.float32).reshape(output["shape"])
    expected = client.infer(MODEL, [encoded(EXAMPLES[:1])]).as_numpy("logits")
    np.testing.assert_array_equal(logits, expected)


def test_many_requests_at_a_time(server: Server) -> None:
    with triton.InferenceServerClient(server.http, concurrency=4) as client:
        under_way = [
            client.async_infer(MODEL, [pixels(random_pixels(1 + i % 3))])
            for i in range(32)
        ]
        for i, request in enumerate(under_way):
            assert request.get_result().as_numpy("logits").shape[0] == 1 + i % 3


def test_errors_have_words_and_a_status(client, server: Server) -> None:
    for model, values, expected in (
        ("no_such_model", random_pixels(), "404"),
        (MODEL, random_pixels()[:, :, :32], "400"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            client.infer(model, [pixels(values)])
        assert caught.value.status() == expected
    status, _, body = ask(server, "POST", f"/v1/classify?model={MODEL}", b"<svg/>")
    assert status == 415 and json.loads(body)["reason"] == "image.unsupported_type"
    truncated = EXAMPLES[0].read_bytes()[:2000]
    status, _, body = ask(server, "POST", f"/v1/classify?model={MODEL}", truncated)
    assert status == 400 and json.loads(body)["reason"] == "image.truncated"


def test_statistics_count_what_came_over_http(client) -> None:
    def counted() -> int:
        (statistics,) = client.get_inference_statistics(MODEL)["model_stats"]
        return statistics["inference_count"]

    before = counted()
    client.infer(MODEL, [pixels(random_pixels(2))])
    assert counted() == before + 2


def test_the_repository_is_controlled(start_server, repository: pathlib.Path) -> None:
    server = start_server(
        "--model-repository", repository, "--model-control-mode", "explicit"
    )
    with triton.InferenceServerClient(server.http) as client:
        assert not client.is_model_ready(MODEL)
        client.load_model(MODEL, config='{"max_batch_size": 2}')
        assert client.is_model_ready(MODEL)
        assert client.get_model_config(MODEL)["max_batch_size"] == 2
        index = {one["name"]: one for one in client.get_model_repository_index()}
        assert index[MODEL]["state"] == "READY"
        client.unload_model(MODEL)
        assert not client.is_model_ready(MODEL)
        with pytest.raises(InferenceServerException):
            client.load_model("no_such_model")


def test_generic_clients_may_ask_for_what_there_is_not(client) -> None:
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    with pytest.raises(InferenceServerException):
        client.register_system_shared_memory("region", "/key", 16)


def test_what_people_type(server: Server) -> None:
    url = f"http://{server.http}/v1/classify?model={MODEL}"
    from_form = json.loads(curl("-F", f"image=@{EXAMPLES[0]}", url))
    from_body = json.loads(curl("--data-binary", f"@{EXAMPLES[0]}", url))
    best = from_form["results"][0]["classes"][0]
    assert best["label"] and 0 < best["confidence"] <= 1
    assert from_form["results"] == from_body["results"]
    assert from_form["receipt"]["compute_ns"] > 0
    several = json.loads(
        curl(*(f"-Fimage=@{path}" for path in EXAMPLES[:3]), "-Ftop_k=1", url)
    )
    assert [len(one["classes"]) for one in several["results"]] == [1, 1, 1]
    scene = EXAMPLES[0].parent / "scenes" / "scene_1.jpg"
    found = json.loads(
        curl(
            "-F",
            f"image=@{scene}",
            f"http://{server.http}/v1/detect?model=instances_dense&mask_format=RUN_LENGTHS",
        )
    )
    detections = found["results"][0]["detections"]
    assert detections and detections[0]["mask"]["run_lengths"]
    segmented = json.loads(
        curl(
            "-F",
            f"image=@{scene}",
            f"http://{server.http}/v1/segment?model=segmenter_dense",
        )
    )
    assert segmented["results"][0]["classes"][0]["pixels"] > 0


def drawing(server: Server, call: str, picture: pathlib.Path) -> bytes:
    status, fields, body = ask(
        server, "POST", f"/v1/{call}", picture.read_bytes(), Accept="image/png"
    )
    assert status == 200 and fields["Content-Type"] == "image/png"
    assert "compute;dur=" in fields["Server-Timing"]
    return body


@pytest.mark.parametrize(
    ("command", "model"),
    [("detect", "instances_dense"), ("segment", "segmenter_dense")],
)
def test_the_drawing_is_the_command_lines(
    server: Server, tmp_path: pathlib.Path, command: str, model: str
) -> None:
    scene = EXAMPLES[0].parent / "scenes" / "scene_1.jpg"
    subprocess.run(
        [
            BUILD / "bin/fovea",
            "--server",
            server.grpc,
            command,
            scene,
            "--model",
            model,
            "--output",
            tmp_path / "drawn.png",
        ],
        check=True,
        capture_output=True,
    )
    drawn = drawing(server, f"{command}?model={model}", scene)
    assert drawn == (tmp_path / "drawn.png").read_bytes()


def test_the_classes_of_a_picture_are_drawn_below_it(server: Server) -> None:
    picture = Image.open(EXAMPLES[0]).convert("RGB")
    heights = []
    for top_k in (1, 9):
        drawn = Image.open(
            io.BytesIO(
                drawing(server, f"classify?model={MODEL}&top_k={top_k}", EXAMPLES[0])
            )
        )
        times = drawn.width // picture.width
        assert drawn.width == times * picture.width
        assert drawn.height > times * picture.height
        shown = drawn.crop((0, 0, drawn.width, times * picture.height))
        difference = ImageChops.difference(shown.resize(picture.size), picture)
        assert max(ImageStat.Stat(difference).mean) < 8
        heights.append(drawn.height)
    assert heights[0] < heights[1]


def test_what_is_not_one_picture_is_not_drawn(server: Server) -> None:
    url = f"http://{server.http}/v1/classify?model={MODEL}"
    image = f"-Fimage=@{EXAMPLES[0]}"
    refused = json.loads(curl(image, image, "-HAccept: image/png", url))
    assert refused["reason"] == "request.drawing"
    rather_results = "-HAccept: image/png;q=0.5, application/json"
    assert json.loads(curl(image, rather_results, url))["results"]
    corrupt = EXAMPLES[0].read_bytes()[:2000]
    status, _, body = ask(
        server, "POST", f"/v1/classify?model={MODEL}", corrupt, Accept="image/png"
    )
    assert status == 400 and json.loads(body)["reason"] == "image.truncated"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_answers_are_compressed_for_who_accepts_it(
    client, server: Server, coding: str
) -> None:
    values = random_pixels(16)
    plain = client.infer(MODEL, [pixels(values)])
    packed = client.infer(
        MODEL, [pixels(values)], response_compression_algorithm=coding
    )
    np.testing.assert_array_equal(plain.as_numpy("logits"), packed.as_numpy("logits"))
    _, fields, _ = ask(server, "GET", "/openapi.json", Accept_Encoding=coding)
    assert fields["Content-Encoding"] == coding
    # tritonclient.http.aio accepts what it does not unpack.
    _, fields, _ = ask(server, "GET", "/v2/models/stats", Accept_Encoding=coding)
    assert fields["Content-Encoding"] is None


def test_pages_of_an_allowed_origin_may_ask(
    start_server, one_model: pathlib.Path
) -> None:
    server = start_server(
        "--model-repository", one_model, "--http-allow-origin", "http://page.example"
    )
    path = f"/v1/classify?model={MODEL}"
    picture = EXAMPLES[0].read_bytes()
    status, fields, _ = ask(server, "POST", path, picture, Origin="http://page.example")
    assert status == 200
    assert fields["Access-Control-Allow-Origin"] == "http://page.example"
    assert ask(server, "POST", path, picture, Origin="http://other.example")[0] == 403


def test_the_receipt_is_told_to_browsers(server: Server) -> None:
    status, fields, _ = ask(
        server,
        "POST",
        f"/v1/classify?model={MODEL}",
        gzip.compress(EXAMPLES[0].read_bytes()),
        Content_Encoding="gzip",
        X_Request_Id="asked-by-me",
    )
    assert status == 200
    stages = dict(part.split(";dur=") for part in fields["Server-Timing"].split(", "))
    assert next(iter(stages)) == "receive" and float(stages["compute"]) > 0
    assert fields["X-Request-Id"] == "asked-by-me"


def test_metrics_tell_protocols_apart(server: Server) -> None:
    def answered(protocol: str) -> float:
        host, _, port = server.metrics.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        pattern = rf'^fovea_requests_total{{[^}}]*code="OK"[^}}]*model="{MODEL}"[^}}]*protocol="{protocol}"[^}}]*}} (\S+)'
        return sum(float(count) for count in re.findall(pattern, text, re.MULTILINE))

    before = answered("http"), answered("grpc")
    ask(server, "POST", f"/v1/classify?model={MODEL}", EXAMPLES[0].read_bytes())
    assert (answered("http"), answered("grpc")) == (before[0] + 1, before[1])
