"""fovea-evaluate's command line: tables, JSON, CSV, failures, interruption, exit codes."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "client" / "python"))

from evaluation_support import (
    COMMAND,
    ENVIRONMENT,
    evaluate,
    install,
    number_of,
    write_picture,
)
from fake_vision import FakeVision, Refusal, class_map, classes, png
from fovea import client
from fovea.evaluation import run
from fovea.evaluation.evaluate import evaluate as measured
from running_server import BUILD

LABELS = ["ant", "bee"]


@pytest.fixture
def pictures(tmp_path: pathlib.Path) -> pathlib.Path:
    """Ten ants and ten bees; picture i says i."""
    for number in range(20):
        write_picture(
            tmp_path / f"pictures/{LABELS[number // 10]}/{number:02}.png", number
        )
    return tmp_path / "pictures"


def ant_or_bee(request, picture: bytes):
    """Model "good" is always right, "poor" says ant."""
    number = number_of(picture)
    best = number // 10 if request.model_name == "good" else 0
    return classes((best, LABELS[best], 0.9), (1 - best, LABELS[1 - best], 0.1))


def broken(*numbers: int):
    def result(request, picture: bytes):
        if number_of(picture) in numbers:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "image.truncated",
                "the file ends too early",
            )
        return ant_or_bee(request, picture)

    return result


def test_a_spreadsheet_runs_no_text_of_the_csv_as_a_formula(pictures: pathlib.Path):
    """CSV injection (CWE-1236). Numbers below zero stay numbers: see test_models_are_compared_with_the_first."""
    formula = "=SUM(A1,B1)"
    with FakeVision(Classify=ant_or_bee) as fake:
        done = evaluate(fake.address, "-m", formula, "-d", pictures, "--csv")
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {line["model"] for line in lines} == {f"'{formula}"}


@pytest.mark.parametrize("given", [["--api-key", "secret"], ["--api-k=secret"]])
def test_the_command_keeps_its_key_to_itself(
    pictures: pathlib.Path, given: list[str]
) -> None:
    with FakeVision(Classify=ant_or_bee) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", pictures, "--json", *given)
    command = json.loads(done.stdout)["command"]
    assert "secret" not in command
    assert "..." in command


def test_models_are_compared_with_the_first(pictures: pathlib.Path):
    with FakeVision(Classify=ant_or_bee) as fake:
        arguments = ("-m", "good", "-m", "poor/3", "-d", pictures)
        table = evaluate(fake.address, *arguments, rounds=7)
        document = json.loads(
            evaluate(fake.address, *arguments, "--json", rounds=7).stdout
        )
        lines = list(
            csv.DictReader(
                io.StringIO(
                    evaluate(fake.address, *arguments, "--csv", rounds=7).stdout
                )
            )
        )
    assert table.returncode == 0, table.stderr
    rows = [line.split("  ") for line in table.stdout.splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert rows[0] == [f"{pictures}: classification, 20 pictures"]
    header, good, poor = rows[2:5]
    assert header[:5] == ["model", "attention", "top-1", "class mean", "failed"]
    assert good[:5] == ["good", "dense", "1.0000", "1.0000", "0"]
    assert poor[:5] == [
        *("poor/3", "dense", "0.5000 (-0.5000)", "0.5000 (-0.5000)", "0")
    ]
    # The stages of a receipt are 1 to 7 ms, the compute stage 5.
    assert header[5:] == ["latency ms", "p95 ms", "compute ms", "batch peak MiB"]
    assert good[5:] == ["28.0", "28.0", "5.0", "0.0"]
    assert poor[5] == "28.0 (+0.0)"
    assert ["poor/3", "dense", "compute ms", "5.0", "+0.0", "+0.0 to +0.0"] in rows
    assert ["bee", "1.0000", "0.0000"] in rows

    # When, by what, from which machine, and by which command.
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["measured"]["at"])
    assert document["measured"]["by"].startswith("fovea-evaluate ")
    assert document["measured"]["client_cores"] >= 1
    assert f"-m good -m poor/3 -d {pictures}" in document["command"]
    for name, value in document["measured"].items():
        if name != "at":
            assert {line[f"measured_{name}"] for line in lines} == {str(value)}
    assert {line["command"].endswith(f"-d {pictures} --csv") for line in lines} == {
        True
    }

    good, poor = document["models"]
    assert good["differences"] == {}
    assert poor["differences"]["top-1"] == -0.5
    assert poor["differences"]["latency_ms_median"] == pytest.approx(0)
    assert set(poor["difference_intervals"]) >= {"latency_ms_median", "latency_ms_p95"}
    assert (poor["model"], poor["version"]) == ("poor", "3")
    assert good["cost"] == {
        "latency_ms_median": pytest.approx(28),
        "latency_ms_p95": pytest.approx(28),
        "compute_ms_median": pytest.approx(5),
        "batch_size_mean": 3,
        "batch_peak_bytes": 1000,
    }
    found = {(line["model"], line["class"], line["figure"]): line for line in lines}
    assert found["poor", "", "top-1"]["value"] == "0.5"
    assert found["poor", "", "top-1"]["difference"] == "-0.5"
    assert found["poor", "bee", "top-1"]["value"] == "0.0"
    latency = found["poor", "", "latency_ms_median"]
    assert float(latency["difference_lower"]) == pytest.approx(0)
    assert found["good", "", "batch_peak_bytes"]["value"] == "1000"
    assert found["good", "", "answered"]["value"] == "20"


def test_a_terminal_sees_how_far_it_is_and_a_file_does_not(pictures: pathlib.Path):
    with FakeVision(Classify=ant_or_bee) as fake:
        asked = (
            "--server",
            fake.address,
            "-m",
            "good",
            "-d",
            str(pictures),
            "--rounds",
            "0",
        )
        terminal, inside = os.openpty()
        termios.tcsetwinsize(inside, (24, 120))
        done = subprocess.run(
            [*COMMAND, *asked],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=inside,
            timeout=120,
            check=False,
        )
        os.close(inside)
        shown = ""
        with contextlib.suppress(OSError):  # the end, where nobody has the other side
            while part := os.read(terminal, 1 << 16):
                shown += part.decode()
        os.close(terminal)
        to_file = evaluate(fake.address, "-m", "good", "-d", pictures)
    assert done.returncode == to_file.returncode == 0
    assert "good" in shown and "20/20" in shown
    assert to_file.stderr == ""


def test_figures_are_the_same_each_time_and_at_any_concurrency(pictures: pathlib.Path):
    outputs = set()
    with FakeVision(Classify=broken(3, 15)) as fake:
        for concurrency in (1, 1, 7, 64):
            done = evaluate(
                *(fake.address, "-m", "poor", "-d", pictures, "--json"),
                *("--concurrency", concurrency),
            )
            document = json.loads(done.stdout)
            assert document.pop("concurrency") == concurrency
            del document["measured"], document["command"]  # when, and how it was asked
            outputs.add(json.dumps(document))
    assert len(outputs) == 1


def test_a_picture_that_fails_is_told_and_does_not_count(pictures: pathlib.Path):
    (pictures / "ant/05.png").unlink()
    (pictures / "ant/05.png").symlink_to("/nowhere/at/all")
    with FakeVision(Classify=broken(0, 12)) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", pictures, "--json")
        table = evaluate(fake.address, "-m", "good", "-d", pictures)
    assert done.returncode == table.returncode == 1
    (model,) = json.loads(done.stdout)["models"]
    failed = {pathlib.Path(one["picture"]).name: one for one in model["failed"]}
    assert failed["12.png"]["reason"] == "image.truncated"
    assert failed["12.png"]["code"] == "INVALID_ARGUMENT"
    assert failed["05.png"]["message"] == "cannot be read: No such file or directory"
    assert (set(failed), model["answered"]) == ({"00.png", "05.png", "12.png"}, 17)
    assert model["figures"]["top-1"] == 1
    assert f"{pictures}/bee/12.png: the file ends too early" in done.stderr
    assert "good: 3 of 20 pictures failed and do not count" in table.stdout


def test_many_failures_are_not_all_printed(pictures: pathlib.Path):
    with FakeVision(Classify=broken(*range(1, 20))) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", pictures, "--json")
    assert done.stderr.count("ends too early") == 10
    assert "more pictures fail" in done.stderr
    assert len(json.loads(done.stdout)["models"][0]["failed"]) == 19


def test_where_different_pictures_fail_the_table_says_so(pictures: pathlib.Path):
    def result(request, picture: bytes):
        return broken(3 if request.model_name == "good" else 4)(request, picture)

    with FakeVision(Classify=result) as fake:
        done = evaluate(fake.address, "-m", "good", "-m", "poor", "-d", pictures)
    assert "Not the same pictures failed for every model" in done.stdout


def test_a_limit_takes_pictures_of_every_class(pictures: pathlib.Path):
    with FakeVision(Classify=ant_or_bee) as fake:
        done = evaluate(
            fake.address, "-m", "poor", "-d", pictures, "--limit", 4, "--json"
        )
    document = json.loads(done.stdout)
    assert document["pictures"] == document["models"][0]["answered"] == 4
    assert document["models"][0]["figures"]["top-1"] == 0.5


def test_a_busy_server_is_asked_again(pictures: pathlib.Path):
    refused: set[bytes] = set()
    lock = threading.Lock()

    def result(request, picture: bytes):
        with lock:
            again = picture in refused
            refused.add(picture)
        # The first picture is asked about before the others, to see what the model is.
        if not again and number_of(picture):
            raise Refusal(
                grpc.StatusCode.UNAVAILABLE, "queue.full", "the model's queue is full"
            )
        return ant_or_bee(request, picture)

    with FakeVision(Classify=result) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", pictures, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["models"][0]["answered"] == 20
    assert len(refused) == 20


def test_a_model_that_is_being_loaded_is_waited_for(pictures: pathlib.Path):
    """As where the server has just begun to listen."""
    refusals = iter(["model.loading"] * 2)

    def result(request, picture: bytes):
        if reason := next(refusals, ""):
            raise Refusal(
                grpc.StatusCode.UNAVAILABLE, reason, "model good is being loaded"
            )
        return ant_or_bee(request, picture)

    with FakeVision(Classify=result) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", pictures, "--json")
        # The first picture is looked at thrice, then all are measured.
        assert len(fake.requests) == 3 + 20
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["models"][0]["answered"] == 20


def test_every_model_is_looked_at_before_the_first_is_measured(pictures: pathlib.Path):
    def result(request, picture: bytes):
        if request.model_name == "gone":
            raise Refusal(
                grpc.StatusCode.NOT_FOUND, "model.unknown", "there is no model gone"
            )
        return ant_or_bee(request, picture)

    with FakeVision(Classify=result) as fake:
        done = evaluate(fake.address, "-m", "good", "-m", "gone", "-d", pictures)
        assert len(fake.requests) == 2
    assert done.returncode == 1
    assert done.stderr == "fovea-evaluate: model gone: there is no model gone\n"


@pytest.fixture
def interrupted(pictures: pathlib.Path, tmp_path: pathlib.Path):
    """Ctrl-C while the model "poor" is asked: exit code, standard output and errors.

    As in a terminal, all processes get it: `fovea evaluate` and the program behind it.
    """

    def run(*arguments: str, command: Sequence[str] = COMMAND) -> tuple[int, str, str]:
        hanging, release = threading.Event(), threading.Event()

        def result(request, picture: bytes):
            if request.model_name == "poor" and number_of(picture) == 13:
                hanging.set()
                release.wait(60)
            return ant_or_bee(request, picture)

        with FakeVision(Classify=result) as fake:
            with subprocess.Popen(
                # A shell's background jobs, which the tests may be one of, ignore it.
                [
                    *("env", "--default-signal=INT", *command),
                    *("--server", fake.address, "-d", str(pictures), *arguments),
                ],
                env=ENVIRONMENT | install(tmp_path / "bin"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            ) as process:
                assert hanging.wait(60)
                os.killpg(process.pid, signal.SIGINT)
                out, err = process.communicate(timeout=30)
            release.set()
        return process.returncode, out, err

    return run


def test_an_interruption_keeps_the_models_that_are_done(interrupted):
    code, out, err = interrupted("-m", "good", "-m", "poor", "--json")
    assert code == 130
    assert "interrupted: poor has answered" in err and "Traceback" not in err
    document = json.loads(out)
    assert document["unfinished"] == "poor"
    assert [model["model"] for model in document["models"]] == ["good"]


def test_an_interruption_of_fovea_waits_for_what_is_left_to_say(interrupted):
    command = [str(BUILD / "bin/fovea"), "evaluate"]
    code, out, err = interrupted("-m", "good", "-m", "poor", "--json", command=command)
    assert code == 130
    assert "interrupted: poor has answered" in err and "Traceback" not in err
    assert json.loads(out)["unfinished"] == "poor"


def test_an_interruption_of_the_only_model_prints_no_figures(interrupted):
    code, out, err = interrupted("-m", "poor")
    assert (code, out) == (130, "")
    assert "of 20 pictures, and has no figures" in err


def test_without_a_server_the_exit_code_is_3(pictures: pathlib.Path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    done = evaluate(address, "-m", "good", "-d", pictures)
    assert done.returncode == 3
    assert done.stderr.startswith(f"fovea-evaluate: nothing listens at {address}")


def test_a_server_that_goes_ends_the_command(pictures: pathlib.Path):
    def result(request, picture: bytes):
        if number_of(picture) == 9:
            threading.Thread(target=fake.close).start()
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "", "")
        return ant_or_bee(request, picture)

    with FakeVision(Classify=result) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", pictures, "--concurrency", 1)
    assert done.returncode == 3
    assert fake.address in done.stderr and done.stdout == ""


def test_a_server_that_goes_leaves_the_figures_of_the_models_that_are_done(
    pictures: pathlib.Path,
):
    def result(request, picture: bytes):
        if request.model_name == "poor" and number_of(picture) == 9:
            threading.Thread(target=fake.close).start()
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "", "")
        return ant_or_bee(request, picture)

    with FakeVision(Classify=result) as fake:
        arguments = ("-m", "good", "-m", "poor", "-d", pictures, "--concurrency", 1)
        done = evaluate(fake.address, *arguments, "--json")
    assert done.returncode == 3
    assert fake.address in done.stderr and "poor has no figures" in done.stderr
    document = json.loads(done.stdout)
    assert document["unfinished"] == "poor"
    (good,) = document["models"]
    assert (good["model"], good["figures"]["top-1"]) == ("good", 1)


def ends_with_the_figures(end: Callable[[], None]) -> Callable[..., Any]:
    """Answers that call `end` once costs are measured: after one picture to check the model, and twenty for the figures."""
    asked = itertools.count(1)

    def result(request, picture: bytes):
        if next(asked) > 1 + 20:
            end()
        return ant_or_bee(request, picture)

    return result


def refuse() -> None:
    raise Refusal(grpc.StatusCode.INTERNAL, "model.failed", "the model failed")


def test_figures_are_kept_if_costs_cannot_be_measured(
    pictures: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    def go() -> None:
        threading.Thread(target=fake.close).start()
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "", "")

    for end, code, why in ((refuse, 1, "the model failed"), (go, 3, "127.0.0.1:")):
        with FakeVision(Classify=ends_with_the_figures(end)) as fake:
            arguments = ("-m", "good", "-d", pictures, "--concurrency", 1)
            done = evaluate(fake.address, *arguments, "--json", rounds=7)
        assert done.returncode == code, done.stderr
        assert why in done.stderr and "costs were not measured" in done.stderr
        document = json.loads(done.stdout)
        assert why in document["without_costs"]
        (good,) = document["models"]
        assert good["figures"]["top-1"] == 1
        assert good["cost"]["latency_ms_median"] is None
    with (
        FakeVision(Classify=ends_with_the_figures(refuse)) as fake,
        client.Client(fake.address) as server,
    ):
        refused = measured(server, "good", pictures)
    assert refused.without_costs == "the model failed"
    assert refused.outcomes[0].figures.overall["top-1"] == 1
    assert "costs were not measured: the model failed" in str(refused)
    # Nor does an interruption take a program's figures.
    with (
        FakeVision(Classify=ant_or_bee) as fake,
        client.Client(fake.address) as server,
    ):
        monkeypatch.setattr(run, "measure_costs", interrupt)
        interrupted = measured(server, "good", pictures)
    assert interrupted.without_costs == "interrupted"
    assert interrupted.outcomes[0].figures.overall["top-1"] == 1


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_model_of_other_classes_leaves_the_figures_of_those_that_are_done(
    tmp_path: pathlib.Path,
):
    """Which classes a segmenter has is seen in the maps, after the models before it."""
    mask = np.array([[0, 0, 1, 1]], np.uint8)
    write_picture(tmp_path / "images/0.png", 0, mask.shape)
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks/0.png").write_bytes(png(mask))
    (tmp_path / "labels.txt").write_text("ant\nbee\n")

    def result(request, picture: bytes):
        other = request.model_name == "other"
        return class_map(mask, {0: "car", 1: "bus"} if other else {0: "ant", 1: "bee"})

    with FakeVision(Segment=result) as fake:
        arguments = ("-m", "good", "-m", "other", "-m", "last", "-d", tmp_path)
        done = evaluate(fake.address, *arguments, "--json")
        table = evaluate(fake.address, *arguments)
    assert done.returncode == table.returncode == 2
    assert "none of the classes that model other found (car, bus)" in done.stderr
    document = json.loads(done.stdout)
    assert document["unfinished"] == "other"
    (good,) = document["models"]
    assert (good["model"], good["figures"]["mIoU"]) == ("good", 1)
    assert "good" in table.stdout and "1.0000" in table.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-d", "x"], "required: -m/--model"),
        (["-m", "a", "-d", "/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["-m", "a/", "-d", "x"], "write NAME or NAME/VERSION"),
        (["-m", "a", "-d", "x", "--limit", "0"], "not a number of at least 1"),
        (["-m", "a", "-d", "x", "--timeout", "0s"], "is no timeout"),
        (["-m", "a", "-d", "x", "--json", "--csv"], "not allowed with"),
        (["-m", "a", "-d", "x", "--tls-ca", ""], "--tls-ca: is empty"),
    ],
)
def test_a_command_line_that_cannot_be_meant(arguments: list[str], sentence: str):
    done = evaluate("127.0.0.1:1", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["SERVER", "TLS_CA", "TLS_CERT", "TLS_KEY", "API_KEY"])
def test_a_variable_that_is_set_and_empty_is_a_mistake_and_not_none(name: str):
    done = subprocess.run(
        [*COMMAND, "-m", "a", "-d", "x"],
        env={**ENVIRONMENT, f"FOVEA_{name}": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"FOVEA_{name} unset" in done.stderr


def test_times_are_written_as_for_the_fovea_command():
    from fovea.evaluation.command import _seconds

    written = {"500ms": 0.5, "1.5s": 1.5, "2m": 120, "7": 7, ".5": 0.5}
    assert {text: _seconds(text) for text in written} == written


def test_texts_of_files_and_servers_move_no_cursor(tmp_path: pathlib.Path):
    write_picture(tmp_path / "pictures/ant\x1b[2J/a.png", 0)
    with FakeVision(Classify=ant_or_bee) as fake:
        done = evaluate(fake.address, "-m", "good", "-d", tmp_path / "pictures")
    assert done.returncode == 2
    assert "ant?[2J" in done.stderr and "\x1b" not in done.stdout + done.stderr
