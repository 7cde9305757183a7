"""What was measured, as tables for people, as JSON and as CSV."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import math
from typing import TYPE_CHECKING, Any

from fovea import tables
from fovea.evaluation.intervals import (
    Interval,
    intervals,
    intervals_of_differences,
)
from fovea.evaluation.measure import printable
from fovea.evaluation.provenance import Provenance
from fovea.evaluation.run import Outcome

if TYPE_CHECKING:
    import pandas

# Of all that is measured, what the table has room for.
_SHOWN = {
    "classification": ("top-1", "top-5", "class mean"),
    "detection": ("box AP", "box AP50", "box AP75", "mask AP", "mask AP50"),
    "segmentation": ("mIoU", "pixel accuracy", "class mean"),
}
_OF_CLASS = {
    "classification": ("top-1", "top-5"),
    "detection": ("box AP", "box AP50", "mask AP", "mask AP50"),
    "segmentation": ("IoU", "accuracy"),
}
# Where several models share the table.
_OF_CLASS_BESIDE_OTHERS = {"top-1", "box AP", "mask AP", "IoU"}
_TIMES_SHOWN = {
    "latency_ms_median": "latency ms",
    "latency_ms_p95": "p95 ms",
    "compute_ms_median": "compute ms",
}
_CLASSES_SHOWN = 50
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Report:
    """A notebook shows it as its table does."""

    dataset: str
    task: str
    pictures: int  # that the models were asked about
    concurrency: int
    outcomes: list[Outcome]  # of the models that were asked to the end
    # The model that was not: after Ctrl-C, without the server, or of other classes than the data set. Empty: none.
    unfinished: str
    measured: Provenance
    command: str = ""  # that asked; empty: a program did
    # Why costs were not measured. Empty: they were, or were not asked for.
    without_costs: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As --json prints it. An undefined figure is None."""
        return _document(self)

    def rows(self) -> list[dict[str, float | None]]:
        """Of each model the figures of the table, with their intervals and differences to the first model's."""
        return [
            {
                name + part: value
                for name, one in (
                    (figure.name, figure)
                    for figure in _figures_of(outcome, self.outcomes[0])
                    if figure.name in _SHOWN[self.task]
                )
                for part, value in (
                    ("", one.value),
                    ("_lower", one.interval.lower if one.interval else None),
                    ("_upper", one.interval.upper if one.interval else None),
                    ("_difference", one.difference),
                    (
                        "_difference_lower",
                        one.of_difference.lower if one.of_difference else None,
                    ),
                    (
                        "_difference_upper",
                        one.of_difference.upper if one.of_difference else None,
                    ),
                )
            }
            for outcome in self.outcomes
        ]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each figure over all classes, with its interval and its difference to the first model's.

        ImportError: pandas is missing.
        """
        import pandas

        return pandas.DataFrame(
            {
                "model": outcome.model.named,
                "version": outcome.version or outcome.model.version,
                "attention": outcome.attention,
                "weights_of_attention": outcome.model.weights_of_attention,
                "figure": row.name,
                "value": row.value,
                "lower": row.interval and row.interval.lower,
                "upper": row.interval and row.interval.upper,
                "difference": row.difference,
                "difference_lower": row.of_difference and row.of_difference.lower,
                "difference_upper": row.of_difference and row.of_difference.upper,
                **tables.flat({"measured": dataclasses.asdict(self.measured)}),
            }
            for outcome in self.outcomes
            for row in _figures_of(outcome, self.outcomes[0])
        )

    def __str__(self) -> str:
        return table(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(table(self))}</pre>"


def table(report: Report) -> str:
    parts = [
        f"{printable(report.dataset)}: {report.task}, {tables.count(report.pictures, 'picture')}"
    ]
    if report.outcomes:
        parts += [
            _overall(report),
            *_intervals(report),
            *_by_class(report),
            *_notes(report),
        ]
    return "\n\n".join(parts) + "\n"


def as_json(report: Report) -> str:
    return json.dumps(_document(report), indent=2, ensure_ascii=False) + "\n"


def _document(report: Report) -> dict[str, Any]:
    first = report.outcomes[0] if report.outcomes else None
    return {
        "dataset": report.dataset,
        "task": report.task,
        "pictures": report.pictures,
        "concurrency": report.concurrency,
        "shown": _shown(report),  # of the figures, those for a table
        "unfinished": report.unfinished or None,
        "measured": dataclasses.asdict(report.measured),
        "command": report.command or None,
        "without_costs": report.without_costs or None,
        "models": [
            {
                "model": outcome.model.name,
                "version": outcome.version or outcome.model.version,
                "attention": outcome.attention,
                "weights_of_attention": outcome.model.weights_of_attention or None,
                "untrained": outcome.untrained,
                "answered": outcome.answered,
                "failed": [
                    {
                        "picture": str(failure.picture),
                        "code": failure.code or None,
                        "reason": failure.reason or None,
                        "message": failure.message,
                    }
                    for failure in outcome.failures
                ],
                "figures": _defined(outcome.figures.overall),
                "intervals": _plain(intervals(outcome.samples)),
                "differences": _defined(_differences(outcome, first)),
                "difference_intervals": _plain(
                    _intervals_of_differences(outcome, first)
                ),
                "classes": {
                    name: _defined(figures)
                    for name, figures in outcome.figures.classes.items()
                },
                "cost": dataclasses.asdict(outcome.cost),
                "notes": outcome.figures.notes,
            }
            for outcome in report.outcomes
        ],
    }


def _plain(found: dict[str, Interval]) -> dict[str, dict[str, float]]:
    return {name: dataclasses.asdict(one) for name, one in found.items()}


def _intervals_of_differences(
    outcome: Outcome, first: Outcome | None
) -> dict[str, Interval]:
    if first is None or outcome is first:
        return {}
    return intervals_of_differences(outcome.samples, first.samples) | {
        name: one.interval for name, one in outcome.cost_differences.items()
    }


@dataclasses.dataclass(frozen=True)
class _Figure:
    """Of one model, over all classes."""

    name: str
    value: float
    interval: Interval | None
    difference: float | None  # to the first model's; None: of that itself
    of_difference: Interval | None


def _figures_of(outcome: Outcome, first: Outcome) -> list[_Figure]:
    within = intervals(outcome.samples)
    differences = _differences(outcome, first)
    beside = _intervals_of_differences(outcome, first)
    return [
        _Figure(name, value, within.get(name), differences.get(name), beside.get(name))
        for name, value in outcome.figures.overall.items()
    ]


def as_csv(report: Report) -> str:
    """One figure a line; without a class: over all of them. An undefined figure is empty. Strings that a spreadsheet would
    run as formulas get a leading apostrophe, as names of models and labels may be anybody's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")

    def add(fields: list[Any]) -> None:
        writer.writerow([_without_formula(field) for field in fields])

    provenance = tables.flat({"measured": dataclasses.asdict(report.measured)})
    provenance["command"] = report.command
    add(
        [
            *(
                "model",
                "version",
                "attention",
                "class",
                "figure",
                "value",
                "difference",
            ),
            *("lower", "upper", "difference_lower", "difference_upper"),
            *provenance,
        ]
    )
    for outcome in report.outcomes:
        of_model = [
            outcome.model.name,
            outcome.version or outcome.model.version,
            outcome.attention,
        ]
        first = report.outcomes[0]
        for row in _figures_of(outcome, first):
            ends = [
                end
                for one in (row.interval, row.of_difference)
                for end in ((one.lower, one.upper) if one else (None, None))
            ]
            cells = [row.value, row.difference, *ends]
            add([*of_model, "", row.name, *map(_cell, cells), *provenance.values()])
        facts = {
            "answered": outcome.answered,
            "failed": len(outcome.failures),
        } | dataclasses.asdict(outcome.cost)
        for name, value in facts.items():
            apart = outcome.cost_differences.get(name)
            cells = (
                [apart.value, None, None, apart.interval.lower, apart.interval.upper]
                if apart
                else [None] * 5
            )
            add(
                [
                    *of_model,
                    "",
                    name,
                    *map(_cell, [value, *cells]),
                    *provenance.values(),
                ]
            )
        for label, figures in outcome.figures.classes.items():
            for name, value in figures.items():
                add(
                    [
                        *of_model,
                        label,
                        name,
                        _cell(value),
                        *[""] * 5,
                        *provenance.values(),
                    ]
                )
    return text.getvalue()


