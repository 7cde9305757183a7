"""Asks a server that is busy, or still loads the model, again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fovea import client

_BUSY_WAITS = (0.1, 0.2, 0.5, 1, 2, 5)  # seconds before it is asked again


def patiently(
    ask: Callable[[], client.Answer], stop: threading.Event | None = None
) -> client.Answer:
    """Neither more pictures at a time than the server's queue holds, nor a model that comes soon, is a picture's fault.

    stop: ends the wait; the last error is raised then, as it is after the last wait. None: nothing ends it.
    """
    stop = stop or threading.Event()
    for wait in (*_BUSY_WAITS, None):
        try:
            return ask()
        except client.Unreachable:
            raise
        except client.Error as error:
            if error.code != "UNAVAILABLE" or wait is None or stop.wait(wait):
                raise
    raise AssertionError("the last wait is None")
