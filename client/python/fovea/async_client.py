"""Calls a Fovea server from asyncio; the same calls, results and errors as fovea.client.Client's.

from fovea.client import AsyncClient

async with AsyncClient("127.0.0.1:8001") as client:
    one, other = await asyncio.gather(client.classify("shapes", ["a.jpg"]), client.classify("shapes", ["b.jpg"]))
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar, Unpack

import grpc
import grpc.aio

from fovea import connection
from fovea.async_image_stream import AsyncImageStream
from fovea.comparison import Comparison
from fovea.comparison_request import CompareOptions, comparison_in, to_compare
from fovea.errors import Error, check_timeout, error_of_call
from fovea.experiment import (
    Experiment,
    ExperimentArm,
    ExperimentPlan,
    GuardRails,
    experiment_of,
    experiments_of,
    to_start,
)
from fovea.pictures import Picture
from fovea.progress import Progress
from fovea.requests import (
    ClassifyOptions,
    DetectOptions,
    Request,
    SegmentOptions,
    to_classify,
    to_detect,
    to_segment,
)
from fovea.results import Answer, Classification, Detections, Result, Segmentation
from fovea.serving import AsyncServing, served_in, to_serve
from fovea.sweep import Sweep
from fovea.sweep_request import SweepOptions, sweep_in, to_sweep
from fovea.v1 import experiment_pb2
from fovea.variant import Variant

Outcome = TypeVar("Outcome", Comparison, Sweep)


class AsyncClient:
    """A connection to a server, of one event loop: made and used in its coroutines.

    Calls that are awaited together run at the same time, which lets the server run them in one batch. Cancelling a call's
    task cancels the call in the server. Files are read, and pixels encoded, on a thread.
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
        """As Client's, and its errors."""
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
        self._channel: Any = (
            grpc.aio.insecure_channel(address, self._address.options())
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, self._address.options())
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
        self._closed = False

    async def close(self) -> None:
        """Ends the calls that are running, and refuses new ones, with CANCELLED."""
        self._closed = True
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def classify(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        experiment_key: str = "",
        timeout: float | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> Answer[Classification]:
        """As Client.classify, with its options."""
        request = await asyncio.to_thread(to_classify, model, pictures, **options)
        return await self._ask(self._classify, request, experiment_key, timeout)

    async def detect(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        experiment_key: str = "",
        timeout: float | None = None,
        **options: Unpack[DetectOptions],
    ) -> Answer[Detections]:
        """As Client.detect, with its options."""
        request = await asyncio.to_thread(to_detect, model, pictures, **options)
        return await self._ask(self._detect, request, experiment_key, timeout)

    async def segment(
        self,
        model: str,
        pictures: Iterable[Picture],
        *,
        experiment_key: str = "",
        timeout: float | None = None,
        **options: Unpack[SegmentOptions],
    ) -> Answer[Segmentation]:
        """As Client.segment, with its options."""
        request = await asyncio.to_thread(to_segment, model, pictures, **options)
        return await self._ask(self._segment, request, experiment_key, timeout)

    def stream(
        self,
        *,
        in_order: bool = True,
        ahead: int = 128,
        experiment_key: str = "",
        timeout: float | None = None,
    ) -> AsyncImageStream:
        """As Client.stream: many requests over one call."""
        check_timeout(timeout)
        if ahead < 1:
            raise ValueError(f"ahead is {ahead}: it must be above zero")
        self._check_open()
        return AsyncImageStream(
            self._stream_images(
                timeout=timeout, metadata=self._address.metadata(experiment_key)
            ),
            lambda error: error_of_call(error, self._address.target, timeout),
            in_order=in_order,
            ahead=ahead,
            request_timeout=self._address.timeout,
        )

    async def compare(
        self,
        models: str | Variant | Iterable[str | Variant],
        pictures: Iterable[Picture],
        *,
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
        **options: Unpack[CompareOptions],
    ) -> Comparison:
        """As Client.compare, with its options but those of a data set."""
        check_timeout(timeout)
        request = await asyncio.to_thread(to_compare, models, pictures, **options)
        return await self._measure(
            self._compare, request, comparison_in, progress, timeout, "comparison"
        )

    async def sweep(
        self,
        models: str | Variant | Iterable[str | Variant],
        over: str,
        values: Iterable[str | float],
        *,
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
        **options: Unpack[SweepOptions],
    ) -> Sweep:
        """As Client.sweep, with its options."""
        check_timeout(timeout)
        request = await asyncio.to_thread(to_sweep, models, over, values, **options)
        return await self._measure(
            self._sweep, request, sweep_in, progress, timeout, "sweep"
        )

    async def _measure(
        self,
        method: Any,
        request: Any,
        read: Callable[[Any, Callable[[Progress], object] | None], Outcome | None],
        progress: Callable[[Progress], object] | None,
        timeout: float | None,
        what: str,
    ) -> Outcome:
        """Of a call that tells how it goes on, what `read` makes of its last message."""
        call = self._begin(method, request, timeout)
        try:
            async for message in call:
                outcome = read(message, progress)
                if outcome is not None:
                    return outcome
        except grpc.RpcError as error:
            raise error_of_call(error, self._address.target, timeout) from error
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        finally:
            call.cancel()  # nothing, where it has ended
        raise Error("INTERNAL", "", f"the server ended without a {what}")

    async def serve(
        self,
        models: str | Variant | Iterable[str | Variant],
        *,
        attentions: Iterable[str] = (),
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
    ) -> AsyncServing:
        """As Client.serve: `async with await client.serve(...) as serving`."""
        check_timeout(timeout)
        request = to_serve(models, attentions=attentions)
        call = self._begin(self._serve, request, timeout)
        serving = None
        try:
            async for message in call:
                variants = served_in(message, progress)
                if variants is not None:
                    serving = AsyncServing(call, variants)
                    return serving
        except grpc.RpcError as error:
            raise error_of_call(error, self._address.target, timeout) from error
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        finally:
            if serving is None:
                call.cancel()
        raise Error("INTERNAL", "", "the server ended without serving anything")

    async def start_experiment(
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
        """As Client.start_experiment."""
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
            await self._call(self._start_experiment, to_start(plan), timeout)
        )

    async def experiment(
        self, name: str, *, timeout: float | None = None
    ) -> Experiment:
        """As Client.experiment."""
        request = experiment_pb2.GetExperimentRequest(name=name)
        timeout = self._address.timeout_of(timeout)
        return experiment_of(await self._call(self._get_experiment, request, timeout))

    async def experiments(self, *, timeout: float | None = None) -> list[Experiment]:
        """As Client.experiments."""
        request = experiment_pb2.ListExperimentsRequest()
        timeout = self._address.timeout_of(timeout)
        answer = await self._call(self._list_experiments, request, timeout)
        return experiments_of(answer.experiments)

    async def stop_experiment(
        self, name: str, *, timeout: float | None = None
    ) -> Experiment:
        """As Client.stop_experiment."""
        request = experiment_pb2.StopExperimentRequest(name=name)
        timeout = self._address.timeout_of(timeout)
        return experiment_of(await self._call(self._stop_experiment, request, timeout))

    async def delete_experiment(
        self, name: str, *, timeout: float | None = None
    ) -> None:
        """As Client.delete_experiment."""
        request = experiment_pb2.DeleteExperimentRequest(name=name)
        timeout = self._address.timeout_of(timeout)
        await self._call(self._delete_experiment, request, timeout)

    def _method(self, kind: Callable[..., Any], method: connection.Method) -> Any:
        return kind(method.path, **method.codecs())

    def _check_open(self) -> None:
        if self._closed:
            raise connection.closed()

    def _begin(
        self, method: Any, message: Any, timeout: float | None, experiment_key: str = ""
    ) -> Any:
        self._check_open()
        metadata = self._address.metadata(experiment_key)
        return method(message, timeout=timeout, metadata=metadata)

    async def _ask(
        self,
        method: Any,
        request: Request[Result],
        experiment_key: str,
        timeout: float | None,
    ) -> Answer[Result]:
        timeout = self._address.timeout_of(timeout)
        start = time.monotonic()
        response = await self._call(method, request.message, timeout, experiment_key)
        return request.expected.answer_of(response, time.monotonic() - start)

    async def _call(
        self, method: Any, message: Any, timeout: float | None, experiment_key: str = ""
    ) -> Any:
        """The answer to a message. Error: the server's, or why there is none."""
        call = self._begin(method, message, timeout, experiment_key)
        try:
            return await call
        except grpc.RpcError as error:
            raise error_of_call(error, self._address.target, timeout) from error
        except asyncio.CancelledError:
            call.cancel()
            self._raise_if_closed()
            raise

    def _raise_if_closed(self) -> None:
        """Of a call that was cancelled: by `close`, or with the task that awaits it, which it leaves alone."""
        task = asyncio.current_task()
        if self._closed and (task is None or task.cancelling() == 0):
            raise connection.closed() from None
