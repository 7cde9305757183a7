"""An experiment for people: a table in HTML, as notebooks show it, and one in plain text.

The HTML has no script and no colours of its own but for the intervals: texts and lines are the page's, light or dark.
"""

from __future__ import annotations

import dataclasses
import math
from html import escape
from typing import TYPE_CHECKING

from fovea import tables
from fovea.estimates import provenance_notes

if TYPE_CHECKING:
    from fovea.experiment import Experiment, ExperimentArm, SequentialTest

_STATES = {
    "RUNNING": "running",
    "STOPPED": "stopped",
    "GUARD_RAIL": "ended by a guard rail",
    "EXPIRED": "expired",
    "MODEL_GONE": "ended without its model",
    "": "in a state that this client does not know",
}
# Seen on white as on black; of Okabe and Ito's, as everywhere in Fovea.
_INTERVAL = "#0072b2"
_NO_DIFFERENCE = "#e69f00"


@dataclasses.dataclass(frozen=True)
class _Cell:
    text: str
    # Shares of the cell's width: from where to where the interval lies, and where no difference does.
    lower: float | None = None
    upper: float = 0
    none: float = 0


def html(experiment: Experiment) -> str:
    """A table and what is to be known of it. Every text of the server's is escaped."""
    head, *body = _rows(experiment)
    lines = [
        '<div class="fovea-experiment">',
        *tables.html(
            [one.text for one in head],
            ([escape(one.text) + _drawn(one) for one in row] for row in body),
            _title(experiment),
        ),
        *tables.html_notes(_notes(experiment)),
        "</div>",
    ]
    return "\n".join(lines)


def plain(experiment: Experiment) -> str:
    rows = [[one.text for one in row] for row in _rows(experiment)]
    lines = [_title(experiment), *tables.aligned(rows), *_notes(experiment)]
    return "\n".join(lines)


def _rows(experiment: Experiment) -> list[list[_Cell]]:
    """The head, then a row for each arm."""
    shadows = any(arm.shadow for arm in experiment.plan.arms)
    head = ["arm", "model", "traffic", "requests", "failed"]
    head += ["copies", "skipped"] if shadows else []
    head += ["mean ms", "latency", "other answers", "more failures"]
    rows = [[_Cell(text) for text in head]]
    weights = math.fsum(arm.weight for arm in experiment.plan.arms)
    for number, (planned, arm) in enumerate(
        zip(experiment.plan.arms, experiment.arms, strict=True)
    ):
        # By the plan's name: another attention answers under a name of its own.
        model = tables.model_text(planned.model, arm.model_version)
        row = [arm.name, model, _traffic(planned, weights)]
        row += [str(arm.requests), str(arm.failures)]
        if shadows:
            copies = [str(arm.shadow_requests), str(arm.shadow_skipped)]
            row += copies if planned.shadow else ["", ""]
        row.append(f"{arm.mean_latency_ms:.2f}" if arm.requests > 0 else "")
        cells = [_Cell(text) for text in row]
        if number == 0:
            cells += [_Cell("baseline"), _Cell(""), _Cell("")]
        else:
            cells.append(_latency(arm.latency_ratio))
            cells.append(_share(arm.disagreement, "differs", "fewer", 0))
            cells.append(_share(arm.error_excess, "fails more", "fails less", 0.5))
        rows.append(cells)
    return rows


def _traffic(arm: ExperimentArm, weights: float) -> str:
    if arm.weight <= 0:
        return "shadow" if arm.shadow else "none"
    return f"{100 * arm.weight / weights:.1f} %" + (" and shadow" if arm.shadow else "")


def _verdict(test: SequentialTest, higher: str, lower: str, numbers: str) -> str:
    # An interval has no end before there are enough observations.
    if math.isinf(test.upper):
        return f"undecided: too few yet ({test.observations})"
    words = {
        "UNDECIDED": "undecided",
        "HIGHER": higher,
        "LOWER": lower,
        "EQUIVALENT": "equivalent",
    }
    return f"{words[test.verdict]}: {numbers}" if test.verdict in words else numbers


def _latency(ratio: SequentialTest | None) -> _Cell:
    """The interval from half to twice the baseline's, by the logarithm."""
    if ratio is None:
        return _Cell("")
    numbers = f"{ratio.estimate:.3f} [{ratio.lower:.3f}, {ratio.upper:.3f}]"

    def place(value: float) -> float:
        return _inside((math.log2(value) + 1) / 2) if value > 0 else 0

    text = _verdict(ratio, "slower", "faster", numbers)
    if math.isinf(ratio.upper):
        return _Cell(text)
    return _Cell(text, place(ratio.lower), place(ratio.upper), 0.5)


def _share(share: SequentialTest | None, higher: str, lower: str, none: float) -> _Cell:
    """The interval in [0, 1] of a share, or in [-1, 1] of a difference of shares, whose `none` is in the middle."""
    if share is None:
        return _Cell("")
    numbers = (
        f"{100 * share.estimate:.1f} % [{100 * share.lower:.1f}, "
        f"{100 * share.upper:.1f}]"
    )

    def place(value: float) -> float:
        return _inside(none + (1 - none) * value)

    text = _verdict(share, higher, lower, numbers)
    return _Cell(text, place(share.lower), place(share.upper), none)


def _inside(share: float) -> float:
    return min(1.0, max(0.0, share))


def _drawn(cell: _Cell) -> str:
    """The interval as a bar, beside a line where there is no difference."""
    if cell.lower is None:
        return ""
    at = "position:absolute;top:0;height:4px"
    width = max(0.5, 100 * (cell.upper - cell.lower))
    left = min(100 * cell.lower, 100 - width)
    none = min(100 * cell.none, 99)
    return (
        '<div aria-hidden="true" style="height:4px;margin-top:2px;position:relative">'
        f'<span style="{at};left:{none:.1f}%;width:1px;background:{_NO_DIFFERENCE}"></span>'
        f'<span style="{at};left:{left:.1f}%;width:{width:.1f}%;background:{_INTERVAL}"></span>'
        "</div>"
    )


def _title(experiment: Experiment) -> str:
    plan = experiment.plan
    state = _STATES.get(experiment.state, experiment.state)
    title = f"{plan.name}: {state}"
    if experiment.running:
        return (
            f"{title} for {_duration(experiment)} on the traffic of {plan.model_name}"
        )
    title += f" after {_duration(experiment)}"
    if experiment.reason:
        title += f": {experiment.reason}"
    return f"{title}; all traffic of {plan.model_name} goes to the baseline"


def _duration(experiment: Experiment) -> str:
    seconds = int(experiment.running_seconds)
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def _notes(experiment: Experiment) -> list[str]:
    certain = 100 * (1 - experiment.plan.error_probability)
    notes = ["Latency is the ratio to the baseline's."]
    notes.append(
        "The intervals in brackets hold the truth at all times at once with a probability of "
        f"{certain:.1f} %: look, and stop, whenever you like."
    )
    if any(arm.shadow for arm in experiment.plan.arms):
        notes.append(
            "Answers are compared by copies, which are made while the device is idle; of an arm that only gets copies "
            "latency is that of the compute stage."
        )
    for arm in experiment.arms:
        if arm.weights_of_attention:
            notes.append(
                f"{arm.name}: same weights as {arm.weights_of_attention}, not fine-tuned."
            )
    return notes + provenance_notes(experiment.measured)
