"""Rows 89 and 90 of docs/faults.md: live comparisons that cannot be, and what they may do to a server that serves."""

from __future__ import annotations

import json
import pathlib
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import grpc
import pytest
from fault_support import expect, image_request, picture, refusal_of
from google.protobuf import json_format
from http_caller import HttpCaller, HttpRefusal
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import experiment_pb2

Ask = Callable[..., object]
ANSWERS = {
    "Start": experiment_pb2.Experiment,
    "Get": experiment_pb2.Experiment,
    "Stop": experiment_pb2.Experiment,
    "Delete": experiment_pb2.DeleteExperimentResponse,
}


def plan(**fields) -> dict:
    arms = [
        {"variant": {"model_name": "shapes"}, "weight": 1},
        {"variant": {"model_name": "shapes_knn"}, "weight": 1},
    ]
    return {"name": "trial", "model_name": "shapes", "arms": arms} | fields


def over_grpc(server: Server, call: str, what: dict | str) -> object:
    """`what`: a plan, or a name."""
    if call == "Start":
        message = json_format.ParseDict(what, experiment_pb2.ExperimentPlan())
        request = experiment_pb2.StartExperimentRequest(plan=message)
    else:
        request = getattr(experiment_pb2, f"{call}ExperimentRequest")(name=what)
    with grpc.insecure_channel(server.grpc) as channel:
        method = channel.unary_unary(
            f"/fovea.v1.ExperimentService/{call}Experiment",
            response_deserializer=ANSWERS[call].FromString,
        )
        return method(request.SerializeToString(), timeout=60)


def over_http(server: Server, call: str, what: dict | str | bytes) -> object:
    method, path, body = {
        "Start": ("POST", "", what),
        "Get": ("GET", f"/{what}", None),
        "Stop": ("POST", f"/{what}/stop", None),
        "Delete": ("DELETE", f"/{what}", None),
    }[call]
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{server.http}/v1/experiments{path}", body, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise HttpRefusal(error.code, error.headers, error.read()) from None


