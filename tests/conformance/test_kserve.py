"""KServe's Python clients, unmodified, over both protocols: InferenceGRPCClient and InferenceRESTClient."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.grpc as triton
from running_server import ROOT, Server

PICTURE = ROOT / "client/examples/star.jpg"
CALLS = pathlib.Path(__file__).with_name("kserve_calls.py")
MODEL, SIZE = "shapes", 64


@pytest.fixture(scope="module", params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def told(server: Server, protocol: str) -> dict:
    """What the clients were told."""
    address = server.grpc if protocol == "grpc" else server.http
    command = [sys.executable, CALLS, protocol, address, PICTURE]
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def logits(server: Server, name: str, datatype: str, values: np.ndarray) -> np.ndarray:
    """As Triton's client is told."""
    tensor = triton.InferInput(name, values.shape, datatype)
    tensor.set_data_from_numpy(values)
    with triton.InferenceServerClient(server.grpc) as client:
        return client.infer(MODEL, [tensor]).as_numpy("logits")


def test_health_and_metadata(told: dict, server: Server) -> None:
    assert told["live"] is True and told["ready"] is True
    assert told["model ready"] is True and told["unknown ready"] is False
    assert told["server"]["name"] == "fovea" and told["server"]["version"]
    metadata = told["metadata"]
    assert metadata["name"] == MODEL and metadata["versions"] == ["1"]
    (tensor,) = metadata["inputs"]
    assert tensor["name"] == "pixel_values" and tensor["datatype"] == "FP32"
    assert [output["name"] for output in metadata["outputs"]] == ["logits"]


@pytest.mark.parametrize("form", ["binary", "typed"])
def test_answers_are_those_of_tritons_client(
    told: dict, server: Server, form: str
) -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (1, SIZE, SIZE, 3), dtype=np.uint8)
    pixels = np.random.default_rng(0).standard_normal(
        (2, 3, SIZE, SIZE), dtype=np.float32
    )
    picture = np.array([[PICTURE.read_bytes()]], dtype=np.object_)
    expected = {
        "fp32": logits(server, "pixel_values", "FP32", pixels),
        "uint8": logits(server, "image_rgb", "UINT8", rgb),
    }
    if form == "binary":
        expected["bytes"] = logits(server, "image", "BYTES", picture)
    answers = told[form]
    assert set(answers) == {*expected, "classes"}
    for kind, values in expected.items():
        answer = answers[kind]
        assert answer["model"] == MODEL and answer["id"] == "mine"
        assert answer["output"] == "logits" and answer["datatype"] == "FP32"
        assert answer["shape"] == list(values.shape)
        np.testing.assert_array_equal(np.float32(answer["values"]), values)
    assert len(answers["classes"]) == 2 * 2  # of two images two classes each
    value, index, label = answers["classes"][0].split(":")
    best = expected["fp32"][0].argmax()
    assert int(index) == best and label and abs(float(value)) < 1e6


def test_errors_have_a_status_and_words(told: dict, protocol: str) -> None:
    statuses = {
        "grpc": {
            "unknown model": "NOT_FOUND",
            "wrong shape": "INVALID_ARGUMENT",
            "no picture": "INVALID_ARGUMENT",
        },
        "http": {"unknown model": 404, "wrong shape": 400, "no picture": 415},
    }[protocol]
    assert {name: status for name, (status, _) in told["errors"].items()} == statuses
    assert "no_such_model" in told["errors"]["unknown model"][1]
    assert "pixel_values" in told["errors"]["wrong shape"][1]
