"""The playground's comparisons and pictures of attention: against the real server, and, where the test says so, against answers
that it writes itself, in the shape that the server's have."""

from __future__ import annotations

import io
import json
import pathlib
import re
import sys
from collections.abc import Callable

import pytest
import shown_numbers
import written_answers as written
from google.protobuf import json_format
from PIL import Image
from playwright.sync_api import Page, Route, expect
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))
from fovea.v1 import comparison_pb2

Open = Callable[..., Page]
PICTURE = (ROOT / "client/examples/star.jpg").read_bytes()
SIBLINGS = "#compare?v=shapes&v=shapes_knn&example=star.jpg"
OTHER_ATTENTION = "#compare?v=shapes&v=shapes~knn%3Ak%3D9&example=star.jpg"


def compare(page: Page) -> None:
    page.get_by_role("button", name="Compare", exact=True).click()


def saved(page: Page) -> dict:
    """The comparison that the page offers to save."""
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as JSON").click()
    return json.loads(pathlib.Path(download.value.path()).read_text())


def expect_table(page: Page, comparison: dict) -> None:
    rows = page.locator("table.compared tbody tr")
    expect(rows).to_have_count(len(comparison["variants"]))
    for row, cells in zip(rows.all(), shown_numbers.table_of(comparison), strict=True):
        expect(row.locator("td")).to_have_text(cells)


AGREEMENTS = {
    "classes": written.CLASSES,
    "objects": written.OBJECTS,
    "masks": written.OBJECTS_WITH_MASKS,
    "maps": written.MAPS,
}


@pytest.mark.parametrize("kind", AGREEMENTS)
def test_what_these_tests_write_is_what_a_server_may_say(kind: str) -> None:
    json_format.ParseDict(
        written.comparison(AGREEMENTS[kind]), comparison_pb2.Comparison()
    )
    json_format.ParseDict(written.MEASURED, comparison_pb2.Provenance())
    json_format.ParseDict(
        written.SO_FAR["progress"], comparison_pb2.ComparisonProgress()
    )


@pytest.fixture(scope="module")
def comparing(tmp_path_factory: pytest.TempPathFactory):
    running = Server(
        tmp_path_factory.mktemp("comparing") / "server.log",
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *("--load-model", "shapes", "--load-model", "shapes_knn"),
        *("--enable-experiments", "--threads", "1"),
    )
    yield running
    code = running.terminate()
    running.close()
    assert code == 0


def test_a_server_compares_two_attentions_over_the_same_weights(
    comparing: Server, open_page: Open
) -> None:
    page = open_page(comparing.http, OTHER_ATTENTION)
    page.locator("#rounds").fill("20")
    compare(page)
    expect(page.locator("#compare-progress")).to_be_visible()
    table = page.locator("table.compared tbody tr")
    expect(table).to_have_count(2, timeout=120_000)
    notice = page.locator("#compared .notice", has_text="same weights, not fine-tuned")
    expect(notice).to_be_visible()
    expect(table.nth(1).locator("th")).to_contain_text("knn:k=9")
    expect(page.locator("#compared .plot")).to_have_count(4)
    kept = saved(page)
    json_format.ParseDict(kept, comparison_pb2.Comparison())
    assert [one["model_name"] for one in kept["variants"]] == ["shapes", "shapes"]
    expect_table(page, kept)
    expect(page.locator(".hollow")).to_have_text(
        shown_numbers.answer(kept["variants"][1])
    )


@pytest.mark.parametrize(
    ("model", "kind"),
    [("detector_dense", "objects"), ("instances_dense", "objects"), ("segmenter_dense", "maps")],
)  # fmt: skip
def test_a_server_compares_detectors_and_segmenters(
    server: Server, open_page: Open, model: str, kind: str
) -> None:
    page = open_page(
        server.http, f"#compare?v={model}&v={model}~knn%3Ak%3D0.5&example=scene_1.jpg"
    )
    page.locator("#rounds").fill("2")
    compare(page)
    expect(page.locator("table.compared")).to_be_visible(timeout=120_000)
    kept = saved(page)
    assert kind in kept["variants"][1]
    masks = kept["variants"][1].get("objects", {}).get("mean_mask_iou")
    assert (masks is not None) == (model == "instances_dense")
    expect_table(page, kept)
    expect(page.locator(".hollow")).to_have_text(
        shown_numbers.answer(kept["variants"][1])
    )


