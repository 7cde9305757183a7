"""Weights that come with a load, as Triton's clients send them over both protocols."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.numpy
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from running_server import DEMO, SERVER
from tritonclient.utils import InferenceServerException

MODEL = "shapes"
PIXELS = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype=np.float32)
DISK = (DEMO / MODEL / "1" / "model.safetensors").read_bytes()


def shifted(by: float) -> bytes:
    """The model's weights with another bias of its classes."""
    weights = safetensors.numpy.load(DISK)
    (bias,) = (name for name in weights if name in ("head.bias", "fc.bias"))
    weights[bias] = weights[bias] + np.asarray(by, weights[bias].dtype)
    return safetensors.numpy.save(weights)


def logits(client, version: str = "") -> np.ndarray:
    kind = triton_grpc if isinstance(client, triton_grpc.InferenceServerClient) else triton_http  # fmt: skip
    tensor = kind.InferInput("pixel_values", PIXELS.shape, "FP32")
    tensor.set_data_from_numpy(PIXELS)
    return client.infer(MODEL, [tensor], version).as_numpy("logits")


def connect(server, protocol: str):
    kind = {"http": triton_http, "grpc": triton_grpc}[protocol]
    return kind.InferenceServerClient(getattr(server, protocol))


def index(client) -> dict[str, str]:
    """The versions that are ready, with what is special about them."""
    rows = client.get_model_repository_index()
    if not isinstance(rows, list):
        rows = [
            {"name": row.name, "version": row.version, "state": row.state, "reason": row.reason}
            for row in rows.models
        ]  # fmt: skip
    return {
        row["version"]: row["reason"]
        for row in rows
        if row["name"] == MODEL and row["state"] == "READY"
    }


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_weights_are_served_until_the_model_is_loaded_again(
    start_server, one_model, protocol: str
) -> None:
    """docs/faults.md, row 75."""
    server = start_server(
        *("--model-repository", one_model, "--model-control-mode", "explicit"),
        *("--load-model", MODEL),
    )
    with connect(server, protocol) as client:
        of_disk = logits(client)
        with pytest.raises(InferenceServerException, match="config"):
            client.load_model(MODEL, files={"file:1/model.safetensors": shifted(2)})
        with pytest.raises(InferenceServerException, match="safetensors"):
            client.load_model(MODEL, config="{}", files={"file:1/../x": shifted(2)})
        np.testing.assert_array_equal(logits(client), of_disk)

        client.load_model(
            MODEL, config="{}", files={"file:7/model.safetensors": shifted(2)}
        )
        np.testing.assert_allclose(logits(client, "7"), of_disk + 2, atol=1e-3)
        (told,) = index(client).items()
        assert told[0] == "7" and "came with a call" in told[1]
        assert not client.is_model_ready(MODEL, "1")

        client.load_model(MODEL)
        np.testing.assert_array_equal(logits(client), of_disk)
        assert index(client) == {"1": ""}
    assert sorted(path.name for path in (one_model / MODEL).iterdir()) == sorted(
        path.name for path in (DEMO / MODEL).iterdir()
    )


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_row_75_a_limit_of_file_sizes_refuses_weights_and_ends_nothing(
    start_server, one_model, protocol: str
) -> None:
    """The server writes no file, so an operator may forbid it; what it writes to memory counts too."""
    server = start_server(
        *("--model-repository", one_model, "--model-control-mode", "explicit"),
        *("--load-model", MODEL),
        program=("prlimit", "--fsize=65536", SERVER),
    )
    with connect(server, protocol) as client:
        before = logits(client)
        with pytest.raises(InferenceServerException, match="no room"):
            client.load_model(
                MODEL, config="{}", files={"file:7/model.safetensors": bytes(100_000)}
            )
        np.testing.assert_array_equal(logits(client), before)
    assert server.terminate() == 0
