"""Writes the dashboards that Grafana is provisioned with: write_dashboards.py [--check]

They are written by a program so that every panel has the same variables, units and words. `--check` writes nothing, and
exits 1 where a file is not as it would be written.
"""

from __future__ import annotations

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # of Grafana's grid

SERVER = 'job=~"$job", instance=~"$instance"'
CHOSEN = f'{SERVER}, model=~"$model", attention=~"$attention"'
BASELINE = f'{SERVER}, model=~"$model", attention="$baseline"'
SIZED = 'resolution=~"$resolution"'


def rate(metric: str, labels: str = CHOSEN) -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def grown(metric: str, labels: str = CHOSEN) -> str:
    """By how much a counter has grown over the time that the dashboard shows."""
    return f"increase({metric}{{{labels}}}[$__range])"


def quantile(q: float, metric: str, by: str = "attention", labels: str = CHOSEN) -> str:
    comma = ", " if by else ""
    return f"histogram_quantile({q}, sum by ({by}{comma}le) ({rate(metric + '_bucket', labels)}))"


def mean(metric: str, by: str = "attention", labels: str = CHOSEN) -> str:
    total, count = (
        f"sum by ({by}) ({rate(metric + part, labels)})" for part in ("_sum", "_count")
    )
    return f"{total} / {count}"


def with_label(matcher: str, value: str) -> str:
    return f'{CHOSEN}, {matcher}"{value}"'


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


DURATION = "fovea_request_duration_seconds"
STAGE = "fovea_stage_duration_seconds"
BATCH = "fovea_batch_duration_seconds"
PEAK = "fovea_batch_peak_memory_bytes"
BY = "task, attention, resolution"
# Codes that are not the caller's fault, as deploy/prometheus/recording_rules.yml has them.
FAULTS = "DEADLINE_EXCEEDED|UNAVAILABLE|INTERNAL|UNKNOWN|DATA_LOSS"


def per_image(labels: str, by: str) -> str:
    """Seconds that a batch took, divided by its images."""
    return (
        f"sum by ({by}) ({grown(BATCH + '_sum', f'{labels}, {SIZED}')}) / "
        f"(sum by ({by}) ({grown('fovea_images_total', f'{labels}, {SIZED}')}) > 0)"
    )


def peak(labels: str, by: str) -> str:
    return (
        f"sum by ({by}) ({grown(PEAK + '_sum', f'{labels}, {SIZED}')}) / "
        f"(sum by ({by}) ({grown(PEAK + '_count', f'{labels}, {SIZED}')}) > 0)"
    )


def of_baseline(measure) -> str:
    """The same measure of the baseline's, for models of the same task at the same resolution."""
    return f"({measure(CHOSEN, BY)}) / on (task, resolution) group_left () ({measure(BASELINE, 'task, resolution')})"


def cpu_per_image(labels: str, by: str) -> str:
    return (
        f"sum by ({by}) ({rate('fovea_cpu_seconds_total', labels)}) / "
        f"(sum by ({by}) ({rate('fovea_images_total', labels)}) > 0)"
    )


