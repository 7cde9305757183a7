"""fovea.client's comparisons: what goes out, progress, and the object that comes back. The server here is a fake with fixed
messages; tests/conformance/test_served_python_comparison.py asks a real one."""

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

from fake_comparison import (
    FakeComparison,
    of_classifier,
    of_k,
    printed_as_json_and_csv,
    progress,
    variant,
)
from fake_vision import FakeVision, classes
from fovea import client
from fovea.comparison import comparison_of
from fovea.sweep import sweep_of
from fovea.v1 import comparison_pb2 as pb
from html_page import Page

PICTURE = np.zeros((4, 6, 3), np.uint8)


def whole(_: object):
    yield progress("LOADING", 1, 2)
    measuring = progress("MEASURING", 20, 20)
    for ratio in (1, 1.25):
        times = pb.Quartiles(lower=1, median=2 * ratio, upper=4)
        measuring.progress.so_far.add(compute_ms=times, ratio=ratio)
    yield measuring
    yield pb.CompareResponse(comparison=of_classifier())


@pytest.fixture
def comparison() -> client.Comparison:
    return comparison_of(of_classifier())


def test_a_comparison_is_asked_for_and_read() -> None:
    told: list[client.Progress] = []
    with FakeComparison(whole) as fake, client.Client(fake.address) as server:
        found = server.compare(
            "shapes",
            [PICTURE, PICTURE],
            attentions=["dense", "knn:k=0.5"],
            rounds=7,
            max_rounds=50,
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
    assert asked == [("shapes", "", "dense"), ("shapes", "", "knn:k=0.5")]
    assert len(request.images) == 2 and request.images[0].startswith(b"\x89PNG")
    assert (request.rounds, request.max_rounds) == (7, 50)
    assert (request.max_time_us, request.batch_size) == (1_500_000, 4)
    assert (request.threads, request.id) == (2, "mine")
    assert told == [
        client.Progress("LOADING", 1, 2),
        client.Progress(
            "MEASURING",
            20,
            20,
            (
                client.TimeSoFar(client.Quartiles(1, 2, 4), 1),
                client.TimeSoFar(client.Quartiles(1, 2.5, 4), 1.25),
            ),
        ),
    ]
    dense, knn = found.variants
    assert (dense.agreement, dense.feature_cosine, dense.compute.ratio) == (None,) * 3
    assert knn.compute.ratio.value == 1.25 and knn.compute.verdict == "SLOWER"
    assert knn.agreement == client.ClassAgreement(2, 1, 0.9, 0.125, 0.0625)
    assert knn.weights_of_attention == "dense" and knn.weight_bytes == 5 << 40
    assert found.control.verdict == "EQUIVALENT"
    assert (found.rounds, found.threads, found.device) == (20, 2, "CPU")
    assert found.images[0] == client.ComparedImage(64, 80)
    assert knn.answers == [client.BriefAnswer("ring", 0.75, 0)] * 2
    assert knn.decode_ms.median == 0.5 and knn.preprocess_ms.median == 0.125


def test_each_model_is_asked_for_with_each_attention() -> None:
    other = client.Variant("b", "3", "knn:k=5")
    for models, attentions, expected in (
        (["a", "b"], [], [("a", "", ""), ("b", "", "")]),
        (["a", other], [], [("a", "", ""), ("b", "3", "knn:k=5")]),
        (
            ["a", client.Variant("b", "3")],
            ["dense", "x"],
            [("a", "", "dense"), ("a", "", "x"), ("b", "3", "dense"), ("b", "3", "x")],
        ),
        # As the command and POST /v1/compare: one attention is compared with the model's own.
        ("a", ["x"], [("a", "", ""), ("a", "", "x")]),
        (
            ["a", "b"],
            ["x"],
            [("a", "", ""), ("a", "", "x"), ("b", "", ""), ("b", "", "x")],
        ),
    ):
        with FakeComparison(whole) as fake, client.Client(fake.address) as server:
            server.compare(models, [PICTURE], attentions=attentions)
            (request,) = fake.requests
        asked = [
            (one.model_name, one.model_version, one.attention)
            for one in request.variants
        ]
        assert asked == expected
        assert (request.rounds, request.max_time_us) == (0, 0)  # the server's own


def test_what_cannot_be_meant_is_refused_before_the_server_is_asked() -> None:
    own = client.Variant("b", attention="knn:k=5")
    with client.Client("127.0.0.1:1") as server:
        for options, kind, sentence in (
            ({"attentions": "dense"}, TypeError, "list of texts"),
            ({"max_seconds": 0}, ValueError, "above zero"),
            ({"max_seconds": math.nan}, ValueError, "above zero"),
            ({"timeout": -1}, ValueError, "above zero"),
        ):
            with pytest.raises(kind, match=sentence):
                server.compare("a", [PICTURE], **options)
        with pytest.raises(ValueError, match="attention of its own"):
            server.compare(own, [PICTURE], attentions=["dense"])


def test_what_progress_raises_ends_the_comparison_in_the_server() -> None:
    go_on = threading.Event()

    def endless(_: object):
        while not go_on.wait(0.01):
            yield progress("MEASURING", 1, 20)

    class Enough(Exception):
        pass

    def stop(_: client.Progress) -> None:
        raise Enough

    with FakeComparison(endless) as fake, client.Client(fake.address) as server:
        with pytest.raises(Enough):
            server.compare("a", [PICTURE], progress=stop)
        assert fake.cancelled.wait(30)
        go_on.set()


def test_a_server_without_comparisons_says_so() -> None:
    with (
        FakeVision(Classify=lambda *_: classes()) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error, match="does not know this call") as caught,
    ):
        server.compare("a", [PICTURE])
    assert caught.value.code == "UNIMPLEMENTED"


