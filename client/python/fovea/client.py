"""Calls a Fovea server: pictures in, typed results with numpy arrays out.

    from fovea.client import Client

    with Client("127.0.0.1:8001") as client:
        answer = client.detect("finder", ["cat.jpg"], masks=True)
        for box, score, label in zip(answer.images[0].boxes, answer.images[0].scores, answer.images[0].labels):
            print(label, score, box)

Tensors as such go through any client of the Open Inference Protocol, for example tritonclient.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

import grpc

from fovea import connection
from fovea.async_client import AsyncClient
from fovea.async_image_stream import AsyncImageStream
from fovea.comparison import (
    BriefAnswer,
    ClassAgreement,
    ComparedImage,
    ComparedTime,
    ComparedVariant,
    Comparison,
    MapAgreement,
    ObjectAgreement,
)
from fovea.comparison_request import comparison_in, to_compare
from fovea.errors import Error, TimedOut, Unreachable, check_timeout, error_of_call
from fovea.estimates import Estimate, Quartiles
from fovea.experiment import (
    ArmReport,
    Experiment,
    ExperimentArm,
    ExperimentPlan,
    GuardRails,
    SequentialTest,
    experiment_of,
    experiments_of,
    to_start,
)
from fovea.image_stream import ImageStream, StreamedAnswer
from fovea.pictures import Picture
from fovea.progress import Progress, TimeSoFar
from fovea.requests import Request, to_classify, to_detect, to_segment
from fovea.results import (
    STAGES,
    Answer,
    ClassArea,
    Classification,
    Detections,
    InstanceMask,
    Receipt,
    Result,
    Segmentation,
)
from fovea.serving import ServedVariant, Serving, served_in, to_serve
from fovea.sweep import FittedExponent, Sweep, SweptCurve, SweptPoint
from fovea.sweep_request import sweep_in, to_sweep
from fovea.v1 import experiment_pb2
from fovea.variant import Variant, variants_of

__all__ = [
    "STAGES",
    "Answer",
    "ArmReport",
    "AsyncClient",
    "AsyncImageStream",
    "BriefAnswer",
    "ClassAgreement",
    "ClassArea",
    "Classification",
    "Client",
    "ComparedImage",
    "ComparedTime",
    "ComparedVariant",
    "Comparison",
    "Detections",
    "Error",
    "Estimate",
    "Experiment",
    "ExperimentArm",
    "ExperimentPlan",
    "FittedExponent",
    "GuardRails",
    "ImageStream",
    "InstanceMask",
    "MapAgreement",
    "ObjectAgreement",
    "Picture",
    "Progress",
    "Quartiles",
    "Receipt",
    "Segmentation",
    "SequentialTest",
    "ServedVariant",
    "Serving",
    "StreamedAnswer",
    "Sweep",
    "SweptCurve",
    "SweptPoint",
    "TimeSoFar",
    "TimedOut",
    "Unreachable",
    "Variant",
]

Outcome = TypeVar("Outcome", Comparison, Sweep)


class Client:
    """A connection to a server.

    Thread-safe: calls from several threads share the connection and run at the same time, which lets the server run
    them in one batch. Every call blocks until the answer is there or an Error is raised. It is made at the first call,
    without encryption unless `tls_ca` is given, and without the proxies that the environment names.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float | None = 30,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        api_key: str | None = None,
        max_attempts: int = 4,
        balance: bool = False,
    ) -> None:
        """address: HOST:PORT of the server's gRPC port, [IPV6]:PORT, or a target as gRPC writes them.

        timeout: seconds that each call may take; the server does not begin what it cannot finish by then. None: any time.
        tls_ca: a PEM file with the issuers of the server's certificate. tls_certificate, tls_key: PEM files of one's
        own, for a server that asks for it. api_key: for a server that wants one; without TLS everyone on the way reads it.
        max_attempts: how often a call is made at most, in [1, 5], that a server refuses as UNAVAILABLE or whose
        connection breaks; within the timeout, after pauses, and on a budget (fovea.retry). Streams are made once.
        balance: calls go in turn to all addresses that the host has, for example the replicas behind a headless service
        of Kubernetes; otherwise to the first that answers.
        ValueError: no address, a timeout that is not above zero, other attempts, or a certificate without its key or
        without `tls_ca`.
        OSError: a file that cannot be read.
        """
        self._address = connection.Address(
            address,
            timeout,
            tls_ca,
            tls_certificate,
            tls_key,
            api_key,
            max_attempts,
            balance,
        )
        credentials = self._address.credentials()
        self._channel = (
            grpc.insecure_channel(address, self._address.options())
            if credentials is None
            else grpc.secure_channel(address, credentials, self._address.options())
        )
        one = self._channel.unary_unary
        self._classify = self._method(one, connection.CLASSIFY)
        self._detect = self._method(one, connection.DETECT)
        self._segment = self._method(one, connection.SEGMENT)
        self._stream_images = self._method(
            self._channel.stream_stream, connection.STREAM_IMAGES
        )
        self._compare = self._method(self._channel.unary_stream, connection.COMPARE)
        self._sweep = self._method(self._channel.unary_stream, connection.SWEEP)
        self._serve = self._method(self._channel.unary_stream, connection.SERVE)
        self._start_experiment = self._method(one, connection.START_EXPERIMENT)
        self._get_experiment = self._method(one, connection.GET_EXPERIMENT)
        self._list_experiments = self._method(one, connection.LIST_EXPERIMENTS)
        self._stop_experiment = self._method(one, connection.STOP_EXPERIMENT)
        self._delete_experiment = self._method(one, connection.DELETE_EXPERIMENT)

    def close(self) -> None:
        """Ends the calls that are running, and refuses new ones, with CANCELLED."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def classify(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        top_k: int = 5,
        version: str = "",
        priority: int = 0,
        experiment_key: str = "",
        timeout: float | None = None,
    ) -> Answer[Classification]:
        """The `top_k` most probable classes of each picture. They share one batch.

        experiment_key, here and below: while an experiment shares the model's traffic out, requests with the same key are
        answered by the same arm. Printable ASCII; empty: the name of the API key or certificate stands for it, and of
        callers without one each request goes by chance.
        """
        request = to_classify(
            model, pictures, top_k=top_k, version=version, priority=priority
        )
        return self._ask(self._classify, request, experiment_key, timeout)

    def detect(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        score_threshold: float = 0,
        max_detections: int = 0,
        classes: Iterable[str] = (),
        masks: bool = False,
        version: str = "",
        priority: int = 0,
        experiment_key: str = "",
        timeout: float | None = None,
    ) -> Answer[Detections]:
        """The objects in each picture.

        score_threshold: objects of a lower score are left out. max_detections: of each picture, best first; 0: as many
        as the model gives. classes: only objects of these, labels or class numbers as text, at most twice as many
        as the model has classes; empty: of all. masks: also which pixels show each object; only of models that have masks.
        """
        request = to_detect(
            model,
            pictures,
            score_threshold=score_threshold,
            max_detections=max_detections,
            classes=classes,
            masks=masks,
            version=version,
            priority=priority,
        )
        return self._ask(self._detect, request, experiment_key, timeout)

    def segment(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        confidence: bool = False,
        version: str = "",
        priority: int = 0,
        experiment_key: str = "",
        timeout: float | None = None,
    ) -> Answer[Segmentation]:
        """A class for each pixel of each picture. confidence: besides, how sure the model is of it."""
        request = to_segment(
            model, pictures, confidence=confidence, version=version, priority=priority
        )
        return self._ask(self._segment, request, experiment_key, timeout)

    def stream(
        self,
        *,
        in_order: bool = True,
        ahead: int = 128,
        experiment_key: str = "",
        timeout: float | None = None,
    ) -> ImageStream:
        """Many requests over one call, each to a model and with options of its own.

        in_order: the answers come in the order of the requests; otherwise each as soon as it is there. ahead: requests
        whose answers have not been read, at most; then writing waits. Fewer keep a slow reader closer to its camera; the
        server takes 64 of a stream at a time. experiment_key: of all its requests, as classify's. timeout: seconds for the
        whole stream, after which all its requests end. None: any time; the requests have timeouts of their own. ValueError:
        `ahead` or `timeout` is not above zero, or the key cannot be sent.
        """
        check_timeout(timeout)
        if ahead < 1:
            raise ValueError(f"ahead is {ahead}: it must be above zero")

        metadata = self._address.metadata(experiment_key)

        def begin(messages: Iterator[Any]) -> Any:
            try:
                return self._stream_images(messages, timeout=timeout, metadata=metadata)
            except ValueError as error:  # gRPC's, of a channel that is closed
                raise connection.closed() from error

        return ImageStream(
            begin,
            lambda error: error_of_call(error, self._address.target, timeout),
            in_order=in_order,
            ahead=ahead,
            request_timeout=self._address.timeout,
        )

    def compare(
        self,
        models: str | Variant | Iterable[str | Variant],
        pictures: Iterable[Picture],
        *,
        attentions: Iterable[str] = (),
        rounds: int = 0,
        max_rounds: int = 0,
        max_seconds: float | None = None,
        batch_size: int = 0,
        threads: int = 0,
        id: str = "",
        dataset: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
    ) -> Comparison:
        """What attention costs and changes: variants measured side by side by the server, on the same pictures.

        models: each with each of `attentions` over its weights, or, without them, with its own; a Variant names its own
        version and attention. Of one attention, each model as it is comes before it. Two to eight variants come of it; the
        first is the baseline. pictures: 1 to 64.
        rounds: in which each variant runs twice, before the first look at the verdicts; 0: 20. max_rounds: at most, while a
        verdict is missing; 0: ten times as many. max_seconds: after which no round begins once `rounds` are done; None: a
        minute. batch_size: pictures in a batch; 0: one. threads: of the server's for models; 0: all.
        dataset: a folder, or an annotation file of COCO's format, on which each variant's accuracy, average precision or
        mIoU is measured first, with intervals: Comparison.dataset; fovea.evaluation.evaluate has more options. None: none.
        limit: pictures of it, evenly spread; None: all.
        progress: is called with each Progress that the server tells, on this thread; what it raises ends the comparison.
        timeout: seconds for the whole, the data set aside; None: any time, not the client's own.
        UNIMPLEMENTED: the server was not started with --enable-experiments.
        """
        check_timeout(timeout)
        variants = variants_of(models, attentions, own_before_one=True)
        request = to_compare(
            variants,
            pictures,
            rounds=rounds,
            max_rounds=max_rounds,
            max_seconds=max_seconds,
            batch_size=batch_size,
            threads=threads,
            id=id,
        )
        report = None
        if dataset is not None:
            # Late: it is of no use to others, and needs what they may not have installed.
            from fovea.evaluation.evaluate import evaluate

            # Without costs: the comparison measures them.
            report = evaluate(self, variants, dataset, limit=limit, rounds=0)
        comparison = self._measure(
            self._compare, request, comparison_in, progress, timeout, "comparison"
        )
        return dataclasses.replace(comparison, dataset=report)

    def sweep(
        self,
        models: str | Variant | Iterable[str | Variant],
        over: str,
        values: Iterable[str | float],
        *,
        attentions: Iterable[str] = (),
        picture: Picture | None = None,
        rounds: int = 0,
        max_seconds: float | None = None,
        batch_size: int = 0,
        threads: int = 0,
        id: str = "",
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
    ) -> Sweep:
        """How costs grow: a point for each value of each variant, measured in turn by the server, and exponents fitted.

        models, attentions: as compare's, but one attention stands alone; one to eight variants come of it, a curve each.
        over: "resolution", "batch", "k", "temperature", "heads", "threads" or "precision". values: 1 to 32: sides in pixels, images, counts of keys (9) or shares of
        them (0.5), numbers, "FP32", "BF16" and "INT8". Of k, temperature and heads a variant's attention gets the value as an option: in the
        place of "{}", or behind its other options. picture: that batches are made of; None: noise.
        rounds: in which each point runs twice; 0: 20. max_seconds: after which no round begins; None: five minutes.
        batch_size, threads, progress, timeout: as compare's. A point that cannot be built, or that models would wait for too long,
        says so (`failure`), and the others go on.
        UNIMPLEMENTED: the server was not started with --enable-experiments.
        """
        check_timeout(timeout)
        request = to_sweep(
            models,
            over,
            values,
            attentions=attentions,
            picture=picture,
            rounds=rounds,
            max_seconds=max_seconds,
            batch_size=batch_size,
            threads=threads,
            id=id,
        )
        return self._measure(self._sweep, request, sweep_in, progress, timeout, "sweep")

    def _measure(
        self,
        method: Any,
        request: Any,
        read: Callable[[Any, Callable[[Progress], object] | None], Outcome | None],
        progress: Callable[[Progress], object] | None,
        timeout: float | None,
        what: str,
    ) -> Outcome:
        """Of a call that tells how it goes on, what `read` makes of its last message."""
        call = None
        try:
            call = method(request, timeout=timeout)
            for message in call:
                outcome = read(message, progress)
                if outcome is not None:
                    return outcome
        except grpc.RpcError as error:
            raise error_of_call(error, self._address.target, timeout) from error
        except ValueError as error:  # gRPC's, of a channel that is closed
            if call is not None:
                raise
            raise connection.closed() from error
        finally:
            if call is not None:
                call.cancel()  # nothing, where it has ended
        raise Error("INTERNAL", "", f"the server ended without a {what}")

    def serve(
        self,
        models: str | Variant | Iterable[str | Variant],
        *,
        attentions: Iterable[str] = (),
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
    ) -> Serving:
        """Has variants served as models, for as long as what it returns is open; they are, when it returns.

        models, attentions: as of `sweep`, one to eight variants. A variant with its model's own attention is the model
        itself. Any client may call them by their names, of the server that this connection leads to; they end with it, too.
        progress: is called with each Progress that the server tells, on this thread; what it raises ends the call.
        timeout: seconds after which they are taken away; None: a day, the server's own limit.
        UNIMPLEMENTED: the server was not started with --enable-experiments.
        """
        check_timeout(timeout)
        request = to_serve(models, attentions=attentions)
        call = serving = None
        try:
            call = self._serve(request, timeout=timeout)
            for message in call:
                variants = served_in(message, progress)
                if variants is not None:
                    serving = Serving(call, variants)
                    return serving
        except grpc.RpcError as error:
            raise error_of_call(error, self._address.target, timeout) from error
        except ValueError as error:  # gRPC's, of a channel that is closed
            if call is not None:
                raise
            raise connection.closed() from error
        finally:
            if call is not None and serving is None:
                call.cancel()
        raise Error("INTERNAL", "", "the server ended without serving anything")

    def start_experiment(
        self,
        name: str,
        model: str,
        arms: Iterable[ExperimentArm],
        *,
        guard_rails: GuardRails | None = None,
        error_probability: float = 0,
        latency_margin: float = 0,
        disagreement_margin: float = 0,
        timeout: float | None = None,
    ) -> Experiment:
        """Shares a model's traffic out between variants of it, or copies it to them, until the experiment ends.

        model: whose traffic it is: requests that name it and no version. arms: two to eight; the first is the baseline, which
        the others are tested against. guard_rails: what ends it; None: the server's own. error_probability: that any of the
        intervals ever misses the truth, however often they are looked at; 0: 0.05. latency_margin, disagreement_margin: up
        to which a ratio of latencies, and a share of other answers, is equivalent; 0: 0.05.
        timeout: seconds, in which the arms are loaded; None: any time, not the client's own.
        ALREADY_EXISTS: there is one of that name, or another one has the model's traffic. UNIMPLEMENTED: the server was not
        started with --enable-experiments.
        """
        check_timeout(timeout)
        plan = ExperimentPlan(
            name=name,
            model_name=model,
            arms=list(arms),
            guard_rails=guard_rails or GuardRails(),
            error_probability=error_probability,
            latency_margin=latency_margin,
            disagreement_margin=disagreement_margin,
        )
        return experiment_of(
            self._call(self._start_experiment, to_start(plan), timeout)
        )

    def experiment(self, name: str, *, timeout: float | None = None) -> Experiment:
        """How it stands: it may be looked at, and acted upon, at any time. NOT_FOUND: none has that name."""
        request = experiment_pb2.GetExperimentRequest(name=name)
        timeout = self._address.timeout_of(timeout)
        return experiment_of(self._call(self._get_experiment, request, timeout))

    def experiments(self, *, timeout: float | None = None) -> list[Experiment]:
        """All of the server's, those that have ended too, by name."""
        request = experiment_pb2.ListExperimentsRequest()
        timeout = self._address.timeout_of(timeout)
        answer = self._call(self._list_experiments, request, timeout)
        return experiments_of(answer.experiments)

    def stop_experiment(self, name: str, *, timeout: float | None = None) -> Experiment:
        """Ends it: all traffic goes to the baseline. One that has ended stays as it is. NOT_FOUND: none has that name."""
        request = experiment_pb2.StopExperimentRequest(name=name)
        timeout = self._address.timeout_of(timeout)
        return experiment_of(self._call(self._stop_experiment, request, timeout))

    def delete_experiment(self, name: str, *, timeout: float | None = None) -> None:
        """Forgets one that has ended. NOT_FOUND: none has that name; FAILED_PRECONDITION: it runs."""
        request = experiment_pb2.DeleteExperimentRequest(name=name)
        timeout = self._address.timeout_of(timeout)
        self._call(self._delete_experiment, request, timeout)

    def _method(self, kind: Callable[..., Any], method: connection.Method) -> Any:
        call = kind(method.path, **method.codecs())
        return functools.partial(call, metadata=self._address.metadata())

    def _ask(
        self,
        method: Any,
        request: Request[Result],
        experiment_key: str,
        timeout: float | None,
    ) -> Answer[Result]:
        timeout = self._address.timeout_of(timeout)
        metadata = self._address.metadata(experiment_key)
        start = time.monotonic()
        response = self._call(method, request.message, timeout, metadata=metadata)
        return request.expected.answer_of(response, time.monotonic() - start)

    def _call(
        self, method: Any, message: Any, timeout: float | None, **more: Any
    ) -> Any:
        """The answer to a message. Error: the server's, or why there is none."""
        try:
            return method(message, timeout=timeout, **more)
        except grpc.RpcError as error:
            raise error_of_call(error, self._address.target, timeout) from error
        except ValueError as error:  # gRPC's, of a channel that is closed
            raise connection.closed() from error
