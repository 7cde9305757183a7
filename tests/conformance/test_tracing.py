"""Traces and logs of a running server, as operators see them: a collector of spans, and unmodified tritonclient."""

from __future__ import annotations

import http.client
import itertools
import json
import queue
import re
import time
import urllib.error
import urllib.request
import uuid
from collections import defaultdict
from collections.abc import Iterator

import certificates
import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from collector import INTERNAL, SERVER, Collector, Span
from running_server import DEMO, ROOT, Server
from tritonclient.utils import InferenceServerException

MODEL = "shapes"
PICTURE = next((ROOT / "client/examples").glob("*.jpg")).read_bytes()
STAGES = [
    "receive",
    "decode",
    "preprocess",
    "queue",
    "compute",
    "postprocess",
    "encode",
]
ONE_MODEL = (
    "--model-repository",
    str(DEMO),
    "--model-control-mode",
    "explicit",
    "--load-model",
    MODEL,
)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def traced(collector, tmp_path_factory) -> Iterator[Server]:
    """A server that traces nothing by itself, and what its callers trace."""
    server = Server(
        tmp_path_factory.mktemp("traced") / "server.log",
        *ONE_MODEL,
        "--otlp-endpoint",
        collector.endpoint,
        "--trace-sampling",
        "0",
        "--trace-forced-per-second",
        "1000",
        "--access-log",
        "all",
        "--log-format",
        "json",
        environment={
            "OTEL_SERVICE_NAME": "cats",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test,zone=a%2Cb",
        },
    )
    yield server
    assert server.terminate() == 0
    server.close()


def parent(sampled: bool = True) -> tuple[str, str, str]:
    """A trace, a span in it, and the header that tells of both."""
    trace, span = uuid.uuid4().hex, uuid.uuid4().hex[:16]
    return trace, span, f"00-{trace}-{span}-{'01' if sampled else '00'}"


def picture(images: int = 1) -> triton.InferInput:
    tensor = triton.InferInput("image", [images, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[PICTURE]] * images, dtype=np.object_))
    return tensor


def infer(
    server: Server, images: int = 1, **headers: str
) -> tuple[dict, dict[str, str]]:
    """A request over gRPC: its receipt, and what the trailing metadata say."""
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    request = service_pb2.ModelInferRequest(model_name=MODEL, id="one")
    tensor = picture(images)
    request.inputs.append(tensor._get_tensor())
    request.raw_input_contents.append(tensor._get_content())
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        response, call = stub.ModelInfer.with_call(
            request, metadata=list(headers.items()), timeout=60
        )
        trailing = dict(call.trailing_metadata())
    receipt = {name: value.int64_param for name, value in response.parameters.items()}
    return receipt, trailing


def classify(server: Server, **headers: str) -> tuple[dict, dict[str, str]]:
    """A request over HTTP: its answer, and the fields of its head."""
    request = urllib.request.Request(
        f"http://{server.http}/v1/classify?model={MODEL}", PICTURE, headers
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer), {
            name.lower(): value for name, value in answer.headers.items()
        }


def check_children(root: Span, children: list[Span]) -> None:
    """They lie within their parent, in the order of the stages, and leave no time out."""
    children = sorted(children, key=lambda span: (span.start, span.end))
    assert [child.name for child in children if child.name != "queue"] == [
        stage for stage in STAGES if stage != "queue"
    ]
    assert all(child.parent == root.id and child.kind == INTERNAL for child in children)
    assert children[0].start == root.start and children[-1].end <= root.end
    for one, next_one in itertools.pairwise(children):
        assert one.start <= one.end == next_one.start, (one, next_one)
    # What is left is for the answer's way to the wire.
    assert root.end - children[-1].end < 5e9


def by_stage(children: list[Span]) -> dict[str, int]:
    times: dict[str, int] = defaultdict(int)
    for child in children:
        times[child.name] += child.attributes["fovea.receipt_ns"]
    return dict(times)


