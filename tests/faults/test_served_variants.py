"""Rows 91 and 92 of docs/faults.md: variants that cannot be served, and what serving them may do to a server."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
from fault_support import Caller, expect, infer_request, wait_until
from http_caller import HttpRefusal, lines
from running_server import ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import comparison_pb2

KNN, OTHER = ("shapes", "knn:k=9"), ("shapes", "knn:k=20")
NAME = "variant.shapes.1.knn-k-9"
Serve = Callable[..., contextlib.AbstractContextManager[list[str]]]


@contextlib.contextmanager
def over_grpc(
    server: Server, *variants: tuple[str, str], to_the_end: bool = False
) -> Iterator[list[str]]:
    """The names under which they are served meanwhile. Then it goes, or, `to_the_end`, listens to how the server ends it."""
    request = comparison_pb2.ServeRequest(
        variants=[{"model_name": m, "attention": a} for m, a in variants]
    )
    with grpc.insecure_channel(server.grpc) as channel:
        serve = channel.unary_stream(
            "/fovea.v1.ComparisonService/Serve",
            response_deserializer=comparison_pb2.ServeResponse.FromString,
        )
        call = serve(request.SerializeToString(), timeout=120)
        for update in call:
            if update.WhichOneof("update") == "served":
                yield [one.served_as for one in update.served.variants]
                break
        if not to_the_end:
            call.cancel()
            return
        for _ in call:
            pass


@contextlib.contextmanager
def over_http(
    server: Server, *variants: tuple[str, str], to_the_end: bool = False
) -> Iterator[list[str]]:
    query = [("variant", f"{m}:{a}" if a else m) for m, a in variants]
    request = urllib.request.Request(
        f"http://{server.http}/v1/serve?{urllib.parse.urlencode(query)}", method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            updates = lines(answer)
            for update in updates:
                if "served" in update:
                    yield [one["served_as"] for one in update["served"]["variants"]]
                    break
            if to_the_end:
                for _ in updates:
                    pass
    except urllib.error.HTTPError as error:
        raise HttpRefusal(error.code, error.headers, error.read()) from None


@pytest.fixture(params=[over_grpc, over_http], ids=["grpc", "http"])
def serve(request: pytest.FixtureRequest) -> Serve:
    return request.param


def check_refused(
    serve: Serve, server: Server, *variants: tuple[str, str], code: str, reason: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught, serve(server, *variants):
        pass
    expect(caught.value, code, reason)


def metrics_of(server: Server, name: str) -> list[str]:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as answer:
        text = answer.read().decode()
    return [line for line in text.splitlines() if f'model="{name}"' in line]


def index_of(server: Server) -> dict[str, str]:
    request = urllib.request.Request(
        f"http://{server.http}/v2/repository/index", method="POST"
    )
    with urllib.request.urlopen(request) as answer:
        rows = json.load(answer)
    return {row["name"]: row.get("reason", "") for row in rows if row["state"]}


def test_row_91_what_cannot_be_served_is_said(
    serve: Serve, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    for variant, code, reason in (
        (("shapes", "axial"), "FAILED_PRECONDITION", "model.load_failed"),
        (("shapes", "ska"), "FAILED_PRECONDITION", "model.load_failed"),
        (("shapes", "k?nn"), "FAILED_PRECONDITION", "model.load_failed"),
        (("nobody", "knn:k=9"), "NOT_FOUND", "model."),
        (("shapes", "x" * 2000), "INVALID_ARGUMENT", "serve.bad_request"),
        ((NAME, "dense"), "NOT_FOUND", "model."),
    ):
        check_refused(serve, server, variant, code=code, reason=reason)
    check_refused(serve, server, code="INVALID_ARGUMENT", reason="serve.bad_request")
    with pytest.raises(grpc.RpcError), serve(server, KNN, ("shapes", "axial")):
        pass
    wait_until(lambda: NAME not in index_of(server))
    if serve is over_grpc:  # a query is shorter
        long = [("shapes", "x" * 1000)] * 20
        check_refused(
            serve, server, *long, code="RESOURCE_EXHAUSTED", reason="request."
        )
    plain = start_server("--model-repository", one_model)
    check_refused(serve, plain, KNN, code="UNIMPLEMENTED", reason="serve.disabled")


def test_row_91_no_folder_stands_in_for_a_variant(
    start_server, one_model: pathlib.Path
) -> None:
    (one_model / NAME).symlink_to(one_model / "shapes")
    server = start_server("--model-repository", one_model, "--enable-experiments")
    assert NAME not in index_of(server)
    caller = Caller(server.grpc)
    with pytest.raises(grpc.RpcError) as caught:
        caller.infer(infer_request(model=NAME))
    expect(caught.value, "NOT_FOUND", "model.not_found")
    with over_grpc(server, KNN) as names:
        assert names == [NAME]
        caller.infer(infer_request(model=NAME))
    caller.close()


def test_a_variant_is_a_model_for_as_long_as_the_call_is_open(
    serve: Serve, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    caller = Caller(server.grpc)
    own = caller.infer(infer_request())
    with serve(server, ("shapes", ""), KNN) as names:
        assert names == ["shapes", NAME]
        other = caller.infer(infer_request(model=NAME))
        assert not np.array_equal(own, other)
        assert "same weights as dense, not fine-tuned" in index_of(server)[NAME]
        assert any(
            line.startswith("fovea_requests_total") and line.endswith(" 1")
            for line in metrics_of(server, NAME)
        )
        with urllib.request.urlopen(
            f"http://{server.http}/v2/models/{NAME}"
        ) as metadata:
            assert json.load(metadata)["name"] == NAME
        with urllib.request.urlopen(
            f"http://{server.http}/v2/models/{NAME}/stats"
        ) as statistics:
            (counted,) = json.load(statistics)["model_stats"]
            assert (counted["name"], counted["inference_count"]) == (NAME, 1)
    # It goes, with its series, and the model stays.
    wait_until(lambda: NAME not in index_of(server))
    wait_until(lambda: metrics_of(server, NAME) == [])
    with pytest.raises(grpc.RpcError) as caught:
        caller.infer(infer_request(model=NAME))
    expect(caught.value, "NOT_FOUND", "model.not_found")
    np.testing.assert_array_equal(caller.infer(infer_request()), own)
    caller.close()


def test_row_92_variants_are_bounded_and_requests_go_on(
    serve: Serve, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    caller = Caller(server.grpc)
    variants = [("shapes", f"knn:k={k}") for k in range(2, 10)]
    with serve(server, *variants):
        check_refused(serve, server, OTHER, code="UNAVAILABLE", reason="serve.busy")
        with serve(server, KNN) as shared:  # it is one of them
            assert shared == [NAME]
        caller.infer(infer_request(model=NAME))
        caller.infer(infer_request())
    # Who goes makes room, as soon as the requests under way are done.
    wait_until(lambda: NAME not in index_of(server))
    with serve(server, OTHER) as names:
        caller.infer(infer_request(model=names[0]))
    caller.close()


def test_row_92_variants_hold_no_more_than_they_may(
    serve: Serve, start_server, tmp_path: pathlib.Path
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
    check_refused(
        serve,
        server,
        ("large", "knn:k=9"),
        code="RESOURCE_EXHAUSTED",
        reason="serve.too_large",
    )


def test_row_92_a_stop_ends_the_calls(
    serve: Serve, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model, "--enable-experiments")
    code = None
    with (
        pytest.raises(grpc.RpcError) as caught,
        serve(server, KNN, to_the_end=True) as names,
    ):
        assert names == [NAME]
        code = server.terminate()
    assert code == 0, "it was not served, or the server did not end well"
    expect(caught.value, "UNAVAILABLE", "server.draining")
