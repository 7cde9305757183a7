"""Rows 7, 14-18, 24, 30, 44, 55-59, 62 and 63 of docs/faults.md, for detectors and segmenters: pictures and models that nobody should send."""

from __future__ import annotations

import io
import json
import pathlib
import re
import select
import socket
import struct
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from fault_support import (
    Caller,
    both,
    expect,
    infer_request,
    leaves_unharmed,
    picture,
    refusal_of,
    wait_until,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from http_caller import HttpCaller
from PIL import Image
from pycocotools import mask as coco
from running_server import Server
from test_images import png_with_header
from tritonclient.grpc import service_pb2

VISION = "fovea.v1.VisionService"
SIZES = (
    "image_height: 64 image_width: 96 further_image_sizes { height: 96 width: 64 } "
    "further_image_sizes { height: 64 width: 64 } "
    "preprocessing { shorter_side: 64 longer_side: 96 } "
)
SQUARE = (
    "image_height: 128 image_width: 128 "
    "preprocessing { shorter_side: 128 longer_side: 128 } "
)
MODELS = {
    "boxes": SIZES
    + 'task: DETECTION num_classes: 3 head { name: "retinanet" score_threshold: 0 detections_per_image: 50 }',
    # As sure of a box is no model of random weights.
    "nothing": SQUARE
    + 'task: DETECTION num_classes: 3 head { name: "retinanet" score_threshold: 0.999999 }',
    "masks": SIZES
    + 'task: DETECTION num_classes: 3 head { name: "mask_rcnn" channels: 64 score_threshold: 0 detections_per_image: 20 }',
    # No box suppresses another, and none is too unsure.
    "thousand": SQUARE + "task: DETECTION num_classes: 20 "
    'head { name: "mask_rcnn" channels: 64 score_threshold: 0 nms_iou: 1 detections_per_image: 1000 }',
    "segments": SIZES
    + 'task: SEGMENTATION num_classes: 150 head { name: "semantic_fpn" }',
    # It sees pictures of every shape at one size.
    "squashed": "image_height: 64 image_width: 64 task: SEGMENTATION num_classes: 3 "
    "preprocessing { resize_mode: SQUASH }",
}
# Of servers of their own. A picture of the larger size holds some thirty times as much as one of the smaller.
OTHERS = {
    "two_sizes": "image_height: 64 image_width: 64 further_image_sizes { height: 64 width: 2048 } "
    "preprocessing { shorter_side: 64 longer_side: 2048 } "
    'task: DETECTION num_classes: 3 head { name: "retinanet" score_threshold: 0 }',
}


def describe(folder: pathlib.Path, name: str) -> pathlib.Path:
    """One of MODELS or OTHERS, with random weights. Gives the folder."""
    (folder / name).mkdir(parents=True)
    (folder / name / "model.textproto").write_text(
        f'spec_version: 1\nbackbone: "linglo_b0"\n{(MODELS | OTHERS)[name]}\n'
        f"max_batch_size: {2 if name == 'squashed' else 1}\nrandom_weights {{ seed: 1 }}\n"
    )
    return folder


class Vision:
    """fovea.v1.VisionService, as its reflection describes it."""

    def __init__(self, server: Server):
        self.caller = Caller(server.grpc)
        self.http = HttpCaller(server.http)
        database = ProtoReflectionDescriptorDatabase(self.caller.channel)
        service = DescriptorPool(database).FindServiceByName(VISION)
        self.methods = service.methods_by_name

    def request(self, method: str, model: str, *images: bytes, **fields) -> bytes:
        message = GetMessageClass(self.methods[method].input_type)(
            model_name=model, images=images, **fields
        )
        return message.SerializeToString()

    # Not the server's speed is tested: on a busy machine a thousand masks take a minute.
    def call(self, method: str, model: str, *images: bytes, timeout=300, **fields):
        payload = self.request(method, model, *images, **fields)
        answer = self.caller.send(payload, f"/{VISION}/{method}", timeout=timeout)
        return GetMessageClass(self.methods[method].output_type).FromString(answer)

    def call_http(
        self, method: str, model: str, *images: bytes, timeout=300, **fields
    ) -> list[dict]:
        """The results of the same over HTTP: one picture as it is, several in a form. `fields` as HTTP names them."""
        fields = {"model": model, **fields}
        path = f"/v1/{method.lower()}?{urllib.parse.urlencode(fields)}"
        body, kind = images[0], "application/octet-stream"
        if len(images) > 1:
            kind = "multipart/form-data; boundary=between"
            body = b"".join(
                b'--between\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'
                + image + b"\r\n"
                for image in images
            ) + b"--between--\r\n"  # fmt: skip
        _, answer = self.http.ask("POST", path, body, timeout, Content_Type=kind)
        return json.loads(answer)["results"]

    def refused_http(self, method: str, model: str, *images: bytes, **fields):
        return refusal_of(lambda: self.call_http(method, model, *images, **fields))

    def refused(self, method: str, model: str, *images: bytes, timeout=60, **fields):
        payload = self.request(method, model, *images, **fields)
        return self.caller.refused(
            payload, method=f"/{VISION}/{method}", timeout=timeout
        )


@pytest.fixture(scope="module")
def pictures_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("dense")
    for name in MODELS:
        describe(folder, name)
    server = Server(
        tmp_path_factory.mktemp("log") / "server.log",
        *("--model-repository", str(folder)),
        # malloc keeps freed memory for each thread that had it: how much that is would follow from which threads made
        # the results. Of this size on it goes back at once, so that what is resident is what is held.
        environment={"FOVEA_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)},
    )
    yield server
    code = server.terminate()
    server.close()
    assert code == 0, "\n".join(["the server ended otherwise:", *server.lines()[-20:]])


@pytest.fixture(scope="module")
def vision(pictures_server: Server) -> Iterator[Vision]:
    vision = Vision(pictures_server)
    yield vision
    vision.caller.channel.close()


def good_answers(vision: Vision) -> list[bytes]:
    """All but the receipts, whose times differ."""
    found = vision.call("Detect", "boxes", picture("PNG")).results
    assert len(found[0].detections) == 50
    segments = vision.call("Segment", "segments", picture("PNG")).results
    return [one.SerializeToString(deterministic=True) for one in [*found, *segments]]


@pytest.fixture(scope="module")
def before(vision: Vision) -> list[bytes]:
    return good_answers(vision)


@pytest.fixture(autouse=True)
def unharmed_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """As `unharmed` (conftest.py), of detectors and segmenters."""
    if "vision" not in request.fixturenames:
        yield
        return
    vision, server, before = (
        request.getfixturevalue(name) for name in ("vision", "pictures_server", "before")
    )  # fmt: skip
    with leaves_unharmed(server, lambda: good_answers(vision), before):
        yield


def flat_png(width: int, height: int) -> bytes:
    """A whole PNG of one grey, small beside its pixels."""
    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(bytes(1 + width)) for _ in range(height))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", data + rows.flush()),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )  # fmt: skip


REFUSED: dict[str, Callable[[], bytes]] = {
    "row 24: 1x20000": lambda: flat_png(1, 20_000),
    "row 24: 20000x1": lambda: flat_png(20_000, 1),
    "row 14: a header of 20000x20000": lambda: png_with_header(20_000, 20_000),
    "row 14: 20000x20000 in 400 KB": lambda: flat_png(20_000, 20_000),
    "row 17: half of a picture": lambda: picture("PNG")[:-200],
    "row 18: no picture": lambda: b"<svg/>",
}


def image_of(file: bytes, model: str) -> service_pb2.ModelInferRequest:
    element = struct.pack("<I", len(file)) + file
    return infer_request("image", "BYTES", (1, 1), [element], model)


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_rows_14_to_24_of_detectors_and_segmenters(vision: Vision, case: str):
    file = REFUSED[case]()
    assert len(file) < 1 << 20
    for method, model in (("Detect", "boxes"), ("Segment", "segments")):
        expect(vision.refused(method, model, file), "INVALID_ARGUMENT", "image.")
        expect(
            vision.caller.refused(image_of(file, model)), "INVALID_ARGUMENT", "image."
        )
        expect(vision.refused_http(method, model, file), "INVALID_ARGUMENT", "image.")
        expect(vision.http.refused(image_of(file, model)), "INVALID_ARGUMENT", "image.")
        # Of two pictures, the one that is to blame is named.
        for refused in (vision.refused, vision.refused_http):
            error = refused(method, model, picture("PNG"), file)
            expect(error, "INVALID_ARGUMENT", "image.")
            assert error.details().startswith("image 2 of 2: "), error.details()


def rgb(height: int, width: int, model: str, pixels: bytes | None = None):
    data = bytes(3 * height * width) if pixels is None else pixels
    return infer_request("image_rgb", "UINT8", (1, height, width, 3), [data], model)


@pytest.mark.parametrize("model", ["boxes", "masks", "segments"])
def test_rows_14_and_24_of_pixels_that_come_as_they_are(vision: Vision, model: str):
    for caller in (vision.caller, vision.http):
        for height, width in ((1, 20_000), (20_000, 1)):
            error = caller.refused(rgb(height, width, model))
            expect(error, "INVALID_ARGUMENT", "image.extreme_aspect_ratio")
        error = caller.refused(rgb(1, 40_000, model))
        expect(error, "INVALID_ARGUMENT", "image.too_many_pixels")
        # 1.2 GB, of which the caller sends nothing.
        error = caller.refused(rgb(20_000, 20_000, model, pixels=b""))
        expect(error, "INVALID_ARGUMENT", "request.")


@pytest.mark.parametrize(
    ("model", "output"), [("segments", "logits"), ("boxes", "scores"), ("masks", "masks")]
)  # fmt: skip
def test_row_7_classes_of_what_has_none_are_refused(
    vision: Vision, model: str, output: str
):
    """Of maps there would be millions, which nobody counted."""
    request = image_of(picture("PNG"), model)
    wanted = request.outputs.add(name=output)
    wanted.parameters["classification"].int64_param = 1_000_000
    for caller in (vision.caller, vision.http):
        error = caller.refused(request)
        expect(error, "INVALID_ARGUMENT", "request.classification_shape")


def test_row_58_pictures_of_several_sizes_in_one_request_for_tensors(vision: Vision):
    files = [picture("PNG", size=(40, 50)), picture("PNG", size=(60, 50))]
    elements = b"".join(struct.pack("<I", len(file)) + file for file in files)
    for model in ("segments", "squashed"):
        request = infer_request("image", "BYTES", (2, 1), [elements], model)
        for caller in (vision.caller, vision.http):
            error = caller.refused(request)
            expect(error, "INVALID_ARGUMENT", "request.images_differ")
        assert len(vision.call("Segment", model, *files).results) == 2
        assert len(vision.call_http("Segment", model, *files)) == 2


# One pixel, and as long and narrow as pictures may be: answered, in pixels of the picture.
@pytest.mark.parametrize("size", [(1, 1), (1000, 1), (1, 1000), (3000, 3), (2, 2)])
def test_row_24_the_smallest_and_the_longest_pictures_are_answered(
    vision: Vision, size: tuple[int, int]
):
    width, height = size
    file = picture("PNG", size=size)
    (found,) = vision.call("Detect", "boxes", file).results
    assert (found.image_width, found.image_height) == size
    assert len(found.detections) == 50
    for one in found.detections:
        assert 0 <= one.box.left <= one.box.right <= width
        assert 0 <= one.box.top <= one.box.bottom <= height
    (masks,) = vision.call("Detect", "masks", file, mask_format=1).results
    assert masks.detections
    for one in masks.detections:
        counts = one.mask.run_lengths.encode()
        mask = coco.decode({"size": [height, width], "counts": counts})
        assert mask.shape == (height, width)
        assert mask.sum() == one.mask.pixels
    (segments,) = vision.call("Segment", "segments", file, confidence=True).results
    with Image.open(io.BytesIO(segments.class_map_png)) as class_map:
        assert class_map.size == size
    assert sum(area.pixels for area in segments.classes) == width * height


def test_row_59_nothing_found_is_an_empty_list(vision: Vision):
    two = vision.call("Detect", "nothing", picture("PNG"), picture("JPEG")).results
    assert [len(one.detections) for one in two] == [0, 0]
    assert [(one.image_width, one.image_height) for one in two] == [(80, 60)] * 2
    (none,) = vision.call(
        "Detect", "masks", picture("PNG"), score_threshold=1.0, mask_format=2
    ).results
    assert not none.detections
    for found in vision.call_http("Detect", "nothing", picture("PNG"), picture("JPEG")):
        assert not found.get("detections")
    (none,) = vision.call_http(
        "Detect", "masks", picture("PNG"), score_threshold=1, mask_format="PNG"
    )
    assert not none.get("detections")
    answer = service_pb2.ModelInferResponse.FromString(
        vision.caller.send(image_of(picture("PNG"), "nothing").SerializeToString())
    )
    outputs = dict(zip((o.name for o in answer.outputs), answer.raw_output_contents))
    assert outputs["counts"] == bytes(8)
    assert set(outputs["boxes"]) == {0}


def test_row_57_what_would_hold_more_than_the_device_may_is_refused(
    start_server, tmp_path: pathlib.Path
):
    folder = describe(tmp_path / "models", "two_sizes")
    explicit = ("--model-repository", folder, "--model-control-mode", "explicit")
    server = start_server(*explicit, "--max-device-bytes", "100MiB")
    with triton.InferenceServerClient(server.grpc) as client:
        client.load_model("two_sizes")
    vision = Vision(server)
    small, large = (picture("PNG", size=(width, 64)) for width in (64, 2048))
    before = vision.call("Detect", "two_sizes", small).results
    error = vision.refused("Detect", "two_sizes", large)
    expect(error, "RESOURCE_EXHAUSTED", "image.too_large_for_device")
    assert f"this server has {100 << 20} for them" in error.details()
    error = vision.refused_http("Detect", "two_sizes", large)
    expect(error, "RESOURCE_EXHAUSTED", "image.too_large_for_device")
    assert vision.call("Detect", "two_sizes", small).results == before

    server = start_server(*explicit, "--max-device-bytes", "8MiB")
    for caller in both(server):
        error = refusal_of(lambda: caller.load("two_sizes"))  # noqa: B023
        expect(error, "FAILED_PRECONDITION", "model.too_large")
        assert "--max-device-bytes" in error.details()


@pytest.mark.parametrize("mask_format", [1, 2], ids=["run lengths", "PNG"])
def test_row_63_a_thousand_objects_in_one_answer(vision: Vision, mask_format: int):
    size = (640, 480)
    (found,) = vision.call(
        "Detect", "thousand", picture("JPEG", size=size), mask_format=mask_format
    ).results
    assert len(found.detections) == 1000
    scores = [one.score for one in found.detections]
    assert scores == sorted(scores, reverse=True)
    shown = 0
    for one in found.detections[::20]:
        if mask_format == 1:
            counts = one.mask.run_lengths.encode()
            mask = coco.decode({"size": list(size[::-1]), "counts": counts})
        elif one.mask.pixels:
            with Image.open(io.BytesIO(one.mask.png)) as png:
                mask = np.asarray(png) > 0
        else:
            continue
        assert mask.sum() == one.mask.pixels
        shown += 1
    assert shown > 0
    form = {1: "RUN_LENGTHS", 2: "PNG"}[mask_format]
    (over_http,) = vision.call_http(
        "Detect", "thousand", picture("JPEG", size=size), mask_format=form
    )
    assert [one["mask"].get("pixels", 0) for one in over_http["detections"]] == [
        one.mask.pixels for one in found.detections
    ]


def test_row_63_what_a_thousand_masks_take_is_counted(vision: Vision):
    wide = flat_png(16_000, 3_000)  # each outline may be long
    error = vision.refused("Detect", "thousand", wide, mask_format=1)
    expect(error, "RESOURCE_EXHAUSTED", "request.memory")
    error = vision.refused_http("Detect", "thousand", wide, mask_format="RUN_LENGTHS")
    expect(error, "RESOURCE_EXHAUSTED", "request.memory")
    (few,) = vision.call(
        "Detect", "thousand", wide, max_detections=3, mask_format=1
    ).results
    assert len(few.detections) == 3


@pytest.mark.parametrize(
    ("call", "fields", "over_http", "reason"),
    [
        ("Detect", {"score_threshold": 2.0}, None, "request.score_threshold"),
        ("Detect", {"score_threshold": -1.0}, None, "request.score_threshold"),
        ("Detect", {"score_threshold": float("nan")}, None, "request.score_threshold"),
        ("Detect", {"max_detections": -1}, None, "request.max_detections"),
        ("Detect", {"classes": ["no such class"]}, None, "request.class_unknown"),
        ("Detect", {"classes": ["0"] * 7}, None, "request.too_many_classes"),
        ("Detect", {"mask_format": 77}, "request.option", "request.mask_format"),
        ("Segment", {"map_format": 77}, "request.option", "request.map_format"),
    ],
)
def test_row_55_options_that_make_no_sense_are_refused(
    vision: Vision, call: str, fields: dict, over_http: str | None, reason: str
):
    """Over HTTP a format is a word: there is none with a number."""
    model = {"Detect": "boxes", "Segment": "segments"}[call]
    error = vision.refused(call, model, picture("PNG"), **fields)
    expect(error, "INVALID_ARGUMENT", reason)
    path = f"/v1/{call.lower()}?" + urllib.parse.urlencode(
        {"model": model, **fields}, doseq=True
    )
    error = vision.http.refused_call("POST", path, picture("PNG"))
    expect(error, "INVALID_ARGUMENT", over_http or reason)


@pytest.mark.parametrize(
    ("call", "model", "fields", "over_http", "reason"),
    [
        ("Detect", "segments", {}, {}, "model.no_detector"),
        ("Segment", "boxes", {}, {}, "model.no_segmenter"),
        ("Classify", "boxes", {}, {}, "model.no_classifier"),
        ("Detect", "boxes", {"mask_format": 1}, {"mask_format": "RUN_LENGTHS"},
         "model.no_masks"),
    ],
)  # fmt: skip
def test_row_56_results_that_the_model_does_not_give_are_refused(
    vision: Vision, call: str, model: str, fields: dict, over_http: dict, reason: str
):
    error = vision.refused(call, model, picture("PNG"), **fields)
    expect(error, "FAILED_PRECONDITION", reason)
    error = vision.refused_http(call, model, picture("PNG"), **over_http)
    expect(error, "FAILED_PRECONDITION", reason)


@pytest.mark.parametrize(
    "lines, words",
    [
        ('backbone: "identity"\ntask: DETECTION', "stands on feature maps, and identity has none"),
        ('backbone: "identity"\ntask: SEGMENTATION', "stands on feature maps, and identity has none"),
        ('backbone: "linglo_b0"\ntask: DETECTION head { name: "upernet" }', "is for segmentation"),
        ('backbone: "linglo_b0"\ntask: SEGMENTATION head { name: "mask_rcnn" }', "is for detection"),
        ('backbone: "linglo_b0"\ntask: DETECTION head { name: "mask_rcnn" }\nnum_classes: 1',
         "the background is one of the head's classes"),
        ('backbone: "linglo_b0"\ntask: SEGMENTATION\nnum_classes: 20000', "15000 classes apart at most"),
        ('backbone: "linglo_b0"\ntask: DETECTION\nnum_classes: 20000',
         "5000 classes apart at most.*the logits of an image of 800x1344 take 4 GB"),
    ],
)  # fmt: skip
def test_row_30_a_head_that_does_not_fit_is_refused_when_it_is_loaded(
    start_server, identity_repository, lines: str, words: str
):
    server = start_server(
        *("--model-repository", identity_repository),
        *("--model-control-mode", "explicit", "--load-model", "identity"),
    )
    (identity_repository / "misfit").mkdir()
    (identity_repository / "misfit" / "model.textproto").write_text(
        f"spec_version: 1\n{lines}\nimage_height: 64\nimage_width: 64\nrandom_weights {{ seed: 1 }}\n"
    )
    for caller in both(server):
        refused = refusal_of(lambda: caller.load("misfit"))  # noqa: B023
        expect(refused, "FAILED_PRECONDITION")
        assert re.search(words, refused.details()), refused
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.is_model_ready("identity")
        assert not client.is_model_ready("misfit")


@pytest.fixture
def slow_server(start_server, tmp_path: pathlib.Path) -> Callable[..., Server]:
    """A segmenter alone, on one thread."""
    folder = describe(tmp_path / "slow", "segments")
    return lambda *flags: start_server("--model-repository", folder, *flags)


# How sure a model of 150 classes is of each of two million pixels: seconds of work, long after it has run.
SLOW = (1500, 1500)


def batches(server: Server) -> int:
    """That the model has run."""
    with triton.InferenceServerClient(server.grpc) as client:
        (model,) = client.get_inference_statistics("segments").model_stats
        return model.execution_count


def start_slow(vision: Vision, server: Server) -> grpc.Future:
    """Gives the call as soon as its model has run: the results are being made."""
    before = batches(server)
    payload = vision.request("Segment", "segments", flat_png(*SLOW), confidence=True)
    call = vision.caller.channel.unary_unary(f"/{VISION}/Segment")
    slow = call.future(payload, timeout=300)
    wait_until(lambda: batches(server) > before)
    return slow


def test_row_62_results_that_nobody_waits_for_are_not_made(slow_server):
    """The one thread that makes results is free for the next caller as soon as the first has gone."""
    server = slow_server("--imaging-threads", "1")
    vision = Vision(server)
    before = vision.call("Segment", "segments", picture("PNG")).results
    alone = vision.call("Segment", "segments", flat_png(*SLOW), confidence=True)
    whole = alone.receipt.postprocess_ns / 1e9

    def is_soon_free(leave: Callable[[], object]) -> bool:
        began = time.monotonic()
        leave()
        assert vision.call("Segment", "segments", picture("PNG")).results == before
        return time.monotonic() - began < whole / 2

    def over_grpc() -> bool:
        slow = start_slow(vision, server)
        return not slow.done() and is_soon_free(slow.cancel)

    def over_http() -> bool:
        """Its caller goes with the connection."""
        ran, file = batches(server), flat_png(*SLOW)
        host, _, port = server.http.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/segment?model=segments&confidence=true HTTP/1.1\r\nHost: localhost\r\n"
                + f"Content-Length: {len(file)}\r\n\r\n".encode()
                + file
            )
            wait_until(lambda: batches(server) > ran)
            answered, _, _ = select.select([connection], [], [], 0)
            return not answered and is_soon_free(connection.close)

    for leaves_a_free_thread in (over_grpc, over_http):
        # On a busy machine anything may stand still once.
        assert any(leaves_a_free_thread() for _ in range(3)), leaves_a_free_thread


def test_row_44_a_drain_waits_for_results_under_way(slow_server):
    server = slow_server()
    slow = start_slow(Vision(server), server)
    assert not slow.done()
    assert server.terminate(timeout=120) == 0
    assert slow.result()


def test_row_44_at_the_drains_timeout_results_under_way_are_given_up(slow_server):
    server = slow_server("--drain-timeout", "100")
    slow = start_slow(Vision(server), server)
    assert not slow.done()
    assert server.terminate(timeout=120) == 1
    expect(slow.exception(), "UNAVAILABLE", "server.drain_timeout")
    # It ended by itself: nothing hung until the process had to be ended.
    assert not any("ending: " in line for line in server.lines())
