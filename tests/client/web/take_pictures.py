"""Takes the pictures of docs/measuring/playground.md: take_pictures.py FOLDER.

Needs what the tests of the playground need. A server with the bundled models, requests in the background where metrics are shown.
"""

from __future__ import annotations

import io
import pathlib
import sys
import tempfile
import threading
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from running_server import DEMO, ROOT, Server

LOOK = "#look?task=detection&model=instances_dense&example=scene_2.jpg"
COMPARE = (
    "#compare?v=instances_dense&v=instances_dense~knn%3Ak%3D0.25&v=instances_aewin"
    "&v=instances_key_only&example=scene_2.jpg"
)
MOST_BYTES = 300_000  # of a picture in the repository
BROWSER_SECONDS = 20  # of metrics, before they are shown


def open_page(browser: Browser, server: Server, fragment: str, **options) -> Page:
    page = browser.new_page(
        **{"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
        | options
    )
    page.goto(f"http://{server.http}/{fragment}")
    page.wait_for_selector("body[data-loaded]")
    return page


def save(page: Page, path: pathlib.Path, **options) -> None:
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    shot = Image.open(io.BytesIO(page.screenshot(**options))).convert("RGB")
    for quality in (85, 75, 65, 55):
        shot.save(path, quality=quality, subsampling=0 if quality > 80 else 2)
        if path.stat().st_size < MOST_BYTES:
            break
    print(path, shot.size, path.stat().st_size)


def ask_for_ever(server: Server, done: threading.Event) -> None:
    scene = (ROOT / "client/examples/scenes/scene_1.jpg").read_bytes()
    calls = [
        "v1/detect?model=instances_dense",
        "v1/segment?model=segmenter_key_only",
        "v1/classify?model=shapes_knn",
    ]
    for i in range(1 << 30):
        if done.wait(0.02 + 0.05 * (i // 60 % 3)):
            return
        request = urllib.request.Request(
            f"http://{server.http}/{calls[i % len(calls)]}", scene
        )
        urllib.request.urlopen(request, timeout=60).read()


def main(folder: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        server = Server(
            pathlib.Path(scratch) / "log",
            *("--model-repository", str(DEMO), "--enable-experiments"),
            *("--threads", "1"),
        )
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")

        page = open_page(browser, server, LOOK)
        page.wait_for_selector("#receipt-place .timeline")
        save(page, folder / "playground_look.jpg", full_page=True)

        page = open_page(
            browser,
            server,
            LOOK,
            viewport={"width": 390, "height": 844},
            device_scale_factor=2,
        )
        page.wait_for_selector("#receipt-place .timeline")
        save(page, folder / "playground_phone.jpg")

        page = open_page(
            browser,
            server,
            "#look?model=segmenter_dense&example=scene_3.jpg",
            color_scheme="dark",
        )
        page.wait_for_selector("#receipt-place .timeline")
        save(page, folder / "playground_dark.jpg", full_page=True)

        page = open_page(browser, server, COMPARE)
        page.get_by_role("button", name="Compare", exact=True).click()
        page.wait_for_selector("table.compared", timeout=180_000)
        save(page, folder / "playground_compare.jpg", full_page=True)

        done = threading.Event()
        asking = threading.Thread(target=ask_for_ever, args=(server, done))
        asking.start()
        page = open_page(browser, server, "#server")
        page.wait_for_timeout(1000 * BROWSER_SECONDS)
        save(page, folder / "playground_server.jpg")
        done.set()
        asking.join()
        browser.close()
        server.terminate()
        server.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