def attention_panels() -> list[dict[str, object]]:
    quantiles = [
        lines(
            f"Latency, {name}",
            f"Of whole requests, from the arrival of their message to the encoded answer: {words}. Read from buckets that grow by "
            "2^(1/4): off by at most 19 %, mostly by less than 10 %. To compare attentions closely, use `fovea compare`.",
            "s",
            quantile(q, DURATION),
        )
        for q, name, words in (
            (0.5, "p50", "half of them take less"),
            (0.95, "p95", "one in twenty takes more"),
            (0.99, "p99", "one in a hundred takes more"),
        )
    ]
    return [
        row("Latency"),
        *quantiles,
        lines(
            "p95 as a multiple of the baseline's",
            "1 is the chosen baseline. It compares all requests of the chosen models, whatever their task and load.",
            "none",
            f"{quantile(0.95, DURATION)} / on () group_left () {quantile(0.95, DURATION, by='', labels=BASELINE)}",
            width=12,
        ),
        lines(
            "p95 of each stage",
            "Of all chosen attentions together. Quantiles of stages do not add up; their means do.",
            "s",
            quantile(0.95, STAGE, by="stage"),
            "{{stage}}",
            width=12,
        ),
        row("Throughput"),
        lines(
            "Requests",
            "Answered requests, whatever the answer.",
            "reqps",
            f"sum by (attention) ({rate('fovea_requests_total')})",
        ),
        lines(
            "Images",
            "Images that models have run.",
            "cps",
            f"sum by (attention) ({rate('fovea_images_total')})",
        ),
        lines(
            "Requests that were not answered OK",
            "By gRPC's status code, over both protocols.",
            "reqps",
            f"sum by (attention, code) ({rate('fovea_requests_total', with_label('code!=', 'OK'))}) > 0",
            "{{attention}} {{code}}",
        ),
        row("Where the time goes"),
        bars(
            "Mean time of a request by stage",
            "Over the time shown. The stages add up to the whole request.",
            "s",
            f"sum by (attention, stage) ({grown(STAGE + '_sum')}) / on (attention) group_left () "
            f"(sum by (attention) ({grown(DURATION + '_count')}) > 0)",
            "attention",
            "stage",
            stack=True,
            width=24,
        ),
        panel(
            "timeseries",
            "Stages of $attention",
            "Mean time of a request in each stage, stacked. A panel for each chosen attention.",
            "s",
            [
                target(
                    f"sum by (stage) ({rate(STAGE + '_sum')}) / on () group_left () sum ({rate(DURATION + '_count')})",
                    "{{stage}}",
                )
            ],
            stack=True,
            smallest=0,
            repeat="attention",
            repeatDirection="h",
            maxPerRow=3,
        ),
        row("Batches"),
        panel(
            "heatmap",
            "Sizes of batches",
            "How many batches had so many images.",
            "short",
            [
                target(
                    f"sum by (le) (increase(fovea_batch_size_bucket{{{CHOSEN}}}[$__rate_interval]))",
                    "{{le}}",
                    format="heatmap",
                )
            ],
            options={
                "calculate": False,
                "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
                "yAxis": {"unit": "short"},
                "rowsFrame": {"layout": "auto"},
                "legend": {"show": True},
                "tooltip": {"mode": "single", "yHistogram": True},
            },
        ),
        lines("Mean size of a batch", "Images.", "short", mean("fovea_batch_size")),
        lines(
            "Why batches were closed",
            "full: as many waited as there was room for; preferred: a preferred size was reached; deadline: waiting longer would have "
            "missed one; delay: the queue delay was used up; idle: the device was idle; drain: the server stops.",
            "cps",
            f"sum by (reason) ({rate('fovea_batch_close_reason_total')})",
            "{{reason}}",
            stack=True,
        ),
        lines(
            "Padding",
            "Of models whose pictures keep their shape: the share of a batch's pixels that shows nothing of them.",
            "percentunit",
            mean("fovea_batch_padding_ratio"),
        ),
        lines(
            "Threads of a batch",
            "Threads of the CPU that ran a batch: fewer for each while many requests wait.",
            "short",
            mean("fovea_batch_threads"),
        ),
        lines(
            "Time of a batch, p95",
            "Copying its pixels together and running the model.",
            "s",
            quantile(0.95, BATCH),
        ),
        row("Memory"),
        bars(
            "Memory of models by kind",
            "weights: what a loaded model holds all the time; activations_peak: what its largest batch held in the warm-up.",
            "bytes",
            f"sum by (attention, kind) (fovea_model_memory_bytes{{{CHOSEN}}})",
            "attention",
            "kind",
            stack=True,
        ),
        lines(
            "Peak of a batch, mean",
            "The most bytes that a batch's tensors held at one time, without weights.",
            "bytes",
            mean(PEAK),
        ),
        lines(
            "Peak of a batch, p95",
            "Read from buckets that grow by 2: an order of magnitude.",
            "bytes",
            quantile(0.95, PEAK),
        ),
        row("Against resolution, with $baseline as the baseline"),
        bars(
            "Time of an image against resolution",
            "Time of batches divided by their images, over the time shown. Resolution: the side of a square with as many pixels.",
            "s",
            per_image(CHOSEN, "attention, resolution"),
            "resolution",
            "attention",
            width=12,
        ),
        bars(
            "Time of an image, as a multiple of the baseline's",
            "For models of the same task at the same resolution; 1 is the baseline.",
            "none",
            f"avg by (attention, resolution) ({of_baseline(per_image)})",
            "resolution",
            "attention",
            width=12,
        ),
        bars(
            "Peak memory of a batch against resolution",
            "Mean over the batches of the time shown. Larger batches hold more: compare where their sizes are alike.",
            "bytes",
            peak(CHOSEN, "attention, resolution"),
            "resolution",
            "attention",
            width=12,
        ),
        bars(
            "Peak memory, as a multiple of the baseline's",
            "For models of the same task at the same resolution; 1 is the baseline.",
            "none",
            f"avg by (attention, resolution) ({of_baseline(peak)})",
            "resolution",
            "attention",
            width=12,
        ),
        row("Cost"),
        lines(
            "CPU-seconds of an image",
            "Seconds of one core that were taken for each image that ran: imaging's threads, and those that a batch had. What was cancelled counts.",
            "s",
            cpu_per_image(CHOSEN, "attention"),
        ),
        lines(
            "CPU-seconds, as a multiple of the baseline's",
            "For models of the same task; 1 is the baseline.",
            "none",
            f"avg by (attention) (({cpu_per_image(CHOSEN, 'task, attention')}) / on (task) group_left () "
            f"({cpu_per_image(BASELINE, 'task')}))",
        ),
        lines(
            "Cores in use",
            "By what they were taken for.",
            "short",
            f"sum by (stage) ({rate('fovea_cpu_seconds_total')})",
            "{{stage}}",
            stack=True,
        ),
        row("Promises"),
        panel(
            "timeseries",
            "Goodput and deadline misses",
            "Requests that were answered OK: none is after its deadline. Misses are answered DEADLINE_EXCEEDED.",
            "reqps",
            [
                target(
                    f'sum by (attention) (rate(fovea_requests_total{{{CHOSEN}, code="OK"}}[$__rate_interval]))',
                    "{{attention}}",
                ),
                target(
                    f'sum by (attention) (rate(fovea_requests_total{{{CHOSEN}, code="DEADLINE_EXCEEDED"}}[$__rate_interval]))',
                    "{{attention}} missed",
                ),
            ],
            smallest=0,
        ),
        lines(
            "Error budget burnt",
            "How many times faster than the objective allows (99.5 % of the requests that are not the caller's fault). "
            "Alerts begin at 14.4 over an hour and at 6 over six hours.",
            "none",
            f"sum by (attention) ({rate('fovea_requests_total', with_label('code=~', FAULTS))}) / "
            f"sum by (attention) ({rate('fovea_requests_total', with_label('code=~', 'OK|' + FAULTS))}) / 0.005",
        ),
        lines(
            "Depth of queues",
            "Requests that hold a place.",
            "short",
            f"sum by (attention) (fovea_queue_depth{{{CHOSEN}}})",
        ),
        lines(
            "Requests that left a queue without being run",
            "full: there was no place; deadline: it had passed or could not be met; cancelled: the caller has gone; draining: the model or the server stops.",
            "reqps",
            f"sum by (attention, reason) ({rate('fovea_queue_rejected_total')}) > 0",
            "{{attention}} {{reason}}",
        ),
        lines(
            "Cancelled work",
            "Of requests that nobody waited for any more. Wasted: measured. Saved: an estimate, by forecast.",
            "short",
            f"sum by (stage, outcome) ({rate('fovea_cancelled_work_seconds_total')})",
            "{{stage}} {{outcome}}",
        ),
        lines(
            "Share of a request's time in the queue",
            "Near 1 requests mostly wait: more replicas, or a cheaper attention.",
            "percentunit",
            f"sum by (attention) ({rate(STAGE + '_sum', with_label('stage=', 'queue'))}) / "
            f"sum by (attention) ({rate(DURATION + '_sum')})",
        ),
    ]


