"""How calls of a Fovea server fail, as fovea.client raises it."""

from __future__ import annotations

from typing import Any

import grpc

_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


class Error(Exception):
    """A call that failed.

    code: gRPC's, for example "INVALID_ARGUMENT". reason: the server's stable token, for example "image.truncated", for
    programs; empty where the server itself did not answer. message: a sentence for people, which may change.
    """

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code, self.reason, self.message = code, reason, message

    def __str__(self) -> str:
        return f"{self.message} [{' '.join(filter(None, (self.code, self.reason)))}]"


class Unreachable(Error):
    """There is no connection to the server, or it broke; the server did not answer."""


class TimedOut(Error):
    """No answer within the timeout."""


def error_of_call(error: grpc.RpcError, address: str, timeout: float | None) -> Error:
    """Of a call to `address` that might take `timeout` seconds."""
    code = error.code().name
    metadata: Any = error.trailing_metadata() or ()
    reason = dict(metadata).get("fovea-reason", "")
    # What the server says has a reason. gRPC's own words name files of its sources and say little.
    if code == "UNAVAILABLE" and not reason:
        return Unreachable(
            code, reason, _why_no_connection(address, error.details() or "")
        )
    if code == "DEADLINE_EXCEEDED":
        own_words = not reason and timeout is not None
        return TimedOut(
            code,
            reason,
            f"no answer within {timeout:g} s" if own_words else error.details() or "",
        )
    if code == "UNIMPLEMENTED" and not reason:
        return Error(code, reason, f"the server at {address} does not know this call")
    return Error(code, reason, error.details() or "")


def _why_no_connection(address: str, details: str) -> str:
    """The message for an UNAVAILABLE call, from gRPC's details."""
    if "Connection refused" in details:
        return f"nothing listens at {address}: is fovea-server running there?"
    if "HTTP/2" in details or "http1.x" in details:
        return (
            f"{address} does not speak gRPC: is it another of the server's ports (gRPC's default is 8001), "
            "or does it need TLS?"
        )
    return f"there is no connection to {address} ({details})"


def error_of_request(error: Any) -> Error:
    """Of one request of a stream: the server's RequestError."""
    code = _CODES.get(error.code, "UNKNOWN")
    kind = TimedOut if code == "DEADLINE_EXCEEDED" else Error
    return kind(code, error.reason, error.message)


def check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout > 0:
        raise ValueError(f"the timeout is {timeout} s: it must be above zero")
