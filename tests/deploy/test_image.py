"""The container image: what is in it, and that it serves with no rights at all."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import threading

import pytest
from containers import (
    build,
    container,
    get,
    inspect,
    podman,
    port_of,
    run,
    wait_until_ready,
)
from running_server import ROOT

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea.client import Client, Error

pytestmark = pytest.mark.containers
EXAMPLES = ROOT / "client/examples"
MOST_MEGABYTES = 900


@pytest.fixture(scope="module")
def root(image: str):
    """The image's files."""
    folder = pathlib.Path(podman("image", "mount", image).strip())
    yield folder
    podman("image", "unmount", image)


def test_the_image_is_small(image: str, capsys: pytest.CaptureFixture):
    size = inspect(image, "image")["Size"] / 1e6
    with capsys.disabled():
        print(f"\n{image}: {size:.0f} MB")
    assert 100 < size <= MOST_MEGABYTES


def test_it_says_what_it_is_and_how_it_is_run(image: str):
    config = inspect(image, "image")["Config"]
    user, group = config["User"].split(":")
    assert (
        int(user) > 1000 and int(group) > 1000
    )  # numbers, so that Kubernetes can tell
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert set(config["ExposedPorts"]) == {"8000/tcp", "8001/tcp", "8002/tcp"}
    assert config["Entrypoint"] == ["fovea-server"]
    health = inspect(image, "image")["Healthcheck"]
    assert health["Test"] == ["CMD", "fovea", "health"]
    labels = config["Labels"]
    project = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(fovea VERSION ([\d.]+)", project)[1]
    assert labels["org.opencontainers.image.version"] == version
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_it_holds_what_runs_and_nothing_else(image: str, root: pathlib.Path):
    files = [
        path for path in root.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    programs = {path.name for path in files if path.parent.name in ("bin", "sbin")}
    assert programs == {"fovea-server", "fovea", "fovea-check", "fovea-kernels"}
    assert not [path for path in files if path.suffix in (".deb", ".a", ".h", ".py")]
    writable = [path for path in [root, *root.rglob("*")]
                if not path.is_symlink() and path.stat().st_mode & 0o6022]  # fmt: skip
    assert not writable
    # A scanner finds each package with its version, and a reader its copyright.
    packages = list((root / "var/lib/dpkg/status.d").iterdir())
    assert {"libc6", "libssl3", "libgrpc++1.51", "fovea"} <= {
        one.name for one in packages
    }
    for package in packages:
        assert re.search(r"^Version: \S+$", package.read_text(), re.MULTILINE)
        assert (root / "usr/share/doc" / package.name / "copyright").exists()


def test_its_libraries_are_all_there(image: str):
    for program in ("fovea-server", "fovea", "fovea-check", "fovea-kernels"):
        done = run("podman", "run", "--rm", "--entrypoint", program, image, "--help")
        assert "Usage" in done.stdout or "usage" in done.stdout.lower()


def test_it_serves_all_tasks_without_rights_and_drains(image: str):
    with container(
        *("--drain-delay", 500, "--model-control-mode", "explicit"),
        *("--load-model", "shapes", "--load-model", "detector_dense"),
        *("--load-model", "segmenter_dense"),
        image=image,
    ) as name:
        assert run("podman", "healthcheck", "run", name, check=False).returncode != 0
        http = port_of(name, 8000)
        wait_until_ready(http)
        assert run("podman", "healthcheck", "run", name, check=False).returncode == 0
        state = inspect(name)
        assert state["EffectiveCaps"] in (None, [])
        assert state["HostConfig"]["ReadonlyRootfs"]
        status = pathlib.Path(f"/proc/{state['State']['Pid']}/status").read_text()
        assert re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)[1] != "0"
        assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
        assert get(port_of(name, 8002), "/metrics")[0] == 200
        scene = EXAMPLES / "scenes/scene_1.jpg"
        with Client(f"127.0.0.1:{port_of(name, 8001)}") as client:
            (found,) = client.classify("shapes", [EXAMPLES / "star.jpg"]).images
            assert found.labels[0] == "star"
            (found,) = client.detect(
                "detector_dense", [scene], score_threshold=0.3
            ).images
            assert len(found.boxes) > 0
            (found,) = client.segment("segmenter_dense", [scene]).images
            assert found.classes
            failures, answered = [], []

            def ask() -> None:
                try:
                    while not failures:
                        client.classify("shapes", [EXAMPLES / "star.jpg"])
                        answered.append(1)
                except Error as error:
                    failures.append(error)

            asking = threading.Thread(target=ask)
            asking.start()
            podman("stop", "--time", 60, name)
            asking.join()
        # What came while it drained was answered; the one failure is that nobody listens any more.
        assert len(answered) > 1 and type(failures[0]).__name__ == "Unreachable"
        assert inspect(name)["State"]["ExitCode"] == 0


def test_its_server_finds_the_bundled_models_by_itself(image: str):
    done = run(
        "podman",
        "run",
        "--rm",
        "--read-only",
        "--cap-drop",
        "all",
        image,
        "--check-config",
    )
    assert 'model-repository = ["/usr/share/fovea/models"]' in done.stdout


def test_there_is_no_shell_to_break_into(image: str):
    for shell in ("sh", "bash", "/bin/sh"):
        command = ["podman", "run", "--rm", "--entrypoint", shell, image, "-c", "true"]
        assert (
            subprocess.run(command, capture_output=True, check=False).returncode == 127
        )


def test_the_same_package_gives_the_same_files(image: str, base: str):
    again = "localhost/fovea-test:again"
    build(again, base, "--no-cache")
    try:
        layers = [inspect(one, "image")["RootFS"]["Layers"] for one in (image, again)]
        assert layers[0] == layers[1]
    finally:
        podman("rmi", again)