@pytest.mark.parametrize(
    ("model", "attention"),
    [("shapes", "knn:k=0.5"), ("shapes_knn", "dense"), ("frame_conv", "")],
)
def test_a_model_alone_is_compared_with_what_its_weights_allow(
    server: Server, open_page: Open, model: str, attention: str
) -> None:
    entry = {"name": model, "version": "1", "state": "READY", "reason": ""}

    def before(page: Page) -> None:
        page.route("**/v2/repository/index", lambda route: route.fulfill(json=[entry]))

    page = open_page(server.http, "#compare?example=star.jpg", before=before)
    expect(page.locator(".variant select")).to_have_count(2)
    expect(page.locator(".variant input").nth(1)).to_have_value(attention)
    page.locator("#rounds").fill("2")
    compare(page)
    expect(page.locator("table.compared")).to_be_visible(timeout=60_000)


def test_a_comparison_ends_when_it_is_cancelled(
    comparing: Server, open_page: Open
) -> None:
    page = open_page(comparing.http, SIBLINGS)
    page.locator("#rounds").fill("10000")
    compare(page)
    expect(page.locator("#progress-text")).to_contain_text("Measuring", timeout=60_000)
    # Plots grow meanwhile, and stay as they are when it ends.
    so_far = page.locator("#compared section")
    expect(so_far.locator(".plot")).to_have_count(2, timeout=60_000)
    expect(so_far.locator("h2")).to_have_text("What each costs, so far")
    names = so_far.locator(".plot").first.locator(".name")
    expect(names).to_have_text([re.compile("^shapes · "), re.compile("^shapes_knn · ")])
    seen = so_far.inner_text()
    expect(so_far).not_to_have_text(seen, use_inner_text=True, timeout=60_000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#compared")).to_contain_text("Cancelled.")
    expect(page.locator("#compare-progress")).to_be_hidden()
    expect(so_far.locator(".plot")).to_have_count(2)
    expect(so_far.locator("h2")).to_have_text("What each costs, so far")
    # The server has stopped too: the next one does not wait for it.
    page.locator("#rounds").fill("2")
    compare(page)
    expect(page.locator("table.compared")).to_be_visible(timeout=60_000)


def test_a_server_explains_what_a_model_attends(
    comparing: Server, open_page: Open
) -> None:
    page = open_page(
        comparing.http, "#look?task=classification&model=shapes&example=star.jpg"
    )
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".map")).to_have_count(1, timeout=60_000)
    expect(page.locator("#stage .overlay")).to_be_visible()
    page.get_by_label("Method").select_option("measures")
    page.get_by_role("button", name="Explain").click()
    cells = page.locator("#explain-place tbody td")
    expect(cells.first).to_have_text(re.compile("[0-9]"), timeout=60_000)


def test_what_a_server_refuses_to_compare_is_said(
    comparing: Server, open_page: Open
) -> None:
    page = open_page(
        comparing.http, "#compare?v=shapes&v=shapes~aewin&example=star.jpg"
    )
    compare(page)
    beside = page.locator("#variants fieldset:nth-child(2) .token")
    expect(beside).to_contain_text("FAILED_PRECONDITION", timeout=60_000)


def test_a_server_without_experiments_says_so_and_the_page_measures(
    start_server: Callable[..., Server], open_page: Open
) -> None:
    server = start_server(
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *("--load-model", "shapes", "--load-model", "shapes_knn"),
    )
    page = open_page(server.http, "#look?task=classification&model=shapes")
    explain = page.locator("#explain-place")
    expect(explain).to_contain_text("start it with --enable-experiments")
    expect(explain.get_by_role("button", name="Explain")).to_be_hidden()
    page = open_page(server.http, SIBLINGS)
    page.locator("#rounds").fill("3")
    compare(page)
    problem = page.locator("#compared .problem")
    expect(problem).to_contain_text("--enable-experiments")
    expect(problem.locator(".token")).to_contain_text("501 · UNIMPLEMENTED")
    expect(page.locator(".answer")).to_have_count(2)
    problem.get_by_role("button", name="Measure from this page").click()
    expect(page.locator("#compared")).to_contain_text("3 rounds, 6 requests of each")
    rows = page.locator("#compared .plots .card").first.locator(".plot-row")
    expect(rows).to_have_count(2)
    for row in rows.all():
        expect(row.locator(".dot.faint")).to_have_count(6)
        expect(row.locator(".value")).to_have_text(re.compile("ms|µs"))
    assert "from=here" in page.url


# Against answers of the test's own.


