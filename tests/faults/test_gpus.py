"""Models on GPUs, from the caller to the lane and back, on two that the tests make of host memory; and their loss (row 41)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
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
    SERVICE,
    Caller,
    add_identity,
    arrived,
    both,
    gauge,
    identity_request,
    image_request,
    infer_request,
    picture,
    pixel_values,
    reason,
    scrape,
    wait_until,
)
from http_caller import HttpCaller
from running_server import BUILD, DEMO, ROOT, Server, command_line

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
        held = allocator_bytes(counted, gpu)
        assert held.keys() == {"allocated", "reserved", "set_aside", "limit"}
        assert 0 < held["set_aside"] < held["limit"]


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


@contextlib.contextmanager
def running(
    folder: pathlib.Path, repository: pathlib.Path, *flags: object, **options: object
) -> Iterator[Server]:
    """A server with GPUs, once each model has loaded or failed."""
    server = Server(
        folder / "log",
        *("--model-repository", repository, *flags),
        program=PROGRAM,
        ready=False,
        **options,
    )
    try:
        server.wait_for_log(r"\bready: ")  # or "not ready: "
        yield server
        assert server.terminate() == 0
    finally:
        server.close()


def index_of(server: Server) -> dict[str, dict]:
    """The repository's index, by model."""
    asked = urllib.request.Request(f"http://{server.http}/v2/repository/index", b"{}")
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return {one["name"]: one for one in json.load(answer)}


def allocator_bytes(scraped: str, gpu: int) -> dict[str, float]:
    """fovea_gpu_allocator_bytes by its kinds."""
    sample = rf'^fovea_gpu_allocator_bytes{{gpu="GPU-fake-{gpu}",kind="(\w+)"}} (\S+)$'
    found = re.findall(sample, scraped, re.MULTILINE)
    return {kind: float(value) for kind, value in found}


def write_instances(repository: pathlib.Path, model: str, fields: str) -> None:
    spec = repository / model / "model.textproto"
    spec.write_text(spec.read_text() + f"instance_group {{ {fields} }}\n")


def test_int8_runs_on_the_cpu_and_is_refused_a_gpu(tmp_path: pathlib.Path):
    repository = add_identity(tmp_path / "models", "wants_gpu")
    write_instances(repository, "wants_gpu", "kind: KIND_GPU")
    shutil.copytree(DEMO / MODEL, repository / MODEL)
    for model in ("wants_gpu", MODEL):
        spec = repository / model / "model.textproto"
        text = spec.read_text().replace("precision: FP32\n", "")
        spec.write_text(text + "precision: INT8\n")
    with running(tmp_path, repository) as server:
        index = index_of(server)
        assert index[MODEL]["state"] == "READY"
        assert index["wants_gpu"]["state"] == "UNAVAILABLE"
        assert "models run in INT8 on the CPU alone" in index["wants_gpu"]["reason"]
        assert re.search(
            rf'fovea_model_memory_bytes{{[^}}]*device="CPU"[^}}]*model="{MODEL}"',
            scrape(server.metrics),
        )


def test_row_39_models_share_what_the_flag_gives_of_each_gpu(tmp_path: pathlib.Path):
    repository = tmp_path / "models"
    shutil.copytree(DEMO / MODEL, repository / MODEL)
    with running(tmp_path, repository, "--max-gpu-bytes", 1) as server:
        (model,) = index_of(server).values()
        assert model["state"] == "UNAVAILABLE"
        assert "GPU 0 (fake) has 0.0 MiB left for models" in model["reason"]
        for gpu in range(2):
            held = allocator_bytes(scrape(server.metrics), gpu)
            assert (held["limit"], held["set_aside"]) == (1, 0)


@pytest.mark.parametrize("batches", [1, 2])
def test_as_many_batches_run_on_each_gpu_as_the_flag_says(
    tmp_path: pathlib.Path, batches: int
):
    """The GPUs stand still: what runs on them has left the queue, the others wait there."""
    repository = add_identity(tmp_path / "models")
    spec = repository / "identity" / "model.textproto"
    spec.write_text(spec.read_text() + "max_batch_size: 1\n")
    write_instances(repository, "identity", "kind: KIND_GPU count: 4")
    paused = tmp_path / "paused"
    sent, running_at_once = 7, 2 * batches
    environment = {"FAKE_GPUS_PAUSED": str(paused)}
    with running(
        tmp_path, repository, "--gpu-batches", batches, environment=environment
    ) as server:
        paused.touch()
        wait_until(pathlib.Path(f"{paused}.seen").exists)
        caller = Caller(server.grpc)
        call = caller.channel.unary_unary(SERVICE + "ModelInfer")
        request = identity_request().SerializeToString()
        answers = [call.future(request, timeout=60) for _ in range(sent)]

        def waiting() -> float:
            return gauge(scrape(server.metrics), "fovea_queue_depth")

        wait_until(lambda: arrived(server.metrics) == sent)
        wait_until(lambda: waiting() == sent - running_at_once, timeout=10)
        time.sleep(0.2)
        assert waiting() == sent - running_at_once
        paused.unlink()
        for answer in answers:
            answer.result()
        caller.close()


