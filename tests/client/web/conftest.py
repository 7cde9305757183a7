"""Browsers for the tests of the playground: Debian's Chromium, driven by Playwright.

Of a module each, and not of the session: Playwright's event loop stays in the thread while it lives, and other tests run loops of
their own there.
"""

from __future__ import annotations

import shutil
import urllib.parse
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

# A camera that shows a moving picture, given to whoever asks; and a host that is not this machine for a browser.
FLAGS = [
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--host-resolver-rules=MAP fovea.test 127.0.0.1",
]

# Until a page shows what it should: long, since the machine may be busy, and nothing waits for it where the page is right.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "Debian's chromium (deploy/setup/debian-packages-test.txt)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page, and what it said to its console or asked of other hosts."""

    def __init__(self, page: Page):
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, message) -> None:
        # What the server refuses is told on the page; the browser's console tells it once more.
        told = ("status of", "net::ERR_")
        if message.type == "error" and not any(one in message.text for one in told):
            self.errors.append(message.text)

    def check(self) -> None:
        assert not self.errors
        own = urllib.parse.urlsplit(self.page.url).netloc
        for url in self.requests:
            parts = urllib.parse.urlsplit(url)
            assert parts.scheme in ("blob", "data") or parts.netloc == own, url


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page at an address in a browser of its own, and checks at the end that it was content."""
    contexts: list[BrowserContext] = []
    watched: list[Watched] = []

    def open_(
        host: str,
        fragment: str = "",
        before: Callable[[Page], None] | None = None,
        until: str = "body[data-loaded]",
        **options,
    ) -> Page:
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}} | options
        )
        contexts.append(context)
        page = context.new_page()
        watched.append(Watched(page))
        if before:
            before(page)
        page.goto(f"http://{host}/{fragment}")
        page.wait_for_selector(until)
        return page

    yield open_
    for one in watched:
        one.check()
    for context in contexts:
        context.close()
