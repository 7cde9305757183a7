"""What the wire sees of protos, to compare ours with others'."""

from __future__ import annotations

import pathlib
import subprocess
from types import ModuleType

from google.protobuf import descriptor_pb2

PROTO = pathlib.Path(__file__).resolve().parents[1] / "proto"


def compiled(
    proto: str, folder: pathlib.Path
) -> list[descriptor_pb2.FileDescriptorProto]:
    """One of our files, named as from proto/, and all that it imports."""
    target = folder / "descriptors.bin"
    command = ["protoc", f"--proto_path={PROTO}", f"--descriptor_set_out={target}"]
    subprocess.run([*command, "--include_imports", proto], check=True)
    return list(descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file)


def generated(*modules: ModuleType) -> list[descriptor_pb2.FileDescriptorProto]:
    """The files that these modules were generated from."""
    files = []
    for module in modules:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


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
