"""The two-minute form of `make soak`."""

from __future__ import annotations

import pathlib

from soak import CALLERS, soak

SECONDS = 120


def test_nothing_is_lost_or_mixed_up(tmp_path: pathlib.Path) -> None:
    record = soak(tmp_path, SECONDS, kills=1)
    print(record.counts)
    assert record.failures == []
    # No caller stood idle, and each kind came over each protocol.
    for protocol in ("grpc", "http"):
        kinds = {
            kind: record.counts[f"tritonclient.{protocol} {kind}"]
            for kind in ("good", "bad", "abandoned", "hopeless")
        }
        assert all(kinds.values()), kinds
        for number in range(CALLERS):
            assert record.counts[f"{protocol}{number} good"] >= 20
    # Each caller meets a kill at most a few times before it sees that the server is down.
    assert record.counts["met a killed server"] <= 3 * 2 * CALLERS
    assert record.counts["reloads"] >= 4
