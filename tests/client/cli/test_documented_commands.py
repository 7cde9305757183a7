"""The commands of docs/models/your-own-data.md, and those of README for detectors and segmenters, as a reader copies them."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys

import PIL.Image
import pytest
from running_server import BUILD, ROOT, Server

sys.path[:0] = [str(ROOT / "client" / "python"), str(ROOT / "tests/client/python")]
from evaluation_support import install

# Instead of what the page says: as much as shows that the commands fit each other.
SMALLER = {
    "--scene-count 40": "--scene-count 6",
    "--scene-count 10": "--scene-count 4",
    "--epochs 30": "--epochs 1",
}
# A checkout that is built, with the Python package installed, is what the tests run in.
SET_UP = {"make build", ".venv/bin/pip install ./client/python"}


def blocks_of(page: str, heading: str = "") -> list[list[str]]:
    """The commands of its sh blocks; with a heading, of those below it."""
    text = (ROOT / page).read_text()
    if heading:
        text = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        [line.split(" #")[0].rstrip() for line in block.splitlines()]
        for block in blocks
    ]


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder in which the commands find what they name, and leave what they write."""
    folder = tmp_path / "checkout"
    (folder / "build").mkdir(parents=True)
    (folder / "build/release").symlink_to(BUILD)
    for name in ("model_zoo", "client"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run(
    checkout: pathlib.Path, command: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=checkout,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, command + "\n" + done.stdout + done.stderr
    return done


def test_the_walk_from_own_pictures_to_a_served_model(
    checkout: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    commands = [
        line for block in blocks_of("docs/models/your-own-data.md") for line in block
    ]
    assert set(commands[: len(SET_UP)]) == SET_UP
    environment = os.environ | install(tmp_path / "bin")
    server, replaced, printed = None, set(), {}
    try:
        for command in commands[len(SET_UP) :]:
            for written, smaller in SMALLER.items():
                if written in command:
                    replaced.add(written)
                    command = command.replace(written, smaller)
            if command.endswith("&"):
                program, option, models = shlex.split(command.removesuffix("&"))
                assert (program, option) == (
                    "build/release/bin/fovea-server",
                    "--model-repository",
                )
                # On free ports; ready when the page says so.
                server = Server(tmp_path / "log", option, str(checkout / models))
                assert "ready: 2 models" in server.log.read_text()
                environment["FOVEA_SERVER"] = server.grpc
            else:
                done = run(checkout, command, environment)
                printed[command] = done.stdout
    finally:
        if server is not None:
            server.terminate()
            server.close()
    assert replaced == set(SMALLER)
    (evaluated,) = (out for one, out in printed.items() if "fovea evaluate" in one)
    rows = re.findall(r"^(finder\w*) +(\w+) ", evaluated, re.MULTILINE)
    assert rows[:2] == [("finder", "key_only"), ("finder_dense", "dense")]
    assert "mask AP" in evaluated
    pictures = sorted(file.stem for file in (checkout / "things/val/images").iterdir())
    drawn = sorted(file.stem for file in (checkout / "drawn").iterdir())
    assert len(drawn) == 4 and drawn == pictures


def test_what_readme_finds_and_segments_is_drawn(
    checkout: pathlib.Path, server: Server
) -> None:
    (commands,) = blocks_of("README.md", "Finding objects and segmenting")
    for command in commands:
        run(checkout, command, os.environ | {"FOVEA_SERVER": server.grpc})
    scenes = sorted((ROOT / "client/examples/scenes").iterdir())
    drawn = sorted((checkout / "found").iterdir())
    assert [file.stem for file in drawn] == [file.stem for file in scenes]
    for name in ("outlines.png", "classes.png"):
        with PIL.Image.open(checkout / name) as picture:
            picture.load()
            assert picture.width > 100


def test_readme_trains_with_options_that_there_are() -> None:
    (commands,) = blocks_of("README.md", "Training on your own pictures")
    program = "build/release/bin/fovea train "
    assert len(commands) >= 4 and all(one.startswith(program) for one in commands)
    options = {
        word for one in commands for word in one.split() if word.startswith("--")
    }
    shown = subprocess.run(
        [BUILD / "bin/fovea-train", "--help"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert options <= set(re.findall(r"--[a-z-]+", shown.stdout))


def test_the_example_streams_pictures(server: Server) -> None:
    pictures = sorted((ROOT / "client/examples").glob("*.jpg"))
    assert len(pictures) > 1
    done = subprocess.run(
        [BUILD / "examples/stream", server.grpc, "shapes", *pictures],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for picture in pictures:
        shape = picture.stem.rstrip("_0123456789")
        (line,) = (one for one in done.stdout.splitlines() if str(picture) in one)
        assert line.removeprefix(str(picture)).split()[0] == shape, done.stdout
