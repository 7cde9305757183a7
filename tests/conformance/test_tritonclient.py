"""Unmodified tritonclient against a running server: what it offers over gRPC works as with Triton."""

from __future__ import annotations

import pathlib
import queue

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

MODEL = "shapes"
SIZE = 64
EXAMPLES = sorted(
    (pathlib.Path(__file__).resolve().parents[2] / "client/examples").glob("*.jpg")
)


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.grpc) as client:
        yield client


def pixels(batch: int = 1, seed: int = 0) -> triton.InferInput:
    values = np.random.default_rng(seed).standard_normal(
        (batch, 3, SIZE, SIZE), dtype=np.float32
    )
    tensor = triton.InferInput("pixel_values", values.shape, "FP32")
    tensor.set_data_from_numpy(values)
    return tensor


def encoded(paths: list[pathlib.Path]) -> triton.InferInput:
    values = np.array([[path.read_bytes()] for path in paths], dtype=np.object_)
    tensor = triton.InferInput("image", values.shape, "BYTES")
    tensor.set_data_from_numpy(values)
    return tensor


def test_health_and_metadata(client):
    assert (
        client.is_server_live()
        and client.is_server_ready()
        and client.is_model_ready(MODEL)
    )
    assert not client.is_model_ready("no_such_model")
    server = client.get_server_metadata(as_json=True)
    assert server["name"] == "fovea"
    assert {
        "statistics",
        "classification",
        "model_repository",
        "model_configuration",
    } <= set(server["extensions"])
    assert not {"system_shared_memory", "cuda_shared_memory", "trace"} & set(
        server["extensions"]
    )
    model = client.get_model_metadata(MODEL, as_json=True)
    assert model["inputs"][0]["shape"][0] == "-1"
    assert model["outputs"][0]["name"] == "logits"
    config = client.get_model_config(MODEL, as_json=True)["config"]
    assert config["max_batch_size"] >= 8
    assert "fovea.inputs" in config["parameters"]


def test_the_configuration_has_what_tritons_image_clients_look_for(client, server):
    """image_client.py and grpc_image_client.py, step by step: one input whose format says where its channels are, one
    output that is a vector, and classes of a batch."""
    import tritonclient.http as triton_http
    from PIL import Image

    formats = triton.model_config_pb2.ModelInput
    metadata = client.get_model_metadata(MODEL)
    config = client.get_model_config(MODEL).config
    assert len(config.input) == len(metadata.inputs) == len(metadata.outputs) == 1
    assert metadata.outputs[0].datatype == "FP32"
    assert sum(size > 1 for size in metadata.outputs[0].shape[1:]) == 1
    assert config.input[0].format == formats.FORMAT_NCHW
    with triton_http.InferenceServerClient(server.http) as over_http:
        told = over_http.get_model_config(MODEL)["input"][0]["format"]
    assert formats.Format.Value(told) == formats.FORMAT_NCHW
    channels, height, width = metadata.inputs[0].shape[1:]
    assert channels == 3
    square = [path for path in EXAMPLES if len(set(Image.open(path).size)) == 1]
    pictures = [
        np.asarray(Image.open(path).convert("RGB").resize((width, height)), np.float32)
        for path in square
    ]
    scaled = np.stack([np.transpose(one, (2, 0, 1)) / 127.5 - 1 for one in pictures])
    tensor = triton.InferInput(metadata.inputs[0].name, scaled.shape, "FP32")
    tensor.set_data_from_numpy(scaled)
    wanted = triton.InferRequestedOutput(metadata.outputs[0].name, class_count=1)
    best = client.infer(MODEL, [tensor], outputs=[wanted]).as_numpy("logits")
    labels = [row[0].decode().split(":")[2] for row in best]
    assert labels == [path.stem for path in square] == ["heart", "ring"]


def test_typed_contents_are_answered_in_their_form(server):
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    values = np.random.default_rng(0).standard_normal(
        (2, 3, SIZE, SIZE), dtype=np.float32
    )
    typed = service_pb2.ModelInferRequest(model_name=MODEL)
    tensor = typed.inputs.add(name="pixel_values", datatype="FP32", shape=values.shape)
    raw = service_pb2.ModelInferRequest()
    raw.CopyFrom(typed)
    raw.raw_input_contents.append(values.tobytes())
    tensor.contents.fp32_contents.extend(values.ravel().tolist())
    classes = service_pb2.ModelInferRequest()
    classes.CopyFrom(typed)
    classes.outputs.add(name="logits").parameters["classification"].int64_param = 2
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer, best = stub.ModelInfer(typed), stub.ModelInfer(classes)
        asked_raw = stub.ModelInfer(raw)
    assert not answer.raw_output_contents and not best.raw_output_contents
    logits = np.array(answer.outputs[0].contents.fp32_contents, np.float32)
    np.testing.assert_array_equal(
        logits, np.frombuffer(asked_raw.raw_output_contents[0], np.float32)
    )
    assert len(best.outputs[0].contents.bytes_contents) == 4


