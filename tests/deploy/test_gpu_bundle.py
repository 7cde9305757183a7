"""deploy/gpu-bundle.sh refuses builds that a GPU would show nothing of."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("types", "architectures", "missing"),
    [
        (["bf16"], ["sm_90a"], "fp32, fp16"),
        (["fp32", "bf16", "fp16"], ["sm_80"], "sm_90a"),
        ([], [], "fp32, bf16, fp16, sm_90a"),
    ],
)
def test_a_build_without_all_types_and_architectures_is_refused(
    tmp_path: pathlib.Path, types: list[str], architectures: list[str], missing: str
) -> None:
    program = tmp_path / "bin" / "fovea-kernels"
    program.parent.mkdir()
    told = {"cuda": {"types": types, "architectures": architectures}}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    program.chmod(0o755)
    run = subprocess.run(
        ["deploy/gpu-bundle.sh", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert f"{tmp_path} has no CUDA kernels for {missing}; configure it" in run.stderr
    assert "`make build`" in run.stderr
