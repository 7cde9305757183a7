"""What stands around the panels of a dashboard: its variables, times and links."""

from __future__ import annotations

from panels import DATASOURCE, laid_out
from promql import SERVER


def label_variable(
    name: str,
    metric: str,
    *,
    label: str | None = None,
    multi: bool = True,
    value: object = "$__all",
    every: str = ".+",
) -> dict[str, object]:
    query = f"label_values({metric}, {name if label is None else label})"
    variable = {
        "type": "query",
        "name": name,
        "label": name.capitalize(),
        "datasource": DATASOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "sort": 3 if name == "resolution" else 1,  # by number, by letter
        "multi": multi,
        "includeAll": multi,
        "current": {"text": "All" if value == "$__all" else value, "value": value},
    }
    return variable | ({"allValue": every} if multi else {})


def dashboard(
    uid: str,
    title: str,
    description: str,
    panels: list[dict[str, object]],
    *,
    models: bool,
) -> dict[str, object]:
    variables: list[dict[str, object]] = [
        {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "query": "prometheus",
            "current": {"text": "Prometheus", "value": "fovea-prometheus"},
        },
        label_variable("job", "fovea_build_info"),
        label_variable("instance", 'fovea_build_info{job=~"$job"}'),
    ]
    if models:
        info = f"fovea_model_info{{{SERVER}}}"
        of_models = f'fovea_model_info{{{SERVER}, model=~"$model"}}'
        variables += [
            label_variable("model", info),
            label_variable("attention", of_models, every=".*"),
            label_variable(
                "baseline", of_models, label="attention", multi=False, value="dense"
            ),
            label_variable(
                "experiment", f"fovea_experiment_running{{{SERVER}}}", every=".*"
            ),
            # Those that are tested against the baseline.
            label_variable(
                "arm",
                f'fovea_experiment_latency_ratio{{{SERVER}, experiment=~"$experiment"}}',
            ),
            label_variable(
                "resolution", f'fovea_images_total{{{SERVER}, model=~"$model"}}'
            ),
        ]
    windows = ["30s", "1m", "5m", "15m", "1h", "6h"]
    variables.append(
        {
            "type": "interval",
            "name": "window",
            "label": "Window",
            "query": ",".join(windows),
            "options": [
                {"text": each, "value": each, "selected": each == "1m"}
                for each in windows
            ],
            "current": {"text": "1m", "value": "1m"},
            "auto": False,
        }
    )
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["fovea"],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "timezone": "browser",
        "templating": {"list": variables},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Fovea",
                "tags": ["fovea"],
                "asDropdown": False,
                "keepTime": True,
            }
        ],
        "panels": laid_out(panels),
    }
