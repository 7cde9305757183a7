"""Loads Fovea's own libraries into PyTorch: libfovea_kernels.so and libfovea_models.so.

Each is looked for in the file that its environment variable names (FOVEA_KERNELS_LIBRARY, FOVEA_MODELS_LIBRARY), then in the
checkout this module lies in, or beside this module where that is installed: a wheel carries them. They are built for one
release of torch.
"""

from __future__ import annotations

import os
import pathlib

import torch

TORCH = "2.11"  # that the libraries are built for

# What libfovea_models.so needs and neither torch nor the wheel has.
_DEBIAN_PACKAGES = "libprotobuf32 and libabsl20220623"


def path_of(name: str) -> pathlib.Path:
    """Where lib`name`.so is; name: "fovea_kernels" or "fovea_models". ImportError: nowhere."""
    variable = f"{name.upper()}_LIBRARY"
    file = f"lib{name}.so"
    named = os.environ.get(variable)
    if named:
        path = pathlib.Path(named)
        if not path.is_file():
            raise ImportError(f"{variable}={named} is not a file")
        return path
    package = pathlib.Path(__file__).resolve().parent
    checkout = package.parents[2]
    in_checkout = (checkout / "kernels" / "CMakeLists.txt").is_file()
    build = os.environ.get("FOVEA_BUILD", "build/release")
    path = (checkout / build / "lib" if in_checkout else package) / file
    if not path.is_file():
        again = (
            "" if in_checkout else ", then `pip install ./client/python` there again"
        )
        raise ImportError(
            f"{path} does not exist: run `make build` in Fovea's checkout{again}; or set {variable} to a {file}"
        )
    return path


def load(name: str) -> None:
    """Loads lib`name`.so, once. ImportError: it is not there, or torch is another release, or something is missing."""
    path = path_of(name)
    if torch.__version__.split(".")[:2] != TORCH.split("."):
        raise ImportError(
            f"{path} is built for torch {TORCH}, and this is torch {torch.__version__}: "
            f"pip install 'torch=={TORCH}.*'"
        )
    try:
        torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    except OSError as error:
        why = error.__cause__ or error
        missing = any(part in str(why) for part in ("libprotobuf", "libabsl"))
        packages = f"; Debian has it in {_DEBIAN_PACKAGES}" if missing else ""
        raise ImportError(
            f"{path} cannot be loaded with torch {torch.__version__}: {why}{packages}"
        ) from error
