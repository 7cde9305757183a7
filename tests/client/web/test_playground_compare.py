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


def estimate(value: float, lower: float, upper: float) -> dict:
    return {"value": value, "lower": lower, "upper": upper}


def quartiles(lower: float, median: float, upper: float) -> dict:
    return {"lower": lower, "median": median, "upper": upper}


def variant(attention: str, median: float, **more) -> dict:
    return {
        "model_name": "shapes",
        "model_version": "1",
        "backbone": "vit_demo_patch8_64",
        "attention": attention,
        "weights_of_attention": "",
        "untrained": False,
        "compute": {"ms": quartiles(0.9 * median, median, 1.2 * median)},
        "postprocess_ms": quartiles(0.01, 0.02, 0.03),
        "decode_ms": quartiles(0.2, 0.21, 0.3),
        "preprocess_ms": quartiles(0.04, 0.05, 0.06),
        "attention_ms": quartiles(0.2, 0.25, 0.3),
        "images_per_second": 1000 / median,
        "peak_bytes": 2 << 20,
        "weight_bytes": 3 << 20,
        "parameters": 800_000,
        "multiply_adds": 52_000_000,
        "answers": [{"label": "star", "confidence": 0.52, "objects": 0}],
    } | more


def comparison() -> dict:
    other = variant(
        "knn:k=9",
        1.5,
        weights_of_attention="dense",
        compute={
            "ms": quartiles(1.4, 1.5, 1.7),
            "ratio": estimate(1.5, 1.45, 1.56),
            "difference_ms": estimate(0.5, 0.45, 0.56),
            "verdict": "SLOWER",
        },
        classes={
            "images": 1,
            "same_top1": 1,
            "top5_overlap": 0.8,
            "kl_divergence": 0.0213,
            "max_confidence_difference": 0.04,
        },
        feature_cosine=0.9812,
    )
    return {
        "id": "",
        "variants": [variant("dense", 1.0), other],
        "control": {
            "ms": quartiles(0.9, 1.0, 1.2),
            "ratio": estimate(1.0, 0.98, 1.03),
            "difference_ms": estimate(0.0, -0.02, 0.03),
            "verdict": "NO_DIFFERENCE",
        },
        "rounds": 40,
        "batch_size": 1,
        "threads": 2,
        "device": "CPU",
        "images": [{"height": 240, "width": 320}],
    }


def lines(*updates: dict) -> str:
    return "".join(json.dumps(update) + "\n" for update in updates)


def compare(page: Page) -> None:
    page.get_by_role("button", name="Compare", exact=True).click()


def test_what_these_tests_write_is_what_a_server_may_say() -> None:
    json_format.ParseDict(comparison(), comparison_pb2.Comparison())


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
    expect(page.locator("#compared .notice")).to_contain_text(
        "same weights, not fine-tuned"
    )
    expect(table.nth(1).locator("th")).to_contain_text("knn:k=9")
    for cell in (1, 2, 4, 6, 7, 8):  # compute ... multiply-adds
        expect(table.nth(1).locator("td").nth(cell)).to_have_text(re.compile("[1-9]"))
    expect(page.locator("#compared .plot")).to_have_count(4)
    expect(page.locator(".hollow")).to_have_text(re.compile(r"\w+ \d+%"))
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as JSON").click()
    kept = json.loads(pathlib.Path(saved.value.path()).read_text())
    json_format.ParseDict(kept, comparison_pb2.Comparison())
    assert [one["model_name"] for one in kept["variants"]] == ["shapes", "shapes"]


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
    expect(page.locator("#compared .token")).to_contain_text(
        "FAILED_PRECONDITION", timeout=60_000
    )


def test_a_server_without_experiments_says_so_and_the_page_measures(
    start_server: Callable[..., Server], open_page: Open
) -> None:
    server = start_server(
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *("--load-model", "shapes", "--load-model", "shapes_knn"),
    )
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


def answering(body: str, status: int = 200) -> Callable[[Page], None]:
    def before(page: Page) -> None:
        page.route(
            "**/v1/compare",
            lambda route: route.fulfill(
                status=status, content_type="application/x-ndjson", body=body
            ),
        )

    return before


def test_numbers_and_verdicts_are_shown_as_they_are_told(
    server: Server, open_page: Open
) -> None:
    progress = {"progress": {"phase": "MEASURING", "done": 3, "total": 20}}
    body = lines(progress, {"comparison": comparison()})
    page = open_page(server.http, OTHER_ATTENTION, before=answering(body))
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


def test_multiply_adds_that_were_not_counted_are_no_zero(
    server: Server, open_page: Open
) -> None:
    # Without an agreement they have a plot as well.
    uncounted = comparison() | {
        "variants": [variant("dense", 1.0), variant("knn:k=9", 1.5, multiply_adds=0)]
    }
    body = lines({"comparison": uncounted})
    page = open_page(server.http, OTHER_ATTENTION, before=answering(body))
    compare(page)
    rows = page.locator("table.compared tbody tr")
    expect(rows.nth(0).locator("td").nth(8)).to_have_text("52.0 M")
    expect(rows.nth(1).locator("td").nth(8)).to_have_text("–")
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
                body=lines({"comparison": comparison()}),
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
    ("body", "said"),
    [
        (
            lines({"progress": {"phase": "LOADING", "done": 0, "total": 2}})
            + lines({"error": "stopping", "code": "UNAVAILABLE", "reason": "server.x"}),
            "UNAVAILABLE · server.x",
        ),
        (lines({"progress": {"phase": "LOADING", "done": 0, "total": 2}}), "Error"),
    ],
    ids=["told", "cut off"],
)
def test_a_comparison_that_fails_half_way_says_so(
    server: Server, open_page: Open, body: str, said: str
) -> None:
    page = open_page(server.http, SIBLINGS, before=answering(body))
    compare(page)
    expect(page.locator("#compared .token")).to_have_text(said)
    expect(page.get_by_role("button", name="Compare", exact=True)).to_be_enabled()


EXPLAINED = {
    "id": "",
    "model_name": "shapes",
    "attention": "knn:k=9",
    "weights_of_attention": "dense",
    "target_class": 3,
    "target_label": "star",
    "target_probability": 0.524,
    "maps": [
        {"method": "MAPS", "layer": "blocks.0", "layer_number": 0, "head": 1},
        {"method": "MAPS", "layer": "blocks.5", "layer_number": 5},
    ],
    "measures": [
        {
            "layer": "blocks.0",
            "cosine_similarity": 0.5,
            "attention_standard_deviation": 0.25,
            "attention_norm_ratio": 1.5,
            "mlp_norm_ratio": 2,
            "nonlocality": [1.0, 2.0],
        }
    ],
}
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def test_attention_lies_over_the_picture_where_a_server_explains(
    server: Server, open_page: Open
) -> None:
    explained = EXPLAINED | {"maps": [one | {"png": DOT} for one in EXPLAINED["maps"]]}
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
    page.locator("#stage .annotated").click()
    expect(overlay).to_be_visible()
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
