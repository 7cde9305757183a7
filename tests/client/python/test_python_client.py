"""fovea.client: what goes out to a server and what is made of its answers. tests/conformance asks the real one."""

from __future__ import annotations

import http.server
import inspect
import io
import pathlib
import pickle
import re
import socket
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

from fake_vision import FakeVision, Refusal, class_map, classes, objects, png
from fovea import client, connection, results, run_lengths

PICTURE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


def refuse(code: grpc.StatusCode, reason: str, message: str):
    def raise_it(*_: object):
        raise Refusal(code, reason, message)

    return raise_it


@pytest.mark.parametrize("proto", ["vision", "comparison", "experiment"])
def test_the_messages_are_what_protoc_writes(proto: str, tmp_path: pathlib.Path):
    """Otherwise: protoc --proto_path=proto --python_out=client/python fovea/v1/{vision,comparison,experiment}.proto"""
    subprocess.check_call(
        ["protoc", "--proto_path=proto", f"--python_out={tmp_path}"]
        + [f"fovea/v1/{proto}.proto"],
        cwd=ROOT,
    )
    name = f"fovea/v1/{proto}_pb2.py"
    tracked = (ROOT / "client/python" / name).read_text()
    assert tracked == (tmp_path / name).read_text(), inspect.getdoc(
        test_the_messages_are_what_protoc_writes
    )


@pytest.mark.parametrize("seed", range(20))
def test_run_lengths_are_read_as_cocos_tools_read_them(seed: int):
    draw = np.random.default_rng(seed)
    height, width = draw.integers(1, 200, 2)
    # Sparse, dense and long runs: differences of each sign, and numbers of several characters.
    mask = draw.random((height, width)) < draw.choice([0, 0.001, 0.3, 0.999, 1])
    counts = coco.encode(np.asfortranarray(mask, np.uint8))["counts"].decode()
    found = run_lengths.decode(counts, int(height), int(width))
    assert found.dtype == bool
    np.testing.assert_array_equal(found, mask)


@pytest.mark.parametrize(
    "text", ["!", "0\x7f", "o", "oooooooooooooooooooo", "5", "99", "4\0"]
)
def test_texts_that_are_no_run_lengths_are_refused(text: str):
    with pytest.raises(ValueError, match="run lengths"):
        run_lengths.decode(text, 2, 2)


def test_run_lengths_have_no_more_characters_than_an_int_has_bits_for():
    """All of these say 4. What stands behind 30 bits pycocotools shifts out of an int, and may read another number."""
    assert run_lengths.lengths("TPPPP0", 2, 2) == [4]
    for text in ("TPPPPP0", "TPPPPPP0"):
        with pytest.raises(ValueError, match="none of COCO's"):
            run_lengths.lengths(text, 2, 2)


def test_empty_runs_do_not_go_on_without_end():
    assert run_lengths.lengths("0" * 8 + "4", 2, 2) == [0] * 8 + [4]
    with pytest.raises(ValueError, match="run lengths"):
        run_lengths.lengths("0" * 10_000_000 + "4", 2, 2)


