"""docs/faults.md, row 67: priorities and queue policies under a flood, over both protocols."""

from __future__ import annotations

import collections
import json
import pathlib
import urllib.error
import urllib.request

import grpc
import pytest
from fault_support import (
    SERVICE,
    Caller,
    expect,
    gauge,
    infer_request,
    scrape,
    wait_until,
    write_in_spec,
)
from running_server import Server

# An idle device waits long for company, so what is sent stays in line until it times out.
LEVELS = """dynamic_batching {
  max_queue_delay_microseconds: 10000000
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { max_queue_size: 4 }
  priority_queue_policy { key: 2 value { default_timeout_microseconds: 100000 max_queue_size: 4 } }
  priority_queue_policy {
    key: 3
    value { timeout_action: DELAY default_timeout_microseconds: 1000 max_queue_size: 4 }
  }
}"""


@pytest.fixture
def levels(start_server, one_model: pathlib.Path) -> Server:
    write_in_spec(one_model, "max_batch_size: 8", " ".join(LEVELS.split()))
    return start_server("--model-repository", one_model)


def with_priority(priority: int):
    request = infer_request()
    request.parameters["priority"].uint64_param = priority
    return request


def ask_http(server: Server, priority: int, timeout: int = 0) -> tuple[int, dict]:
    body = json.dumps(
        {
            "parameters": {"priority": priority, "timeout": timeout},
            "inputs": [
                {
                    "name": "pixel_values",
                    "datatype": "FP32",
                    "shape": [1, 3, 64, 64],
                    "data": [0] * (3 * 64 * 64),
                }
            ],
        }
    ).encode()
    url = f"http://{server.http}/v2/models/shapes/infer"
    try:
        with urllib.request.urlopen(url, body, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_row_67_what_waits_longer_than_its_policy_allows_is_refused(
    levels: Server,
) -> None:
    caller = Caller(levels.grpc)
    expect(caller.refused(with_priority(2)), "DEADLINE_EXCEEDED", "queue.timeout")
    # A level that does not exist stands for the default one.
    expect(caller.refused(with_priority(77)), "DEADLINE_EXCEEDED", "queue.timeout")
    status, answer = ask_http(levels, priority=2)
    assert (status, answer["reason"]) == (504, "queue.timeout")
    status, answer = ask_http(levels, priority=1, timeout=1)  # microsecond
    assert status == 504
    assert answer["reason"] in ("queue.expired", "queue.unreachable_deadline")
    status, answer = ask_http(levels, priority=-1)
    assert (status, answer["reason"]) == (400, "request.parameter")


def test_row_67_a_full_level_refuses_nobody_of_another(levels: Server) -> None:
    caller = Caller(levels.grpc)
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    payload = with_priority(3).SerializeToString()
    flood = [call.future(payload, timeout=120) for _ in range(20)]
    wait_until(lambda: sum(future.done() for future in flood) >= 16)
    expect(caller.refused(with_priority(3)), "UNAVAILABLE", "queue.full")
    status, answer = ask_http(levels, priority=3)
    assert (status, answer["reason"]) == (503, "queue.full")
    # The highest level has places; these four fill the batch, and all that wait are run.
    payload = with_priority(1).SerializeToString()
    others = [call.future(payload, timeout=120) for _ in range(4)]
    assert all(future.code() == grpc.StatusCode.OK for future in others)
    codes = collections.Counter(future.code() for future in flood)
    assert codes == {grpc.StatusCode.OK: 4, grpc.StatusCode.UNAVAILABLE: 16}
    text = scrape(levels.metrics)
    assert (
        gauge(text, r'fovea_priority_rejected_total\{.*priority="3",reason="full".*\}')
        == 18
    )
    assert (
        gauge(text, r'fovea_priority_rejected_total\{.*priority="1",reason="full".*\}')
        == 0
    )
    assert gauge(text, "fovea_queue_delayed_total") == 4
