"""Writes the seed corpora of the fuzz targets: .venv/bin/python tests/fuzz/make_corpus.py [TARGET...]. The same files each time.

Files that are called found_* are not written here: a fuzzer found them, and a bug was mended.
"""

from __future__ import annotations

import io
import json
import pathlib
import random
import struct
import sys

import numpy as np
from PIL import Image
from tritonclient.grpc import service_pb2

CORPUS = pathlib.Path(__file__).parent / "corpus"
IMAGES = CORPUS.parents[1] / "server" / "imaging" / "data"
PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def picture(mode: str = "RGB", size: tuple[int, int] = (17, 11)) -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    noise[:, : size[0] // 2] = (200, 30, 30)
    return Image.fromarray(noise).convert(mode)


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def exif_structure(order: str, entries: list[tuple[int, int, int, int]]) -> bytes:
    """A TIFF structure with one directory; an entry is tag, type, count, value."""
    mark = {"<": b"II", ">": b"MM"}[order]
    body = b"".join(
        struct.pack(order + "HHI", *entry[:3]) + struct.pack(order + "HH", entry[3], 0)
        for entry in entries
    )
    return (
        mark + struct.pack(order + "HIH", 42, 8, len(entries)) + body
        + struct.pack(order + "I", 0)
    )  # fmt: skip


def exif() -> dict[str, bytes]:
    orientation = (0x0112, 3, 1, 6)
    return {
        "little": exif_structure("<", [orientation]),
        "big": exif_structure(">", [(0x010F, 2, 4, 1), orientation]),
        "type": exif_structure("<", [(0x0112, 4, 1, 6)]),
        "short": exif_structure(">", [orientation])[:15],
    }


def jpeg() -> dict[str, bytes]:
    with_exif = picture()
    data = Image.Exif()
    data[0x0112] = 6
    return {
        "baseline": encoded(picture(), "JPEG"),
        "progressive": encoded(picture(), "JPEG", progressive=True),
        "grey": encoded(picture("L"), "JPEG"),
        "cmyk": encoded(picture("CMYK"), "JPEG"),
        "exif": encoded(with_exif, "JPEG", exif=data),
        "restart": encoded(picture(), "JPEG", restart_marker_rows=1, subsampling=0),
        "short": encoded(picture(), "JPEG")[:-40],
    }


def png() -> dict[str, bytes]:
    files = {
        mode.lower(): encoded(picture(mode), "PNG")
        for mode in ("RGB", "RGBA", "L", "LA", "P", "1")
    }
    sixteen = Image.fromarray(np.arange(77, dtype=np.uint16).reshape(7, 11) * 800)
    files["sixteen"] = encoded(sixteen, "PNG")
    files["transparent"] = encoded(picture("P"), "PNG", transparency=3)
    files["exif"] = encoded(picture(), "PNG", exif=b"Exif\0\0" + exif()["big"])
    files["animated"] = encoded(
        picture(), "PNG", save_all=True, append_images=[picture("L").convert("RGB")]
    )
    files["short"] = files["rgb"][:-30]
    # The first byte: whether the target mends the chunks' checksums.
    return {name: b"\1" + file for name, file in files.items()}


def gif() -> dict[str, bytes]:
    frames = {"save_all": True, "append_images": [picture("L").convert("RGB")]}
    return {
        "plain": encoded(picture("P"), "GIF", interlace=0),
        "interlaced": encoded(picture("P"), "GIF", interlace=1),
        "transparent": encoded(picture("P"), "GIF", transparency=3),
        "animated": encoded(picture("P"), "GIF", **frames),
        "short": encoded(picture("P"), "GIF")[:-20],
    }


def bmp() -> dict[str, bytes]:
    return {
        mode.lower(): encoded(picture(mode), "BMP")
        for mode in ("1", "L", "P", "RGB", "RGBA")
    } | {
        name: (IMAGES / f"{name}.bmp").read_bytes()
        for name in ("bits_16", "runs_4", "runs_8")
    }


def tiff() -> dict[str, bytes]:
    files = {
        f"{mode.lower()}_{compression}": encoded(
            picture(mode), "TIFF", compression=compression
        )
        for mode, compression in (
            ("RGB", "raw"), ("RGB", "jpeg"), ("RGBA", "tiff_lzw"), ("L", "tiff_adobe_deflate"),
            ("P", "packbits"), ("1", "group3"), ("1", "group4"), ("CMYK", "raw"),
        )
    }  # fmt: skip
    for name in ("planes_big", "tiles_little", "tiles_planes", "sixteen_big"):
        files[name] = (IMAGES / f"{name}.tif").read_bytes()
    files["short"] = files["rgb_raw"][:-20]
    return files


def avif() -> dict[str, bytes]:
    return {
        name: (IMAGES / f"{name}.avif").read_bytes()
        for name in ("420", "444", "gray", "alpha", "animated", "orientation_6")
    }


def webp() -> dict[str, bytes]:
    return {
        "lossy": encoded(picture(), "WEBP", quality=50),
        "lossless": encoded(picture(), "WEBP", lossless=True),
        "alpha": encoded(picture("RGBA"), "WEBP"),
        "exif": encoded(picture(), "WEBP", exif=exif()["little"]),
        "animated": encoded(
            picture(),
            "WEBP",
            save_all=True,
            append_images=[picture("L").convert("RGB")],
        ),
        "short": encoded(picture(), "WEBP")[:-20],
    }


def oip_codec() -> dict[str, bytes]:
    request = service_pb2.ModelInferRequest(model_name="vit", model_version="3", id="7")
    request.parameters["timeout"].int64_param = 5000
    request.parameters["priority"].uint64_param = 2
    tensor = request.inputs.add(name="pixel_values", datatype="FP32", shape=[1, 3])
    request.outputs.add(name="logits").parameters["classification"].int64_param = 3
    request.raw_input_contents.append(b"abcdefghijkl")
    typed = service_pb2.ModelInferRequest(model_name="vit")
    for datatype, field, values in (
        ("INT16", "int_contents", [1, -1]),
        ("FP32", "fp32_contents", [1.5, 2]),
        ("BYTES", "bytes_contents", [b"some bytes", b""]),
        ("UINT64", "uint64_contents", [2**64 - 1]),
        ("BOOL", "bool_contents", [True, False]),
    ):
        tensor = typed.inputs.add(name=datatype, datatype=datatype, shape=[len(values)])
        getattr(tensor.contents, field).extend(values)
    # As vision.proto numbers them in each of its requests: model_name, id, images.
    vision = b"\x0a\x03vit" + b"\x1a\x02id" + b"\x22\x05image"
    files = {"raw": bytes([0, 0]) + request.SerializeToString()}
    files["typed"] = bytes([0, 7]) + typed.SerializeToString()
    for kind, name in enumerate(("classify", "detect", "segment"), start=1):
        files[name] = bytes([kind, 3]) + vision
    files["stream"] = bytes([4, 3, 0x12, len(vision)]) + vision
    load = service_pb2.RepositoryModelLoadRequest(model_name="vit")
    load.parameters["config"].string_param = "{}"
    load.parameters["file:1/model.safetensors"].bytes_param = bytes(64)
    load.parameters["speed"].int64_param = 3
    files["load"] = bytes([5, 3]) + load.SerializeToString()
    return files


def infer_request_json() -> dict[str, bytes]:
    inputs = [
        {"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [[1.5, -2e3]]},
        {"name": "b", "datatype": "BYTES", "shape": [1], "data": ["text"]},
        {"name": "c", "datatype": "BOOL", "shape": [2], "data": [True, False]},
        {"name": "d", "datatype": "UINT64", "shape": [1], "data": [2**64 - 1]},
    ]
    outputs = [
        {"name": "logits", "parameters": {"classification": 3, "binary_data": True}},
    ]
    whole = {
        "id": "7",
        "parameters": {"timeout": 5000},
        "inputs": inputs,
        "outputs": outputs,
    }
    binary = {"inputs": [{"name": "a", "datatype": "FP32", "shape": [1, 2],
                          "parameters": {"binary_data_size": 8}}],
              "parameters": {"binary_data_output": True}}  # fmt: skip
    return {
        "numbers": b"\0\0" + json.dumps(whole).encode(),
        "binary": b"\0\x08" + json.dumps(binary).encode() + b"abcdefgh",
        "nested": b"\0\0" + b'{"inputs":' + b"[" * 40 + b"]" * 40 + b"}",
        "image": b"\0\0"
        + json.dumps({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1, 1],
                                  "data": ["\u00e9"]}]}).encode(),
    }  # fmt: skip


