"""fovea.client's experiments: what goes out, and the objects that come back. The server here is a fake with fixed messages;
tests/conformance/test_served_python_experiments.py asks a real one."""

from __future__ import annotations

import asyncio
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from running_server import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fake_experiments import FakeExperiments, of_classifier
from fake_vision import FakeVision, class_map, classes, objects
from fovea import client
from fovea.experiment import experiment_of
from fovea.v1 import experiment_pb2 as pb
from html_page import Page

PICTURE = np.zeros((4, 6, 3), np.uint8)
ARMS = [
    client.ExperimentArm(weight=9),
    client.ExperimentArm(attention="knn:k=0.5", weight=1, shadow=True),
    client.ExperimentArm(model="other", version="3", weight=0.5),
]


@pytest.fixture
def experiment() -> client.Experiment:
    return experiment_of(of_classifier())


def test_an_experiment_is_started_read_stopped_and_deleted() -> None:
    with FakeExperiments() as fake, client.Client(fake.address) as server:
        started = server.start_experiment(
            "night",
            "shapes",
            ARMS,
            guard_rails=client.GuardRails(
                max_latency_ratio=1.5,
                max_disagreement=0.25,
                max_error_excess=0.125,
                max_seconds=60,
                max_shadow_share=0.5,
            ),
            error_probability=0.25,
            latency_margin=0.0625,
            disagreement_margin=0.03125,
        )
        (request,) = fake.requests
        assert server.experiment("night") == started
        assert server.experiments() == [started]
        with pytest.raises(client.Error, match="it runs") as runs:
            server.delete_experiment("night")
        stopped = server.stop_experiment("night")
        server.delete_experiment("night")
        assert server.experiments() == []
    plan = request.plan
    assert (plan.name, plan.model_name) == ("night", "shapes")
    assert [
        (one.variant.model_name, one.variant.model_version, one.variant.attention)
        for one in plan.arms
    ] == [("shapes", "", ""), ("shapes", "", "knn:k=0.5"), ("other", "3", "")]
    assert [(one.weight, one.shadow) for one in plan.arms] == [
        (9, False),
        (1, True),
        (0.5, False),
    ]
    rails = plan.guard_rails
    assert (rails.max_latency_ratio, rails.max_disagreement) == (1.5, 0.25)
    assert (rails.max_error_excess, rails.max_seconds) == (0.125, 60)
    assert rails.max_shadow_share == 0.5
    assert (plan.error_probability, plan.latency_margin) == (0.25, 0.0625)
    assert plan.disagreement_margin == 0.03125
    assert runs.value.code == "FAILED_PRECONDITION"
    assert started.running and not stopped.running
    assert (stopped.state, stopped.reason) == ("STOPPED", "a caller stopped it")


def test_what_it_tells_is_read(experiment: client.Experiment) -> None:
    assert (experiment.state, experiment.reason) == ("RUNNING", "")
    assert experiment.running_seconds == 3725.5
    assert experiment.plan.arms[1] == client.ExperimentArm(
        model="shapes", attention="knn:k=0.5", weight=1, shadow=True
    )
    assert experiment.plan.guard_rails.max_seconds == 604_800
    dense, knn = experiment.arms
    assert (dense.name, knn.name) == ("shapes:dense", "shapes:knn:k=0.5")
    assert (dense.requests, dense.failures) == (9 << 40, 2)
    assert (dense.latency_ratio, dense.disagreement, dense.error_excess) == (None,) * 3
    assert (knn.shadow_requests, knn.shadow_skipped) == (40, 7)
    assert knn.weights_of_attention == "dense"
    assert knn.latency_ratio == client.SequentialTest(1.1875, 1.125, 1.25, 40, "HIGHER")
    assert knn.disagreement is not None and knn.disagreement.verdict == "UNDECIDED"
    assert knn.error_excess is not None
    assert knn.error_excess.verdict == "EQUIVALENT"


def test_errors_are_the_servers() -> None:
    with FakeExperiments() as fake, client.Client(fake.address) as server:
        for ask in (
            server.experiment,
            server.stop_experiment,
            server.delete_experiment,
        ):
            with pytest.raises(client.Error, match="none of that name") as caught:
                ask("nobody")
            assert caught.value.code == "NOT_FOUND"
        with pytest.raises(client.Error, match="one of that name") as taken:
            server.start_experiment("taken", "shapes", ARMS)
        assert taken.value.reason == "experiment.exists"
        for timeout in (0, -1):
            with pytest.raises(ValueError, match="above zero"):
                server.start_experiment("night", "shapes", ARMS, timeout=timeout)
            with pytest.raises(ValueError, match="above zero"):
                server.experiment("night", timeout=timeout)
    with (
        FakeVision(Classify=lambda *_: classes()) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error, match="does not know this call"),
    ):
        server.experiments()