def server_panels() -> list[dict[str, object]]:
    def of(expr: str) -> str:
        return expr.replace("#", SERVER)

    def server(
        title: str,
        description: str,
        unit: str,
        expr: str,
        legend: str = "{{instance}}",
        **more,
    ) -> dict[str, object]:
        return lines(title, description, unit, of(expr), legend, **more)

    def number(title: str, description: str, unit: str, expr: str) -> dict[str, object]:
        return panel(
            "stat",
            title,
            description,
            unit,
            [target(of(expr), "", instant=True, range=False)],
            width=4,
            height=4,
            options={
                "reduceOptions": {
                    "calcs": ["lastNotNull"],
                    "fields": "",
                    "values": False,
                },
                "graphMode": "none",
            },
        )

    return [
        row("State"),
        number("Servers", "That Prometheus reaches.", "short", "sum (up{#})"),
        number(
            "Versions that serve", "Of models.", "short", "sum (fovea_model_info{#})"
        ),
        number(
            "Loads that failed",
            "Over the time shown.",
            "short",
            "sum (increase(fovea_model_load_failures_total{#}[$__range]))",
        ),
        number(
            "Canaries that failed",
            "Over the time shown.",
            "short",
            "sum (increase(fovea_model_canary_failures_total{#}[$__range]))",
        ),
        number(
            "Devices lost",
            "Over the time shown.",
            "short",
            "sum (increase(fovea_model_device_losses_total{#}[$__range]))",
        ),
        number(
            "Youngest server",
            "Since its start.",
            "s",
            "min (time() - process_start_time_seconds{#})",
        ),
        row("Requests"),
        server(
            "Requests by protocol",
            "Answered ones.",
            "reqps",
            "sum by (protocol) (rate(fovea_requests_total{#}[$__rate_interval]))",
            "{{protocol}}",
        ),
        server(
            "Requests by code",
            "Those that named no loaded version are among them.",
            "reqps",
            "sum by (code) (rate(fovea_requests_total{#}[$__rate_interval])) > 0",
            "{{code}}",
            stack=True,
        ),
        server(
            "Requests under way",
            "That have arrived and are not yet answered.",
            "short",
            "sum by (instance) (fovea_inflight_requests{#})",
        ),
        row("Process"),
        server(
            "Resident memory",
            "Of the whole process: weights, activations, requests.",
            "bytes",
            "process_resident_memory_bytes{#}",
        ),
        server(
            "Cores",
            "Processor time of the whole process.",
            "short",
            "rate(process_cpu_seconds_total{#}[$__rate_interval])",
        ),
        server(
            "Open files",
            "As a share of what it may open; half of them bound HTTP's connections.",
            "percentunit",
            "process_open_fds{#} / process_max_fds{#}",
        ),
        row("GPUs, where there are any"),
        server(
            "Memory of GPUs",
            "Of whole GPUs, whoever uses them, as their driver tells.",
            "bytes",
            "sum by (instance, gpu, kind) (fovea_gpu_memory_bytes{#})",
            "{{gpu}} {{kind}}",
            width=12,
        ),
        server(
            "Use of GPUs",
            "Share of the time that a GPU worked.",
            "percentunit",
            "fovea_gpu_utilization_ratio{#}",
            "{{gpu}}",
            width=12,
        ),
        row("Around it"),
        server(
            "Time of a scrape",
            "That Prometheus takes for one server.",
            "s",
            "scrape_duration_seconds{#}",
        ),
        server(
            "Series of a scrape",
            "768 for each version with one resolution.",
            "short",
            "scrape_samples_scraped{#}",
        ),
        server(
            "Versions by attention",
            "That serve.",
            "short",
            "count by (attention) (fovea_model_info{#})",
            "{{attention}}",
            stack=True,
        ),
    ]


def dashboards() -> dict[str, dict[str, object]]:
    return {
        "fovea-attention.json": dashboard(
            "fovea-attention",
            "Fovea / Attention",
            "What each attention costs: latency, throughput, memory and CPU-seconds, beside a baseline of your choice.",
            attention_panels(),
            models=True,
        ),
        "fovea-server.json": dashboard(
            "fovea-server",
            "Fovea / Server",
            "The servers themselves: state, requests, process, GPUs, scrapes.",
            server_panels(),
            models=False,
        ),
    }


def main(arguments: list[str]) -> int:
    changed = []
    for name, content in dashboards().items():
        file, text = (
            FOLDER / name,
            json.dumps(content, indent=1, ensure_ascii=False) + "\n",
        )
        if file.exists() and file.read_text() == text:
            continue
        changed.append(name)
        if "--check" not in arguments:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text)
    for name in changed:
        print(
            f"{name}: {'not as write_dashboards.py writes it' if '--check' in arguments else 'written'}"
        )
    return 1 if changed and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
