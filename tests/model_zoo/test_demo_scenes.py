"""The bundled detectors and segmenters on new scenes, asked over gRPC: the floors of `make eval-demo`, on fewer pictures."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from running_server import BUILD, ROOT, Server

sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests/bench/accuracy")]
import accuracy
import targets
from fovea.client import Client

SCENES = 150


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("data") / "scenes"
    command = [BUILD / "bin/fovea-train", "--write-scenes", folder]
    subprocess.run([*command, "--scene-count", str(SCENES)], check=True, timeout=120)
    return folder


def test_every_attention_meets_the_floors(server: Server, scenes: pathlib.Path) -> None:
    with Client(server.grpc, timeout=120) as asked:
        figures = {
            kind: accuracy.measured(asked, scenes, kind) for kind in accuracy.TASKS
        }
    assert all(len(models) == len(accuracy.ATTENTIONS) for models in figures.values())
    assert targets.report(accuracy.worst(figures)) == 0