def test_a_request_over_grpc_is_a_span_with_its_stages(traced, collector):
    trace, span, header = parent()
    receipt, trailing = infer(traced, traceparent=header, tracestate="rojo=1,congo=t61")
    spans = collector.trace(trace)
    (root,) = [one for one in spans if one.kind == SERVER]
    assert root.parent == span and root.remote_parent
    assert root.state == "rojo=1,congo=t61"
    assert trailing["traceparent"] == f"00-{trace}-{root.id}-01"
    assert root.name == "inference.GRPCInferenceService/ModelInfer"
    expected = {
        "rpc.system": "grpc",
        "rpc.service": "inference.GRPCInferenceService",
        "rpc.method": "ModelInfer",
        "rpc.grpc.status_code": 0,
        "fovea.request.id": "one",
        "fovea.model.name": MODEL,
        "fovea.model.version": "1",
        "fovea.batch.size": 1,
    }
    assert expected.items() <= root.attributes.items()
    assert root.attributes["fovea.attention"] and not root.failed
    children = [one for one in spans if one.id != root.id]
    check_children(root, children)
    told = {stage: receipt[f"fovea.{stage}_ns"] for stage in STAGES}
    assert by_stage(children) == told
    # One picture: nothing was done side by side, and each stage's spans take its time.
    for child in children:
        taken = child.end - child.start
        assert abs(taken - child.attributes["fovea.receipt_ns"]) < 50e6 + 0.1 * taken
    assert abs(root.start - time.time_ns()) < 120e9
    assert root.resource["service.name"] == "cats"
    assert root.resource["deployment.environment"] == "test"
    assert root.resource["zone"] == "a,b"


def test_pictures_that_are_decoded_side_by_side_have_spans_of_their_true_times(
    traced, collector
):
    trace, _, header = parent()
    receipt, _ = infer(traced, images=8, traceparent=header)
    spans = collector.trace(trace)
    (root,) = [one for one in spans if one.kind == SERVER]
    children = [one for one in spans if one.id != root.id]
    assert all(root.start <= one.start <= one.end <= root.end for one in children)
    # What the receipt tells is divided between the two; the spans are not.
    assert by_stage(children) == {
        stage: receipt[f"fovea.{stage}_ns"] for stage in STAGES
    }
    (decode,) = [one for one in children if one.name == "decode"]
    (preprocess,) = [one for one in children if one.name == "preprocess"]
    assert decode.start < preprocess.start < decode.end < preprocess.end


def test_a_request_over_http_is_a_span_with_its_stages(traced, collector):
    trace, span, header = parent()
    _, fields = classify(traced, traceparent=header, tracestate="a=b")
    spans = collector.trace(trace)
    (root,) = [one for one in spans if one.kind == SERVER]
    assert root.parent == span and root.state == "a=b"
    assert fields["traceparent"] == f"00-{trace}-{root.id}-01"
    assert root.name == "POST /v1/classify"
    expected = {
        "http.request.method": "POST",
        "http.route": "/v1/classify",
        "url.path": "/v1/classify",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "fovea.model.name": MODEL,
    }
    assert expected.items() <= root.attributes.items()
    children = [one for one in spans if one.id != root.id]
    check_children(root, children)
    told = dict(re.findall(r"(\w+);dur=([\d.]+)", fields["server-timing"]))
    for stage, nanoseconds in by_stage(children).items():
        assert float(told[stage]) == pytest.approx(nanoseconds / 1e6, abs=6e-4)


def test_each_picture_of_a_stream_is_a_child_of_its_call(traced, collector):
    trace, span, header = parent()
    answers: queue.Queue = queue.Queue()
    with triton.InferenceServerClient(traced.grpc) as client:
        client.start_stream(
            lambda result, error: answers.put((result, error)),
            headers={"traceparent": header},
        )
        for _ in range(3):
            client.async_stream_infer(MODEL, [picture()])
        for _ in range(3):
            _, error = answers.get(timeout=60)
            assert error is None, error
        client.stop_stream()
    spans = collector.trace(trace)  # the call's span comes last
    (call,) = [one for one in spans if one.kind == SERVER]
    assert call.parent == span and call.remote_parent
    assert call.attributes["rpc.method"] == "ModelStreamInfer"
    assert call.attributes["fovea.stream.requests"] == 3
    requests = [one for one in spans if one.parent == call.id]
    assert len(requests) == 3
    for request in requests:
        assert request.kind == INTERNAL and not request.remote_parent
        assert call.start <= request.start <= request.end <= call.end
        check_children(request, [one for one in spans if one.parent == request.id])


