"""A real Prometheus scrapes running servers: every panel, rule and alert has data, and promtool and a linter find nothing wrong."""

from __future__ import annotations

import copy
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
import render
import yaml
from dashboard_lint import problems, unparsable
from manifests import scaling_queries
from monitored import (
    ATTENTIONS,
    BUSY_POD,
    IDLE_POD,
    NAMESPACE,
    SCRAPE_SECONDS,
    Monitored,
    values,
)
from queries import (
    GRAFANA,
    Query,
    alerted,
    dashboard_files,
    dashboards,
    panel_queries,
    recorded,
)

MOST_SECONDS = 180  # until all that has to happen has been scraped


def run(*command: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        **more,
    )


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    running = Monitored(tmp_path_factory.mktemp("monitored"))
    yield running
    running.close()
    assert running.load.failures == []


def without_data(
    monitored: Monitored, queries: list[Query], wait: float
) -> list[Query]:
    """Those that return nothing but NaN, after a while."""
    end = time.monotonic() + wait
    while True:
        queries = [
            query for query in queries if not monitored.prometheus.has_data(query.expr)
        ]
        if not queries or time.monotonic() > end:
            return queries
        time.sleep(2)


@pytest.mark.parametrize(
    "queries",
    [lambda: panel_queries(values()), recorded, alerted],
    ids=["panels", "rules", "alerts"],
)
def test_every_query_returns_data(
    monitored: Monitored, queries: Callable[[], list[Query]]
):
    asked = queries()
    assert len(asked) > 15
    empty = without_data(monitored, asked, MOST_SECONDS)
    assert not empty, "\n".join(f"{query.where}: {query.expr}" for query in empty)


def test_no_panel_shows_nan_where_nothing_comes(monitored: Monitored):
    """The second server is asked nothing."""
    address = monitored.secured.metrics
    twice = f'rate(process_cpu_seconds_total{{instance="{address}"}}[20s])'
    assert not without_data(monitored, [Query("scraped twice", twice)], MOST_SECONDS)
    idle = values(instance=[address])
    shown = [
        (f"{query.where}: {query.expr}", series["value"][1])
        for query in panel_queries(idle)
        for series in monitored.prometheus.ask("query", query=query.expr)
    ]
    assert any(value != "NaN" for _, value in shown), "no panel shows that server"
    assert [where for where, value in shown if value == "NaN"] == []


def test_a_panel_for_each_attention_is_asked_for_each():
    """All of them in one query would have data where one does."""
    asked = [query for query in panel_queries(values()) if "Stages of" in query.where]
    assert len({query.expr for query in asked}) == len(ATTENTIONS)
    assert not any("|" in query.expr for query in asked)


def test_a_misspelt_metric_would_be_found(monitored: Monitored):
    """The test above can fail, for each of its queries."""
    for query in panel_queries(values()) + recorded() + alerted():
        expr = re.sub(r"\b(fovea_|process_|scrape_|up\b)", r"misspelt_\1", query.expr)
        assert expr != query.expr, query.where
        assert not monitored.prometheus.has_data(expr), query.where


def test_the_load_reached_what_dashboards_tell_apart(monitored: Monitored):
    def labels(expr: str, name: str) -> set[str]:
        found = monitored.prometheus.ask(
            "query", query=f"count by ({name}) ({expr} > 0)"
        )
        return {series["metric"][name] for series in found}

    assert labels("fovea_requests_total", "protocol") == {"grpc", "http"}
    assert {"OK", "DEADLINE_EXCEEDED", "INVALID_ARGUMENT", "NOT_FOUND"} <= labels(
        "fovea_requests_total", "code"
    )
    assert {"dense", "knn:k=0.5", "aewin", "key_only"} == labels(
        "fovea_images_total", "attention"
    )
    assert {"64", "96", "128"} == labels("fovea_images_total", "resolution")
    assert labels("fovea_batch_padding_ratio_sum", "task") == {"detection"}


