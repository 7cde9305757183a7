"""An ExperimentService whose experiments a test knows, for the Python package."""

from __future__ import annotations

import concurrent.futures
from typing import Any, Self

import grpc
from fovea.v1 import experiment_pb2 as pb

_STATES = pb.Experiment


class FakeExperiments:
    """Serves on a free port. Every experiment has what `made` says, once it has been started. "taken": ALREADY_EXISTS."""

    def __init__(self, made: Any = None) -> None:
        """made: the proto's Experiment; None: as `of_classifier` gives it."""
        self._made = made or of_classifier()
        self.requests: list[Any] = []
        self._experiments: dict[str, Any] = {}
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=getattr(pb, f"{method}Request").FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for method, answer in {
                "StartExperiment": self._start,
                "GetExperiment": self._get,
                "ListExperiments": self._list,
                "StopExperiment": self._stop,
                "DeleteExperiment": self._delete,
            }.items()
        }
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "fovea.v1.ExperimentService", handlers
                ),
            )
        )
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _start(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        name = request.plan.name
        if name == "taken":
            context.set_trailing_metadata((("fovea-reason", "experiment.exists"),))
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "there is one of that name")
        found = pb.Experiment()
        found.CopyFrom(self._made)
        found.plan.name = name
        self._experiments[name] = found
        return found

    def _find(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        if request.name not in self._experiments:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is none of that name")
        return self._experiments[request.name]

    def _get(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._find(request, context)

    def _list(self, _: Any, __: grpc.ServicerContext) -> Any:
        return pb.ListExperimentsResponse(experiments=self._experiments.values())

    def _stop(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = self._find(request, context)
        found.state, found.reason = _STATES.STOPPED, "a caller stopped it"
        return found

    def _delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self._find(request, context).state == _STATES.RUNNING:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it runs")
        del self._experiments[request.name]
        return pb.DeleteExperimentResponse()


def tested(verdict: str, estimate: float, lower: float, upper: float) -> Any:
    return pb.SequentialTest(
        estimate=estimate,
        lower=lower,
        upper=upper,
        observations=40,
        verdict=pb.SequentialTest.Verdict.Value(verdict),
    )


def of_classifier() -> Any:
    """Dense attention against k-NN over the same weights, which gets a tenth of the traffic and copies."""
    arms = [
        pb.ExperimentArm(variant={"model_name": "shapes"}, weight=9),
        pb.ExperimentArm(
            variant={"model_name": "shapes", "attention": "knn:k=0.5"},
            weight=1,
            shadow=True,
        ),
    ]
    return pb.Experiment(
        plan=pb.ExperimentPlan(
            name="night",
            model_name="shapes",
            arms=arms,
            guard_rails=pb.GuardRails(max_latency_ratio=2, max_seconds=604_800),
            error_probability=0.05,
            latency_margin=0.05,
            disagreement_margin=0.05,
        ),
        state=pb.Experiment.RUNNING,
        running_seconds=3725.5,
        arms=[
            pb.ArmReport(
                name="shapes:dense",
                model_name="shapes",
                model_version="1",
                attention="dense",
                requests=(9 << 40),  # more than 32 bits hold
                failures=2,
                mean_latency_ms=4,
            ),
            pb.ArmReport(
                name="shapes:knn:k=0.5",
                # Another attention is served as a model of its own.
                model_name="variant.shapes.1.knn-k-0.5",
                model_version="1",
                attention="knn:k=0.5",
                weights_of_attention="dense",
                requests=100,
                shadow_requests=40,
                shadow_skipped=7,
                mean_latency_ms=4.75,
                latency_ratio=tested("HIGHER", 1.1875, 1.125, 1.25),
                disagreement=tested("UNDECIDED", 0.0625, 0, 0.25),
                error_excess=tested("EQUIVALENT", 0, -0.03125, 0.03125),
            ),
        ],
        measured={
            "at": "2026-03-01T14:05:09Z",
            "by": "fovea-server 1.2.0",
            "processor": "A processor",
            "cores": 2,
        },
    )
