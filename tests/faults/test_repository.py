"""Rows 27, 29-32 and 61 of docs/faults.md: model folders that no operator should write."""

from __future__ import annotations

import json
import math
import os
import pathlib
import pickle
import re
import shutil
import struct
import threading
import zipfile

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from fault_support import (
    MODEL,
    Caller,
    both,
    expect,
    gauge,
    infer_request,
    refusal_of,
    scrape,
    wait_until,
)
from http_caller import HttpCaller
from running_server import DEMO
from safetensors.numpy import load_file, save_file
from tritonclient.utils import InferenceServerException

EXPLICIT = ("--model-control-mode", "explicit", "--load-model", MODEL)


def weights_of(repository: pathlib.Path, model: str = MODEL) -> pathlib.Path:
    return repository / model / "1" / "model.safetensors"


def with_header(path: pathlib.Path, change) -> None:
    """Rewrites a safetensors file with a changed header."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def first_tensor(header: dict) -> str:
    return next(name for name in header if name != "__metadata__")


def shift(header: dict) -> None:
    header[first_tensor(header)]["data_offsets"][1] += 4


def overflow(header: dict) -> None:
    header[first_tensor(header)]["shape"] = [2**62, 4]


def with_numbers(path: pathlib.Path, value: float, *names: str, only=...) -> None:
    """Rewrites weights in F32, with a value in all places of some tensors, or in one."""
    tensors = {
        name: tensor.astype(np.float32) for name, tensor in load_file(path).items()
    }
    for name in names:
        tensors[name].reshape(-1)[only] = value
    save_file(tensors, path)


def corruptions() -> dict:
    return {
        "row 27: a header longer than the file": lambda p: p.write_bytes(
            struct.pack("<Q", 1 << 40) + b"{}"
        ),
        "row 27: a header over 100 MB": lambda p: p.write_bytes(
            struct.pack("<Q", 200 << 20) + b"{}"
        ),
        "row 27: no JSON object": lambda p: p.write_bytes(struct.pack("<Q", 2) + b"[]"),
        "row 27: bad UTF-8": lambda p: p.write_bytes(
            struct.pack("<Q", 6) + b'{"\xff":1'
        ),
        "row 27: half of the file": lambda p: p.write_bytes(
            p.read_bytes()[: p.stat().st_size // 2]
        ),
        "row 27: empty": lambda p: p.write_bytes(b""),
        "row 27: overlapping tensors": lambda p: with_header(p, shift),
        "row 27: a shape that overflows": lambda p: with_header(p, overflow),
        "row 27: a missing tensor": lambda p: with_header(
            p, lambda h: h.pop(first_tensor(h))
        ),
        "row 61: a NaN": lambda p: with_numbers(
            p, math.nan, "blocks.1.mlp.fc1.weight", only=777
        ),
        "row 61: an infinity": lambda p: with_numbers(
            p, math.inf, "pos_embed", only=-1
        ),
        "row 61: the bias of one class": lambda p: with_numbers(
            p, -math.inf, "head.bias", only=3
        ),
        # Each of them is a number; what is made of them is none.
        "row 61: answers that are infinite": lambda p: with_numbers(
            p, 3e38, "norm.weight", "norm.bias"
        ),
        "row 29: a pickle": lambda p: p.write_bytes(pickle.dumps({"weight": [1.0]})),
        "row 29: a zip archive": lambda p: zipfile.ZipFile(p, "w").writestr(
            "../../evil", "x"
        ),
    }


@pytest.mark.parametrize("case", corruptions(), ids=list(corruptions()))
def test_rows_27_29_32_a_bad_file_fails_the_reload_and_the_old_one_serves(
    start_server, one_model, case
):
    server = start_server("--model-repository", one_model, *EXPLICIT)
    before = Caller(server.grpc).infer(infer_request())
    # Written beside and moved into place, as a deployment does: the old file's pages stay what they were.
    replacement = one_model.parent / "replacement"
    shutil.copy(weights_of(one_model), replacement)
    corruptions()[case](replacement)
    replacement.rename(weights_of(one_model))
    for caller in both(server):
        refused = refusal_of(lambda: caller.load(MODEL))  # noqa: B023
        expect(refused, "FAILED_PRECONDITION")
        assert "/" not in refused.details().replace("1/model.safetensors", "")
        assert (caller.infer(infer_request()) == before).all()


def test_row_61_the_operator_reads_which_numbers_are_broken(start_server, one_model):
    server = start_server("--model-repository", one_model, *EXPLICIT)
    with triton.InferenceServerClient(server.grpc) as client:
        for value, tensors, words in (
            (math.nan, ["head.bias"], "tensor 'head.bias' holds a NaN or an infinity"),
            (3e38, ["norm.weight", "norm.bias"], "a plain picture of 64x64"),
        ):
            replacement = one_model.parent / "replacement"
            shutil.copy(DEMO / MODEL / "1" / "model.safetensors", replacement)
            with_numbers(replacement, value, *tensors)
            replacement.rename(weights_of(one_model))
            with pytest.raises(InferenceServerException, match=words):
                client.load_model(MODEL)
            refused = refusal_of(lambda: HttpCaller(server.http).load(MODEL))
            assert re.search(words, refused.details()), refused
            server.wait_for_log(f"{MODEL}.*{words}")
    assert gauge(scrape(server.metrics), "fovea_model_load_failures_total") == 4


SPECS = {
    "row 30: unknown field": "no_such_field: 1",
    "row 30: a batch of a billion": "max_batch_size: 1000000000",
    "row 30: a negative batch": "max_batch_size: -1",
    "row 30: 10 MB": "# " + "x" * (10 << 20),
    "row 30: not text": "\0\1\2",
    "row 30: an unknown backbone": 'backbone: "no_such_backbone"',
    "row 30: more keys than there are": 'attention: "knn:k=100000"',
    "row 30: a head that is not there": 'head { name: "no_such_head" }',
    "row 30: a device that is not there": "instance_group { kind: KIND_GPU }",
    "row 30: weights of itself": f'weights_of: "{MODEL}"',
    "row 30: weights of nothing": 'weights_of: "no_such_model"',
}


@pytest.mark.parametrize("case", SPECS, ids=list(SPECS))
def test_row_30_a_bad_spec_fails_the_reload_and_the_old_one_serves(
    start_server, one_model, case
):
    server = start_server("--model-repository", one_model, *EXPLICIT)
    before = Caller(server.grpc).infer(infer_request())
    spec = one_model / MODEL / "model.textproto"
    lines = [
        line
        for line in spec.read_text().splitlines()
        if not line.startswith(SPECS[case].split(":")[0] + ":")
    ]
    spec.write_text("\n".join([*lines, SPECS[case], ""]))
    for caller in both(server):
        expect(refusal_of(lambda: caller.load(MODEL)), "FAILED_PRECONDITION")  # noqa: B023
        assert (caller.infer(infer_request()) == before).all()


@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "FIFO"])
def test_row_26_what_leads_out_of_the_repository_is_not_loaded(
    start_server, one_model, kind: str
):
    server = start_server("--model-repository", one_model, *EXPLICIT)
    weights = weights_of(one_model)
    outside = one_model.parent / "outside.safetensors"
    weights.rename(outside)
    if kind == "symbolic link":
        weights.symlink_to(outside)
    elif kind == "hard link":
        weights.hardlink_to(outside)
    else:
        os.mkfifo(weights)
    for caller in both(server):
        expect(refusal_of(lambda: caller.load(MODEL)), "FAILED_PRECONDITION")  # noqa: B023
        assert np.isfinite(caller.infer(infer_request())).all()


def test_a_model_that_cannot_be_loaded_at_the_start_leaves_the_others_serving(
    start_server, one_model
):
    shutil.copytree(DEMO / "shapes_with_knn", one_model / "shapes_with_knn")
    weights_of(one_model, "shapes_with_knn").write_bytes(b"")
    server = start_server("--model-repository", one_model, ready=False)
    server.wait_for_log("not ready: 1 of 2 models have loaded; shapes_with_knn: ")
    with triton.InferenceServerClient(server.grpc) as client:
        rows = {
            row["name"]: row
            for row in client.get_model_repository_index(as_json=True)["models"]
        }
    assert rows[MODEL]["state"] == "READY"
    assert (
        rows["shapes_with_knn"]["state"] == "UNAVAILABLE"
        and rows["shapes_with_knn"]["reason"]
    )
    for caller in both(server):
        expect(caller.refused(infer_request(model="shapes_with_knn")), "NOT_FOUND")


@pytest.mark.harmed  # its model is unloaded in the end
def test_row_31_reloads_and_unloads_lose_no_request(start_server, one_model, connect):
    server = start_server("--model-repository", one_model, *EXPLICIT)
    failures: list[grpc.StatusCode] = []
    stop = threading.Event()
    answered = [0]

    def ask() -> None:
        caller = connect(server)
        while not stop.is_set():
            try:
                caller.infer(infer_request())
                answered[0] += 1
            except grpc.RpcError as error:
                failures.append(error.code())

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        operator = connect(server)
        wait_until(lambda: answered[0] > 0)
        for _ in range(5):
            operator.load(MODEL)
        assert failures == []
        operator.unload(MODEL)
        wait_until(lambda: failures)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(failures) == {grpc.StatusCode.NOT_FOUND}, set(failures)


def test_row_39_a_model_whose_batches_do_not_fit_the_memory_is_refused(
    start_server, one_model, limited
):
    bytes_allowed = 2 << 30
    program = limited(
        "memory", {"memory.limit_in_bytes": bytes_allowed}, {"memory.max": bytes_allowed}
    )  # fmt: skip
    server = start_server("--model-repository", one_model, *EXPLICIT, program=program)
    before = Caller(server.grpc).infer(infer_request())
    huge = {"max_batch_size": 1024, "instance_group": [{"count": 64}]}
    for caller in both(server):
        refused = refusal_of(lambda: caller.load(MODEL, json.dumps(huge)))  # noqa: B023
        expect(refused, "FAILED_PRECONDITION", "model.too_large")
        assert "batches of 1024 in 64 instances need about" in refused.details()
    assert (Caller(server.grpc).infer(infer_request()) == before).all()


def test_poll_mode_takes_new_versions_and_new_models(start_server, one_model):
    server = start_server(
        *("--model-repository", one_model, "--model-control-mode", "poll"),
        *("--repository-poll-secs", "1"),
    )
    with triton.InferenceServerClient(server.grpc) as client:
        # (A loaded machine warms a model up slowly.)
        shutil.copytree(one_model / MODEL / "1", one_model / MODEL / "2")
        wait_until(lambda: client.is_model_ready(MODEL, "2"), timeout=120)
        shutil.copytree(one_model / MODEL, one_model / "another")
        another = one_model / "another" / "model.textproto"
        another.write_text(
            another.read_text().replace(f'name: "{MODEL}"', 'name: "another"')
        )
        wait_until(lambda: client.is_model_ready("another"), timeout=120)
        shutil.rmtree(one_model / "another")
        wait_until(lambda: not client.is_model_ready("another"), timeout=120)
    Caller(server.grpc).infer(infer_request())
