"""The pictures of client/examples are those that the trainer draws."""

from __future__ import annotations

import os
import pathlib
import subprocess

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
EXAMPLES = ROOT / "client/examples"


def pictures(folder: pathlib.Path) -> dict[pathlib.Path, np.ndarray]:
    files = [*folder.rglob("*.jpg"), *folder.rglob("*.png")]
    return {
        file.relative_to(folder): np.asarray(Image.open(file).convert("RGB"), np.int16)
        for file in files
    }


def test_the_examples_can_be_drawn_again(tmp_path: pathlib.Path) -> None:
    command = [BUILD / "bin/fovea-train", "--examples", tmp_path, "--seed", "6"]
    subprocess.run(command, check=True, timeout=60)
    drawn, there = pictures(tmp_path), pictures(EXAMPLES)
    assert drawn.keys() == there.keys()
    for name, picture in drawn.items():
        assert picture.shape == there[name].shape, name
        # OpenCV and the encoders may round otherwise in another version.
        assert np.abs(picture - there[name]).mean() < 1, name
