"""The playground for everybody: by keyboard, by ear, on a phone, in the dark."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable

import pytest
import written_answers as written
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from running_server import Server

Open = Callable[..., Page]


@dataclasses.dataclass(frozen=True)
class View:
    fragment: str
    settle: Callable[[Page], None]  # until it shows what it is for
    before: Callable[[Page], None] | None = None  # it is opened
    until: str = "body[data-loaded]"


def settled(page: Page) -> None:
    """What is busy is paler for as long."""
    expect(page.locator("#results[aria-busy]")).to_have_count(0)


def answered(page: Page) -> None:
    expect(page.locator("#receipt-place .timeline")).to_be_visible()
    settled(page)


def start_comparing(page: Page) -> None:
    page.locator("#rounds").fill("2")
    page.get_by_role("button", name="Compare", exact=True).click()


def measured_from_here(page: Page) -> None:
    start_comparing(page)
    expect(page.locator("#compared")).to_contain_text("2 rounds")


def compared(page: Page) -> None:
    start_comparing(page)
    expect(page.locator("table.compared")).to_be_visible()


def broken_off(page: Page) -> None:
    """The plots so far, and the error behind them."""
    start_comparing(page)
    expect(page.locator("#compared .token")).to_be_visible()
    expect(page.locator("#compared section .plot")).to_have_count(2)


def no_experiments(page: Page) -> None:
    start_comparing(page)
    expect(page.locator("#compared .problem")).to_contain_text("--enable-experiments")


def explained(page: Page) -> None:
    answered(page)
    page.get_by_label("Method").select_option("maps")
    page.get_by_label("Each head").check()
    page.get_by_label("Attention in place of its own").fill("knn:k=9")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".map")).to_have_count(24)
    expect(page.locator("#stage .overlay")).to_be_visible()
    settled(page)


def measures(page: Page) -> None:
    answered(page)
    page.get_by_label("Method").select_option("measures")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explain-place tbody tr")).to_have_count(6)
    settled(page)


def camera(page: Page) -> None:
    page.locator("#look-chooser").get_by_role("button", name="Take a photo").click()
    expect(page.locator("#camera")).to_be_visible()


def refused(page: Page) -> None:
    """What is no picture to the server, and none to the browser either."""
    chooser = page.locator("#look-chooser input[type=file]").first
    chooser.set_input_files(written.UNREAD_PICTURE)
    expect(page.locator("#results .token")).to_be_visible()
    chooser.set_input_files(written.UNREAD_PICTURE | {"buffer": b"no picture"})
    expect(page.locator("#look-chooser .picture-note")).to_contain_text("cannot show")
    settled(page)


def refusing(path: str, status: int, code: str) -> Callable[[Page], None]:
    """Asks for the path are answered so."""
    body = {"error": "this is not for you", "code": code, "reason": "auth.x"}

    def before(page: Page) -> None:
        page.route(path, lambda route: route.fulfill(status=status, json=body))

    return before


def shown(selector: str) -> Callable[[Page], None]:
    return lambda page: expect(page.locator(selector).first).to_be_visible()


CLASSES = "#look?task=classification&model=shapes&example=star.jpg"
OTHER_ATTENTION = "#compare?v=shapes&v=shapes~knn%3Ak%3D9&example=star.jpg"
VIEWS = {
    "look": View(
        "#look?task=detection&model=instances_dense&example=scene_1.jpg", answered
    ),
    "segments": View("#look?model=segmenter_dense&example=scene_1.jpg", answered),
    "classes": View(CLASSES, answered),
    "explained": View(CLASSES, explained),
    "measures": View(CLASSES, measures),
    "camera": View("#look?task=classification&model=shapes", camera),
    "refused": View("#look?task=classification&model=shapes", refused),
    "compare": View(
        "#compare?v=shapes&v=shapes_knn&example=star.jpg&from=here", measured_from_here
    ),
    "compared": View(
        "#compare?v=instances_dense&v=instances_dense~knn%3Ak%3D9&example=scene_1.jpg",
        compared,
        written.comparing_with(
            {"comparison": written.comparison(written.OBJECTS_WITH_MASKS)}
        ),
    ),
    "compared by a server": View(OTHER_ATTENTION, compared),
    "broken off": View(
        OTHER_ATTENTION, broken_off, written.comparing_with(written.SO_FAR)
    ),
    "no experiments": View(
        OTHER_ATTENTION,
        no_experiments,
        refusing("**/v1/compare", 501, "UNIMPLEMENTED"),
    ),
    "server": View("#server", shown("#models-rows tr")),
    "no metrics": View(
        "#server",
        shown("#server-problem .token"),
        refusing("**/metrics", 403, "PERMISSION_DENIED"),
    ),
    "key": View(
        "#look",
        shown("#key-dialog"),
        refusing("**/openapi.json", 401, "UNAUTHENTICATED"),
        until="#key-dialog[open]",
    ),
    "not reached": View(
        "#look",
        shown("#load-problem .token"),
        refusing("**/openapi.json", 503, "UNAVAILABLE"),
    ),
}
# How it is looked at: colours, and the window's width and height.
LOOKS = {
    "light": ("light", 1280, 900),
    "dark": ("dark", 1280, 900),
    "phone": ("dark", 390, 844),
}


def open_view(server: Server, open_page: Open, name: str, **options) -> Page:
    """As it is when it shows what it is for."""
    view = VIEWS[name]
    page = open_page(
        server.http, view.fragment, before=view.before, until=view.until, **options
    )
    view.settle(page)
    return page


def until_drawn(page: Page) -> None:
    """Until two frames have been shown: plots have seen their new size in the first."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(server: Server, open_page: Open, view: str) -> None:
    # axe's script is of this test, not of the page's server. It sees no colour on its way to another.
    page = open_view(server, open_page, view, bypass_csp=True, reduced_motion="reduce")
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    for look, (colours, width, height) in LOOKS.items():
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=colours)
        until_drawn(page)
        results = (
            Axe()
            .run(page, options={"runOnly": {"type": "tag", "values": rules}})
            .response
        )
        assert len(results["passes"]) > 15
        found = [
            (violation["id"], [node["target"] for node in violation["nodes"]])
            for violation in results["violations"]
        ]
        assert not found, look


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_window(
    server: Server, open_page: Open, view: str
) -> None:
    page = open_view(server, open_page, view)
    for width in (320, 390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        until_drawn(page)
        wide = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]


