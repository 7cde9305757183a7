"""fovea.client's StreamImages against a real server: each answer is what the request's own call answers."""

from __future__ import annotations

import itertools
import pathlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from batched_answers import differing, same_objects, until_batched
from running_server import DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client

EXAMPLES = sorted((ROOT / "client/examples").glob("*.jpg"))
DENSE_TASKS = {
    "finder": 'task: DETECTION\nhead { name: "mask_rcnn" conventions: MMDETECTION detections_per_image: 5 }\n',
    "regions": 'task: SEGMENTATION\nhead { name: "semantic_fpn" }\n',
}
# Trained, with max_batch_size: 4, and pictures that they tell apart and take at one size.
SCENE_MODELS = {"instances": "instances_dense", "segmenter": "segmenter_dense"}
SCENES = sorted((ROOT / "client/examples/scenes").glob("*.jpg"))
MANY = 300  # requests: more than the server takes of a stream


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with trained models, and a detector and a segmenter of random weights."""
    repository = tmp_path_factory.mktemp("models")
    for name in ("shapes", *SCENE_MODELS.values()):
        shutil.copytree(DEMO / name, repository / name)
    for name, description in DENSE_TASKS.items():
        (repository / name).mkdir()
        (repository / name / "model.textproto").write_text(
            f'spec_version: 1\nbackbone: "linglo_b0"\nnum_classes: 3\n{description}'
            "preprocessing { shorter_side: 64 longer_side: 96 }\n"
            "random_weights { seed: 2 }\n"
        )
    log = tmp_path_factory.mktemp("log") / "server.log"
    running = Server(log, "--model-repository", str(repository))
    yield running
    assert running.terminate() == 0
    running.close()


@pytest.fixture
def server(running: Server) -> Iterator[client.Client]:
    with client.Client(running.grpc, timeout=120) as server:
        yield server


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_answers_come_in_order_and_are_those_of_classify(server: client.Client):
    with server.stream(timeout=120) as stream:
        numbers = [
            stream.classify("shapes", [picture], top_k=100, id=picture.name)
            for picture in EXAMPLES
        ]
        stream.writes_done()
        answers = list(stream)
    assert numbers == [one.number for one in answers] == list(range(len(EXAMPLES)))
    assert [one.id for one in answers] == [picture.name for picture in EXAMPLES]
    for picture, streamed in zip(EXAMPLES, answers, strict=True):
        assert streamed.error is None
        (found,) = streamed.answer.images
        (alone,) = server.classify("shapes", [picture], top_k=100).images
        # As across sizes of batches: docs/faults.md, row 43. Near scores may change places.
        np.testing.assert_allclose(
            found.logits[np.argsort(found.classes)],
            alone.logits[np.argsort(alone.classes)],
            atol=1e-4 * alone.logits.std(),
        )
        assert streamed.answer.receipt.seconds["compute"] > 0
        assert (
            streamed.answer.receipt.total_seconds <= streamed.answer.round_trip_seconds
        )


def test_tasks_share_a_stream_and_a_bad_picture_fails_alone(server: client.Client):
    whole = EXAMPLES[0].read_bytes()
    with server.stream(in_order=False, timeout=120) as stream:
        stream.detect("finder", EXAMPLES[:2], masks=True, id="d")
        stream.segment("regions", EXAMPLES[:1], confidence=True, id="s")
        stream.classify("shapes", [whole[: len(whole) // 2]], id="broken")
        stream.classify("nobody", [whole])
        stream.classify("shapes", [whole], timeout=1e-6)
        stream.classify("shapes", [whole], top_k=2)
        stream.writes_done()
        answers = {one.number: one for one in stream}
    assert sorted(answers) == list(range(6))
    detected = server.detect("finder", EXAMPLES[:2], masks=True).images
    for found, alone in zip(answers[0].answer.images, detected, strict=True):
        np.testing.assert_array_equal(found.boxes, alone.boxes)
        np.testing.assert_array_equal(found.scores, alone.scores)
        assert found.masks == alone.masks is not None
    (segmented,) = server.segment("regions", EXAMPLES[:1], confidence=True).images
    (found,) = answers[1].answer.images
    np.testing.assert_array_equal(found.class_map, segmented.class_map)
    np.testing.assert_array_equal(found.confidence, segmented.confidence)
    assert [answers[number].id for number in range(3)] == ["d", "s", "broken"]
    errors = [answers[number].error for number in (2, 3, 4)]
    assert [(error.code, error.reason) for error in errors[:2]] == [
        ("INVALID_ARGUMENT", "image.truncated"),
        ("NOT_FOUND", "model.not_found"),
    ]
    assert isinstance(errors[2], client.TimedOut) and all(e.message for e in errors)
    assert all(answers[number].answer is None for number in (2, 3, 4))
    assert len(answers[5].answer.images[0].classes) == 2


def batched(
    server: client.Client, write: Callable[[client.ImageStream, pathlib.Path], int]
) -> list:
    """The answers to each scene several times over one stream, some of which shared a batch."""

    def ask() -> list:
        with server.stream(timeout=120) as stream:
            fed = SCENES * 4
            answers = list(stream.feed(fed, lambda scene: write(stream, scene)))
        assert [one.error for one in answers] == [None] * len(fed)
        return [one.answer for one in answers]

    return until_batched(
        ask, lambda answers: max(one.receipt.batch_size for one in answers)
    )


def test_objects_do_not_depend_on_the_batch(server: client.Client):
    model, options = SCENE_MODELS["instances"], {"score_threshold": 0.5, "masks": True}

    def objects(one: client.Detections) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return one.boxes, one.scores, one.classes

    alone = [server.detect(model, [scene], **options).images[0] for scene in SCENES]
    for one, other in itertools.combinations(alone, 2):
        assert differing(objects(one), objects(other)) > 0
    answers = batched(server, lambda s, scene: s.detect(model, [scene], **options))
    for answer, expected in zip(answers, itertools.cycle(alone), strict=False):
        (found,) = answer.images
        assert len(found.scores) > 0
        assert differing(objects(found), objects(expected)) == 0
        for place, other in same_objects(objects(found), objects(expected)):
            pixels = expected.masks[other].pixels
            wrong = found.masks[place].array() != expected.masks[other].array()
            assert wrong.sum() <= 1 + 0.01 * pixels  # along its outline


def test_class_maps_do_not_depend_on_the_batch(server: client.Client):
    model, options = SCENE_MODELS["segmenter"], {"confidence": True}
    most = 1e-3  # of the pixels
    alone = [server.segment(model, [scene], **options).images[0] for scene in SCENES]
    for one, other in itertools.combinations(alone, 2):
        # What both show: the scenes are of three shapes.
        height, width = np.minimum(one.class_map.shape, other.class_map.shape)
        shown, others = (each.class_map[:height, :width] for each in (one, other))
        assert (shown != others).mean() > 10 * most
    answers = batched(server, lambda s, scene: s.segment(model, [scene], **options))
    for answer, expected in zip(answers, itertools.cycle(alone), strict=False):
        (found,) = answer.images
        assert found.class_map.shape == expected.class_map.shape
        changed = found.class_map != expected.class_map
        # Two classes are as likely there, so neither is likelier than a half.
        assert changed.mean() <= most
        assert (expected.confidence[changed] <= 128).all()
        levels = found.confidence.astype(int) - expected.confidence
        assert np.abs(levels).max() <= 1


def test_a_generator_feeds_a_stream_of_any_length(server: client.Client):
    fed = (EXAMPLES[number % len(EXAMPLES)] for number in range(MANY))
    with server.stream() as stream:
        answers = list(stream.feed(fed, lambda one: stream.classify("shapes", [one])))
    assert [one.number for one in answers] == list(range(MANY))
    assert not any(one.error for one in answers)
    for one, other in zip(answers, answers[len(EXAMPLES) :], strict=False):
        assert one.answer.images[0].labels[0] == other.answer.images[0].labels[0]
    assert max(one.answer.receipt.batch_size for one in answers) > 1


def test_a_generator_is_read_no_further_ahead_than_asked(server: client.Client):
    """It has no end: a stream that did not wait for its reader would never come to rest."""
    ahead, taken = 5, 0

    def camera() -> Iterator[pathlib.Path]:
        nonlocal taken
        for picture in itertools.cycle(EXAMPLES):
            taken += 1
            yield picture

    with server.stream(ahead=ahead) as stream:
        stream.feed(camera(), lambda frame: stream.classify("shapes", [frame]))
        for read in range(1, MANY):
            assert next(stream).number == read - 1
            assert taken <= read + ahead + 1  # one is waiting to be written
        eventually(lambda: taken == read + ahead + 1)
        time.sleep(0.5)
        assert taken == read + ahead + 1
    # Leaving ends the feed, which was waiting.
    eventually(lambda: "fovea-feed" not in [one.name for one in threading.enumerate()])
    assert taken == read + ahead + 1


def test_cancelling_ends_the_iteration_and_later_writes(server: client.Client):
    with server.stream() as stream:
        stream.classify("shapes", EXAMPLES[:1])
        assert next(stream).answer.model == "shapes"
        canceller = threading.Timer(0.2, stream.cancel)
        canceller.start()
        with pytest.raises(client.Error) as caught:
            next(stream)  # nothing is under way: it would wait for ever
        canceller.join()
        with pytest.raises(client.Error) as refused:
            for _ in range(3):
                stream.classify("shapes", EXAMPLES[:1])
    assert caught.value.code == refused.value.code == "CANCELLED"
    assert server.classify("shapes", EXAMPLES[:1]).model == "shapes"


def test_a_write_that_waits_ends_with_the_stream(server: client.Client):
    written, caught = 0, []
    with server.stream(ahead=3) as stream:

        def write() -> None:
            nonlocal written
            try:
                while True:
                    stream.classify("shapes", EXAMPLES[:1])
                    written += 1
            except client.Error as error:
                caught.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: written == 3)
        time.sleep(0.2)
        assert writer.is_alive() and written == 3
    writer.join(30)
    assert not writer.is_alive() and [one.code for one in caught] == ["CANCELLED"]


def test_a_streams_timeout_ends_it(server: client.Client):
    with server.stream(timeout=0.3) as stream, pytest.raises(client.TimedOut) as caught:
        next(stream)
    assert caught.value.message == "no answer within 0.3 s"


def test_a_folder_with_a_missing_picture_says_which(
    server: client.Client, tmp_path: pathlib.Path
):
    pictures = [EXAMPLES[0], tmp_path / "gone.jpg", EXAMPLES[0]]
    with (
        server.stream() as stream,
        pytest.raises(FileNotFoundError, match=r"gone\.jpg"),
    ):
        list(stream.feed(pictures, lambda one: stream.classify("shapes", [one])))


def test_a_server_that_stops_answers_what_it_has_taken(
    tmp_path: pathlib.Path,
):
    shutil.copytree(DEMO / "shapes", tmp_path / "models" / "shapes")
    running = Server(tmp_path / "log", "--model-repository", str(tmp_path / "models"))
    try:
        with client.Client(running.grpc) as server, server.stream() as stream:
            stream.classify("shapes", EXAMPLES[:1])
            assert next(stream).error is None
            assert running.terminate() == 0
            with pytest.raises(client.Error) as caught:
                next(stream)
            assert caught.value.code == "UNAVAILABLE" and caught.value.reason
            assert not isinstance(caught.value, client.Unreachable)
    finally:
        running.close()
