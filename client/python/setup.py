"""Takes libfovea_kernels.so into the package, for fovea.ops, where it has been built; pyproject.toml holds the rest.

Looked for as fovea.ops looks for it: in FOVEA_KERNELS_LIBRARY, then in the checkout's build folder (FOVEA_BUILD).
"""

import os
import pathlib

import setuptools
from setuptools.command.build_py import build_py

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
BUILT = CHECKOUT / os.environ.get("FOVEA_BUILD", "build/release") / "lib"
LIBRARY = pathlib.Path(
    os.environ.get("FOVEA_KERNELS_LIBRARY", BUILT / "libfovea_kernels.so")
)


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        if LIBRARY.is_file() and not self.editable_mode:
            folder = pathlib.Path(self.build_lib, "fovea")
            self.copy_file(str(LIBRARY), str(folder / "libfovea_kernels.so"))


class Distribution(setuptools.Distribution):
    def has_ext_modules(self) -> bool:  # for this platform alone
        return LIBRARY.is_file()


setuptools.setup(cmdclass={"build_py": BuildWithLibrary}, distclass=Distribution)
