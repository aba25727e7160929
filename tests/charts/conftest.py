"""The chart's tools: a real helm and the schemas of Kubernetes, from `scripts/bootstrap charts`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "polypod"
TOOLS = ROOT / ".tools" / "charts"
HERE = Path(__file__).parent
KUBERNETES = "v1.37.0-local-strict"
DEFINITIONS = "_definitions.json"

Object = dict[str, Any]
Render = Callable[..., list[Object]]


def tool(name: str) -> Path:
    path = TOOLS / "bin" / name
    if not path.is_file():
        pytest.skip(f"{name} is not here: scripts/bootstrap charts (it needs pip's package index)")
    return path


def helm(*words: str, values: str = "") -> subprocess.CompletedProcess[str]:
    """`values` is YAML, laid over the chart's own."""
    given = ["--values", "-"] if values else []
    return subprocess.run([tool("helm"), *words, *given], input=values, capture_output=True, text=True, timeout=60)


def rendered(values: str = "", *words: str) -> list[Object]:
    done = helm("template", "demo", str(CHART), "--namespace", "agents", *words, values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refused(values: str) -> str:
    """Why helm will not render these."""
    done = helm("template", "demo", str(CHART), values=values)
    assert done.returncode != 0, done.stdout
    return done.stderr


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind} {name or ''}"
    return found[0]


@pytest.fixture(scope="session")
def problems() -> Callable[[Object], list[str]]:
    """What is wrong with an object, by the schemas of its kind."""
    tool("helm")
    folder = TOOLS / "kubernetes_validate" / "kubernetes-json-schema" / KUBERNETES
    definitions = json.loads((folder / "_definitions.json").read_text())
    own = json.loads((HERE / "operators.json").read_text())
    registry: Registry[Any] = Registry().with_resource(DEFINITIONS, Resource(definitions, DRAFT202012))
    return partial(_problems, definitions["$defs"], own, registry)


def _problems(definitions: Object, own: Object, registry: Registry[Any], thing: Object) -> list[str]:
    if thing["kind"] in own["kinds"]:
        schema = {"$ref": f"#/kinds/{thing['kind']}", **own}
    else:
        group, _, version = thing["apiVersion"].rpartition("/")
        named = {"group": group, "version": version, "kind": thing["kind"]}
        found = [n for n, d in definitions.items() if named in d.get("x-kubernetes-group-version-kind", ())]
        schema = {"$ref": f"{DEFINITIONS}#/$defs/{found[0]}"}
    found = Draft202012Validator(schema, registry=registry).iter_errors(thing)
    return [f"{thing['kind']} {thing['metadata']['name']} {e.json_path}: {e.message[:200]}" for e in found]
