"""The queries of deploy/grafana and deploy/prometheus, with their variables filled in."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re

import yaml
from running_server import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"


@dataclasses.dataclass(frozen=True)
class Query:
    where: str  # the panel, rule or alert
    expr: str


def dashboard_files() -> list[pathlib.Path]:
    return sorted((GRAFANA / "dashboards").glob("*.json"))


def dashboards() -> list[dict]:
    return [json.loads(file.read_text()) for file in dashboard_files()]


def panels(dashboard: dict) -> list[dict]:
    """Those that show something, not the rows between them."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def filled_in(text: str, values: dict[str, str | list[str]]) -> str:
    """With each `$name` and `${name}` as Grafana fills it in: of several values any, as a regular expression."""

    def value(match: re.Match[str]) -> str:
        found = values[match[1] or match[2]]
        if isinstance(found, str):
            return found
        return "|".join(re.escape(each).replace("\\", "\\\\") for each in found)

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, text)


def repeated(
    panel: dict, values: dict[str, str | list[str]]
) -> list[dict[str, str | list[str]]]:
    """The values with which a panel is drawn: one that is repeated over a variable, with each of its values alone."""
    name = panel.get("repeat")
    if name is None or isinstance(values[name], str):
        return [values]
    return [{**values, name: [each]} for each in values[name]]


def panel_queries(values: dict[str, str | list[str]]) -> list[Query]:
    return [
        Query(
            f"{dashboard['title']}: {filled_in(panel['title'], chosen)} [{target['refId']}]",
            filled_in(target["expr"], chosen),
        )
        for dashboard in dashboards()
        for panel in panels(dashboard)
        for chosen in repeated(panel, values)
        for target in panel["targets"]
    ]


def without_strings(expr: str) -> str:
    """PromQL with what stands in its strings blotted out: they may hold anything. Places stay where they are."""
    return re.sub(r'"[^"]*"', lambda match: '"' + "_" * (len(match[0]) - 2) + '"', expr)


def rules(name: str) -> list[dict]:
    groups = yaml.safe_load((PROMETHEUS / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def recorded() -> list[Query]:
    """What each recording rule computes, and what it has recorded."""
    found = rules("recording_rules.yml")
    return [
        *(Query(f"rule {rule['record']}", rule["expr"]) for rule in found),
        *(Query(f"recorded {rule['record']}", rule["record"]) for rule in found),
    ]


COMPARISON = r"\s+(?:==|!=|>=|<=|>|<)\s+[\d.]+(?:\s*\*\s*[\d.]+)?"


def alerted() -> list[Query]:
    """What each alert looks at, without the comparison that makes an alert of it."""
    queries = []
    for rule in rules("alerts.yml"):
        expr, comparisons = re.subn(COMPARISON, "", rule["expr"])
        assert comparisons, f"{rule['alert']} compares nothing"
        queries.append(Query(f"alert {rule['alert']}", expr))
    return queries
