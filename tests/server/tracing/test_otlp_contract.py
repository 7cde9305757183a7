"""Our protos of OTLP against PyPI's: each of our fields, values and RPCs is one of theirs, the same on the wire."""

import pathlib
import subprocess

import pytest
from google.protobuf import descriptor_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"
MODULES = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2)


def facts(files) -> dict[str, tuple]:
    """Every field, enum value and RPC by its full name, with all that the wire sees of it."""
    found: dict[str, tuple] = {}

    def add_enum(path, enum):
        for value in enum.value:
            found[f"{path}.{enum.name}.{value.name}"] = (value.number,)

    def add_message(path, message):
        path = f"{path}.{message.name}"
        for field in message.field:
            found[f"{path}.{field.name}"] = (
                field.number,
                field.type,
                field.label,
                field.type_name,
                field.HasField("oneof_index"),
                field.proto3_optional,
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
def ours(tmp_path_factory) -> list[descriptor_pb2.FileDescriptorProto]:
    target = tmp_path_factory.mktemp("proto") / "otlp.bin"
    command = ["protoc", f"--proto_path={PROTO}", f"--descriptor_set_out={target}"]
    service = "opentelemetry/proto/collector/trace/v1/trace_service.proto"
    subprocess.run([*command, "--include_imports", service], check=True)
    return list(descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file)


@pytest.fixture(scope="module")
def theirs() -> list[descriptor_pb2.FileDescriptorProto]:
    files = []
    for module in MODULES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def test_each_of_our_fields_values_and_rpcs_is_theirs_unchanged(ours, theirs):
    known = facts(theirs)
    found = facts(ours)
    assert len(found) > 40, "the descriptors were read wrongly"
    assert {name: known.get(name) for name in found} == found


def test_our_files_have_the_names_that_theirs_have(ours, theirs):
    assert {file.name for file in ours} == {file.name for file in theirs}


def test_enums_that_we_have_we_have_whole(ours, theirs):
    """A value that a collector may show by name is never missing."""
    enums = (".SpanKind.", ".StatusCode.", ".SpanFlags.")
    wanted = {name for name in facts(theirs) if any(enum in name for enum in enums)}
    assert wanted <= set(facts(ours))