def test_stage_sums_are_the_whole_over_both_protocols(monitored: Monitored):
    """Of what a live server has counted, errors and cancelled requests among it."""
    by = "sum by (model, attention) ({})"
    difference = (
        f"abs({by.format('fovea_stage_duration_seconds_sum')} - "
        f"{by.format('fovea_request_duration_seconds_sum')}) / "
        f"({by.format('fovea_request_duration_seconds_sum')} > 0)"
    )
    # A scrape may come while a request is half counted: the next one shows it whole.
    end = time.monotonic() + 30
    while monitored.prometheus.ask("query", query=f"{difference} > 1e-6"):
        assert time.monotonic() < end
        time.sleep(SCRAPE_SECONDS)
    assert len(monitored.prometheus.ask("query", query=difference)) >= 5
    for protocol in ("grpc", "http"):
        requests = f'sum(fovea_request_duration_seconds_count{{protocol="{protocol}"}})'
        assert monitored.prometheus.ask("query", query=f"{requests} > 0")


QUEUE_WINDOW = 120  # seconds: what the autoscalers' queries look at


def mean_in_the_queue(monitored: Monitored, at: float) -> tuple[float, float]:
    """Seconds that a request waited in the window before a time, by what was scraped, and the relative precision of a rate: Prometheus
    makes its first and last sample longer by up to a scrape each."""
    growth = {"sum": 0.0, "count": 0.0}
    covered = float(QUEUE_WINDOW)
    for what in growth:
        query = f"fovea_stage_duration_seconds_{what}[{QUEUE_WINDOW}s]"
        for series in monitored.prometheus.ask("query", query=query, time=at):
            labels = series["metric"]
            if (labels["stage"], labels["instance"]) == (
                "queue",
                monitored.server.metrics,
            ):
                (first, before), *_, (last, after) = series["values"]
                growth[what] += float(after) - float(before)
                covered = min(covered, last - first)
    return growth["sum"] / growth["count"], 2 * SCRAPE_SECONDS / covered


def scaling_answers(monitored: Monitored, who: str, query: str) -> bool:
    """Whether a query of the autoscalers tells the truth about both pods, asked as they ask it."""
    at = time.time() - 2 * SCRAPE_SECONDS
    expected, precision = mean_in_the_queue(monitored, at)
    assert expected > 0 and precision < 0.1
    pods = f'namespace="{NAMESPACE}",pod=~"{BUSY_POD}|{IDLE_POD}"'
    query = query.replace("<<.LabelMatchers>>", pods).replace("<<.GroupBy>>", "pod")
    found = monitored.prometheus.ask("query", query=query, time=at)
    if who == "series":
        labels = [series["metric"] for series in found]
        return {(each.get("namespace"), each.get("pod")) for each in labels} == {
            (NAMESPACE, BUSY_POD),
            (NAMESPACE, IDLE_POD),
        }
    seconds = {each["metric"].get("pod"): float(each["value"][1]) for each in found}
    right = pytest.approx(expected, rel=precision)
    return seconds == (
        {None: right} if who == "keda" else {BUSY_POD: right, IDLE_POD: 0}
    )


@pytest.mark.parametrize("who", scaling_queries())
def test_autoscalers_are_told_how_long_requests_wait(monitored: Monitored, who: str):
    query = scaling_queries()[who]
    assert set(re.findall(r"\[(\w+)\]", query)) <= {f"{QUEUE_WINDOW // 60}m"}
    wanted = f"fovea_stage_duration_seconds_count offset {QUEUE_WINDOW // 4}s"
    assert not without_data(monitored, [Query("queue", wanted)], QUEUE_WINDOW)
    assert scaling_answers(monitored, who, query)
    # KEDA's answer is 0 where it finds nothing, and so is the adapter's.
    names = list(re.finditer(r'fovea_\w+|\w+(?=!?=")|(?<==")\w+|<<\.GroupBy>>', query))
    assert len(names) > 3
    for name in names:
        misspelt = f"{query[: name.start()]}misspelt_{query[name.start() :]}"
        misspelt = misspelt.replace("misspelt_<<.GroupBy>>", "misspelt")
        assert not scaling_answers(monitored, who, misspelt), misspelt


def test_keda_asks_of_its_namespace_alone(monitored: Monitored):
    query = scaling_queries()["keda"]
    other = query.replace(f'namespace="{NAMESPACE}"', 'namespace="other"')
    (found,) = monitored.prometheus.ask("query", query=other)
    assert other != query and float(found["value"][1]) == 0


def test_refused_keys_are_counted_from_the_first_on(monitored: Monitored):
    refused = 'increase(fovea_credential_reloads_total{what="api_keys", result="refused"}[1m]) > 0'
    assert not monitored.prometheus.has_data(refused)
    monitored.keys.write_text("no keys")
    assert not without_data(monitored, [Query("refused", refused)], 60)


