"""Compares measurements with the floors of targets.csv."""

from __future__ import annotations

import csv
import pathlib


def report(results: dict[str, float]) -> int:
    """Prints a line for each of `results`, which are named by their rows; the exit code: 1 where one misses its floor."""
    missed = False
    print(f"\n{'what':28} {'measured':>10} {'floor':>12}   met")
    with pathlib.Path(__file__).with_suffix(".csv").open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["id"] not in results:
                continue
            value, bound = results[row["id"]], float(row["bound"])
            met = value >= bound if row["sense"] == ">=" else value <= bound
            missed |= not met
            print(
                f"{row['id']:28} {value:10.2f} {row['sense']:>5} {bound:6g}   {'yes' if met else 'NO'}"
            )
    return int(missed)