# Elements that change by and by, or go on moving.
MOVING = """() => [...document.querySelectorAll("*")].filter(one => {
  const style = getComputedStyle(one);
  return style.transitionDuration !== "0s" || style.animationName !== "none";
}).map(one => one.outerHTML.slice(0, 80))"""


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.id || document.activeElement.tagName")


def test_everything_is_reached_by_keyboard(server: Server, open_page: Open) -> None:
    page = open_page(
        server.http, "#look?task=classification&model=shapes&example=star.jpg"
    )
    expect(page.locator("#receipt-place .timeline")).to_be_visible()
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
          .filter(one => one.tabIndex >= 0 && one.checkVisibility() && !one.disabled && (one.type !== "radio" || one.checked)).length"""
    )
    page.keyboard.press("Tab")
    assert focused(page) == "skip"
    seen = 1
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        if focused(page) == "BODY":
            break
        outline = page.evaluate(
            """() => { const one = document.activeElement;
              const shown = one.type === "radio" ? one.nextElementSibling : one;
              const style = getComputedStyle(shown); return style.outlineStyle + style.outlineWidth; }"""
        )
        assert "none" not in outline and "0px" not in outline, focused(page)
        seen += 1
    assert seen == wanted > 15
    # Another example, another task, another view.
    page.locator("#look-chooser .example").nth(4).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#look-chooser .example").nth(4)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.locator("#task-classification").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#task-detection")).to_be_checked()
    page.locator("#to-compare").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#compare-title")).to_be_focused()
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    assert focused(page) == "main"
    expect(page.locator("#compare")).to_be_visible()


def tab_to(page: Page, selector: str) -> None:
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("one => document.activeElement.matches(one)", selector):
            return
    raise AssertionError(f"no Tab leads to {selector}: {focused(page)}")


def test_a_comparison_is_run_and_saved_by_keyboard_alone(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http)
    tab_to(page, "#to-compare")
    page.keyboard.press("Enter")
    expect(page.locator("#compare-title")).to_be_focused()
    tab_to(page, "#variants fieldset:nth-child(1) select")
    page.keyboard.type("shapes ")  # the option that begins so
    tab_to(page, "#variants fieldset:nth-child(2) select")
    page.keyboard.type("shapes ")
    tab_to(page, "#variants fieldset:nth-child(2) input")
    page.keyboard.type("knn:k=9")
    # Of the variants that stand there besides none is left.
    for _ in range(page.locator(".variant").count() - 2):
        tab_to(page, "#variants fieldset:last-child button")
        page.keyboard.press("Enter")
        expect(page.locator("#add-variant")).to_be_focused()
        tab_to(page, "#skip")  # once around
    expect(page.locator(".variant")).to_have_count(2)
    tab_to(page, "#rounds")
    page.keyboard.press("Control+A")
    page.keyboard.type("10000")
    tab_to(page, "#compare-chooser .example[data-file='star.jpg']")
    page.keyboard.press("Enter")
    expect(page.locator("#compare-picture img").first).to_be_visible()
    tab_to(page, "#skip")
    tab_to(page, "#start")
    page.keyboard.press("Enter")
    # It can be ended at once, and leads back to its beginning.
    expect(page.locator("#cancel")).to_be_focused()
    expect(page.locator("#progress-text")).to_contain_text("Measuring")
    page.keyboard.press("Enter")
    expect(page.locator("#spoken")).to_have_text("Cancelled.")
    expect(page.locator("#start")).to_be_focused()
    tab_to(page, "#skip")
    tab_to(page, "#rounds")
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    page.keyboard.press("Enter")  # as in any form
    expect(page.locator("table.compared")).to_be_visible()
    expect(page.locator("#spoken")).to_contain_text("knn:k=9: ")
    expect(page.locator("#spoken")).to_contain_text("same best class 1 of 1.")
    expect(page.locator("#start")).to_be_focused()
    tab_to(page, "[role=region]:has(table.compared)")  # which scrolls
    tab_to(page, "a[download]")
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    kept = json.loads(pathlib.Path(saved.value.path()).read_text())
    assert [one["attention"] for one in kept["variants"]] == ["dense", "knn:k=9"]
    assert 2 <= kept["rounds"] <= 20


def test_colours_follow_the_system_until_somebody_chooses(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert dark != light
    theme = page.locator("#theme")
    theme.click()  # light
    theme.click()
    expect(theme).to_have_attribute("aria-label", "Colours: dark")
    assert page.evaluate(ground) == dark
    page.reload()
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("view", VIEWS)
def test_who_wants_no_motion_sees_none(
    server: Server, open_page: Open, view: str
) -> None:
    page = open_view(server, open_page, view, reduced_motion="reduce")
    assert page.evaluate(MOVING) == []