def test_tritons_names_are_there_where_they_are_asked_for(monitored: Monitored):
    found = monitored.prometheus.ask("query", query="nv_inference_request_success")
    labels = {"__name__": "nv_inference_request_success", "job": "fovea"}
    labels |= {"model": "shapes", "version": "1"}
    labels |= {"namespace": NAMESPACE, "pod": IDLE_POD}
    assert [series["metric"] for series in found] == [
        labels | {"instance": monitored.secured.metrics}
    ]


@pytest.mark.parametrize("number", range(len(dashboard_files())))
def test_dashboards_follow_the_rules_of_the_linter(number: int, tmp_path: pathlib.Path):
    dashboard = dashboards()[number]
    assert problems(dashboard) == []
    assert list(unparsable(dashboard, tmp_path)) == []


def changed(change: Callable[[dict, dict], None]) -> dict:
    dashboard = copy.deepcopy(dashboards()[0])
    change(
        dashboard,
        next(panel for panel in dashboard["panels"] if panel["type"] != "row"),
    )
    return dashboard


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("uneditable-dashboard-rule", lambda board, _: board.update(editable=True)),
        (
            "template-datasource-rule",
            lambda board, _: board["templating"]["list"].pop(0),
        ),
        ("template-job-rule", lambda board, _: board["templating"]["list"].pop(1)),
        (
            "panel-datasource-rule",
            lambda _, panel: panel.update(datasource={"uid": "mine"}),
        ),
        ("panel-title-description-rule", lambda _, panel: panel.update(description="")),
        (
            "panel-units-rule",
            lambda _, panel: panel["fieldConfig"]["defaults"].pop("unit"),
        ),
        ("panel-no-targets-rule", lambda _, panel: panel.update(targets=[])),
        ("target-job-rule", lambda _, panel: panel["targets"][0].update(expr="up")),
        (
            "target-instance-rule",
            lambda _, panel: panel["targets"][0].update(expr="up{}"),
        ),
        (
            "target-rate-interval-rule",
            lambda _, panel: panel["targets"][0].update(
                expr="rate(fovea_images_total[1m])"
            ),
        ),
        (
            "target-counter-agg-rule",
            lambda _, panel: panel["targets"][0].update(
                expr="sum by (model) (fovea_images_total)"
            ),
        ),
    ],
)
def test_the_linter_finds(rule: str, change: Callable[[dict, dict], None]):
    assert any(rule in problem for problem in problems(changed(change)))


def test_the_linter_finds_what_does_not_parse(tmp_path: pathlib.Path):
    broken = changed(
        lambda _, panel: panel["targets"][0].update(expr="sum by (model (")
    )
    assert list(unparsable(broken, tmp_path))


def test_dashboards_are_as_their_program_writes_them():
    told = run(sys.executable, GRAFANA / "write_dashboards.py", "--check")
    assert told.returncode == 0, told.stdout


def test_dashboards_ask_the_source_that_is_provisioned():
    (source,) = yaml.safe_load(
        (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    for dashboard in dashboards():
        (variable,) = (
            each
            for each in dashboard["templating"]["list"]
            if each["type"] == "datasource"
        )
        assert variable["current"]["value"] == source["uid"]
        assert variable["query"] == source["type"]
    (provider,) = yaml.safe_load(
        (GRAFANA / "provisioning" / "dashboards" / "fovea.yml").read_text()
    )["providers"]
    assert provider["type"] == "file"


def test_every_row_is_in_one_picture():
    of_rows = [(uid, row) for uid, rows in render.PICTURES.values() for row in rows]
    for dashboard in dashboards():
        titles = [p["title"] for p in dashboard["panels"] if p["type"] == "row"]
        for title in titles:
            shown = [
                row
                for uid, row in of_rows
                if uid == dashboard["uid"] and title.startswith(row)
            ]
            assert len(shown) == 1, (title, shown)


def test_metrics_are_named_as_promtool_wants_them(monitored: Monitored):
    url = f"http://{monitored.server.metrics}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        told = run("promtool", "check", "metrics", input=answer.read().decode())
    assert (told.returncode, told.stdout + told.stderr) == (0, "")
