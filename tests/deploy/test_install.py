"""An installed tree serves from anywhere, for any user, and is never written to."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator

import pytest
from running_server import BUILD, ROOT, Server

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user"
)

# No capability is left: CAP_DAC_READ_SEARCH would let it read other users' homes.
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
AS_NOBODY += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
AS_NOBODY += ["env", "-i", "PATH=/usr/bin:/bin"]


def make_read_only(tree: pathlib.Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        # A hard link's permissions are those of the file in .venv.
        if path.is_dir() or path.stat().st_nlink == 1:
            path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture(scope="module")
def prefix() -> Iterator[pathlib.Path]:
    """Installed in one place under a careless umask, moved to another, read-only."""
    # Not under pytest's folder, which only its owner can enter.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fovea-install-"))
    folder.chmod(0o755)
    done = subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", folder / "before"],
        env={**os.environ, "FOVEA_INSTALL_LINKS": "1"},
        umask=0o077,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    moved = (folder / "before").rename(folder / "after")
    make_read_only(moved)
    yield moved
    subprocess.check_call(["chmod", "-R", "u+w", folder])
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def installed_server(
    prefix: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    running = Server(
        tmp_path_factory.mktemp("installed") / "server.log",
        *("--model-repository", str(prefix / "share/fovea/models")),
        *("--model-control-mode", "explicit", "--load-model", "shapes"),
        program=[*AS_NOBODY, prefix / "bin" / "fovea-server"],
    )
    yield running
    code = running.terminate()
    running.close()
    assert code == 0


def test_another_user_serves_and_classifies(
    prefix: pathlib.Path, installed_server: Server
):
    folder = prefix / "share/fovea/examples"
    examples = sorted(file for file in folder.iterdir() if file.is_file())
    assert len(examples) >= 4
    assert len(list((folder / "scenes").iterdir())) >= 3
    for number, example in enumerate(examples):
        # What is printed names the file, which is called after its class.
        picture = prefix.parent / f"{number}{example.suffix}"
        shutil.copy(example, picture)
        printed = subprocess.check_output(
            [*AS_NOBODY, prefix / "bin/fovea", "--server", installed_server.grpc]
            + ["classify", "--model", "shapes", "--top-k", "1", picture],
            text=True,
        )  # fmt: skip
        assert example.stem in printed, printed


def test_what_the_pages_for_operators_name_is_in_the_tree(prefix: pathlib.Path):
    named = set()
    for page in (ROOT / "docs/operations").glob("*.md"):
        named |= set(
            re.findall(
                r"deploy/(?:grafana|kubernetes|prometheus|proxies)[\w./-]*",
                page.read_text(),
            )
        )
    named.discard("deploy/grafana/write_dashboards.py")  # makes them, in a checkout
    assert len(named) > 8
    assert not [path for path in named if not (prefix / "share/fovea" / path).exists()]
    place = prefix.with_name("before")  # it was moved since
    systemd = prefix / "share/fovea/deploy/systemd"
    unit = (systemd / "fovea-server.service").read_text()
    assert (
        f"ExecStart={place}/bin/fovea-server --config /etc/fovea/server.toml\n" in unit
    )
    config = tomllib.loads((systemd / "server.toml").read_text())
    assert config["model-repository"] == [f"{place}/share/fovea/models"]


def test_what_the_server_loads_is_in_the_tree_or_the_systems(
    prefix: pathlib.Path, installed_server: Server
):
    maps = pathlib.Path(f"/proc/{installed_server.process.pid}/maps").read_text()
    loaded = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert any(
        path.startswith(f"{prefix}/lib/fovea/libtorch_cpu.so") for path in loaded
    )
    places = (str(prefix), "/lib/", "/usr/lib/")
    assert not [path for path in sorted(loaded) if not path.startswith(places)]


@pytest.mark.parametrize(
    "command",
    [
        ["fovea-kernels", "--json"],
        ["fovea", "capacity", "--help"],
        ["fovea-capacity", "--help"],
        ["fovea", "check", "--help"],
        ["fovea", "zoo", "--help"],
        ["fovea-train", "--help"],
    ],
    ids=str,
)
def test_the_other_commands_run(prefix: pathlib.Path, command: list[str]):
    subprocess.check_call(
        [*AS_NOBODY, prefix / "bin" / command[0], *command[1:]],
        stdout=subprocess.DEVNULL,
    )


def test_another_user_trains(prefix: pathlib.Path):
    """On scenes that it draws, with the libraries of the tree and nothing of the checkout."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=prefix.parent))
    shutil.chown(folder, "nobody", "nogroup")

    def train(*options: object) -> None:
        command = [*AS_NOBODY, prefix / "bin/fovea", "train", *map(str, options)]
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    train("--write-scenes", folder / "scenes", "--scene-count", 8)
    assert len(list((folder / "scenes/images").iterdir())) == 8
    train(
        *("--out", folder / "finder", "--data", folder / "scenes"),
        *("--task", "detection", "--backbone", "linglo_demo", "--head-channels", 32),
        *("--image-size", 64, "--batch-size", 4, "--epochs", 1, "--threads", 1),
    )
    assert list((folder / "finder").rglob("*.safetensors"))


def test_no_cuda_is_installed_where_none_was_built(prefix: pathlib.Path):
    # The entry is there where CUDA was asked for, and a path where it was found.
    with_cuda = "FOVEA_NVCC:FILEPATH=/" in (BUILD / "CMakeCache.txt").read_text()
    names = {path.name for path in (prefix / "lib/fovea").iterdir()}
    assert {"libtorch_cpu.so", "libc10.so", "libfovea_kernels.so"} <= names
    if not with_cuda:
        assert len(names) <= 9, sorted(names)


def test_another_user_runs_what_lies_in_the_build_folder():
    """Although .venv, where LibTorch is, may be in a home that only its owner can enter."""
    folders = (BUILD / "bin").resolve().parents
    closed = [folder for folder in folders if not folder.stat().st_mode & 0o001]
    if closed:
        pytest.skip(f"{closed[0]} is its owner's alone")
    subprocess.check_call([*AS_NOBODY, BUILD / "bin" / "fovea-server", "--version"])