def test_a_failed_request_says_why_and_whose_fault_it_was(traced, collector):
    trace, _, header = parent()
    request = urllib.request.Request(
        f"http://{traced.http}/v1/classify?model=no_such_model",
        PICTURE,
        {"traceparent": header},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.headers["traceparent"].startswith(f"00-{trace}-")
    root = next(one for one in collector.trace(trace) if one.kind == SERVER)
    assert root.attributes["http.response.status_code"] == 404
    assert root.attributes["error.type"] == "model.not_found"
    assert root.attributes["fovea.model.name"] == "no_such_model"
    assert not root.failed, "it is the caller's fault"


def test_the_log_names_the_trace_and_the_request(traced, collector):
    trace, _, header = parent()
    infer(traced, traceparent=header)
    traced.wait_for_log(trace)
    lines = [json.loads(line) for line in traced.lines() if trace in line]
    (line,) = [line for line in lines if line["message"] == "request"]
    assert line["trace_id"] == trace and line["id"] == "one"


def test_callers_that_do_not_trace_are_followed_and_bad_contexts_ignored(
    traced, collector
):
    """docs/faults.md, row 82."""
    trace, _, header = parent(sampled=False)
    _, trailing = infer(traced, traceparent=header)
    assert trailing["traceparent"] == header, "passed on, and not recorded"
    for bad in ("junk", header[:-1], header.upper(), "ff" + header[2:], "00" + header):
        assert "traceparent" not in infer(traced, traceparent=bad)[1]
        assert "traceparent" not in classify(traced, traceparent=bad)[1]
    _, trailing = infer(traced)
    assert "traceparent" not in trailing
    marker, _, sampled = parent()
    infer(traced, traceparent=sampled)
    spans = collector.trace(marker)  # what came before would have come by now
    assert trace not in {span.trace for span in collector.spans()} and spans


def metric(server: Server, name: str) -> float:
    text = urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=60).read()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text.decode(), re.MULTILINE)
    assert found, f"{name} is not told"
    return float(found[1])


def ask_in_vain(server: Server, parents: list[str | None]) -> list[str | None]:
    """A request of a model that is not there for each parent, which takes the least time; the `traceparent` of each answer."""
    connection = http.client.HTTPConnection(server.http, timeout=60)
    told = []
    for header in parents:
        headers = {"traceparent": header} if header else {}
        connection.request("POST", "/v1/classify?model=none", PICTURE, headers)
        answer = connection.getresponse()
        assert answer.status == 404 and answer.read()
        told.append(answer.getheader("traceparent"))
    connection.close()
    return told


def test_forced_traces_are_bounded(collector, start_server):
    """docs/faults.md, row 82."""
    server = start_server(
        *ONE_MODEL,
        *("--otlp-endpoint", collector.endpoint, "--trace-sampling", "0"),
        *("--trace-forced-per-second", "2"),
    )
    traces = [parent() for _ in range(400)]
    begin = time.monotonic()
    ask_in_vain(server, [header for _, _, header in traces])
    seconds = time.monotonic() - begin
    assert server.terminate() == 0  # and what waits is sent
    wanted = {trace for trace, _, _ in traces}
    recorded = {one.trace for one in collector.spans() if one.trace in wanted}
    assert 1 <= len(recorded) <= 2 * (seconds + 2)
    assert len(recorded) < 400, "the test itself was too slow to tell"


def test_sampling_traces_the_share_that_it_says(collector, start_server):
    server = start_server(
        *ONE_MODEL,
        "--otlp-endpoint",
        collector.endpoint,
        "--trace-sampling",
        "0.5",
    )
    collector.clear()
    told = ask_in_vain(server, [None] * 400)
    traces = {header.split("-")[1] for header in told if header}
    # Five standard deviations of a binomial.
    assert abs(len(traces) - 200) < 5 * 400**0.5 / 2
    assert server.terminate() == 0
    roots = {one.trace for one in collector.spans() if one.kind == SERVER}
    assert traces == roots, (
        "who is told of a trace finds it, and nobody else's is there"
    )


