"""Measurements as the JSON that protobuf makes of their messages, which servers answer: written, and read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format


def message_in(text: str, empty: Any, noun: str, *, beside: Iterable[str] = ()) -> Any:
    """The message `empty`, filled from protobuf's JSON. beside: names that may stand in it and are no fields of the message.

    ValueError: the text is no `noun`. A name that the message does not have, or null in place of a number, would be read as 0
    otherwise. Null is an interval's open end alone: a server writes it over HTTP for what is no finite number.
    """
    try:
        plain = json.loads(text)
        if not isinstance(plain, dict):
            raise json_format.ParseError("not an object")
        for name in beside:
            plain.pop(name, None)
        _name_open_ends(plain, empty.DESCRIPTOR)
        _refuse_null(plain, empty.DESCRIPTOR.name)
        return json_format.ParseDict(plain, empty)
    except (json_format.ParseError, json.JSONDecodeError) as error:
        raise ValueError(f"this is no {noun}: {error}") from error


def with_named_infinity(value: Any) -> Any:
    """For JSON, which has no infinity: protobuf writes its name."""
    if isinstance(value, dict):
        return {name: with_named_infinity(one) for name, one in value.items()}
    if isinstance(value, list):
        return [with_named_infinity(one) for one in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _name_open_ends(value: Any, message: Any) -> None:
    """message: the descriptor of what `value` is."""
    if not isinstance(value, dict):
        return
    if message.name in ("Estimate", "SequentialTest"):
        for name, end in (("lower", "-Infinity"), ("upper", "Infinity")):
            if name in value and value[name] is None:
                value[name] = end
    for field in message.fields:
        if field.message_type is not None:
            inner = value.get(field.name)
            for one in inner if isinstance(inner, list) else [inner]:
                _name_open_ends(one, field.message_type)


def _refuse_null(value: Any, place: str) -> None:
    """Nobody who writes these messages writes one but as above: what is absent is left out."""
    if value is None:
        raise json_format.ParseError(f"{place} is null")
    if isinstance(value, dict):
        for name, one in value.items():
            _refuse_null(one, f"{place}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            _refuse_null(one, f"{place}[{number}]")
