"""The playground in a real browser, with a real server behind it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import written_answers as written
from playwright.sync_api import Page, expect
from pycocotools import mask as coco
from running_server import ROOT, Server

SCENE = ROOT / "client/examples/scenes/scene_1.jpg"
STAR = ROOT / "client/examples/star.jpg"
KEY = "0123456789abcdef0123456789abcdef"
Open = Callable[..., Page]


@contextlib.contextmanager
def traffic(server: Server) -> Iterator[None]:
    """Requests, one behind the other, as long as it lasts."""
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            post(server, "v1/classify?model=shapes", STAR.read_bytes())

    thread = threading.Thread(target=ask)
    thread.start()
    yield
    done.set()
    thread.join()


# What a canvas of the page shows: pixels by colour, those without any left out.
COLOURS = """() => {
  const canvas = document.querySelector("#stage canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const counts = {};
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 0) continue;
    const colour = `${data[i]},${data[i + 1]},${data[i + 2]}`;
    counts[colour] = (counts[colour] ?? 0) + 1;
  }
  return {width: canvas.width, height: canvas.height, counts};
}"""


def post(server: Server, path: str, picture: bytes) -> dict:
    request = urllib.request.Request(f"http://{server.http}/{path}", picture)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def answered(page: Page) -> None:
    expect(page.locator("#receipt-place .timeline")).to_be_visible()
    expect(page.locator("#results[aria-busy]")).to_have_count(0)


def decoded(text: str, height: int, width: int) -> np.ndarray:
    return coco.decode({"counts": text.encode(), "size": [height, width]}).astype(bool)


def palette() -> list[tuple[int, int, int]]:
    header = (ROOT / "base/class_colour.h").read_text()
    found = re.findall(r"\{(\d+), (\d+), (\d+)\}", header)
    return [tuple(map(int, colour)) for colour in found]


def test_shows_what_a_detector_finds(server: Server, open_page: Open) -> None:
    page = open_page(
        server.http, "#look?task=detection&model=instances_dense&example=scene_1.jpg"
    )
    answered(page)
    query = "model=instances_dense&score_threshold=0.5&mask_format=RUN_LENGTHS"
    result = post(server, f"v1/detect?{query}", SCENE.read_bytes())["results"][0]
    found = result["detections"]
    assert len(found) > 2
    expect(page.locator("#stage svg rect.box")).to_have_count(len(found))
    entries = page.locator("#results .entry")
    expect(entries).to_have_count(len(found))
    for i, one in enumerate(found):
        expect(entries.nth(i)).to_contain_text(one["label"])
        box = page.locator("#stage svg rect.box").nth(i)
        assert float(box.get_attribute("x")) == pytest.approx(
            one["box"]["left"], abs=1e-3
        )
    # Each pixel of a mask is painted in the colour of the class that lies on top of it.
    height, width = result["image_height"], result["image_width"]
    painted = np.full((height, width), -1)
    for one in reversed(found):
        mask = decoded(one["mask"]["run_lengths"], height, width)
        painted[mask] = one["class_index"]
    shown = page.evaluate(COLOURS)
    assert (shown["width"], shown["height"]) == (width, height)
    colours = palette()
    expected = {
        ",".join(map(str, colours[index % 8])): int((painted == index).sum())
        for index in np.unique(painted)
        if index >= 0
    }
    assert shown["counts"] == expected
    # What the list points at stands out.
    entries.first.hover()
    expect(page.locator("#stage svg rect.box.behind")).to_have_count(len(found) - 1)
    page.get_by_label("Boxes").uncheck()
    expect(page.locator("#stage svg rect.box")).to_have_count(0)


def test_shows_the_classes_of_pixels(server: Server, open_page: Open) -> None:
    page = open_page(
        server.http, "#look?model=segmenter_dense&example=scene_2.jpg&task=segmentation"
    )
    answered(page)
    picture = ROOT / "client/examples/scenes/scene_2.jpg"
    result = post(
        server,
        "v1/segment?model=segmenter_dense&map_format=RUN_LENGTHS",
        picture.read_bytes(),
    )["results"][0]
    colours = palette()
    expected: dict[str, int] = {}
    assert result["classes"][0]["label"] == "background"  # which stays as it is
    for one in result["classes"][1:]:
        colour = ",".join(map(str, colours[one["class_index"] % 8]))
        expected[colour] = expected.get(colour, 0) + one["pixels"]
    assert page.evaluate(COLOURS)["counts"] == expected
    expect(page.locator("#results .entry")).to_have_count(len(result["classes"]))


def test_tells_the_classes_of_a_chosen_picture_and_what_it_cost(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#look?task=classification&model=shapes&top_k=3")
    page.locator("#look-chooser input[type=file]").first.set_input_files(STAR)
    answered(page)
    best = post(server, "v1/classify?model=shapes&top_k=3", STAR.read_bytes())[
        "results"
    ][0]
    rows = page.locator("#results .bars li")
    expect(rows).to_have_count(3)
    for i, one in enumerate(best["classes"]):
        expect(rows.nth(i)).to_contain_text(one["label"])
        expect(rows.nth(i)).to_contain_text(f"{100 * one['confidence']:.1f}%")
    names = page.locator("#receipt-place .stages li span:nth-child(2)")
    expect(names).to_have_text(
        ["receive", "decode", "preprocess", "queue", "compute", "postprocess", "encode"]
    )
    expect(page.locator("#spoken")).to_contain_text(best["classes"][0]["label"])
    page.get_by_text("The same without a browser").click()
    expect(page.locator("#curl")).to_contain_text(
        f'"http://{server.http}/v1/classify?model=shapes&top_k=3"'
    )


def test_what_is_asked_at_once_takes_the_place_of_what_was_to_be_asked(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#look?task=classification&example=star.jpg")
    answered(page)
    asked = []
    page.on(
        "request",
        lambda request: "v1/classify" in request.url and asked.append(request.url),
    )
    # A number is asked for when nobody types any more.
    page.evaluate(
        """() => { const count = document.getElementById("top-k");
          count.value = "3"; count.dispatchEvent(new Event("input"));
          document.getElementById("again").click(); }"""
    )
    expect(page.locator("#results .bars li")).to_have_count(3)
    page.wait_for_timeout(1000)  # five times as long as it waits for typing
    assert len(asked) == 1


@pytest.mark.parametrize("how", ["drop", "paste"])
def test_a_picture_may_be_dropped_or_pasted(
    server: Server, open_page: Open, how: str
) -> None:
    page = open_page(server.http, "#look?task=classification&model=shapes")
    transfer = page.evaluate_handle(
        """bytes => { const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(bytes)], "mine.jpg", {type: "image/jpeg"})); return transfer; }""",
        list(STAR.read_bytes()),
    )
    if how == "drop":
        page.dispatch_event("#stage", "drop", {"dataTransfer": transfer})
    else:
        page.evaluate(
            "data => document.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true}))",
            transfer,
        )
    answered(page)
    expect(page.locator("#results .bars li").first).to_contain_text("star")
    expect(page.locator("#stage img").first).to_have_attribute(
        "alt", re.compile("^mine.jpg.*star")
    )


def test_a_link_brings_back_what_was_chosen(server: Server, open_page: Open) -> None:
    page = open_page(server.http, "#look?task=classification&example=star.jpg")
    answered(page)
    page.get_by_label("Detect", exact=True).check()
    page.locator("#model").select_option("detector_aewin")
    page.locator("#score").fill("30")
    answered(page)
    page.wait_for_url(re.compile("score=0.3"))
    again = open_page(server.http, page.url[page.url.index("#") :])
    answered(again)
    expect(again.locator("#task-detection")).to_be_checked()
    expect(again.locator("#model")).to_have_value("detector_aewin")
    expect(again.locator("#score")).to_have_value("30")
    expect(again.locator(".example[aria-pressed=true]").first).to_have_attribute(
        "data-file", "star.jpg"
    )


def test_what_goes_wrong_is_said_with_its_reason(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#look?task=classification&model=shapes")
    chooser = page.locator("#look-chooser input[type=file]").first
    chooser.set_input_files(written.UNREAD_PICTURE)
    expect(page.locator("#results .token")).to_have_text(
        "415 · INVALID_ARGUMENT · image.unsupported_type"
    )
    chooser.set_input_files(written.UNREAD_PICTURE | {"buffer": b"no picture"})
    expect(page.locator("#look-chooser .picture-note")).to_contain_text("cannot show")


def test_a_camera_takes_the_picture(server: Server, open_page: Open) -> None:
    page = open_page(server.http, "#look?task=classification&model=shapes")
    page.locator("#look-chooser").get_by_role("button", name="Take a photo").click()
    expect(page.locator("#camera")).to_be_visible()
    page.get_by_role("button", name="Take it").click()
    answered(page)
    expect(page.locator("#stage img").first).to_have_attribute(
        "alt", re.compile("^a photograph")
    )


@pytest.fixture
def elsewhere(start_server, one_model) -> str:
    """The host and port of a server that is not on the browser's machine, by its name."""
    server = start_server("--model-repository", one_model, "--http-host", "fovea.test")
    return f"fovea.test:{server.http.rpartition(':')[2]}"