def test_a_collector_that_goes_and_comes_back_gets_what_came_meanwhile(start_server):
    """docs/faults.md, row 81."""
    collector = Collector()
    server = start_server(*ONE_MODEL, "--otlp-endpoint", collector.endpoint)
    first = classify(server)[1]["traceparent"].split("-")[1]
    collector.trace(first)
    collector.close()
    second = classify(server)[1]["traceparent"].split("-")[1]
    server.wait_for_log("spans are not taken by the collector", timeout=60)
    assert metric(server, "fovea_trace_export_failures_total") >= 1
    collector.open()
    collector.trace(second)
    server.wait_for_log("spans are taken again", timeout=60)
    assert metric(server, 'fovea_trace_spans_total{outcome="exported"}') >= 2 * 7
    # A collector that is gone holds nobody up, neither requests nor the end.
    collector.close()
    begin = time.monotonic()
    for _ in range(5):
        classify(server)
    assert server.terminate() == 0
    assert time.monotonic() - begin < 30


def test_what_a_collector_refuses_for_good_is_not_sent_again(start_server):
    collector = Collector()
    collector.refuse = grpc.StatusCode.INVALID_ARGUMENT
    server = start_server(*ONE_MODEL, "--otlp-endpoint", collector.endpoint)
    classify(server)
    server.wait_for_log("spans are not taken by the collector", timeout=60)
    assert metric(server, 'fovea_trace_spans_total{outcome="failed"}') >= 7
    assert collector.batches == 1
    assert server.terminate() == 0
    collector.close()


def test_spans_go_over_tls_where_there_is_a_file_of_issuers(start_server, tmp_path):
    authority = certificates.Authority(tmp_path / "issuer")
    pair = authority.issue("collector")
    credentials = grpc.ssl_server_credentials(
        [(pair.key.read_bytes(), pair.certificate.read_bytes())]
    )
    collector = Collector(credentials)
    server = start_server(
        *ONE_MODEL,
        *("--otlp-endpoint", collector.endpoint, "--otlp-ca", str(authority.root)),
    )
    collector.trace(classify(server)[1]["traceparent"].split("-")[1])
    assert server.terminate() == 0
    collector.close()


def test_without_an_endpoint_a_context_is_passed_on_and_logged(start_server):
    server = start_server(*ONE_MODEL, "--access-log", "all")
    trace, _, header = parent()
    assert infer(server, traceparent=header)[1]["traceparent"] == header
    assert classify(server, traceparent=header)[1]["traceparent"] == header
    server.wait_for_log(f"(?s)(trace_id={trace}.*){{2}}")
    assert "fovea_trace_spans_total{" not in (
        urllib.request.urlopen(f"http://{server.metrics}/metrics").read().decode()
    )
    with triton.InferenceServerClient(server.grpc) as client:
        extensions = client.get_server_metadata().extensions
        assert "logging" in extensions and "trace" not in extensions
        assert client.get_trace_settings(as_json=True)["settings"]["trace_level"] == {
            "value": ["OFF"]
        }
        with pytest.raises(InferenceServerException) as refused:
            client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})
        assert refused.value.status() == "StatusCode.UNIMPLEMENTED"


# Triton's settings, through its own clients. Both are asked for the same, so that neither's answer is taken for granted.


def settings_of(client, model: str | None = None) -> dict[str, object]:
    if isinstance(client, triton_http.InferenceServerClient):
        return client.get_trace_settings(model)
    told = client.get_trace_settings(model)
    return {
        name: list(setting.value) if name == "trace_level" else setting.value[0]
        for name, setting in told.settings.items()
    }


@pytest.fixture(params=["grpc", "http"])
def client(request, traced):
    if request.param == "grpc":
        made = triton.InferenceServerClient(traced.grpc)
    else:
        made = triton_http.InferenceServerClient(traced.http)
    with made:
        yield made


