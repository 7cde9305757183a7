"""Row 52 of docs/faults.md: shared memory that a caller registers and then changes, over both protocols."""

from __future__ import annotations

import os
import pathlib
import threading
import uuid
from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from fault_support import (
    MODEL,
    SIZE,
    ask_both,
    leaves_unharmed,
)
from running_server import Server
from tritonclient.utils import InferenceServerException

SHAPE = (1, 3, SIZE, SIZE)
BYTES = 4 * 3 * SIZE * SIZE


class Object:
    """A shared memory object of the test's."""

    def __init__(self, size: int):
        self.key = f"/{uuid.uuid4().hex}"
        self.path = pathlib.Path("/dev/shm" + self.key)
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.file, size)

    def write(self, data: bytes, at: int = 0) -> None:
        os.pwrite(self.file, data, at)

    def resize(self, size: int) -> None:
        os.ftruncate(self.file, size)

    def close(self) -> None:
        os.close(self.file)
        self.path.unlink()


@pytest.fixture
def shared() -> Iterator[Object]:
    object = Object(2 * BYTES)
    object.write(np.ones(SHAPE, np.float32).tobytes())
    yield object
    object.close()


@pytest.fixture(params=["grpc", "http"])
def triton(request: pytest.FixtureRequest):
    return getattr(tritonclient, request.param)


def connect(sharing: Server, triton):
    """A client of its own: those of HTTP belong to one thread."""
    address = sharing.grpc if triton is tritonclient.grpc else sharing.http
    return triton.InferenceServerClient(address)


@pytest.fixture
def client(sharing: Server, triton):
    """As `unharmed` (conftest.py), of the server that shares memory."""
    before = ask_both(sharing)
    with (
        leaves_unharmed(sharing, lambda: ask_both(sharing), before),
        connect(sharing, triton) as client,
    ):
        yield client
        client.unregister_system_shared_memory()


def shared_input(triton, size: int = BYTES, offset: int = 0):
    tensor = triton.InferInput("pixel_values", SHAPE, "FP32")
    tensor.set_shared_memory("r", size, offset)
    return tensor


def refusal(call, *arguments, **options) -> str:
    """The text of the error, which shows no name of an object or of a file."""
    with pytest.raises(InferenceServerException) as error:
        call(*arguments, **options)
    text = str(error.value)
    assert "/dev/shm" not in text and "/etc" not in text, text
    return text


def test_row_52_hostile_regions_are_refused(client, triton, shared: Object):
    for key, offset, size in [
        ("/", 0, 64),
        ("", 0, 64),
        ("/../etc/passwd", 0, 64),
        ("/a/b", 0, 64),
        ("/sem.x", 0, 64),
        ("/triton_python_backend_shm_region_1", 0, 64),
        ("/nothing_of_that_name", 0, 64),
        (shared.key, 0, 2 * BYTES + 1),
        (shared.key, 2 * BYTES, 1),
        (shared.key, 0, 0),
        (shared.key, 2**64 - 8, 16),
        (shared.key, 8, 2**64 - 8),
    ]:
        text = refusal(
            client.register_system_shared_memory, "r", key, size, offset=offset
        )
        assert shared.key[1:] not in text
    client.register_system_shared_memory("r", shared.key, BYTES)
    assert "registered" in refusal(
        client.register_system_shared_memory, "r", shared.key, BYTES
    )


def test_row_52_hostile_tensors_are_refused(client, triton, shared: Object):
    client.register_system_shared_memory("r", shared.key, BYTES)
    for size, offset in [
        (BYTES - 1, 0),
        (BYTES, 1),
        (2**62, 2**62),
        (BYTES, -1),
        (-1, 0),
        (0, 0),
    ]:
        refusal(client.infer, MODEL, [shared_input(triton, size, offset)])
    wanted = triton.InferRequestedOutput("logits")
    wanted.set_shared_memory("r", 4)  # too few for the answer
    refusal(client.infer, MODEL, [shared_input(triton)], outputs=[wanted])
    unknown = triton.InferRequestedOutput("logits")
    unknown.set_shared_memory("s", 4096)
    refusal(client.infer, MODEL, [shared_input(triton)], outputs=[unknown])
    # What lies there is judged as what comes in a message.
    shared.write(np.full(SHAPE, np.nan, np.float32).tobytes())
    assert "NaN" in refusal(client.infer, MODEL, [shared_input(triton)])


