"""gRPC's own reflection client, as grpcurl works: which services there are, and what their messages look like."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield channel


def test_the_services_are_listed(channel):
    assert set(ProtoReflectionDescriptorDatabase(channel).get_services()) == {
        "fovea.v1.ComparisonService",
        "fovea.v1.ExperimentService",
        "fovea.v1.VisionService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "inference.GRPCInferenceService",
    }


def test_a_caller_that_knows_no_proto_can_make_every_unary_call(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    pool = DescriptorPool(database)
    for name in database.get_services():
        service = pool.FindServiceByName(name)
        for method in service.methods:
            assert GetMessageClass(method.input_type) and method.output_type.full_name
    metadata = pool.FindServiceByName("inference.GRPCInferenceService").methods_by_name[
        "ModelMetadata"
    ]
    call = channel.unary_unary(
        "/inference.GRPCInferenceService/ModelMetadata",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(metadata.output_type).FromString,
    )
    answer = call(GetMessageClass(metadata.input_type)(name="shapes"), timeout=30)
    assert answer.outputs[0].name == "logits"


def test_what_does_not_exist_is_not_found(channel):
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    with pytest.raises(KeyError):
        pool.FindMessageTypeByName("inference.NoSuchMessage")
