"""The blocks of code in the documents are what the programs take: parsed, compiled, or run.

By the language that a fence names:

json, toml, textproto   parse; textproto as the description of a model
python                  the blocks of a page run in their order, as one program, against a server with the bundled models
cpp                     compiles; the blocks of a page as one file, what is no whole program as the body of a function
sh                      every option of a program of ours is one that the program knows, every target of make and every
                        file of the repository is there; a block with `<!-- run -->` in the line above is run

What is not run though it could look so stands in NOT_RUN, with the reason.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
from documents import ROOT, Block, all_blocks, blocks_of
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from running_server import BUILD, Server

# Python blocks by page and first line.
NOT_RUN = {
    (
        "model_zoo/README.md",
        'torch.ops.load_library("build/release/lib/libfovea_models.so")',
    ): "its two models take pixels of two sizes; tests/model_zoo run both",
    (
        "docs/measuring/datasets.md",
        "import supervision as sv",
    ): "a package of others, which the tests do without",
}
# What a page takes for granted.
BEFORE = {
    "README.md": "import torch\nquery, key, value = torch.randn(3, 1, 3, 197, 64)",
    "kernels/README.md": "import torch\nquery, key, value = torch.randn(3, 1, 3, 197, 64)",
    "client/python/README.md": "def camera_frames():\n    yield from ['cat.jpg', 'dog.jpg']",
    "docs/models/README.md": "import tritonclient.grpc\nclient = tritonclient.grpc.InferenceServerClient('127.0.0.1:8001')",
    "client/README.md": "const std::string jpeg_bytes;\nconst size_t x = 0, y = 0;\n",
}
# In place of the reader's own models and classes: bundled ones.
SUBSTITUTED = {
    '"finder"': '"instances_key_only"',
    '"regions"': '"segmenter_key_only"',
    '["car"]': '["circle"]',
}
# In shells: as many rounds as show that the command works; where it says no number it goes on until it has a verdict.
FEWER_ROUNDS = {
    "fovea compare ": "fovea compare --rounds 3 --max-rounds 3 ",
    "fovea sweep ": "fovea sweep --rounds 3 ",
    "/v1/compare?": "/v1/compare?rounds=3&max_rounds=3&",
    "/v1/sweep?": "/v1/sweep?rounds=3&",
}
# Fixtures of the servers that pages ask, where it is not `server`, which has the bundled models.
SERVERS = {
    "docs/models/README.md": "sharing",  # loads what it is told to
    "docs/protocol/shared-memory.md": "sharing",
}
# Programs that `fovea COMMAND` runs, and that read options of their own.
OURS = re.compile(r"^fovea(-[a-z]+)?$")
PYTHON_PROGRAMS = {
    "fovea-evaluate": "fovea.evaluation.command",
    "fovea-import": "fovea.importer",
}
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "client/python"),
    "FOVEA_KERNELS_LIBRARY": str(BUILD / "lib/libfovea_kernels.so"),
}


def by_page(blocks: list[Block]) -> dict[str, list[Block]]:
    pages: dict[str, list[Block]] = {}
    for block in blocks:
        pages.setdefault(block.page, []).append(block)
    return pages


def with_ids(blocks: list[Block]) -> dict[str, object]:
    return {"argvalues": blocks, "ids": [str(block) for block in blocks]}


# --- What parses.


@functools.cache
def model_spec() -> type:
    described = subprocess.run(
        [
            "protoc",
            "--proto_path=proto",
            "--include_imports",
            "-o/dev/stdout",
            "fovea/v1/model_spec.proto",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("fovea.v1.ModelSpec")
    )


def parse(language: str, text: str) -> None:
    match language:
        case "json":
            json.loads(text)
        case "toml":
            tomllib.loads(text)
        case "textproto":
            text_format.Parse(text, model_spec()())


@pytest.mark.parametrize("block", **with_ids(all_blocks("json", "toml", "textproto")))
def test_what_is_data_parses(block: Block) -> None:
    parse(block.language, block.text)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("json", '{"a": 1,}'),
        ("toml", "a = "),
        ("textproto", 'backbone: "vit"\nbackbones: "vit"'),
        ("textproto", "max_batch_size: many"),
    ],
)
def test_what_does_not_parse_is_found(language: str, text: str) -> None:
    with pytest.raises((ValueError, text_format.ParseError)):
        parse(language, text)


# --- Shell.


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a block, as words; what stands within $( ) is part of a word."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if not set(word) <= set("();<>|&"):
                command.append(word)
                continue
            while command and (
                command[0] in ("while", "do", "then", "if", "sudo", "time", "exec")
                or re.match(r"^\w+=", command[0])
            ):
                command.pop(0)
            if command:
                yield command
            command = []


@functools.cache
def options_of(program: str, *command: str) -> set[str]:
    """What `--help` names, behind the words of a command."""
    if program in PYTHON_PROGRAMS:
        run = [sys.executable, "-m", PYTHON_PROGRAMS[program]]
    else:
        run = [str(BUILD / "bin" / program)]
    if program == "fovea" and f"fovea-{''.join(command)}" in PYTHON_PROGRAMS:
        return options_of(f"fovea-{''.join(command)}")
    done = subprocess.run(
        [*run, *command, "--help"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, f"{program} {command} --help: {done.stderr}"
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", done.stdout))


@functools.cache
def fovea_commands(*command: str) -> set[str]:
    """Of `fovea`, or those behind one of its commands; none where it has none."""
    if f"fovea-{''.join(command)}" in PYTHON_PROGRAMS:
        return set()
    done = subprocess.run(
        [BUILD / "bin/fovea", *command, "--help"],
        check=True,
        capture_output=True,
        text=True,
    )
    listed = done.stdout.partition("\nCommands:\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE))


def targets() -> set[str]:
    return set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )


def faults_of(command: list[str]) -> list[str]:
    """What a reader who copies it would be told."""
    program, *arguments = command
    name = program.rpartition("/")[2]
    if name == "make":
        named = [one for one in arguments if re.match(r"^[a-z-]+$", one)]
        return [f"no target {one}" for one in named if one not in targets()]
    if program.startswith(("tests/", "deploy/", "client/", "model_zoo/", "docs/")):
        return [] if (ROOT / program).is_file() else [f"there is no {program}"]
    if name == "python" and arguments and arguments[0].endswith(".py"):
        return (
            [] if (ROOT / arguments[0]).is_file() else [f"there is no {arguments[0]}"]
        )
    if not OURS.match(name):
        return []
    known = options_of(name)
    if name == "fovea":
        # The values of options of all commands stand before the command.
        named = [
            one
            for before, one in zip(["", *arguments], arguments, strict=False)
            if not one.startswith("-") and before not in known
        ]
        words: list[str] = []
        if named[:1] == ["help"]:  # of the command behind it
            named = named[1:]
        while commands := fovea_commands(*words):
            below = named[len(words) :]
            if not below and not words:
                break
            if not below or below[0] not in commands:
                return [
                    f"{' '.join(['fovea', *words])} has no command {' '.join(below[:1])}"
                ]
            words.append(below[0])
        if words:
            known = known | options_of(name, *words)
    given = [
        one.partition("=")[0] for one in arguments if re.match(r"^--?[A-Za-z]", one)
    ]
    return [f"{name} has no option {one}" for one in given if one not in known]


@pytest.mark.parametrize("block", **with_ids(all_blocks("sh", "bash")))
def test_commands_are_those_of_the_programs(block: Block) -> None:
    found = {shlex.join(one): faults_of(one) for one in commands(block.text)}
    assert {one: faults for one, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fovea classify --model shapes a.jpg # a remark --wrong", []),
        ("FOVEA_SERVER=x:1 build/release/bin/fovea --server x:1 models --json", []),
        ("fovea classify \\\n  --models shapes", ["fovea has no option --models"]),
        ("fovea experiment show night --watch", []),
        ("fovea experiment stop night --watch", ["fovea has no option --watch"]),
        ("fovea experiment paint night", ["fovea experiment has no command paint"]),
        ("true && fovea clasify a.jpg", ["fovea has no command clasify"]),
        (
            "sudo fovea-server --grpc-ports=1 &",
            ["fovea-server has no option --grpc-ports"],
        ),
        (
            "fovea-import file:x --as vit --labelz y",
            ["fovea-import has no option --labelz"],
        ),
        ("make build && make bild PRESET=cpu", ["no target bild"]),
        ("tests/nothing.sh --help", ["there is no tests/nothing.sh"]),
        (".venv/bin/python tests/no.py", ["there is no tests/no.py"]),
    ],
)
def test_a_command_that_cannot_be_meant_is_found(text: str, says: list[str]) -> None:
    assert [one for command in commands(text) for one in faults_of(command)] == says


# --- What is run.


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder in which the blocks find what they name, and leave what they write."""
    folder = tmp_path / "checkout"
    (folder / "build").mkdir(parents=True)
    (folder / "build/release").symlink_to(BUILD)
    for name in ("model_zoo", "client"):
        (folder / name).symlink_to(ROOT / name)
    examples = ROOT / "client/examples"
    for name, picture in (
        ("cat.jpg", "heart.jpg"),
        ("dog.jpg", "star.jpg"),
        ("street.jpg", "scenes/scene_1.jpg"),
    ):
        shutil.copy(examples / picture, folder / name)
    for shape in ("heart", "star"):  # a data set
        (folder / "pictures" / shape).mkdir(parents=True)
        shutil.copy(examples / f"{shape}.jpg", folder / "pictures" / shape)
    shutil.copy(ROOT / "model_zoo/demo/shapes/1/model.safetensors", folder)
    return folder