def test_pictures_are_bytes_paths_or_pixels(tmp_path: pathlib.Path):
    file = png(PICTURE)
    (tmp_path / "a.png").write_bytes(file)
    sent: list[bytes] = []

    def result(_: object, picture: bytes):
        sent.append(picture)
        return classes((3, "yak", 0.5), (1, "owl", 0.25))

    with FakeVision(Classify=result) as fake, client.Client(fake.address) as server:
        pictures = [file, tmp_path / "a.png", str(tmp_path / "a.png"), PICTURE]
        answer = server.classify("m", pictures, top_k=2, version="7", priority=1)
        (request,) = fake.requests
    assert sent[:3] == [file] * 3
    np.testing.assert_array_equal(results.pixels_of(sent[3]), PICTURE)
    assert (request.model_name, request.model_version) == ("m", "7")
    assert (request.top_k, request.priority) == (2, 1)
    assert len(answer.images) == 4
    for image in answer.images:
        assert image.classes.tolist() == [3, 1] and image.classes.dtype == np.int64
        assert image.labels == ["yak", "owl"]
        assert image.confidences.tolist() == [0.5, 0.25]
    assert (answer.model, answer.version, answer.attention) == ("m", "7", "dense")
    receipt = answer.receipt
    assert list(receipt.seconds) == list(client.STAGES)
    assert receipt.seconds["compute"] == 0.005
    assert receipt.total_seconds == pytest.approx(0.028)
    assert (receipt.batch_size, receipt.batch_threads) == (3, 4)
    assert receipt.batch_peak_bytes == 1000
    assert receipt.device_seconds == {"h2d": 0.011, "kernels": 0.012, "d2h": 0.013}
    assert answer.round_trip_seconds > 0


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (PICTURE.astype(np.float32), "an array of float32 [5, 7, 3]"),
        (PICTURE[..., 0], "an array of uint8 [5, 7]"),
        (PICTURE[None], "an array of uint8 [1, 5, 7, 3]"),
        (np.zeros((0, 5, 3), np.uint8), "an array of uint8 [0, 5, 3]"),
        (7, "int"),
    ],
)
def test_what_is_no_picture_is_refused_before_the_server_is_asked(
    picture: object, told: str
):
    with client.Client("127.0.0.1:1") as server, pytest.raises(TypeError) as caught:
        server.classify("m", [picture])
    assert str(caught.value).endswith(f"; this is {told}")


def turned(image: Image.Image) -> bytes:
    """A file whose EXIF says that its top is at the left."""
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "1", "CMYK", "I;16"])
def test_pillows_images_of_any_mode_are_sent_as_rgb(mode: str):
    sent: list[bytes] = []

    def result(_: object, picture: bytes):
        sent.append(picture)
        return classes()

    whole = Image.fromarray(np.full((3, 4), 0x8080, np.uint16))
    image = whole if mode == "I;16" else Image.fromarray(PICTURE).convert(mode)
    if mode in ("RGBA", "LA"):
        image.putalpha(0)
    with FakeVision(Classify=result) as fake, client.Client(fake.address) as server:
        server.classify("m", [image])
    pixels = results.pixels_of(sent[0])
    assert pixels.shape == (*image.size[::-1], 3)
    if mode in ("RGBA", "LA"):
        assert (pixels == 255).all()  # transparency lies over white, as in a file
    elif mode == "I;16":
        assert (pixels == 0x80).all()
    else:
        np.testing.assert_array_equal(pixels, np.asarray(image.convert("RGB")))


def test_pillows_images_are_sent_upright():
    sent: list[bytes] = []

    def result(_: object, picture: bytes):
        sent.append(picture)
        return classes()

    opened = Image.open(io.BytesIO(turned(Image.fromarray(PICTURE))))
    with FakeVision(Classify=result) as fake, client.Client(fake.address) as server:
        server.classify("m", [opened])
    np.testing.assert_array_equal(results.pixels_of(sent[0]), np.rot90(PICTURE, -1))


def test_one_picture_that_is_not_in_a_list_is_refused():
    with client.Client("127.0.0.1:1") as server:
        one = Image.fromarray(PICTURE)
        for picture in ("a.png", b"bytes", pathlib.Path("a.png"), one):
            with pytest.raises(TypeError, match="list of pictures"):
                server.classify("m", picture)
        with pytest.raises(TypeError, match="classes"):
            server.detect("m", [PICTURE], classes="cat")


