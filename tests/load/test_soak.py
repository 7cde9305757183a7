"""The two-minute form of `make soak`."""

from __future__ import annotations

import pathlib

from soak import CALLERS, soak

SECONDS = 120


def test_nothing_is_lost_or_mixed_up(tmp_path: pathlib.Path) -> None:
    record = soak(tmp_path, SECONDS, kills=1)
    print(record.counts)
    assert record.failures == []
    # It was not idle: each caller has been answered at least twice a second, each kind over each protocol.
    for protocol in ("grpc", "http"):
        kinds = {
            kind: record.counts[f"tritonclient.{protocol} {kind}"]
            for kind in ("good", "bad", "abandoned", "hopeless")
        }
        assert kinds["good"] > CALLERS * SECONDS, kinds
        assert all(kinds.values()), kinds
    assert record.counts["reloads"] >= 4
