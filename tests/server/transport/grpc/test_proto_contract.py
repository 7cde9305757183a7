"""Our protos against the ones that Triton's clients were built from: names, numbers, types and RPCs."""

import pathlib
import subprocess

import pytest
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

PROTO = pathlib.Path(__file__).resolve().parents[4] / "proto"

# The Open Inference Protocol has it, Triton has not.
OURS_ONLY = "inference.ModelMetadataResponse.properties"


def facts(files) -> dict[str, tuple]:
    """Every field, enum value and RPC by its full name, with all that the wire sees of it."""
    found: dict[str, tuple] = {}

    def add_enum(path, enum):
        for value in enum.value:
            found[f"{path}.{enum.name}.{value.name}"] = (value.number,)

    def add_message(path, message):
        path = f"{path}.{message.name}"
        for field in message.field:
            # That a field is optional is seen by the code alone: as a oneof of its own.
            in_oneof = field.HasField("oneof_index") and not field.proto3_optional
            oneof = message.oneof_decl[field.oneof_index].name if in_oneof else None
            found[f"{path}.{field.name}"] = (
                field.number,
                field.type,
                field.label,
                field.type_name,
                oneof,
            )
        for enum in message.enum_type:
            add_enum(path, enum)
        for nested in message.nested_type:
            add_message(path, nested)

    for file in files:
        for message in file.message_type:
            add_message(file.package, message)
        for enum in file.enum_type:
            add_enum(file.package, enum)
        for service in file.service:
            for rpc in service.method:
                found[f"{file.package}.{service.name}.{rpc.name}"] = (
                    rpc.input_type,
                    rpc.output_type,
                    rpc.client_streaming,
                    rpc.server_streaming,
                )
    return found


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> dict[str, tuple]:
    target = tmp_path_factory.mktemp("proto") / "inference.bin"
    subprocess.run(
        [
            "protoc",
            f"--proto_path={PROTO}",
            f"--descriptor_set_out={target}",
            "--include_imports",
        ]
        + ["inference/inference.proto"],
        check=True,
    )
    return facts(descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file)


@pytest.fixture(scope="module")
def tritons() -> dict[str, tuple]:
    files = []
    for module in (model_config_pb2, service_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return facts(files)


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