def test_an_end_without_a_comparison_is_an_error() -> None:
    with (
        FakeComparison(lambda _: iter([progress("LOADING", 0, 2)])) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error, match="ended without a comparison"),
    ):
        server.compare("a", [PICTURE])


def test_asyncio_compares_too() -> None:
    told: list[client.Progress] = []

    async def ask(address: str) -> client.Comparison:
        async with client.AsyncClient(address) as server:
            return await server.compare(
                "shapes", [PICTURE], attentions=["dense"], progress=told.append
            )

    with FakeComparison(whole) as fake:
        found = asyncio.run(ask(fake.address))
        asked = [one.attention for one in fake.requests[0].variants]
        assert asked == ["", "dense"]
    assert found == comparison_of(of_classifier())
    assert [one.phase for one in told] == ["LOADING", "MEASURING"]


def test_json_is_read_back(comparison: client.Comparison) -> None:
    text = comparison.to_json(indent=2)
    assert client.Comparison.from_json(text) == comparison
    plain = json.loads(text)
    # As POST /v1/compare writes it: the proto's names, numbers as numbers.
    knn = plain["variants"][1]
    assert knn["classes"]["same_top1"] == 1 and knn["weight_bytes"] == 5 << 40
    assert knn["compute"]["ratio"]["value"] == 1.25
    assert "agreement" not in knn and "feature_cosine" not in plain["variants"][0]
    assert set(plain) == {field.name for field in pb.Comparison.DESCRIPTOR.fields}
    assert set(knn) <= {field.name for field in pb.ComparedVariant.DESCRIPTOR.fields}
    for wrong in ("[]", "{", "{}", '{"variants": 3}', '{"variants": []}', "null"):
        with pytest.raises(ValueError, match="no comparison"):
            client.Comparison.from_json(wrong)
    # A sweep has fields of the same names.
    with pytest.raises(ValueError, match="no comparison: it has no variants"):
        client.Comparison.from_json(sweep_of(of_k()).to_json())
    # Infinity has a name in JSON.
    agreement = dataclasses.replace(
        comparison.variants[1].agreement, kl_divergence=float("inf")
    )
    variants = [
        comparison.variants[0],
        dataclasses.replace(comparison.variants[1], agreement=agreement),
    ]
    endless = dataclasses.replace(comparison, variants=variants)
    assert client.Comparison.from_json(endless.to_json()) == endless
    # As a server writes it over HTTP.
    knn["classes"]["kl_divergence"] = None
    assert client.Comparison.from_json(json.dumps(plain)) == endless


