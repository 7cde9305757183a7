"""The dashboard of the servers themselves."""

from __future__ import annotations

from panels import lines, panel, row, target
from promql import SERVER


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
            width=3,
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
            "Servers that are ready",
            "By their health.",
            "short",
            "sum (fovea_server_ready{#})",
        ),
        number(
            "Models not served",
            "Their last load failed, or they are out of service.",
            "short",
            'sum (fovea_models{#, state=~"failed|out_of_service"})',
        ),
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
