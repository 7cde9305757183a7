"""Rows 85 and 86 of docs/faults.md: explanations that cannot be made, and what they may do to a server that serves."""

from __future__ import annotations

import pathlib
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import grpc
import pytest
from fault_support import expect, refusal_of, wait_until
from http_caller import HttpRefusal
from running_experiments import expect_answers, in_threads, join_all
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import comparison_pb2

PICTURE = next((ROOT / "client/examples").glob("*.jpg")).read_bytes()
Ask = Callable[..., int]


def over_grpc(server: Server, image=PICTURE, **fields) -> int:
    """How many maps came."""
    fields = {"model_name": "shapes", "methods": ["MAPS"]} | fields
    request = comparison_pb2.ExplainRequest(image=image, **fields)
    options = [("grpc.max_receive_message_length", 64 << 20)]
    with grpc.insecure_channel(server.grpc, options) as channel:
        explain = channel.unary_unary(
            "/fovea.v1.ComparisonService/Explain",
            response_deserializer=comparison_pb2.Explanation.FromString,
        )
        return len(explain(request.SerializeToString(), timeout=120).maps)


def over_http(server: Server, image=PICTURE, **fields) -> int:
    fields = {"model_name": "shapes", "methods": ["MAPS"]} | fields
    query = {
        {"methods": "method", "layers": "layer", "heads": "head"}.get(name, name): value
        for name, value in fields.items()
    }
    query["model"] = query.pop("model_name")
    url = f"http://{server.http}/v1/explain?" + urllib.parse.urlencode(
        query, doseq=True
    )
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, image), timeout=120
        ) as got:
            return got.read().count(b'"png":"')
    except urllib.error.HTTPError as error:
        raise HttpRefusal(error.code, error.headers, error.read()) from None


@pytest.fixture(params=[over_grpc, over_http], ids=["grpc", "http"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param


def refusal(ask: Ask, *arguments, **options) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        ask(*arguments, **options)
    return caught.value


def test_row_85_what_cannot_be_explained_is_said(
    ask: Ask, start_server, tmp_path: pathlib.Path
) -> None:
    models = tmp_path / "models"
    for name in ("shapes", "frame_conv"):
        shutil.copytree(DEMO / name, models / name)
    server = start_server("--model-repository", models, "--enable-experiments")

    def said(**options) -> grpc.RpcError:
        return refusal(ask, server, **options)

    expect(said(methods=[]), "INVALID_ARGUMENT", "explain.bad_request")
    expect(said(layers=[-1]), "INVALID_ARGUMENT", "explain.bad_request")
    expect(said(layers=[6]), "INVALID_ARGUMENT", "explain.no_layer")
    expect(said(heads=[4]), "INVALID_ARGUMENT", "explain.no_head")
    expect(said(x=5.0), "INVALID_ARGUMENT", "explain.bad_request")
    expect(said(x=-5.0, y=3.0), "INVALID_ARGUMENT", "explain.no_place")
    expect(said(x=float("nan"), y=3.0), "INVALID_ARGUMENT", "explain.no_place")
    expect(
        said(methods=["ATTRIBUTION"], target_class=10),
        "INVALID_ARGUMENT",
        "explain.no_class",
    )
    expect(
        said(layers=[0] * 65, every_head=True), "INVALID_ARGUMENT", "explain.too_many"
    )
    expect(said(image=b"no picture"), "INVALID_ARGUMENT", "image.")
    expect(said(image=PICTURE[:500]), "INVALID_ARGUMENT", "image.")
    expect(said(model_name="nobody"), "NOT_FOUND", "model.")
    expect(said(attention="axial"), "FAILED_PRECONDITION", "model.load_failed")
    expect(
        said(model_name="frame_conv", methods=["ROLLOUT"]),
        "FAILED_PRECONDITION",
        "explain.unfit",
    )
    assert ask(server) == 6
    plain = start_server("--model-repository", models)
    expect(refusal(ask, plain), "UNIMPLEMENTED", "explain.disabled")


def test_row_86_explanations_are_bounded_and_requests_go_on(
    ask: Ask, start_server, one_model: pathlib.Path, hanging_disk
) -> None:
    environment, hang = hanging_disk
    server = start_server(
        *("--model-repository", one_model, "--enable-experiments"),
        environment=environment,
    )
    ended: list[object] = []

    def explain() -> None:
        try:
            ended.append(ask(server, every_head=True))
        except grpc.RpcError as error:
            ended.append(error)

    # The one that runs reads its weights until the disk answers again. Eight wait; of three more each is refused,
    # whoever comes first.
    hang.touch()
    asking = in_threads(1, explain)
    wait_until(lambda: hang.read_text() == "hangs")
    asking += in_threads(11, explain)
    wait_until(lambda: len(ended) == 3)
    for error in ended:
        expect(error, "UNAVAILABLE", "explain.busy")
    expect_answers(server, PICTURE)
    assert len(ended) == 3
    hang.unlink()
    expect_answers(server, PICTURE)
    join_all(asking, 120)
    assert ended[3:] == [24] * 9


def test_row_86_maps_hold_no_more_than_they_may(
    ask: Ask, start_server, tmp_path: pathlib.Path
) -> None:
    model = tmp_path / "models/large"
    model.mkdir(parents=True)
    (model / "model.textproto").write_text(
        'spec_version: 1\nbackbone: "vit_tiny_patch16_224"\nnum_classes: 5\n'
        "image_height: 512 image_width: 512 random_weights { seed: 1 }\n"
    )
    server = start_server(
        *("--model-repository", tmp_path / "models", "--enable-experiments"),
        *("--experiment-memory", "96"),
    )
    before = server.peak_resident_bytes()
    error = refusal(ask, server, model_name="large")
    expect(error, "RESOURCE_EXHAUSTED", "explain.too_large")
    assert "3 heads over 32x32 and 1 tokens" in error.details()
    assert server.peak_resident_bytes() < before + (96 << 20)


def test_row_85_messages_of_empty_entries_are_refused_unread(
    start_server, one_model: pathlib.Path
) -> None:
    """Protobuf makes hundreds of bytes of each of their two."""
    server = start_server("--model-repository", one_model, "--enable-experiments")
    before = server.peak_resident_bytes()
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/fovea.v1.ComparisonService/Explain")
        for entry in (b"\x30\x01", b"\x42\x02\x01\x01"):  # methods; heads, packed
            message = entry * ((4 << 20) // len(entry))
            error = refusal_of(lambda message=message: call(message, timeout=60))
            expect(error, "RESOURCE_EXHAUSTED", "request.header_too_large")
    assert server.peak_resident_bytes() < before + (64 << 20)
