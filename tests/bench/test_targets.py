"""That a missed floor, and a measurement without one, are told."""

from __future__ import annotations

import csv
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "detection"), str(HERE / "serving")]
import attention_scaling
import neighbours
import targets

MAKEFILE = HERE.parents[1] / "Makefile"


def at_bound(command: str) -> dict[str, float]:
    return {name: float(row["bound"]) for name, row in targets.rows_of(command).items()}


def test_every_row_names_a_command_that_there_is_and_aims_above_its_floor() -> None:
    with (HERE / "targets.csv").open() as file:
        table = csv.DictReader(line for line in file if not line.startswith("#"))
        rows = list(table)
    commands = {
        line.split(":")[0] for line in MAKEFILE.read_text().splitlines() if ":" in line
    }
    assert {row["command"] for row in rows} <= commands
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        better = float(row["moonshot"]) - float(row["bound"])
        assert row["sense"] in (">=", "<=")
        assert better >= 0 if row["sense"] == ">=" else better <= 0, row["id"]


@pytest.mark.parametrize(
    ("name", "step"), [("retinanet_over_torchvision", -1), ("detection_padding", 1)]
)
def test_a_result_on_the_wrong_side_of_its_floor_is_missed(
    name: str, step: int
) -> None:
    results = at_bound("bench-detection")
    assert targets.report("bench-detection", results) == 0
    results[name] -= step * 1e-6
    assert targets.report("bench-detection", results) == 0
    results[name] += step * 2e-6
    assert targets.report("bench-detection", results) == 1


def test_a_result_without_a_row_is_an_error() -> None:
    results = at_bound("bench-detection")
    results["retinanet_over_pytorch"] = results.pop("retinanet_over_torchvision")
    with pytest.raises(KeyError, match="no row of bench-detection for retinanet_over"):
        targets.report("bench-detection", results, left_out=results)


def test_a_row_without_a_result_is_an_error_unless_it_was_left_out() -> None:
    results = at_bound("bench")
    del results["served_over_triton"]
    assert targets.report("bench", results, left_out={"served_over_triton"}) == 0
    with pytest.raises(KeyError, match="did not measure served_over_triton"):
        targets.report("bench", results)
    del results["served_over_raw"]
    with pytest.raises(KeyError, match="did not measure served_over_raw"):
        targets.report("bench", results, left_out={"served_over_triton"})
    with pytest.raises(KeyError, match="to leave out: served_over_trt"):
        targets.report("bench", results, left_out={"served_over_trt"})


def test_the_figures_of_neighbours_are_medians_beside_them_and_the_least_without() -> (
    None
):
    def rounds(*seconds: float) -> list[dict[str, float]]:
        return [dict.fromkeys(neighbours.TASKS, one) for one in seconds]

    figures = neighbours.figures(
        quiet=rounds(1.2, 1, 3), spinning=rounds(2, 0.8, 4), busy=rounds(2, 4)
    )
    assert figures.keys() == targets.rows_of("bench-neighbours").keys()
    for task in neighbours.TASKS:
        assert figures[f"busy_{task}"] == pytest.approx(3 / 1.2)
        assert figures[f"adaptive_{task}"] == pytest.approx(1 / 0.8)


def test_the_figures_of_attentions_are_those_of_the_laws_they_follow() -> None:
    laws = {"dense": (4, 2.0, 1.5), "key_only": (3, 1.0, 0.75), "aewin": (2, 1.5, 1.0)}
    rows = [
        {
            "attention": name,
            "side": side,
            "ms": factor * float(side * side) ** time,
            "pixels": side * side,
            "peak_bytes": float(side * side) ** memory,
        }
        for name, (factor, time, memory) in laws.items()
        for side in attention_scaling.SIDES
    ]
    figures = attention_scaling.figures(rows)
    assert figures.keys() <= targets.rows_of("bench-detection").keys()
    assert figures["detector_key_only_time_exponent"] == pytest.approx(1.0)
    assert figures["detector_aewin_time_exponent"] == pytest.approx(1.5)
    assert figures["detector_key_only_over_dense"] == pytest.approx(1344**2 * 4 / 3)
    assert figures["detector_aewin_over_dense"] == pytest.approx(1344 * 2)
    assert figures["detector_key_only_memory_to_dense"] == pytest.approx(1344**-1.5)
    assert figures["detector_aewin_memory_to_dense"] == pytest.approx(1 / 1344)
