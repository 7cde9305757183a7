"""Our protos against the ones that Triton's clients were built from: names, numbers, types and RPCs."""

import pytest
from proto_facts import compiled, facts, generated
from tritonclient.grpc import model_config_pb2, service_pb2

# The Open Inference Protocol has it, Triton has not.
OURS_ONLY = "inference.ModelMetadataResponse.properties"


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> dict[str, tuple]:
    return facts(
        compiled("inference/inference.proto", tmp_path_factory.mktemp("proto"))
    )


@pytest.fixture(scope="module")
def tritons() -> dict[str, tuple]:
    return facts(generated(model_config_pb2, service_pb2))


def test_everything_of_tritons_is_there_unchanged(ours, tritons):
    assert {name: ours.get(name) for name in tritons} == tritons


def test_nothing_is_added_but_the_open_inference_protocols_properties(ours, tritons):
    extra = {name for name in ours if name not in tritons}
    assert extra == {
        OURS_ONLY,
        "inference.ModelMetadataResponse.PropertiesEntry.key",
        "inference.ModelMetadataResponse.PropertiesEntry.value",
    }
    assert ours[OURS_ONLY][0] == 6
