"""Which calls are made again where a server refuses them or goes away, and how often: as client/cpp/retry.h."""

from __future__ import annotations

import json
from typing import Any

MOST_ATTEMPTS = 5  # gRPC's own bound


def channel_options(max_attempts: int, balance: bool) -> list[tuple[str, Any]]:
    """gRPC's options for a channel. ValueError: `max_attempts` is not in [1, 5].

    max_attempts: how often a call is made that is answered UNAVAILABLE, or whose connection breaks. Only inference is:
    asked twice, it harms nobody. Between two attempts there are about 0.1, 0.2 and 0.4 s, each up to a fifth shorter or
    longer. Of calls that fail one after the other a hundred are made again, and from then on one for every ten that
    succeed; all channels of the process to one address share this budget.
    """
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise ValueError(
            f"max_attempts is {max_attempts}: it must be in [1, {MOST_ATTEMPTS}]"
        )
    config: dict[str, Any] = {}
    if balance:
        config["loadBalancingConfig"] = [{"round_robin": {}}]
    if max_attempts > 1:
        service = "fovea.v1.VisionService"
        methods = ("Classify", "Detect", "Segment")
        config["methodConfig"] = [
            {
                "name": [{"service": service, "method": method} for method in methods],
                "retryPolicy": {
                    "maxAttempts": max_attempts,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
        config["retryThrottling"] = {"maxTokens": 200, "tokenRatio": 0.1}
    return [
        ("grpc.service_config", json.dumps(config)),
        # A call that holds more than this is not made again: by default one picture would be too much.
        ("grpc.per_rpc_retry_buffer_size", (1 << 31) - 1),
    ]