def test_numbers_and_verdicts_are_shown_as_they_are_told(
    server: Server, open_page: Open
) -> None:
    before = written.comparing_with(
        written.SO_FAR, {"comparison": written.comparison()}
    )
    page = open_page(server.http, OTHER_ATTENTION, before=before)
    compare(page)
    row = page.locator("table.compared tbody tr").nth(1).locator("td")
    expect(row).to_have_text(
        [
            re.compile("^slower$"),
            re.compile("^1.50 ms1.40 ms – 1.70 ms"),
            re.compile("^1.50×1.45× – 1.56×"),
            re.compile("^0.250 ms"),
            re.compile("^20.0 µs"),
            re.compile("^667$"),
            re.compile("^2.00 MiB"),
            re.compile("^3.00 MiB"),
            re.compile("^52.0 M"),
            re.compile("^1 of 1KL 0.021 nats, five best 80%"),
            re.compile("^0.9812$"),
        ]
    )
    expect(page.locator(".summary")).to_have_text(
        "knn:k=9: slower (1.50× the time of dense), same best class 1 of 1."
    )
    # The interval stands where its numbers say, beside the control's.
    places = page.locator("#compared .plots .card").nth(1)
    band, whisker = places.locator(".band"), places.locator(".whisker")
    assert (
        band.bounding_box()["x"] + band.bounding_box()["width"]
        < whisker.bounding_box()["x"]
    )


@pytest.mark.parametrize("busy", [True, False])
def test_a_busy_machine_is_told_of_beside_the_times(
    server: Server, open_page: Open, busy: bool
) -> None:
    measured = written.MEASURED | {"busy": busy}
    before = written.comparing_with(
        {"comparison": written.comparison() | {"measured": measured}}
    )
    page = open_page(server.http, OTHER_ATTENTION, before=before)
    compare(page)
    expect(page.locator("#compared .comparison")).to_contain_text(
        "Measured 2026-03-01T14:05:09Z by fovea-server 1.2.0 on 4 cores of A Processor."
    )
    notice = page.locator("#compared .notice", has_text="The machine was busy")
    words = (
        "The machine was busy: other programs used 2.50 of 4 cores, so that times are longer and vary more than on a quiet "
        "machine. Stop them, or measure on fewer threads."
    )
    expect(notice).to_have_text([words] if busy else [])


@pytest.mark.parametrize("kind", AGREEMENTS)
def test_all_that_the_table_says_is_in_the_json_that_is_saved(
    server: Server, open_page: Open, kind: str
) -> None:
    told = written.comparison(AGREEMENTS[kind])
    page = open_page(
        server.http,
        OTHER_ATTENTION,
        before=written.comparing_with({"comparison": told}),
    )
    compare(page)
    expect(page.locator("table.compared")).to_be_visible()
    assert saved(page) == told
    expect_table(page, told)
    short, more, share = shown_numbers.agreement(told["variants"][1])
    name = {"classes": "same best class", "maps": "same pixels"}.get(
        kind, "objects of any score matched"
    )
    expect(page.locator(".summary")).to_have_text(
        f"knn:k=9: slower (1.50× the time of dense), {name} {short}."
    )
    plot = page.locator("#compared .plot", has_text=f"Agreement with the baseline: {name}")  # fmt: skip
    expect(plot.locator(".value")).to_have_text(short + more)
    # Its axis ends at 1.
    width = plot.locator(".fill").evaluate("one => parseFloat(one.style.width)")
    assert width == pytest.approx(100 * share, abs=0.001)


def test_what_was_not_measured_is_no_zero(server: Server, open_page: Open) -> None:
    # Without an agreement they have a plot as well.
    variants = [
        written.variant("dense", 1.0),
        written.variant(
            *("knn:k=9", 1.5),
            multiply_adds=0,
            attention_ms=None,
            attention_left_out=True,
        ),
    ]
    uncounted = written.comparison() | {"variants": variants}
    before = written.comparing_with({"comparison": uncounted})
    page = open_page(server.http, OTHER_ATTENTION, before=before)
    compare(page)
    rows = page.locator("table.compared tbody tr")
    expect(rows.nth(0).locator("td").nth(8)).to_have_text("52.0 M")
    expect(rows.nth(1).locator("td").nth(8)).to_have_text("–")
    expect(rows.nth(1).locator("td").nth(3)).to_have_text("–")
    expect(page.locator("#compared .notice")).to_have_text(
        "The attention time of knn:k=9 is left out: it would exceed compute, of which it is a part."
    )
    plot = page.locator("#compared .plot", has_text="Multiply-adds of an image")
    expect(plot.locator(".value")).to_have_text(["52.0 M", "–"])
    expect(plot.locator(".fill")).to_have_count(1)