def _without_formula(field: Any) -> Any:
    """The field, with a leading apostrophe if a spreadsheet would run it as a formula (OWASP, CSV Injection)."""
    is_like_one = isinstance(field, str) and field.startswith(tuple("=+-@\t\r\n"))
    return f"'{field}" if is_like_one else field


def _differences(outcome: Outcome, first: Outcome | None) -> dict[str, float]:
    """To the first model: figures, and what of the cost was compared. None for the first itself."""
    if first is None or outcome is first:
        return {}
    ours, theirs = outcome.figures.overall, first.figures.overall
    return {name: ours[name] - theirs[name] for name in ours if name in theirs} | {
        name: one.value for name, one in outcome.cost_differences.items()
    }


def _defined(figures: dict[str, float]) -> dict[str, float | None]:
    return {
        name: None if math.isnan(value) else value for name, value in figures.items()
    }


def _cell(value: float | None) -> Any:
    return "" if value is None or math.isnan(value) else value


def _shown(report: Report) -> list[str]:
    return [
        name
        for name in _SHOWN[report.task]
        if any(name in outcome.figures.overall for outcome in report.outcomes)
    ]


def _overall(report: Report) -> str:
    figures = _shown(report)
    costs = {name: (cost, 1) for cost, name in _TIMES_SHOWN.items()} | {
        "batch peak MiB": ("batch_peak_bytes", _MIB)
    }
    rows = [["model", "attention", *figures, "failed", *costs]]
    for outcome in report.outcomes:
        differences = _differences(outcome, report.outcomes[0])
        cost = dataclasses.asdict(outcome.cost)
        row = [printable(outcome.model.named), printable(outcome.attention) or "–"]
        row += [
            _with_difference(
                outcome.figures.overall.get(name), differences.get(name), 4
            )
            for name in figures
        ]
        row.append(str(len(outcome.failures)))
        row += [
            _with_difference(
                _scaled(cost[name], unit), _scaled(differences.get(name), unit), 1
            )
            for name, unit in costs.values()
        ]
        rows.append(row)
    return "\n".join(tables.aligned(rows, texts=2))


