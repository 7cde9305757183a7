"""What the playground shows first, while it waits, and when something is wrong: with a server whose answers are held or replaced."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import numpy as np
import pytest
import written_answers as written
from playwright.sync_api import Page, Route, expect
from pycocotools import mask as coco
from running_server import ROOT, Server

Open = Callable[..., Page]
STAR = ROOT / "client/examples/star.jpg"
CLASSES = "#look?task=classification&model=shapes&example=star.jpg"
NOT_LOADED = "model.textproto:3: there is no backbone 'vit_huge'"


def answered(page: Page) -> None:
    expect(page.locator("#receipt-place .timeline")).to_be_visible()


def with_a_failed_model(page: Page) -> None:
    """The list has one model more, which could not be loaded."""

    def answer(route: Route) -> None:
        failed = {
            "name": "a_broken_model",
            "version": "1",
            "state": "UNAVAILABLE",
            "reason": NOT_LOADED,
        }
        route.fulfill(json=[*route.fetch().json(), failed])

    page.route("**/v2/repository/index", answer)


def test_begins_with_a_model_that_can_be_explained(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#constructor")  # no view is called so
    expect(page.locator("#look")).to_be_visible()
    expect(page.locator("#task-classification")).to_be_checked()
    expect(page.locator("#model")).to_have_value("shapes")
    expect(page.locator("#results")).to_have_text("Choose a picture first.")
    page.locator("#look .example").first.click()
    answered(page)
    expect(page.locator("#results .bars li").first).to_contain_text("star")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".map")).to_have_count(1)
    expect(page.locator(".explanation .problem")).to_have_count(0)
    # Both are on the screen: what is asked, and where it is drawn.
    expect(page.locator("#stage .overlay")).to_be_in_viewport(ratio=0.99)
    expect(page.get_by_role("button", name="Explain")).to_be_in_viewport(ratio=0.99)


def test_a_method_that_is_not_defined_is_offered_no_more(
    server: Server, open_page: Open
) -> None:
    page = open_page(
        server.http, "#look?model=segmenter_dense&task=segmentation&example=scene_1.jpg"
    )
    answered(page)
    method = page.get_by_label("Method")
    expect(method).to_have_value("maps")
    expect(method.locator("option[value=attribution]")).to_be_disabled()
    method.select_option("rollout")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explain-place .field-error").first).to_contain_text(
        "is not defined for"
    )
    expect(method).to_have_value("maps")
    expect(method.locator("option[value=rollout]")).to_be_disabled()


def test_methods_through_all_layers_go_where_the_layers_tokens_differ(
    server: Server, open_page: Open
) -> None:
    page = open_page(
        server.http, "#look?model=segmenter_dense&task=segmentation&example=scene_1.jpg"
    )
    answered(page)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".map")).not_to_have_count(0)
    method = page.get_by_label("Method")
    expect(method.locator("option[value=rollout]")).to_be_disabled()
    expect(method.locator("option[value=measures]")).to_be_enabled()


def test_a_method_that_the_page_chose_and_is_not_defined_gives_way(
    server: Server, open_page: Open
) -> None:
    def refuse(route: Route) -> None:
        if "rollout" not in route.request.post_data_buffer.decode("latin-1"):
            return route.continue_()
        error = {
            "error": "rollout is not defined for it",
            "code": "FAILED_PRECONDITION",
        }
        route.fulfill(status=400, json=error | {"reason": "explain.unfit"})

    page = open_page(
        server.http, CLASSES, lambda page: page.route("**/v1/explain", refuse)
    )
    answered(page)
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".explanation .notice")).to_contain_text("is not defined for")
    expect(page.locator(".map")).not_to_have_count(0)
    expect(page.get_by_label("Method")).to_have_value("maps")


def test_long_names_of_models_stay_within_a_phone(
    server: Server, open_page: Open
) -> None:
    name = "production_retail_shelf_classifier_europe_north_vit_base_patch16_384_knn"

    def before(page: Page) -> None:
        ready = {"name": name, "version": "1", "state": "READY", "reason": ""}
        page.route("**/v2/repository/index", lambda route: route.fulfill(json=[ready]))
        facts = {"fovea.task": "classification", "fovea.attention": "knn:k=100"}
        page.route(
            "**/v2/models/**", lambda route: route.fulfill(json={"properties": facts})
        )

    phone = {"width": 375, "height": 800}
    page = open_page(server.http, "#look", before, viewport=phone)
    expect(page.locator("#model-facts")).to_contain_text(name)
    for view in ("look", "compare", "server"):
        page.locator(f"#to-{view}").click()
        assert page.evaluate("document.documentElement.scrollWidth") == phone["width"]


def test_a_slow_server_is_said_to_be_and_may_be_left(
    server: Server, open_page: Open
) -> None:
    held: list[Route] = []
    page = open_page(
        server.http,
        "#look?task=classification&model=shapes",
        before=lambda page: page.route(
            "**/v1/classify*", lambda route: held.append(route)
        ),
    )
    page.locator("#look-chooser input[type=file]").first.set_input_files(STAR)
    wait = page.locator("#results-wait")
    expect(wait).to_contain_text("Asking shapes")
    expect(wait).to_contain_text("takes long")
    wait.get_by_role("button", name="Cancel").click()
    expect(page.locator("#results")).to_have_text("Cancelled.")
    expect(wait.locator(".awaiting")).to_have_count(0)


def test_a_server_that_is_gone_is_noticed_and_so_is_its_return(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, CLASSES)
    answered(page)
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.locator("#look .example").nth(2).click()
    note = page.locator("#look-chooser .picture-note")
    expect(note).to_contain_text("The server cannot be reached from here")
    expect(page.locator("#state")).to_have_attribute("data-state", "away")
    page.unroute("**/*")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")


def test_a_model_that_failed_is_named_with_the_reason(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#server", before=with_a_failed_model)
    expect(page.locator("#state")).to_have_attribute("data-state", "waiting")
    expect(page.locator("#refresh")).to_have_attribute(
        "title", f"a_broken_model: {NOT_LOADED}"
    )
    row = page.locator("#server-models tbody tr")
    expect(row).to_contain_text("a_broken_model")
    expect(row).to_contain_text(NOT_LOADED)
    # Nobody has to ask again.
    page.unroute("**/v2/repository/index")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    expect(row).to_have_count(0)


def test_a_models_name_is_written_as_it_is(server: Server, open_page: Open) -> None:
    error = {
        "error": "shapes does another task than instances_dense",
        "code": "INVALID_ARGUMENT",
        "reason": "compare.other_task",
    }
    page = open_page(
        server.http,
        CLASSES,
        before=lambda page: page.route(
            "**/v1/classify*", lambda route: route.fulfill(status=400, json=error)
        ),
    )
    expect(page.locator("#results .problem p").first).to_have_text(
        "The server says: shapes does another task than instances_dense."
    )


def test_the_command_is_safe_whatever_the_file_is_called(
    server: Server, open_page: Open
) -> None:
    name = "a b;id>x$(id)`id`'s.jpg"
    page = open_page(server.http, "#look?task=classification&model=shapes")
    page.locator("#look-chooser input[type=file]").first.set_input_files(
        {"name": name, "mimeType": "image/jpeg", "buffer": STAR.read_bytes()}
    )
    answered(page)
    command = page.locator("#curl").text_content().replace("\\\n", " ")
    words = shlex.split(command)
    assert words[:3] == ["curl", "--data-binary", f"@{name}"] and len(words) == 4
    # Within single quotes a shell reads nothing but their end.
    assert shlex.quote(f"@{name}").replace("'\"'\"'", "'\\''") in command


def test_what_is_missing_is_said_beside_its_field(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#compare?v=shapes&v=shapes~aewin")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("#compare-chooser .picture-note")).to_have_text(
        "Choose a picture first."
    )
    expect(page.locator("#compare .choose")).to_be_focused()
    error = {
        "error": "aewin cannot stand in vit_demo_patch8_64: it needs tokens on a map",
        "code": "FAILED_PRECONDITION",
        "reason": "model.load_failed",
    }
    page.route("**/v1/compare", lambda route: route.fulfill(status=400, json=error))
    page.locator("#compare .example").first.click()
    page.get_by_role("button", name="Compare", exact=True).click()
    second = page.locator("#variants fieldset").nth(1)
    expect(second.locator(".problem")).to_contain_text("aewin cannot stand")
    expect(second.locator("input")).to_be_focused()


LONG = [f"production_fine_grained_classifier_revision_{i:02}" for i in range(30)]


def test_many_models_with_long_names_can_be_told_apart(
    server: Server, open_page: Open
) -> None:
    def before(page: Page) -> None:
        def index(route: Route) -> None:
            entries = [
                {"name": name, "version": "1", "state": "READY"} for name in LONG
            ]
            route.fulfill(json=entries)

        def metadata(route: Route) -> None:
            properties = {"task": "classification", "attention": "dense"}
            route.fulfill(
                json={
                    "properties": {
                        f"fovea.{key}": value for key, value in properties.items()
                    }
                }
            )

        page.route("**/v2/repository/index", index)
        page.route("**/v2/models/**", metadata)

    page = open_page(server.http, "#compare", before=before)
    expect(page.locator(".variant")).to_have_count(4)  # no more than one can look at
    for view in ("#look", "#compare"):
        page.locator(f"#to-{view[1:]}").click()
        select = page.locator(f"{view} select").first
        texts = select.locator("option").all_inner_texts()
        assert len(set(texts)) == len(LONG)
        widths = select.evaluate(
            """one => { const context = document.createElement("canvas").getContext("2d");
              context.font = getComputedStyle(one).font;
              return [Math.max(...[...one.options].map(option => context.measureText(option.text).width)), one.clientWidth]; }"""
        )
        assert widths[0] < widths[1]


def test_a_phone_shows_all_columns(server: Server, open_page: Open) -> None:
    page = open_page(
        server.http,
        "#compare?v=shapes&v=shapes~knn%3Ak%3D9&example=star.jpg",
        before=written.comparing_with({"comparison": written.comparison()}),
        viewport={"width": 375, "height": 812},
    )
    page.get_by_role("button", name="Compare", exact=True).click()
    cells = page.locator("table.compared tbody tr").nth(1).locator("td")
    expect(cells).to_have_count(11)
    for cell in cells.all():
        box = cell.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 375
        assert (
            cell.evaluate("one => getComputedStyle(one, '::before').content") != "none"
        )


def test_labels_do_not_hide_each_other(server: Server, open_page: Open) -> None:
    page = open_page(server.http)
    size = {"width": 90, "height": 18}
    picture = {"width": 700, "height": 500}
    boxes = [
        {"left": left, "top": top, "right": left + 40, "bottom": top + 40}
        for left, top in [(300, 200), (0, 0), (680, 480)]
        for _ in range(20)
    ]
    places = page.evaluate(
        """async ([boxes, size, picture]) => {
          const { placeLabel } = await import("./playground/annotated_figure.js");
          const placed = [];
          for (const box of boxes) placed.push({ ...placeLabel(box, size, picture, placed), ...size });
          return placed;
        }""",
        [boxes, size, picture],
    )
    for i, one in enumerate(places):
        assert 0 <= one["x"] <= picture["width"] - size["width"]
        assert 0 <= one["y"] <= picture["height"] - size["height"]
        for other in places[:i]:
            apart = (
                abs(one["x"] - other["x"]) >= size["width"]
                or abs(one["y"] - other["y"]) >= size["height"]
            )
            assert apart, json.dumps([one, other])
    # A label without height is not shown, such as those on the small pictures of a comparison.
    assert page.evaluate(
        """async () => {
          const { placeLabel } = await import("./playground/annotated_figure.js");
          const box = { left: 0, top: 5, right: 9, bottom: 9 };
          return placeLabel(box, { width: 0, height: 0 }, { width: 9, height: 9 }, []);
        }"""
    ) == {"x": 0, "y": 5}


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_swatch_is_the_colour_that_is_painted(
    server: Server, open_page: Open, colours: str
) -> None:
    page = open_page(
        server.http,
        "#look?model=segmenter_dense&task=segmentation&example=scene_2.jpg",
        color_scheme=colours,
    )
    answered(page)
    answer = page.request.post(
        f"http://{server.http}/v1/segment?model=segmenter_dense&map_format=RUN_LENGTHS",
        data=(ROOT / "client/examples/scenes/scene_2.jpg").read_bytes(),
    )
    (result,) = answer.json()["results"]
    background, *painted = result["classes"]
    entries = page.locator("#results .entry")
    expect(entries).to_have_count(1 + len(painted))
    expect(entries.first.locator(".hollow-swatch")).to_be_visible()
    assert background["label"] == "background" and len(painted) >= 2
    size = [result["image_height"], result["image_width"]]
    for entry, one in zip(entries.all()[1:], painted, strict=True):
        expect(entry.locator(".name")).to_have_text(one["label"])
        counts = {"counts": one["run_lengths"].encode(), "size": size}
        y, x = np.argwhere(coco.decode(counts))[0].tolist()
        red, green, blue, alpha = page.locator("#stage canvas.masks").evaluate(
            "(one, [x, y]) => [...one.getContext('2d').getImageData(x, y, 1, 1).data]",
            [x, y],
        )
        assert alpha == 255
        expect(entry.locator(".swatch")).to_have_css(
            "background-color", f"rgb({red}, {green}, {blue})"
        )
    # Below the masks the picture has no hue that would mix with theirs.
    filters = page.locator("#stage .ground").evaluate(
        "one => getComputedStyle(one).filter"
    )
    assert "grayscale(1)" in filters
