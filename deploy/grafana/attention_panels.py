"""The dashboard of attentions: what each costs, beside a baseline."""

from __future__ import annotations

from panels import bars, lines, panel, row, target
from promql import BASELINE, CHOSEN, SIZED, grown, mean, quantile, rate, with_label

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
                    f"sum by (stage) ({rate(STAGE + '_sum')}) / on () group_left () (sum ({rate(DURATION + '_count')}) > 0)",
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
            f"(sum by (attention) ({rate('fovea_requests_total', with_label('code=~', 'OK|' + FAULTS))}) > 0) / 0.005",
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
            f"(sum by (attention) ({rate(DURATION + '_sum')}) > 0)",
        ),
    ]
