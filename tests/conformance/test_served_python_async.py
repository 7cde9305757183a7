"""fovea.client.AsyncClient against a real server: what the blocking client answers."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
from running_server import ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client

PICTURES = sorted((ROOT / "client/examples").glob("*.jpg"))
SCENE = ROOT / "client/examples/scenes/scene_1.jpg"


def test_calls_and_a_stream_answer_as_the_blocking_clients(server: Server) -> None:
    async def ask() -> tuple:
        async with client.AsyncClient(server.grpc) as asked:
            together = await asyncio.gather(
                *(asked.classify("shapes", [file], top_k=3) for file in PICTURES),
                asked.detect("instances_dense", [SCENE], masks=True),
                asked.segment("segmenter_dense", [SCENE], confidence=True),
            )
            async with asked.stream(in_order=True) as stream:
                feed = stream.feed(
                    PICTURES,
                    lambda file: stream.classify("shapes", [file], id=file.stem),
                )
                streamed = [one async for one in feed]
            return together, streamed

    (*classified, detected, segmented), streamed = asyncio.run(ask())
    with client.Client(server.grpc) as blocking:
        for file, found, one in zip(PICTURES, classified, streamed, strict=True):
            (expected,) = blocking.classify("shapes", [file], top_k=3).images
            assert found.images[0].labels == expected.labels
            np.testing.assert_allclose(
                found.images[0].confidences, expected.confidences, atol=1e-3
            )
            assert one.error is None and one.id == file.stem
            assert one.answer.images[0].labels[0] == expected.labels[0] == file.stem
        (objects,) = blocking.detect("instances_dense", [SCENE], masks=True).images
        (areas,) = blocking.segment("segmenter_dense", [SCENE], confidence=True).images
    assert detected.images[0].labels == objects.labels
    assert len(detected.images[0].masks) == len(objects.masks) > 2
    np.testing.assert_array_equal(segmented.images[0].class_map, areas.class_map)


def test_errors_are_the_servers(server: Server) -> None:
    async def ask() -> list[BaseException]:
        async with client.AsyncClient(server.grpc) as asked:
            return await asyncio.gather(
                asked.classify("no_model", [SCENE]),
                asked.detect("detector_dense", [b"no picture"]),
                asked.compare("shapes", [SCENE], attentions=["dense", "axial"]),
                return_exceptions=True,
            )

    missing, broken, compared = asyncio.run(ask())
    assert (missing.code, missing.reason) == ("NOT_FOUND", "model.not_found")
    assert broken.reason == "image.unsupported_type"
    assert (compared.code, compared.reason) == (
        "FAILED_PRECONDITION",
        "model.load_failed",
    )
