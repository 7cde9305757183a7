"""The playground's own arithmetic, in the browser that runs it, against libraries that others keep."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page
from pycocotools import mask as coco
from running_server import ROOT, Server

Open = Callable[..., Page]


@pytest.fixture
def call(server: Server, open_page: Open) -> Callable:
    """call("masks.js", "readRunLengths", text): what a function of a script gives."""
    page = open_page(server.http)

    def run(script: str, name: str, *arguments):
        return page.evaluate(
            "async ([script, name, given]) => (await import(`./playground/${script}`))[name](...given)",
            [script, name, list(arguments)],
        )

    run.page = page
    return run


def masks() -> list[np.ndarray]:
    random = np.random.default_rng(7)
    drawn = [
        random.random((height, width)) < share
        for height, width, share in [
            (1, 1, 1),
            (1, 1, 0),
            (7, 5, 0.5),
            (64, 48, 0.1),
            (100, 300, 0.9),
        ]
    ]
    solid = np.zeros((120, 160), bool)
    solid[25:100, 50:125] = True
    return [*drawn, solid, ~solid]


def text_of(mask: np.ndarray) -> str:
    return coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()


def test_run_lengths_are_read_as_coco_writes_them(call: Callable) -> None:
    for mask in masks():
        runs = call("masks.js", "readRunLengths", text_of(mask))
        pixels = np.repeat(np.arange(len(runs)) % 2, runs)
        assert (pixels.reshape(mask.T.shape).T == mask).all()


PAINT = """async ([text, height, width, to_height, to_width]) => {
  const {paintMask, readRunLengths} = await import("./playground/masks.js");
  const image = new ImageData(to_width, to_height);
  paintMask(image, readRunLengths(text), height, width, [1, 2, 3], 255);
  return Array.from(image.data);
}"""


@pytest.mark.parametrize("shrink", [1, 3])
def test_masks_are_painted_where_they_are(call: Callable, shrink: int) -> None:
    for mask in masks():
        height, width = mask.shape
        to = (max(1, round(height / shrink)), max(1, round(width / shrink)))
        data = call.page.evaluate(PAINT, [text_of(mask), height, width, *to])
        painted = np.array(data, np.uint8).reshape(*to, 4)
        # A pixel shows what lies at its middle.
        rows = np.floor((np.arange(to[0]) + 0.5) * height / to[0]).astype(int)
        columns = np.floor((np.arange(to[1]) + 0.5) * width / to[1]).astype(int)
        assert ((painted[..., 3] == 255) == mask[np.ix_(rows, columns)]).all()
        assert (painted[painted[..., 3] == 255][:, :3] == [1, 2, 3]).all()


def test_classes_have_the_colours_that_they_have_everywhere(call: Callable) -> None:
    header = (ROOT / "base/class_colour.h").read_text()
    wanted = [
        list(map(int, one)) for one in re.findall(r"\{(\d+), (\d+), (\d+)\}", header)
    ]
    assert len(wanted) == 8
    for index in (*range(8), 8, 21, -1):
        assert call("masks.js", "classColour", index) == wanted[index % 8]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def luminance(colour: list[int]) -> float:
    levels = np.array(colour) / 255
    linear = np.where(
        levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4
    )
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_labels_are_readable_on_every_colour(call: Callable) -> None:
    for index in range(8):
        colour = call("masks.js", "classColour", index)
        ink = {"#000": 0.0, "#fff": 1.0}[call("masks.js", "inkOn", colour)]
        assert contrast(luminance(colour), ink) >= 4.5  # WCAG 2, AA


QUANTILE = """async ([before, after, share]) => {
  const {Scrape, parseMetrics} = await import("./playground/metrics.js");
  const first = new Scrape(0, parseMetrics(before), null);
  first.settle();
  const second = new Scrape(2000, parseMetrics(after), first);
  const wanted = labels => labels.model === 'a"b';
  return {quantile: second.quantile(share, "fovea_request_duration_seconds", wanted),
          rate: second.rate("fovea_requests_total", wanted), mean: second.mean("fovea_request_duration_seconds", wanted),
          gauge: second.gauge("fovea_queue_depth", wanted), none: second.gauge("fovea_batch_size")};
}"""


def scrape(counts: list[int], requests: int) -> str:
    bounds = ["0.1", "0.2", "0.4", "+Inf"]
    label = r'model="a\"b"'
    lines = ["# HELP fovea_requests_total x", "other_metric 3"]
    for other in (label, 'model="c"'):
        lines += [
            f'fovea_request_duration_seconds_bucket{{{other},le="{bound}"}} {count}'
            for bound, count in zip(bounds, np.cumsum(counts))
        ]
        lines.append(f"fovea_request_duration_seconds_count{{{other}}} {sum(counts)}")
        lines.append(f"fovea_request_duration_seconds_sum{{{other}}} {sum(counts) / 4}")
        lines.append(f'fovea_requests_total{{{other},code="OK"}} {requests}')
        lines.append(f"fovea_queue_depth{{{other}}} 2")
    return "\n".join(lines) + "\n"


def test_rates_and_quantiles_are_of_what_came_between_two_scrapes(
    call: Callable,
) -> None:
    before, after = scrape([5, 5, 5, 5], 20), scrape([5, 15, 5, 5], 30)
    for share, wanted in [(0.5, 0.15), (0.99, 0.199)]:  # all ten in the second bucket
        found = call.page.evaluate(QUANTILE, [before, after, share])
        assert found["quantile"] == pytest.approx(wanted)
    assert found["rate"] == pytest.approx(5)
    assert found["mean"] == pytest.approx(0.25)
    assert found["gauge"] == 2 and found["none"] is None
    # Beyond the last bound nothing is made up; and a counter that is smaller has begun anew.
    beyond = call.page.evaluate(QUANTILE, [before, scrape([5, 5, 5, 9], 24), 0.5])
    assert beyond["quantile"] == pytest.approx(0.4)
    anew = call.page.evaluate(QUANTILE, [after, scrape([2, 0, 0, 0], 2), 0.5])
    assert anew["rate"] == pytest.approx(1)


def test_quartiles_are_numpys(call: Callable) -> None:
    random = np.random.default_rng(3)
    for size in (1, 2, 3, 10, 41):
        values = random.random(size)
        found = call("receipt_rounds.js", "quartiles", values.tolist())
        wanted = np.quantile(values, [0.25, 0.5, 0.75])
        assert [found["lower"], found["median"], found["upper"]] == pytest.approx(
            wanted
        )
