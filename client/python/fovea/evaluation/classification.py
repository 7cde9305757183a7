"""Accuracy on a folder of pictures for each class."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from fovea import client
from fovea.evaluation.datasets import DatasetError, ImageFolder
from fovea.evaluation.measure import Figures, Model, composed, first_answer, named

_ALL = 2**31 - 1  # classes of an answer: as many as there are
_TOP = 5


class Accuracy:
    """Shares of pictures: whose most probable class is theirs ("top-1"), and of which it is one of five ("top-5")."""

    def __init__(self, dataset: ImageFolder, model: Model, by_number: bool) -> None:
        self._dataset, self._model, self._by_number = dataset, model, by_number
        self._right: list[
            set[int]
        ] = []  # the model's class numbers of each of the data set's classes
        self._top = _TOP

    def prepare(self, server: client.Client, pictures: Iterable[pathlib.Path]) -> None:
        everything = first_answer(
            lambda picture: self._classify(server, picture, _ALL), pictures
        )
        result = everything.images[0]
        self._right = self._matched(
            dict(zip(result.classes.tolist(), result.labels, strict=True))
        )
        # Of five classes or less it would say nothing.
        self._top = _TOP if len(result.classes) > _TOP else 1

    def ask(
        self, server: client.Client, picture: pathlib.Path
    ) -> client.Answer[client.Classification]:
        return self._classify(server, picture, self._top)

    def reduce(self, place: int, result: client.Classification) -> int:
        """How many classes are more probable than the right one."""
        right = self._right[self._dataset.truth[place]]
        found = [
            rank
            for rank, number in enumerate(result.classes.tolist())
            if number in right
        ]
        return found[0] if found else len(result.classes)

    def figures(self, reduced: Mapping[int, int]) -> Figures:
        ranks = np.array(list(reduced.values()), int)
        truth = np.array([self._dataset.truth[place] for place in reduced], int)
        classes = {
            name: {"top-1": _share(ranks[truth == number] < 1)}
            | self._top_5(ranks[truth == number])
            for number, name in enumerate(self._dataset.classes)
        }
        shown = [
            figures["top-1"]
            for figures in classes.values()
            if not np.isnan(figures["top-1"])
        ]
        overall = {"top-1": _share(ranks < 1)} | self._top_5(ranks)
        overall["class mean"] = float(np.mean(shown)) if shown else float("nan")
        return Figures(
            overall,
            classes,
            notes=list(self._dataset.notes),
            resample=functools.partial(self._resample, ranks, truth),
        )

    def _resample(
        self, ranks: np.ndarray, truth: np.ndarray, counts: np.ndarray
    ) -> dict[str, np.ndarray]:
        pictures = counts.sum(axis=1)
        first = counts @ (ranks < 1)
        figures = {"top-1": _ratios(first, pictures)}
        if self._top == _TOP:
            figures["top-5"] = _ratios(counts @ (ranks < _TOP), pictures)
        of_class = np.eye(len(self._dataset.classes), dtype=int)[truth]
        shown = counts @ of_class
        right = counts @ (of_class * (ranks < 1)[:, None])
        # Of the classes that are shown: there is one in every resample.
        figures["class mean"] = np.nanmean(_ratios(right, shown), axis=1)
        return figures

    def _top_5(self, ranks: np.ndarray) -> dict[str, float]:
        return {"top-5": _share(ranks < _TOP)} if self._top == _TOP else {}

    def _classify(
        self, server: client.Client, picture: pathlib.Path, top_k: int
    ) -> client.Answer[client.Classification]:
        return server.classify(
            self._model.asked, [picture], top_k=top_k, version=self._model.asked_version
        )

    def _matched(self, labels: dict[int, str]) -> list[set[int]]:
        if self._by_number or not any(labels.values()):
            beyond = [
                number for number in self._dataset.numbers if number not in labels
            ]
            if beyond:
                raise DatasetError(
                    f"model {self._model} has {len(labels)} classes, and the data set's go up to number {max(beyond)}"
                )
            return [{number} for number in self._dataset.numbers]
        numbers: dict[str, set[int]] = {}
        for number, label in labels.items():
            numbers.setdefault(composed(label), set()).add(number)
        classes = [composed(name) for name in self._dataset.classes]
        shown = {classes[place] for place in self._dataset.truth}
        if unknown := sorted(shown - set(numbers)):
            known = named(labels[number] for number in sorted(labels))
            raise DatasetError(
                f"{len(unknown)} of the {len(shown)} classes of the data set are no labels of model "
                f"{self._model}: {named(unknown)}. It has {known}. --by-number takes the classes in their order instead"
            )
        # Of a folder without pictures nothing is asked.
        return [numbers.get(name, set()) for name in classes]


def _share(hits: np.ndarray) -> float:
    return float(hits.mean()) if hits.size else float("nan")


def _ratios(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """NaN where there is no whole."""
    ratios = np.full(parts.shape, np.nan)
    np.divide(parts, wholes, out=ratios, where=wholes > 0)
    return ratios