def asking(server: Server, text: str) -> str:
    """`text`, but of this server, and of its models."""
    for written, ours in SUBSTITUTED.items():
        text = text.replace(written, ours)
    for host in ("127.0.0.1", "localhost"):
        text = text.replace(f"{host}:8001", server.grpc)
        text = text.replace(f"{host}:8000", server.http)
    return text


def run(checkout: pathlib.Path, command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=checkout,
        env={**ENVIRONMENT, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


SHELL = by_page([block for block in all_blocks("sh", "bash") if block.run])


@pytest.mark.parametrize("page", SHELL)
def test_marked_commands_run(
    page: str, checkout: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(SERVERS.get(page, "server"))
    for block in SHELL[page]:
        script = "set -euo pipefail\n" + asking(server, block.text)
        # An answer that is an error fails, as a command does.
        script = script.replace("curl ", "curl --silent --show-error --fail-with-body ")
        for written, fewer in FEWER_ROUNDS.items():
            script = script.replace(written, fewer)
        # Some pages take the programs as installed, others as built.
        path = f"{BUILD / 'bin'}:{os.environ['PATH']}"
        run(checkout, ["bash", "-c", script], FOVEA_SERVER=server.grpc, PATH=path)


PYTHON = by_page(all_blocks("python"))


@pytest.mark.parametrize("page", PYTHON)
def test_python_runs(
    page: str, checkout: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    for block in PYTHON[page]:
        compile(block.text, str(block), "exec")
    texts = [
        block.text
        for block in PYTHON[page]
        if (page, block.text.split("\n")[0]) not in NOT_RUN
    ]
    if not texts:
        return
    server = request.getfixturevalue(SERVERS.get(page, "server"))
    program = asking(server, "\n".join([BEFORE.get(page, ""), *texts]))
    run(checkout, [sys.executable, "-c", program])


def test_what_is_not_run_is_there() -> None:
    first_lines = {
        (block.page, block.text.split("\n")[0]) for block in all_blocks("python")
    }
    assert set(NOT_RUN) <= first_lines
    assert {"README.md", "docs/first-steps.md", "client/python/README.md"} <= set(
        PYTHON
    )
    measuring = {
        f"docs/measuring/{page}.md"
        for page in ("compare", "explain", "live-comparison", "sweep")
    }
    pages = {"README.md", "docs/first-steps.md", "docs/tasks/detection.md"}
    assert pages | measuring <= set(SHELL)


# --- C++.


def as_one_file(blocks: list[Block], before: str) -> str:
    text = "#include <string>\n#include <cstddef>\n"
    for block in blocks:
        text += "".join(
            line + "\n"
            for line in block.text.splitlines()
            if line.startswith("#include")
        )
    text += '#include "client/cpp/client.h"\n' + before
    connected = 'decltype(fovea::client::Client::Connect("")) client'
    for number, block in enumerate(blocks):
        body = "\n".join(
            line for line in block.text.splitlines() if not line.startswith("#include")
        )
        if "int main(" in body:
            text += body + "\n"
            continue
        given = "" if "auto client =" in body else connected
        text += f"absl::Status Block{number}({given}) {{\n{body}\nreturn absl::OkStatus();\n}}\n"
    return text


def compiles(source: str) -> str:
    """What the compiler says; nothing where it takes it."""
    done = subprocess.run(
        ["c++", "-std=c++20", "-fsyntax-only", "-I", str(ROOT), "-x", "c++", "-"],
        input=source,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stderr if done.returncode else ""


# Examples of clients; test_extending.py builds those of docs/extending.
CPP = by_page(
    [one for one in all_blocks("cpp") if not one.page.startswith("docs/extending/")]
)


@pytest.mark.parametrize("page", CPP)
def test_cpp_compiles(page: str) -> None:
    assert compiles(as_one_file(CPP[page], BEFORE.get(page, ""))) == ""


def test_cpp_that_does_not_compile_is_found() -> None:
    assert {"client/README.md", "docs/first-steps.md"} <= set(CPP)
    block = "```cpp\nauto answer = (*client)->Clasify({});\n```\n"
    assert "Clasify" in compiles(as_one_file(blocks_of("x.md", block), ""))
