"""What docs/operations/scaling.md plans: its tables are what the sweep beside it holds, and what `fovea capacity` makes of that."""

from __future__ import annotations

import csv
import re
import subprocess

import pytest
from documents import ROOT
from running_server import BUILD

PAGE = ROOT / "docs/operations/scaling.md"
SWEEP = ROOT / "docs/operations/batches.csv"
COMMAND = r"fovea capacity (\d+) (\d+) batches.csv\n"


def table(first: str) -> list[list[str]]:
    """The cells of the table whose first row begins with these, that row first."""
    lines = PAGE.read_text().splitlines()
    (start,) = (i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" `") for cell in line.strip("|").split("|")])
    del rows[1]
    return rows


def says(cell: str, value: float) -> None:
    """A cell tells the value, to as many digits as it has."""
    number = re.match(r"[\d.,]+", cell)[0].replace(",", "")
    digits = len(number.partition(".")[2])
    assert number == f"{value:.{digits}f}", cell


def planned(arrivals: str = "") -> tuple[float, dict[str, list[float]]]:
    """Images a second of a replica, and rows by the number of replicas."""
    rate, p99 = re.search(COMMAND, PAGE.read_text()).groups()
    told = subprocess.run(
        [BUILD / "bin/fovea-capacity", rate, p99, SWEEP, arrivals],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout.splitlines()
    capacity = re.search(r"at most ([\d.]+) images/s", told[0])[1]
    rows = [line.split() for line in told[2:]]
    return float(capacity), {row[0]: [float(value) for value in row] for row in rows}


def test_the_table_of_batches_is_the_sweeps() -> None:
    with SWEEP.open() as file:
        points = {row["value"]: row for row in csv.DictReader(file)}
    batches, compute, images = table("batch")
    assert batches[1:] == list(points)
    for place, batch in enumerate(batches[1:], start=1):
        says(compute[place], float(points[batch]["compute_ms_median"]))
        says(images[place], float(points[batch]["images_per_second"]))


def test_replicas_are_what_capacity_plans() -> None:
    capacity, rows = planned()
    said = re.search(r"more than ([\d,]+) images a second", PAGE.read_text())
    says(said[1], capacity)
    shown = table("replicas | load")[1:]
    assert [row[0] for row in shown] == list(rows)
    for cells in shown:
        for cell, value in zip(cells, rows[cells[0]], strict=True):
            says(cell, value)


@pytest.mark.parametrize("arrivals", ["diurnal", "bursty"])
def test_replicas_for_other_arrivals_are_what_capacity_plans(arrivals: str) -> None:
    _, rows = planned(arrivals)
    shown = [cells[1:] for cells in table("arrivals")[1:] if cells[0] == arrivals]
    assert len(shown) >= 2
    assert shown[-1][0] == list(rows)[-1], "the number that suffices"
    for replicas, load, answered, p99 in shown:
        _, of_load, of_answered, _, of_p99, _ = rows[replicas]
        for cell, value in ((load, of_load), (answered, of_answered), (p99, of_p99)):
            says(cell, value)
