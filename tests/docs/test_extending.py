"""The pages of docs/extending link every file that names an attention, a backbone or a head of the kind that they add. And the
attention that a page adds step by step compiles, links and runs, in a copy of the sources."""

from __future__ import annotations

import itertools
import json
import pathlib
import posixpath
import re
import shlex
import subprocess

import pytest
from documents import ROOT, blocks_of
from running_server import BUILD

# By page: a file as the page has one added, and the function that makes it known.
ADDED = {
    "attention.md": [
        ("attention/cores/knn.cc", "MakeKnnCore"),
        ("attention/modules/criss_cross.cc", "MakeCrissCross"),
        ("attention/modules/axial.cc", "MakeAxial"),
    ],
    "backbone.md": [("backbones/pit.cc", "RegisterPit")],
    "head.md": [("heads/semantic_fpn.cc", "SemanticFpnEntry")],
}


def naming(file: str, function: str) -> set[str]:
    """The sources of the model zoo that name either, the file itself left out."""
    found = set()
    for one in (ROOT / "model_zoo").rglob("*"):
        if one.suffix in (".cc", ".h") or one.name == "CMakeLists.txt":
            path = one.relative_to(ROOT).as_posix()
            text = one.read_text()
            if re.search(rf"\b{function}\b|{re.escape(file)}", text):
                found.add(path)
    return found - {f"model_zoo/{file}"}


def linked(page: pathlib.Path) -> set[str]:
    here = page.parent.relative_to(ROOT).as_posix()
    return {
        posixpath.normpath(posixpath.join(here, link))
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())
    }


@pytest.mark.parametrize(
    ("page", "file", "function"),
    [(page, *one) for page, added in ADDED.items() for one in added],
)
def test_what_names_it_is_on_the_page(page: str, file: str, function: str) -> None:
    assert (ROOT / "model_zoo" / file).is_file()
    others = naming(file, function)
    assert len(others) >= 3  # a declaration, the registry, and CMake's list
    assert others - linked(ROOT / "docs/extending" / page) == set()


# --- The attention that the page adds.

STEPS = "docs/extending/attention.md"
# The line above a block names the file that it becomes, or the file that it goes into and the line that it goes below.
NEW_FILE = re.compile(r"a new file `([^`]+)`:$")
INTO_FILE = re.compile(r"\]\(([^)#]+)\), below the line with `([^`]+)`:$")


def follow(copy: pathlib.Path) -> list[str]:
    """Does what the page's steps say, in a copy, and returns the commands with which they end."""
    page = (ROOT / STEPS).read_text()
    lines = page.splitlines()
    commands: list[str] = []
    for block in blocks_of(STEPS, page):
        if block.language == "sh":
            commands += block.text.splitlines()
            continue
        above = lines[block.line - 3]
        if new := NEW_FILE.search(above):
            assert not (copy / new[1]).exists()
            (copy / new[1]).write_text(block.text)
            continue
        into = INTO_FILE.search(above)
        assert into, f"{block} is for no file"
        file = copy / posixpath.normpath(
            posixpath.join(posixpath.dirname(STEPS), into[1])
        )
        before, found, after = file.read_text().rpartition(into[2])
        assert found, f"{block}: {file.name} has no {into[2]}"
        rest, newline, below = after.partition("\n")
        file.write_text(before + found + rest + newline + block.text + below)
    return commands


def copied_sources(folder: pathlib.Path) -> pathlib.Path:
    """A copy of the sources that the model zoo is compiled from, as they are in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "model_zoo", "kernels", "base"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in listed:
        if name.endswith((".h", ".cc", "CMakeLists.txt")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def changed_sources(copy: pathlib.Path) -> list[str]:
    """The sources to compile: those in CMake's list of the model zoo's library that are new or differ from the checkout's."""
    lists = (copy / "model_zoo/CMakeLists.txt").read_text()
    sources = re.search(
        r"add_library\(fovea_model_zoo STATIC\n(.*?)\)", lists, re.DOTALL
    )[1].split()
    changed = []
    for source in (f"model_zoo/{one}" for one in sources):
        ours = ROOT / source
        if not ours.is_file() or ours.read_bytes() != (copy / source).read_bytes():
            changed.append(source)
    return changed


def compile_in(copy: pathlib.Path, sources: list[str]) -> list[pathlib.Path]:
    """Compiles sources as the build compiles the library's other files, with warnings as errors."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    like = ROOT / "model_zoo/attention/cores/dense.cc"
    (entry,) = (one for one in entries if one["file"] == str(like))
    command = shlex.split(entry["command"].replace(f"-I{ROOT} ", f"-I{copy} "))
    assert f"-I{copy}" in command
    running = []
    for source in sources:
        objects = copy / f"{source}.o"
        command[command.index("-o") + 1] = str(objects)
        command[command.index("-c") + 1] = str(copy / source)
        running.append(
            (objects, subprocess.Popen([*command, "-Werror"], cwd=entry["directory"]))
        )
    assert [one.wait(300) for _, one in running] == [0] * len(running)
    return [objects for objects, _ in running]


def link_zoo(copy: pathlib.Path, objects: list[pathlib.Path]) -> None:
    """Links `fovea-zoo` from the build's objects and libraries, with these objects first so that they take precedence."""
    last = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "commands", "-s", "bin/fovea-zoo"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    program = copy / "build/release/bin/fovea-zoo"
    program.parent.mkdir(parents=True)
    command, found = re.subn(
        r"-o bin/fovea-zoo\b", f"{shlex.join(map(str, objects))} -o {program}", last
    )
    assert found == 1
    subprocess.run(["bash", "-c", command], cwd=BUILD, check=True)


def test_the_attention_of_the_page_runs_as_its_steps_say(
    tmp_path: pathlib.Path,
) -> None:
    copy = copied_sources(tmp_path)
    make, *commands = follow(copy)
    assert make == "make build" and commands
    sources = changed_sources(copy)
    assert sources == [
        "model_zoo/attention/cores/relu.cc",
        "model_zoo/attention/registry/attentions.cc",
    ]
    link_zoo(copy, compile_in(copy, sources))
    for command in commands:
        words = shlex.split(command)
        attentions = [
            name
            for before, name in itertools.pairwise(words)
            if before == "--attention"
        ]
        done = subprocess.run(
            [*words, "--json"],
            cwd=copy,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert [row["attention"] for row in rows] == attentions
        assert all(row["multiply_adds"] > 0 for row in rows), rows
