"""Models in an object store: the commands of deploy/kubernetes/components/object-store, against moto's S3 on loopback."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import boto3
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
import yaml
from moto.server import ThreadedMotoServer
from running_server import DEMO, ROOT, Server
from safetensors.numpy import load_file, save_file
from tritonclient.utils import InferenceServerException

MODEL, SIZE = "shapes", 64
BUCKET = "our-models"
MANIFEST = ROOT / "deploy/kubernetes/components/object-store/deployment.yaml"


def containers() -> dict[str, dict]:
    (deployment,) = yaml.safe_load_all(MANIFEST.read_text())
    pod = deployment["spec"]["template"]["spec"]
    return {one["name"]: one for one in pod["initContainers"] + pod["containers"]}


@pytest.fixture
def store() -> Iterator[str]:
    """The endpoint of an object store."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(store: str):
    resource = boto3.resource(
        "s3",
        endpoint_url=store,
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    return resource.create_bucket(Bucket=BUCKET)


def upload(bucket, folder: pathlib.Path, prefix: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            bucket.upload_file(str(path), key)


def environment(store: str) -> dict[str, str]:
    """The manifest's own variables, but for where the store is and what it is shown."""
    variables = {
        one["name"]: one.get("value", "") for one in containers()["keep-models"]["env"]
    }
    assert variables["BUCKET"] == BUCKET
    # What a machine tells AWS' clients (AWS_CA_BUNDLE) is not for this store.
    here = {key: one for key, one in os.environ.items() if not key.startswith("AWS_")}
    return {
        **here,
        **variables,
        "RCLONE_CONFIG_MODELS_ENDPOINT": store,
        "RCLONE_CONFIG_MODELS_ACCESS_KEY_ID": "id",
        "RCLONE_CONFIG_MODELS_SECRET_ACCESS_KEY": "secret",
        "RCLONE_CONFIG": os.devnull,
        "PERIOD_SECS": "1",
    }


@pytest.fixture
def folder(store: str, bucket, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Filled by the init container's command, and kept by the sidecar's from then on."""
    upload(bucket, DEMO / MODEL, MODEL)
    models = tmp_path / "models"
    told = environment(store)
    first, second = (containers()[name] for name in ("fetch-models", "keep-models"))

    def here(argument: str) -> str:
        argument = re.sub(r"\$\((\w+)\)", lambda name: told[name[1]], argument)
        return argument.replace("/models", str(models))

    fetch = [*first["command"], *map(here, first["args"])]
    subprocess.run(fetch, env=told, check=True)
    keeper = subprocess.Popen(
        [*second["command"], *map(here, second["args"])],
        env=told,
        start_new_session=True,
    )
    yield models
    os.killpg(keeper.pid, signal.SIGTERM)
    keeper.wait(30)


class Traffic:
    """Asks over both protocols, one request after the other, until it is stopped."""

    def __init__(self, server: Server):
        self.failures: list[str] = []
        self.versions: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(module, address), daemon=True)
            for module, address in (
                (triton, server.grpc),
                (triton_http, server.http),
            )
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, module, address: str) -> None:
        with module.InferenceServerClient(address) as client:
            tensor = module.InferInput("pixel_values", (1, 3, SIZE, SIZE), "FP32")
            tensor.set_data_from_numpy(np.ones((1, 3, SIZE, SIZE), np.float32))
            while not self._stop.is_set():
                try:
                    answer = client.infer(MODEL, [tensor]).get_response()
                    version = (
                        answer["model_version"]
                        if isinstance(answer, dict)
                        else answer.model_version
                    )
                    self.versions.append(version)
                except InferenceServerException as error:
                    self.failures.append(str(error))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def wait_until(holds: Callable[[], bool], timeout: float = 120) -> None:
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_version_that_is_uploaded_is_served_and_one_that_is_deleted_is_not(
    start_server, folder: pathlib.Path, bucket, tmp_path: pathlib.Path
):
    settings = {one["name"]: one["value"] for one in containers()["fovea"]["env"]}
    assert settings["FOVEA_MODEL_CONTROL_MODE"] == "poll"
    server = start_server(
        *("--model-repository", folder, "--model-control-mode", "poll"),
        *("--repository-poll-secs", "1", "--repository-settle-secs", "2"),
        environment={"FOVEA_THREADS": "1"},
    )
    traffic = Traffic(server)
    wait_until(lambda: len(traffic.versions) > 20)
    assert set(traffic.versions) == {"1"}

    second = tmp_path / "second"
    shutil.copytree(DEMO / MODEL / "1", second)
    tensors = load_file(second / "model.safetensors")
    tensors["head.bias"] = tensors["head.bias"] + np.float32(1)
    save_file(tensors, second / "model.safetensors")
    upload(bucket, second, f"{MODEL}/2")
    wait_until(lambda: traffic.versions[-1] == "2")
    answered = len(traffic.versions)
    wait_until(lambda: len(traffic.versions) > answered + 20)
    assert set(traffic.versions[answered + 4 :]) == {"2"}

    bucket.objects.filter(Prefix=f"{MODEL}/2/").delete()
    wait_until(lambda: traffic.versions[-1] == "1")
    traffic.stop()
    assert traffic.failures == []
    assert server.terminate() == 0


def test_a_store_that_is_gone_leaves_the_folder_as_it_is(
    folder: pathlib.Path, store: str, tmp_path: pathlib.Path
):
    kept = shutil.copytree(folder, tmp_path / "kept")  # which no sidecar brings back
    gone = {**environment(store), "RCLONE_CONFIG_MODELS_ENDPOINT": "http://127.0.0.1:9"}
    gone |= {"RCLONE_RETRIES": "1", "RCLONE_LOW_LEVEL_RETRIES": "1"}
    ran = subprocess.run(
        ["rclone", "sync", f"models:{BUCKET}", kept],
        env=gone,
        check=False,
        capture_output=True,
    )
    assert ran.returncode != 0
    assert (kept / MODEL / "1/model.safetensors").exists()