@pytest.fixture
def lost(tmp_path: pathlib.Path) -> Iterator[tuple[Server, pathlib.Path]]:
    """A model on the GPUs, two on the CPU whose requests wait for a batch, one second and ten, and the file that loses the GPUs."""
    repository = add_identity(tmp_path / "models", "on_gpu")
    for name, seconds in (("on_cpu", 1), ("waits_long", 10)):
        add_identity(repository, name)
        spec = repository / name / "model.textproto"
        delay = f"max_queue_delay_microseconds: {seconds}000000"
        waits = f"max_batch_size: 4\ndynamic_batching {{ {delay} }}\n"
        spec.write_text(spec.read_text() + waits)
        write_instances(repository, name, "kind: KIND_CPU")
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


def lose_gpus(
    server: Server, file: pathlib.Path, caller: Caller, requests: int
) -> tuple[grpc.RpcError, float]:
    """When so many requests have come: what the first call says that finds them lost, and when they were."""
    wait_until(lambda: arrived(server.metrics) == requests)
    file.touch()
    begin = time.monotonic()
    with pytest.raises(grpc.RpcError) as refused:
        while time.monotonic() < begin + 5:
            caller.infer(identity_request(model="on_gpu"))
    return refused.value, begin


def test_row_41_a_lost_gpu_ends_readiness_and_the_process(
    lost: tuple[Server, pathlib.Path], connect
):
    server, file = lost
    assert "may use GPU 0 (fake), GPU 1 (fake)" in "\n".join(server.lines())
    caller = connect(server)
    caller.infer(identity_request(model="on_gpu"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(caller.infer, identity_request(model="on_cpu"))
        refused, begin = lose_gpus(server, file, caller, requests=2)
        assert refused.code() == grpc.StatusCode.UNAVAILABLE
        assert reason(refused) == "device.lost"
        assert under_way.result().size, "it needs no GPU, and has two seconds"
    assert server.process.wait(30) == 1
    assert time.monotonic() - begin < 30, "its supervisor waits for no drain delay"
    server.wait_for_log("ending: a GPU is lost until another process is started")


def test_row_41_a_server_that_can_use_none_of_its_gpus_does_not_start(
    tmp_path: pathlib.Path,
):
    (tmp_path / MODEL).symlink_to(DEMO / MODEL)
    ended = subprocess.run(
        command_line("--model-repository", tmp_path, program=PROGRAM),
        env={**os.environ, "FAKE_GPUS_TAKEN": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    for gpu in (0, 1):
        assert any(f"GPU {gpu} is left out: " in line for line in lines), lines
    assert "cannot start: no GPU that CUDA shows can be used" in lines[-1]


def test_row_41_what_needs_no_gpu_has_two_seconds(
    lost: tuple[Server, pathlib.Path], connect
):
    server, file = lost
    caller = connect(server)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(caller.infer, identity_request(model="waits_long"))
        _, begin = lose_gpus(server, file, caller, requests=1)
        with pytest.raises(grpc.RpcError) as refused:
            under_way.result(30)
        assert reason(refused.value) == "server.drain_timeout"
        assert 2 < time.monotonic() - begin < 8, "its batch would have waited ten"
    assert server.process.wait(10) == 1
    server.wait_for_log("1 requests did not finish within the drain timeout")


def test_row_41_a_gpu_that_is_lost_during_a_drain_ends_it(
    lost: tuple[Server, pathlib.Path], connect
):
    server, file = lost
    caller = connect(server)
    caller.infer(identity_request(model="on_gpu"))
    server.process.terminate()
    server.wait_for_log("stopping: health reads NOT_SERVING from here on")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # The second has the drain take its two seconds.
        answered, given_up = (
            pool.submit(caller.infer, identity_request(model=model))
            for model in ("on_cpu", "waits_long")
        )
        _, begin = lose_gpus(server, file, caller, requests=3)
        with pytest.raises(grpc.RpcError) as refused:
            while time.monotonic() < begin + 30:
                caller.infer(identity_request(model="on_cpu"))
        assert reason(refused.value) == "server.draining", "no delay any more"
        assert answered.result().size, "it needs no GPU, and has two seconds"
        with pytest.raises(grpc.RpcError) as refused:
            given_up.result(30)
        assert reason(refused.value) == "server.drain_timeout"
    assert server.process.wait(30) == 1, "its supervisor is to know"
    assert time.monotonic() - begin < 30, "it waits for no drain delay"
    server.wait_for_log("1 requests did not finish within the drain timeout")