def test_objects_come_as_arrays():
    mask = np.zeros((5, 7), bool)
    mask[1:4, 2:6] = True
    counts = coco.encode(np.asfortranarray(mask, np.uint8))["counts"].decode()
    found = {"box": [2, 1, 6, 4], "score": 0.75, "index": 2, "label": "cat"}
    found |= {"counts": counts, "pixels": int(mask.sum())}

    def result(request, _: bytes):
        return objects((5, 7), *([found] if request.model_name == "some" else []))

    with FakeVision(Detect=result) as fake, client.Client(fake.address) as server:
        options = {"score_threshold": 0.5, "max_detections": 9, "classes": ("cat", "2")}
        (some,) = server.detect("some", [PICTURE], masks=True, **options).images
        (none,) = server.detect("none", [PICTURE]).images
        with_masks, without = fake.requests
    assert with_masks.score_threshold == 0.5 and with_masks.max_detections == 9
    assert list(with_masks.classes) == ["cat", "2"]
    assert with_masks.mask_format == with_masks.RUN_LENGTHS
    assert without.mask_format == without.MASK_FORMAT_UNSPECIFIED
    assert some.boxes.tolist() == [[2, 1, 6, 4]] and some.boxes.dtype == np.float32
    assert some.scores.tolist() == [0.75] and some.classes.tolist() == [2]
    assert some.labels == ["cat"] and some.size == (5, 7)
    np.testing.assert_array_equal(some.masks[0].array(), mask)
    assert some.masks[0].pixels == mask.sum()
    np.testing.assert_array_equal(np.asarray(some.masks[0].image()), 255 * mask)
    drawn = np.asarray(some.drawn(np.zeros((5, 7, 3), np.uint8)))
    assert drawn[3, 4].tolist() != [0, 0, 0] and drawn[0, 0].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="9x7 pixels.*5x7"):
        some.drawn(np.zeros((9, 7, 3), np.uint8))
    assert none.boxes.shape == (0, 4) and none.scores.shape == (0,)
    assert none.masks is None


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_class_maps_come_with_their_type(kind: type):
    pixels = np.array([[0, 1, 255], [3, 3, np.iinfo(kind).max]], kind)
    labels = {1: "cat", 3: "dog"}
    with (
        FakeVision(Segment=lambda *_: class_map(pixels, labels)) as fake,
        client.Client(fake.address) as server,
    ):
        (image,) = server.segment("m", [PICTURE], confidence=True).images
        assert fake.requests[0].confidence
    assert image.class_map.dtype == kind
    np.testing.assert_array_equal(image.class_map, pixels)
    areas = {one.class_index: (one.label, one.pixels) for one in image.classes}
    assert areas[1] == ("cat", 1) and areas[3] == ("dog", 2) and areas[0] == ("", 1)
    assert image.confidence is None  # the server sent none
    colours = np.asarray(image.image())
    assert colours.shape == (2, 3, 3)
    assert colours[0, 1].tolist() == [86, 180, 233]  # base/class_colour.h
    assert (colours[1, 0] == colours[1, 1]).all() and (
        colours[0, 0] != colours[0, 1]
    ).any()
    drawn = np.asarray(image.drawn(np.full((2, 3, 3), 255, np.uint8)))
    assert drawn.min() > colours.min() and (drawn[0, 0] != drawn[0, 1]).any()


def test_errors_have_the_servers_code_reason_and_sentence():
    refused = refuse(
        grpc.StatusCode.INVALID_ARGUMENT, "image.truncated", "the file ends too early"
    )
    with (
        FakeVision(Classify=refused) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error) as caught,
    ):
        server.classify("m", [PICTURE])
    error = caught.value
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "image.truncated")
    assert error.message == "the file ends too early"
    assert str(error) == "the file ends too early [INVALID_ARGUMENT image.truncated]"
    assert not isinstance(error, (client.Unreachable, client.TimedOut))
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied)) == (client.Error, str(error))


def test_a_busy_server_is_not_an_unreachable_one():
    refused = refuse(
        grpc.StatusCode.UNAVAILABLE, "queue.full", "the model's queue is full"
    )
    with (
        FakeVision(Classify=refused) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error, match="queue is full") as caught,
    ):
        server.classify("m", [PICTURE])
    assert not isinstance(caught.value, client.Unreachable)


def test_without_a_server_the_error_names_the_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with client.Client(address) as server, pytest.raises(client.Unreachable) as caught:
        server.classify("m", [PICTURE])
    assert caught.value.code == "UNAVAILABLE"
    assert f"nothing listens at {address}: is fovea-server" in caught.value.message


def test_what_does_not_speak_grpc_is_told_of():
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{other.server_port}"
        with (
            client.Client(address) as server,
            pytest.raises(client.Unreachable) as caught,
        ):
            server.classify("m", [PICTURE])
        other.shutdown()
    assert (
        f"{address} does not speak gRPC: is it another of the server's ports"
        in caught.value.message
    )


