"""The row of live comparisons: who answers, and how each arm does against the baseline."""

from __future__ import annotations

from typing import Any

from panels import lines, panel, row, target
from promql import SERVER, rate

REQUESTS = "fovea_experiment_requests_total"
CHOSEN = f'{SERVER}, experiment=~"$experiment"'


def with_outcome(outcomes: str) -> str:
    return f'{CHOSEN}, outcome=~"{outcomes}"'


def interval(
    title: str,
    description: str,
    unit: str,
    metric: str,
    none: float,
    smallest: float | None = None,
) -> dict[str, object]:
    """An estimate in its interval, which holds the truth at all times at once; a panel for each arm."""

    def bound(combine: str, name: str) -> dict[str, object]:
        labels = f'{CHOSEN}, arm="$arm", bound="{name}"'
        return target(f"{combine} ({metric}{{{labels}}})", name)

    def style(name: str, **custom: object) -> dict[str, object]:
        return {
            "matcher": {"id": "byName", "options": name},
            "properties": [
                {"id": f"custom.{key}", "value": value} for key, value in custom.items()
            ],
        }

    found = panel(
        "timeseries",
        title,
        f"{description} A panel for each arm. Of several servers, each of which has an experiment of its own: the mean of the "
        "estimates, and what all of their intervals hold together.",
        unit,
        [bound("avg", "estimate"), bound("min", "lower"), bound("max", "upper")],
        smallest=smallest,
        repeat="arm",
        repeatDirection="h",
        maxPerRow=3,
    )
    # The band between the bounds, and a line where there is no difference.
    field: Any = found["fieldConfig"]
    field["overrides"] = [
        style("estimate", lineWidth=2, fillOpacity=0),
        style("lower", lineWidth=0, fillOpacity=0),
        style("upper", lineWidth=0, fillBelowTo="lower", fillOpacity=25),
    ]
    field["defaults"]["custom"]["thresholdsStyle"] = {"mode": "line"}
    field["defaults"]["thresholds"] = {
        "mode": "absolute",
        "steps": [
            {"color": "transparent", "value": None},
            {"color": "text", "value": none},
        ],
    }
    return found


def experiment_panels() -> list[dict[str, object]]:
    return [
        row("Experiments"),
        lines(
            "Which experiments run",
            "1: it shares the model's traffic out, or copies it. 0: it has ended, and all traffic goes to the baseline.",
            "short",
            f"max by (experiment, model) (fovea_experiment_running{{{CHOSEN}}})",
            "{{experiment}} on {{model}}",
            width=6,
        ),
        lines(
            "Experiments that ended",
            "Over the time shown. stopped: by a caller; guard_rail: an arm was certainly worse than it may be; expired: its time "
            "was over; model_gone: the baseline's model is not served any more.",
            "short",
            f"sum by (reason) (increase(fovea_experiments_ended_total{{{SERVER}}}[$__range]))",
            "{{reason}}",
            width=6,
        ),
        lines(
            "Traffic by arm",
            "Requests that each arm has answered, failures among them.",
            "reqps",
            f"sum by (arm) ({rate(REQUESTS, with_outcome('ok|failed'))})",
            "{{arm}}",
            stack=True,
            width=6,
        ),
        lines(
            "Shadow copies",
            "shadow: a copy of a request that was run while the device was idle. shadow_skipped: one that was not made, because the "
            "device was busy or the share of copies was used up.",
            "cps",
            f"sum by (arm, outcome) ({rate(REQUESTS, with_outcome('shadow|shadow_skipped'))}) > 0",
            "{{arm}} {{outcome}}",
            width=6,
        ),
        interval(
            "Latency of $arm, to the baseline's",
            "Ratio of the geometric means: of an arm with traffic, from arrival to answer; of one that only gets copies, of the "
            "compute stage.",
            "none",
            "fovea_experiment_latency_ratio",
            none=1,
        ),
        interval(
            "Answers of $arm that are not the baseline's",
            "Share of the copies whose first class, objects or class map differ.",
            "percentunit",
            "fovea_experiment_disagreement",
            none=0,
            smallest=0,
        ),
        interval(
            "Failures of $arm, beyond the baseline's",
            "Share of the requests that fail, less the baseline's.",
            "percentunit",
            "fovea_experiment_error_excess",
            none=0,
        ),
    ]
