"""A server that runs experiments on a few of the bundled models."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from running_server import DEMO, Server


def experimenting(folder: pathlib.Path, *models: str) -> Iterator[Server]:
    """For fixtures. It has to end in order."""
    flags = ["--model-repository", str(DEMO), "--model-control-mode", "explicit"]
    for name in models:
        flags += ["--load-model", name]
    running = Server(folder / "log", *flags, "--enable-experiments")
    yield running
    code = running.terminate()
    running.close()
    assert code == 0
