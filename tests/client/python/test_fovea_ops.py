"""fovea.ops wraps every operator that there is, and `fovea kernels` lists them."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import ops

# Parts of other operators, for the dispatcher alone.
INTERNAL = {"nms_keep", "roi_align_weights"}


def registered() -> set[str]:
    return {
        schema.name.removeprefix("fovea::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("fovea::")
    }


def test_every_operator_has_a_wrapper_with_its_arguments_and_defaults() -> None:
    wrapped = set(ops.__all__) - {"library_path"}
    assert wrapped == registered() - INTERNAL
    for name in wrapped:
        wrapper = inspect.signature(getattr(ops, name))
        schema = getattr(torch.ops.fovea, name).default._schema
        assert list(wrapper.parameters) == [a.name for a in schema.arguments], name
        assert inspect.getdoc(getattr(ops, name)), name
        for argument in schema.arguments:
            if argument.has_default_value():
                default = wrapper.parameters[argument.name].default
                assert default == argument.default_value, (name, argument.name)


def test_a_wrapper_calls_its_operator() -> None:
    query, key, value = torch.randn(3, 1, 2, 9, 8).unbind(0)
    assert torch.equal(
        ops.knn_attention(query, key, value, 4, bias=torch.zeros(9)),
        torch.ops.fovea.knn_attention(query, key, value, 4, None, torch.zeros(9)),
    )


def test_a_missing_library_says_what_to_do() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from fovea import ops"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "client" / "python"),
            "FOVEA_KERNELS_LIBRARY": "/nowhere.so",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "FOVEA_KERNELS_LIBRARY=/nowhere.so is not a file" in run.stderr


@pytest.mark.parametrize("command", [["fovea", "kernels"], ["fovea-kernels"]], ids=str)
def test_the_command_line_lists_what_runs_here(command: list[str]) -> None:
    program = [str(BUILD / "bin" / command[0]), *command[1:]]
    rows = json.loads(subprocess.check_output([*program, "--json"]))
    composites = {
        name
        for name in ops.__all__
        if name.endswith("_map") or name in ("axial_attention", "pale_attention")
    } | {
        "attention_standard_deviation",
        "cross_shaped_window_attention",
        "fold_key_only_weights",
        "library_path",
        "nonlocality",
        "residual_norm_ratio",
        "token_cosine_similarity",
    }
    assert {row["operator"] for row in rows} == set(ops.__all__) - composites
    for row in rows:
        assert row["device"] in ("cpu", "cuda")
        assert row["implementation"] in ("reference", "cpu", "cuda")
        # Nothing is claimed of tests that another machine ran.
        assert bool(row["note"]) == (row["implementation"] == "reference")
    assert len({(r["operator"], r["device"], r["type"]) for r in rows}) == len(rows)
    table = subprocess.check_output(program, text=True).splitlines()
    assert table[0].split() == [
        "operator", "device", "type", "runs", "here", "instructions", "note",
    ]  # fmt: skip
    blank, *choices = table[1 + len(rows) :]
    assert blank == ""
    linear = [line for line in choices if line.startswith("linear layers")]
    for line, precision in zip(linear, ("fp32", "bf16", "int8"), strict=True):
        assert line.startswith(f"linear layers on the cpu in {precision}: ")
    # Questions that this machine was asked before.
    asked = [line.split(": ") for line in choices[len(linear) :]]
    assert all(
        re.fullmatch(r"\w+ \((measured|remembered|alone|forced)\)", answer)
        for _, answer in asked
    )


def test_a_wrong_option_is_refused() -> None:
    run = subprocess.run(
        [BUILD / "bin" / "fovea-kernels", "--yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "Usage: fovea-kernels" in run.stderr