def test_trace_settings_are_told_changed_and_reset(client, traced, collector):
    start = {
        "trace_file": "",
        "trace_level": ["TIMESTAMPS"],
        "trace_rate": "0",
        "trace_count": "-1",
        "log_frequency": "0",
        "trace_mode": "opentelemetry",
    }
    assert settings_of(client) == start
    metadata = client.get_server_metadata()
    extensions = (
        metadata["extensions"] if isinstance(metadata, dict) else (metadata.extensions)
    )
    assert {"trace", "logging"} <= set(extensions)
    client.update_trace_settings(settings={"trace_rate": "2", "trace_count": "3"})
    assert settings_of(client, MODEL)["trace_rate"] == "2"
    client.update_trace_settings(MODEL, settings={"trace_rate": "1"})
    assert settings_of(client, MODEL) == start | {
        "trace_rate": "1",
        "trace_count": "3",
    }
    assert settings_of(client)["trace_rate"] == "2"
    traced_requests = [
        "traceparent" in classify(traced)[1] for _ in range(5)
    ]  # by the model's rate, until the server's count is used up
    assert traced_requests == [True, True, True, False, False]
    assert settings_of(client)["trace_count"] == "0"
    client.update_trace_settings(MODEL, settings={"trace_level": ["OFF"]})
    _, _, header = parent()
    assert infer(traced, traceparent=header)[1]["traceparent"] == header
    client.update_trace_settings(
        MODEL, settings={"trace_rate": None, "trace_level": None}
    )
    client.update_trace_settings(settings={"trace_rate": None, "trace_count": None})
    assert settings_of(client) == settings_of(client, MODEL) == start


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"trace_file": "/tmp/trace.json"}, ("UNIMPLEMENTED", "501")),
        ({"log_frequency": "10"}, ("UNIMPLEMENTED", "501")),
        ({"trace_mode": "triton"}, ("UNIMPLEMENTED", "501")),
        ({"trace_level": ["TENSORS"]}, ("UNIMPLEMENTED", "501")),
        ({"trace_level": ["ALL"]}, ("INVALID_ARGUMENT", "400")),
        ({"trace_rate": "-1"}, ("INVALID_ARGUMENT", "400")),
        ({"trace_colour": "red"}, ("INVALID_ARGUMENT", "400")),
        ({"trace_rate": "5", "trace_count": "many"}, ("INVALID_ARGUMENT", "400")),
    ],
)
def test_trace_settings_that_cannot_be_are_refused(client, settings, status):
    before = settings_of(client)
    with pytest.raises(InferenceServerException) as refused:
        client.update_trace_settings(settings=settings)
    assert refused.value.status() in (f"StatusCode.{status[0]}", status[1])
    assert settings_of(client) == before
    with pytest.raises(InferenceServerException):
        client.update_trace_settings("no_such_model", settings={"trace_rate": "1"})


def test_log_settings_are_told_changed_and_reset(client, traced):
    def told() -> dict[str, object]:
        settings = client.get_log_settings()
        if isinstance(settings, dict):
            return settings
        return {
            name: getattr(value, value.WhichOneof("parameter_choice"))
            for name, value in settings.settings.items()
        }

    start = {
        "log_file": "",
        "log_info": True,
        "log_warning": True,
        "log_error": True,
        "log_verbose_level": 0,
        "log_format": "json",
    }
    assert told() == start
    client.update_log_settings({"log_info": False, "log_verbose_level": 1})
    assert told() == start | {"log_info": False, "log_verbose_level": 1}
    client.update_log_settings({"log_info": None, "log_verbose_level": None})
    assert told() == start
    for settings in (
        {"log_file": "/tmp/log"},
        {"log_format": "ISO8601"},
        {"log_info": True, "log_file": "/tmp/log"},
    ):
        with pytest.raises(InferenceServerException) as refused:
            client.update_log_settings(settings)
        assert refused.value.status() in ("StatusCode.UNIMPLEMENTED", "501")
    assert told() == start
    traced.wait_for_log("log settings are changed by a caller: log_info")


def test_levels_change_what_is_written(start_server):
    server = start_server(*ONE_MODEL)
    with triton.InferenceServerClient(server.grpc) as client:
        client.update_log_settings({"log_info": False, "log_warning": False})
        client.unload_model(MODEL)
        client.load_model(MODEL)
        client.update_trace_settings(settings={"trace_rate": "5"})
        client.update_log_settings({"log_info": True})
        client.unload_model(MODEL)
        server.wait_for_log("unloaded")
    lines = server.lines()
    assert len([line for line in lines if "unloaded" in line]) == 1
    # Who silences the log is in it, however silent it is.
    for what, times in (("trace settings", 1), ("log settings", 2)):
        changes = [line for line in lines if f"{what} are changed" in line]
        assert len(changes) == times, what
