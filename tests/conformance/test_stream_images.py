"""StreamImages through a running server, by a caller that knows no proto: what it answers to each picture is what the
task's own call answers."""

from __future__ import annotations

import itertools
import pathlib
import re
import shutil
import threading
import urllib.request
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from batched_answers import differing, until_batched
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from running_server import DEMO, ROOT, Server

PICTURES = [
    path.read_bytes() for path in sorted((ROOT / "client/examples").glob("*.jpg"))
]
# Taken at one size by the trained detector, with max_batch_size: 4, that tells them apart.
SCENES = [
    path.read_bytes()
    for path in sorted((ROOT / "client/examples/scenes").glob("*.jpg"))
]
SCENE_DETECTOR = "detector_dense"
CLASSES = 10
SMALL = (
    "preprocessing { shorter_side: 64 longer_side: 96 }\nrandom_weights { seed: 1 }\n"
)
DENSE_TASKS = {
    "finder": 'backbone: "linglo_b0"\ntask: DETECTION\nnum_classes: 3\nhead { score_threshold: 0.001 detections_per_image: 5 }\n',
    "segmenter": 'backbone: "linglo_b0"\ntask: SEGMENTATION\nnum_classes: 3\nhead { name: "semantic_fpn" }\n',
}
TIMEOUT = 120  # seconds, of a call


