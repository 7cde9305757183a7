"""The server under the seccomp profile that container engines have by default, without capabilities."""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from certificates import Authority, caller_context
from running_server import DEMO, SERVER, Server
from tritonclient.utils import shared_memory

PROFILES = {
    # Of the package golang-github-containers-common.
    "podman": pathlib.Path("/usr/share/containers/seccomp.json"),
    # Put there by fetch_docker_profile.sh.
    "docker": pathlib.Path(sys.prefix) / "share/seccomp/docker.json",
}
UNDER = pathlib.Path(__file__).with_name("under_seccomp.py")
PYTHON = "/usr/bin/python3"
MODEL, SHAPE = "shapes", (1, 3, 64, 64)


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> pathlib.Path:
    """An engine's, one test after the other."""
    library = subprocess.run(
        [PYTHON, "-c", "import seccomp"], check=False, capture_output=True
    )
    if library.returncode != 0:
        pytest.fail("python3-seccomp is not installed: deploy/setup/setup.sh test")
    file = PROFILES[request.param]
    if not file.exists():
        pytest.fail(
            f"{request.param}'s profile is not at {file}: deploy/setup/setup.sh test"
        )
    return file


def under(profile: pathlib.Path, *program: object) -> tuple[object, ...]:
    return (PYTHON, UNDER, profile, *program)


def test_the_profile_holds(profile: pathlib.Path):
    """What a container may not do is refused: else the tests below say nothing."""
    calls = "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.{}; print(r, ctypes.get_errno())"
    # bpf, perf_event_open by their numbers; and one that needs a capability.
    forbidden = ["syscall(321, 0, 0, 0)", "syscall(298, 0, 0, 0, 0, 0)", "acct(0)"]
    if profile == PROFILES["podman"]:  # Debian's Docker is older than its ban
        forbidden.append("syscall(425, 1, 0)")  # io_uring_setup
    for call in forbidden:
        told = subprocess.check_output(
            [*map(str, under(profile, sys.executable, "-c", calls.format(call)))],
            text=True,
        )
        result, errno = told.split()
        assert result == "-1" and int(errno) in (1, 38), (call, told)


@pytest.fixture
def server(start_server, tmp_path: pathlib.Path, profile: pathlib.Path) -> Server:
    models = tmp_path / "models"
    shutil.copytree(DEMO / MODEL, models / MODEL)
    shutil.copytree(DEMO / "segmenter_dense", models / "segmenter_dense")
    authority = Authority(tmp_path / "certificates")
    own = authority.issue("localhost")
    server = start_server(
        *("--model-repository", models, "--allow-client-shm"),
        *("--tls-cert", own.certificate, "--tls-key", own.key),
        program=under(profile, SERVER),
    )
    server.models, server.authority = models, authority
    return server


def clients(server: Server):
    root = server.authority.root
    return (
        triton.InferenceServerClient(
            server.grpc, ssl=True, root_certificates=str(root)
        ),
        triton_http.InferenceServerClient(
            server.http, ssl=True, ssl_context_factory=lambda: caller_context(root)
        ),
    )


def test_it_serves_reloads_and_drains_under_the_default_profile(server: Server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    over_grpc, over_http = clients(server)
    pixels = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    expected = None
    for module, client in ((triton, over_grpc), (triton_http, over_http)):
        tensor = module.InferInput("pixel_values", SHAPE, "FP32")
        tensor.set_data_from_numpy(pixels)
        answer = client.infer(MODEL, [tensor]).as_numpy("logits")
        expected = answer if expected is None else expected
        np.testing.assert_array_equal(answer, expected)
        for picture in ("star.jpg", "cross.png"):
            file = (DEMO.parents[1] / "client/examples" / picture).read_bytes()
            values = np.array([[file]], dtype=np.object_)
            image = module.InferInput("image", values.shape, "BYTES")
            image.set_data_from_numpy(values)
            for model in (MODEL, "segmenter_dense"):
                assert client.infer(model, [image]).get_response()
        # Shared memory of a caller, read and written.
        region = shared_memory.create_shared_memory_region(
            "r", "/seccomp_test", 2 * pixels.nbytes
        )
        shared_memory.set_shared_memory_region(region, [pixels])
        client.register_system_shared_memory("r", "/seccomp_test", 2 * pixels.nbytes)
        shared = module.InferInput("pixel_values", SHAPE, "FP32")
        shared.set_shared_memory("r", pixels.nbytes)
        output = module.InferRequestedOutput("logits")
        output.set_shared_memory("r", expected.nbytes, pixels.nbytes)
        client.infer(MODEL, [shared], outputs=[output])
        told = shared_memory.get_contents_as_numpy(
            region, np.float32, expected.shape, offset=pixels.nbytes
        )
        np.testing.assert_array_equal(told, expected)
        client.unregister_system_shared_memory()
        shared_memory.destroy_shared_memory_region(region)

    # A version that appears is loaded.
    shutil.copytree(server.models / MODEL / "1", server.models / MODEL / "2")
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 120
    while not over_grpc.is_model_ready(MODEL, "2"):
        assert time.monotonic() < end
        time.sleep(0.1)
    over_grpc.close()
    over_http.close()
    assert server.terminate() == 0
    log = server.log.read_text()
    assert "drained: every accepted request was answered" in log
    # Threads get their priorities and scheduling: nothing was refused on the way.
    assert " warning " not in log and " error " not in log, log
