"""Rows 14, 17-22, 24 and 43 of docs/faults.md: image files that no client should send."""

from __future__ import annotations

import struct
import zlib

import grpc
import numpy as np
import pytest
from fault_support import (
    SERVICE,
    Caller,
    expect,
    image_request,
    infer_request,
    picture,
    write_in_spec,
)
from tritonclient.grpc import service_pb2


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


INVALID = {
    "row 14: PNG of 65500 x 65500": png_with_header(65_500, 65_500),
    "row 14: PNG of 1 x 2^31-1": png_with_header(1, 2**31 - 1),
    "row 14: JPEG of 65500 x 65500": jpeg_with_size(65_500, 65_500),
    "row 17: half a JPEG": picture("JPEG")[:-200],
    "row 17: half a PNG": picture("PNG")[:-200],
    "row 17: half a WebP": picture("WEBP")[:-200],
    "row 18: zero bytes": b"",
    "row 18: one byte": b"\xff",
    "row 18: zeros": bytes(1000),
    "row 18: HTML": b"<!doctype html><html><body>hello</body></html>",
    "row 18: SVG": b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>',
    "row 18: PDF": b"%PDF-1.7\n" + bytes(100),
    "row 18: TIFF": picture("TIFF"),
    "row 18: BMP": picture("BMP"),
    "row 22: GIF": picture("GIF"),
    "row 24: 1 x 4000": picture("PNG", size=(4000, 1)),
}


@pytest.mark.parametrize("case", INVALID, ids=list(INVALID))
def test_rows_14_to_24_are_invalid_arguments(caller: Caller, case: str):
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
def test_rows_20_21_24_odd_pictures_are_answered(caller: Caller, file: bytes):
    assert np.isfinite(caller.infer(image_request(file))).all()


def test_row_43_one_bad_image_fails_its_own_request_only(
    caller: Caller, start_server, one_model
):
    """32 requests come together, and the 31 good ones are answered from one batch as they are alone."""
    good, bad = (
        image_request(picture()).SerializeToString(),
        image_request(picture()[:-100]).SerializeToString(),
    )
    alone = caller.infer(image_request(picture()))
    # Long enough for the batch to be full, whatever the machine does besides.
    write_in_spec(
        one_model,
        "max_batch_size: 31",
        "dynamic_batching { max_queue_delay_microseconds: 10000000 }",
    )
    server = start_server("--model-repository", one_model)
    call = Caller(server.grpc).channel.unary_unary(SERVICE + "ModelInfer")
    payloads = [bad if number == 13 else good for number in range(32)]
    futures = [call.future(payload, timeout=60) for payload in payloads]

    assert futures.pop(13).code() == grpc.StatusCode.INVALID_ARGUMENT
    for future in futures:
        answer = service_pb2.ModelInferResponse.FromString(future.result())
        assert answer.parameters["fovea.batch_size"].int64_param == len(futures)
        logits = np.frombuffer(answer.raw_output_contents[0], np.float32)
        assert np.abs(logits - alone[0]).max() <= 1e-4 * alone.std()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_row_39_images_of_one_request_wait_for_each_others_memory(
    start_server, one_model, format: str
):
    """Each fits the imaging memory, and all of them not by far."""
    server = start_server(
        *("--model-repository", one_model),
        *("--imaging-memory", "16", "--imaging-threads", "4"),
    )
    caller = Caller(server.grpc)
    size = (1600, 1200)  # 5.5 MiB of pixels
    file = picture(format, size=size)
    (alone,) = caller.infer(image_request(file))
    together = caller.infer(image_request(*[file] * 16), timeout=120)
    assert np.abs(together - alone).max() <= 1e-4 * alone.std()
    larger = image_request(picture("PNG", size=(2 * size[0], 2 * size[1])))
    expect(caller.refused(larger), "RESOURCE_EXHAUSTED", "image.too_large_to_decode")


def test_row_43_one_bad_image_of_several_fails_the_request_they_share(caller: Caller):
    expect(
        caller.refused(image_request(picture(), picture()[:-100])),
        "INVALID_ARGUMENT",
        "image.",
    )
    assert caller.infer(infer_request()).shape[0] == 1
