"""The Python of docs/models/python.md and of client/python/README.md, as a reader copies it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from running_server import ROOT, Server


def blocks_of(page: str, heading: str = "") -> list[str]:
    text = (ROOT / page).read_text()
    if heading:
        text = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(script: str, folder: pathlib.Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "client/python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, script + done.stderr
    return done.stdout


def test_models_and_swapped_attention() -> None:
    model, training, swapped = blocks_of("docs/models/python.md")
    out = run(model, ROOT).splitlines()
    assert out[0].startswith("<fovea.Model shapes version 1: vit_demo_patch8_64 with ")
    assert "ring" in out[1] and len(out) == 2 + 6
    assert run(training, ROOT) == ""
    assert run(swapped, ROOT) == "12 blocks.0.attn\n"


def test_calls_from_threads_and_from_asyncio(
    server: Server, tmp_path: pathlib.Path
) -> None:
    """With the bundled models in place of the page's."""
    (tmp_path / "client").symlink_to(ROOT / "client")  # whose pictures the blocks open
    calls, together, *_ = blocks_of(
        "client/python/README.md", "`fovea.client`: calling a server"
    )
    for written, here in (
        ("127.0.0.1:8001", server.grpc),
        ('"finder"', '"instances_dense"'),
        ('"regions"', '"segmenter_dense"'),
        ('"car"', '"ring"'),
    ):
        assert written in calls
        calls, together = (one.replace(written, here) for one in (calls, together))
    out = run(calls, tmp_path)
    assert out.startswith("ring 0.") and "['ring']" in out, out
    assert "INVALID_ARGUMENT image.unsupported_type" in out, out
    assert "(480, 640)" in out
    assert run(together, tmp_path) == "['ring', 'star']\n"


def test_kernels(tmp_path: pathlib.Path) -> None:
    (kernels,) = blocks_of(
        "client/python/README.md", "`fovea.ops`: the kernels from PyTorch"
    )
    assert run(kernels, tmp_path) == ""
