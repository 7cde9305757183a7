"""Unmodified perf_analyzer against a running server."""

from __future__ import annotations

import base64
import json
import pathlib

import numpy as np
import perf_analyzer
import pytest
import tritonclient.grpc as triton

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "extra", [[], ["--streaming"], ["--async"]], ids=["sync", "streaming", "async"]
)
def test_perf_analyzer_runs_to_its_end(server, extra):
    """As anyone types it: with its own data, which are random bits."""
    concurrency = "1:8:7" if extra else "1:8:1"
    rows = perf_analyzer.run(
        server.grpc, "shapes", None, *extra, concurrency=concurrency
    )
    assert sorted(int(row["Concurrency"]) for row in rows) == (
        [1, 8] if extra else list(range(1, 9))
    )
    assert all(float(row["Inferences/Second"]) > 0 for row in rows)


@pytest.mark.parametrize("extra", [[], ["--async"]], ids=["sync", "async"])
def test_perf_analyzer_runs_over_http(server, extra):
    rows = perf_analyzer.run(
        server.http, "shapes", None, *extra, protocol="http", concurrency="1:4:3"
    )
    assert sorted(int(row["Concurrency"]) for row in rows) == [1, 4]
    assert all(float(row["Inferences/Second"]) > 0 for row in rows)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_perf_analyzer_shares_its_memory(start_server, one_model, protocol):
    server = start_server("--model-repository", one_model, "--allow-client-shm")
    rows = perf_analyzer.run(
        getattr(server, protocol), "shapes", None, "--shared-memory", "system",
        protocol=protocol, concurrency="2",
    )  # fmt: skip
    assert float(rows[0]["Inferences/Second"]) > 0


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_perf_analyzer_sends_images(start_server, one_model, tmp_path, protocol):
    """It sends every input that metadata lists: where the spec advertises files, files."""
    spec = one_model / "shapes" / "model.textproto"
    spec.write_text(spec.read_text() + "\nadvertised_input: IMAGE\n")
    server = start_server("--model-repository", one_model)
    picture = min((ROOT / "client/examples").glob("*.jpg"))
    data = tmp_path / "data.json"
    # Base64 of the tensor as it goes over the wire: the element's length, then its bytes.
    file = picture.read_bytes()
    content = base64.b64encode(len(file).to_bytes(4, "little") + file).decode()
    data.write_text(json.dumps({"data": [{"image": {"b64": content}}]}))
    rows = perf_analyzer.run(
        getattr(server, protocol), "shapes", data, protocol=protocol, concurrency="2"
    )
    assert float(rows[0]["Inferences/Second"]) > 0


@pytest.mark.parametrize(
    "task,output", [("DETECTION", "counts"), ("SEGMENTATION", "class_map")]
)
def test_perf_analyzer_reads_detectors_and_segmenters(
    start_server, tmp_path, task, output
):
    """Outputs of several types, one of them without a dimension besides the batch, others whose sizes are not known."""
    folder = tmp_path / "models" / "finder"
    folder.mkdir(parents=True)
    head = "head { score_threshold: 0.001 }\n" if task == "DETECTION" else ""
    (folder / "model.textproto").write_text(
        f'spec_version: 1\nbackbone: "linglo_b0"\ntask: {task}\nnum_classes: 3\n{head}'
        "image_height: 64\nimage_width: 64\n"
        "advertised_input: IMAGE\nmax_batch_size: 2\nrandom_weights { seed: 1 }\n"
    )
    server = start_server("--model-repository", folder.parent)
    file = min((ROOT / "client/examples").glob("*.jpg")).read_bytes()
    tensor = triton.InferInput("image", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[file]], dtype=object))
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.infer("finder", [tensor]).as_numpy(output).any()
    content = base64.b64encode(len(file).to_bytes(4, "little") + file).decode()
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": [{"image": {"b64": content}}]}))
    few = ("--measurement-request-count", "5")
    rows = perf_analyzer.run(server.grpc, "finder", data, "-b", "2", *few)
    assert float(rows[0]["Inferences/Second"]) > 0


def test_several_instances_of_several_models_run_side_by_side(start_server, repository):
    """Each with its own number of threads inside an operator."""
    for model, group in {
        "shapes": "count: 2 threads: 1",
        "shapes_knn": "threads: 3",
    }.items():
        spec = repository / model / "model.textproto"
        spec.write_text(spec.read_text() + f"\ninstance_group {{ {group} }}\n")
    server = start_server(
        *("--model-repository", repository, "--model-control-mode", "explicit"),
        *("--load-model", "shapes", "--load-model", "shapes_knn"),
    )
    for model in ["shapes", "shapes_knn", "shapes"]:
        rows = perf_analyzer.run(server.grpc, model, None, concurrency="8")
        assert float(rows[0]["Inferences/Second"]) > 0
    assert server.terminate() == 0