def test_row_52_an_object_that_shrinks_ends_nothing(client, triton, shared: Object):
    client.register_system_shared_memory("r", shared.key, 2 * BYTES)
    client.infer(MODEL, [shared_input(triton)])
    wanted = triton.InferRequestedOutput("logits")
    wanted.set_shared_memory("r", 4096, BYTES)
    shared.resize(BYTES // 2)
    assert "shorter" in refusal(client.infer, MODEL, [shared_input(triton)])
    shared.resize(BYTES)
    # The input is there, and no room for the output: the object is not made longer.
    refusal(client.infer, MODEL, [shared_input(triton)], outputs=[wanted])
    assert shared.path.stat().st_size == BYTES


def test_row_52_an_object_that_shrinks_all_the_time_ends_nothing(
    client, triton, shared: Object
):
    client.register_system_shared_memory("r", shared.key, 2 * BYTES)
    wanted = triton.InferRequestedOutput("logits")
    wanted.set_shared_memory("r", 4096, BYTES)
    done = threading.Event()

    def shrink():
        while not done.is_set():
            shared.resize(0)
            shared.resize(2 * BYTES)

    owner = threading.Thread(target=shrink)
    owner.start()
    try:
        for _ in range(50):
            try:
                client.infer(MODEL, [shared_input(triton)], outputs=[wanted])
            except InferenceServerException:
                pass  # which of them find it short is the owner's doing
    finally:
        done.set()
        owner.join()


def test_row_52_a_caller_that_writes_while_it_is_read_gets_one_of_both(
    client, triton, shared: Object
):
    """NaN comes and goes: what the rules let pass is what the model reads, so that no answer has one in it."""
    client.register_system_shared_memory("r", shared.key, BYTES)
    done = threading.Event()
    values = np.memmap(shared.path, np.float32, "r+", shape=SHAPE).reshape(-1)

    def write():
        while not done.is_set():
            values[-1] = np.nan
            values[-1] = 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            try:
                result = client.infer(MODEL, [shared_input(triton)])
            except InferenceServerException as error:
                assert "finite" in str(error) or "NaN" in str(error), error
            else:
                assert np.isfinite(result.as_numpy("logits")).all()
    finally:
        done.set()
        writer.join()


def test_row_52_regions_go_while_requests_run(sharing, client, triton, shared: Object):
    wanted = triton.InferRequestedOutput("logits")
    wanted.set_shared_memory("r", 4096, BYTES)
    done = threading.Event()

    def come_and_go():
        with connect(sharing, triton) as other:
            while not done.is_set():
                other.unregister_system_shared_memory("r")
                other.register_system_shared_memory("r", shared.key, 2 * BYTES)

    client.register_system_shared_memory("r", shared.key, 2 * BYTES)
    owner = threading.Thread(target=come_and_go)
    owner.start()
    try:
        for _ in range(50):
            try:
                client.infer(MODEL, [shared_input(triton)], outputs=[wanted])
            except InferenceServerException as error:
                assert "regist" in str(error), error
    finally:
        done.set()
        owner.join()


def test_row_52_regions_are_bounded(client, shared: Object):
    for number in range(256):
        client.register_system_shared_memory(f"r{number}", shared.key, 64)
    assert "256 regions" in refusal(
        client.register_system_shared_memory, "one more", shared.key, 64
    )
    client.unregister_system_shared_memory("r7")
    client.register_system_shared_memory("one more", shared.key, 64)
