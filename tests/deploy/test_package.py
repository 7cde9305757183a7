"""What the Debian package adds to an installed tree: unit, config file, manual pages, completion. `make deb-check` tries it whole."""

from __future__ import annotations

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml
from running_server import BUILD, DEMO, ROOT, SERVER

DOCUMENTS = BUILD / "documents"
FOVEA = BUILD / "bin" / "fovea"
COMMANDS = [
    "models", "health", "classify", "detect", "segment", "compare", "stats", "load", "unload",
    "experiment", *(f"experiment {name}" for name in ("start", "show", "list", "stop", "delete")),
]  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where CPack would install the component of the package."""
    root = tmp_path_factory.mktemp("package")
    done = subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", "/usr", "--component", "debian"],
        env={**os.environ, "DESTDIR": str(root)},
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return root


def unit_settings(package: pathlib.Path) -> dict[str, str]:
    unit = package / "lib/systemd/system/fovea-server.service"
    lines = (line.partition("=") for line in unit.read_text().splitlines())
    return {key: value for key, sign, value in lines if sign}


def config(package: pathlib.Path) -> dict[str, object]:
    return tomllib.loads((package / "etc/fovea/server.toml").read_text())


def flags(*command: object) -> set[str]:
    """What --help names at the beginning of its lines."""
    text = subprocess.check_output([*command, "--help"], text=True)
    return set(re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)", text, re.MULTILINE))


def unzipped(path: pathlib.Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def test_the_package_has_a_unit_a_config_file_and_what_debian_asks_for(package):
    files = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    assert {str(file) for file in files} == {
        "lib/systemd/system/fovea-server.service",
        "etc/fovea/server.toml",
        "usr/share/doc/fovea/copyright",
        "usr/share/doc/fovea/changelog.gz",
        "usr/share/lintian/overrides/fovea",
    }
    changelog = unzipped(package / "usr/share/doc/fovea/changelog.gz")
    version = re.search(
        r"project\(fovea VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()
    )
    assert changelog.startswith(f"fovea ({version.group(1)}) ")
    kept = (ROOT / "deploy/debian/conffiles").read_text().split()
    assert kept == ["/etc/fovea/server.toml"]


def documented_config() -> str:
    text = (ROOT / "docs/operations/README.md").read_text()
    return re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1)


def test_the_server_takes_the_config_files_of_the_package_and_of_the_document(
    package, tmp_path
):
    packaged = (package / "etc/fovea/server.toml").read_text()
    for text in (packaged, documented_config()):
        (tmp_path / "server.toml").write_text(text)
        done = subprocess.run(
            [SERVER, "--config", tmp_path / "server.toml", "--check-config"],
            env={
                **os.environ,
                "FOVEA_MODEL_REPOSITORY": str(DEMO),
                "FOVEA_HOST": "127.0.0.1",
                **{f"FOVEA_{port}_PORT": "0" for port in ("GRPC", "HTTP", "METRICS")},
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_systemd_waits_for_the_drain(package):
    settings, file = unit_settings(package), config(package)
    assert settings["Type"] == "notify"
    drain_ms = file["drain-delay"] + file["drain-timeout"]
    assert int(settings["TimeoutStopSec"]) >= drain_ms / 1000 + 20


def test_the_unit_keeps_what_the_machine_is_fastest_with(package):
    settings = unit_settings(package)
    name, _, path = settings["Environment"].partition("=")
    assert name == "FOVEA_CHOICES"
    # systemd makes it for the unit's user, and lets that user write there.
    assert path == f"/var/cache/{settings['CacheDirectory']}/choices.json"


def test_kubernetes_waits_for_the_drain():
    manifest = ROOT / "deploy/kubernetes/base/deployment.yaml"
    pod = yaml.safe_load(manifest.read_text())["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    names = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    known = {f"FOVEA_{flag[2:].upper().replace('-', '_')}" for flag in flags(SERVER)}
    assert {name for name in names if name.startswith("FOVEA_")} <= known
    drain_ms = int(names["FOVEA_DRAIN_DELAY"]) + int(names["FOVEA_DRAIN_TIMEOUT"])
    assert pod["spec"]["terminationGracePeriodSeconds"] >= drain_ms / 1000 + 20
    program, *arguments = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "fovea-server" and set(arguments) <= flags(SERVER)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_finds_nothing_to_complain_of(package, tmp_path):
    root = tmp_path / "root"
    units = "lib/systemd/system"
    shutil.copytree(f"/{units}", root / units, symlinks=True)  # what it refers to
    shutil.copytree(package, root, dirs_exist_ok=True)
    for program in ("usr/bin/fovea-server", "bin/sh"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", root / program)
    unit = root / "lib/systemd/system/fovea-server.service"
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"--root={root}", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "fovea-server.service" not in verified.stderr, verified.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=25", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout[-2000:]


def test_manual_pages_tell_of_every_flag():
    for page, programs in {
        "man8/fovea-server.8.gz": [[SERVER]],
        "man1/fovea.1.gz": [
            [FOVEA],
            *([FOVEA, *command.split()] for command in COMMANDS),
        ],
    }.items():
        text = unzipped(DOCUMENTS / "man" / page).replace("\\-", "-")
        for program in programs:
            wanted = flags(*program)
            assert wanted
            missing = {flag for flag in wanted if f"\\fB{flag}\\fR" not in text}
            assert not missing, (page, program)
    for companion in ("capacity", "check", "kernels", "quantize", "train", "zoo"):
        page = DOCUMENTS / "man/man1" / f"fovea-{companion}.1.gz"
        assert unzipped(page) == ".so man1/fovea.1\n"


def bash_offers(program: str, *words: str) -> list[str]:
    """What bash would offer in place of the last word."""
    script = DOCUMENTS / "bash-completion/completions" / program
    ask = (
        'source "$0"; function=$1; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '$function; printf "%s\n" "${COMPREPLY[@]}"'
    )
    function = "_" + program.replace("-", "_")
    command = ["bash", "-c", ask, script, function, program, *words]
    return subprocess.check_output(command, text=True).split()


def test_bash_completes_commands_flags_and_choices():
    assert set(bash_offers("fovea-server", "--")) >= flags(SERVER)
    for command in COMMANDS:
        words = command.split()
        assert set(bash_offers("fovea", *words, "--")) >= flags(FOVEA, *words)
    assert bash_offers("fovea", "cl") == ["classify"]
    assert bash_offers("fovea", "--server", "box:8001", "cl") == ["classify"]
    assert bash_offers("fovea", "experiment", "st") == ["start", "stop"]
    assert bash_offers("fovea", "load", "experiment", "st") == []  # a model's name
    assert bash_offers("fovea-server", "--log-level", "w") == ["warning"]
    assert bash_offers("fovea-server", "--grpc-port", "") == []


def test_bash_completes_files_where_some_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat.jpg").touch()
    assert bash_offers("fovea", "classify", "c") == ["cat.jpg"]
    assert bash_offers("fovea-server", "--config", "c") == ["cat.jpg"]
    assert bash_offers("fovea-server", "--host", "c") == []


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_commands_flags_and_choices():
    def offers(program: str, line: str) -> set[str]:
        script = DOCUMENTS / "fish/vendor_completions.d" / f"{program}.fish"
        printed = subprocess.check_output(
            ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
            text=True,
        )
        return {row.split("\t")[0] for row in printed.splitlines()}

    assert offers("fovea-server", "fovea-server --") >= flags(SERVER)
    assert offers("fovea", "fovea classify --") >= flags(FOVEA, "classify")
    assert offers("fovea", "fovea cl") == {"classify"}
    assert offers("fovea", "fovea experiment st") == {"start", "stop"}
    assert offers("fovea", "fovea experiment start --baseline") == {"--baseline-weight"}
    assert offers("fovea", "fovea experiment start st") == set()
    assert offers("fovea-server", "fovea-server --log-format ") == {"text", "json"}


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_reads_its_completion():
    for program in ("fovea", "fovea-server"):
        script = DOCUMENTS / "zsh/vendor-completions" / f"_{program}"
        subprocess.check_call(["zsh", "--no-rcs", "-n", script])
    text = (DOCUMENTS / "zsh/vendor-completions/_fovea-server").read_text()
    assert all(f"*{flag}[" in text for flag in flags(SERVER))
    text = (DOCUMENTS / "zsh/vendor-completions/_fovea").read_text()
    for command in COMMANDS:
        (branch,) = re.findall(
            rf"^    '{command}'\)\n(.*?);;", text, re.MULTILINE | re.DOTALL
        )
        assert all(f"*{flag}[" in branch for flag in flags(FOVEA, *command.split()))
