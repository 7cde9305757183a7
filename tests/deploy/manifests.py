"""What kustomize makes of deploy/kubernetes."""

from __future__ import annotations

import functools
import pathlib
import re
import shutil
import subprocess

import yaml
from containers import lacks
from running_server import ROOT

KUBERNETES = ROOT / "deploy/kubernetes"


def yaml_of(path: str) -> list[dict]:
    """The documents of a file of deploy/kubernetes."""
    return [d for d in yaml.safe_load_all((KUBERNETES / path).read_text()) if d]


def _kustomize() -> list[str] | None:
    """A kustomize that knows components and labels; Debian 12's kubectl is too old."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if not shutil.which("kubectl"):
        return None
    version = subprocess.run(
        ["kubectl", "version", "--client"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"Kustomize Version: v(\d+)", version)
    return ["kubectl", "kustomize"] if found and int(found[1]) >= 5 else None


@functools.cache
def _built(folder: pathlib.Path) -> str:
    command = _kustomize()
    if command is None:
        lacks(
            "neither kustomize nor a kubectl that has version 5 of it is here (docs/operations/containers.md says where it comes from)"
        )
    done = subprocess.run(
        [*command, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def built(folder: pathlib.Path) -> list[dict]:
    """The objects that a folder with a kustomization stands for."""
    return list(yaml.safe_load_all(_built(folder)))


def the(kind: str, objects: list[dict], name: str = "fovea") -> dict:
    (found,) = (
        one
        for one in objects
        if one["kind"] == kind and one["metadata"]["name"] == name
    )
    return found


def scaling_queries() -> dict[str, str]:
    """What is asked of Prometheus for the number of replicas, by who asks; `series` is what prometheus-adapter finds the pods by."""
    (scaled,) = yaml_of("components/keda/scaled-object.yaml")
    (rule,) = yaml_of("prometheus-adapter/rules.yaml")[0]["rules"]["custom"]
    return {
        "keda": scaled["spec"]["triggers"][0]["metadata"]["query"],
        "adapter": rule["metricsQuery"],
        "series": rule["seriesQuery"],
    }


def container_of(deployment: dict, name: str = "fovea") -> dict:
    pod = deployment["spec"]["template"]["spec"]
    containers = pod.get("initContainers", []) + pod["containers"]
    return next(one for one in containers if one["name"] == name)
