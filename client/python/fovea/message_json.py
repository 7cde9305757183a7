"""Measurements as the JSON that protobuf makes of their messages, which servers answer: written, and read."""

from __future__ import annotations

import json
import math
from typing import Any

from google.protobuf import json_format

# What null stands for: a server writes it over HTTP for a number that is not finite.
_NULLS = {
    ("Estimate", "lower"): "-Infinity",
    ("Estimate", "upper"): "Infinity",
    ("SequentialTest", "lower"): "-Infinity",
    ("SequentialTest", "upper"): "Infinity",
    ("ClassAgreement", "kl_divergence"): "Infinity",
}


def message_in(text: str, empty: Any, noun: str, holding: str) -> Any:
    """The message `empty`, filled from protobuf's JSON. holding: the list without which there is no `noun`.

    ValueError: the text is no `noun`. Fields that a newer server added are passed over, as they are over gRPC. Another message, at
    any depth, is refused, and so is null where a number cannot be infinite: either would be read as zeros.
    """
    try:
        plain = _known_fields(json.loads(text), empty.DESCRIPTOR, empty.DESCRIPTOR.name)
        if not plain.get(holding):
            raise json_format.ParseError(f"it has no {holding}")
        # Of enumerators, whose names a newer server may have added, too.
        return json_format.ParseDict(plain, empty, ignore_unknown_fields=True)
    except (json_format.ParseError, json.JSONDecodeError, RecursionError) as error:
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


def without_none(value: Any) -> Any:
    """What is absent is left out, and so is a verdict that has no name here."""
    if isinstance(value, dict):
        return {
            name: without_none(one)
            for name, one in value.items()
            if one is not None and (name, one) != ("verdict", "")
        }
    if isinstance(value, list):
        return [without_none(one) for one in value]
    return value


def _known_fields(value: Any, message: Any, place: str) -> dict[str, Any]:
    """Of `value` the fields of a message of this descriptor, with infinity where null stands for it."""
    if not isinstance(value, dict):
        raise json_format.ParseError(f"{place} is no object")
    known = {}
    for field in message.fields:
        for name in {field.name, field.json_name} & value.keys():
            known[field.name] = _field(value[name], field, f"{place}.{name}")
    if value and not known:
        raise json_format.ParseError(
            f"{place} has none of the fields of {message.name}, but {', '.join(value)}"
        )
    return known


def _field(value: Any, field: Any, place: str) -> Any:
    if value is None:
        infinity = _NULLS.get((field.containing_type.name, field.name))
        if infinity is None:
            raise json_format.ParseError(f"{place} is null")
        return infinity
    if isinstance(value, list):
        return [_field(one, field, f"{place}[{i}]") for i, one in enumerate(value)]
    if field.message_type is None:
        return value
    return _known_fields(value, field.message_type, place)