def test_without_https_the_camera_says_why_it_is_not_there(
    elsewhere: str, open_page: Open
) -> None:
    page = open_page(elsewhere)
    button = page.locator("#look-chooser").get_by_role(
        "button", name="Camera needs https"
    )
    expect(button).to_have_attribute("aria-disabled", "true")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#look-chooser .picture-note")).to_contain_text("https")


def test_a_phones_own_camera_needs_no_https(elsewhere: str, open_page: Open) -> None:
    page = open_page(
        elsewhere,
        "#look?task=classification&model=shapes",
        viewport={"width": 390, "height": 844},
        is_mobile=True,
        has_touch=True,
    )
    with page.expect_file_chooser() as asked:
        page.locator("#look-chooser").get_by_role("button", name="Take a photo").tap()
    assert asked.value.element.get_attribute("capture") == "environment"
    asked.value.set_files(STAR)
    answered(page)


@pytest.fixture
def with_keys(start_server, one_model, tmp_path) -> Server:
    keys = tmp_path / "keys.json"
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    groups = ["metadata", "inference", "repository"]
    keys.write_text(
        json.dumps({"keys": [{"name": "me", "sha256": digest, "groups": groups}]})
    )
    keys.chmod(0o600)
    return start_server("--model-repository", one_model, "--api-keys-file", keys)


