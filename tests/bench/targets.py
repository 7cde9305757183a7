"""Compares measurements with the floors of targets.csv."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Collection


def rows_of(command: str) -> dict[str, dict[str, str]]:
    """The rows of targets.csv that `make command` measures, by their ids."""
    with pathlib.Path(__file__).with_suffix(".csv").open() as file:
        table = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["id"]: row for row in table if row["command"] == command}


def report(
    command: str, results: dict[str, float], *, left_out: Collection[str] = ()
) -> int:
    """Prints a line for each of `results`, which are named by the rows of `command`; the exit code: 1 where one misses its
    floor.

    A result without a row is an error, and so is a row without a result, but for those that the run was to leave out: a
    measurement, or its row, that is renamed would lose its floor.
    """
    rows = rows_of(command)
    if unknown := results.keys() - rows.keys():
        raise KeyError(
            f"targets.csv has no row of {command} for {', '.join(sorted(unknown))}"
        )
    if unknown := set(left_out) - rows.keys():
        raise KeyError(
            f"targets.csv has no row of {command} to leave out: {', '.join(sorted(unknown))}"
        )
    if unmeasured := rows.keys() - results.keys() - set(left_out):
        raise KeyError(f"{command} did not measure {', '.join(sorted(unmeasured))}")
    missed = False
    width = max(map(len, rows))
    print(f"\n{'what':{width}} {'measured':>10} {'floor':>12}   met")
    for name, value in results.items():
        sense, bound = rows[name]["sense"], float(rows[name]["bound"])
        met = value >= bound if sense == ">=" else value <= bound
        missed |= not met
        print(
            f"{name:{width}} {value:10.4g} {sense:>5} {bound:6g}   {'yes' if met else 'NO'}"
        )
    return int(missed)
