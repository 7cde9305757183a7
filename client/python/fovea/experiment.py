"""Live comparisons: a model's own traffic shared out between variants of it, as fovea.client starts and reads them.

    client.start_experiment(
        "night", "shapes", [ExperimentArm(weight=9), ExperimentArm(attention="knn:k=0.5", weight=1)]
    )
    experiment = client.experiment("night")
    experiment              # a table, in a notebook and printed
    experiment.to_frame()   # pandas: a row for each arm
    experiment.to_json()    # as GET /v1/experiments/night answers it, and Experiment.from_json reads it

An open end of an interval is "Infinity" or "-Infinity" in to_json() and in what `fovea experiment --json` prints, null over
HTTP; from_json reads both. Every field has the name that proto/fovea/v1/experiment.proto gives it, which says more; only an
arm's variant is flat here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fovea import experiment_text, tables
from fovea.errors import Error
from fovea.estimates import Provenance, provenance_of
from fovea.message_json import message_in, with_named_infinity, without_none
from fovea.v1 import comparison_pb2, experiment_pb2

if TYPE_CHECKING:
    import pandas


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentArm:
    """A variant and its part of the traffic: a served model, with its own attention or another one over its weights."""

    model: str = ""  # empty: the one whose traffic it is
    version: str = ""  # empty: the latest that is served
    attention: str = ""  # for example "knn:k=100"; empty: the model's own
    weight: float  # of the traffic, against the other arms'; 0: it answers nobody
    # It also gets copies of what the baseline has answered, when the device has nothing else to do.
    shadow: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class GuardRails:
    """What ends an experiment by itself. 0: the server's default."""

    max_latency_ratio: float = 0  # an arm's to the baseline's, with certainty
    # The share of an arm's answers that are not the baseline's, with certainty; stays 0: none.
    max_disagreement: float = 0
    # The share of requests that an arm fails more than the baseline, with certainty.
    max_error_excess: float = 0
    max_seconds: int = 0
    # Of the seconds of the device's threads, what shadow copies may take.
    max_shadow_share: float = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentPlan:
    name: str
    model_name: str  # whose traffic it is
    arms: list[ExperimentArm]  # two to eight, the baseline first
    guard_rails: GuardRails = dataclasses.field(default_factory=GuardRails)
    # 0: the server's default.
    error_probability: float = 0
    latency_margin: float = 0
    disagreement_margin: float = 0


@dataclasses.dataclass(frozen=True)
class SequentialTest:
    """An estimate whose interval holds the truth at all times at once: look, and act upon it, whenever you like."""

    estimate: float
    lower: float
    upper: float
    observations: int  # windows, or requests
    # "UNDECIDED", "LOWER", "HIGHER" (than no difference), "EQUIVALENT". Empty: of a newer server.
    verdict: str


@dataclasses.dataclass(frozen=True)
class ArmReport:
    name: str  # as receipts and metrics have it: "shapes:knn:k=9"
    model_name: str
    model_version: str
    attention: str  # canonical text
    # The attention that the weights are served with, where it is another one: same weights, not fine-tuned. Else empty.
    weights_of_attention: str
    requests: int  # answered for callers
    failures: int  # of them; what callers did wrong or cancelled is none
    shadow_requests: int
    shadow_skipped: int  # copies that were not made
    mean_latency_ms: float
    # Against the baseline; None: of the baseline itself, or nothing has been seen.
    latency_ratio: SequentialTest | None
    disagreement: SequentialTest | None
    error_excess: SequentialTest | None


@dataclasses.dataclass(frozen=True)
class Experiment:
    """How an experiment stands. A notebook shows it as a table."""

    plan: ExperimentPlan  # with the server's defaults
    # "RUNNING", "STOPPED", "GUARD_RAIL", "EXPIRED", "MODEL_GONE". Empty: of a newer server.
    state: str
    reason: str  # in words, where it has ended
    running_seconds: float
    arms: list[ArmReport]  # as the plan's, the baseline first
    measured: Provenance | None  # None: the server does not report it

    @property
    def running(self) -> bool:
        return self.state == "RUNNING"

    def to_dict(self) -> dict[str, Any]:
        """As GET /v1/experiments/NAME answers it: the proto's names; what is absent is left out.

        An open end of an interval is "Infinity" or "-Infinity", where HTTP writes null.
        """
        found: dict[str, Any] = dataclasses.asdict(self)
        for arm in found["plan"]["arms"]:
            arm["variant"] = {
                "model_name": arm.pop("model"),
                "model_version": arm.pop("version"),
                "attention": arm.pop("attention"),
            }
        found["arms"] = [
            {
                name: with_named_infinity(value)
                for name, value in arm.items()
                if value is not None
            }
            for arm in found["arms"]
        ]
        found["measured"] = without_none(found["measured"])
        return {name: value for name, value in found.items() if value is not None}

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    @staticmethod
    def from_json(text: str) -> Experiment:
        """What to_json wrote, a server answered, or `fovea experiment --json` printed. ValueError: it is something else."""
        empty = experiment_pb2.Experiment()
        message = message_in(text, empty, "experiment", holding="arms")
        try:
            return experiment_of(message)
        except Error as error:
            raise ValueError(f"this is no experiment: {error}") from error

    def to_frame(self) -> pandas.DataFrame:
        """A row for each arm; the numbers of a test are columns named TEST_PART, such as latency_ratio_lower.

        What an arm does not have is missing (NaN). `attrs` has the plan and the state. ImportError: pandas is missing.
        """
        import pandas

        rows = []
        for planned, arm in zip(self.plan.arms, self.arms, strict=True):
            row = dataclasses.asdict(arm)
            row["weight"], row["shadow"] = planned.weight, planned.shadow
            for test in ("latency_ratio", "disagreement", "error_excess"):
                parts = row.pop(test)
                for part in dataclasses.fields(SequentialTest):
                    none = "" if part.name == "verdict" else None
                    row[f"{test}_{part.name}"] = parts[part.name] if parts else none
            if self.measured is not None:
                row |= tables.flat({"measured": dataclasses.asdict(self.measured)})
            rows.append(row)
        frame = pandas.DataFrame(rows)
        frame.attrs.update(
            name=self.plan.name,
            model_name=self.plan.model_name,
            state=self.state,
            reason=self.reason,
            running_seconds=self.running_seconds,
            error_probability=self.plan.error_probability,
        )
        return frame

    def __str__(self) -> str:
        return experiment_text.plain(self)

    def _repr_html_(self) -> str:
        return experiment_text.html(self)