def test_asyncio_does_the_same() -> None:
    async def ask(address: str) -> tuple[client.Experiment, client.Experiment]:
        async with client.AsyncClient(address) as server:
            started = await server.start_experiment("night", "shapes", ARMS)
            assert await server.experiment("night") == started
            assert await server.experiments() == [started]
            stopped = await server.stop_experiment("night")
            await server.delete_experiment("night")
            assert await server.experiments() == []
            with pytest.raises(client.Error, match="none of that name"):
                await server.experiment("night")
            return started, stopped

    with FakeExperiments() as fake:
        started, stopped = asyncio.run(ask(fake.address))
        assert fake.requests[0].plan.arms[1].variant.attention == "knn:k=0.5"
    assert started == experiment_of(of_classifier())
    assert stopped.state == "STOPPED"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_key_goes_with_inference_and_the_receipt_names_the_arm(
    asynchronous: bool,
) -> None:
    async def in_order(address: str, key: str) -> list[client.Receipt]:
        async with client.AsyncClient(address) as server:
            answers = [
                await ask("shapes", [PICTURE], experiment_key=key)
                for ask in (server.classify, server.detect, server.segment)
            ]
            return [one.receipt for one in answers]

    results = {
        "Classify": lambda *_: classes((0, "ring", 0.5)),
        "Detect": lambda *_: objects((4, 6)),
        "Segment": lambda *_: class_map(np.zeros((4, 6), np.uint8), {}),
    }
    with FakeVision(**results) as fake:
        if asynchronous:
            keyed = asyncio.run(in_order(fake.address, "caller 7"))
            plain = asyncio.run(in_order(fake.address, ""))
        else:
            with client.Client(fake.address, api_key="mine") as server:
                asks = (server.classify, server.detect, server.segment)
                keyed = [
                    ask("shapes", [PICTURE], experiment_key="caller 7").receipt
                    for ask in asks
                ]
                plain = [ask("shapes", [PICTURE]).receipt for ask in asks]
                for key in ("line\nbreak", "café", "\x7f"):
                    with pytest.raises(ValueError, match="printable ASCII"):
                        server.classify("shapes", [PICTURE], experiment_key=key)
            assert fake.metadata[0]["authorization"] == "Bearer mine"
        sent = [one.get("fovea-experiment-key") for one in fake.metadata]
        assert sent == ["caller 7"] * 3 + [None] * 3
    assert {(one.experiment, one.experiment_arm) for one in keyed} == {
        ("night", "shapes/caller 7")
    }
    assert {(one.experiment, one.experiment_arm) for one in plain} == {("", "")}


def test_json_is_read_back(experiment: client.Experiment) -> None:
    text = experiment.to_json(indent=2)
    assert client.Experiment.from_json(text) == experiment
    plain = json.loads(text)
    # The proto's names, and numbers as numbers.
    assert set(plain) == {field.name for field in pb.Experiment.DESCRIPTOR.fields}
    assert set(plain["plan"]) == {
        field.name for field in pb.ExperimentPlan.DESCRIPTOR.fields
    }
    assert plain["plan"]["arms"][1]["variant"]["attention"] == "knn:k=0.5"
    dense, knn = plain["arms"]
    assert set(knn) == {field.name for field in pb.ArmReport.DESCRIPTOR.fields}
    assert dense["requests"] == 9 << 40 and "latency_ratio" not in dense
    assert plain["state"] == "RUNNING"
    for wrong in ("[]", "{", "{}", '{"arms": 3}'):
        with pytest.raises(ValueError, match="no experiment"):
            client.Experiment.from_json(wrong)
    # As a server writes an open end over HTTP.
    knn["latency_ratio"]["upper"] = None
    read = client.Experiment.from_json(json.dumps(plain))
    assert read.arms[1].latency_ratio.upper == float("inf")
    # Neither would be read as what it says.
    knn["latency_ratio"]["estimate"] = None
    with pytest.raises(ValueError, match=r"arms\[1\]\.latency_ratio\.estimate is null"):
        client.Experiment.from_json(json.dumps(plain))
    knn["latency_ratio"] = {"mean": 1.2, "interval": [1.1, 1.3]}
    with pytest.raises(ValueError, match="but mean, interval"):
        client.Experiment.from_json(json.dumps(plain))


