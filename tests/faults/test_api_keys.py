"""Row 48 of docs/faults.md: API keys, the same over both protocols."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import pathlib
import re
import secrets
import select
import subprocess

import grpc
import pytest
from fault_support import (
    SERVICE,
    SIZE,
    Caller,
    add_identity,
    gauge,
    hold_last_of_odd,
    identity_request,
    infer_request,
    pixel_values,
    reason,
    scrape,
    wait_until,
)
from google.protobuf import json_format
from running_server import Server, command_line
from tritonclient.grpc import service_pb2

USER, ADMIN, SLOW, NARROW = (secrets.token_urlsafe(32) for _ in range(4))
HTTP_OF = {
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "OK": 200,
}
# A method of each group, over both protocols.
CALLS = {
    "metadata": ("ServerMetadata", "GET", "/v2"),
    "inference": ("ModelInfer", "POST", "/v2/models/identity/infer"),
    "shared_memory": ("SystemSharedMemoryStatus", "GET", "/v2/systemsharedmemory/status"),
    "repository": ("RepositoryIndex", "POST", "/v2/repository/index"),
    "statistics": ("ModelStatistics", "GET", "/v2/models/stats"),
    "settings": ("LogSettings", "GET", "/v2/logging"),
}  # fmt: skip


def entry(name: str, key: str, *groups: str, **limits: int) -> dict:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return {"name": name, "sha256": digest, "groups": list(groups), **limits}


@pytest.fixture
def keys_file(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "keys.json"
    write_keys(
        file,
        entry("user", USER, "inference", "metadata"),
        entry("admin", ADMIN, *CALLS),
        entry("slow", SLOW, "inference", requests_per_second=1, burst=2),
        entry("narrow", NARROW, "inference", concurrency=1),
    )
    return file


def write_keys(file: pathlib.Path, *keys: dict) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"keys": keys}))
    fresh.rename(file)


@dataclasses.dataclass(frozen=True)
class Told:
    """An answer over both protocols, which have to say the same."""

    code: str
    reason: str
    fields: dict[str, str]


class BothProtocols:
    def __init__(self, server: Server):
        self.server = server
        self.caller = Caller(server.grpc)

    def ask(self, group: str, *shown: str) -> Told:
        """A method of the group with so many headers `Authorization`."""
        method, verb, path = CALLS[group]
        infer = identity_request() if group == "inference" else None
        try:
            self.caller.send(
                infer.SerializeToString() if infer else b"",
                SERVICE + method,
                metadata=[("authorization", value) for value in shown],
            )
            grpc_told = ("OK", "")
        except grpc.RpcError as error:
            grpc_told = (error.code().name, reason(error))
        body = json.dumps(as_json(infer)) if infer else "{}" if verb == "POST" else None
        status, fields, answer = self.http(verb, path, body, shown)
        http_reason = json.loads(answer)["reason"] if status >= 400 else ""
        assert (HTTP_OF[grpc_told[0]], grpc_told[1]) == (status, http_reason)
        return Told(*grpc_told, fields)

    def infer_grpc(self, key: str) -> str:
        """The reason why not; empty where it is answered."""
        try:
            self.caller.infer(
                identity_request(), metadata=[("authorization", f"Bearer {key}")]
            )
        except grpc.RpcError as error:
            return reason(error)
        return ""

    def infer_http(self, key: str) -> str:
        _, verb, path = CALLS["inference"]
        body = json.dumps(as_json(identity_request()))
        status, _, answer = self.http(verb, path, body, (f"Bearer {key}",))
        return "" if status == 200 else json.loads(answer)["reason"]

    def http(
        self, verb: str, path: str, body: str | None, shown: tuple[str, ...] = ()
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.http, timeout=30)
        connection.putrequest(verb, path)
        for value in shown:
            connection.putheader("Authorization", value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode() if body is not None else None)
        answer = connection.getresponse()
        told = answer.status, dict(answer.headers), answer.read()
        connection.close()
        return told


def as_json(request: service_pb2.ModelInferRequest) -> dict:
    del request.raw_input_contents[:]
    message = json_format.MessageToDict(request, preserving_proto_field_name=True)
    (tensor,) = message["inputs"]
    tensor["shape"] = [int(side) for side in tensor["shape"]]
    tensor["data"] = [0] * (SIZE * SIZE * 3)
    return {"inputs": [tensor]}


@pytest.fixture
def both(start_server, identity_repository, keys_file) -> BothProtocols:
    return BothProtocols(
        start_server(
            *("--model-repository", identity_repository, "--access-log", "all"),
            *("--api-keys-file", keys_file),
        )
    )


def test_row_48_who_shows_no_known_key_is_unauthenticated_whatever_the_method(
    both: BothProtocols,
):
    shown = {
        "auth.no_key": [()],
        "auth.several_keys": [(f"Bearer {USER}", f"Bearer {USER}"), ("", "")],
        "auth.unknown_key": [
            (f"Bearer {USER[:-1]}",), (f"Bearer {USER}x",), (f"Bearer {USER.swapcase()}",),
        ],
        "auth.malformed": [
            ("",), ("Bearer",), (USER,), (f"Basic {USER}",), (f"Bearer {'x' * 513}",),
            (f"Bearer {USER},{USER}",), (f"Bearer {USER} x",),
        ],
    }  # fmt: skip
    for token, cases in shown.items():
        for group in CALLS:
            for case in cases:
                told = both.ask(group, *case)
                assert (told.code, told.reason) == ("UNAUTHENTICATED", token), case
                assert told.fields["WWW-Authenticate"] == "Bearer"
    # A NUL, and gRPC's binary metadata, are no other way in. (gRPC's own callers send neither.)
    assert both.http("GET", "/v2", None, (f"Bearer {USER}\0",))[0] in (400, 401)
    with pytest.raises(grpc.RpcError) as error:
        both.caller.send(
            b"",
            SERVICE + "ServerMetadata",
            metadata=[("authorization-bin", f"Bearer {USER}".encode())],
        )
    assert reason(error.value) == "auth.no_key"
    # Paths that do not exist tell a stranger nothing.
    for path in ("/v2/models/identity/versions/9/x", "/nothing", "/v2/models/nosuch"):
        assert both.http("GET", path, None)[0] == 401
    assert USER not in both.server.log.read_text()


def test_row_48_a_body_is_not_read_of_who_may_not_send_it(both: BothProtocols):
    connection = http.client.HTTPConnection(both.server.http, timeout=30)
    connection.putrequest("POST", "/v1/classify?model=identity")
    connection.putheader("Content-Length", str(100 << 20))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 401
    assert answer.headers["Connection"] == "close"
    connection.close()


def test_row_48_a_quota_is_taken_before_the_body_is_there(both: BothProtocols):
    def begin() -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(both.server.http, timeout=30)
        connection.putrequest("POST", "/v1/classify?model=identity")
        connection.putheader("Authorization", f"Bearer {NARROW}")
        connection.putheader("Content-Length", str(1 << 20))
        connection.endheaders(b"x" * 1000)  # and no more
        return connection

    first, second = begin(), begin()
    # One of the two has the key's one place, whose body does not come.
    ready, _, _ = select.select([first.sock, second.sock], [], [], 30)
    (refused,) = (one for one in (first, second) if one.sock in ready)
    answer = refused.getresponse()
    assert answer.status == 429
    assert json.loads(answer.read())["reason"] == "quota.concurrency"
    first.close()
    second.close()
    wait_until(lambda: both.infer_http(NARROW) == "")


def test_row_48_streams_and_health_go_by_the_same_rule(both: BothProtocols):
    stream = both.caller.channel.stream_stream(SERVICE + "ModelStreamInfer")
    message = identity_request().SerializeToString()
    with pytest.raises(grpc.RpcError) as error:
        next(stream(iter([message]), timeout=30))
    assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert reason(error.value) == "auth.no_key"
    answers = stream(
        iter([message]), metadata=[("authorization", f"Bearer {USER}")], timeout=30
    )
    assert not service_pb2.ModelStreamInferResponse.FromString(
        next(answers)
    ).error_message
    both.caller.send(b"", "/grpc.health.v1.Health/Check")
    both.caller.send(b"", SERVICE + "ServerReady")
    for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/models/identity/ready"):
        assert both.http("GET", path, None)[0] == 200


def test_row_48_a_key_allows_its_groups_and_its_name_is_told(both: BothProtocols):
    for group in CALLS:
        allowed = group in ("inference", "metadata")
        told = both.ask(group, f"Bearer {USER}")
        assert (told.code, told.reason) == (
            ("OK", "") if allowed else ("PERMISSION_DENIED", "auth.group_not_allowed")
        )
        assert both.ask(group, f"bearer {ADMIN}").code == "OK"
    answer = service_pb2.ModelInferResponse.FromString(
        both.caller.send(
            identity_request().SerializeToString(),
            metadata=[("authorization", f"Bearer {USER}")],
        )
    )
    assert answer.parameters["fovea.principal"].string_param == "user"
    both.server.wait_for_log(r"principal=user\b")
    metrics = scrape(both.server.metrics)
    assert 'fovea_key_requests_total{code="OK",key="user"} 3' in metrics
    assert 'key="admin"' in metrics
    assert USER not in metrics


def test_who_changes_settings_is_in_the_log(start_server, one_model, keys_file):
    server = start_server(
        *("--model-repository", one_model, "--api-keys-file", keys_file)
    )
    both = BothProtocols(server)
    for path, body in [
        ("/v2/logging", '{"log_verbose_level": 1}'),
        ("/v2/trace/setting", '{"trace_rate": "5"}'),
    ]:
        assert both.http("POST", path, body, [f"Bearer {ADMIN}"])[0] == 200
    for method, message in [
        (
            "LogSettings",
            service_pb2.LogSettingsRequest(
                settings={"log_verbose_level": {"uint32_param": 0}}
            ),
        ),
        (
            "TraceSetting",
            service_pb2.TraceSettingRequest(settings={"trace_rate": {"value": ["6"]}}),
        ),
    ]:
        both.caller.send(
            message.SerializeToString(),
            SERVICE + method,
            metadata=[("authorization", f"Bearer {ADMIN}")],
        )
    server.wait_for_log(r"(?s)(trace settings are changed.*){2}")
    log = server.log.read_text()
    changes = re.findall(r"(log|trace) settings are changed by (the key '\w+'|.*)", log)
    assert sorted(changes) == [
        *[("log", "the key 'admin'")] * 2,
        *[("trace", "the key 'admin'")] * 2,
    ]
    assert ADMIN not in log


def test_row_48_quotas_are_the_keys_over_both_protocols(
    start_server, one_model, keys_file
):
    hold_last_of_odd(one_model, seconds=10)
    add_identity(one_model)
    server = start_server(
        *("--model-repository", one_model, "--api-keys-file", keys_file)
    )
    both = BothProtocols(server)
    # Who asks without a pause asks more often than once a second.
    first = both.infer_grpc(SLOW)
    told = {infer(SLOW) for infer in (both.infer_grpc, both.infer_http) * 10}
    assert first == "" and "quota.rate" in told <= {"", "quota.rate"}
    assert re.search(
        r'fovea_key_requests_total{code="RESOURCE_EXHAUSTED",key="slow"} \d',
        scrape(server.metrics),
    )
    values = pixel_values(8)  # half a batch, which waits for the other half
    held = both.caller.channel.unary_unary(SERVICE + "ModelInfer").future(
        infer_request(shape=values.shape, raw=[values.tobytes()]).SerializeToString(),
        metadata=[("authorization", f"Bearer {NARROW}")],
        timeout=300,
    )
    wait_until(lambda: gauge(scrape(server.metrics), "fovea_inflight_requests") == 1)
    told = both.ask("inference", f"Bearer {NARROW}")
    assert (told.code, told.reason) == ("RESOURCE_EXHAUSTED", "quota.concurrency")
    assert told.fields["Retry-After"] == "1"
    assert both.ask("inference", f"Bearer {USER}").code == "OK"  # others are served
    held.cancel()
    for infer in (both.infer_grpc, both.infer_http):
        wait_until(lambda infer=infer: infer(NARROW) == "")


def test_row_48_a_port_answers_its_groups_only(
    start_server, identity_repository, keys_file
):
    both = BothProtocols(
        start_server(
            *("--model-repository", identity_repository, "--api-keys-file", keys_file),
            *("--grpc-api", "inference,metadata", "--http-api", "inference,metadata"),
        )
    )
    for group in CALLS:
        told = both.ask(group, f"Bearer {ADMIN}")
        open_group = group in ("inference", "metadata")
        assert (told.code, told.reason) == (
            ("OK", "") if open_group else ("PERMISSION_DENIED", "auth.group_closed")
        )


def test_row_48_the_file_is_taken_again_when_it_changes_and_a_bad_one_is_not(
    both: BothProtocols, keys_file: pathlib.Path, identity_repository: pathlib.Path
):
    fresh = secrets.token_urlsafe(32)
    write_keys(keys_file, entry("fresh", fresh, "metadata"))
    wait_until(lambda: known(both, fresh))
    assert not known(both, USER)
    keys_file.write_text("{}")
    refused = 'fovea_credential_reloads_total{result="refused",what="api_keys"} 1'
    wait_until(lambda: refused in scrape(both.server.metrics))
    assert known(both, fresh)
    told = both.server.wait_for_log(".*what was there before stays.*")[0]
    assert "'keys' is no list" in told
    ended = subprocess.run(
        command_line(
            *("--model-repository", identity_repository, "--api-keys-file", keys_file)
        ),
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "cannot start: API keys (--api-keys-file): 'keys' is no list" in (
        ended.stdout + ended.stderr
    )


def known(both: BothProtocols, key: str) -> bool:
    return both.http("GET", "/v2", None, (f"Bearer {key}",))[0] == 200