def _intervals(report: Report) -> list[str]:
    """The figures of the table above again, each with how far it can be trusted."""
    rows = [["model", "attention", "figure", "", "95 %", "difference", "95 %"]]
    for outcome in report.outcomes:
        for one in _figures_of(outcome, report.outcomes[0]):
            if one.name not in _SHOWN[report.task] or one.interval is None:
                continue
            rows.append(
                [
                    printable(outcome.model.named),
                    printable(outcome.attention) or "–",
                    one.name,
                    _number(one.value, "{:.4f}"),
                    _range(one.interval, "{:.4f}"),
                    _number(one.difference, "{:+.4f}"),
                    _range(one.of_difference, "{:+.4f}"),
                ]
            )
        cost = dataclasses.asdict(outcome.cost)
        for name, apart in outcome.cost_differences.items():
            rows.append(
                [
                    printable(outcome.model.named),
                    printable(outcome.attention) or "–",
                    _TIMES_SHOWN[name],
                    _number(cost[name], "{:.1f}"),
                    "",
                    _number(apart.value, "{:+.1f}"),
                    _range(apart.interval, "{:+.1f}"),
                ]
            )
    if len(rows) == 1:
        return []
    if len(report.outcomes) == 1:
        rows = [row[:5] for row in rows]
    return ["\n".join(tables.aligned(rows, texts=3))]


def _range(of: Interval | None, form: str) -> str:
    return "–" if of is None else f"{form.format(of.lower)} to {form.format(of.upper)}"


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _number(value: float | None, form: str) -> str:
    return "–" if value is None or math.isnan(value) else form.format(value)


def _with_difference(value: float | None, difference: float | None, digits: int) -> str:
    text = _number(value, f"{{:.{digits}f}}")
    if difference is None or math.isnan(difference):
        return text
    return f"{text} ({difference:+.{digits}f})"


def _by_class(report: Report) -> list[str]:
    labels = list(
        dict.fromkeys(label for one in report.outcomes for label in one.figures.classes)
    )
    if len(labels) > _CLASSES_SHOWN:
        return [f"Each of the {len(labels)} classes: --json or --csv."]
    several = len(report.outcomes) > 1
    known = {
        name
        for one in report.outcomes
        for figures in one.figures.classes.values()
        for name in figures
    }
    names = [name for name in _OF_CLASS[report.task] if name in known]
    names = [name for name in names if not several or name in _OF_CLASS_BESIDE_OTHERS]
    columns = [(one, name) for one in report.outcomes for name in names]
    header = [f"{one.model} {name}" if several else name for one, name in columns]
    rows = [["class", *map(printable, header)]]
    for label in labels:
        values = [one.figures.classes.get(label, {}).get(name) for one, name in columns]
        rows.append([printable(label), *(_number(value, "{:.4f}") for value in values)])
    return ["\n".join(tables.aligned(rows, texts=1))]


def _notes(report: Report) -> list[str]:
    lines = []
    for outcome in report.outcomes:
        lines += [f"{outcome.model}: {note}" for note in outcome.figures.notes]
        if outcome.model.weights_of_attention:
            lines.append(
                f"{outcome.model}: same weights as {outcome.model.weights_of_attention}, not fine-tuned"
            )
        if outcome.untrained:
            lines.append(
                f"{outcome.model}: its weights are random numbers, and its figures mean nothing"
            )
        if outcome.failures:
            lines.append(
                f"{outcome.model}: {len(outcome.failures)} of {report.pictures} pictures failed and do not count"
            )
    if (
        len(
            {
                frozenset(failure.picture for failure in one.failures)
                for one in report.outcomes
            }
        )
        > 1
    ):
        lines.append(
            "Not the same pictures failed for every model: the differences are not of the same pictures."
        )
    lines.append(
        f"costs were not measured: {report.without_costs}"
        if report.without_costs
        else f"latency: median in the server, {report.concurrency} requests at a time; compute: of the batch that a picture was in; "
        "both measured after the figures, the models asked in turn about the same pictures, the first round not counted"
    )
    if len(report.outcomes) > 1:
        lines.append("in brackets: the difference to the first model")
    if any(outcome.samples for outcome in report.outcomes):
        lines.append(
            "95 %: the interval in which the figure, or the difference on the same pictures, of endlessly many such pictures "
            "lies at 95 % (bootstrap over the pictures); of times: in which the median of the rounds' differences lies"
        )
    return ["\n".join(printable(line) for one in lines for line in one.splitlines())]
