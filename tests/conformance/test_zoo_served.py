"""Models of the zoo load and answer through a running server, by their registry names, with random weights; those that are
larger_variants.py's only with --full."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from larger_variants import larger_in_full
from running_server import BUILD, Server

torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))
NAMES = [name for name in torch.ops.fovea_models.backbones() if name != "identity"]


@pytest.fixture(scope="module")
def zoo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose repository holds the zoo, none of it loaded."""
    repository = tmp_path_factory.mktemp("zoo")
    for name in NAMES:
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "model.textproto").write_text(
            f'spec_version: 1\nname: "{name}"\nbackbone: "{name}"\n'
            "random_weights { seed: 1 }\nmax_batch_size: 1\n"
        )
    server = Server(
        tmp_path_factory.mktemp("log") / "server.log",
        "--model-repository",
        str(repository),
        "--model-control-mode",
        "explicit",
    )
    yield server
    code = server.terminate()
    server.close()
    assert code == 0


@pytest.mark.parametrize("name", larger_in_full(NAMES))
def test_a_model_loads_and_answers(name: str, zoo_server: Server) -> None:
    client = triton.InferenceServerClient(zoo_server.grpc)
    client.load_model(name)
    try:
        assert client.is_model_ready(name)
        (tensor,) = client.get_model_metadata(name).inputs
        shape = [1, *tensor.shape[1:]]
        pixels = triton.InferInput(tensor.name, shape, "FP32")
        normal = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        pixels.set_data_from_numpy(normal)
        answer = client.infer(name, [pixels])
        (output,) = client.get_model_metadata(name).outputs
        values = answer.as_numpy(output.name)
        assert values.shape == (1, *output.shape[1:])
        assert np.isfinite(values).all()
        assert values.std() > 0
    finally:
        client.unload_model(name)
