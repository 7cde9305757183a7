"""Rows 69 and 70 of docs/faults.md: labels of versions, and a version that answers its canary wrongly."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from fault_support import (
    MODEL,
    Caller,
    both,
    expect,
    infer_request,
    refusal_of,
    write_in_spec,
)
from running_server import ROOT
from safetensors.numpy import load_file, save_file
from tritonclient.utils import InferenceServerException

EXPLICIT = ("--model-control-mode", "explicit", "--load-model", MODEL)


def forget(weights: pathlib.Path) -> None:
    """Weights of the right shapes whose classes are all mixed up: every number is one, and none is right."""
    tensors = load_file(weights)
    for name in ("head.weight", "head.bias"):
        tensors[name] = np.roll(tensors[name], 1, axis=0)
    save_file(tensors, weights)


@pytest.fixture
def with_canary(one_model: pathlib.Path) -> pathlib.Path:
    shutil.copy(ROOT / "client/examples/heart.jpg", one_model / MODEL / "canary.jpg")
    write_in_spec(one_model, 'canary { input: "canary.jpg" top_class: "heart" }')
    return one_model


def test_row_70_a_version_that_answers_wrongly_is_not_served(start_server, with_canary):
    server = start_server("--model-repository", with_canary, *EXPLICIT)
    caller = Caller(server.grpc)
    before = caller.infer(infer_request())
    replacement = with_canary.parent / "replacement"
    shutil.copy(with_canary / MODEL / "1/model.safetensors", replacement)
    forget(replacement)
    replacement.rename(with_canary / MODEL / "1/model.safetensors")
    for caller in both(server):
        bad = refusal_of(lambda: caller.load(MODEL))  # noqa: B023
        expect(bad, "FAILED_PRECONDITION", "canary.failed")
        assert "heart is expected" in bad.details()
        assert (caller.infer(infer_request()) == before).all()


def test_row_70_numbers_are_compared_within_their_tolerance(start_server, one_model):
    folder = one_model / MODEL
    pixels = np.random.default_rng(1).normal(size=(1, 3, 64, 64)).astype(np.float32)
    pixels.tofile(folder / "pixels.f32")
    server = start_server("--model-repository", one_model, *EXPLICIT)
    logits = Caller(server.grpc).infer(infer_request(raw=[pixels.tobytes()]))
    logits.astype(np.float32).tofile(folder / "logits.f32")
    write_in_spec(one_model, 'canary { input: "pixels.f32" output_file: "logits.f32" }')
    with triton.InferenceServerClient(server.grpc) as client:
        client.load_model(MODEL)
        (logits + np.float32(1)).astype(np.float32).tofile(folder / "logits.f32")
        with pytest.raises(InferenceServerException, match="logits number 0 is"):
            client.load_model(MODEL)


def test_row_69_a_label_is_a_version_over_both_protocols(start_server, one_model):
    shutil.copytree(one_model / MODEL / "1", one_model / MODEL / "2")
    write_in_spec(
        one_model,
        "version_policy { all {} }",
        'version_labels { key: "stable" value: 1 }',
        'version_labels { key: "canary" value: 2 }',
    )
    server = start_server("--model-repository", one_model, *EXPLICIT)
    caller = Caller(server.grpc)
    for label, version in (("stable", "1"), ("canary", "2"), ("", "2")):
        caller.infer(infer_request(model_version=label))
        with (
            triton.InferenceServerClient(server.grpc) as grpc,
            triton_http.InferenceServerClient(server.http) as http,
        ):
            assert grpc.is_model_ready(MODEL, label)
            assert http.is_model_ready(MODEL, label)
            pixels = triton_http.InferInput("pixel_values", [1, 3, 64, 64], "FP32")
            pixels.set_data_from_numpy(np.zeros((1, 3, 64, 64), np.float32))
            answer = http.infer(MODEL, [pixels], model_version=label).get_response()
            assert answer["model_version"] == version
            rows = grpc.get_inference_statistics(MODEL, label, as_json=True)
            versions = {row["version"] for row in rows["model_stats"]}
            assert versions == ({"1", "2"} if label == "" else {version})
            properties = http.get_model_metadata(MODEL).get("properties", {})
            assert properties.get("fovea.version_labels") == "canary=2; stable=1"
    with triton_http.InferenceServerClient(server.http) as http:
        assert not http.is_model_ready(MODEL, "nightly")
        pixels = triton_http.InferInput("pixel_values", [1, 3, 64, 64], "FP32")
        pixels.set_data_from_numpy(np.zeros((1, 3, 64, 64), np.float32))
        with pytest.raises(InferenceServerException, match="serves no version nightly"):
            http.infer(MODEL, [pixels], model_version="nightly")