def test_a_call_that_takes_too_long_says_how_long_it_waited():
    release = threading.Event()
    with FakeVision(Classify=lambda *_: release.wait(60)) as fake:
        for server, options in (
            (client.Client(fake.address, timeout=0.2), {}),
            (client.Client(fake.address), {"timeout": 0.2}),
        ):
            with server, pytest.raises(client.TimedOut, match=r"within 0\.2 s"):
                server.classify("m", [PICTURE], **options)
        release.set()


def test_closing_ends_the_calls_that_run_and_refuses_new_ones():
    release, begun, caught = threading.Event(), threading.Event(), []

    def hang(*_: object):
        begun.set()
        release.wait(60)

    with FakeVision(Classify=hang) as fake:
        server = client.Client(fake.address, timeout=None)

        def call() -> None:
            try:
                server.classify("m", [PICTURE])
            except client.Error as error:
                caught.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        assert begun.wait(30)
        server.close()
        thread.join(30)
        assert not thread.is_alive()
        release.set()
        assert [error.code for error in caught] == ["CANCELLED"]
        with pytest.raises(client.Error, match="closed") as refused:
            server.classify("m", [PICTURE])
        assert refused.value.code == "CANCELLED"


def test_a_server_without_the_call_says_so():
    with (
        FakeVision(Classify=lambda *_: classes()) as fake,
        client.Client(fake.address) as server,
        pytest.raises(client.Error, match="does not know this call") as caught,
    ):
        server.segment("m", [PICTURE])
    assert caught.value.code == "UNIMPLEMENTED"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeouts_are_above_zero(timeout: float):
    with pytest.raises(ValueError, match="above zero"):
        client.Client("127.0.0.1:8001", timeout=timeout)
    with (
        client.Client("127.0.0.1:8001") as server,
        pytest.raises(ValueError, match="above zero"),
    ):
        server.classify("m", [PICTURE], timeout=timeout)


@pytest.mark.parametrize(
    "address", ["", "here", "here:", "::1:8001", "here:70000", "here:8001/"]
)
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(ValueError, match="HOST:PORT"):
        client.Client(address)


@pytest.mark.parametrize("scheme", ["http://", "https://", "grpc://"])
def test_a_url_is_refused_with_what_to_write(scheme: str):
    with pytest.raises(ValueError, match=f"write HOST:PORT without '{scheme}', for"):
        client.Client(f"{scheme}127.0.0.1:8001")


@pytest.mark.parametrize(
    "target", ["dns:///here:8001", "unix:/run/fovea.sock", "ipv4:10.0.0.1:1/"]
)
def test_targets_as_grpc_writes_them_are_taken(target: str):
    client.Client(target).close()


def test_a_key_is_not_printed_with_its_address():
    address = connection.Address("box:8001", 30, api_key="secret")
    assert "box:8001" in repr(address) and "secret" not in repr(address)


def test_several_threads_call_at_the_same_time():
    together = threading.Barrier(4, timeout=30)

    def result(_: object, __: bytes):
        together.wait()  # until all of them are there
        return classes((0, "cat", 1.0))

    with FakeVision(Classify=result) as fake, client.Client(fake.address) as server:
        threads = [
            threading.Thread(target=server.classify, args=("m", [PICTURE]))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not together.broken and len(fake.requests) == 4


LIGHT = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {"torch", "timm", "safetensors", "huggingface_hub", "transformers", "scipy"}:
            raise ImportError(f"{name} is imported")
sys.meta_path.insert(0, Blocked())
import fovea, fovea.client
import fovea.evaluation.command, fovea.evaluation.measure_of_task, fovea.evaluation.report
try:
    import torch
except ImportError:
    print("without torch")
"""


def test_calling_and_evaluating_need_no_torch():
    done = subprocess.run(
        [sys.executable, "-c", LIGHT],
        env={"PYTHONPATH": str(ROOT / "client/python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "without torch\n"), done.stderr


def test_the_light_requirements_are_the_packages_own():
    def requirements(text: str) -> set[str]:
        return set(re.findall(r"[a-z_]+[=>]=[0-9.]+", text))

    light = requirements((ROOT / "client/python/requirements-light.txt").read_text())
    whole = requirements((ROOT / "client/python/pyproject.toml").read_text())
    assert len(light) == 6 and light < whole
