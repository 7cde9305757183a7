"""Data sets whose pictures a fake server knows by their colour, and fovea-evaluate on them."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
from fake_vision import png
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
    "PYTHONPATH": str(ROOT / "client/python"),
}
COMMAND = [sys.executable, "-m", "fovea.evaluation.command"]


def evaluate(
    address: str, *arguments: object, rounds: int = 0
) -> subprocess.CompletedProcess[str]:
    """`rounds`: in which costs are measured, of which most tests ask nothing."""
    return subprocess.run(
        [*COMMAND, "--server", address, "--rounds", str(rounds), *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def install(folder: pathlib.Path) -> dict[str, str]:
    """fovea-evaluate in `folder`, as pip installs it there, and the environment in which fovea finds it."""
    folder.mkdir(exist_ok=True)
    program = folder / "fovea-evaluate"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{ENVIRONMENT['PYTHONPATH']}' exec '{sys.executable}' "
        '-m fovea.evaluation.command "$@"\n'
    )
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def figures(address: str, *arguments: object) -> dict[str, Any]:
    done = evaluate(address, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write_picture(
    file: pathlib.Path, number: int, size: tuple[int, int] = (8, 10)
) -> pathlib.Path:
    """All of its pixels say `number`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(png(np.full((*size, 3), number, np.uint8)))
    return file


def number_of(picture: bytes) -> int:
    with Image.open(io.BytesIO(picture)) as image:
        return image.getpixel((0, 0))[0]
