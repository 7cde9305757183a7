"""Rows 83 and 84 of docs/faults.md: comparisons that cannot be made, and what they may do to a server that serves."""

from __future__ import annotations

import pathlib
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from fault_support import expect, refusal_of, wait_until
from http_caller import lines_of
from running_experiments import (
    HOUR_US,
    WAIT_SECONDS,
    expect_answers,
    in_threads,
    join_all,
    until_measuring,
)
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import comparison_pb2
from google.protobuf import json_format

PICTURE = next((ROOT / "client/examples").glob("*.jpg")).read_bytes()


OWN, KNN = ("shapes", ""), ("shapes", "knn:k=9")
Ask = Callable[..., Iterator[Any]]


def over_grpc(server: Server, *variants: tuple[str, str], image=PICTURE, **numbers):
    """Progress and the comparison, as they come."""
    request = comparison_pb2.CompareRequest(
        variants=[{"model_name": m, "attention": a} for m, a in variants],
        images=[image],
        **{"rounds": 2, "max_rounds": 2} | numbers,
    )
    with grpc.insecure_channel(server.grpc) as channel:
        compare = channel.unary_stream(
            "/fovea.v1.ComparisonService/Compare",
            response_deserializer=comparison_pb2.CompareResponse.FromString,
        )
        for update in compare(request.SerializeToString(), timeout=240):
            yield getattr(update, update.WhichOneof("update"))


def over_http(server: Server, *variants: tuple[str, str], image=PICTURE, **numbers):
    """The same; each model with each attention, as the path has them."""
    models = dict.fromkeys(model for model, _ in variants)
    attentions = dict.fromkeys(attention for _, attention in variants if attention)
    query = [("model", model) for model in models]
    query += [("attention", attention) for attention in attentions]
    query += list(({"rounds": 2, "max_rounds": 2} | numbers).items())
    request = urllib.request.Request(
        f"http://{server.http}/v1/compare?{urllib.parse.urlencode(query)}", image
    )
    for update in lines_of(request, timeout=240):
        kind = (
            comparison_pb2.Comparison
            if "comparison" in update
            else comparison_pb2.ComparisonProgress
        )
        yield json_format.ParseDict(next(iter(update.values())), kind())


@pytest.fixture(params=[over_grpc, over_http], ids=["grpc", "http"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param


def refusal(ask: Ask, *arguments, **options) -> grpc.RpcError:
    return refusal_of(lambda: list(ask(*arguments, **options)))


def test_row_83_what_cannot_be_compared_is_said(
    ask: Ask, start_server, one_model: pathlib.Path
) -> None:
    server = start_server(
        *("--model-repository", DEMO, "--model-control-mode", "explicit"),
        *("--load-model", "shapes", "--load-model", "detector_dense"),
        "--enable-experiments",
    )

    def said(*variants, **options) -> grpc.RpcError:
        return refusal(ask, server, *variants, **options)

    expect(said(OWN, KNN, rounds=100_000), "INVALID_ARGUMENT", "compare.bad_request")
    expect(said(OWN, KNN, rounds=-1), "INVALID_ARGUMENT", "compare.bad_request")
    expect(said(OWN, KNN, batch_size=65), "INVALID_ARGUMENT", "compare.bad_request")
    expect(said(OWN, KNN, threads=1000), "INVALID_ARGUMENT", "compare.bad_request")
    expect(said(OWN, KNN, image=b"no picture"), "INVALID_ARGUMENT", "image.")
    expect(said(OWN, KNN, image=PICTURE[:500]), "INVALID_ARGUMENT", "image.")
    expect(said(OWN, ("shapes", "axial")), "FAILED_PRECONDITION", "model.load_failed")
    expect(said(OWN, ("shapes", "k?nn")), "FAILED_PRECONDITION", "model.load_failed")
    expect(said(OWN, ("nobody", "")), "NOT_FOUND", "model.")
    expect(said(OWN, ("detector_dense", "")), "INVALID_ARGUMENT", "compare.other_task")
    plain = start_server("--model-repository", one_model)
    expect(refusal(ask, plain, OWN, KNN), "UNIMPLEMENTED", "compare.disabled")


def test_row_84_comparisons_are_bounded_and_requests_go_on(
    ask: Ask, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    running = ask(
        server,
        *(OWN, KNN),
        rounds=10_000,
        max_rounds=10_000,
        batch_size=64,
        max_time_us=HOUR_US,
    )
    assert until_measuring(running) > 4 * WAIT_SECONDS
    ended: list[object] = []

    def wait_in_line() -> None:
        try:
            ended.append(list(ask(server, OWN, KNN))[-1])
        except grpc.RpcError as error:
            ended.append(error)

    # One runs, four wait; of three more each is refused at once, whoever comes first.
    waiting = in_threads(7, wait_in_line)
    wait_until(lambda: len(ended) == 3, WAIT_SECONDS)
    for error in ended:
        expect(error, "UNAVAILABLE", "compare.busy")
    expect_answers(server, PICTURE)
    assert next(running).phase == comparison_pb2.ComparisonProgress.MEASURING
    assert len(ended) == 3
    # Who goes makes room: for all four.
    running.close()
    join_all(waiting, WAIT_SECONDS)
    assert [one.rounds for one in ended[3:]] == [2] * 4


def test_row_84_variants_hold_no_more_than_they_may(
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
        *("--experiment-memory", "16"),
    )
    error = refusal(ask, server, ("large", ""), ("large", "knn:k=9"))
    expect(error, "RESOURCE_EXHAUSTED", "compare.too_large")


def test_row_83_messages_of_empty_entries_are_refused_unread(
    start_server, one_model: pathlib.Path
) -> None:
    """Protobuf makes hundreds of bytes of each of their two."""
    server = start_server("--model-repository", one_model, "--enable-experiments")
    before = server.peak_resident_bytes()
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_stream("/fovea.v1.ComparisonService/Compare")
        for entry, code, reason in (
            (b"\x0a\x00", "INVALID_ARGUMENT", "compare.bad_request"),  # variants
            (b"\x12\x00", "INVALID_ARGUMENT", "compare.bad_request"),  # images
            (b"\x1a\x00", "RESOURCE_EXHAUSTED", "request.header_too_large"),  # ids
        ):
            message = entry * ((4 << 20) // len(entry))
            error = refusal_of(lambda message=message: list(call(message, timeout=60)))
            expect(error, code, reason)
    assert server.peak_resident_bytes() < before + (64 << 20)
