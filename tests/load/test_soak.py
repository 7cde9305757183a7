"""`make soak` in short: three quarters of a minute, and two minutes with --full."""

from __future__ import annotations

import pathlib

import pytest
from soak import CALLERS, soak


@pytest.mark.parametrize(
    ("seconds", "reload_seconds"),
    [(45, 5), pytest.param(120, 20, marks=pytest.mark.full)],
)
def test_nothing_is_lost_or_mixed_up(
    tmp_path: pathlib.Path, seconds: int, reload_seconds: int
) -> None:
    record = soak(tmp_path, seconds, kills=1, reload_seconds=reload_seconds)
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
