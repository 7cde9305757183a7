"""Rows 87 and 88 of docs/faults.md: sweeps that cannot be made, and what they may do to a server that serves."""

from __future__ import annotations

import pathlib
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from fault_support import expect, refusal_of
from http_caller import lines_of
from running_experiments import (
    HOUR_US,
    WAIT_SECONDS,
    expect_answers,
    in_threads,
    join_all,
    until_measuring,
)
from running_server import ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import comparison_pb2
from google.protobuf import json_format

PICTURE = next((ROOT / "client/examples").glob("*.jpg")).read_bytes()

Ask = Callable[..., Iterator[Any]]
ASKED = {
    "model": "shapes",
    "attention": "",
    "over": "BATCH",
    "values": ["1", "2"],
    "rounds": 2,
}


def over_grpc(server: Server, image: bytes = b"", **options):
    """Progress and the sweep, as they come."""
    asked = ASKED | options
    request = comparison_pb2.SweepRequest(
        variants=[
            {"model_name": asked.pop("model"), "attention": asked.pop("attention")}
        ],
        image=image,
        **asked,
    )
    with grpc.insecure_channel(server.grpc) as channel:
        sweep = channel.unary_stream(
            "/fovea.v1.ComparisonService/Sweep",
            response_deserializer=comparison_pb2.SweepResponse.FromString,
        )
        for update in sweep(request.SerializeToString(), timeout=240):
            yield getattr(update, update.WhichOneof("update"))


def over_http(server: Server, image: bytes = b"", **options):
    """The same."""
    asked = ASKED | options
    asked["values"] = ",".join(asked["values"])
    query = urllib.parse.urlencode(
        [(name, value) for name, value in asked.items() if value != ""]
    )
    request = urllib.request.Request(
        f"http://{server.http}/v1/sweep?{query}", image, method="POST"
    )
    for update in lines_of(request, timeout=240):
        kind = (
            comparison_pb2.Sweep
            if "sweep" in update
            else comparison_pb2.ComparisonProgress
        )
        yield json_format.ParseDict(next(iter(update.values())), kind())


@pytest.fixture(params=[over_grpc, over_http], ids=["grpc", "http"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param


def refusal(ask: Ask, *arguments, **options) -> grpc.RpcError:
    return refusal_of(lambda: list(ask(*arguments, **options)))


def test_row_87_what_cannot_be_swept_is_said(
    ask: Ask, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")

    def said(**options) -> grpc.RpcError:
        return refusal(ask, server, **options)

    many = [str(one) for one in range(1, 34)]
    expect(said(values=many), "INVALID_ARGUMENT", "sweep.bad_request")
    expect(said(rounds=1001), "INVALID_ARGUMENT", "sweep.bad_request")
    expect(said(rounds=-1), "INVALID_ARGUMENT", "sweep.bad_request")
    expect(said(batch_size=65), "INVALID_ARGUMENT", "sweep.bad_request")
    expect(said(threads=1000), "INVALID_ARGUMENT", "sweep.bad_request")
    expect(said(over="AXIS_UNSPECIFIED"), "INVALID_ARGUMENT", "sweep.bad_request")
    expect(said(values=["65"]), "INVALID_ARGUMENT", "sweep.bad_value")
    expect(said(values=["2", "2"]), "INVALID_ARGUMENT", "sweep.bad_value")
    expect(
        said(over="RESOLUTION", values=["4096"]), "INVALID_ARGUMENT", "sweep.bad_value"
    )
    expect(said(over="K", values=["9", "0.5"]), "INVALID_ARGUMENT", "sweep.bad_value")
    expect(
        said(over="K", values=["9"], attention="knn:k=3"),
        "INVALID_ARGUMENT",
        "sweep.bad_attention",
    )
    expect(said(image=b"no picture"), "INVALID_ARGUMENT", "image.")
    expect(said(model="nobody"), "NOT_FOUND", "model.")
    plain = start_server("--model-repository", one_model)
    expect(refusal(ask, plain), "UNIMPLEMENTED", "sweep.disabled")


def test_row_87_points_that_cannot_be_built_do_not_end_the_others(
    ask: Ask, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    *_, sweep = ask(server, over="K", values=["3", "9", "5000"])
    points = sweep.curves[0].points
    assert [bool(one.failure) for one in points] == [False, False, True]
    assert "5000" in points[2].failure
    assert points[1].compute_ms.median > 0 and not points[2].HasField("compute_ms")


def test_row_88_requests_are_answered_beside_a_sweep(
    ask: Ask, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    running = ask(
        server,
        over="RESOLUTION",
        values=["64", "128"],
        batch_size=64,
        rounds=1000,
        max_time_us=HOUR_US,
    )
    assert until_measuring(running) > 4 * WAIT_SECONDS
    ended: list[Any] = []

    def wait_in_line() -> None:
        ended.append(list(ask(server))[-1])

    waiting = in_threads(1, wait_in_line)
    expect_answers(server, PICTURE)
    assert next(running).phase == comparison_pb2.ComparisonProgress.MEASURING
    assert not ended
    # Who goes makes room.
    running.close()
    join_all(waiting, WAIT_SECONDS)
    assert ended[0].rounds == 2


def test_row_88_points_are_bounded(
    ask: Ask, start_server, tmp_path: pathlib.Path
) -> None:
    model = tmp_path / "models/large"
    model.mkdir(parents=True)
    (model / "model.textproto").write_text(
        'spec_version: 1\nbackbone: "vit_tiny_patch16_224"\nnum_classes: 5\n'
        "random_weights { seed: 1 }\n"
    )
    server = start_server(
        *("--model-repository", tmp_path / "models", "--enable-experiments"),
        *("--experiment-memory", "64"),
    )
    *_, sweep = ask(server, model="large", values=["1", "2", "4", "8"], rounds=1)
    failures = [one.failure for one in sweep.curves[0].points]
    assert failures[0] == "" and "--experiment-memory" in failures[-1]
    *_, sweep = ask(
        server, model="large", over="RESOLUTION", values=["2048"], batch_size=64
    )
    assert "pixels" in sweep.curves[0].points[0].failure
    assert sweep.rounds == 0


def test_row_87_messages_of_empty_entries_are_refused_unread(
    start_server, one_model: pathlib.Path
) -> None:
    """Protobuf makes hundreds of bytes of each of their two."""
    server = start_server("--model-repository", one_model, "--enable-experiments")
    before = server.peak_resident_bytes()
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_stream("/fovea.v1.ComparisonService/Sweep")
        for entry, code, reason in (
            (b"\x0a\x00", "INVALID_ARGUMENT", "sweep.bad_request"),  # variants
            (b"\x1a\x00", "INVALID_ARGUMENT", "sweep.bad_request"),  # values
            (b"\x2a\x00", "RESOURCE_EXHAUSTED", "request.header_too_large"),  # ids
        ):
            message = entry * ((4 << 20) // len(entry))
            error = refusal_of(lambda message=message: list(call(message, timeout=60)))
            expect(error, code, reason)
    assert server.peak_resident_bytes() < before + (64 << 20)
