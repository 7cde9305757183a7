"""The text of an attention, as far as it names a core (model_zoo/attention/README.md): "dense", "knn:k=0.5", "knn:k=100,exact"."""

from __future__ import annotations

import dataclasses
import math
import re

from torch import Tensor

from fovea import ops

# model_zoo/attention/registry/attentions.cc.
_OPTIONS = {"dense": ("temperature",), "knn": ("k", "exact", "temperature")}


@dataclasses.dataclass(frozen=True)
class Core:
    """Queries look at keys and gather values; it has no parameters."""

    topk: int | float | None = (
        None  # None: all keys; a float: a share of the keys, in (0, 1]
    )
    exact: bool = False  # the nearest in Euclidean distance
    temperature: float = 1.0  # divides the scaled logits

    def keys_kept(self, keys: int) -> int:
        """ValueError: more than there are."""
        if self.topk is None:
            return keys
        if isinstance(self.topk, float):
            return max(1, math.floor(self.topk * keys + 0.5))
        if self.topk > keys:
            raise ValueError(f"k={self.topk}, but a query sees only {keys} keys")
        return self.topk

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        bias: Tensor | None = None,
    ) -> Tensor:
        """As ops.dense_attention. `scale` is the layer's."""
        scale /= self.temperature
        if self.topk is None:
            return ops.dense_attention(query, key, value, scale, bias)
        attend = ops.knn_attention_exact if self.exact else ops.knn_attention
        return attend(query, key, value, self.keys_kept(key.shape[2]), scale, bias)

    def __str__(self) -> str:
        options = [] if self.topk is None else [f"k={self.topk}"]
        options += ["exact"] if self.exact else []
        options += [f"temperature={self.temperature:g}"] * (self.temperature != 1)
        name = "dense" if self.topk is None else "knn"
        return ":".join([name, ",".join(options)] if options else [name])


def core_of(text: str, own_module: str) -> Core:
    """The core that `text` names; `own_module`, the name of the module that it goes into, may stand in front of it.

    ValueError, with a sentence: it names no core, or options that the core does not take.
    """
    if "|" in text or "@" in text:
        raise ValueError(f"{text!r} names stages: here one attention is for all layers")
    names, colon, options = text.partition(":")
    module, slash, name = names.rpartition("/")
    if slash and module != own_module:
        raise ValueError(
            f"{text!r} names the module {module!r}, and the layers' is {own_module!r}"
        )
    if name == own_module:
        name = "dense"
    if name not in _OPTIONS:
        raise ValueError(
            f"{text!r} is no core, dense or knn: only a core can take the place of another over the same weights"
        )
    found: dict[str, int | float | bool] = {}
    for option in options.split(",") if colon else []:
        key, equals, value = option.partition("=")
        if key in found or key not in _OPTIONS[name]:
            raise ValueError(
                f"{text!r}: {option!r} is given twice, or {name} does not take it"
            )
        found[key] = _option(text, key, value, bool(equals))
    if name == "knn" and "k" not in found:
        raise ValueError(
            f"{text!r}: knn needs k, a count of keys (k=100) or a share of them (k=0.5)"
        )
    return Core(
        topk=found.get("k"),
        exact=bool(found.get("exact", False)),
        temperature=float(found.get("temperature", 1.0)),
    )


def _option(text: str, key: str, value: str, given: bool) -> int | float | bool:
    if key == "exact" and not given:
        return True
    if key == "k" and re.fullmatch(r"[0-9]{1,9}", value) and int(value) > 0:
        return int(value)
    if re.fullmatch(r"[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+", value):
        number = float(value)
        if key == "k" and "." in value and 0 < number <= 1:
            return number
        if key == "temperature" and 0 < number < math.inf:
            return number
    raise ValueError(f"{text!r}: {key!r} is unknown, or has an unknown value")
