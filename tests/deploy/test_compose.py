"""docker-compose.yml: what it mounts is there, what it opens is on loopback, and it comes up."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import sys
import urllib.parse
from collections.abc import Iterator

import pytest
import yaml
from containers import (
    can_pull,
    free_port,
    get,
    lacks,
    podman,
    run,
    wait_until,
    wait_until_ready,
)
from running_server import ROOT

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea.client import Client

FILE = ROOT / "docker-compose.yml"
PROJECT = "fovea-test"
PROMETHEUS = "localhost/fovea-test:prometheus"


def services() -> dict[str, dict]:
    return yaml.safe_load(FILE.read_text())["services"]


def default_of(text: str) -> str:
    """Of a value that the environment may replace."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_what_is_mounted_is_there():
    named = yaml.safe_load(FILE.read_text())["volumes"]
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source = default_of(volume).split(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists(), f"{name}: {source}"
                assert volume.endswith(":ro")
            else:
                assert source in named


def test_its_prometheus_is_that_of_the_other_file_but_for_the_servers_name():
    """The two do not drift apart."""
    ours = yaml.safe_load((ROOT / "deploy/docker/prometheus.yml").read_text())
    other = ROOT / "deploy/prometheus/prometheus.yml"
    theirs = yaml.safe_load(other.read_text())
    (job,) = theirs["scrape_configs"]
    job["static_configs"] = [{"targets": ["fovea:8002"]}]
    theirs["rule_files"] = [f"/etc/prometheus/{file}" for file in theirs["rule_files"]]
    assert ours == theirs


def test_only_this_machine_reaches_the_ports():
    for service in services().values():
        for port in service["ports"]:
            assert default_of(port).startswith("127.0.0.1:")


def test_nothing_has_rights_and_the_server_may_drain():
    for service in services().values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges"]
    assert services()["fovea"]["read_only"] is True
    assert services()["fovea"]["stop_grace_period"] == "60s"  # 30 s, and 20 more


@pytest.fixture(scope="module")
def prometheus(base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian's, in place of an image of a registry."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\n"
        "RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q"
        " --no-install-recommends prometheus && mkdir /prometheus && chown nobody /prometheus\n"
        'USER nobody\nENTRYPOINT ["prometheus"]\n'
    )
    podman(
        "build", "--format", "docker", "--tag", PROMETHEUS,
        "--build-arg", f"BASE={base}", folder,
    )  # fmt: skip
    return PROMETHEUS


@pytest.fixture(scope="module")
def settings(
    image: str, prometheus: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The environment of the compose file: images and models that are here, and free ports."""
    models = tmp_path_factory.mktemp("models")
    models.chmod(0o755)
    shutil.copytree(ROOT / "model_zoo/demo/shapes", models / "shapes")
    for folder in (models, *models.parents):
        if folder.owner() == models.owner() and len(folder.parts) > 2:
            folder.chmod(
                folder.stat().st_mode | 0o011
            )  # the server's user passes through
    return {
        "FOVEA_IMAGE": image,
        "PROMETHEUS_IMAGE": prometheus,
        "MODELS": str(models),
        **free_ports(),
    }


def free_ports() -> dict[str, str]:
    names = ("HTTP", "GRPC", "METRICS", "PROMETHEUS", "GRAFANA")
    return {f"{name}_PORT": str(free_port()) for name in names}


def compose(settings: dict[str, str], *arguments: str, project: str = PROJECT) -> None:
    if not shutil.which("podman-compose"):
        lacks("podman-compose is not installed")
    run(
        "podman-compose", "--file", FILE, "--project-name", project, *arguments,
        env={**os.environ, **settings}, cwd=ROOT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def up(settings: dict[str, str]) -> Iterator[dict[str, int]]:
    """Server and Prometheus, and Grafana where its image can be had. Gives their ports."""
    chosen = ["fovea", "prometheus"]
    if can_pull(default_of(services()["grafana"]["image"])):
        chosen.append("grafana")
    try:
        compose(settings, "up", "--detach", *chosen)
        ports = {key: int(value) for key, value in settings.items() if "_PORT" in key}
        wait_until_ready(ports["HTTP_PORT"])
        yield ports | {"grafana": "grafana" in chosen}
    finally:
        compose(settings, "down", "--timeout", "60", "--volumes")


@pytest.mark.containers
def test_prometheus_reads_the_servers_metrics(up: dict[str, int]):
    with Client(f"127.0.0.1:{up['GRPC_PORT']}") as client:
        (found,) = client.classify("shapes", [ROOT / "client/examples/star.jpg"]).images
        assert found.labels[0] == "star"

    def value_of(query: str) -> float:
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": query})
        status, text = get(up["PROMETHEUS_PORT"], path)
        answer = json.loads(text)["data"]["result"] if status == 200 else []
        return sum(float(one["value"][1]) for one in answer)

    wait_until(lambda: value_of('up{job="fovea"}') == 1, "the server is not scraped")
    wait_until(lambda: value_of("fovea_images_total") >= 1, "no image is counted")


@pytest.mark.containers
def test_prometheus_has_the_rules(up: dict[str, int]):
    """It starts without a word where a file of rules is not there."""
    wanted = {
        group["name"]: [rule.get("alert") or rule["record"] for rule in group["rules"]]
        for name in ("recording_rules.yml", "alerts.yml")
        for group in yaml.safe_load((ROOT / "deploy/prometheus" / name).read_text())[
            "groups"
        ]
    }
    assert len(wanted) > 3

    def loaded() -> dict[str, list[str]]:
        status, text = get(up["PROMETHEUS_PORT"], "/api/v1/rules")
        groups = json.loads(text)["data"]["groups"] if status == 200 else []
        return {one["name"]: [rule["name"] for rule in one["rules"]] for one in groups}

    wait_until(lambda: loaded() != {}, "Prometheus has no rules", timeout=60)
    assert loaded() == wanted


def compare_nothing(http_port: int) -> tuple[int, str]:
    """What a comparison of nothing is answered: status and text."""
    connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/compare", b"{}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.containers
def test_experiments_are_on(up: dict[str, int]):
    status, text = compare_nothing(up["HTTP_PORT"])
    assert status == 400, text
    assert get(up["HTTP_PORT"], "/v1/experiments")[0] == 200


@pytest.mark.containers
def test_experiments_can_be_turned_off(settings: dict[str, str]):
    settings = {**settings, **free_ports(), "EXPERIMENTS": "false"}
    project = f"{PROJECT}-plain"
    try:
        compose(settings, "up", "--detach", "fovea", project=project)
        port = int(settings["HTTP_PORT"])
        wait_until_ready(port)
        assert compare_nothing(port)[0] == 501
        assert get(port, "/v1/experiments")[0] == 501
    finally:
        compose(settings, "down", "--timeout", "60", "--volumes", project=project)


@pytest.mark.containers
def test_grafana_has_the_dashboards(up: dict[str, int]):
    if not up["grafana"]:
        pytest.skip("Grafana's image is in a registry that cannot be reached")
    folder = ROOT / "deploy/grafana/dashboards"
    titles = {json.loads(path.read_text())["title"] for path in folder.glob("*.json")}
    assert titles

    def found() -> set[str]:
        status, text = get(up["GRAFANA_PORT"], "/api/search?type=dash-db")
        return {one["title"] for one in json.loads(text)} if status == 200 else set()

    wait_until(lambda: found() >= titles, "Grafana lacks dashboards")
