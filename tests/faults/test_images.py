"""Rows 14-24, 43, 111-113, 115 and 116 of docs/faults.md: image files that no client should send."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import numpy as np
import pytest
from fault_support import (
    Caller,
    expect,
    image_request,
    in_parallel,
    infer_request,
    picture,
    write_in_spec,
)
from http_caller import HttpCaller
from PIL import Image


def png_with_header(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
        + bytes(64)
    )


def jpeg_with_size(width: int, height: int) -> bytes:
    jpeg = bytearray(picture(subsampling=0))
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(jpeg)


def chunk(kind: bytes, body: bytes) -> bytes:
    return (
        struct.pack(">I", len(body))
        + kind
        + body
        + struct.pack(">I", zlib.crc32(kind + body))
    )


def png_of(rows: bytes, width: int, height: int, text: bytes = b"") -> bytes:
    """A PNG in RGB with these bytes as its rows, and a text in front of them."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"tEXt", b"Comment\0" + text) if text else b"")
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def jpeg_of_scans(count: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again."""
    jpeg = picture(progressive=True)
    last = jpeg.rindex(b"\xff\xda")
    return jpeg[:last] + jpeg[last:-2] * count + jpeg[-2:]


def turned(orientation: int) -> bytes:
    """A JPEG whose EXIF says how it is turned; the numbers that exist are 1 to 8."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return picture(subsampling=0, quality=100, exif=exif)


INVALID = {
    "row 14: PNG of 65500 x 65500": png_with_header(65_500, 65_500),
    "row 14: PNG of 1 x 2^31-1": png_with_header(1, 2**31 - 1),
    "row 14: JPEG of 65500 x 65500": jpeg_with_size(65_500, 65_500),
    "row 15: PNG of more bytes than pixels": png_of(bytes(64 << 20), 8, 8),
    "row 15: PNG with 9 MiB of text": png_of(bytes(8 * 25), 8, 8, bytes(9 << 20)),
    "row 16: JPEG of 200 scans": jpeg_of_scans(200),
    "row 17: half a JPEG": picture("JPEG")[:-200],
    "row 17: half a PNG": picture("PNG")[:-200],
    "row 17: half a WebP": picture("WEBP")[:-200],
    "row 18: zero bytes": b"",
    "row 18: one byte": b"\xff",
    "row 18: zeros": bytes(1000),
    "row 18: HTML": b"<!doctype html><html><body>hello</body></html>",
    "row 18: SVG": b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>',
    "row 18: PDF": b"%PDF-1.7\n" + bytes(100),
    "row 115: half a GIF": picture("GIF")[:-100],
    "row 115: half a BMP": picture("BMP")[:-100],
    "row 115: half a TIFF": picture("TIFF")[:-100],
    "row 115: half an AVIF": picture("AVIF")[:-100],
    "row 24: 1 x 4000": picture("PNG", size=(4000, 1)),
}


# What callers send in a picture's place, and the word of the refusal by which they find out.
KINDS = {
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40),
    "JPEG XL": b"\xff\x0a" + bytes(40),
    "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40),
    "Photoshop": b"8BPS\0\1" + bytes(40),
    "PDF": b"%PDF-1.7\n" + bytes(40),
    "icon": b"\0\0\1\0\1\0\x10\x10" + bytes(40),
    "HTML": b"<!DOCTYPE html><html><body>404</body></html>",
    "SVG": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "JSON": b'{"error": "not found"}',
    "base64": base64.b64encode(picture("JPEG")),
    "data URL": b"data:image/png;base64," + base64.b64encode(picture("PNG")),
    "URL": b"https://example.org/cat.jpg",
    "'Not found": b"Not found: /cat.jpg",
    "CgBI": picture("PNG")[:8] + chunk(b"CgBI", bytes(4)) + picture("PNG")[8:],
}


@pytest.mark.parametrize("kind", KINDS)
def test_row_113_refusals_name_what_came(caller: Caller | HttpCaller, kind: str):
    error = caller.refused(image_request(KINDS[kind]))
    expect(error, "INVALID_ARGUMENT", "image.unsupported_type")
    assert kind in error.details(), error.details()


def spare(junk: bytes, before: bytes, **options) -> bytes:
    jpeg = picture("JPEG", **options)
    at = jpeg.rindex(before)
    return jpeg[:at] + junk + jpeg[at:]


@pytest.mark.parametrize(
    "file",
    [
        spare(bytes(12), b"\xff\xd9"),
        spare(b"\0\0", b"\xff\xdb"),
        spare(b"\xff\0\0\0", b"\xff\xdb"),
        spare(b"\xff\xfe\0\0", b"\xff\xdb"),
    ],
    ids=["before the end", "between segments", "stuffing", "comment of length 0"],
)
def test_row_111_spare_bytes_touch_no_pixel(caller: Caller | HttpCaller, file: bytes):
    whole = caller.infer(image_request(picture("JPEG")))
    np.testing.assert_array_equal(caller.infer(image_request(file)), whole)


@pytest.mark.parametrize(
    "damage",
    [
        lambda png: png[:-12],
        lambda png: png[:-4] + bytes(4),
        lambda png: png[:-16] + bytes(4) + png[-12:],
        lambda png: png[:33] + chunk(b"PLTE", bytes(3 * 257)) + png[33:],
        lambda png: png[:33] + chunk(b"acTL", bytes([0, 0, 0, 1, 0, 0, 0, 0])) + png[33:],
    ],
    ids=["no end", "checksum of the end", "checksum of the pixels", "palette", "one frame"],
)  # fmt: skip
def test_row_112_what_every_reader_forgives(caller: Caller | HttpCaller, damage):
    png = picture("PNG")
    whole = caller.infer(image_request(png))
    np.testing.assert_array_equal(caller.infer(image_request(damage(png))), whole)


