"""Triton's shared memory, with its own clients and their own regions."""

from __future__ import annotations

import pathlib
import uuid

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from running_server import DEMO, Server
from tritonclient.utils import InferenceServerException

MODEL = "shapes"
SHAPE = (2, 3, 64, 64)
PICTURE = min((DEMO.parents[1] / "client/examples").glob("*.jpg"))


@pytest.fixture(params=["grpc", "http"])
def triton(request: pytest.FixtureRequest):
    return getattr(tritonclient, request.param)


@pytest.fixture
def client(sharing: Server, triton):
    address = sharing.grpc if triton is tritonclient.grpc else sharing.http
    with triton.InferenceServerClient(address) as client:
        yield client
        client.unregister_system_shared_memory()


@pytest.fixture
def make_region(client):
    """Makes a region as Triton's examples do, and registers it; gives its handle."""
    handles = []

    def make(name: str, size: int):
        key = f"/{uuid.uuid4().hex}"
        handles.append(shm.create_shared_memory_region(name, key, size))
        client.register_system_shared_memory(name, key, size)
        return handles[-1]

    yield make
    for handle in handles:
        shm.destroy_shared_memory_region(handle)


def pixels(triton, values: np.ndarray):
    return triton.InferInput("pixel_values", values.shape, "FP32")


def test_tensors_in_shared_memory_answer_as_those_in_messages(
    client, triton, make_region
):
    extensions = client.get_server_metadata()
    assert "system_shared_memory" in str(extensions)
    values = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    sent = pixels(triton, values)
    sent.set_data_from_numpy(values)
    expected = client.infer(MODEL, [sent]).as_numpy("logits")

    source = make_region("in", 64 + values.nbytes)
    target = make_region("out", 4096)
    shm.set_shared_memory_region(source, [values], offset=64)
    shared = pixels(triton, values)
    shared.set_shared_memory("in", values.nbytes, offset=64)
    wanted = triton.InferRequestedOutput("logits")
    wanted.set_shared_memory("out", 1024, offset=128)
    result = client.infer(MODEL, [shared], outputs=[wanted])
    answered = shm.get_contents_as_numpy(target, np.float32, expected.shape, offset=128)
    np.testing.assert_array_equal(answered, expected)
    told = result.get_output("logits")
    if triton is tritonclient.http:
        assert told["shape"] == list(expected.shape)
    else:
        assert list(told.shape) == list(expected.shape)
        written = told.parameters["shared_memory_byte_size"].int64_param
        assert written == expected.nbytes  # not what it might have taken

    # One alone: an input that is shared, an output that is not, and the other way round.
    only_input = client.infer(MODEL, [shared]).as_numpy("logits")
    np.testing.assert_array_equal(only_input, expected)
    shm.set_shared_memory_region(target, [np.zeros(1024, np.float32)])
    client.infer(MODEL, [sent], outputs=[wanted])
    again = shm.get_contents_as_numpy(target, np.float32, expected.shape, offset=128)
    np.testing.assert_array_equal(again, expected)


def test_images_lie_in_shared_memory_too(client, triton, make_region):
    file = PICTURE.read_bytes()
    element = np.frombuffer(len(file).to_bytes(4, "little") + file, np.uint8)
    source = make_region("files", element.nbytes)
    shm.set_shared_memory_region(source, [element])
    image = triton.InferInput("image", [1, 1], "BYTES")
    image.set_shared_memory("files", element.nbytes)
    assert client.infer(MODEL, [image]).as_numpy("logits").shape[0] == 1


def test_regions_are_told_and_unregistered(client, triton, make_region):
    make_region("one", 64)
    make_region("two", 128)
    status = client.get_system_shared_memory_status()
    if triton is tritonclient.http:
        told = {region["name"]: region["byte_size"] for region in status}
    else:
        told = {name: region.byte_size for name, region in status.regions.items()}
    assert told == {"one": 64, "two": 128}
    client.unregister_system_shared_memory("one")
    with pytest.raises(InferenceServerException):
        client.get_system_shared_memory_status("one")
    client.register_system_shared_memory("one", shm_key(make_region), 64)


def shm_key(make_region) -> str:
    """The key of one more object."""
    return make_region("three", 64)._shm_key


def test_requests_of_a_stream_share_memory(sharing: Server):
    """Each message of a stream is a request like any other."""
    values = np.ones((1, *SHAPE[1:]), dtype=np.float32)
    key = f"/{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("stream", key, values.nbytes)
    shm.set_shared_memory_region(handle, [values])
    answers = []
    with tritonclient.grpc.InferenceServerClient(sharing.grpc) as client:
        client.register_system_shared_memory("stream", key, values.nbytes)
        tensor = pixels(tritonclient.grpc, values)
        tensor.set_shared_memory("stream", values.nbytes)
        client.start_stream(lambda result, error: answers.append((result, error)))
        for _ in range(3):
            client.async_stream_infer(MODEL, [tensor])
        client.stop_stream()
        client.unregister_system_shared_memory("stream")
    shm.destroy_shared_memory_region(handle)
    assert len(answers) == 3
    assert all(error is None for _, error in answers)


def test_the_objects_are_gone_when_the_clients_are_done():
    """The server leaves none of its own behind."""
    assert not list(pathlib.Path("/dev/shm").glob("fovea*"))