@pytest.fixture(params=[over_grpc, over_http], ids=["grpc", "http"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ["--model-repository", str(DEMO), "--model-control-mode", "explicit"]
    for name in ("shapes", "shapes_knn", "detector_dense"):
        flags += ["--load-model", name]
    running = Server(
        tmp_path_factory.mktemp("live") / "log", *flags, "--enable-experiments"
    )
    yield running
    assert running.terminate() == 0


def arms(*more: dict) -> list[dict]:
    return plan()["arms"][:1] + list(more)


KNN = {"variant": {"model_name": "shapes_knn"}, "weight": 1}
BAD_PLANS = {
    "no name": plan(name=""),
    "a name of other characters": plan(name="a/b"),
    "a long name": plan(name="a" * 65),
    "no model": plan(model_name=""),
    "a long name of a model": plan(model_name="m" * 200),
    "one arm": plan(arms=arms()),
    "nine arms": plan(arms=arms(*[KNN] * 8)),
    "two that are the same": plan(arms=arms(KNN, KNN)),
    "a weight below zero": plan(arms=arms(KNN | {"weight": -1})),
    "an infinite weight": plan(arms=arms(KNN | {"weight": "Infinity"})),
    "a weight that is no number": plan(arms=arms(KNN | {"weight": "NaN"})),
    "an arm that gets nothing": plan(arms=arms(KNN | {"weight": 0})),
    "another model as the baseline": plan(arms=[KNN, plan()["arms"][0]]),
    "a ratio below one": plan(guard_rails={"max_latency_ratio": 0.5}),
    "a share above one": plan(guard_rails={"max_disagreement": 2}),
    "too long": plan(guard_rails={"max_seconds": 10**12}),
    "half of the device and more": plan(guard_rails={"max_shadow_share": 0.9}),
    "an error that is no probability": plan(error_probability=-0.1),
    "a margin that is none": plan(latency_margin=1.5),
}


def test_row_89_what_cannot_be_is_said(ask: Ask, live: Server, start_server) -> None:
    def said(call: str, what: dict | str) -> grpc.RpcError:
        return refusal_of(lambda: ask(live, call, what))

    for what, bad in BAD_PLANS.items():
        try:
            expect(said("Start", bad), "INVALID_ARGUMENT", "experiment.bad_plan")
        except AssertionError as error:
            raise AssertionError(what) from error
    other = {"variant": {"model_name": "detector_dense"}, "weight": 1}
    expect(
        said("Start", plan(arms=arms(other))),
        "INVALID_ARGUMENT",
        "experiment.other_kind",
    )
    nobody = {"variant": {"model_name": "nobody"}, "weight": 1}
    expect(said("Start", plan(arms=arms(nobody))), "NOT_FOUND", "model.")
    for attention in ("axial", "k?nn"):
        unfit = {
            "variant": {"model_name": "shapes", "attention": attention},
            "weight": 1,
        }
        expect(
            said("Start", plan(arms=arms(unfit))),
            "FAILED_PRECONDITION",
            "model.load_failed",
        )
    long = {"variant": {"model_name": "shapes", "attention": "k" * 2000}, "weight": 1}
    expect(
        said("Start", plan(arms=arms(long))), "INVALID_ARGUMENT", "experiment.bad_plan"
    )
    expect(
        said("Start", plan(name="n" * 20_000)),
        "RESOURCE_EXHAUSTED",
        "request.too_large",
    )
    for call in ("Get", "Stop", "Delete"):
        expect(said(call, "nobody"), "NOT_FOUND", "experiment.not_found")
    ask(live, "Start", plan())
    try:
        expect(said("Start", plan()), "ALREADY_EXISTS", "experiment.exists")
        expect(
            said("Start", plan(name="b")), "ALREADY_EXISTS", "experiment.model_taken"
        )
        expect(said("Delete", "trial"), "FAILED_PRECONDITION", "experiment.running")
    finally:
        ask(live, "Stop", "trial")
        ask(live, "Delete", "trial")


def test_row_89_a_server_without_experiments_says_so(
    ask: Ask, start_server, one_model: pathlib.Path
) -> None:
    server = start_server("--model-repository", one_model)
    for call, what in (("Start", plan()), ("Get", "a"), ("Stop", "a"), ("Delete", "a")):
        error = refusal_of(lambda call=call, what=what: ask(server, call, what))
        expect(error, "UNIMPLEMENTED", "experiment.disabled")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # What says nothing is a plan of nothing; protobuf's parser takes lists of nothing for that too.
        (b"", "experiment.bad_plan"),
        (b'{"arms": ' + b"[" * 5000 + b"]" * 5000 + b"}", "request.json"),
        (b"{", "request.json"),
        (b"[]", "request.json"),
        (b'{"name": 1}', "request.json"),
        (b'{"nobody": 1}', "request.json"),
        (b'{"name": "a", "name": "b"}', "request.json"),
        (b'{"name": "\xff"}', "request.json"),
        (b'{"guard_rails": ' * 900 + b"1" + b"}" * 900, "request.json"),
    ],
    ids=lambda value: (
        value[:20].decode(errors="replace") if isinstance(value, bytes) else value
    ),
)
def test_row_89_a_body_that_is_no_plan_is_refused(
    body: bytes, reason: str, live: Server
) -> None:
    error = refusal_of(lambda: over_http(live, "Start", body))
    expect(error, "INVALID_ARGUMENT", reason)


def test_row_89_a_key_that_is_too_long_is_refused(live: Server) -> None:
    key = "k" * 300
    http_caller = HttpCaller(live.http)
    error = http_caller.refused_call(
        "POST", "/v1/classify?model=shapes", picture(), fovea_experiment_key=key
    )
    expect(error, "INVALID_ARGUMENT", "experiment.key")
    with grpc.insecure_channel(live.grpc) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        image = image_request(picture()).SerializeToString()
        infer(image, metadata=(("fovea-experiment-key", key[:256]),), timeout=60)
        error = refusal_of(
            lambda: infer(image, metadata=(("fovea-experiment-key", key),), timeout=60)
        )
    expect(error, "INVALID_ARGUMENT", "experiment.key")


def test_row_89_too_many_are_refused(ask: Ask, start_server, tmp_path) -> None:
    """Nine models of random weights, each of which may have one."""
    spec = (
        'spec_version: 1\nbackbone: "vit_demo_patch8_64"\nnum_classes: 3\n'
        "random_weights { seed: 1 }\nmax_batch_size: 1\n"
    )
    for number in range(9):
        folder = tmp_path / "models" / f"m{number}"
        (folder / "1").mkdir(parents=True)
        (folder / "model.textproto").write_text(spec)
    server = start_server(
        "--model-repository", tmp_path / "models", "--enable-experiments"
    )
    for number in range(9):
        model, other = f"m{number}", f"m{(number + 1) % 9}"
        started = plan(
            name=f"e{number}",
            model_name=model,
            arms=[
                {"variant": {"model_name": name}, "weight": 1}
                for name in (model, other)
            ],
        )
        if number < 8:
            ask(server, "Start", started)
    error = refusal_of(lambda: ask(server, "Start", started))
    expect(error, "RESOURCE_EXHAUSTED", "experiment.too_many")
    ask(server, "Stop", "e0")
    ask(server, "Start", started)