def test_the_form_says_what_is_to_be_compared(server: Server, open_page: Open) -> None:
    forms: list[str] = []

    def before(page: Page) -> None:
        def note(route: Route) -> None:
            forms.append(route.request.post_data_buffer.decode("latin-1"))
            route.fulfill(
                content_type="application/x-ndjson",
                body=written.lines({"comparison": written.comparison()}),
            )

        page.route("**/v1/compare", note)

    page = open_page(server.http, OTHER_ATTENTION, before=before)
    page.locator("#batch").fill("4")
    page.get_by_role("button", name="Add a variant").click()
    page.locator(".variant select").nth(2).select_option("shapes_knn")
    compare(page)
    expect(page.locator("table.compared")).to_be_visible()
    fields = re.findall(r'name="(\w+)"\r\n\r\n([^\r]*)\r\n', forms[0])
    assert fields == [
        ("variant", "shapes"),
        ("variant", "shapes:knn:k=9"),
        ("variant", "shapes_knn"),
        ("rounds", "20"),
        ("batch_size", "4"),
    ]
    assert PICTURE.decode("latin-1") in forms[0]


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        (
            [
                written.SO_FAR,
                {"error": "stopping", "code": "UNAVAILABLE", "reason": "server.x"},
            ],
            "UNAVAILABLE · server.x",
        ),
        ([written.SO_FAR], "Error"),
    ],
    ids=["told", "cut off"],
)
def test_a_comparison_that_fails_half_way_says_so(
    server: Server, open_page: Open, updates: list[dict], said: str
) -> None:
    before = written.comparing_with(*updates)
    page = open_page(server.http, SIBLINGS, before=before)
    compare(page)
    expect(page.locator("#compared .token")).to_have_text(said)
    expect(page.get_by_role("button", name="Compare", exact=True)).to_be_enabled()


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def test_attention_lies_over_the_picture_where_a_server_explains(
    server: Server, open_page: Open
) -> None:
    maps = [one | {"png": DOT} for one in written.EXPLAINED["maps"]]
    explained = written.EXPLAINED | {"maps": maps}
    forms: list[str] = []
    held: list[Route] = []  # the picture's classes: they come last

    def answer(route: Route) -> None:
        forms.append(route.request.post_data_buffer.decode("latin-1"))
        route.fulfill(json=explained)

    def before(page: Page) -> None:
        page.route(
            "**/openapi.json",
            lambda route: route.fulfill(json={"paths": {"/v1/explain": {}}}),
        )
        page.route("**/v1/explain", answer)
        page.route("**/v1/classify*", lambda route: held.append(route))

    fragment = "#look?task=classification&model=shapes&example=star.jpg"
    page = open_page(server.http, fragment, before=before)
    page.get_by_label("Method").select_option("maps")
    page.get_by_label("Each head").check()
    page.get_by_label("Attention in place of its own").fill("knn:k=9")
    page.get_by_role("button", name="Explain").click()
    maps = page.locator(".map")
    expect(maps).to_have_text(["blocks.0, head 1", "blocks.5"])
    expect(maps.last).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".explanation .notice")).to_contain_text("not fine-tuned")
    expect(page.locator(".explanation")).to_contain_text("Class: star 52%")
    overlay = page.locator("#stage .overlay")
    held[-1].continue_()
    expect(page.locator("#results .bars")).to_contain_text("star")
    expect(overlay).to_have_attribute("src", f"data:image/png;base64,{DOT}")
    expect(page.locator("#explain-place tbody td")).to_have_text(
        ["0.500", "0.250", "1.50", "2.00", "1.50"]
    )
    maps.last.click()
    expect(overlay).to_be_hidden()
    # A place of the picture to see from: its middle.
    seen_from = page.locator("#stage .seen-from")
    expect(seen_from).to_be_hidden()
    page.locator("#stage .annotated").click()
    expect(overlay).to_be_visible()
    expect(seen_from).to_be_visible()
    assert re.fullmatch(r"(49|50)\.\d+%", seen_from.evaluate("one => one.style.left"))
    fields = dict(re.findall(r'name="(\w+)"\r\n\r\n([^\r]*)\r\n', forms[-1]))
    width, height = Image.open(io.BytesIO(PICTURE)).size
    assert abs(int(fields.pop("x")) - width // 2) <= 1
    assert abs(int(fields.pop("y")) - height // 2) <= 1
    assert fields == {
        "model": "shapes",
        "method": "maps",
        "picture_form": "heat",
        "attention": "knn:k=9",
        "every_head": "true",
    }