def test_what_the_command_prints_as_json_is_read() -> None:
    message = of_classifier()
    message.arms[1].latency_ratio.lower = 0
    message.arms[1].latency_ratio.upper = float("inf")
    with FakeExperiments(message) as fake, client.Client(fake.address) as server:
        started = server.start_experiment("night", "shapes", ARMS)
        command = [BUILD / "bin/fovea", "--server", fake.address, "experiment"]
        printed = subprocess.run(
            [*command, "show", "night", "--json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    assert client.Experiment.from_json(printed) == started
    assert started.arms[1].latency_ratio.upper == float("inf")


def test_a_frame_has_a_row_for_each_arm(experiment: client.Experiment) -> None:
    frame = experiment.to_frame()
    assert frame["name"].tolist() == ["shapes:dense", "shapes:knn:k=0.5"]
    assert frame["attention"].tolist() == ["dense", "knn:k=0.5"]
    assert frame["weight"].tolist() == [9, 1]
    assert frame["requests"].tolist() == [9 << 40, 100]
    assert frame["latency_ratio_lower"].isna().tolist() == [True, False]
    assert frame["latency_ratio_upper"][1] == 1.25
    assert frame["disagreement_verdict"].tolist() == ["", "UNDECIDED"]
    assert frame["measured_at"].tolist() == ["2026-03-01T14:05:09Z"] * 2
    assert frame.attrs["name"] == "night" and frame.attrs["state"] == "RUNNING"


def test_a_notebook_shows_a_table_that_suits_light_and_dark_pages(
    experiment: client.Experiment,
) -> None:
    page = Page(experiment._repr_html_())
    tags = [tag for tag, _ in page.elements]
    assert tags.count("tr") == 3 and tags.count("th") == tags.count("td") / 2
    assert not {"script", "style", "link", "img", "iframe"} & set(tags)
    styles = [of.get("style") or "" for _, of in page.elements]
    assert not [
        one for one in styles if re.search(r"(^|;)color:(?!inherit)|font|url\(", one)
    ]
    text = " ".join(page.texts)
    for part in (
        "night: running for 1h2m5s on the traffic of shapes",
        "shapes:dense",
        "shapes/1",
        "90.0 %",
        "10.0 % and shadow",
        "slower: 1.188 [1.125, 1.250]",
        "undecided: 6.2 % [0.0, 25.0]",
        "equivalent: 0.0 % [-3.1, 3.1]",
        "with a probability of 95.0 %",
        "shapes:knn:k=0.5: same weights as dense, not fine-tuned.",
    ):
        assert part in text, text
    # A line at no difference and a bar for each interval: left of the cell, and width.
    drawn = [
        (float(left[1]), width[1])
        for one in styles
        if (left := re.search(r"left:([\d.]+)%", one))
        and (width := re.search(r"width:([\d.]+(?:px|%))", one))
    ]
    assert drawn == [
        *((50.0, "1px"), (58.5, "7.6%")),  # from half to twice, by the logarithm
        *((0.0, "1px"), (0.0, "25.0%")),
        *((50.0, "1px"), (48.4, "3.1%")),
    ]


def test_the_texts_of_a_server_are_escaped() -> None:
    message = of_classifier()
    message.plan.arms[0].variant.model_name = '<script>alert("x")</script>'
    message.arms[0].name = message.arms[1].name = "<b>arm</b>"
    message.state, message.reason = pb.Experiment.GUARD_RAIL, "<b>"
    page = Page(experiment_of(message)._repr_html_())
    assert not {"script", "b"} & {tag for tag, _ in page.elements}
    text = "".join(page.texts)
    assert '<script>alert("x")</script>/1' in text
    assert text.count("<b>arm</b>") == 3  # in both rows, and in the note
    assert "ended by a guard rail after 1h2m5s: <b>; all traffic of shapes" in text


def test_printed_it_is_a_plain_table(experiment: client.Experiment) -> None:
    title, head, dense, knn, *notes = str(experiment).splitlines()
    assert title == "night: running for 1h2m5s on the traffic of shapes"
    assert head.split()[:3] == ["arm", "model", "traffic"]
    assert dense.split()[:2] == ["shapes:dense", "shapes/1"] and dense.endswith(
        "baseline"
    )
    assert head.index("latency") == knn.index("slower: 1.188")
    assert any("not fine-tuned" in note for note in notes)


def test_arms_that_only_shadow_and_intervals_without_an_end() -> None:
    message = of_classifier()
    message.plan.arms[1].weight = 0
    message.arms[1].requests = 0
    message.arms[1].latency_ratio.lower = 0
    message.arms[1].latency_ratio.upper = float("inf")
    found = experiment_of(message)
    assert " shadow " in str(found) and "100.0 %" in str(found)
    assert "undecided: too few yet (40)" in str(found)
    assert client.Experiment.from_json(found.to_json()) == found
    Page(found._repr_html_())


def test_what_a_newer_server_says_is_no_error() -> None:
    message = of_classifier()
    message.state, message.arms[1].latency_ratio.verdict = 99, 99
    found = experiment_of(message)
    assert found.state == "" and not found.running
    assert found.arms[1].latency_ratio is not None
    assert found.arms[1].latency_ratio.verdict == ""
    assert "state that this client does not know" in str(found)


def test_an_experiment_without_its_plans_arms_is_an_error() -> None:
    message = of_classifier()
    del message.arms[1]
    with pytest.raises(client.Error, match="1 arms, its plan 2"):
        experiment_of(message)
