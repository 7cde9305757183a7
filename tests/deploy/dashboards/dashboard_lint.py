"""The rules of Grafana's dashboard-linter, under its names, written anew: it is packaged nowhere that these tests install from.

github.com/grafana/dashboard-linter says what each is for. PromQL is parsed by promtool.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Iterator

import yaml
from queries import filled_in, panels, without_strings

# Of Grafana's units, those that are in use here; see its valueFormats/categories.
UNITS = {"none", "short", "percentunit", "s", "bytes", "reqps", "cps", "ops"}
WITH_UNITS = {"stat", "gauge", "timeseries", "barchart", "table"}
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
GROUPINGS = r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^()]*\)"
SELECTOR = re.compile(
    r"([a-zA-Z_:][\w:]*)\s*(\{[^{}]*\})?(\s*\[[^\]]*\])?(?!\s*\()(?=[^\w:]|$)"
)


def selectors(expr: str) -> Iterator[tuple[str, str, str, str]]:
    """Of each metric in an expression: its name, matchers, range, and the function around it."""
    # Groupings name labels, and values may hold anything: neither is a metric.
    text = re.sub(GROUPINGS, lambda match: " " * len(match[0]), expr)
    strings = without_strings(text)
    for match in SELECTOR.finditer(strings):
        name = match[1]
        inside = strings[: match.start()].rfind("{") > strings[: match.start()].rfind(
            "}"
        )
        duration = strings[: match.start()].rfind("[") > strings[: match.start()].rfind(
            "]"
        )
        number = re.search(r"[\d.$]$", strings[: match.start()])
        if inside or duration or number or name in WORDS:
            continue
        around = re.search(r"(\w+)\s*\(\s*$", strings[: match.start()])
        yield (
            name,
            expr[match.start(2) : match.end(2)] if match[2] else "",
            (match[3] or "").strip(),
            around[1] if around else "",
        )


def template(dashboard: dict, name: str) -> dict | None:
    found = (each for each in dashboard["templating"]["list"] if each["name"] == name)
    return next(found, None)


def templates(dashboard: dict) -> Iterator[str]:
    sources = [
        each for each in dashboard["templating"]["list"] if each["type"] == "datasource"
    ]
    if [(each["name"], each["label"]) for each in sources] != [
        ("datasource", "Data source")
    ]:
        yield "template-datasource-rule: one variable `datasource`, labelled `Data source`"
    for name in ("job", "instance"):
        variable = template(dashboard, name)
        if variable is None:
            yield f"template-{name}-rule: there is no variable {name}"
            continue
        for key, value in {
            "type": "query",
            "label": name.capitalize(),
            "multi": True,
            "allValue": ".+",
        }.items():
            if variable.get(key) != value:
                yield f"template-{name}-rule: {key} is {variable.get(key)!r}, not {value!r}"
        if variable["datasource"]["uid"] != "${datasource}":
            yield f"template-{name}-rule: another data source"
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        if not re.fullmatch(
            r"(label_names|label_values|metrics|query_result)\(.+\)", variable["query"]
        ):
            yield f"template-label-promql-rule: {variable['name']}: {variable['query']}"
        if variable["refresh"] != 2:
            yield f"template-on-time-change-reload-rule: {variable['name']}"


def of_panel(panel: dict) -> Iterator[str]:
    if panel["datasource"]["uid"] != "${datasource}":
        yield "panel-datasource-rule"
    if not panel["title"] or not panel["description"]:
        yield "panel-title-description-rule"
    if (
        panel["type"] in WITH_UNITS
        and panel["fieldConfig"]["defaults"].get("unit") not in UNITS
    ):
        yield "panel-units-rule"
    if not panel["targets"]:
        yield "panel-no-targets-rule"
    for target in panel["targets"]:
        found = list(selectors(target["expr"]))
        if not found:
            yield f"target-promql-rule: no metric in {target['expr']}"
        for metric, matchers, duration, function in found:
            for label in ("job", "instance"):
                if f'{label}=~"${label}"' not in matchers:
                    yield f"target-{label}-rule: {metric} of {target['expr']}"
            if function in ("rate", "irate") and duration != "[$__rate_interval]":
                yield f"target-rate-interval-rule: {metric}{duration}"
            counter = metric.endswith(("_total", "_bucket", "_sum", "_count"))
            if counter and not (duration and function in ("rate", "irate", "increase")):
                yield f"target-counter-agg-rule: {metric} of {target['expr']}"


def unparsable(dashboard: dict, folder: pathlib.Path) -> Iterator[str]:
    """target-promql-rule, by promtool: the queries as a file of rules."""
    names = [each["name"] for each in dashboard["templating"]["list"]]
    values = {**dict.fromkeys(names, "x"), "__rate_interval": "1m", "__range": "1h"}
    for panel in panels(dashboard):
        for target in panel["targets"]:
            rule = {"record": "parsed", "expr": filled_in(target["expr"], values)}
            file = folder / "parsed.yml"
            file.write_text(
                yaml.safe_dump({"groups": [{"name": "parsed", "rules": [rule]}]})
            )
            told = subprocess.run(
                ["promtool", "check", "rules", file],
                check=False,
                capture_output=True,
                text=True,
            )
            if told.returncode != 0:
                yield f"target-promql-rule: {panel['title']}: {told.stderr.strip()}"


def problems(dashboard: dict) -> list[str]:
    """Everything but whether PromQL parses."""
    found = list(templates(dashboard))
    if dashboard["editable"]:
        found.append("uneditable-dashboard-rule")
    for panel in panels(dashboard):
        found += [f"{panel['title']}: {problem}" for problem in of_panel(panel)]
    return found
