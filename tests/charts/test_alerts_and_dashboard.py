"""Alert rules and dashboard: what they ask for is what the code exports, and each alert fires on what it is for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.charts.conftest import CHART, HERE

RULES = CHART / "files" / "alerts.yaml"
DASHBOARD = CHART / "dashboards" / "polypod.json"
FROM_SCRAPE = {"namespace", "le"}
SELECTED = re.compile(r"\b(polypod_[a-z_]+)(?:\{([^}]*)\})?")


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not here: scripts/debian-parts prometheus")
    return found


def alerts() -> dict[str, str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> Iterator[tuple[str, str]]:
    """(title, query) of every target, with Grafana's variables filled in."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"].replace("$__rate_interval", "5m").replace("$namespace", ".*")
            assert "$" not in query, query
            yield panel["title"], query


def queries() -> list[str]:
    return [*alerts().values(), *(query for _, query in panels())]


def test_every_query_asks_for_what_the_code_exports() -> None:
    catalogue = pytest.importorskip("orchestrator.metrics.catalogue", reason="no metrics in this polypod yet")
    known: dict[str, set[str]] = {}
    for metric in catalogue.METRICS:
        ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        known |= {metric.name + end: set(metric.labels) for end in ends}
    for query in queries():
        found = SELECTED.findall(query)
        assert found, query
        labels = set()
        for name, selector in found:
            assert name in known, f"{name} in {query}"
            named = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
            assert named <= known[name] | FROM_SCRAPE, f"{named} in {query}"
            labels |= known[name]
        grouped = {label.strip() for part in re.findall(r"\bby \(([^)]*)\)", query) for label in part.split(",")}
        assert grouped <= labels | FROM_SCRAPE, query


def test_every_query_is_promql(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": query} for n, (_, query) in enumerate(panels())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", RULES, tmp_path / "panels.yaml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_alert_fires_and_stays_silent(promtool: str, tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(HERE / "alerts_test.yaml", tmp_path)
    tried = yaml.safe_load((HERE / "alerts_test.yaml").read_text())["tests"]
    silent = {case["alertname"] for case in tried[0]["alert_rule_test"]}
    fired = {sample["labels"].split('"')[1] for sample in tried[2]["promql_expr_test"][0]["exp_samples"]}
    assert silent == set(alerts()) == fired | {"PolypodAbsent"}
    done = subprocess.run([promtool, "test", "rules", tmp_path / "alerts_test.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
