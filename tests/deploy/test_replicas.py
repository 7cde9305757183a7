"""Several servers behind a balancer: one is killed and comes back, another drains. What is lost, and what callers ask again."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import time

import pytest
from load import STAR, Load
from proxies import MODEL, in_front
from running_server import BUILD, DEMO, Server

FOVEA = BUILD / "bin" / "fovea"
CALLERS = 8
DRAINS = ("--drain-delay", "6000")


def another(name: str, folder: pathlib.Path, at: Server | None = None) -> Server:
    """One more, at the ports of one that is gone or at free ones."""
    ports = {} if at is None else {
        "--grpc-port": at.grpc, "--http-port": at.http, "--metrics-port": at.metrics
    }  # fmt: skip
    return Server(
        folder / f"{name}.log",
        *("--model-repository", str(DEMO), "--model-control-mode", "explicit"),
        *("--load-model", MODEL, *DRAINS),
        *(part for flag, to in ports.items() for part in (flag, to.split(":")[1])),
    )


@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_callers_that_ask_again_lose_nothing_and_others_what_the_killed_one_held(
    kind: str, tmp_path: pathlib.Path
):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number in range(64):
        (pictures / f"{number}.jpg").symlink_to(STAR)
    with in_front(kind, tmp_path, *DRAINS) as (proxy, servers):
        patient = Load(proxy.grpc, CALLERS)
        impatient = Load(proxy.grpc, CALLERS, max_attempts=1)
        for load in (patient, impatient):
            load.wait_for(50)

        # One is killed when it holds calls: it is stopped for a moment, in which none of them ends.
        servers[0].process.send_signal(signal.SIGSTOP)
        command = [FOVEA, "--server", proxy.grpc, "classify", "--model", MODEL]
        with subprocess.Popen(
            [*command, "--top-k", "1", pictures],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as asking:
            time.sleep(1)
            servers[0].close()
            printed, complaints = asking.communicate(timeout=120)
        for load in (patient, impatient):
            load.wait_for(50)
        lost = impatient.stop()
        assert {error.code for error in lost} == {"UNAVAILABLE"}
        # A call that it held, of each caller; nginx may send one more over a connection that has just ended.
        assert 1 <= max(map(len, impatient.lost)) <= (2 if kind == "nginx" else 1)
        assert asking.returncode == 0, complaints
        assert printed.count("star") == 64

        # It comes back, and the other one is stopped as it should be.
        if kind == "haproxy":  # which asks it whether it is ready
            servers[0] = another("again", tmp_path, at=servers[0])
        else:  # which would ask it before it is
            servers[0] = another("again", tmp_path)
            proxy.reload()
        time.sleep(2)  # several of HAProxy's checks
        patient.wait_for(50)
        assert servers[1].terminate() == 0
        patient.wait_for(50)
        assert patient.stop() == []
