"""Resident memory stays flat under load."""

from __future__ import annotations

import statistics

import numpy as np
import perf_analyzer
import pytest
import tritonclient.grpc as triton

MODEL, SIZE = "shapes", 64
MOST_GROWTH_PER_10_000 = 1 << 20
PARTS = 5


@pytest.mark.parametrize(
    "requests", [20_000, pytest.param(100_000, marks=pytest.mark.full)]
)
def test_resident_memory_is_flat(start_server, one_model, tmp_path, requests):
    """Under 1 MB for every 10,000 requests, after a warm-up; in the median of five equal parts of the load.

    A leak grows in each of them. What the first batch of a size, or an arena of malloc, takes once, grows in one.
    """
    server = start_server("--model-repository", one_model)
    data = tmp_path / "data"
    data.mkdir()
    np.random.default_rng(0).standard_normal(
        (1, 3, SIZE, SIZE), dtype=np.float32
    ).tofile(data / "pixel_values")

    def served() -> int:
        with triton.InferenceServerClient(server.grpc) as client:
            return client.get_inference_statistics(MODEL).model_stats[0].inference_count

    def ask_until(count: int) -> None:
        while served() < count:
            perf_analyzer.run(server.grpc, MODEL, data, concurrency="8", window_ms=2000)

    ask_until(5_000)
    growths = []
    for _ in range(PARTS):
        resident, start = server.resident_bytes(), served()
        ask_until(start + requests // PARTS)
        grown = server.resident_bytes() - resident
        growths.append(grown / (served() - start) * 10_000)
    print(
        "resident memory grew, for every 10,000 requests, by KiB:",
        *(f"{growth / 1024:.0f}" for growth in growths),
    )
    assert statistics.median(growths) < MOST_GROWTH_PER_10_000
