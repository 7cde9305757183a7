"""Models on GPUs, from the caller to the lane and back, on two that the tests make of host memory; and their loss (row 41)."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from fault_support import (
    MODEL,
    Caller,
    add_identity,
    both,
    identity_request,
    image_request,
    infer_request,
    picture,
    pixel_values,
    scrape,
)
from http_caller import HttpCaller
from running_server import BUILD, DEMO, ROOT, Server

sys.path.insert(0, str(ROOT / "client/python"))

from fovea.client import Client

PROGRAM = (BUILD / "bin" / "fovea-server-with-fake-gpus",)
STEPS = ("h2d", "kernels", "d2h")


@pytest.fixture(scope="module")
def on_gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("gpus")
    (folder / "models").mkdir()
    for name in (MODEL, "segmenter_aewin"):
        (folder / "models" / name).symlink_to(DEMO / name)
    server = Server(
        folder / "log",
        "--model-repository",
        copied(folder / "models"),
        "--enable-experiments",
        program=PROGRAM,
    )
    yield server
    code = server.terminate()
    server.close()
    assert code == 0


def copied(linked: pathlib.Path) -> pathlib.Path:
    """A repository of its own: links out of one are refused."""
    to = linked.parent / "repository"
    subprocess.run(["cp", "-rL", linked, to], check=True)
    return to


def test_answers_are_the_cpus(
    on_gpus: Server, grpc_caller: Caller, http_caller: HttpCaller
):
    for batch in (1, 3):  # as they are, and as the next larger batch that is recorded
        request = infer_request(
            shape=(batch, 3, 64, 64), raw=[pixel_values(batch).tobytes()]
        )
        for gpu, cpu in zip(both(on_gpus), (grpc_caller, http_caller)):
            np.testing.assert_allclose(
                gpu.infer(request), cpu.infer(request), atol=1e-4
            )
    request = image_request(picture(), picture(size=(50, 70)))
    for gpu, cpu in zip(both(on_gpus), (grpc_caller, http_caller)):
        np.testing.assert_allclose(gpu.infer(request), cpu.infer(request), atol=1e-4)


def test_receipts_say_what_the_gpu_did(on_gpus: Server):
    asked = urllib.request.Request(
        f"http://{on_gpus.http}/v1/classify?model={MODEL}", picture()
    )
    asked.add_header("Content-Type", "image/jpeg")
    with urllib.request.urlopen(asked, timeout=30) as answer:
        receipt = json.loads(answer.read())["receipt"]
        timing = answer.headers["Server-Timing"]
    times = [int(receipt[f"{step}_ns"]) for step in STEPS]
    assert all(time > 0 for time in times)
    assert sum(times) <= int(receipt["compute_ns"])
    assert re.search(r"h2d;dur=[\d.]+, kernels;dur=[\d.]+, d2h;dur=[\d.]+", timing)
    counted = scrape(on_gpus.metrics)
    for step in STEPS:
        sample = rf'fovea_gpu_step_seconds_total{{[^}}]*model="{MODEL}"[^}}]*step="{step}"[^}}]*}} ([\d.e-]+)'
        assert float(re.search(sample, counted).group(1)) > 0
    assert re.search(r'fovea_model_memory_bytes{[^}]*device="GPU"', counted)
    for gpu in range(2):
        sample = rf'fovea_gpu_allocator_bytes{{gpu="GPU-fake-{gpu}",kind="set_aside"}} ([\d.e+]+)'
        assert float(re.search(sample, counted).group(1)) > 0


def test_clients_tell_what_the_gpu_did(on_gpus: Server):
    command = [BUILD / "bin" / "fovea", "classify", next((ROOT / "client/examples").glob("*.jpg")), "--model", MODEL]  # fmt: skip
    command += ["--server", on_gpus.grpc]
    shown = subprocess.run([*command, "--receipt"], capture_output=True, text=True, timeout=60, check=True).stdout  # fmt: skip
    assert re.search(r"on a GPU \(h2d [\d.]+, kernels [\d.]+, d2h [\d.]+\)", shown)
    shown = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60, check=True).stdout  # fmt: skip
    receipt = json.loads(shown)["results"][0]["receipt"]
    assert all(receipt[f"{step}_ns"] > 0 for step in STEPS)
    with Client(on_gpus.grpc) as client:
        receipt = client.classify(MODEL, [picture()]).receipt
    assert list(receipt.device_seconds) == list(STEPS)
    assert all(time > 0 for time in receipt.device_seconds.values())
    assert sum(receipt.device_seconds.values()) <= receipt.seconds["compute"]


def test_attentions_are_compared_on_them(on_gpus: Server):
    """The variants are loaded for the GPU, and nothing else runs on any device while one is measured."""
    command = [
        BUILD / "bin" / "fovea", "compare", next((ROOT / "client/examples").glob("*.jpg")), "--model", MODEL,
        "--attention", "dense", "--attention", "knn:k=0.5", "--rounds", "2", "--max-rounds", "2", "--json",
        "--server", on_gpus.grpc,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    variants = json.loads(done.stdout)["variants"]
    assert [one["images_per_second"] > 0 for one in variants] == [True, True]
    # The host does not see how long a part of what a GPU does takes.
    assert not any("attention_ms" in one for one in variants)


@pytest.fixture
def lost(tmp_path: pathlib.Path) -> Iterator[tuple[Server, pathlib.Path]]:
    """A model on the GPUs, one on the CPU, and the file that loses the GPUs."""
    repository = add_identity(tmp_path / "models", "on_gpu")
    add_identity(repository, "on_cpu")
    spec = repository / "on_cpu" / "model.textproto"
    spec.write_text(spec.read_text() + "instance_group { kind: KIND_CPU }\n")
    file = tmp_path / "lost"
    server = Server(
        tmp_path / "log",
        "--model-repository",
        repository,
        "--drain-delay",
        "60000",
        environment={"FAKE_GPUS_LOST": str(file)},
        program=PROGRAM,
    )
    yield server, file
    server.close()


def test_row_41_a_lost_gpu_ends_readiness_and_the_process(
    lost: tuple[Server, pathlib.Path], connect
):
    server, file = lost
    assert "may use GPU 0 (fake), GPU 1 (fake)" in "\n".join(server.lines())
    caller = connect(server)
    caller.infer(identity_request(model="on_gpu"))
    caller.infer(identity_request(model="on_cpu"))
    file.touch()
    begin = time.monotonic()
    with pytest.raises(grpc.RpcError) as refused:
        while time.monotonic() < begin + 5:
            caller.infer(identity_request(model="on_gpu"))
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert ("fovea-reason", "device.lost") in tuple(refused.value.trailing_metadata())
    assert server.process.wait(10) == 1
    assert time.monotonic() - begin < 5, "its supervisor waits for no drain delay"
    server.wait_for_log("ending: a GPU is lost until another process is started")
