"""The runs of train_families.py, as its results folder holds them."""

from __future__ import annotations

import csv
import dataclasses
import pathlib
import statistics


def name_of(family: str, seed: int) -> str:
    return f"{family}_seed{seed}"


@dataclasses.dataclass
class Family:
    """One attention's models, a row of runs.csv a seed."""

    name: str
    runs: list[dict[str, str]]

    @property
    def attention(self) -> str:
        return self.runs[0]["attention"]

    @property
    def accuracies(self) -> list[float]:
        """In percent."""
        return [100 * int(run["correct"]) / int(run["images"]) for run in self.runs]

    @property
    def mean_accuracy(self) -> float:
        return statistics.mean(self.accuracies)

    def middle(self, column: str) -> float:
        """The median over the seeds."""
        return statistics.median(float(run[column]) for run in self.runs)


def read_runs(results: pathlib.Path) -> list[Family]:
    """The most accurate family first."""
    families: dict[str, Family] = {}
    with (results / "runs.csv").open() as file:
        for run in csv.DictReader(file):
            name = run["model"].rpartition("_seed")[0]
            families.setdefault(name, Family(name, [])).runs.append(run)
    return sorted(families.values(), key=lambda family: -family.mean_accuracy)


def read_training(results: pathlib.Path, run: dict[str, str]) -> list[float]:
    """Validation accuracy after each epoch, in percent."""
    with (results / "training" / f"{run['model']}.csv").open() as file:
        return [100 * float(row["validation_accuracy"]) for row in csv.DictReader(file)]
