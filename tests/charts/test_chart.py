"""The chart as helm renders it, in the shapes that people install."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.settings import load_settings
from tests.charts.conftest import CHART, ROOT, Object, helm, one, refused, rendered

PRODUCTION = """
image: {repository: registry.example/polypod, digest: "sha256:%s", pullSecrets: [pull]}
settings: |
  [models.default]
  provider = "openai"
  model = "gpt-5-mini"
  [profiles.reviewer]
  workspace = "/data/reviews"
keys: {existingSecret: model-keys}
store: {kind: postgresql, postgresql: {existingSecret: database, key: uri}}
volume: {accessMode: ReadWriteMany, storageClassName: nfs}
gateway:
  token: {existingSecret: door, key: operator}
  ingress: {enabled: true, className: nginx, host: pods.example.org, tlsSecret: cert}
ray:
  env: {RAY_health_check_period_ms: "500"}
  token: {existingSecret: joining}
  faultTolerance: {enabled: true, redisAddress: "redis:6379", existingSecret: redis}
  upgradeStrategy: Recreate
worker: {replicas: 3, nodeSelector: {pool: agents}, tolerations: [{key: agents, operator: Exists}]}
extraWorkerGroups:
  - {name: large, replicas: 1, maxReplicas: 5, resources: {requests: {cpu: 4, memory: 16Gi}}}
autoscaling: {enabled: true, minReplicas: 1, maxReplicas: 8}
networkPolicy:
  from: [{namespaceSelector: {matchLabels: {name: ingress}}}]
  egress: [{ports: [{port: 443, protocol: TCP}]}]
podDisruptionBudget: {maxUnavailable: "25%%", protectHead: true}
metrics:
  podMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}