HEADS = {
    "get": b"GET /v2/models/a%20b/ready?x=1&y HTTP/1.1\r\nHost: x:8000\r\nAccept: */*\r\n\r\n",
    "post": b"POST /v2/models/vit/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Inference-Header-Content-Length: 3\r\n\r\nhello",
    "chunked": b"POST /v1/classify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n3;name=value\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
    "two_lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "expect": b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
    "folded": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
}


def http_head() -> dict[str, bytes]:
    return {name: text[: text.index(b"\r\n\r\n") + 4] for name, text in HEADS.items()}


def http_framing() -> dict[str, bytes]:
    pipelined = HEADS["get"] + HEADS["post"] + HEADS["chunked"]
    return {**HEADS, "pipelined": pipelined, "short": HEADS["chunked"][:-9]}


def multipart() -> dict[str, bytes]:
    head = b"multipart/form-data; boundary=line\n"
    image = (
        b'--line\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n'
    )
    option = b"--line\r\nContent-Disposition: form-data; name=top_k\r\n\r\n3\r\n"
    return {
        "image": head
        + image
        + b"Content-Type: image/jpeg\r\n\r\n\xff\xd8\xff\r\n--line--\r\n",
        "options": head + option + option + b"--line--\r\n",
        "quoted": b'multipart/form-data; boundary="a b"\n--a b\r\n'
        b'Content-Disposition: form-data; name="a\\"b"\r\n\r\n\r\n--a b--',
        "open": head + image + b"\r\nno end",
    }