def test_infer_answers_alone_and_in_a_batch_alike(client):
    batch = client.infer(MODEL, [pixels(4)]).as_numpy("logits")
    assert batch.shape[0] == 4 and np.isfinite(batch).all()
    values = np.random.default_rng(0).standard_normal(
        (4, 3, SIZE, SIZE), dtype=np.float32
    )
    for row in range(4):
        tensor = triton.InferInput("pixel_values", (1, 3, SIZE, SIZE), "FP32")
        tensor.set_data_from_numpy(values[row : row + 1])
        alone = client.infer(MODEL, [tensor]).as_numpy("logits")
        assert np.abs(alone[0] - batch[row]).max() <= 1e-4 * batch.std()


def test_infer_echoes_the_id_and_carries_the_receipt(client):
    response = client.infer(MODEL, [pixels()], request_id="cat-7").get_response()
    assert response.id == "cat-7"
    stages = [
        "receive",
        "decode",
        "preprocess",
        "queue",
        "compute",
        "postprocess",
        "encode",
    ]
    spent = {
        stage: response.parameters[f"fovea.{stage}_ns"].int64_param for stage in stages
    }
    assert spent["compute"] > 0 and all(value >= 0 for value in spent.values())
    assert response.parameters["fovea.batch_size"].int64_param >= 1
    assert (
        response.parameters["fovea.batch_peak_bytes"].int64_param >= 3 * SIZE * SIZE * 4
    )


def test_images_go_in_as_files_and_as_pixels(client):
    from PIL import Image

    image = np.asarray(Image.open(EXAMPLES[0]).convert("RGB"))[None]
    rgb = triton.InferInput("image_rgb", image.shape, "UINT8")
    rgb.set_data_from_numpy(image)
    by_file = client.infer(MODEL, [encoded(EXAMPLES[:1])]).as_numpy("logits")
    by_pixels = client.infer(MODEL, [rgb]).as_numpy("logits")
    np.testing.assert_allclose(by_file, by_pixels, rtol=0, atol=1e-3 * by_file.std())


def test_classification_extension(client):
    wanted = triton.InferRequestedOutput("logits", class_count=3)
    result = client.infer(MODEL, [encoded(EXAMPLES[:2])], outputs=[wanted]).as_numpy(
        "logits"
    )
    assert result.shape == (2, 3)
    value, index, label = result[0][0].decode().split(":")
    assert float(value) > float(result[0][1].decode().split(":")[0])
    assert int(index) >= 0 and label


def test_async_infer(client):
    answers: queue.Queue = queue.Queue()
    for number in range(32):
        client.async_infer(
            MODEL,
            [pixels(seed=number)],
            lambda result, error: answers.put((result, error)),
            request_id=str(number),
        )
    seen = set()
    for _ in range(32):
        result, error = answers.get(timeout=60)
        assert error is None
        seen.add(result.get_response().id)
    assert seen == {str(number) for number in range(32)}


def test_stream_infer_answers_every_message_and_survives_an_error(client):
    answers: queue.Queue = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number in range(8):
        client.async_stream_infer(MODEL, [pixels(seed=number)], request_id=str(number))
    client.async_stream_infer("no_such_model", [pixels()], request_id="bad")
    client.async_stream_infer(MODEL, [pixels()], request_id="after")
    client.async_stream_infer(
        MODEL, [pixels()], request_id="last", enable_empty_final_response=True
    )
    got = [answers.get(timeout=60) for _ in range(11)]
    client.stop_stream()
    assert all(
        result.get_response().parameters["triton_final_response"].bool_param
        for result, error in got
        if error is None
    )
    assert sorted(
        result.get_response().id for result, error in got if error is None
    ) == sorted([*map(str, range(8)), "after", "last"])
    errors = [error for _, error in got if error is not None]
    assert len(errors) == 1 and "no_such_model" in str(errors[0])


def test_row_110_an_error_is_the_streams_status_where_its_caller_asks_for_that(client):
    answers: queue.Queue = queue.Queue()
    client.start_stream(
        lambda result, error: answers.put((result, error)),
        headers={"triton_grpc_error": "true"},
    )
    client.async_stream_infer(MODEL, [pixels()], request_id="before")
    client.async_stream_infer("no_such_model", [pixels()])
    result, error = answers.get(timeout=60)
    assert error is None and result.get_response().id == "before"
    _, error = answers.get(timeout=60)
    client.stop_stream()
    assert error.status() == "StatusCode.NOT_FOUND"
    assert "Request for unknown model" in error.message()