""" % ("0" * 64)
SHAPES = {
    "as it is": "",
    "workers": "worker: {replicas: 3}",
    "made keys": "keys: {values: {OPENAI_API_KEY: sk-a-key-of-a-test}}",
    "nothing kept": "volume: {enabled: false}\nserviceAccount: {create: false}\nnetworkPolicy: {enabled: false}",
    "production": PRODUCTION,
}


@pytest.fixture(scope="session")
def shapes() -> dict[str, list[Object]]:
    return {name: rendered(values) for name, values in SHAPES.items()}


def pod_specs(objects: list[Object]) -> Iterator[Object]:
    for thing in objects:
        if thing["kind"] == "RayCluster":
            yield thing["spec"]["headGroupSpec"]["template"]["spec"]
            yield from (group["template"]["spec"] for group in thing["spec"]["workerGroupSpecs"])
        elif thing["kind"] == "Pod":
            yield thing["spec"]


def containers(objects: list[Object]) -> dict[str, Object]:
    return {c["name"]: c for spec in pod_specs(objects) for c in spec["containers"]}


def environment(container: Object) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def test_lint_is_strict_and_clean() -> None:
    for values in SHAPES.values():
        done = helm("lint", "--strict", str(CHART), values=values)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_shape_is_valid(shapes: dict[str, list[Object]], problems: Callable[[Object], list[str]]) -> None:
    assert [p for objects in shapes.values() for thing in objects for p in problems(thing)] == []


def test_the_schemas_find_mistakes(shapes: dict[str, list[Object]], problems: Callable[[Object], list[str]]) -> None:
    cluster = json.loads(json.dumps(one(shapes["production"], "RayCluster")))
    cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] = 7
    cluster["spec"]["autoscaler"] = {}
    assert len(problems(cluster)) == 3
    assert problems({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"port": 1}})


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ("wrker: {replicas: 1}", "wrker"),
        ("worker: {replica: 1}", "replica"),
        ("worker: {replicas: '3'}", "replicas"),
        ("worker: {replicas: -1}", "replicas"),
        ("worker: {replicas: 1.5}", "replicas"),
        ("metrics: {podMonitor: {enabled: 'yes'}}", "enabled"),
        ("metrics: {prometheusRule: {on: true}}", "on"),
        ("gateway: {token: {secret: x}}", "secret"),
        ("ray: {faultTolerance: {redis: x}}", "redis"),
        ("extraWorkerGroups: [{name: a, replicas: 1}]", "resources"),
        ("store: {kind: mysql}", "kind"),
        ("store: {kind: postgresql}", "existingSecret"),
        ("gateway: {ingress: {enabled: true}}", "ingress.host"),
        ("ray: {faultTolerance: {enabled: true}}", "redisAddress"),
        ("keys: {existingSecret: a, values: {A: b}}", "choose one"),
        ('settings: "[gateway]\\ntoken = \\"x\\""', "gateway.token.existingSecret"),
        ('settings: "[store]\\nurl = \\"postgresql://me:pw@host/db\\""', "store.postgresql.existingSecret"),
        ('settings: "[cluster]\\naddress = \\"auto\\""', "leave [cluster] out"),
    ],
)
def test_what_would_not_work_is_refused(values: str, word: str) -> None:
    assert word in refused(values)


def test_every_value_has_a_place_in_the_schema() -> None:
    """And no object of it takes unknown keys, but those whose keys are the user's."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    definitions = schema["$defs"]

    def walk(value: Any, known: Object, path: str) -> None:
        known = definitions[known["$ref"].rpartition("/")[2]] if "$ref" in known else known
        if isinstance(value, dict) and "properties" in known:
            assert known["additionalProperties"] is False, path
            assert set(value) <= set(known["properties"]), path
            for key, inner in value.items():
                walk(inner, known["properties"][key], f"{path}.{key}")

    walk(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")


def test_secrets_are_in_no_config_map_and_no_argument() -> None:
    token, key = "a-token-of-a-test", "sk-a-key-of-a-test"
    values = f"gateway: {{token: {{value: {token}}}}}\nkeys: {{values: {{OPENAI_API_KEY: {key}}}}}"
    objects = rendered(values)
    ray = base64.b64decode(one(objects, "Secret", "demo-polypod-ray")["data"]["auth_token"]).decode()
    assert len(ray) >= 64
    assert base64.b64decode(one(objects, "Secret", "demo-polypod-gateway")["data"]["token"]).decode() == token
    others = json.dumps([thing for thing in objects if thing["kind"] != "Secret"])
    for secret in (token, key, ray):
        assert secret not in others
        assert base64.b64encode(secret.encode()).decode() not in others


def test_who_is_given_which_secret(shapes: dict[str, list[Object]]) -> None:
    found = containers(shapes["production"])
    assert set(found) == {"ray-head", "gateway", "ray-worker", "tree"}
    gateway = environment(found["gateway"])
    assert gateway["POLYPOD__STORE__URL"] == {"secretKeyRef": {"name": "database", "key": "uri"}}
    assert gateway["POLYPOD__GATEWAY__TOKEN"] == {"secretKeyRef": {"name": "door", "key": "operator"}}
    for name in ("ray-head", "ray-worker"):
        assert not {"POLYPOD__STORE__URL", "POLYPOD__GATEWAY__TOKEN"} & environment(found[name]).keys()
    for name in ("ray-head", "ray-worker", "gateway"):
        assert found[name]["envFrom"] == [{"secretRef": {"name": "model-keys"}}]
        assert environment(found[name])["RAY_AUTH_MODE"] == "token"
        assert environment(found[name])["RAY_health_check_period_ms"] == "500"
    cluster = one(shapes["production"], "RayCluster")["spec"]
    password = cluster["gcsFaultToleranceOptions"]["redisPassword"]["valueFrom"]["secretKeyRef"]
    assert password == {"name": "redis", "key": "redis-password"}


def test_pods_are_confined(shapes: dict[str, list[Object]]) -> None:
    for objects in shapes.values():
        for spec in pod_specs(objects):
            assert spec["automountServiceAccountToken"] is False
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            for container in spec["containers"]:
                security = container["securityContext"]
                assert security["readOnlyRootFilesystem"] is True
                assert security["allowPrivilegeEscalation"] is False
                assert security["capabilities"] == {"drop": ["ALL"]}
        assert not [thing for thing in objects if "Role" in thing["kind"]]
    autoscaler = one(shapes["production"], "RayCluster")["spec"]["autoscalerOptions"]
    assert autoscaler["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_gateway_is_probed_served_and_guarded(shapes: dict[str, list[Object]]) -> None:
    objects = shapes["production"]
    gateway = containers(objects)["gateway"]
    assert gateway["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/readyz"
    head = one(objects, "RayCluster")["spec"]["headGroupSpec"]["template"]["spec"]
    assert head["shareProcessNamespace"] is True  # a driver looks for its node's process
    shared = {m["mountPath"]: m["name"] for m in gateway["volumeMounts"]}
    assert shared == {m["mountPath"]: m["name"] for m in head["containers"][0]["volumeMounts"]}
    assert {"/tmp/ray", "/dev/shm"} <= set(shared)
    service = one(objects, "Service")["spec"]
    assert service["selector"] == {"ray.io/cluster": "demo-polypod", "ray.io/node-type": "head"}
    assert one(objects, "Ingress")["spec"]["tls"] == [{"hosts": ["pods.example.org"], "secretName": "cert"}]
    door = one(objects, "NetworkPolicy", "demo-polypod-gateway")["spec"]["ingress"]
    assert door == [{"from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
                     "ports": [{"port": 7420, "protocol": "TCP"}]}]  # fmt: skip
    monitor = one(objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert monitor["port"] in [port["name"] for port in gateway["ports"]]
    assert monitor["authorization"]["credentials"] == {"name": "door", "key": "operator"}


def test_worker_groups(shapes: dict[str, list[Object]]) -> None:
    def groups(shape: str) -> list[tuple[str, int, int, int]]:
        found = one(shapes[shape], "RayCluster")["spec"]["workerGroupSpecs"]
        return [(g["groupName"], g["replicas"], g["minReplicas"], g["maxReplicas"]) for g in found]

    assert groups("as it is") == [("workers", 0, 0, 0)]
    assert groups("workers") == [("workers", 3, 3, 3)]
    assert groups("production") == [("workers", 3, 1, 8), ("large", 1, 1, 5)]
    assert one(shapes["production"], "RayCluster")["spec"]["enableInTreeAutoscaling"] is True


def test_switches(shapes: dict[str, list[Object]]) -> None:
    kinds = {thing["kind"] for thing in shapes["as it is"]}
    assert not {"PodMonitor", "PrometheusRule", "Ingress"} & kinds
    assert {"ServiceAccount", "NetworkPolicy", "PodDisruptionBudget", "PersistentVolumeClaim"} <= kinds
    bare = {thing["kind"] for thing in shapes["nothing kept"]}
    assert not {"ServiceAccount", "NetworkPolicy", "PersistentVolumeClaim"} & bare
    one(shapes["production"], "ConfigMap", "demo-polypod-dashboard")
    assert "Pod" not in {thing["kind"] for thing in rendered("test: {enabled: false}")}


def test_a_change_of_the_settings_changes_the_template() -> None:
    def annotation(settings: str) -> str:
        cluster = one(rendered(f"settings: '{settings}'"), "RayCluster")
        annotations: dict[str, str] = cluster["spec"]["headGroupSpec"]["template"]["metadata"]["annotations"]
        return annotations["polypod/settings"]

    assert len({annotation("[directory]"), annotation("[memory]")}) == 2


@pytest.mark.parametrize("shape", ["as it is", "production"])
def test_polypod_reads_the_settings_as_the_gateway_gets_them(
    shapes: dict[str, list[Object]], shape: str, tmp_path: Path
) -> None:
    text = one(shapes[shape], "ConfigMap", "demo-polypod-settings")["data"]["polypod.toml"]
    (tmp_path / "polypod.toml").write_text(text)
    environ = {k: v for k, v in environment(containers(shapes[shape])["gateway"]).items() if isinstance(v, str)}
    settings = load_settings(tmp_path, environ)
    assert settings.tables.profiles["default"].workspace == "/data/workspaces"
    assert settings.tables.memory.root == "/data/memory"
    assert settings.tables.models["helm_test"].script == "/etc/polypod/helm-test.jsonl"
    assert settings.default_model == ("default" if shape == "production" else "helm_test")
    assert tomllib.loads(text).keys() <= {"directory", "models", "profiles"}


def test_the_preloaded_modules_are_those_of_the_code(shapes: dict[str, list[Object]]) -> None:
    from orchestrator.cluster import PRELOADED

    found = environment(containers(shapes["as it is"])["ray-head"])["RAY_preload_python_modules"]
    assert found == ",".join(PRELOADED)


def test_notes_say_what_is_missing() -> None:
    done = helm("install", "demo", str(CHART), "--dry-run=client", values="worker: {replicas: 2}")
    assert done.returncode == 0, done.stderr
    assert "helm -n default test demo" in done.stdout
    assert "ReadWriteMany" in done.stdout
    assert "SQLite" in done.stdout


def test_the_readmes_table_is_that_of_the_values() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/chart_values.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_value_is_used_by_a_template() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").rglob("*.*"))
    keys = [line.split("`")[1] for line in (CHART / "README.md").read_text().splitlines() if line.startswith("| `")]
    assert len(keys) > 50
    assert [key for key in keys if not re.search(rf"\.{key.rpartition('.')[2]}\b", templates)] == []


def test_the_chart_and_the_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
    locked = (ROOT / "requirements.lock").read_text()
    version = yaml.safe_load((CHART / "values.yaml").read_text())["ray"]["version"]
    assert f"\nray=={version} " in locked
