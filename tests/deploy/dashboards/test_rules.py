"""Rules and alerts by their tests of promtool, and the tests by rules that are wrong: none of these may pass."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from mutations import mutations
from queries import PROMETHEUS, rules
from running_server import ROOT

RUNBOOKS = ROOT / "docs" / "operations" / "runbooks.md"
ALERTS = rules("alerts.yml")
RECORDED = rules("recording_rules.yml")
RULES = ("recording_rules.yml", "alerts.yml")
TESTS = sorted(PROMETHEUS.glob("*_test.yml"))

# Changes that change nothing, by rule, and why.
WHOLE = "of whole things none are counted, or at least one"
NOT_NEGATIVE = (
    "of numbers that are not negative the largest is above nothing where the sum is"
)
OTHER_SIDE = "what it leaves out has no partner on the operator's other side"
ONE_SERIES = "there is one series with these labels"
NO_TIME_IS_LESS = "it keeps out what is no number, and no time is less than nothing"
EQUIVALENT: dict[str, dict[str, str]] = {
    "FoveaErrorBudgetBurnsFast": {
        'without model!="other"': OTHER_SIDE,
        'without model!="other" (2)': OTHER_SIDE,
    },
    "FoveaErrorBudgetBurnsSlowly": {
        'without model!="other"': OTHER_SIDE,
        'without model!="other" (2)': OTHER_SIDE,
    },
    "FoveaFilesRunOut": {
        'without job="fovea"': OTHER_SIDE,
        'without job="fovea" (2)': OTHER_SIDE,
    },
    "FoveaInternalErrors": {"0 -> 0.5": WHOLE, "sum -> max": NOT_NEGATIVE},
    "FoveaOutputsNotFinite": {"0 -> 0.5": WHOLE, "sum -> max": NOT_NEGATIVE},
    "FoveaLoadFailed": {"0 -> 0.5": WHOLE},
    "FoveaCanaryFailed": {"0 -> 0.5": WHOLE},
    "FoveaDeviceLost": {"0 -> 0.5": WHOLE},
    "FoveaModelsNotServed": {"0 -> 0.5": WHOLE, "sum -> max": NOT_NEGATIVE},
    "FoveaGpuMemoryFull": {"sum -> max": ONE_SERIES, "sum -> max (2)": ONE_SERIES},
    "FoveaCredentialsRefused": {
        "0 -> 0.5": WHOLE,
        "sum -> max": NOT_NEGATIVE,
        'without result="refused" (2)': OTHER_SIDE,
    },
    "FoveaSpansLost": {"sum -> max": NOT_NEGATIVE},
    "FoveaExperimentEndedByGuardRail": {"0 -> 0.5": WHOLE, "sum -> max": NOT_NEGATIVE},
    "job_instance_experiment_arm:fovea_experiment_shadow_skipped:ratio_rate15m": {
        "sum -> max": ONE_SERIES
    },
    **{
        f"job_model_attention:fovea_request_duration_seconds:{quantile}_5m": {
            "0 -> -1": NO_TIME_IS_LESS
        }
        for quantile in ("p50", "p95", "p99")
    },
}


def name_of(rule: dict) -> str:
    return rule.get("alert") or rule["record"]


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Both outputs are one, in their order."""
    return subprocess.run(
        ["promtool", *map(str, arguments)],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@functools.cache
def read(file: pathlib.Path) -> dict:
    return yaml.safe_load(file.read_text())


def its_tests(rule: dict) -> dict:
    """The file of tests, with those alone that look at one rule."""
    kind, key = "promql_expr_test", "expr"
    if "alert" in rule:
        kind, key = "alert_rule_test", "alertname"
    for file in map(read, TESTS):
        found = []
        for test in file["tests"]:
            of_rule = [one for one in test.get(kind, []) if name_of(rule) in one[key]]
            if of_rule:
                found.append({**test, kind: of_rule})
        if found:
            return {**file, "tests": found}
    pytest.fail(f"{name_of(rule)} has no test")


def write(rule: dict, tests: dict, folder: pathlib.Path) -> pathlib.Path:
    """The file of tests of a rule. The rule comes after what it needs of what is recorded."""
    folder.mkdir()
    needed = [each for each in RECORDED if each["record"] in rule["expr"]]
    named = {"recorded": needed, "last": [rule]}
    groups = [{"name": name, "rules": found} for name, found in named.items() if found]
    # What is JSON is YAML.
    (folder / "rules.yml").write_text(json.dumps({"groups": groups}))
    order = [group["name"] for group in groups]
    tests = {**tests, "rule_files": ["rules.yml"], "group_eval_order": order}
    (folder / "tests.yml").write_text(json.dumps(tests))
    return folder / "tests.yml"


def pass_each(files: list[pathlib.Path]) -> list[bool]:
    """Whether each file's tests find nothing wrong, by one promtool: most of its time it starts."""
    told = promtool("test", "rules", *files)
    parts = re.split(r"^Unit Testing: +", told.stdout, flags=re.MULTILINE)[1:]
    assert len(parts) == len(files), told.stdout
    passed = []
    for file, part in zip(files, parts, strict=True):
        assert part.startswith(f"{file}\n"), part
        passed.append(re.search("^  SUCCESS$", part, re.MULTILINE) is not None)
        # Not because it cannot be read: a test that fails says what it expected.
        assert passed[-1] or "exp:" in part, (
            file.with_name("rules.yml").read_text() + part
        )
    assert (told.returncode == 0) == all(passed), told.stdout
    return passed


def test_promtool_finds_nothing_wrong():
    for arguments in (
        ("check", "config", PROMETHEUS / "prometheus.yml"),
        ("check", "rules", *(PROMETHEUS / name for name in RULES)),
        ("test", "rules", *TESTS),
    ):
        told = promtool(*arguments)
        assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("rule", [*ALERTS, *RECORDED], ids=name_of)
def test_a_rule_that_is_wrong_fails_its_tests(rule: dict, tmp_path: pathlib.Path):
    tests = its_tests(rule)
    changed = mutations(rule, [each["record"] for each in RECORDED])
    files = [
        write(each, tests, tmp_path / str(number))
        for number, each in enumerate([rule, *changed.values()])
    ]
    calls = min(os.cpu_count() or 1, len(files))
    passed: list[bool] = [False] * len(files)
    with ThreadPoolExecutor(calls) as pool:
        for call, found in enumerate(
            pool.map(pass_each, (files[call::calls] for call in range(calls)))
        ):
            passed[call::calls] = found
    assert passed[0], "as it is"
    survived = {name for name, each in zip(changed, passed[1:], strict=True) if each}
    assert survived == set(EQUIVALENT.get(name_of(rule), {}))


def test_every_test_is_of_an_alert():
    """One of an alert that is gone, or misspelt, would pass for ever where it expects none."""
    tested = {
        (test["name"].split()[0], one["alertname"])
        for file in TESTS
        for test in read(file)["tests"]
        for one in test.get("alert_rule_test", [])
    }
    assert tested == {(rule["alert"], rule["alert"]) for rule in ALERTS}
    assert set(EQUIVALENT) <= {name_of(rule) for rule in [*ALERTS, *RECORDED]}


def test_every_alert_has_its_runbook():
    sections = {
        line[3:].strip()
        for line in RUNBOOKS.read_text().splitlines()
        if line[:3] == "## "
    }
    for rule in ALERTS:
        assert rule["alert"] in sections
        page = f"{RUNBOOKS.relative_to(ROOT / 'docs').with_suffix('.html')}#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == (
            "{{ with $externalLabels.fovea_docs }}{{ . }}/" + page + "{{ end }}"
        )
    assert {section for section in sections if section.startswith("Fovea")} == {
        rule["alert"] for rule in ALERTS
    }
