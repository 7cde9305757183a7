"""What the measures of the tasks have in common. A Measure is of one model on one data set."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from fovea import client
from fovea.evaluation.dataset_error import DatasetError
from fovea.evaluation.retry import with_retries


@dataclasses.dataclass(frozen=True)
class Model:
    """What is measured: a served model, or a variant of it that is served for a while."""

    name: str
    version: str  # empty: the latest that is served
    attention: str = ""  # over its weights; empty: its own
    served_as: str = ""  # of a variant, its name in calls; empty: the model's
    weights_of_attention: str = ""  # as fovea.serving.ServedVariant has it

    @property
    def asked(self) -> str:
        """The name in calls."""
        return self.served_as or self.name

    @property
    def asked_version(self) -> str:
        return "" if self.served_as else self.version

    @property
    def named(self) -> str:
        """As it was asked for, without its attention."""
        return f"{self.name}/{self.version}" if self.version else self.name

    def __str__(self) -> str:
        return f"{self.named} with {self.attention}" if self.attention else self.named


@dataclasses.dataclass(frozen=True)
class Figures:
    """NaN where a figure is not defined: of a class, for example, that no picture shows."""

    overall: dict[str, float]
    classes: dict[str, dict[str, float]]  # by the class's name
    notes: list[str]  # what a reader of the figures has to know
    # Overall figures of the same answers, each picture taken so often: from [resamples, pictures], in the order in which
    # `figures` was given them, to [resamples] by name. Not of all figures there need be some.
    resample: Callable[[np.ndarray], dict[str, np.ndarray]]


class PictureError(Exception):
    """A picture that does not count, and why."""


class Measure(Protocol):
    def prepare(self, server: client.Client, pictures: Iterable[pathlib.Path]) -> None:
        """Asks about the first picture that the model can answer, to see that it can answer the data set.

        client.Error: it cannot. DatasetError: its classes are not the data set's.
        """

    def ask(
        self, server: client.Client, picture: pathlib.Path
    ) -> client.Answer[Any]: ...

    def reduce(self, place: int, result: Any) -> Any:
        """What `figures` needs of a picture's result. Called from several threads. PictureError: it does not count."""

    def figures(self, reduced: Mapping[int, Any]) -> Figures:
        """Over the pictures that have been answered, by their places in the data set."""


def first_answer(
    ask: Callable[[pathlib.Path], client.Answer[Any]], pictures: Iterable[pathlib.Path]
) -> client.Answer[Any]:
    """Of the first picture that can be read. A picture may be broken; another error is every picture's.

    A server that has just been started may be loading the model.
    """
    refused: Exception | None = None
    for picture in pictures:
        try:
            return with_retries(functools.partial(ask, picture))
        except OSError as error:
            refused = refused or error
        except client.Error as error:
            if not error.reason.startswith("image."):
                raise
            refused = refused or error
    raise DatasetError(f"no picture can be answered; the first: {refused}")


def named(names: Iterable[str]) -> str:
    """Some of them, for a sentence."""
    names = [printable(name) for name in names]
    return ", ".join(names[:8]) + (
        f" and {len(names) - 8} more" if len(names) > 8 else ""
    )


def composed(label: str) -> str:
    """As two labels are compared: macOS writes the accents in folders' names as characters of their own."""
    return unicodedata.normalize("NFC", label)


def printable(text: str) -> str:
    """Without what would move a terminal's cursor: texts come from files and from a server."""
    return "".join(one if one.isprintable() else "?" for one in text)
