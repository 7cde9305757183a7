"""The Deployment of deploy/kubernetes, as podman plays it: no cluster, but its container with its settings and its rights.

What differs: one replica, ports of this machine, no bounds on processors and memory (not every engine may set them). Podman
asks no gRPC probes: the tests ask what they would.
"""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator

import grpc
import pytest
import yaml
from containers import (
    SECONDS,
    free_port,
    get,
    inspect,
    models_archive,
    podman,
    run,
    wait_until,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from load import Load
from manifests import container_of, yaml_of
from proxies import Proxy

pytestmark = pytest.mark.containers
SERVING = health_pb2.HealthCheckResponse.SERVING


class Pod:
    """Of the Deployment, once it is played. http, grpc, metrics: where its server listens on this machine."""

    def __init__(self, folder: pathlib.Path, image: str, claim: str):
        (deployment,) = yaml_of("base/deployment.yaml")
        name = f"fovea-test-{uuid.uuid4().hex[:8]}"
        deployment["metadata"]["name"] = name
        deployment["spec"]["replicas"] = 1
        pod = deployment["spec"]["template"]["spec"]
        self.grace_seconds = pod["terminationGracePeriodSeconds"]
        pod["volumes"][0]["persistentVolumeClaim"]["claimName"] = claim
        container = container_of(deployment)
        container |= {"image": image, "imagePullPolicy": "Never", "resources": {}}
        ports = {}
        for port in container["ports"]:
            ports[port["name"]] = free_port()
            port |= {"hostIP": "127.0.0.1", "hostPort": ports[port["name"]]}
        self.http, self.grpc, self.metrics = (
            f"127.0.0.1:{ports[port]}" for port in ("http", "grpc", "metrics")
        )
        self._file = folder / f"{name}.yaml"
        self._file.write_text(yaml.safe_dump(deployment))
        self._name = name
        self.container = ""

    def play(self) -> None:
        podman("kube", "play", self._file)
        names = podman("ps", "--all", "--format", "{{.Names}}").split()
        (self.container,) = (
            one for one in names if self._name in one and "infra" not in one
        )

    def health(self) -> int | None:
        """What the probes hear; None: nobody answers."""
        with grpc.insecure_channel(self.grpc) as channel:
            request = health_pb2.HealthCheckRequest()
            try:
                return (
                    health_pb2_grpc.HealthStub(channel).Check(request, timeout=1).status
                )
            except grpc.RpcError:
                return None

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.health() == SERVING, "the pod is not ready")

    def log(self) -> str:
        """Both its streams, in the order in which it wrote."""
        return subprocess.run(
            ["podman", "logs", self.container],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        ).stdout

    def pre_stop(self) -> None:
        """As the kubelet runs the hook."""
        (deployment,) = yaml_of("base/deployment.yaml")
        hook = container_of(deployment)["lifecycle"]["preStop"]["exec"]["command"]
        podman("exec", self.container, *hook)

    def stop(self) -> int:
        """As the kubelet does. Returns the server's exit code."""
        self.pre_stop()
        podman("stop", "--time", self.grace_seconds, self.container)
        return inspect(self.container)["State"]["ExitCode"]

    def close(self) -> None:
        if self.container:
            run("podman", "kube", "down", self._file, check=False)


@pytest.fixture
def pod_of(image: str, tmp_path: pathlib.Path) -> Iterator[Callable[[str], Pod]]:
    """Pods of an image, whose claim holds the model `shapes`; they are not played yet."""
    claim = f"fovea-test-{uuid.uuid4().hex[:8]}"
    podman("volume", "create", claim)
    podman("volume", "import", claim, models_archive(tmp_path, "shapes"))
    pods: list[Pod] = []

    def make(image: str) -> Pod:
        pods.append(Pod(tmp_path, image, claim))
        return pods[-1]

    yield make
    for pod in pods:
        pod.close()
    run("podman", "volume", "rm", "--force", claim, check=False)


def test_a_pod_is_ready_when_it_is_warm_comes_back_and_drains(pod_of, image: str):
    pod = pod_of(image)

    def ready_once_serving() -> bool:
        """Whether its model is ready at the moment in which its health first reads SERVING: it is not before it is warm."""
        pod.wait_until_ready()
        return get(int(pod.http.split(":")[1]), "/v2/models/shapes/ready")[0] == 200

    # Its health is asked from before it is there: to play a pod may take longer than to get warm.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ready_once_serving)
        pod.play()
        assert asked.result(), "it serves before its model is ready"
    # The line was written before its health changed. The engine copies what a container writes into its log: a second for that.
    wait_until(
        lambda: re.search(r"\bshapes version 1: ready after ", pod.log()),
        "it serves before its model is warm",
        timeout=1,
    )
    load = Load(pod.grpc, callers=4, max_attempts=1)
    load.wait_for(20)
    assert load.stop() == []

    state = inspect(pod.container)
    assert state["HostConfig"]["ReadonlyRootfs"]
    status = pathlib.Path(f"/proc/{state['State']['Pid']}/status").read_text()
    assert "CapEff:\t0000000000000000" in status

    os.kill(state["State"]["Pid"], signal.SIGKILL)
    wait_until(
        lambda: inspect(pod.container)["RestartCount"] == 1, "it is not started again"
    )
    pod.wait_until_ready()

    load = Load(pod.grpc, callers=4, max_attempts=1)
    load.wait_for(20)
    stopping = threading.Thread(target=pod.pre_stop)
    stopping.start()
    wait_until(lambda: pod.health() != SERVING, "its health does not change")
    load.wait_for(20)  # what still comes is answered
    assert load.stop() == []
    stopping.join()
    podman("stop", "--time", pod.grace_seconds, pod.container)
    assert inspect(pod.container)["State"]["ExitCode"] == 0


def newer(image: str) -> str:
    """Another image of the same server."""
    tag = "localhost/fovea-test:newer"
    text = f'FROM {image}\nLABEL org.opencontainers.image.revision="newer"\n'
    subprocess.run(
        ["podman", "build", "--format", "docker", "--tag", tag, "-"],
        input=text, text=True, capture_output=True, check=True, timeout=SECONDS,
    )  # fmt: skip
    return tag


def answered_by(pod: Pod) -> float:
    lines = get(int(pod.metrics.split(":")[1]), "/metrics")[1].decode().splitlines()
    rows = [line for line in lines if line.startswith("fovea_requests_total{")]
    return sum(float(row.split()[-1]) for row in rows if 'code="OK"' in row)


def test_a_roll_out_under_load_loses_nothing(
    pod_of, image: str, tmp_path: pathlib.Path
):
    """As the Deployment's strategy does it: the new pod is ready before the old one goes."""
    old, new = pod_of(image), pod_of(newer(image))
    old.play()
    old.wait_until_ready()
    proxy = Proxy("haproxy", tmp_path, [old, new])
    try:
        load = Load(proxy.grpc, callers=4, max_attempts=1)
        load.wait_for(50)
        new.play()
        new.wait_until_ready()
        assert (
            inspect(new.container)["Config"]["Labels"][
                "org.opencontainers.image.revision"
            ]
            == "newer"
        )
        wait_until(lambda: answered_by(new) > 0, "the new pod is asked nothing")
        assert old.stop() == 0
        before = answered_by(new)
        load.wait_for(50)
        assert load.stop() == []
        assert answered_by(new) >= before + 50
    finally:
        proxy.close()
