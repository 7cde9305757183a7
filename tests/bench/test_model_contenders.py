"""What `make bench-models` makes of a vendor's library that does not take a model, and of a row that is not there."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "models"))
import contender
import models


def run_contender(
    monkeypatch: pytest.MonkeyPatch, load: Callable[[], contender.Pass]
) -> None:
    monkeypatch.setitem(contender.LIBRARIES, "ipex", lambda options: ("IPEX", load))
    arguments = ["contender.py", "ipex", "pit_b_224", "BF16", "--pixels", "none"]
    monkeypatch.setattr(sys, "argv", arguments)
    contender.main()


def test_says_which_error_conversion_ended_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load() -> contender.Pass:
        with contender.conversion():
            raise RuntimeError("cannot fuse\nat line 3")

    run_contender(monkeypatch, load)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"library": "IPEX"},
        {"not_converted": "RuntimeError: cannot fuse"},
    ]


def test_an_error_before_conversion_ends_the_contender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load() -> contender.Pass:
        raise RuntimeError("no such model")

    with pytest.raises(RuntimeError, match="no such model"):
        run_contender(monkeypatch, load)


def contender_that(
    ends: str, library: str, monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path
) -> models.Contender:
    """One that is there, and then runs the lines of Python."""
    (folder / "contender.py").write_text(
        f"""import os\nprint('{{"library": "it"}}', flush=True)\n{ends}"""
    )
    monkeypatch.setattr(models, "HERE", folder)
    monkeypatch.setattr(models, "python_of", lambda _: sys.executable)
    return models.Contender(library, "pit_b_224", "BF16", folder, threads=1)


def test_a_vendors_crash_in_conversion_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    crash = "os.kill(os.getpid(), 8)"
    crashed = contender_that(crash, "zentorch", monkeypatch, tmp_path)
    assert crashed.not_converted == "its process ended by SIGFPE"
    crashed.end()


@pytest.mark.parametrize(
    ("ends", "library"),
    [
        ("os.kill(os.getpid(), 8)", "openvino"),
        ("os.kill(os.getpid(), 9)", "zentorch"),
        ("raise ValueError", "zentorch"),
    ],
)
def test_any_other_end_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, ends: str, library: str
) -> None:
    with pytest.raises(EOFError, match="ended"):
        contender_that(ends, library, monkeypatch, tmp_path)


def test_a_row_has_a_dash_and_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(milliseconds: float, not_converted: str = "") -> SimpleNamespace:
        one = SimpleNamespace(name="IPEX", not_converted=not_converted, rounds=[])
        one.peak_mib = 7.0
        one.turn = lambda: one.rounds.append(milliseconds)
        return one

    @contextlib.contextmanager
    def contenders(*_: object) -> Iterator[dict[str, SimpleNamespace]]:
        yield {
            "ours": fake(2.0),
            "eager": fake(6.0),
            "ipex": fake(0.0, "RuntimeError: cannot fuse"),
        }

    monkeypatch.setattr(models, "contenders", contenders)
    footnotes = models.Footnotes(["another"])
    options = argparse.Namespace(threads=1, rounds=3)
    folder = pathlib.Path()
    ratios = models.measure(
        "pit_b_224", "BF16", 1, folder, ["ipex"], footnotes, options
    )
    assert ratios == {"eager": 3.0}
    row = [cell.strip() for cell in capsys.readouterr().out.split("|")[1:-1]]
    assert row[-3:] == ["– [2]", "–", "–"]
    assert footnotes.notes[1:] == [
        "IPEX does not take pit_b_224 in BF16: RuntimeError: cannot fuse"
    ]
    assert "IPEX" in footnotes.peers


def compare(results: dict[str, float], batches: list[int]) -> int:
    options = argparse.Namespace(models=["pit_b_224"], precisions=["BF16"])
    options.batches = batches
    return models.compare_with_floors(results, options)


def test_a_contender_that_was_not_measured_is_an_error() -> None:
    with pytest.raises(KeyError, match="did not measure pit_b_bf16_over_openvino"):
        compare({"pit_b_bf16_over_eager": 9.0}, [1, 8])


@pytest.mark.parametrize(("ratio", "code"), [(9.0, 0), (0.9, 1)])
def test_floors_are_those_of_what_was_asked_for(ratio: float, code: int) -> None:
    results = {"pit_b_bf16_over_eager": 9.0, "pit_b_bf16_over_openvino": ratio}
    assert compare(results, [1, 8]) == code


def test_one_batch_is_compared_with_no_floor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare({"pit_b_bf16_over_eager": 0.1}, [1]) == 0
    assert "Not compared" in capsys.readouterr().out


@pytest.mark.parametrize("amx", [True, False])
def test_int8_has_a_floor_over_bf16_where_amx_multiplies_it(
    amx: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "has_amx_int8", lambda: amx)
    assert models.has_floor("INT8", "bf16") == amx
    assert models.has_floor("INT8", "openvino")
    assert not models.has_floor("BF16", "zentorch")
