"""GET /openapi.json: that it is OpenAPI 3.1, and that the server does what it says."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest
import schemathesis
import tritonclient.http
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from openapi_spec_validator import OpenAPIV31SpecValidator
from running_server import DEMO, Server
from schemathesis.checks import CheckContext
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

MODEL = "shapes"
KEY = "0123456789abcdef0123456789abcdef"
STAR = (
    pathlib.Path(__file__).resolve().parents[2] / "client/examples/star.jpg"
).read_bytes()
# Requests of each path, half of them as the document has them, half with something wrong.
CASES = 10


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: its model is loaded and unloaded."""
    running = Server(
        tmp_path_factory.mktemp("openapi") / "server.log",
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *("--load-model", MODEL, "--allow-client-shm"),
    )
    yield running
    code = running.terminate()
    running.close()
    assert code == 0


def document(server: Server, key: str | None = None) -> dict:
    request = urllib.request.Request(f"http://{server.http}/openapi.json")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)


def test_the_document_is_openapi_3_1(changing: Server) -> None:
    told = document(changing)
    OpenAPIV31SpecValidator(told).validate()
    assert told["openapi"].startswith("3.1.")
    assert "securitySchemes" not in told["components"]


def test_a_generated_client_infers_in_json(
    changing: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is written by openapi-python-client, which formats it with the ruff on PATH."""
    (tmp_path / "openapi.json").write_text(json.dumps(document(changing)))
    generate = ["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "generated"]  # fmt: skip
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *generate],
        cwd=tmp_path, env={**os.environ, "PATH": path}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # It does not support bodies that are pictures nor answers in lines, but every path below /v2.
    assert not re.search(r"WARNING parsing \w+ /v2", done.stdout), done.stdout
    monkeypatch.syspath_prepend(tmp_path)
    generated = importlib.import_module("generated")
    models = importlib.import_module("generated.models")
    infer = importlib.import_module("generated.api.inference.model_infer")
    pixels = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).tolist()
    tensor = models.InferInput(
        "pixel_values", models.InferInputDatatype.FP32, [1, 3, 64, 64], data=pixels
    )
    with generated.Client(f"http://{changing.http}") as client:
        answer = infer.sync(
            MODEL, client=client, body=models.InferRequest(inputs=[tensor], id="a")
        )
    assert (answer.model_name, answer.id) == (MODEL, "a")
    (output,) = answer.outputs
    assert output.datatype == models.InferOutputDatatype.FP32
    with tritonclient.http.InferenceServerClient(changing.http) as client:
        same = tritonclient.http.InferInput("pixel_values", [1, 3, 64, 64], "FP32")
        same.set_data_from_numpy(np.array(pixels, np.float32))
        expected = client.infer(MODEL, [same]).as_numpy(output.name)
    np.testing.assert_array_equal(
        np.array(output.data, np.float32).reshape(output.shape), expected
    )


def test_a_key_is_asked_for_where_the_server_asks(
    start_server, one_model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    keys = tmp_path / "keys.json"
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    entry = {"name": "tester", "sha256": digest, "groups": ["metadata"]}
    keys.write_text(json.dumps({"keys": [entry]}))
    keys.chmod(0o600)
    server = start_server("--model-repository", one_model, "--api-keys-file", keys)
    told = document(server, KEY)
    OpenAPIV31SpecValidator(told).validate()
    schemes = told["components"]["securitySchemes"]
    assert schemes["key"]["scheme"] == "bearer"
    for path, methods in told["paths"].items():
        for operation in methods.values():
            asks = operation.get("security") == [{"key": []}]
            is_open = {"health", "playground"} & set(operation["tags"])
            assert asks != bool(is_open), path


def no_undocumented_failure(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """501, 503 and 504 may be what a path is for; 500 never is."""
    assert response.status_code != 500, response.text


def what_does_not_fit_is_refused(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> bool | None:
    """Not where a path says the same of any name, and with the statuses of RFC 6585 and RFC 9110 besides."""
    looks_at_none = case.path.startswith("/v2/cudasharedmemory/") or case.path.endswith(
        "/unregister"
    )
    if looks_at_none or response.status_code in (413, 414, 431):
        return None
    return negative_data_rejection(ctx, response, case)


CHECKS = [
    no_undocumented_failure,
    what_does_not_fit_is_refused,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def test_an_answer_that_is_not_as_described_is_seen(changing: Server) -> None:
    """With a field too many in the document, the checks say so."""
    told = document(changing)
    told["components"]["schemas"]["ServerMetadataResponse"]["required"].append("none")
    schema = schemathesis.openapi.from_dict(told)
    answer = (case := schema["/v2"]["GET"].Case()).call(
        base_url=f"http://{changing.http}"
    )
    with pytest.raises(BaseExceptionGroup, match="distinct failure"):
        case.validate_response(answer, checks=CHECKS)


@pytest.mark.parametrize("kind", ["application/json", "image/png"])
@pytest.mark.parametrize("form", [False, True], ids=["picture", "form"])
def test_pictures_are_answered_as_the_document_says(
    changing: Server, kind: str, form: bool
) -> None:
    schema = schemathesis.openapi.from_url(f"http://{changing.http}/openapi.json")
    operation = schema["/v1/classify"]["POST"]
    case = operation.Case(
        query={"model": MODEL, "top_k": 2},
        headers={"Accept": kind},
        body={"image": [STAR]} if form else STAR,
        media_type="multipart/form-data" if form else "image/jpeg",
    )
    answer = case.call(timeout=60)
    assert answer.status_code == 200 and answer.headers["content-type"] == [kind]
    case.validate_response(answer, checks=CHECKS)


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
def test_tensors_are_answered_as_the_document_says(
    changing: Server, binary: bool
) -> None:
    schema = schemathesis.openapi.from_url(f"http://{changing.http}/openapi.json")
    operation = schema["/v2/models/{model}/versions/{version}/infer"]["POST"]
    case = operation.Case(
        path_parameters={"model": MODEL, "version": "1"},
        body={
            "id": "mine",
            "parameters": {"binary_data_output": binary},
            "inputs": [
                {
                    "name": "pixel_values",
                    "datatype": "FP32",
                    "shape": [1, 3, 64, 64],
                    "data": [0.5] * (3 * 64 * 64),
                }
            ],
        },
        media_type="application/json",
    )
    answer = case.call(timeout=60)
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == ["mine"]
    case.validate_response(answer, checks=CHECKS)


def last(operation: schemathesis.APIOperation) -> bool:
    return operation.definition.raw["operationId"] == "unloadModel"


def test_the_server_does_what_the_document_says(changing: Server) -> None:
    """Requests made from the document alone: schemas of bodies, of parameters, and what does not fit them."""
    schema = schemathesis.openapi.from_url(f"http://{changing.http}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    # All but the document itself.
    described = sum(map(len, document(changing)["paths"].values()))
    assert len(operations) == described - 1 > 30
    statuses: dict[int, int] = {}
    for operation in sorted(operations, key=last):
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @given(
                case=operation.as_strategy(generation_mode=mode), known=st.booleans()
            )
            @settings(
                max_examples=CASES // 2,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def ask(case: schemathesis.Case, known: bool) -> None:
                if known and "model" in (case.path_parameters or {}):
                    case.path_parameters["model"] = MODEL
                if known and "version" in (case.path_parameters or {}):
                    case.path_parameters["version"] = "1"
                answer = case.call(timeout=60)
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                case.validate_response(answer, checks=CHECKS)

            try:
                ask()
            except Unsatisfiable:
                # A path that takes nothing can have nothing wrong.
                assert mode is GenerationMode.NEGATIVE, operation.label
    print("answers by status:", dict(sorted(statuses.items())))
    assert statuses[200] > 50 and changing.alive()
