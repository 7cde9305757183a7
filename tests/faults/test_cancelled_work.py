"""Row 34 of docs/faults.md: a caller that goes while its request runs frees the lane, over both protocols."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fault_support import SERVICE, Caller, gauge, image_request, infer_request, scrape
from running_server import ROOT, Server

SIDE = 640  # 1,600 tokens: each of the blocks takes tens of milliseconds
PIXELS = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE), np.float32)
PICTURE = next((ROOT / "client/examples").glob("*.jpg")).read_bytes()


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("slow")
    model = folder / "models" / "slow"
    model.mkdir(parents=True)
    (model / "model.textproto").write_text(
        f'spec_version: 1\nbackbone: "vit_tiny_patch16_224"\nnum_classes: 5\nimage_height: {SIDE}\n'
        f"image_width: {SIDE}\nmax_batch_size: 1\nrandom_weights {{ seed: 1 }}\n"
    )
    server = Server(folder / "log", "--model-repository", folder / "models",
                    "--threads", "1")  # fmt: skip
    yield server
    code = server.terminate()
    server.close()
    assert code == 0


def request():
    return infer_request(shape=PIXELS.shape, raw=[PIXELS.tobytes()], model="slow")


def picture():
    return image_request(PICTURE, model="slow")


def over_grpc(server: Server, sent=request) -> Callable[[], None]:
    """Sends a request; gives what closes its connection."""
    caller = Caller(server.grpc)
    call = caller.channel.unary_unary(SERVICE + "ModelInfer")
    under_way = call.future(sent().SerializeToString())
    # A call that nobody holds any more is cancelled at once.
    return lambda held=under_way: caller.channel.close()


def over_http(server: Server) -> Callable[[], None]:
    host, port = server.http.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    head = (
        f'{{"inputs":[{{"name":"pixel_values","datatype":"FP32","shape":[1,3,{SIDE},{SIDE}],'
        f'"parameters":{{"binary_data_size":{PIXELS.nbytes}}}}}]}}'
    ).encode()
    connection.sendall(
        b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\n"
        b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
        % (len(head), len(head) + PIXELS.nbytes)
        + head
        + PIXELS.tobytes()
    )
    return connection.close


def work(server: Server, outcome: str, stage: str = "compute") -> float:
    return gauge(
        scrape(server.metrics),
        rf'fovea_cancelled_work_seconds_total\{{.*outcome="{outcome}",stage="{stage}".*\}}',
    )


def closed_batches(server: Server) -> float:
    return gauge(scrape(server.metrics), "fovea_batch_close_reason_total")


def images_run(server: Server) -> float:
    return gauge(scrape(server.metrics), "fovea_images_total")


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("send", [over_grpc, over_http])
def test_row_34_a_caller_that_goes_while_its_request_runs_frees_the_lane(
    slow: Server, send
):
    caller = Caller(slow.grpc)
    expected = caller.infer(request(), timeout=120)
    wasted = work(slow, "wasted")
    for _ in range(
        20
    ):  # one that ended before its caller's going was seen is tried again
        images, saved = images_run(slow), work(slow, "saved")
        batches = closed_batches(slow)
        close = send(slow)
        wait_until(lambda: closed_batches(slow) > batches)  # noqa: B023
        close()
        wait_until(lambda: gauge(scrape(slow.metrics), "fovea_inflight_requests") == 0)
        # One more, which waits for the lane: what came before it has been counted.
        np.testing.assert_array_equal(caller.infer(request(), timeout=120), expected)
        if images_run(slow) == images + 1 and work(slow, "saved") > saved:
            break
    else:
        pytest.fail("no run was stopped before its forecast was over")
    assert work(slow, "wasted") > wasted
    caller.channel.close()


def test_row_34_what_imaging_did_for_a_caller_that_goes_is_counted(slow: Server):
    caller = Caller(slow.grpc)
    caller.infer(picture(), timeout=120)
    assert work(slow, "wasted", "imaging") == 0
    for _ in range(20):  # as above
        batches = closed_batches(slow)
        close = over_grpc(slow, picture)
        wait_until(lambda: closed_batches(slow) > batches)  # noqa: B023
        close()
        wait_until(lambda: gauge(scrape(slow.metrics), "fovea_inflight_requests") == 0)
        if work(slow, "wasted", "imaging") > 0:
            break
    else:
        pytest.fail("no run was stopped before its end")
    caller.channel.close()
