"""What a server says of itself: whether it is ready, why not, and what keeps it from starting."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from fault_support import (
    MODEL,
    Caller,
    both,
    expect,
    gauge,
    health_of,
    infer_request,
    reason,
    refusal_of,
    scrape,
    wait_until,
)
from grpc_health.v1 import health_pb2
from http_caller import HttpCaller, lines_of
from running_server import BUILD, ROOT, SERVER, Server, command_line


def index_of(address: str) -> dict[str, dict]:
    with triton.InferenceServerClient(address) as client:
        rows = client.get_model_repository_index(as_json=True)["models"]
    return {row["name"]: row for row in rows}


def test_a_server_without_a_model_that_it_was_to_load_is_not_ready(
    start_server, one_model
):
    server = start_server(
        "--model-repository", one_model, "--model-control-mode", "explicit",
        "--load-model", MODEL, "--load-model", "nope", ready=False,
    )  # fmt: skip
    server.wait_for_log(
        "not ready: 1 of 2 models have loaded; nope: there is no model nope"
    )
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    row = index_of(server.grpc)["nope"]
    assert (row["state"], row["reason"]) == ("UNAVAILABLE", "there is no model nope")
    Caller(server.grpc).infer(infer_request())  # the other one serves
    with triton.InferenceServerClient(server.grpc) as client:
        assert not client.is_server_ready()
        client.unload_model("nope")  # nobody wants it any more
        wait_until(client.is_server_ready)
    server.wait_for_log(r"\nready: 1 model\b")


def test_a_server_whose_models_all_fail_is_not_ready_and_says_why(
    start_server, one_model
):
    (one_model / MODEL / "1" / "model.safetensors").write_bytes(b"")
    server = start_server("--model-repository", one_model, ready=False)
    server.wait_for_log(rf"not ready: 0 of 1 models have loaded; {MODEL}: unsupported")
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.is_server_live() and not client.is_server_ready()
    error = Caller(server.grpc).refused(infer_request())
    expect(error, "NOT_FOUND", "model.not_found")
    assert "unsupported weight format" in error.details()
    assert server.terminate() == 0


def test_exit_on_load_error_ends_the_server_with_1(start_server, one_model):
    (one_model / "broken").mkdir()
    server = start_server(
        "--model-repository", one_model, "--exit-on-load-error", ready=False
    )
    assert server.process.wait(120) == 1
    server.wait_for_log(
        r"ending \(--exit-on-load-error\): 1 of 2 models have loaded; "
        "broken: the folder holds no model.textproto"
    )


def test_sighup_looks_at_the_repository_again_and_ends_nothing(start_server, one_model):
    server = start_server("--model-repository", one_model)
    shutil.copytree(one_model / MODEL, one_model / "another")
    spec = one_model / "another" / "model.textproto"
    spec.write_text(spec.read_text().replace(f'name: "{MODEL}"', 'name: "another"'))
    server.process.send_signal(signal.SIGHUP)
    with triton.InferenceServerClient(server.grpc) as client:
        wait_until(lambda: client.is_model_ready("another"), timeout=120)
        assert client.is_server_ready()
    assert server.terminate() == 0


def test_sighup_in_explicit_control_is_a_line_of_the_log(start_server, one_model):
    server = start_server(
        "--model-repository", one_model, "--model-control-mode", "explicit"
    )
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_log("SIGHUP: nothing is loaded again")
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.SERVING


def test_a_service_manager_hears_of_the_start_the_models_and_the_stop(
    start_server, one_model, tmp_path
):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        server = start_server(
            "--model-repository", one_model,
            environment={"NOTIFY_SOCKET": str(tmp_path / "notify")},
        )  # fmt: skip
        assert server.terminate() == 0
        heard = [manager.recv(4096).decode() for _ in range(3)]
    assert heard == [
        "READY=1\nSTATUS=loading models",
        "STATUS=ready: 1 model",
        "STOPPING=1\nSTATUS=answering what was accepted",
    ]


def test_check_config_tells_every_fault_and_serves_nothing(one_model, tmp_path):
    (one_model / "broken").mkdir()
    config = tmp_path / "server.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(
            f'model-repository = "{one_model}"\nhttp-port = {port}\ngrpc-port = 0\n'
        )
        done = subprocess.run(
            [SERVER, "--config", config, "--check-config", "--metrics-port", "0"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    faults = done.stderr.splitlines()
    assert len(faults) == 2
    assert "--http-port" in faults[0] and faults[1].startswith("model broken: ")
    assert f"http-port = {port}\n" in done.stdout
    assert "metrics-port = 0\n" in done.stdout


def test_in_json_every_line_is_an_object_and_failed_requests_are_there(
    start_server, one_model
):
    """An id with a line break is escaped twice over, by row 54 and by JSON."""
    server = start_server("--model-repository", one_model, "--log-format", "json")
    caller = Caller(server.grpc)
    caller.infer(infer_request(id="good"))
    caller.refused(infer_request(model="no_such_model", id="bad\n{}"))
    assert server.terminate() == 0
    lines = [json.loads(line) for line in server.lines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    events = {line["event"]: line for line in lines if "event" in line}
    assert events["listening"]["grpc"] == server.grpc
    assert events["listening"]["metrics"] == server.metrics
    assert events["ready"]["models"] == 1
    (request,) = [line for line in lines if line["message"] == "request"]
    assert request["id"] == "bad\\x0a{}"
    assert request["model"] == "no_such_model"
    assert (request["code"], request["reason"]) == ("NOT_FOUND", "model.not_found")


def refused_start(
    *flags: object, environment: dict[str, str] | None = None
) -> tuple[int, str]:
    """The exit code of a server that does not start, and what it says on standard error."""
    ended = subprocess.run(
        command_line(*flags), check=False, capture_output=True, text=True, timeout=60,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    return ended.returncode, ended.stderr.strip()


def test_only_the_threads_of_models_interrupt_others(start_server, one_model):
    server = start_server("--model-repository", one_model, "--threads", "1")
    Caller(server.grpc).infer(infer_request())
    policies: dict[int, list[str]] = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        policies.setdefault(os.sched_getscheduler(int(task.name)), []).append(name)
    # gRPC's threads that receive requests, those that decode images, and the one that has loaded the model.
    assert {"nexting_thread", "imaging", "fovea-server"} <= set(
        policies[os.SCHED_BATCH]
    )
    # One instance, of one thread: it has no helpers.
    assert policies[os.SCHED_OTHER] == ["fovea-server"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--grpc-port", "99999"), "--grpc-port: Value 99999 not in range 0 to 65535"),
        (("--no-such-flag",), "--no-such-flag"),
        (("--model-control-mode", "maybe"), "--model-control-mode: maybe not in"),
        (("--load-model", "x"), "--load-model needs --model-control-mode explicit"),
    ],
)
def test_wrong_flags_are_told_and_exit_with_2(one_model, flags, says):
    code, text = refused_start("--model-repository", one_model, *flags)
    assert code == 2
    assert says in text


def test_what_keeps_a_server_from_starting_is_told_with_the_remedy(one_model):
    model = one_model / MODEL
    for flags, says in {
        ("--model-repository", "/nope"): "there is no folder /nope: give the folder that holds",
        ("--model-repository", model): (
            f"{model} is a model's folder; give its parent: --model-repository {one_model}"
        ),
        # (A name with an empty part: DNS cannot be asked for it.)
        ("--model-repository", one_model, "--host", "no..host"): (
            "--host 'no..host' is no address and no name that resolves to one"
        ),
        ("--model-repository", one_model, "--host", "192.0.2.1"): (
            "192.0.2.1 is not an address of this machine"
        ),
    }.items():  # fmt: skip
        code, text = refused_start(*flags)
        assert code == 1
        assert f"cannot start: {says}" in text.splitlines()[-1], text


def test_a_port_that_is_taken_is_told_with_its_flag(one_model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = refused_start("--model-repository", one_model, "--grpc-port", port)
    assert code == 1
    line = text.splitlines()[-1]
    assert f"another program listens on port {port} of 127.0.0.1" in line
    assert "--grpc-port" in line


@pytest.fixture
def no_more_threads(tmp_path: pathlib.Path) -> pathlib.Path:
    """A library that lets a server start no more threads, to be loaded before it."""
    library = tmp_path / "no_more_threads.so"
    source = pathlib.Path(__file__).with_name("no_more_threads.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_row_39_a_server_that_gets_no_thread_says_that_it_cannot_start(
    tmp_path, no_more_threads
):
    broken = tmp_path / "models" / "broken"
    broken.mkdir(parents=True)
    # One more each time, until it has started, and ends for another reason.
    for threads in range(64):
        code, text = refused_start(
            "--model-repository", broken.parent, "--exit-on-load-error", "--threads", 1, "--imaging-threads", 1,
            environment={"LD_PRELOAD": str(no_more_threads), "FOVEA_TEST_THREADS": str(threads)},
        )  # fmt: skip
        assert code == 1, (threads, text)
        if "ending (--exit-on-load-error)" in text:
            break
        says = "cannot start: the system has no thread left"
        assert says in text, (threads, text)  # a drain may follow
    assert 12 < threads < 63  # of the server's own, gRPC's aside


PICTURE = next((ROOT / "client/examples").glob("*.jpg")).read_bytes()


def calls_that_run_models(server: Server) -> dict[str, Callable[[], object]]:
    """What has LibTorch's operators start threads that help them, and the server threads of a model's own."""
    over_grpc, over_http = both(server)

    def post(path: str, body: bytes = PICTURE) -> Callable[[], object]:
        return lambda: list(
            lines_of(
                urllib.request.Request(f"http://{server.http}{path}", body), timeout=120
            )
        )

    short = "rounds=2&max_rounds=2"
    calls = {
        f"{name} over {type(caller).__name__}": (lambda call=call: call())
        for caller in (over_grpc, over_http)
        for name, call in {
            "infer": lambda caller=caller: caller.infer(infer_request(), timeout=120),
            "load": lambda caller=caller: caller.load("another", timeout=120),
            "reload": lambda caller=caller: caller.load(MODEL, timeout=120),
        }.items()
    }
    return calls | {
        "classify": lambda: over_http.ask(
            "POST", f"/v1/classify?model={MODEL}", PICTURE, timeout=120
        ),
        "compare": post(f"/v1/compare?model={MODEL}&attention=knn:k=9&{short}"),
        "sweep": post(f"/v1/sweep?model={MODEL}&over=BATCH&values=1,2&rounds=2"),
        "explain": lambda: over_http.ask(
            "POST",
            f"/v1/explain?model={MODEL}&method=ROLLOUT&method=ATTRIBUTION",
            PICTURE,
            timeout=120,
        ),
    }


def test_row_97_while_no_thread_can_be_had_callers_are_told_and_the_server_lives(
    start_server, one_model, tmp_path, no_more_threads
):
    shutil.copytree(one_model / MODEL, one_model / "another")
    spec = one_model / "another" / "model.textproto"
    spec.write_text(spec.read_text().replace(f'name: "{MODEL}"', 'name: "another"'))
    none = tmp_path / "none"
    server = start_server(
        *("--model-repository", one_model, "--model-control-mode", "explicit"),
        *("--load-model", MODEL, "--enable-experiments", "--threads", "2"),
        environment={
            "LD_PRELOAD": str(no_more_threads),
            "FOVEA_TEST_NO_THREADS": str(none),
        },
    )
    # The model has run only its warm-up, so its thread may have no helpers yet.
    none.touch()
    refused = set()
    try:
        Caller(server.grpc).infer(infer_request())
    except grpc.RpcError as error:
        assert reason(error) == "server.no_thread", error
    assert server.alive(), server.lines()[-5:]
    none.unlink()
    before = Caller(server.grpc).infer(infer_request())
    for name, call in calls_that_run_models(server).items():
        none.touch()
        try:
            call()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, (name, error)
            assert reason(error) == "server.no_thread", (name, error)
            refused.add(name)
        assert server.alive(), (name, server.lines()[-5:])
        none.unlink()
        call()
        for caller in both(server):
            np.testing.assert_array_equal(caller.infer(infer_request()), before)
    # A load has threads of its own to start.
    assert {"load over Caller", "load over HttpCaller"} <= refused
    assert server.terminate() == 0


def test_row_98_a_variable_that_is_empty_or_unknown_is_named(
    start_server, one_model, monkeypatch
):
    monkeypatch.setenv("FOVEA_GRPC_PRT", "9")
    for name in ("FOVEA_API_KEYS_FILE", "FOVEA_TLS_CERT", "FOVEA_HTTP_API"):
        code, text = refused_start("--model-repository", one_model, environment={name: ""})  # fmt: skip
        assert (code, f"{name} is set and empty" in text) == (2, True), text
    server = start_server("--model-repository", one_model)
    server.wait_for_log(
        "the environment variable FOVEA_GRPC_PRT does not belong to any flag"
    )


def test_row_100_a_model_that_is_a_link_out_of_the_repository_is_missing(
    start_server, one_model, tmp_path
):
    """As KServe lays out the models of a `pvc://`."""
    outside = tmp_path / "volume"
    shutil.move(one_model / MODEL, outside / MODEL)
    (one_model / MODEL).symlink_to(outside / MODEL)
    server = start_server("--model-repository", one_model, ready=False)
    server.wait_for_log(
        rf"not ready: 0 of 1 models have loaded; {MODEL}: {MODEL} leads out of the repository"
    )
    for caller in both(server):
        expect(refusal_of(lambda: caller.infer(infer_request())), "NOT_FOUND", "model.not_found")  # fmt: skip # noqa: B023
    assert "leads out" in index_of(server.grpc)[MODEL]["reason"]
    checked = subprocess.run(
        [BUILD / "bin" / "fovea", "check", one_model], check=False, capture_output=True, text=True
    )  # fmt: skip
    assert checked.returncode == 1 and "leads out of the repository" in checked.stdout


def states(server: Server) -> dict[str, float]:
    """How many models are in each state, by the metrics."""
    found = re.findall(r'^fovea_models{state="(\w+)"} (\S+)$', scrape(server.metrics), re.MULTILINE)  # fmt: skip
    return {name: float(count) for name, count in found if float(count)}


def why_not_ready(server: Server, **fields: str) -> dict:
    return HttpCaller(server.http).refused_call("GET", "/readyz", **fields).body


def test_row_101_a_model_that_fails_at_the_start_is_told_wherever_readiness_is_asked(
    start_server, one_model, tmp_path
):
    (one_model / "broken").mkdir()
    keys = tmp_path / "keys.json"
    groups = ["repository", "inference"]
    keys.write_text(json.dumps({"keys": [{"name": "it", "sha256": hashlib.sha256(b"x").hexdigest(), "groups": groups}]}))  # fmt: skip
    server = start_server("--model-repository", one_model, ready=False)
    server.wait_for_log("not ready")
    reason = "the folder holds no model.textproto"
    assert why_not_ready(server) == {
        "ready": False,
        "reason": "1 of 2 models have loaded",
        "models": [{"name": "broken", "state": "UNAVAILABLE", "reason": reason}],
    }
    assert gauge(scrape(server.metrics), "fovea_server_ready") == 0
    assert states(server) == {"ready": 1, "failed": 1}
    health = subprocess.run(
        [BUILD / "bin" / "fovea", "--server", server.grpc, "health"], check=False, capture_output=True, text=True
    )  # fmt: skip
    assert health.returncode == 1
    assert health.stderr == f"fovea: the server is not ready: broken: {reason}\n"
    # Callers without a key are told no names.
    guarded = start_server(
        *("--model-repository", one_model, "--api-keys-file", keys), ready=False
    )
    guarded.wait_for_log("not ready")
    assert "models" not in why_not_ready(guarded)
    assert "models" in why_not_ready(guarded, Authorization="Bearer x")


def test_row_101_while_models_load_the_time_that_is_left_is_told(
    start_server, one_model, hanging_disk
):
    environment, hang = hanging_disk
    hang.touch()
    # It fails before the other is read, which is enough for a forecast.
    (one_model / "broken").mkdir()
    server = start_server(
        "--model-repository", one_model, environment=environment, ready=False
    )
    wait_until(lambda: hang.read_text() == "hangs")
    wait_until(lambda: "left" in why_not_ready(server)["reason"])
    forecast = r"0 of 2 models have loaded, about \d+ s are left"
    why = why_not_ready(server)
    assert re.fullmatch(forecast, why["reason"]), why
    rows = {row["name"]: row for row in why["models"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "broken": "UNAVAILABLE",
        MODEL: "LOADING",
    }
    models = subprocess.run(
        [BUILD / "bin" / "fovea", "--server", server.grpc, "models"], check=True, capture_output=True, text=True
    ).stdout  # fmt: skip
    assert re.search(rf"^{MODEL} .* loading ", models, re.MULTILINE), models
    server.wait_for_log(rf"loading: {forecast}")  # every five seconds
    hang.unlink()
    server.wait_for_log("not ready: 1 of 2 models have loaded; broken: ")
    assert why_not_ready(server)["reason"] == "1 of 2 models have loaded"


def test_row_101_a_broken_model_may_be_left_out(start_server, one_model):
    (one_model / "broken").mkdir()
    server = start_server(
        "--model-repository", one_model, "--strict-readiness", "false"
    )
    server.wait_for_log(
        r"ready without some models: 1 of 2 models have loaded; broken: "
    )
    for caller in both(server):
        caller.infer(infer_request())
    assert gauge(scrape(server.metrics), "fovea_server_ready") == 1


def test_row_101_a_server_whose_last_model_is_gone_is_not_ready(
    start_server, one_model, connect
):
    server = start_server(
        *("--model-repository", one_model, "--model-control-mode", "explicit"),
        *("--load-model", MODEL),
    )
    caller = connect(server)
    caller.unload(MODEL)
    assert why_not_ready(server) == {"ready": False, "reason": "no model serves"}
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.NOT_SERVING
    assert states(server) == {"unloaded": 1}
    caller.load(MODEL)
    assert health_of(server.grpc, "") == health_pb2.HealthCheckResponse.SERVING
    HttpCaller(server.http).ask("GET", "/readyz")


@pytest.mark.skipif(
    (os.cpu_count() or 1) < 2, reason="one processor has no quota below it"
)
def test_in_a_cgroup_with_a_quota_the_server_has_as_many_threads(
    start_server, one_model, limited, monkeypatch
):
    # Of the whole run of tests: who sets it has decided how threads wait.
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    version1 = {"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": 100_000}
    program = limited("cpu", version1, {"cpu.max": "100000 100000"})
    server = start_server(
        "--model-repository", one_model, "--threads", "0", program=program
    )
    server.wait_for_log(
        r"may use 1 of \d+ processors \(.*cgroup quota 1\.00\): 1 for models, 1 for images"
    )
    # libgomp reads how long to spin from its environment alone.
    environment = pathlib.Path(f"/proc/{server.process.pid}/environ").read_bytes()
    assert b"GOMP_SPINCOUNT=10000" in environment.split(b"\0")
    assert server.terminate() == 0
