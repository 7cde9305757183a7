"""`pip install ./client/python`, as README says it: `fovea.ops` works anywhere, or says in one sentence why not; servers are
called and models measured without torch."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib

import pytest
from running_server import BUILD, ROOT

LIBRARY = BUILD / "lib" / "libfovea_kernels.so"
CALL = """
import torch
from fovea import ops
q, k, v = torch.randn(3, 1, 2, 9, 8)
print(ops.dense_attention(q, k, v).shape, ops.library_path())
"""


def sources(folder: pathlib.Path) -> pathlib.Path:
    """The package's sources apart from the checkout, so that nothing is written to it and nothing found in it."""
    skipped = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    return shutil.copytree(ROOT / "client/python", folder / "python", ignore=skipped)


def install(folder: pathlib.Path, **environment: str) -> pathlib.Path:
    """A new environment's interpreter, with the package. What it depends on comes from the tests' own environment."""
    subprocess.check_call(
        [sys.executable, "-m", "venv", "--without-pip", folder / "venv"]
    )
    python = folder / "venv" / "bin" / "python"
    site = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        text=True,
    ).strip()
    pathlib.Path(site, "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.check_call(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
        + ["--no-build-isolation", "--disable-pip-version-check", sources(folder)],
        env={"PATH": "/usr/bin:/bin", **environment},
    )  # fmt: skip
    return python


def run(
    python: pathlib.Path, script: str, **environment: str
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [python, "-c", script],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def the_sentence(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 1, done.stdout
    assert "ImportError: " in done.stderr, done.stderr
    return done.stderr.rsplit("ImportError: ", 1)[1].strip()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return install(
        tmp_path_factory.mktemp("installed"), FOVEA_KERNELS_LIBRARY=str(LIBRARY)
    )


def test_the_installed_package_brings_its_library(installed: pathlib.Path):
    done = run(installed, CALL)
    assert done.returncode == 0, done.stderr
    shape, path = done.stdout.strip().rsplit(" ", 1)
    assert shape == "torch.Size([1, 2, 9, 8])"
    assert pathlib.Path(path).is_relative_to(installed.parents[1]), path


def test_another_torch_is_refused_in_a_sentence(installed: pathlib.Path):
    done = run(installed, "import torch; torch.__version__ = '2.9.1+cu128'\n" + CALL)
    sentence = the_sentence(done)
    assert sentence.endswith(
        "is built for torch 2.11, and this is torch 2.9.1+cu128: pip install 'torch==2.11.*'"
    )


def test_a_library_that_cannot_be_loaded_says_why(
    installed: pathlib.Path, tmp_path: pathlib.Path
):
    broken = tmp_path / "libfovea_kernels.so"
    broken.write_bytes(b"\x7fELF")
    sentence = the_sentence(run(installed, CALL, FOVEA_KERNELS_LIBRARY=str(broken)))
    assert f"{broken} cannot be loaded with torch 2.11" in sentence
    assert "file too short" in sentence


def test_a_package_installed_before_the_build_says_what_to_do(tmp_path: pathlib.Path):
    python = install(tmp_path)
    sentence = the_sentence(run(python, CALL))
    assert "libfovea_kernels.so does not exist: run `make build`" in sentence
    assert "`pip install ./client/python` there again" in sentence
    done = run(python, CALL, FOVEA_KERNELS_LIBRARY=str(LIBRARY))
    assert done.returncode == 0, done.stderr


ASK = """
import sys
sys.modules["torch"] = None  # importing it fails
from fovea import client
try:
    client.Client("127.0.0.1:1").classify("m", [b"picture"])
except client.Unreachable as error:
    print(error.code, client.vision_pb2.__file__)
"""


def test_the_installed_package_calls_servers_and_measures_models(
    installed: pathlib.Path,
):
    done = run(installed, ASK)
    assert done.returncode == 0, done.stderr
    code, path = done.stdout.split()
    assert code == "UNAVAILABLE"
    assert pathlib.Path(path).is_relative_to(installed.parents[1]), path
    help_text = subprocess.run(
        [installed.parent / "fovea-evaluate", "--help"],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "docs/datasets.md" in help_text


def test_the_package_asks_for_the_torch_that_the_library_is_built_for():
    project = tomllib.loads((ROOT / "client/python/pyproject.toml").read_text())
    required = [
        line
        for line in project["project"]["dependencies"]
        if line.startswith("torch==")
    ]
    assert required[0] in (ROOT / "requirements.txt").read_text().splitlines()
    release = required[0].removeprefix("torch==").rsplit(".", 1)[0]
    cmake = (ROOT / "cmake/FoveaTorch.cmake").read_text()
    assert f"set(FOVEA_TORCH_VERSION {release})" in cmake
    ops = (ROOT / "client/python/fovea/ops.py").read_text()
    assert f'_TORCH = "{release}"' in ops
