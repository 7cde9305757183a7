"""fovea.ops wraps every operator that there is, and `fovea kernels` lists them."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch.autograd import forward_ad

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
    told = json.loads(subprocess.check_output([*program, "--json"]))
    rows = told["operators"]
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
        cuda = row["implementation"] == "cuda"
        assert (row["note"] == "not run on a GPU yet") == cuda
        assert bool(row["note"]) == (row["implementation"] != "cpu")
    assert len({(r["operator"], r["device"], r["type"]) for r in rows}) == len(rows)
    # What CUDA kernels are said to run is what was built.
    build = told["cuda"]
    assert bool(build["types"]) == bool(build["architectures"])
    dense = {
        row["type"]
        for row in rows
        if row["operator"] == "dense_attention" and row["implementation"] == "cuda"
    }
    assert dense == set(build["types"])
    for row in rows:
        if row["implementation"] == "cuda":
            assert row["instructions"] == ", ".join(build["architectures"])
    # Linear layers, and questions that this machine was asked before.
    choices = told["choices"]
    answers = {c["question"]: c["answer"] for c in choices}
    assert {"linear_fp32", "linear_fp32_c768", "linear_int8"} <= answers.keys()
    assert {c["how"] for c in choices} <= {
        "measured", "measured while busy", "remembered", "alone", "forced",
    }  # fmt: skip
    # What is printed may be forced; what a busy machine measures is not the same each time.
    forced = ",".join(f"{question}={answer}" for question, answer in answers.items())
    environment = {**os.environ, "FOVEA_CHOOSE": forced}
    again = json.loads(subprocess.check_output([*program, "--json"], env=environment))
    assert again["operators"] == rows
    assert again["choices"] == [{**c, "how": "forced"} for c in choices]
    table = subprocess.check_output(program, text=True, env=environment).splitlines()
    assert table[0].split() == [
        "operator", "device", "type", "runs", "here", "instructions", "note",
    ]  # fmt: skip
    blank, *lines = table[1 + len(rows) :]
    assert blank == ""
    line = lines.pop(0)
    if build["types"]:
        types, architectures = (", ".join(build[k]) for k in ("types", "architectures"))
        assert line == f"CUDA kernels: {types} for {architectures}"
    else:
        assert line == "CUDA kernels: none in this build"
    assert lines == [f"{c['question']}: {c['answer']} (forced)" for c in choices]


def _dense(query: torch.Tensor) -> torch.Tensor:
    return ops.dense_attention(query, query, query).sum()


def _knn(query: torch.Tensor) -> torch.Tensor:
    return ops.knn_attention(query, query, query, topk=2).sum()


def _dual(function, query: torch.Tensor) -> torch.Tensor:
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(query, torch.ones_like(query)))


@pytest.mark.parametrize("function", [_dense, _knn])
@pytest.mark.parametrize(
    ("derive", "told"),
    [
        (_dual, "no forward-mode derivatives"),
        (
            lambda function, query: torch.func.jvp(function, (query,), (query,)),
            "no forward-mode derivatives",
        ),
        (
            lambda function, query: torch.func.grad(function)(query),
            "not within torch.func's transforms",
        ),
    ],
)
def test_derivatives_that_there_are_not_raise(derive, told: str, function) -> None:
    """They would be zero: no input of theirs requires a gradient."""
    query = torch.randn(1, 1, 4, 8)
    with pytest.raises(NotImplementedError, match=told):
        derive(function, query)


def test_a_wrong_option_is_refused() -> None:
    run = subprocess.run(
        [BUILD / "bin" / "fovea-kernels", "--yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "Usage: fovea-kernels" in run.stderr