def test_what_a_newer_server_adds_is_passed_over(
    comparison: client.Comparison,
) -> None:
    plain = comparison.to_dict()
    knn = plain["variants"][1]
    plain["energy_joules"] = None
    knn["threads_seen"] = {"lower": 1}
    knn["compute"]["ratio"]["shape"] = [None]
    knn["answers"][0]["rank"] = 1
    assert client.Comparison.from_json(json.dumps(plain)) == comparison
    knn["compute"]["verdict"] = "MUCH_SLOWER"
    assert client.Comparison.from_json(json.dumps(plain)).variants[1] == (
        dataclasses.replace(
            comparison.variants[1],
            compute=dataclasses.replace(comparison.variants[1].compute, verdict=""),
        )
    )


def test_what_the_command_prints_as_json_is_read(tmp_path: pathlib.Path) -> None:
    message = of_classifier()
    message.variants[1].classes.kl_divergence = float("inf")
    message.variants[1].compute.ratio.upper = float("inf")

    def answer(_: object):
        yield pb.CompareResponse(comparison=message)

    picture = tmp_path / "cat.jpg"
    picture.write_bytes(b"whatever the server decodes")
    with FakeComparison(answer) as fake:
        command = [BUILD / "bin/fovea", "--server", fake.address, "compare", picture]
        command += ["--model", "shapes", "--attention", "knn:k=0.5"]
        printed, csv = printed_as_json_and_csv(command)
    plain = json.loads(printed)
    assert plain["images"][0]["file"] == str(picture)
    assert plain["command"].endswith("--attention knn:k=0.5 --json")
    found = client.Comparison.from_json(printed)
    # The CSV has the frame's columns, and one for each thing that all variants share.
    columns = pandas.read_csv(io.StringIO(csv)).columns
    frame = found.to_frame()
    assert set(columns) == {*frame.columns, *frame.attrs, "command"} - {"id"}
    # The command gives its comparisons no name.
    assert found == dataclasses.replace(comparison_of(message), id="")


def test_a_frame_has_a_row_for_each_variant(comparison: client.Comparison) -> None:
    frame = comparison.to_frame()
    assert frame["attention"].tolist() == ["dense", "knn:k=0.5"]
    assert frame["compute_ms_median"].tolist() == [2, 2.5]
    assert frame["compute_ratio_value"].isna().tolist() == [True, False]
    assert frame["compute_ratio_upper"][1] == pytest.approx(1.375)
    assert frame["classes_kl_divergence"][1] == 0.125
    assert frame["peak_bytes"].dtype == np.int64
    # A quartile is no bound of an interval.
    assert {"compute_ms_q1", "compute_ms_q3"} < set(frame)
    assert not {"compute_ms_lower", "compute_ms_upper"} & set(frame)
    assert frame["measured_at"].tolist() == ["2026-03-01T14:05:09Z"] * 2
    assert frame["measured_processor"].tolist() == ["A processor"] * 2
    assert frame.attrs["rounds"] == 20 and frame.attrs["control_ms_median"] == 2


def test_a_notebook_shows_a_table_that_suits_light_and_dark_pages(
    comparison: client.Comparison,
) -> None:
    page = Page(comparison._repr_html_())
    tags = [tag for tag, _ in page.elements]
    assert tags.count("tr") == 4  # head, two variants, the control
    assert tags.count("th") == tags.count("td") / 3
    assert not {"script", "style", "link", "img", "iframe"} & set(tags)
    styles = [of.get("style") or "" for _, of in page.elements]
    assert not [
        one for one in styles if re.search(r"(^|;)color:(?!inherit)|font|url\(", one)
    ]
    # Only bars have a colour of their own.
    coloured = {
        tag for tag, of in page.elements if "background" in (of.get("style") or "")
    }
    assert coloured == {"span"}
    text = " ".join(page.texts)
    for part in (
        "shapes on CPU, 2 threads: 20 rounds, batches of 1, 2 pictures",
        "2.500 (2.250 to 3.000)",  # the interval below it
        "1.250× (1.125 to 1.375)",
        "slower",
        "same class 1 of 2, KL 0.125, cosine 0.9688",
        "knn:k=0.5: same weights as dense, not fine-tuned.",
    ):
        assert part in text, text
    # The slowest fills its cell; a quarter of it is the attention's.
    widths = [
        float(found[1])
        for one in styles
        if "background" in one and (found := re.search(r"width:([\d.]+)%", one))
    ]
    assert widths == [20, 60, 100, 0, 25, 75, 100, 0] or widths == [
        *(20, 60, 0, 100),
        *(25, 75, 0, 100),
    ]


