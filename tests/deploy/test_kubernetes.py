"""deploy/kubernetes: each overlay fits the published schemas, and says what the server, its metrics and its labels are.

Objects of Kubernetes itself are compared with its own schemas (kubernetes-validate), those of KServe with the types of its SDK.
The schemas of the Prometheus Operator and of KEDA are in no package: there, the fields that are used are listed here, from
their documentation.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
import re
import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest
import yaml
from manifests import KUBERNETES, built, container_of, scaling_queries, the, yaml_of
from running_server import ROOT

OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
# The oldest whose gRPC probes are no trial, of those that have a schema, and the newest.
VERSIONS = ["1.28", kubernetes_validate.latest_version()]

# Of objects without a published schema: each field that may be used, and of which kind its value is.
QUANTITY = re.compile(r"\d+(\.\d+)?[mkMG]?|\d+[KMG]i")
POLICY = {"type": str, "value": int, "periodSeconds": int}
SCALING = {"stabilizationWindowSeconds": int, "policies": [POLICY]}
FIELDS = {
    "ServiceMonitor": {
        "selector": {"matchLabels": dict},
        "endpoints": [
            {"port": str, "path": str, "interval": str, "scrapeTimeout": str}
        ],
    },
    "ScaledObject": {
        "scaleTargetRef": {"apiVersion": str, "kind": str, "name": str},
        "minReplicaCount": int,
        "maxReplicaCount": int,
        "pollingInterval": int,
        "cooldownPeriod": int,
        "advanced": {
            "horizontalPodAutoscalerConfig": {
                "behavior": {"scaleUp": SCALING, "scaleDown": SCALING}
            }
        },
        "triggers": [
            {
                "type": str,
                "metricType": str,
                "metadata": {"serverAddress": str, "query": str, "threshold": str},
            }
        ],
    },
}
API_VERSIONS = {
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "ServingRuntime": "serving.kserve.io/v1alpha1",
    "InferenceService": "serving.kserve.io/v1beta1",
}


def has_only(value: Any, wanted: Any, at: str) -> None:
    if isinstance(wanted, dict):
        assert isinstance(value, dict), at
        for key, one in value.items():
            assert key in wanted, f"{at}.{key} is no field"
            has_only(one, wanted[key], f"{at}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(value, list) and value, at
        for number, one in enumerate(value):
            has_only(one, wanted[0], f"{at}[{number}]")
    else:
        assert type(value) is wanted, f"{at} is {value!r}"


@functools.cache
def sdk_types() -> dict[str, dict[str, str]]:
    """Of each class the types of its fields, by the names that they have in YAML."""
    program = pathlib.Path(__file__).with_name("sdk_types.py")
    told = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True
    )
    return json.loads(told.stdout.splitlines()[-1])


def fits_sdk(value: Any, kind: str, at: str) -> None:
    """`kind`: a type as the SDK's own classes write it: "V1Container", "List[str]", "dict(str, str)"."""
    if found := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        assert isinstance(value, list), at
        for number, one in enumerate(value):
            fits_sdk(one, found[1], f"{at}[{number}]")
    elif found := re.fullmatch(r"[Dd]ict[([]str, (.+)[])]", kind):
        assert isinstance(value, dict), at
        for key, one in value.items():
            fits_sdk(one, found[1], f"{at}.{key}")
    elif kind in ("str", "int", "bool", "float"):
        assert type(value).__name__ == kind, f"{at} is {value!r}"
    elif kind in ("object", "ResourceQuantity"):
        pass
    else:
        types = sdk_types()
        fields = types.get(kind) or types[kind.removeprefix("K8s")]
        assert isinstance(value, dict), at
        for key, one in value.items():
            assert key in fields, f"{at}.{key} is no field of {kind}"
            fits_sdk(one, fields[key], f"{at}.{key}")


def check(one: dict) -> None:
    kind = one["kind"]
    if kind in API_VERSIONS:
        assert one["apiVersion"] == API_VERSIONS[kind]
    if kind in FIELDS:
        assert set(one) == {"apiVersion", "kind", "metadata", "spec"}
        has_only(one["spec"], FIELDS[kind], kind)
    elif kind in API_VERSIONS:
        version = one["apiVersion"].split("/")[1]
        fits_sdk(one, f"{version[0].upper()}{version[1:]}{kind}", kind)
    else:
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)


def quantity(text: str) -> float:
    """Cores or bytes."""
    assert QUANTITY.fullmatch(text)
    number, unit = re.fullmatch(r"([\d.]+)(\D*)", text).groups()
    return float(number) * {"": 1, "m": 1e-3, "Mi": 2**20, "Gi": 2**30}[unit]


