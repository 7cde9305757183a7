"""fovea.client's sweeps: what goes out, progress, and the object that comes back. The server here is a fake with fixed messages;
tests/conformance/test_served_python_sweep.py asks a real one."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import math
import pathlib
import re
import sys
import threading

import numpy as np
import pandas
import pytest
from running_server import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fake_comparison import FakeComparison, of_k, printed_as_json_and_csv, progress
from fovea import client
from fovea.sweep import sweep_of
from fovea.v1 import comparison_pb2 as pb
from html_page import Page

PICTURE = np.zeros((4, 6, 3), np.uint8)


def whole(_: object):
    yield progress("LOADING", 1, 6, pb.SweepResponse)
    yield progress("MEASURING", 20, 20, pb.SweepResponse)
    yield pb.SweepResponse(sweep=of_k())


@pytest.fixture
def sweep() -> client.Sweep:
    return sweep_of(of_k())


def test_a_sweep_is_asked_for_and_read() -> None:
    told: list[client.Progress] = []
    with FakeComparison(whole) as fake, client.Client(fake.address) as server:
        found = server.sweep(
            ["shapes", client.Variant("b", "3", "knn:k={}")],
            "k",
            [0.25, "0.5", 1.0],
            picture=PICTURE,
            rounds=7,
            max_seconds=1.5,
            batch_size=4,
            threads=2,
            id="mine",
            progress=told.append,
        )
        (request,) = fake.requests
    asked = [
        (one.model_name, one.model_version, one.attention) for one in request.variants
    ]
    assert asked == [("shapes", "", ""), ("b", "3", "knn:k={}")]
    assert (request.over, list(request.values)) == (
        pb.SweepRequest.K,
        ["0.25", "0.5", "1.0"],
    )
    assert request.image.startswith(b"\x89PNG")
    assert (request.rounds, request.max_time_us, request.batch_size) == (
        7,
        1_500_000,
        4,
    )
    assert (request.threads, request.id) == (2, "mine")
    assert told == [
        client.Progress("LOADING", 1, 6),
        client.Progress("MEASURING", 20, 20),
    ]
    knn, exact = found.curves
    assert (found.over, found.places, found.rounds) == ("K", [9, 18, 36], 20)
    assert knn.compute_exponent == client.FittedExponent(
        client.Estimate(0.5, 0.45, 0.55), 3, 1.125
    )
    assert (knn.attention_exponent, exact.compute_exponent) == (None, None)
    assert knn.points[1].compute_ms.median == 1.5
    assert knn.points[1].peak_bytes == 5 << 40
    assert exact.points[2].failure == "too <few>"
    assert exact.points[2].compute_estimate_ms is None


def test_the_servers_own_numbers_are_meant_by_none() -> None:
    with FakeComparison(whole) as fake, client.Client(fake.address) as server:
        server.sweep("shapes", "RESOLUTION", [64, 128], attentions=["dense", "knn:k=9"])
        (request,) = fake.requests
    assert [one.attention for one in request.variants] == ["dense", "knn:k=9"]
    assert list(request.values) == ["64", "128"]
    assert (request.image, request.rounds, request.max_time_us) == (b"", 0, 0)


def test_what_cannot_be_meant_is_refused_before_the_server_is_asked() -> None:
    with client.Client("127.0.0.1:1") as server:
        for over, values, options, kind, sentence in (
            ("colour", [1], {}, ValueError, "resolution, batch, k"),
            ("AXIS_UNSPECIFIED", [1], {}, ValueError, "resolution, batch, k"),
            ("k", "9", {}, TypeError, "give a list"),
            ("k", [9], {"attentions": "knn"}, TypeError, "list of texts"),
            ("k", [9], {"max_seconds": 0}, ValueError, "above zero"),
            ("k", [9], {"timeout": -1}, ValueError, "above zero"),
        ):
            with pytest.raises(kind, match=sentence):
                server.sweep("a", over, values, **options)


def test_what_progress_raises_ends_the_sweep_in_the_server() -> None:
    go_on = threading.Event()

    def endless(_: object):
        while not go_on.wait(0.01):
            yield progress("MEASURING", 1, 20, pb.SweepResponse)

    class Enough(Exception):
        pass

    def stop(_: client.Progress) -> None:
        raise Enough

    with FakeComparison(endless) as fake, client.Client(fake.address) as server:
        with pytest.raises(Enough):
            server.sweep("a", "batch", [1, 2], progress=stop)
        assert fake.cancelled.wait(30)
        go_on.set()


def test_an_end_without_a_sweep_is_an_error() -> None:
    with (
        FakeComparison(
            lambda _: iter([progress("LOADING", 0, 2, pb.SweepResponse)])
        ) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error, match="ended without a sweep"),
    ):
        server.sweep("a", "batch", [1])


def test_asyncio_sweeps_too() -> None:
    told: list[client.Progress] = []

    async def ask(address: str) -> client.Sweep:
        async with client.AsyncClient(address) as server:
            return await server.sweep(
                "shapes", "k", [9, 18, 36], attentions=["knn"], progress=told.append
            )

    with FakeComparison(whole) as fake:
        found = asyncio.run(ask(fake.address))
        assert fake.requests[0].variants[0].attention == "knn"
    assert found == sweep_of(of_k())
    assert [one.phase for one in told] == ["LOADING", "MEASURING"]


def test_json_is_read_back(sweep: client.Sweep) -> None:
    text = sweep.to_json(indent=2)
    assert client.Sweep.from_json(text) == sweep
    plain = json.loads(text)
    assert plain["over"] == "K"
    knn, exact = plain["curves"]
    assert knn["compute_exponent"]["exponent"]["value"] == 0.5
    assert "compute_exponent" not in exact
    assert exact["points"][2] == {"failure": "too <few>"}
    assert set(plain) == {field.name for field in pb.Sweep.DESCRIPTOR.fields}
    assert set(knn) <= {field.name for field in pb.SweptCurve.DESCRIPTOR.fields}
    assert set(knn["points"][0]) <= {
        field.name for field in pb.SweptPoint.DESCRIPTOR.fields
    }
    for wrong in ("[]", "{", "{}", '{"curves": 3}', '{"curve": []}', '{"over": "K"}'):
        with pytest.raises(ValueError, match="no sweep"):
            client.Sweep.from_json(wrong)
    # Neither would be read as what it says.
    knn["points"][0]["compute_ms"]["lower"] = None
    with pytest.raises(ValueError, match=r"points\[0\]\.compute_ms\.lower is null"):
        client.Sweep.from_json(json.dumps(plain))
    knn["points"][0]["compute_ms"] = {"mean": 1, "lower_quartile": 0.9}
    with pytest.raises(ValueError, match="none of the fields of Quartiles, but mean"):
        client.Sweep.from_json(json.dumps(plain))


def test_what_the_command_prints_as_json_is_read() -> None:
    with FakeComparison(whole) as fake:
        command = [BUILD / "bin/fovea", "--server", fake.address, "sweep"]
        command += ["--model", "shapes", "--over", "k", "--values", "9,18,36"]
        printed, csv = printed_as_json_and_csv(command)
    found = client.Sweep.from_json(printed)
    # The CSV has the frame's columns, and one for each thing that all points share.
    columns = pandas.read_csv(io.StringIO(csv)).columns
    frame = found.to_frame()
    assert set(columns) == {*frame.columns, *frame.attrs, "command"} - {"id"}
    # The command gives its sweeps no name.
    assert found == dataclasses.replace(sweep_of(of_k()), id="")


def test_a_frame_has_a_row_for_each_point(sweep: client.Sweep) -> None:
    frame = sweep.to_frame()
    assert len(frame) == 6
    assert frame["curve"].tolist() == ["knn"] * 3 + ["knn:exact"] * 3
    assert frame["value"].tolist() == ["9", "18", "36"] * 2
    assert frame["place"].tolist() == [9, 18, 36] * 2
    assert frame["compute_ms_median"].isna().tolist() == [False] * 5 + [True]
    assert frame["compute_exponent_exponent_value"].tolist()[:3] == [0.5] * 3
    assert frame["compute_exponent_exponent_value"].isna().tolist()[3:] == [True] * 3
    assert frame["failure"][5] == "too <few>"
    assert frame.attrs == {
        "id": "mine",
        "over": "K",
        "rounds": 20,
        "batch_size": 4,
        "threads": 2,
        "device": "CPU",
    }


def test_a_notebook_shows_curves_that_suit_light_and_dark_pages(
    sweep: client.Sweep,
) -> None:
    page = Page(sweep._repr_html_())
    tags = [tag for tag, _ in page.elements]
    assert tags.count("svg") == 3  # compute, attention, memory
    assert tags.count("circle") == 3 * 5  # a dot for each point that was measured
    assert not {"script", "style", "link", "img", "iframe"} & set(tags)
    styles = [of.get("style") or "" for _, of in page.elements]
    assert not [
        one for one in styles if re.search(r"(^|;)color:(?!inherit)|url\(", one)
    ]
    text = " ".join(page.texts)
    for part in (
        "shapes/1 over k, 2 threads of CPU, batches of 4, 20 rounds there and back of all points",
        "1.500 (1.350 to 1.800)",
        "exponent of k",
        "0.50 (0.45 to 0.55)",
        "off by",
        "12.5 %",
        "knn: same weights as dense, not fine-tuned.",
        "Not measured: knn:exact at k 36: too <few>.",
    ):
        assert part in text, text
    # Dots of a curve rise from left to right, as its times do.
    dots = [
        (float(of["cx"] or 0), float(of["cy"] or 0))
        for tag, of in page.elements
        if tag == "circle"
    ][:3]
    assert [x for x, _ in dots] == sorted(x for x, _ in dots)
    assert [y for _, y in dots] == sorted((y for _, y in dots), reverse=True)
    # The places are even on a logarithmic scale.
    assert dots[1][0] - dots[0][0] == pytest.approx(dots[2][0] - dots[1][0], abs=0.2)


def test_multiply_adds_that_were_not_counted_are_no_zero() -> None:
    message = of_k()
    message.curves[0].points[1].multiply_adds = 0
    found = sweep_of(message)
    rows = [line.split() for line in str(found).splitlines() if "knn  " in line]
    assert [row[-1] for row in rows[:3]] == ["0.052", "-", "0.052"]
    texts = [one for one in Page(found._repr_html_()).texts if one.strip()]
    first = texts.index("0.052")  # behind the others of its row, of seven cells
    assert [texts[first + 7 * row] for row in range(3)] == ["0.052", "-", "0.052"]


def test_where_there_is_no_attention_its_time_is_no_zero() -> None:
    message = of_k()
    for point in message.curves[0].points:
        point.ClearField("attention_ms")
    found = sweep_of(message)
    assert [one.attention_ms for one in found.curves[0].points] == [None] * 3
    rows = [line.split() for line in str(found).splitlines() if "knn  " in line]
    assert all("-" in row for row in rows[:3])
    # A plot of compute, one of memory, and one of attention for the other curves alone.
    assert found._repr_html_().count("<svg") == 2 + (len(found.curves) > 1)
    assert client.Sweep.from_json(found.to_json()) == found
    message.curves[0].points[1].attention_left_out = True
    notes = str(sweep_of(message)).splitlines()
    assert len([one for one in notes if "it would exceed compute" in one]) == 1


def test_a_sweep_without_points_or_numbers_is_shown() -> None:
    message = of_k()
    message.over = pb.SweepRequest.PRECISION
    del message.places[:]
    for curve in message.curves:
        curve.ClearField("compute_exponent")
        for point in curve.points:
            point.CopyFrom(pb.SweptPoint(failure="no"))
    found = sweep_of(message)
    assert "svg" not in {tag for tag, _ in Page(found._repr_html_()).elements}
    assert "there is no exponent" in str(found)
    assert "place" not in found.to_frame()
    message.over = 99
    assert sweep_of(message).over == ""


def test_of_too_few_rounds_an_exponent_has_no_interval() -> None:
    message = of_k()
    exponent = message.curves[0].compute_exponent.exponent
    exponent.lower, exponent.upper = -math.inf, math.inf
    found = sweep_of(message)
    for text in (str(found), found._repr_html_()):
        assert "0.50" in text
        assert "inf" not in text
    assert '"lower": "-Infinity"' in found.to_json()
    assert client.Sweep.from_json(found.to_json()) == found


def test_printed_it_is_plain_tables(sweep: client.Sweep) -> None:
    title, _, head, *rest = str(sweep).splitlines()
    assert title.startswith("shapes/1 over k")
    assert head.split()[:2] == ["curve", "k"]
    assert rest[0].split()[:3] == ["knn", "9", "1.000"]
    (number,) = (i for i, one in enumerate(rest) if one.startswith("exponent of k"))
    assert rest[number].split()[3:] == ["compute", "off", "by", "attention", "off", "by", "peak", "memory", "points"]  # fmt: skip
    assert re.split("  +", rest[number + 1]) == [
        *("knn", "0.50 (0.45 to 0.55)", "12.5 %", "-", "-", "-", "3")
    ]


def test_what_is_one_or_does_not_move_is_told_so() -> None:
    message = of_k()
    message.threads = message.rounds = 1
    exponent = message.curves[0].compute_exponent.exponent
    exponent.value = exponent.lower = exponent.upper = 1
    text = str(sweep_of(message))
    assert "1 thread of CPU" in text and "1 round there" in text
    assert re.search(r"\nknn +1\.00 +12\.5 %", text)
    for curve in message.curves:
        curve.ClearField("compute_exponent")
    assert "An exponent needs three points of a curve." in str(sweep_of(message))


@pytest.mark.parametrize(
    ("field", "first", "second"),
    [("model_version", "shapes/1", "shapes/2"), ("model_name", "shapes/1", "2/1")],
)
def test_curves_of_several_models_or_versions_have_names_of_their_own(
    field: str, first: str, second: str
) -> None:
    message = of_k()
    setattr(message.curves[1], field, "2")
    message.curves[1].attention = ""
    text = str(sweep_of(message))
    assert f"\n{first}, knn " in text
    assert f"\n{second}, no attention " in text
    assert text.startswith(f"{first}, {second} over k")
