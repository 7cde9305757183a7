"""Asks a server about every picture of a data set, several at a time."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tqdm

from fovea import client
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
class Cost:
    """From the receipts of the pictures that were answered; None where none was."""

    latency_ms_median: float | None  # in the server
    latency_ms_p95: float | None
    compute_ms_median: float | None  # of the batches that they were in
    batch_size_mean: float | None
    batch_peak_bytes: int | None  # the largest


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
    cost: Cost


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
        cost=_cost([answer.receipt for answer in answers]),
    )


def _cost(receipts: list[client.Receipt]) -> Cost:
    if not receipts:
        return Cost(None, None, None, None, None)
    totals = np.array([receipt.total_seconds for receipt in receipts]) * 1e3
    compute = np.array([receipt.seconds["compute"] for receipt in receipts]) * 1e3
    return Cost(
        latency_ms_median=float(np.median(totals)),
        latency_ms_p95=float(np.percentile(totals, 95)),
        compute_ms_median=float(np.median(compute)),
        batch_size_mean=float(np.mean([receipt.batch_size for receipt in receipts])),
        batch_peak_bytes=max(receipt.batch_peak_bytes for receipt in receipts),
    )