def to_start(plan: ExperimentPlan) -> Any:
    """The message that starts it."""
    return experiment_pb2.StartExperimentRequest(
        plan=experiment_pb2.ExperimentPlan(
            name=plan.name,
            model_name=plan.model_name,
            arms=[
                experiment_pb2.ExperimentArm(
                    variant=comparison_pb2.Variant(
                        model_name=arm.model or plan.model_name,
                        model_version=arm.version,
                        attention=arm.attention,
                    ),
                    weight=arm.weight,
                    shadow=arm.shadow,
                )
                for arm in plan.arms
            ],
            guard_rails=experiment_pb2.GuardRails(
                **dataclasses.asdict(plan.guard_rails)
            ),
            error_probability=plan.error_probability,
            latency_margin=plan.latency_margin,
            disagreement_margin=plan.disagreement_margin,
        )
    )


def experiment_of(message: Any) -> Experiment:
    """message: the proto's Experiment. Error: its arms are not those of its plan."""
    if not message.arms or len(message.arms) != len(message.plan.arms):
        raise Error(
            "INTERNAL",
            "",
            f"the server's experiment has {len(message.arms)} arms, its plan {len(message.plan.arms)}",
        )
    return Experiment(
        plan=_plan_of(message.plan),
        state=_name(experiment_pb2.Experiment.State, message.state),
        reason=message.reason,
        running_seconds=message.running_seconds,
        arms=[_arm_of(one) for one in message.arms],
        measured=provenance_of(message),
    )


def experiments_of(messages: Iterable[Any]) -> list[Experiment]:
    return [experiment_of(one) for one in messages]


def _plan_of(message: Any) -> ExperimentPlan:
    rails = message.guard_rails
    return ExperimentPlan(
        name=message.name,
        model_name=message.model_name,
        arms=[
            ExperimentArm(
                model=one.variant.model_name,
                version=one.variant.model_version,
                attention=one.variant.attention,
                weight=one.weight,
                shadow=one.shadow,
            )
            for one in message.arms
        ],
        guard_rails=GuardRails(
            max_latency_ratio=rails.max_latency_ratio,
            max_disagreement=rails.max_disagreement,
            max_error_excess=rails.max_error_excess,
            max_seconds=rails.max_seconds,
            max_shadow_share=rails.max_shadow_share,
        ),
        error_probability=message.error_probability,
        latency_margin=message.latency_margin,
        disagreement_margin=message.disagreement_margin,
    )


def _arm_of(message: Any) -> ArmReport:
    return ArmReport(
        name=message.name,
        model_name=message.model_name,
        model_version=message.model_version,
        attention=message.attention,
        weights_of_attention=message.weights_of_attention,
        requests=message.requests,
        failures=message.failures,
        shadow_requests=message.shadow_requests,
        shadow_skipped=message.shadow_skipped,
        mean_latency_ms=message.mean_latency_ms,
        latency_ratio=_test_of(message, "latency_ratio"),
        disagreement=_test_of(message, "disagreement"),
        error_excess=_test_of(message, "error_excess"),
    )


def _test_of(message: Any, name: str) -> SequentialTest | None:
    if not message.HasField(name):
        return None
    found = getattr(message, name)
    return SequentialTest(
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        observations=found.observations,
        verdict=_name(experiment_pb2.SequentialTest.Verdict, found.verdict),
    )


def _name(names: Any, number: int) -> str:
    """Of an enumerator; empty where the message says nothing, or something newer than this client."""
    return names.Name(number) if number != 0 and number in names.values() else ""
