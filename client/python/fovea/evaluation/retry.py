"""Asks a server that is busy, or is loading the model, again."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from fovea import client

_BACKOFF_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5)  # before a busy server is asked again
_LOADING_SECONDS = 600  # a detector of many sizes is warmed up for minutes


def with_retries(
    ask: Callable[[], client.Answer[Any]],
    stop: threading.Event | None = None,
    *,
    backoff: tuple[float, ...] = _BACKOFF_SECONDS,
    loading: float = _LOADING_SECONDS,
) -> client.Answer[Any]:
    """Neither more pictures at a time than the server's queue holds, nor a model that comes soon, is a picture's fault.

    While a model is being loaded it is asked again for `loading` seconds, and the user is told so once it takes long; where
    the server is busy, until the `backoff` is used up.

    stop: ends the wait; the last error is raised then, as it is after the last wait. None: nothing ends it.
    """
    stop = stop or threading.Event()
    until = time.monotonic() + loading
    waits = iter(backoff)
    loads = 0
    while True:
        try:
            return ask()
        except client.Unreachable:
            raise
        except client.Error as error:
            if error.code != "UNAVAILABLE":
                raise
            if error.reason == "model.loading":
                if time.monotonic() >= until:
                    raise
                if loads == len(backoff):
                    waiting = "fovea-evaluate: the model is being loaded: waiting"
                    print(waiting, file=sys.stderr, flush=True)
                wait: float | None = backoff[min(loads, len(backoff) - 1)]
                loads += 1
            else:
                wait = next(waits, None)
            if wait is None or stop.wait(wait):
                raise