class Vision:
    """VisionService as reflection describes it: message types by their names, and the calls."""

    def __init__(self, channel: grpc.Channel):
        self._channel = channel
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        self._methods = self._pool.FindServiceByName(
            "fovea.v1.VisionService"
        ).methods_by_name

    def message(self, name: str, **fields) -> Message:
        return GetMessageClass(self._pool.FindMessageTypeByName(f"fovea.v1.{name}"))(
            **fields
        )

    def method(self, name: str):
        method = self._methods[name]
        make = (
            self._channel.stream_stream
            if method.client_streaming
            else self._channel.unary_unary
        )
        return make(
            f"/fovea.v1.VisionService/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )

    def stream(self, requests) -> list[Message]:
        return list(self.method("StreamImages")(iter(requests), timeout=TIMEOUT))

    def classify(self, model: str, picture: bytes, **fields) -> Message:
        """A streamed request for every class."""
        task = self.message(
            "ClassifyRequest", model_name=model, images=[picture], top_k=CLASSES
        )
        return self.message("StreamImagesRequest", classify=task, **fields)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    for name in ("shapes", "shapes_knn", SCENE_DETECTOR):
        shutil.copytree(DEMO / name, folder / name)
    for name, description in DENSE_TASKS.items():
        (folder / name).mkdir()
        (folder / name / "model.textproto").write_text(
            f"spec_version: 1\n{description}{SMALL}"
        )
    log: pathlib.Path = tmp_path_factory.mktemp("log") / "server.log"
    server = Server(log, "--model-repository", str(folder), "--access-log", "all")
    yield server
    assert server.terminate() == 0
    server.close()


@pytest.fixture
def vision(server: Server) -> Iterator[Vision]:
    with grpc.insecure_channel(server.grpc) as channel:
        yield Vision(channel)


def logits(results) -> np.ndarray:
    """[images, classes] in the order of the classes."""
    return np.array(
        [
            [s.logit for s in sorted(one.classes, key=lambda score: score.index)]
            for one in results
        ]
    )


def test_pictures_are_answered_in_order_as_classify_answers_them(
    vision: Vision,
) -> None:
    requests = [vision.classify("shapes", picture) for picture in PICTURES]
    answers = vision.stream(requests)
    assert [answer.number for answer in answers] == list(range(len(PICTURES)))
    classify = vision.method("Classify")
    for request, answer in zip(requests, answers, strict=True):
        alone = logits(classify(request.classify, timeout=TIMEOUT).results)
        streamed = logits(answer.classify.results)
        # As across sizes of batches: docs/faults.md, row 43.
        assert np.abs(streamed - alone).max() <= 1e-4 * alone.std()
        receipt = answer.classify.receipt
        assert receipt.compute_ns > 0 and receipt.batch_size >= 1


def test_models_and_tasks_share_one_stream_and_a_bad_picture_fails_alone(
    vision: Vision,
) -> None:
    picture = PICTURES[0]
    order = 2  # AS_THEY_COME
    tasks = {
        "detect": vision.message(
            "DetectRequest", model_name="finder", images=[picture, PICTURES[1]], id="d"
        ),
        "segment": vision.message(
            "SegmentRequest", model_name="segmenter", images=[picture], id="s"
        ),
    }
    requests = [
        vision.classify("shapes", picture, order=order),
        vision.classify("shapes_knn", picture),
        *(vision.message("StreamImagesRequest", **{k: v}) for k, v in tasks.items()),
        vision.classify("shapes", picture[: len(picture) // 2]),
        vision.classify("nobody", picture),
        vision.classify("finder", picture),
    ]
    answers = {answer.number: answer for answer in vision.stream(requests)}
    assert sorted(answers) == list(range(len(requests)))
    assert answers[0].classify.attention != answers[1].classify.attention
    detected, segmented = answers[2], answers[3]
    assert (detected.id, segmented.id) == ("d", "s")
    assert [len(one.detections) for one in detected.detect.results] == [5, 5]
    size = (
        segmented.segment.results[0].image_height,
        detected.detect.results[0].image_height,
    )
    assert size[0] == size[1] > 0
    assert sum(a.pixels for a in segmented.segment.results[0].classes) == size[0] * (
        segmented.segment.results[0].image_width
    )
    errors = [(answers[n].error.code, answers[n].error.reason) for n in (4, 5, 6)]
    assert errors == [
        (grpc.StatusCode.INVALID_ARGUMENT.value[0], "image.truncated"),
        (grpc.StatusCode.NOT_FOUND.value[0], "model.not_found"),
        (grpc.StatusCode.FAILED_PRECONDITION.value[0], "model.no_classifier"),
    ]
    assert all(answers[n].error.message for n in (4, 5, 6))


def test_requests_of_one_stream_share_batches(vision: Vision) -> None:
    answers = vision.stream([vision.classify("shapes", PICTURES[0])] * 200)
    assert max(answer.classify.receipt.batch_size for answer in answers) > 1


def objects(results) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores and classes of the only picture."""
    (one,) = results
    boxes = [(d.box.left, d.box.top, d.box.right, d.box.bottom) for d in one.detections]
    return (
        np.array(boxes),
        np.array([d.score for d in one.detections]),
        np.array([d.class_index for d in one.detections]),
    )


def test_detections_in_shared_batches_are_those_of_detect(vision: Vision) -> None:
    tasks = [
        vision.message(
            "DetectRequest",
            model_name=SCENE_DETECTOR,
            images=[scene],
            score_threshold=0.5,
        )
        for scene in SCENES
    ]
    detect = vision.method("Detect")
    alone = [objects(detect(task, timeout=TIMEOUT).results) for task in tasks]
    for one, other in itertools.combinations(alone, 2):
        assert differing(one, other) > 0
    requests = [vision.message("StreamImagesRequest", detect=task) for task in tasks]
    answers = until_batched(
        lambda: vision.stream(requests * 4),
        lambda answers: max(one.detect.receipt.batch_size for one in answers),
    )
    for answer, expected in zip(answers, alone * 4, strict=True):
        found = objects(answer.detect.results)
        assert len(found[1]) > 0
        assert differing(found, expected) == 0


def test_a_requests_timeout_ends_it_alone(vision: Vision) -> None:
    late, good = vision.stream(
        [
            vision.classify("shapes", PICTURES[0], timeout_us=1),
            vision.classify("shapes", PICTURES[0], timeout_us=TIMEOUT * 1_000_000),
        ]
    )
    assert late.error.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    assert len(good.classify.results) == 1


def test_a_caller_that_reads_late_gets_every_answer(vision: Vision) -> None:
    """More requests than a stream's window: the caller reads when its writes are held up."""
    count = 1500
    sent = 0

    def requests():
        nonlocal sent
        for _ in range(count):
            sent += 1
            yield vision.classify("shapes", PICTURES[0])

    call = vision.method("StreamImages")(requests(), timeout=TIMEOUT)
    threading.Event().wait(0.5)
    assert sent < count
    assert [answer.number for answer in call] == list(range(count))
    assert sent == count
    assert call.code() == grpc.StatusCode.OK


def test_each_picture_counts_in_the_metrics_and_in_the_log(
    vision: Vision, server: Server
) -> None:
    def answered(code: str) -> int:
        with urllib.request.urlopen(f"http://{server.metrics}/metrics") as answer:
            text = answer.read().decode()
        series = re.findall(
            rf'^fovea_requests_total\{{(?=[^}}]*model="shapes")[^}}]*code="{code}"[^}}]*\}} (\d+)',
            text,
            re.MULTILINE,
        )
        return sum(map(int, series))

    before = answered("OK"), answered("INVALID_ARGUMENT")
    vision.stream(
        vision.classify("shapes", picture)
        for picture in (PICTURES[0], PICTURES[0][:100], PICTURES[1])
    )
    assert (answered("OK"), answered("INVALID_ARGUMENT")) == (
        before[0] + 2,
        before[1] + 1,
    )
    server.wait_for_log(r"method=StreamImages .*code=INVALID_ARGUMENT reason=image\.")
