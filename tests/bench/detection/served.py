"""A served detector under pictures of mixed shapes, against the same model called in process."""

from __future__ import annotations

import io
import pathlib
import queue
import re
import statistics
import tempfile
import time

import numpy as np
import torch
import torchvision_detectors
import tritonclient.grpc as triton
from contest import prepared
from photograph import photograph
from running_server import Server

# Of COCO's pictures, roughly: the longer side has 640 pixels, of most the shorter one 400 to 500, and more lie than stand. The
# numbers are ours, and none is chosen by the formats that the model's sizes are made of.
SIDE = 640
SHORTER_SIDE = (400, 500)
SHORTER_SIDE_OF_OTHERS = (300, 640)
SHARE_OF_OTHERS = 0.15
SHARE_THAT_STANDS = 0.25
SHORTER, LONGER = 800, 1333
MODEL = "retinanet"


def shapes(count: int) -> list[tuple[int, int]]:
    """Width and height."""
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(count):
        other = random.random() < SHARE_OF_OTHERS
        low, high = SHORTER_SIDE_OF_OTHERS if other else SHORTER_SIDE
        shorter = int(random.integers(low, high, endpoint=True))
        stands = random.random() < SHARE_THAT_STANDS
        drawn.append((shorter, SIDE) if stands else (SIDE, shorter))
    return drawn


def pictures(count: int) -> list[tuple[tuple[int, int], bytes]]:
    """(width, height) and a JPEG file of each."""
    drawn = []
    for shape in shapes(count):
        file = io.BytesIO()
        photograph(*shape).save(file, "JPEG", quality=85)
        drawn.append((shape, file.getvalue()))
    return drawn


def bucket(
    shape: tuple[int, int], sizes: list[tuple[int, int]]
) -> tuple[tuple[int, int], float]:
    """The model's size (height, width) that a picture goes into, and the share of it that stays empty."""
    width, height = shape
    shorter, longer = min(shape), max(shape)
    by_shorter = longer * SHORTER <= shorter * LONGER
    # The other side is cut off to a whole number, as the server does it.
    target, side = (SHORTER, shorter) if by_shorter else (LONGER, longer)
    seen = height * target // side, width * target // side
    fits = [size for size in sizes if size[0] >= seen[0] and size[1] >= seen[1]]
    chosen = min(fits, key=lambda size: size[0] * size[1])
    return chosen, 1 - seen[0] * seen[1] / (chosen[0] * chosen[1])


def sizes_of(
    client: triton.InferenceServerClient,
) -> list[tuple[int, int]]:
    properties = client.get_model_config(MODEL, as_json=True)["config"]["parameters"]
    text = properties["fovea.sizes"]["string_value"]
    return [
        (int(height), int(width)) for height, width in re.findall(r"(\d+)x(\d+)", text)
    ]


def serve(
    client: triton.InferenceServerClient,
    files: list[bytes],
    rate: float,
    random: np.random.Generator,
) -> tuple[float, list[float]]:
    """Pictures a second from the first arrival to the last answer, arrivals Poisson at `rate` a second; and each one's
    padding."""
    answers: queue.Queue = queue.Queue()
    start = time.perf_counter()
    due = 0.0
    for file in files:
        time.sleep(max(0.0, start + due - time.perf_counter()))
        picture = triton.InferInput("image", [1, 1], "BYTES")
        picture.set_data_from_numpy(np.array([[file]], dtype=np.object_))
        client.async_infer(
            MODEL, [picture], lambda result, error: answers.put((result, error))
        )
        due += random.exponential(1 / rate)
    padding = []
    for _ in files:
        result, error = answers.get(timeout=600)
        if error is not None:
            raise error
        parameters = result.get_response().parameters
        padding.append(parameters["fovea.padding"].double_param)
    return len(files) / (time.perf_counter() - start), padding


def measure(rounds: int, count: int) -> dict[str, float]:
    """Served images/s over those of the raw model, and the mean padding."""
    shown = pictures(count)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        model = folder / "models" / MODEL
        (model / "1").mkdir(parents=True)
        (model / "model.textproto").write_text(
            'spec_version: 1\nbackbone: "resnet50"\ntask: DETECTION\nhead { name: "retinanet" }\n'
            f"preprocessing {{ shorter_side: {SHORTER} longer_side: {LONGER} }}\n"
        )
        torchvision_detectors.save(
            torchvision_detectors.retinanet(), model / "1/model.safetensors"
        )
        server = Server(
            folder / "server.log",
            "--model-repository",
            str(folder / "models"),
            ready=False,
        )
        try:
            server.wait_for_log(r"\bready\b: 1 model", timeout=1200)
            client = triton.InferenceServerClient(server.grpc)
            sizes = sizes_of(client)
            buckets = [bucket(shape, sizes)[0] for shape, _ in shown]
            raw = {
                size: (
                    prepared(MODEL, model / "1/model.safetensors", size),
                    torch.randn(1, 3, *size),
                )
                for size in set(buckets)
            }
            for one, pixels in raw.values():
                one.run(pixels)
            ratios, padding = [], []
            random = np.random.default_rng(1)
            for number in range(1, rounds + 1):
                start = time.perf_counter()
                for size in buckets:
                    one, pixels = raw[size]
                    one.run(pixels)
                in_process = count / (time.perf_counter() - start)
                # Twice what it can do: it always has a next one.
                served, padding = serve(
                    client, [file for _, file in shown], 2 * in_process, random
                )
                ratios.append(served / in_process)
                print(
                    f"  round {number}: in process {in_process:.3f}, served {served:.3f} images/s: {ratios[-1]:.3f}",
                    flush=True,
                )
        finally:
            server.terminate()
            server.close()
    expected = statistics.mean(bucket(shape, sizes)[1] for shape, _ in shown)
    waste = statistics.mean(padding)
    if abs(waste - expected) > 1e-3:
        raise RuntimeError(
            f"receipts tell {waste:.4f} of padding, the sizes {expected:.4f}"
        )
    print(f"  padding: {waste:.1%} of the input shows nothing", flush=True)
    return {
        "detection_served_over_raw": statistics.median(ratios),
        "detection_padding": waste,
    }