@pytest.mark.parametrize("format", ["PNG", "WEBP", "GIF"])
def test_row_22_an_animation_is_its_first_frame(
    caller: Caller | HttpCaller, format: str
):
    options = {"lossless": True} if format == "WEBP" else {}
    still = picture(format, **options)
    other = Image.open(io.BytesIO(picture("PNG"))).transpose(Image.Transpose.ROTATE_180)
    moving = picture(format, save_all=True, append_images=[other], **options)
    first, whole = (caller.infer(image_request(file)) for file in (moving, still))
    np.testing.assert_array_equal(first, whole)


@pytest.mark.parametrize("format", ["BMP", "TIFF"])
def test_row_115_further_kinds_are_their_pixels(
    caller: Caller | HttpCaller, format: str
):
    png = caller.infer(image_request(picture("PNG")))
    np.testing.assert_array_equal(caller.infer(image_request(picture(format))), png)


def test_row_113_json_holds_pictures_as_base64(http_caller: HttpCaller):
    whole = http_caller.infer(image_request(picture("JPEG")))
    text = base64.b64encode(picture("JPEG")).decode()
    for data in (text, "data:image/jpeg;base64," + text):
        request = infer_request("image", "BYTES", (1, 1), [])
        request.inputs[0].contents.bytes_contents.append(data.encode())
        np.testing.assert_array_equal(http_caller.infer(request), whole)


@pytest.mark.parametrize("case", INVALID, ids=list(INVALID))
def test_rows_14_to_24_are_invalid_arguments(caller: Caller | HttpCaller, case: str):
    expect(caller.refused(image_request(INVALID[case])), "INVALID_ARGUMENT", "image.")


@pytest.mark.parametrize(
    "file",
    [picture("PNG", mode=mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")]
    + [
        picture("JPEG", mode="CMYK"),
        picture("JPEG", mode="L"),
        picture("JPEG", progressive=True),
    ]
    + [
        picture("WEBP"),
        picture("WEBP", lossless=True),
        picture("PNG", size=(1, 1)),
        picture("PNG", size=(9, 200)),
    ],
)
def test_rows_20_21_24_odd_pictures_are_answered(
    caller: Caller | HttpCaller, file: bytes
):
    assert np.isfinite(caller.infer(image_request(file))).all()


def test_row_19_orientations_are_applied_where_they_exist(caller: Caller | HttpCaller):
    upright = caller.infer(image_request(picture(subsampling=0, quality=100)))
    for orientation in (0, 9, 65_535, 1):
        same = caller.infer(image_request(turned(orientation)))
        np.testing.assert_array_equal(same, upright)
    others = [caller.infer(image_request(turned(number))) for number in range(2, 9)]
    for answer in others:
        assert np.isfinite(answer).all() and (answer != upright).any()


@pytest.mark.parametrize("profile", [b"no profile", bytes(100_000)])
def test_row_23_profiles_are_ignored(caller: Caller | HttpCaller, profile: bytes):
    for format in ("JPEG", "PNG"):
        plain = caller.infer(image_request(picture(format)))
        with_profile = image_request(picture(format, icc_profile=profile))
        np.testing.assert_array_equal(caller.infer(with_profile), plain)


def test_row_43_one_bad_image_fails_its_own_request_only(
    http_caller: HttpCaller, start_server, one_model, connect
):
    """32 requests come together, and the 31 good ones are answered from one batch as they are alone."""
    good, bad = image_request(picture()), image_request(picture()[:-100])
    alone = http_caller.infer(good)
    # Long enough for the batch to be full, whatever the machine does besides.
    write_in_spec(
        one_model,
        "max_batch_size: 31",
        "dynamic_batching { max_queue_delay_microseconds: 10000000 }",
    )
    server = start_server("--model-repository", one_model)
    requests = [bad if number == 13 else good for number in range(32)]
    answers = in_parallel(connect(server), requests)

    expect(answers.pop(13), "INVALID_ARGUMENT", "image.truncated")
    for logits, parameters in answers:
        assert parameters["fovea.batch_size"] == len(answers)
        assert np.abs(logits - alone).max() <= 1e-4 * alone.std()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_rows_39_and_116_images_of_one_request_wait_for_each_others_memory(
    start_server, one_model, connect, format: str
):
    """Each fits the imaging memory, and all of them not by far."""
    server = start_server(
        *("--model-repository", one_model),
        *("--imaging-memory", "16", "--imaging-threads", "4"),
    )
    caller = connect(server)
    size = (1600, 1200)  # 5.5 MiB of pixels
    file = picture(format, size=size)
    (alone,) = caller.infer(image_request(file))
    together = caller.infer(image_request(*[file] * 16), timeout=120)
    assert np.abs(together - alone).max() <= 1e-4 * alone.std()
    larger = image_request(picture("PNG", size=(2 * size[0], 2 * size[1])))
    error = caller.refused(larger)  # row 116
    expect(error, "RESOURCE_EXHAUSTED", "image.too_large_to_decode")
    assert "--imaging-memory" in error.details()


def test_row_43_one_bad_image_of_several_fails_the_request_they_share(
    caller: Caller | HttpCaller,
):
    expect(
        caller.refused(image_request(picture(), picture()[:-100])),
        "INVALID_ARGUMENT",
        "image.",
    )
    assert caller.infer(infer_request()).shape[0] == 1
