"""client/examples/with_javascript.html: a page of another origin that asks a server."""

from __future__ import annotations

import functools
import http.server
import pathlib
import re
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect
from running_server import ROOT, Server

EXAMPLES = ROOT / "client/examples"


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[str]:
    """Where the page comes from."""
    files = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Files, directory=EXAMPLES)
    )
    threading.Thread(target=files.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{files.server_port}"
    files.shutdown()
    files.server_close()


def test_a_page_of_another_origin_asks(
    start_server: Callable[..., Server],
    one_model: pathlib.Path,
    origin: str,
    browser: Browser,
) -> None:
    server = start_server(
        *("--model-repository", one_model), *("--http-allow-origin", origin)
    )
    page = browser.new_page()
    page.goto(f"{origin}/with_javascript.html?server={server.http}")
    page.get_by_label("Picture").set_input_files(EXAMPLES / "star.jpg")
    answer = page.locator("#answer")
    expect(answer).to_have_text(
        re.compile(r"^star  [\d.]+%\n(.+%\n){4}computed in [\d.]+ ms$")
    )
    page.get_by_label("Picture").set_input_files(EXAMPLES / "README.md")
    expect(answer).to_contain_text("(image.unsupported_type)")
    page.close()
