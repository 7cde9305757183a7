"""fovea.client's and the command's experiments against a real server."""

from __future__ import annotations

import asyncio
import collections
import math
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from experimenting_server import experimenting
from running_server import BUILD, ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client

PICTURES = [ROOT / "client/examples/ring.jpg", ROOT / "client/examples/star.jpg"]
BASELINE = client.ExperimentArm(weight=1)
SIBLING = client.ExperimentArm(model="shapes_knn", weight=1, shadow=True)
# On a busy machine anything may be slow: nothing but a caller ends an experiment.
PATIENT = client.GuardRails(max_latency_ratio=1000, max_shadow_share=0.5)


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("experiments")
    yield from experimenting(folder, "shapes", "shapes_knn", "detector_dense")


@pytest.fixture
def asked(experiments: Server) -> Iterator[client.Client]:
    """Leaves no experiment behind."""
    with client.Client(experiments.grpc) as one:
        yield one
        for left in one.experiments():
            one.stop_experiment(left.plan.name)
            one.delete_experiment(left.plan.name)


def fovea(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BUILD / "bin/fovea", "--server", server.grpc, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_traffic_is_shared_out_and_told(asked: client.Client) -> None:
    started = asked.start_experiment(
        "night", "shapes", [BASELINE, SIBLING], guard_rails=PATIENT, timeout=120
    )
    assert started.running
    assert [one.attention for one in started.arms] == ["dense", "knn:k=0.5"]
    # The server's defaults are filled in.
    assert started.plan.error_probability == 0.05
    assert started.plan.guard_rails.max_seconds == 7 * 24 * 3600
    arms: collections.Counter[str] = collections.Counter()
    of_key: dict[str, set[str]] = collections.defaultdict(set)
    end = time.monotonic() + 120
    found = started
    # Until both arms have answered in a window, and a copy was made.
    while not (found.arms[1].latency_ratio and found.arms[1].disagreement):
        assert time.monotonic() < end, found
        for number in range(20):
            key = f"user-{number % 10}"
            answer = asked.classify("shapes", PICTURES[:1], experiment_key=key)
            assert answer.receipt.experiment == "night"
            assert answer.receipt.experiment_arm == f"{answer.model}:{answer.attention}"
            arms[answer.receipt.experiment_arm] += 1
            of_key[key].add(answer.receipt.experiment_arm)
        found = asked.experiment("night")
    assert [one.name for one in found.arms] == ["shapes:dense", "shapes_knn:knn:k=0.5"]
    assert set(arms) == {one.name for one in found.arms}
    assert all(len(seen) == 1 for seen in of_key.values())  # each key stays
    assert all(one.requests == arms[one.name] for one in found.arms)
    assert [one.failures for one in found.arms] == [0, 0]
    assert found.arms[1].shadow_requests > 0 and found.arms[0].latency_ratio is None
    ratio, differs = found.arms[1].latency_ratio, found.arms[1].disagreement
    assert ratio is not None and ratio.lower <= ratio.estimate <= ratio.upper
    assert differs is not None and 0 <= differs.lower <= differs.upper <= 1
    # A stream's requests go by the stream's key.
    with asked.stream(experiment_key="user-3") as stream:
        for _ in range(4):
            stream.classify("shapes", PICTURES[:1])
        stream.writes_done()
        streamed = {one.answer.receipt.experiment_arm for one in stream if one.answer}
    assert streamed == of_key["user-3"]
    # Requests that name a version are left alone.
    named = asked.classify("shapes", PICTURES[:1], version="1", experiment_key="user-1")
    assert (named.receipt.experiment, named.model) == ("", "shapes")
    assert client.Experiment.from_json(found.to_json()) == found
    assert len(found.to_frame()) == 2 and "night: running" in str(found)

    stopped = asked.stop_experiment("night")
    assert stopped.state == "STOPPED" and stopped.reason
    after = asked.classify("shapes", PICTURES[:1], experiment_key="user-1")
    assert (after.receipt.experiment, after.model) == ("", "shapes")
    asked.delete_experiment("night")
    assert asked.experiments() == []


def test_the_command_and_http_tell_the_same(
    experiments: Server, asked: client.Client
) -> None:
    started = fovea(
        experiments,
        *("experiment", "start", "told", "--model", "shapes", "--baseline-weight", "3"),
        *("--arm", "model=shapes_knn,weight=1,shadow", "--max-time", "1h", "--json"),
    )
    assert started.returncode == 0, started.stderr
    plan = client.Experiment.from_json(started.stdout).plan
    assert [one.weight for one in plan.arms] == [3, 1]
    assert plan.guard_rails.max_seconds == 3600
    image = fovea(
        experiments,
        *("classify", "--model", "shapes", "--experiment-key", "user-1", "--receipt"),
        str(PICTURES[0]),
    )
    named = re.search(r"; experiment told: (\S+)", image.stdout)
    assert named, image.stdout + image.stderr
    shown = fovea(experiments, "experiment", "show", "told").stdout
    assert "told: running for " in shown and "AGAINST shapes:dense" in shown
    assert re.search(rf"(?m)^{re.escape(named[1])}  ", shown), shown
    with urllib.request.urlopen(
        f"http://{experiments.http}/v1/experiments/told", timeout=30
    ) as answer:
        over_http = client.Experiment.from_json(answer.read().decode())
    assert over_http.plan == asked.experiment("told").plan
    assert (over_http.state, over_http.arms[0].attention) == ("RUNNING", "dense")
    assert over_http.arms[0].name == "shapes:dense"
    assert fovea(experiments, "experiment", "delete", "told").returncode == 1
    assert "told: stopped" in fovea(experiments, "experiment", "stop", "told").stdout
    watched = fovea(experiments, "experiment", "show", "told", "--watch")
    assert watched.returncode == 0 and watched.stdout.count("told: stopped") == 1
    listed = fovea(experiments, "experiment", "list").stdout.splitlines()
    assert listed[1].split()[:3] == ["told", "shapes", "stopped"]
    assert fovea(experiments, "experiment", "delete", "told").returncode == 0
    assert fovea(experiments, "experiment", "show", "told").returncode == 1


def test_an_interval_without_an_end_is_null_over_http(
    experiments: Server, asked: client.Client
) -> None:
    asked.start_experiment(
        "open", "shapes", [BASELINE, SIBLING], guard_rails=PATIENT, timeout=120
    )
    end = time.monotonic() + 120
    # Until both arms have answered in one window: an interval of latencies is open for many.
    while asked.experiment("open").arms[1].latency_ratio is None:
        assert time.monotonic() < end, asked.experiment("open")
        for number in range(20):
            asked.classify("shapes", PICTURES[:1], experiment_key=f"user-{number}")
    with urllib.request.urlopen(
        f"http://{experiments.http}/v1/experiments/open", timeout=30
    ) as answer:
        raw = answer.read().decode()
    assert re.search(r'"latency_ratio":\{[^}]*"lower":0,"upper":null', raw), raw
    ratio = client.Experiment.from_json(raw).arms[1].latency_ratio
    assert ratio is not None
    assert (ratio.lower, ratio.upper, ratio.verdict) == (0, math.inf, "UNDECIDED")


def test_asyncio_does_the_same(experiments: Server, asked: client.Client) -> None:
    async def all_of_it() -> client.Experiment:
        async with client.AsyncClient(experiments.grpc) as server:
            await server.start_experiment("async", "shapes", [BASELINE, SIBLING])
            answer = await server.classify("shapes", PICTURES, experiment_key="one")
            assert answer.receipt.experiment == "async"
            assert [one.plan.name for one in await server.experiments()] == ["async"]
            stopped = await server.stop_experiment("async")
            await server.delete_experiment("async")
            return stopped

    stopped = asyncio.run(all_of_it())
    assert sum(one.requests for one in stopped.arms) == 1


def test_another_attention_over_the_same_weights_is_an_arm(
    asked: client.Client,
) -> None:
    shadow = client.ExperimentArm(attention="knn:k=9", weight=0, shadow=True)
    started = asked.start_experiment(
        "same", "shapes", [BASELINE, shadow], guard_rails=PATIENT, timeout=120
    )
    assert started.arms[1].weights_of_attention == "dense"
    assert "shapes:knn:k=9: same weights as dense, not fine-tuned" in str(started)
    end = time.monotonic() + 120
    found = started
    while not found.arms[1].shadow_requests:
        assert time.monotonic() < end, found
        answer = asked.classify("shapes", PICTURES[:1])
        assert (answer.model, answer.attention) == ("shapes", "dense")
        found = asked.experiment("same")
    assert found.arms[1].requests == 0 and found.arms[1].attention == "knn:k=9"


def test_errors_are_the_servers(
    experiments: Server,
    asked: client.Client,
    start_server: Callable[..., Server],
    one_model: pathlib.Path,
) -> None:
    asked.start_experiment("first", "shapes", [BASELINE, SIBLING])
    detector = client.ExperimentArm(model="detector_dense", weight=1)
    for name, model, arms, code in (
        ("first", "shapes_knn", [BASELINE, detector], "ALREADY_EXISTS"),
        ("second", "shapes", [BASELINE, SIBLING], "ALREADY_EXISTS"),
        ("no name", "shapes_knn", [BASELINE, detector], "INVALID_ARGUMENT"),
        ("tasks", "shapes_knn", [BASELINE, detector], "INVALID_ARGUMENT"),
        ("alone", "shapes_knn", [BASELINE], "INVALID_ARGUMENT"),
        ("nobodys", "nobody", [BASELINE, SIBLING], "NOT_FOUND"),
    ):
        with pytest.raises(client.Error) as caught:
            asked.start_experiment(name, model, arms, timeout=60)
        assert caught.value.code == code and caught.value.message, name
    with pytest.raises(client.Error) as caught:
        asked.delete_experiment("first")
    assert caught.value.code == "FAILED_PRECONDITION"
    with pytest.raises(client.Error) as caught:
        asked.classify("shapes", PICTURES[:1], experiment_key="k" * 1000)
    assert caught.value.code == "INVALID_ARGUMENT"
    plain = start_server("--model-repository", one_model)
    with client.Client(plain.grpc) as other, pytest.raises(client.Error) as caught:
        other.experiments()
    assert caught.value.code == "UNIMPLEMENTED"


def test_the_proto_is_the_one_that_the_server_reflects(experiments: Server) -> None:
    """Names and numbers of the fields that this client reads."""
    import grpc
    from fovea.v1 import experiment_pb2
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
        ProtoReflectionDescriptorDatabase,
    )

    with grpc.insecure_channel(experiments.grpc) as channel:
        found = ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol(
            "fovea.v1.ExperimentService"
        )
    own = FileDescriptorProto()
    experiment_pb2.DESCRIPTOR.CopyToProto(own)
    assert [one.name for one in found.message_type] == [
        one.name for one in own.message_type
    ]
    for theirs, ours in zip(found.message_type, own.message_type, strict=True):
        assert [(one.name, one.number) for one in theirs.field] == [
            (one.name, one.number) for one in ours.field
        ]
