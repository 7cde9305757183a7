"""Containers, by podman: the image that the tests try, and what runs of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from running_server import ROOT

# Debian 12, from which images are built.
BASES = ("localhost/debian:12", "docker.io/library/debian:12")
IMAGE = "localhost/fovea-test:cpu"
SECONDS = 300  # for whatever a container does


def lacks(what: str) -> None:
    """Skips, or fails where FOVEA_REQUIRE_CONTAINERS says that containers have to be tried (make test-deploy)."""
    if os.environ.get("FOVEA_REQUIRE_CONTAINERS"):
        pytest.fail(what)
    pytest.skip(what)


def run(*command: object, check: bool = True, **options) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0 or not check, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def podman(*arguments: object, **options) -> str:
    return run("podman", *arguments, **options).stdout


def inspect(name: str, what: str = "container") -> dict:
    (found,) = json.loads(podman("inspect", "--type", what, name))
    return found


def can_pull(image: str) -> bool:
    """Whether an image is here, or in a registry that can be reached."""
    if run("podman", "image", "exists", image, check=False).returncode == 0:
        return True
    with contextlib.suppress(subprocess.TimeoutExpired):
        pulled = run("podman", "pull", "-q", image, check=False, timeout=SECONDS)
        return pulled.returncode == 0
    return False


def base_image() -> str:
    if not shutil.which("podman"):
        lacks("podman is not installed")
    base = next(filter(can_pull, BASES), None)
    if base is None:
        lacks(f"no base image: none of {', '.join(BASES)} is here, nor a registry")
    return base


def build(tag: str, base: str, *flags: object) -> None:
    """The image of the package that `make deb` leaves."""
    packages = list((ROOT / "build/cpu").glob("fovea_*.deb"))
    if len(packages) != 1:
        lacks(f"{len(packages)} packages in build/cpu: make deb leaves one")
    podman(
        *("build", "--format", "docker", "--tag", tag, "--target", "cpu"),
        *("--file", ROOT / "deploy/docker/Dockerfile", *flags),
        *("--build-arg", f"BASE={base}", "--build-arg", "PACKAGE=context", ROOT),
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(port: int, path: str) -> tuple[int, bytes]:
    """Of a port of this machine; 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def wait_until(holds: Callable[[], bool], what: str, timeout: float = SECONDS) -> None:
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def wait_until_ready(http_port: int) -> None:
    wait_until(lambda: get(http_port, "/readyz")[0] == 200, "the server is not ready")


@contextlib.contextmanager
def container(*arguments: object, image: str = IMAGE) -> Iterator[str]:
    """A server with these arguments, as a careful operator runs it, its ports on free ones: port_of()."""
    name = podman(
        *("run", "--detach", "--read-only", "--cap-drop", "all"),
        *("--security-opt", "no-new-privileges"),
        *(part for port in (8000, 8001, 8002) for part in ("-p", f"127.0.0.1::{port}")),
        *(image, *arguments),
    ).strip()
    try:
        yield name
    finally:
        podman("rm", "--force", "--time", 0, name)


def port_of(name: str, port: int) -> int:
    return int(podman("port", name, f"{port}/tcp").rpartition(":")[2])


def models_archive(folder: pathlib.Path, *models: str) -> pathlib.Path:
    """A tar of bundled models, for a volume."""
    archive = folder / "models.tar"
    run("tar", "-C", ROOT / "model_zoo/demo", "-cf", archive, *models)
    return archive
