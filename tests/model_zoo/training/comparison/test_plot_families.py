"""plot_families.py: what it draws of a small results folder whose numbers are known."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys

import pytest

TRAINING = pathlib.Path(__file__).resolve().parents[4] / "model_zoo/training/comparison"


@pytest.fixture
def results(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two attentions, two seeds each, two epochs; aewin is the more accurate one."""
    runs = ["model,backbone,attention,images,correct,milliseconds_16"]
    (tmp_path / "training").mkdir()
    for name, attention, correct, milliseconds in (
        ("dense_seed1", "dense", 60, 8),
        ("dense_seed2", "dense", 70, 10),
        ("aewin_seed1", "aewin", 80, 4),
        ("aewin_seed2", "aewin", 90, 6),
    ):
        runs.append(f'{name},frame,"{attention}",100,{correct},{milliseconds}')
        (tmp_path / "training" / f"{name}.csv").write_text(
            f"epoch,validation_accuracy\n1,0.5\n2,{correct / 100}\n"
        )
    (tmp_path / "runs.csv").write_text("\n".join(runs) + "\n")
    return tmp_path


def test_the_plot_is_written(results: pathlib.Path) -> None:
    subprocess.run([sys.executable, TRAINING / "plot_families.py", results], check=True)
    header = (results / "families.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    size = int.from_bytes(header[16:20]), int.from_bytes(header[20:24])
    assert size == (1800, 600)


def test_every_family_is_drawn_with_its_numbers(
    results: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TRAINING))
    plot_families = importlib.import_module("plot_families")
    plot_families.plot(results)
    figure = plot_families.plt.gcf()
    points, costs, epochs = figure.axes
    for axis in (costs, epochs):
        labels = [text.get_text() for text in axis.get_legend().get_texts()]
        assert labels == ["aewin", "dense"]  # the most accurate first
    curves = {line.get_label(): list(line.get_ydata()) for line in epochs.get_lines()}
    assert curves == {
        "aewin": [50, pytest.approx(85)],
        "dense": [50, pytest.approx(65)],
    }
    places = {}
    for bars in costs.containers:
        (x,), (y,) = bars.lines[0].get_data()
        places[bars.get_label()] = (x, y)
    assert places == {"aewin": (5, pytest.approx(85)), "dense": (9, pytest.approx(65))}
    dots = sorted(x for line in points.get_lines() for x in line.get_xdata())
    # A family's range (a line), its seeds and its mean.
    assert dots == pytest.approx([60, 60, 65, 70, 70, 80, 80, 85, 90, 90])
    plot_families.plt.close(figure)
