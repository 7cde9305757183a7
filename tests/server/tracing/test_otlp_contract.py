"""Our protos of OTLP against PyPI's: each of our fields, values and RPCs is one of theirs, the same on the wire."""

import pytest
from google.protobuf import descriptor_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from proto_facts import compiled, facts, generated

SERVICE = "opentelemetry/proto/collector/trace/v1/trace_service.proto"


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> list[descriptor_pb2.FileDescriptorProto]:
    return compiled(SERVICE, tmp_path_factory.mktemp("proto"))


@pytest.fixture(scope="module")
def theirs() -> list[descriptor_pb2.FileDescriptorProto]:
    return generated(common_pb2, resource_pb2, trace_pb2, trace_service_pb2)


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
