"""Panels of Grafana's: kinds that are in use here, and where they lie on a dashboard."""

from __future__ import annotations

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # of Grafana's grid


def target(expr: str, legend: str, **more: object) -> dict[str, object]:
    return {"datasource": DATASOURCE, "expr": expr, "legendFormat": legend, **more}


def panel(
    kind: str,
    title: str,
    description: str,
    unit: str,
    targets: list[dict[str, object]],
    width: int = 8,
    *,
    height: int = 8,
    stack: bool = False,
    smallest: float | None = None,
    options: dict[str, object] | None = None,
    **more: object,
) -> dict[str, object]:
    custom: dict[str, object] = {}
    if kind == "timeseries":
        custom = {
            "lineWidth": 1,
            "fillOpacity": 60 if stack else 5,
            "showPoints": "never",
        }
    if kind == "barchart":
        custom = {"lineWidth": 0, "fillOpacity": 80}
    if stack and kind == "timeseries":
        custom["stacking"] = {"mode": "normal", "group": "A"}
    defaults: dict[str, object] = {"unit": unit, "custom": custom}
    if smallest is not None:
        defaults["min"] = smallest
    if options is None:
        options = {"legend": {"displayMode": "list", "placement": "bottom"}}
        if kind == "timeseries":
            options["tooltip"] = {"mode": "multi", "sort": "desc"}
        if kind == "barchart":
            options |= {
                "xTickLabelSpacing": 0,
                "stacking": "normal" if stack else "none",
            }
    for letter, each in zip("ABCDEFG", targets):
        each.setdefault("refId", letter)
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": targets,
        **({"interval": "$window"} if kind in ("timeseries", "heatmap") else {}),
        **more,
    }


def lines(
    title: str,
    description: str,
    unit: str,
    expr: str,
    legend: str = "{{attention}}",
    **more,
) -> dict[str, object]:
    return panel(
        "timeseries",
        title,
        description,
        unit,
        [target(expr, legend)],
        smallest=0,
        **more,
    )


def bars(
    title: str, description: str, unit: str, expr: str, rows: str, columns: str, **more
) -> dict[str, object]:
    """A bar, or a part of one, for each pair of two labels, over the time that the dashboard shows."""
    matrix = [
        {
            "id": "groupingToMatrix",
            "options": {
                "columnField": columns,
                "rowField": rows,
                "valueField": "Value",
            },
        }
    ]
    if rows == "resolution":
        # In the order of the numbers; the axis of a bar chart takes text.
        def convert(field: str, to: str) -> dict[str, object]:
            return {
                "id": "convertFieldType",
                "options": {
                    "conversions": [{"targetField": field, "destinationType": to}],
                    "fields": {},
                },
            }

        matrix = [
            convert(rows, "number"),
            {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": rows}]}},
            *matrix,
            convert(rf"{rows}\{columns}", "string"),
        ]
    return panel(
        "barchart",
        title,
        description,
        unit,
        [
            target(
                expr, "{{" + columns + "}}", instant=True, range=False, format="table"
            )
        ],
        transformations=matrix,
        smallest=0,
        **more,
    )


def row(title: str) -> dict[str, object]:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"w": WIDTH, "h": 1},
        "panels": [],
    }


def laid_out(panels: list[dict[str, object]]) -> list[dict[str, object]]:
    """With their places: from left to right, in lines."""
    x = y = line = 0
    for number, each in enumerate(panels, 1):
        place = each["gridPos"]
        if x + place["w"] > WIDTH:
            x, y, line = 0, y + line, 0
        place |= {"x": x, "y": y}
        x, line = x + place["w"], max(line, place["h"])
        each["id"] = number
    return panels
