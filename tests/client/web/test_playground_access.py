"""The playground for everybody: by keyboard, by ear, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from running_server import Server

Open = Callable[..., Page]
VIEWS = {
    "look": "#look?task=detection&model=instances_dense&example=scene_1.jpg",
    "segments": "#look?model=segmenter_dense&example=scene_1.jpg",
    "classes": "#look?task=classification&model=shapes&example=star.jpg",
    "compare": "#compare?v=shapes&v=shapes_knn&example=star.jpg&from=here",
    "server": "#server",
}
# How it is looked at: colours, and the window's width and height.
LOOKS = {
    "light": ("light", 1280, 900),
    "dark": ("dark", 1280, 900),
    "phone": ("dark", 390, 844),
}


def settle(page: Page, view: str) -> None:
    """Until the view shows what it is for."""
    if view == "compare":
        page.locator("#rounds").fill("2")
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.locator("#compared")).to_contain_text("2 rounds")
    elif view == "server":
        expect(page.locator("#models-rows tr")).not_to_have_count(0)
    else:
        expect(page.locator("#receipt-place .timeline")).to_be_visible()
        expect(page.locator("#results[aria-busy]")).to_have_count(0)


def until_drawn(page: Page) -> None:
    """Until two frames have been shown: plots have seen their new size in the first."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(server: Server, open_page: Open, view: str) -> None:
    # axe's script is of this test, not of the page's server. It sees no colour on its way to another.
    page = open_page(server.http, VIEWS[view], bypass_csp=True, reduced_motion="reduce")
    settle(page, view)
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
    page = open_page(server.http, VIEWS[view])
    settle(page, view)
    for width in (320, 390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        until_drawn(page)
        wide = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]


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


def test_who_wants_no_motion_sees_none(server: Server, open_page: Open) -> None:
    page = open_page(server.http, VIEWS["look"], reduced_motion="reduce")
    settle(page, "look")
    moving = page.evaluate(
        """() => [...document.querySelectorAll("*")].filter(one => getComputedStyle(one).transitionDuration !== "0s").length"""
    )
    assert moving == 0
