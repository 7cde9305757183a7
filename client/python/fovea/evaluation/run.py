"""Asks a server about every picture of a data set, several at a time."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tqdm

from fovea import client
from fovea.evaluation.cost import Cost, Difference, measure_costs
from fovea.evaluation.intervals import resampled
from fovea.evaluation.measure import Figures, Measure, Model, PictureError, printable
from fovea.evaluation.retry import with_retries

_SHOWN_FAILURES = 10


class Interrupted(Exception):
    """Ctrl-C. `answered`: pictures."""

    def __init__(self, answered: int) -> None:
        super().__init__(answered)
        self.answered = answered


@dataclasses.dataclass(frozen=True)
class Failure:
    """Of one picture, which no figure counts."""

    picture: pathlib.Path
    code: str  # gRPC's; empty where the server was not asked, or its answer does not fit the data set
    reason: str
    message: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one model."""

    model: Model
    version: str  # that answered; empty: none
    attention: str
    untrained: bool
    answered: int
    failures: list[Failure]
    figures: Figures
    samples: dict[
        str, np.ndarray
    ]  # by figure, of each resample; empty: too few pictures
    cost: Cost = dataclasses.field(default_factory=Cost)
    cost_differences: dict[str, Difference] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Reply:
    answer: client.Answer[Any]
    reduced: Any


def run(
    server: client.Client,
    model: Model,
    measure: Measure,
    pictures: Sequence[pathlib.Path],
    places: Sequence[int],
    concurrency: int,
) -> Outcome:
    """`places`: of the pictures to ask about. The figures do not depend on the order of the answers.

    client.Unreachable: the server is gone. Interrupted: Ctrl-C, after which `server` is closed.
    """
    replies: dict[int, _Reply] = {}
    failures: dict[int, Failure] = {}
    stop = threading.Event()

    def ask(place: int) -> _Reply | Failure:
        picture = pictures[place]
        try:
            answer = with_retries(lambda: measure.ask(server, picture), stop)
            return _Reply(
                _without_images(answer), measure.reduce(place, answer.images[0])
            )
        except client.Unreachable:
            raise
        except client.Error as error:
            return Failure(picture, error.code, error.reason, error.message)
        except OSError as error:
            return Failure(
                picture, "", "", f"cannot be read: {error.strerror or error}"
            )
        except PictureError as error:
            return Failure(picture, "", "", str(error))

    workers = concurrent.futures.ThreadPoolExecutor(concurrency)
    with tqdm.tqdm(
        total=len(places),
        desc=str(model),
        unit="picture",
        disable=None,
        file=sys.stderr,
    ) as bar:
        try:
            running = {workers.submit(ask, place): place for place in places}
            for future in concurrent.futures.as_completed(running):
                place, outcome = running[future], future.result()
                if isinstance(outcome, Failure):
                    failures[place] = outcome
                    _show(bar, outcome, len(failures))
                else:
                    replies[place] = outcome
                bar.update()
        except KeyboardInterrupt:
            raise Interrupted(len(replies)) from None
        finally:
            stop.set()
            unfinished = len(replies) + len(failures) < len(places)
            if unfinished:
                server.close()  # ends the calls that run, or the workers would wait for them
            workers.shutdown(cancel_futures=True)
    return _outcome(
        model,
        measure,
        replies,
        [failures[place] for place in sorted(failures)],
        places,
    )


def _without_images(answer: client.Answer[Any]) -> client.Answer[Any]:
    return dataclasses.replace(answer, images=[])


def _show(bar: tqdm.tqdm, failure: Failure, count: int) -> None:
    if count <= _SHOWN_FAILURES:
        text = f"fovea-evaluate: {printable(str(failure.picture))}: {printable(failure.message)}"
    elif count == _SHOWN_FAILURES + 1:
        text = "fovea-evaluate: more pictures fail: --json lists them all"
    else:
        return
    bar.write(text, file=sys.stderr)


def _outcome(
    model: Model,
    measure: Measure,
    replies: dict[int, _Reply],
    failures: list[Failure],
    places: Sequence[int],
) -> Outcome:
    in_order = {place: replies[place] for place in sorted(replies)}
    answers = [reply.answer for reply in in_order.values()]
    figures = measure.figures(
        {place: reply.reduced for place, reply in in_order.items()}
    )
    return Outcome(
        model,
        version=answers[0].version if answers else "",
        attention=answers[0].attention if answers else "",
        untrained=any(answer.untrained for answer in answers),
        answered=len(answers),
        failures=failures,
        figures=figures,
        samples=resampled(figures, list(in_order), places),
    )


def with_costs(
    server: client.Client,
    measured: Sequence[tuple[Outcome, Measure]],
    pictures: Iterable[pathlib.Path],
    concurrency: int,
    rounds: int,
) -> list[Outcome]:
    """The outcomes with what their answers cost, for which the models are asked again, in turn.

    `pictures`: those of the figures. `rounds`: as in measure_costs. client.Error: a model refuses a picture that it answered
    before. OSError: a picture can no longer be read.
    """
    failed = {one.picture for outcome, _ in measured for one in outcome.failures}
    costs = measure_costs(
        [_receipt_of(server, measure) for _, measure in measured],
        [picture for picture in pictures if picture not in failed],
        concurrency,
        rounds,
    )
    return [
        dataclasses.replace(outcome, cost=cost, cost_differences=differences)
        for (outcome, _), (cost, differences) in zip(measured, costs, strict=True)
    ]


def _receipt_of(
    server: client.Client, measure: Measure
) -> Callable[[pathlib.Path], client.Receipt]:
    return lambda picture: with_retries(lambda: measure.ask(server, picture)).receipt