def test_multiply_adds_that_were_not_counted_are_no_zero() -> None:
    message = of_classifier()
    message.variants[1].multiply_adds = 0
    found = comparison_of(message)
    _, head, *rows = str(found).splitlines()
    column = head.index("G multiply-adds")
    assert [row[column:].split()[0] for row in rows[:2]] == ["0.052", "-"]
    texts = [one for one in Page(found._repr_html_()).texts if one.strip()]
    assert texts[texts.index("same class 1 of 2, KL 0.125, cosine 0.9688") - 1] == "-"


def test_where_there_is_no_attention_its_time_is_no_zero() -> None:
    message = of_classifier()
    message.variants[1].ClearField("attention_ms")
    found = comparison_of(message)
    assert found.variants[1].attention_ms is None
    _, head, *rows = str(found).splitlines()
    column = head.index("attention ms")
    shown = [row[column:].split()[0] for row in rows[:2]]
    assert shown[0] != "-" and shown[1] == "-"
    assert "attention_ms" not in found.to_dict()["variants"][1]
    assert client.Comparison.from_json(found.to_json()) == found
    assert "-" in [one.strip() for one in Page(found._repr_html_()).texts]
    assert "left out" not in str(found)


def test_attention_that_contradicts_compute_is_left_out_with_a_word() -> None:
    message = of_classifier()
    message.variants[1].ClearField("attention_ms")
    message.variants[1].attention_left_out = True
    found = comparison_of(message)
    note = "The attention time of knn:k=0.5 is left out: it would exceed compute, of which it is a part."
    assert note in str(found).splitlines()
    assert note in Page(found._repr_html_()).texts
    assert [one["attention_left_out"] for one in found.to_dict()["variants"]] == [
        False,
        True,
    ]
    assert client.Comparison.from_json(found.to_json()) == found


def test_the_texts_of_a_server_are_escaped() -> None:
    message = of_classifier()
    message.variants[0].model_name = '<script>alert("x")</script>'
    message.device = "<b>"
    found = comparison_of(message)
    page = Page(found._repr_html_())
    assert not {"script", "b"} & {tag for tag, _ in page.elements}
    assert '<script>alert("x")</script>' in "".join(page.texts)


def test_printed_it_is_a_plain_table(comparison: client.Comparison) -> None:
    title, head, dense, knn, control, *notes = str(comparison).splitlines()
    assert title.startswith("shapes on CPU")
    assert head.split()[:2] == ["variant", "compute"]
    assert dense.split()[0] == "dense" and "baseline" in dense
    assert "slower" in knn and "control" in control
    assert head.index("compute ms") == knn.index("2.500")
    assert any("not fine-tuned" in note for note in notes)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (
            {
                "objects": pb.ObjectAgreement(
                    baseline_objects=4, objects=5, matched=3, mean_box_iou=0.75
                )
            },
            ["3 of 4 objects, 5 found", "box IoU 0.750"],
        ),
        (
            {
                "objects": pb.ObjectAgreement(
                    baseline_objects=4,
                    objects=5,
                    matched=3,
                    mean_box_iou=0.75,
                    mean_mask_iou=0.5,
                )
            },
            ["mask IoU 0.500"],
        ),
        (
            {"maps": pb.MapAgreement(same_pixels=0.875, mean_iou=0.5)},
            ["87.5 % of pixels", "mIoU 0.500"],
        ),
        ({"untrained": True}, ["shapes is untrained"]),
        ({"model_name": "other"}, ["shapes/1, dense", "other/1, dense"]),
        ({"model_version": "2"}, ["shapes/1, dense", "shapes/2, dense"]),
    ],
)
def test_other_tasks_and_warnings_are_told(fields: dict, parts: list[str]) -> None:
    message = of_classifier()
    message.variants.append(variant("dense", 3, **fields))
    found = comparison_of(message)
    for part in parts:
        assert part in str(found)
        assert part in " ".join(Page(found._repr_html_()).texts)
    assert client.Comparison.from_json(found.to_json()) == found
    assert len(found.to_frame()) == 3


def test_a_verdict_of_a_newer_server_is_no_error() -> None:
    message = of_classifier()
    message.variants[1].compute.verdict = 99
    found = comparison_of(message)
    assert found.variants[1].compute.verdict == ""
    dense, knn = str(found).splitlines()[2:4]
    assert "baseline" in dense and "baseline" not in knn
    assert "unknown: the server is newer" in knn
