"""Queries that several panels share: what is chosen on a dashboard, and how a metric is asked for."""

from __future__ import annotations

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
    # Without traffic it is NaN, which no comparison lets through.
    return f"(histogram_quantile({q}, sum by ({by}{comma}le) ({rate(metric + '_bucket', labels)})) >= 0)"


def mean(metric: str, by: str = "attention", labels: str = CHOSEN) -> str:
    total, count = (
        f"sum by ({by}) ({rate(metric + part, labels)})" for part in ("_sum", "_count")
    )
    return f"{total} / ({count} > 0)"


def with_label(matcher: str, value: str) -> str:
    return f'{CHOSEN}, {matcher}"{value}"'
