"""The alert rules and the Grafana dashboard: well formed, and about figures that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "docs/monitoring/alerts.yml"
DASHBOARD = json.loads((ROOT / "docs/monitoring/grafana.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
SOURCE = (ROOT / "crawld/show/metrics.py").read_text(encoding="utf-8")
COUNTERS = set(re.findall(r'"(crawld_[a-z_]+)",\s*COUNTER', SOURCE))
GAUGES = set(re.findall(r'"(crawld_[a-z_]+)",\s*GAUGE', SOURCE))
HISTOGRAMS = set(re.findall(r'HistogramMetricFamily\("(crawld_[a-z_]+)"', SOURCE))
KNOWN = {f"{name}_total" for name in COUNTERS} | GAUGES | HISTOGRAMS | {f"{name}_bucket" for name in HISTOGRAMS}
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_figure_that_is_asked_for_exists(expression: str) -> None:
    """Under the very name that the daemon tells it by."""
    named = set(re.findall(r"crawld_[a-z_]+", expression))
    assert named <= KNOWN
    assert named or expression.startswith("up{")


def test_every_figure_is_in_the_document_and_on_the_dashboard() -> None:
    """But for what the dashboard has no use for."""
    document = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    told = {f"{name}_total" for name in COUNTERS} | GAUGES | HISTOGRAMS
    assert set(re.findall(r"crawld_[a-z_]+", document.split("| metric |")[1])) == told
    shown = {name for expression in EXPRESSIONS for name in re.findall(r"crawld_[a-z_]+", expression)}
    unused = {"crawld_build_info", "crawld_start_time_seconds", "crawld_writer_waiting_records"}
    assert {name.removesuffix("_bucket") for name in shown} == told - unused


def test_each_alert_says_what_to_do() -> None:
    """And how bad it is."""
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule["alert"]
        assert len(rule["annotations"]["action"]) > 40, rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]


def test_prometheus_accepts_the_rules() -> None:
    """By its own tool."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("no promtool on this machine: Debian's package prometheus has it")
    checked = subprocess.run([tool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dashboard_has_the_form_that_grafana_imports() -> None:
    """Panels with an id each that do not overlap, over a data source that is chosen at the import."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert max(x for x, _ in own) < 24
        cells |= own
