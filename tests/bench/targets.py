"""Compares measurements with the floors of targets.csv."""

from __future__ import annotations

import csv
import pathlib


def report(results: dict[str, float]) -> int:
    """Prints a line for each of `results`, which are named by their rows; the exit code: 1 where one misses its floor.

    A result without a row is an error: a measurement, or its row, that is renamed would lose its floor.
    """
    with pathlib.Path(__file__).with_suffix(".csv").open() as file:
        table = csv.DictReader(line for line in file if not line.startswith("#"))
        rows = {row["id"]: row for row in table}
    if unknown := results.keys() - rows.keys():
        raise KeyError(f"targets.csv has no row for {', '.join(sorted(unknown))}")
    missed = False
    print(f"\n{'what':28} {'measured':>10} {'floor':>12}   met")
    for name, value in results.items():
        sense, bound = rows[name]["sense"], float(rows[name]["bound"])
        met = value >= bound if sense == ">=" else value <= bound
        missed |= not met
        print(
            f"{name:28} {value:10.4g} {sense:>5} {bound:6g}   {'yes' if met else 'NO'}"
        )
    return int(missed)