def test_statistics_count_what_was_done(client):
    def counts() -> dict:
        return client.get_inference_statistics(MODEL, as_json=True)["model_stats"][0]

    before = counts()
    for _ in range(5):
        client.infer(MODEL, [pixels(2)])
    after = counts()
    assert int(after["inference_count"]) - int(before.get("inference_count", 0)) == 10
    before_success = before["inference_stats"].get("success", {"count": 0, "ns": 0})
    success = after["inference_stats"]["success"]
    assert int(success["count"]) - int(before_success.get("count", 0)) == 5
    assert int(success["ns"]) > int(before_success.get("ns", 0))
    assert int(after["inference_stats"]["compute_infer"]["ns"]) > 0


def test_repository_index_and_control_without_explicit_mode(client):
    index = client.get_model_repository_index(as_json=True)["models"]
    assert {(row["name"], row["state"]) for row in index} >= {(MODEL, "READY")}
    with pytest.raises(InferenceServerException) as refused:
        client.load_model(MODEL)
    assert refused.value.status() == "StatusCode.FAILED_PRECONDITION"


def test_shared_memory_trace_and_log_calls_answer_as_a_server_without_them(client):
    assert (
        len(client.get_system_shared_memory_status(as_json=True).get("regions", {}))
        == 0
    )
    assert (
        len(client.get_cuda_shared_memory_status(as_json=True).get("regions", {})) == 0
    )
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException) as refused:
        client.register_system_shared_memory("region", "/region", 64)
    assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
    client.get_trace_settings()
    client.get_log_settings()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"model_name": "no_such_model"}, "NOT_FOUND"),
        ({"model_version": "99"}, "NOT_FOUND"),
        ({"model_name": "../shapes"}, "INVALID_ARGUMENT"),
        (
            {"outputs": [triton.InferRequestedOutput("no_such_output")]},
            "INVALID_ARGUMENT",
        ),
        ({"client_timeout": 1e-6}, "DEADLINE_EXCEEDED"),
    ],
)
def test_errors_have_their_status(client, change, status):
    arguments = {"model_name": MODEL, "inputs": [pixels()]} | change
    with pytest.raises(InferenceServerException) as refused:
        client.infer(**arguments)
    assert refused.value.status() == f"StatusCode.{status}"
    assert client.infer(MODEL, [pixels()]).as_numpy("logits") is not None


def test_asyncio_client(server):
    import asyncio

    async def ask() -> np.ndarray:
        async with triton_aio.InferenceServerClient(server.grpc) as client:
            results = await asyncio.gather(
                *(client.infer(MODEL, [pixels(seed=i)]) for i in range(8))
            )
        return np.concatenate([result.as_numpy("logits") for result in results])

    assert asyncio.run(ask()).shape[0] == 8


def test_asyncio_client_over_http(server):
    """It accepts compressed answers to everything, and unpacks those of inference."""
    import asyncio

    import tritonclient.http.aio as triton_http

    async def ask() -> tuple[dict, dict, np.ndarray]:
        tensor = triton_http.InferInput("pixel_values", (1, 3, SIZE, SIZE), "FP32")
        tensor.set_data_from_numpy(np.zeros((1, 3, SIZE, SIZE), np.float32))
        async with triton_http.InferenceServerClient(server.http) as client:
            config = await client.get_model_config(MODEL)
            counted = await client.get_inference_statistics(MODEL)
            answer = await client.infer(MODEL, [tensor])
        return config, counted, answer.as_numpy("logits")

    config, counted, logits = asyncio.run(ask())
    assert config["name"] == counted["model_stats"][0]["name"] == MODEL
    assert np.isfinite(logits).all()


def test_explicit_mode_loads_and_unloads(start_server, repository):
    server = start_server(
        "--model-repository",
        repository,
        "--model-control-mode",
        "explicit",
        "--load-model",
        MODEL,
    )
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.is_model_ready(MODEL)
        assert not client.is_model_ready("shapes_knn")
        client.load_model("shapes_knn")
        assert client.infer("shapes_knn", [pixels()]).as_numpy("logits").shape[0] == 1
        client.unload_model("shapes_knn")
        assert not client.is_model_ready("shapes_knn")
        with pytest.raises(InferenceServerException) as refused:
            client.load_model("no_such_model")
        assert refused.value.status() == "StatusCode.NOT_FOUND"
        assert "failed to load 'no_such_model'" in refused.value.message()
        with pytest.raises(InferenceServerException, match="Request for unknown model"):
            client.get_inference_statistics("no_such_model")
    assert server.terminate() == 0
