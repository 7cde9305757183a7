"""Triton's priorities, queue policies and weights between models, as tritonclient sends and reads them over both protocols."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from running_server import Server
from tritonclient.utils import InferenceServerException

MODEL = "levels"
SIDE = 224
# Level 1 hears of no timeout of a request's own, 2 is the default and rejects, 3 delays.
SPEC = """
spec_version: 1
backbone: "deit_tiny_patch16_224"
random_weights { seed: 1 }
max_batch_size: 1
dynamic_batching {
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { timeout_action: REJECT allow_timeout_override: true max_queue_size: 20 }
  priority_queue_policy { key: 1 value { allow_timeout_override: false } }
  priority_queue_policy {
    key: 3
    value { timeout_action: DELAY default_timeout_microseconds: 9000000 max_queue_size: 60 }
  }
}
instance_group { count: 1 rate_limiter { priority: 2 } }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("levels")
    (repository / MODEL / "1").mkdir(parents=True)
    (repository / MODEL / "model.textproto").write_text(SPEC)
    log = tmp_path_factory.mktemp("log") / "server.log"
    running = Server(log, "--model-repository", str(repository))
    yield running
    code = running.terminate()
    running.close()
    assert code == 0


@pytest.fixture(params=["grpc", "http"])
def client(server: Server, request: pytest.FixtureRequest):
    triton = {"grpc": tritonclient.grpc, "http": tritonclient.http}[request.param]
    with triton.InferenceServerClient(getattr(server, request.param)) as client:
        yield client


def pixels(triton) -> list:
    values = np.zeros((1, 3, SIDE, SIDE), dtype=np.float32)
    tensor = triton.InferInput("pixel_values", values.shape, "FP32")
    tensor.set_data_from_numpy(values)
    return [tensor]


def infer(client, **options) -> np.ndarray:
    triton = (
        tritonclient.grpc
        if isinstance(client, tritonclient.grpc.InferenceServerClient)
        else tritonclient.http
    )
    return client.infer(MODEL, pixels(triton), **options).as_numpy("logits")


def test_the_configuration_says_what_the_description_says(server: Server) -> None:
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        config = client.get_model_config(MODEL).config
    batching = config.dynamic_batching
    assert (batching.priority_levels, batching.default_priority_level) == (3, 2)
    policies = [
        batching.default_queue_policy,
        *map(batching.priority_queue_policy.get, (1, 3)),
    ]
    assert [policy.timeout_action for policy in policies] == [0, 0, 1]
    assert [policy.allow_timeout_override for policy in policies] == [True, False, True]
    assert [policy.max_queue_size for policy in policies] == [20, 256, 60]
    assert policies[2].default_timeout_microseconds == 9_000_000
    assert config.instance_group[0].rate_limiter.priority == 2
    with tritonclient.http.InferenceServerClient(server.http) as client:
        told = client.get_model_config(MODEL)
    assert (
        told["dynamic_batching"]["priority_queue_policy"]["3"]["timeout_action"]
        == "DELAY"
    )
    assert not told["dynamic_batching"]["priority_queue_policy"]["1"][
        "allow_timeout_override"
    ]
    assert told["instance_group"][0]["rate_limiter"]["priority"] == 2


@pytest.mark.parametrize("priority", [0, 2, 99], ids=["default", "2", "no such level"])
def test_a_timeout_rejects_where_the_level_says_so(client, priority: int) -> None:
    with pytest.raises(InferenceServerException) as refused:
        infer(client, priority=priority, timeout=1)
    assert refused.value.status() in ("StatusCode.DEADLINE_EXCEEDED", "504")
    assert infer(client, priority=priority, timeout=60_000_000).shape == (1, 1000)


@pytest.mark.parametrize("priority", [1, 3], ids=["not heeded", "delays"])
def test_a_timeout_rejects_nobody_elsewhere(client, priority: int) -> None:
    assert infer(client, priority=priority, timeout=1).shape == (1, 1000)