def safetensors() -> dict[str, bytes]:
    two = {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
           "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
           "__metadata__": {"format": "pt"}}  # fmt: skip
    hole = {"a": {"dtype": "F16", "shape": [1], "data_offsets": [2, 4]}}
    empty = {"a": {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}}
    return {
        "two": b"\0\x20" + json.dumps(two).encode() + b"   ",
        "hole": b"\0\x04" + json.dumps(hole).encode(),
        "empty": b"\0\0" + json.dumps(empty).encode(),
        "none": b"\0\0{}",
    }


def model_spec() -> dict[str, bytes]:
    spec = b"""spec_version: 1
name: "model"
task: DETECTION
backbone: "swin_tiny_patch4_window7_224"
attention: "knn:k=0.5"
head { name: "retinanet" channels: 64 }
image_height: 224
image_width: 224
max_batch_size: 8
preprocessing { shorter_side: 800 longer_side: 1333 mean: 0.5 mean: 0.5 mean: 0.5 }
dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 100 priority_levels: 2
  default_priority_level: 1 default_queue_policy { max_queue_size: 7 default_timeout_microseconds: 9 } }
instance_group { count: 2 }
version_policy { specific { versions: 1 versions: 3 } }
"""
    override = {"max_batch_size": 4, "dynamic_batching": {"preferred_batch_size": [2]},
                "version_policy": {"latest": {"num_versions": 2}}}  # fmt: skip
    small = b'spec_version: 1\nbackbone: "identity"\nrandom_weights { seed: 1 }\n'
    return {
        "detector": spec,
        "small": small,
        "weights_of": b'spec_version: 1\nbackbone: "a"\nweights_of: "b"\nadvertised_input: IMAGE',
        "override": small + b"\0" + json.dumps(override).encode(),
    }


def attention_text() -> dict[str, bytes]:
    texts = ("knn:k=0.5,exact=true", "shifted_window/knn:k=7,window=7,temperature=2.5", "self",
             "conv|cska|dense|-", "key_only@2", "cska:activation=relu,scale=0.1,heads=2", "aewin")  # fmt: skip
    return {str(number): text.encode() for number, text in enumerate(texts)}


def trace_context() -> dict[str, bytes]:
    parent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    return {
        "alone": parent,
        "later": b"cc" + parent[2:] + b"-more",
        "state": parent + b"\nrojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        "lines": parent + b"\na=b , c=d\n\ntenant@sys=v",
        "long": parent + b"\nk=" + b"v" * 255 + b",l=" + b"v" * 255,
        "zero": b"00-" + b"0" * 32 + parent[35:],
    }


def scheduler_events() -> dict[str, bytes]:
    chance = random.Random(0)
    return {f"random_{n}": chance.randbytes(40 + 150 * n) for n in range(6)}


def load_call_json() -> dict[str, bytes]:
    weights = {"config": "{}", "file:1/model.safetensors": "AgAAAAAAAAB7fQ=="}
    return {
        "nothing": b"",
        "files": json.dumps({"parameters": weights}).encode(),
        "others": json.dumps(
            {"a": [1, {"parameters": 2}], "parameters": {"b": [weights]}}
        ).encode(),
        "twice": b'{"parameters":{"config":"{}","config":"{}"}}',
        "no_object": b'{"parameters":["config"]}',
        "no_base64": b'{"parameters":{"file:1/model.safetensors":"?"}}',
        "cut": b'{"parameters":{"config":"{',
        "deep": b'{"parameters":{"config":' + b"[" * 60 + b"]" * 60 + b"}}",
    }


TARGETS = (
    attention_text, avif, bmp, exif, gif, http_framing, http_head, jpeg, model_spec, multipart, oip_codec, png,
    safetensors, scheduler_events, trace_context, infer_request_json, load_call_json, tiff, webp,
)  # fmt: skip


def main() -> None:
    wanted = sys.argv[1:]
    for target in TARGETS:
        if wanted and target.__name__ not in wanted:
            continue
        folder = CORPUS / target.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith("found_"):
                old.unlink()
        for name, content in target().items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