def setting(container: dict, name: str) -> Any:
    """Of its environment: a text, or where it comes from."""
    (found,) = (one for one in container["env"] if one["name"] == name)
    return found.get("value") or found["valueFrom"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_fits_the_published_schemas(overlay: str):
    objects = built(KUBERNETES / "overlays" / overlay)
    for one in objects:
        check(one)
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)


def test_the_checks_find_what_is_wrong():
    """Otherwise they would say nothing."""
    deployment = yaml_of("base/deployment.yaml")[0]
    deployment["spec"]["template"]["spec"]["containers"][0]["probes"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        check(deployment)
    for path, field in (
        ("overlays/kserve/serving-runtime.yaml", "supportedModelFormats"),
        ("components/monitoring/service-monitor.yaml", "endpoints"),
    ):
        (one,) = yaml_of(path)
        one["spec"][field][0]["nmae"] = "x"
        with pytest.raises(AssertionError, match="nmae is no field"):
            check(one)


def with_keda(tmp_path: pathlib.Path, **more: object) -> list[dict]:
    """What a kustomization of the CPU's overlay and KEDA's component makes."""
    base = KUBERNETES.relative_to(ROOT)
    folder = KUBERNETES / "overlays"
    names = {"resources": ["cpu"], "components": ["../components/keda"], **more}
    # kustomize takes no absolute path, and folders below the overlay's own are not to be written.
    copy = tmp_path / base
    for path in KUBERNETES.rglob("*"):
        if path.is_file():
            place = copy / path.relative_to(KUBERNETES)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    made = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (copy / folder.name / "kustomization.yaml").write_text(yaml.safe_dump(made | names))
    return built(copy / folder.name)


def test_keda_asks_of_the_namespace_that_a_kustomization_sets(tmp_path: pathlib.Path):
    page = (ROOT / "docs" / "operations" / "scaling.md").read_text()
    (block,) = re.findall(r"```yaml\n(namespace: ml\n.*?)```", page, re.DOTALL)
    objects = with_keda(tmp_path, **yaml.safe_load(block))
    (trigger,) = the("ScaledObject", objects)["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    (shipped,) = yaml_of("components/keda/scaled-object.yaml")[0]["spec"]["triggers"]
    assert query == shipped["metadata"]["query"].replace('"default"', '"ml"')
    assert query.count('namespace="ml"') == 2


def test_keda_takes_the_autoscalers_place(tmp_path: pathlib.Path):
    objects = with_keda(tmp_path)
    for one in objects:
        check(one)
    assert "replicas" not in the("Deployment", objects)["spec"]
    scaled, autoscaler = (
        the("ScaledObject", objects),
        yaml_of("components/autoscaling/autoscaler.yaml")[0],
    )
    ours, theirs = scaled["spec"], autoscaler["spec"]
    assert ours["scaleTargetRef"] == theirs["scaleTargetRef"]
    assert ours["maxReplicaCount"] == theirs["maxReplicas"]
    assert ours["minReplicaCount"] == theirs["minReplicas"]
    behaviour = ours["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour == theirs["behavior"]
    target = theirs["metrics"][0]["pods"]["target"]["averageValue"]
    threshold = ours["triggers"][0]["metadata"]["threshold"]
    assert float(threshold) * 1000 == float(target.removesuffix("m"))


def test_every_file_belongs_to_a_kustomization():
    named = set()
    for path in KUBERNETES.rglob("kustomization.yaml"):
        named.add(path)
        text = yaml.safe_load(path.read_text())
        entries = text.get("resources", []) + text.get("components", [])
        entries += text.get("configurations", [])
        entries += [patch["path"] for patch in text.get("patches", [])]
        for entry in entries:
            target = (path.parent / entry).resolve()
            assert target.exists(), f"{path}: {entry}"
            named.add(target)
    apart = KUBERNETES / "prometheus-adapter/rules.yaml"  # a chart's values
    files = {path for path in KUBERNETES.rglob("*") if path.is_file()}
    assert files - named == {apart}


@pytest.mark.parametrize("overlay", ["cpu", "gpu", "object-store", "autoscaled"])
def test_selectors_find_the_pods_and_services_their_ports(overlay: str):
    objects = built(KUBERNETES / "overlays" / overlay)
    deployment = the("Deployment", objects)
    labels = deployment["spec"]["template"]["metadata"]["labels"]

    def chooses(selector: dict[str, str]) -> bool:
        return bool(selector) and selector.items() <= labels.items()

    assert chooses(deployment["spec"]["selector"]["matchLabels"])
    assert chooses(
        the("PodDisruptionBudget", objects)["spec"]["selector"]["matchLabels"]
    )
    assert chooses(the("NetworkPolicy", objects)["spec"]["podSelector"]["matchLabels"])
    pod = deployment["spec"]["template"]["spec"]
    for spread in pod["topologySpreadConstraints"]:
        assert chooses(spread["labelSelector"]["matchLabels"])
    ports = {port["name"] for port in container_of(deployment)["ports"]}
    for name in ("fovea", "fovea-headless"):
        service = the("Service", objects, name)["spec"]
        assert chooses(service["selector"])
        assert {port["targetPort"] for port in service["ports"]} <= ports
    assert the("Service", objects, "fovea-headless")["spec"]["clusterIP"] == "None"
    rules = the("NetworkPolicy", objects)["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports


def test_a_pod_gives_up_its_rights_and_finds_its_models():
    for overlay in ("cpu", "gpu", "object-store", "autoscaled"):
        pod = the("Deployment", built(KUBERNETES / "overlays" / overlay))["spec"][
            "template"
        ]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for one in pod.get("initContainers", []) + pod["containers"]:
            context = one["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            requests, limits = (
                {
                    name: quantity(one["resources"][kind][name])
                    for name in ("cpu", "memory")
                }
                for kind in ("requests", "limits")
            )
            assert all(requests[name] <= limits[name] for name in requests), one["name"]
        (volume,) = pod["volumes"]
        kinds = set(volume) - {"name"}
        wanted = "emptyDir" if overlay == "object-store" else "persistentVolumeClaim"
        assert kinds == {wanted}


@pytest.mark.parametrize("overlay", ["cpu", "gpu", "object-store", "autoscaled"])
def test_models_run_on_the_cores_that_the_pod_asks_for(overlay: str):
    """Whatever else the node runs, and with room below the quota for what is busy beside them."""
    server = container_of(the("Deployment", built(KUBERNETES / "overlays" / overlay)))
    reference = {"containerName": "fovea", "resource": "requests.cpu"}
    assert setting(server, "FOVEA_THREADS") == {"resourceFieldRef": reference}
    asked, most = (
        quantity(server["resources"][kind]["cpu"]) for kind in ("requests", "limits")
    )
    assert math.ceil(asked) + 1 <= most


def test_an_overlay_asks_for_its_image():
    for overlay, image in (
        ("cpu", "fovea:cpu"), ("gpu", "fovea:cuda"), ("autoscaled", "fovea:cpu"),
    ):  # fmt: skip
        deployment = the("Deployment", built(KUBERNETES / "overlays" / overlay))
        assert container_of(deployment)["image"] == image
    limits = container_of(the("Deployment", built(KUBERNETES / "overlays/gpu")))
    assert limits["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_kserves_server_is_that_of_the_deployment():
    """But for its probes and its port, which Knative's proxy asks over HTTP: the two do not drift apart."""
    ours = container_of(yaml_of("base/deployment.yaml")[0])
    (theirs,) = yaml_of("overlays/kserve/serving-runtime.yaml")[0]["spec"]["containers"]
    for field in ("image", "command", "lifecycle", "resources"):
        assert ours[field] == theirs[field], field
    drains = [one["name"] for one in ours["env"] if "DRAIN" in one["name"]]
    assert drains
    for name in drains:
        assert setting(ours, name) == setting(theirs, name)
    of_request = setting(theirs, "FOVEA_THREADS")["resourceFieldRef"]
    assert of_request["resource"] == "requests.cpu"
    service = yaml_of("overlays/kserve/inference-service.yaml")[0]
    predictor = service["spec"]["predictor"]
    grace = yaml_of("base/deployment.yaml")[0]["spec"]["template"]["spec"]
    assert (
        predictor["terminationGracePeriodSeconds"]
        == grace["terminationGracePeriodSeconds"]
    )


@pytest.mark.parametrize("query", scaling_queries())
def test_what_the_autoscalers_ask_are_metrics_of_the_server(query: str):
    documented = set(
        re.findall(
            r"^\| `(fovea_\w+)`",
            (ROOT / "docs/operations/metrics.md").read_text(),
            re.MULTILINE,
        )
    )
    asked = set(re.findall(r"fovea_\w+", scaling_queries()[query]))
    assert asked
    assert {re.sub("_(sum|count|bucket)$", "", name) for name in asked} <= documented
    assert 'stage="queue"' in scaling_queries()[query]


def test_the_autoscalers_metric_is_the_adapters():
    rules = yaml_of("prometheus-adapter/rules.yaml")[0]["rules"]["custom"]
    metric = yaml_of("components/autoscaling/autoscaler.yaml")[0]["spec"]["metrics"][0]
    assert metric["pods"]["metric"]["name"] == rules[0]["name"]["as"]
    assert QUANTITY.fullmatch(metric["pods"]["target"]["averageValue"])