def test_asks_for_a_key_and_keeps_it_in_the_tab(
    with_keys: Server, open_page: Open
) -> None:
    page = open_page(with_keys.http, until="#key-dialog[open]")
    dialog = page.locator("#key-dialog")
    page.get_by_label("Key", exact=True).fill("wrong")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#key-why")).to_have_text(
        "The server says: the API key is not known."
    )
    page.get_by_label("Key", exact=True).fill(KEY)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#state-text")).to_have_text("1 of 1 models ready")
    page.locator("#look-chooser .example[data-file='star.jpg']").click()
    answered(page)
    expect(page.locator("#receipt-place")).to_contain_text("me")
    assert page.evaluate("sessionStorage.getItem('fovea.key')") == KEY
    assert KEY not in page.evaluate("JSON.stringify(localStorage) + location.href")
    # What the key does not allow is said, and not asked for again.
    page.locator("#to-server").click()
    expect(page.locator("#server-problem .token")).to_have_text(
        "403 · PERMISSION_DENIED · auth.group_not_allowed"
    )
    expect(dialog).to_be_hidden()


def test_the_playground_can_be_turned_off(start_server, one_model) -> None:
    server = start_server("--model-repository", one_model, "--playground", "off")
    for path in ("", "playground/app.js"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{server.http}/{path}", timeout=60)
        assert refused.value.code == 403
        assert json.load(refused.value)["reason"] == "auth.group_closed"


def test_the_servers_metrics_are_shown_while_somebody_looks(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.http, "#server")
    scrapes: list[float] = []
    page.on(
        "request",
        lambda request: (
            scrapes.append(time.monotonic())
            if request.url.endswith("/metrics")
            else None
        ),
    )
    expect(page.locator("#models-rows tr")).not_to_have_count(0)
    with traffic(server):
        row = page.locator(
            "#models-rows tr", has=page.get_by_text("shapes", exact=True)
        )
        expect(row.locator("td").nth(1)).to_have_text("dense")
        expect(row.locator("td").nth(2)).to_have_text(re.compile("[1-9]"))
        expect(row.locator("td").nth(3)).to_have_text(re.compile("ms|µs"))
        plots = page.locator("#server-plots svg[role=img]")
        expect(plots).to_have_count(6)
        for plot in plots.all():
            expect(plot.locator("path, circle")).not_to_have_count(0)
            expect(plot).to_have_attribute("aria-label", re.compile("now: .+"))
        page.locator("#filter").select_option("model=shapes")
        expect(page.locator("#server-plots")).to_contain_text("p99")
    # Nobody looks: nothing is asked.
    page.evaluate(
        """() => { Object.defineProperty(document, "hidden", {value: true, configurable: true});
                   document.dispatchEvent(new Event("visibilitychange")); }"""
    )
    expect(page.locator("#server-state")).to_have_text("paused")
    seen = len(scrapes)
    page.wait_for_timeout(2500)
    assert len(scrapes) == seen
    with page.expect_request("**/metrics"):
        page.evaluate(
            """() => { Object.defineProperty(document, "hidden", {value: false, configurable: true});
                       document.dispatchEvent(new Event("visibilitychange")); }"""
        )
