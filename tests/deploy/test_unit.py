"""The package's unit under systemd itself, which systemd-nspawn boots as the first process of a machine in namespaces.

Its files are this machine's with the built ones laid where the package has them; or, where FOVEA_TEST_DEBIAN names a
folder, those of the Debian in it, into which the package is installed (`make deb-check`). An overlay keeps them as they are.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import pytest
from running_server import BUILD

UNIT = "fovea-server.service"
DEBIAN = os.environ.get("FOVEA_TEST_DEBIAN")
PICTURE = "/usr/share/fovea/examples/star.jpg"
SECONDS = 120  # for whatever a machine or a server does

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("systemd-nspawn"),
    reason="needs root and systemd-container",
)


class Machine:
    """A booted systemd. ConnectionError: it did not come up, with what it printed."""

    def __init__(self, folder: pathlib.Path):
        self._log = folder / "console"
        # What systemd-nspawn tells of itself: sd_notify(3).
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(f"\0fovea-test-{os.getpid()}")
            told.settimeout(SECONDS)
            # Without a systemd outside nobody is there to give it a unit.
            alone = () if os.path.isdir("/run/systemd/system") else ("--keep-unit",)
            # What is written goes into the folder, and is gone with it.
            layers = f"lowerdir={DEBIAN or '/'},upperdir={folder}/upper,workdir={folder}/work"
            mounted = (
                f"mount --make-rprivate / && mount -t overlay -o {layers} overlay {folder}/root"
                ' && exec "$@"'
            )
            with self._log.open("wb") as output:
                self.process = subprocess.Popen(
                    ["unshare", "--mount", "sh", "-c", mounted, "sh"]
                    + ["systemd-nspawn", "--quiet", "--register=no", *alone]
                    + ["--notify-ready=yes", "--private-network", "--console=pipe"]
                    # Of this machine's units only what every system needs.
                    + [
                        f"--directory={folder}/root",
                        "--boot",
                        "systemd.unit=basic.target",
                    ],
                    env={**os.environ, "NOTIFY_SOCKET": f"@fovea-test-{os.getpid()}"},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            try:
                self.leader = self._await_ready(told)
            except BaseException:
                self.close()
                raise

    def _await_ready(self, told: socket.socket) -> int:
        leader = None
        told.settimeout(1)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                lines = dict(
                    line.partition("=")[::2]
                    for line in told.recv(4096).decode().splitlines()
                )
            except TimeoutError:
                continue
            leader = lines.get("X_NSPAWN_LEADER_PID", leader)
            if lines.get("READY") == "1" and leader:
                return int(leader)
        raise ConnectionError(self._log.read_text(errors="replace")[-2000:])

    def enter(self, *command: object, stdin: str = "", timeout: float = SECONDS):
        """What a command gives that runs inside, as root."""
        return subprocess.run(
            [*map(str, ("nsenter", "-t", self.leader, "-a", "--", *command))],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def run(self, *command: object, stdin: str = "") -> str:
        done = self.enter(*command, stdin=stdin)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def write(self, path: str, text: str) -> None:
        self.run("sh", "-c", f"cat > {path}", stdin=text)

    def show(self, *properties: str) -> dict[str, str]:
        printed = self.run("systemctl", "show", UNIT, f"--property={','.join(properties)}")  # fmt: skip
        return dict(line.partition("=")[::2] for line in printed.splitlines())

    def main_pid(self) -> int:
        return int(self.show("MainPID")["MainPID"])

    def await_line(self, part: str, match: str) -> str:
        """What the journal has that matches, once a line of it holds `part`: it is written a moment after what it tells of."""
        end = time.monotonic() + SECONDS
        while part not in (text := self.run("journalctl", "--output=cat", match)):
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return text

    def ready(self) -> int:
        """The HTTP status of /readyz; 0: nobody listens. Asked by our own Python in the machine's network."""
        ask = (
            "import http.client as h\n"
            "try:\n"
            "  c = h.HTTPConnection('127.0.0.1', 8000, timeout=10); c.request('GET', '/readyz')\n"
            "  print(c.getresponse().status)\n"
            "except ConnectionRefusedError: print(0)"
        )
        command = ["nsenter", "-t", str(self.leader), "-n", sys.executable, "-c", ask]
        return int(subprocess.check_output(command, text=True))

    def await_ready(self) -> None:
        end = time.monotonic() + SECONDS
        while self.ready() != 200:
            assert time.monotonic() < end, self.run("journalctl", "-u", UNIT)
            time.sleep(0.05)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # halts the machine
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(30)


def lay_files(root: pathlib.Path) -> None:
    """What the package brings, as it lies in a system whose /lib is /usr/lib."""
    for component in ((), ("--component", "debian")):
        done = subprocess.run(
            ["cmake", "--install", BUILD, "--prefix", "/usr", *component],
            env={**os.environ, "DESTDIR": str(root), "FOVEA_INSTALL_LINKS": "1"},
            umask=0o022,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    shutil.copytree(root / "lib", root / "usr/lib", dirs_exist_ok=True)
    shutil.rmtree(root / "lib")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    # Not under pytest's folder, which only its owner can enter.
    with tempfile.TemporaryDirectory(prefix="fovea-unit-") as made:
        folder = pathlib.Path(made)
        folder.chmod(0o755)
        for part in ("upper", "work", "root"):
            (folder / part).mkdir()
        if not DEBIAN:
            lay_files(folder / "upper")
        try:
            machine = Machine(folder)
        except ConnectionError as error:
            if DEBIAN:  # who asks for that system wants an answer
                raise
            pytest.skip(f"systemd cannot be booted here: {error}")
        yield machine
        machine.close()


@pytest.fixture
def unit(machine: Machine) -> Machine:
    """Started with the package's configuration, and ready."""
    machine.run("systemctl", "start", UNIT)
    machine.await_ready()
    return machine


def test_it_becomes_ready_and_answers(unit: Machine):
    told = unit.show("ActiveState", "SubState", "StatusText", "Result", "NRestarts")
    assert told == {
        "ActiveState": "active",
        "SubState": "running",
        "StatusText": "ready: 1 model",
        "Result": "success",
        "NRestarts": "0",
    }
    if DEBIAN:
        assert unit.run("systemctl", "is-enabled", UNIT) == "enabled\n"
    answer = unit.run("fovea", "classify", "--model", "shapes", "--top-k", 1, PICTURE)
    assert "star" in answer


def test_it_runs_as_a_user_without_rights_that_may_write_its_cache_alone(unit: Machine):
    main = unit.main_pid()
    status = dict(
        line.partition(":\t")[::2]
        for line in unit.run("cat", f"/proc/{main}/status").splitlines()
    )
    users, groups = ({*map(int, status[who].split())} for who in ("Uid", "Gid"))
    # Those that systemd gives to DynamicUser=.
    (user,) = users
    assert 61184 <= user <= 65519
    assert len(groups) == 1 and 61184 <= groups.pop() <= 65519
    for which in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[which], 16) == 0, which
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")

    # In its view of the files not even root may write, but for what is the unit's own.
    for folder in ("/tmp", "/home", "/root", "/dev"):
        unit.write(f"{folder}/not_the_units", "")
    look = ("nsenter", "-t", main, "-m", "sh", "-c")
    for folder in ("/usr", "/etc/fovea", "/var/lib", "/usr/share/fovea/models", "/opt"):
        refused = unit.enter(*look, f"mkdir -p {folder} && touch {folder}/x")
        assert "Read-only file system" in refused.stderr, (folder, refused)
    unit.run(*look, "touch /var/cache/fovea/x && rm /var/cache/fovea/x")
    assert unit.run(*look, "stat -L -c %u /var/cache/fovea") == f"{user}\n"
    environment = unit.run("cat", f"/proc/{main}/environ").split("\0")
    assert "FOVEA_CHOICES=/var/cache/fovea/choices.json" in environment
    assert unit.run(*look, "ls -A /home /root /tmp").split() == [
        "/home:", "/root:", "/tmp:",
    ]  # fmt: skip
    devices = unit.run(*look, "ls /dev").split()
    assert "null" in devices and "not_the_units" not in devices
    # Nor does it see the processes of others.
    seen = unit.run(*look, "grep -o 'hidepid=[a-z]*' /proc/self/mounts")
    assert "hidepid=invisible" in seen


def test_a_killed_server_is_started_again(unit: Machine):
    before = unit.main_pid()
    restarts = int(unit.show("NRestarts")["NRestarts"])
    unit.run("systemctl", "kill", "--signal=KILL", "--kill-who=main", UNIT)
    end = time.monotonic() + SECONDS
    while int(unit.show("NRestarts")["NRestarts"]) == restarts:
        assert time.monotonic() < end
        time.sleep(0.05)
    unit.await_ready()
    told = unit.show("ActiveState", "NRestarts", "MainPID")
    assert told["ActiveState"] == "active" and int(told["NRestarts"]) == restarts + 1
    assert int(told["MainPID"]) != before


def test_a_stop_answers_what_was_accepted_and_ends_in_time(unit: Machine):
    """Callers are at it: each gets its answer, or hears that the server leaves."""
    invocation = unit.show("InvocationID")["InvocationID"]
    answered, stop_asking = [], threading.Event()

    def ask() -> None:
        while not stop_asking.is_set():
            done = unit.enter("fovea", "classify", "--model", "shapes", PICTURE)
            answered.append((done.returncode, done.stderr))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            end = time.monotonic() + SECONDS
            while len(answered) < 4:
                assert time.monotonic() < end, asking
                time.sleep(0.01)
            began = time.monotonic()
            unit.run("systemctl", "stop", UNIT)
            took = time.monotonic() - began
        finally:
            stop_asking.set()
        for one in asking:
            one.result()
    assert unit.show("ActiveState")["ActiveState"] == "inactive"
    # Else systemd tells of a signal, a status or a timeout. (A unit that has ended is soon forgotten.)
    of_systemd = unit.await_line(
        "Stopped fovea-server.service", f"INVOCATION_ID={invocation}"
    )
    assert "fovea-server.service: Deactivated successfully." in of_systemd
    assert "Failed" not in of_systemd and "timed out" not in of_systemd, of_systemd
    assert took < 30, "the drain's time, where TimeoutStopSec is 60 s"
    assert (0, "") in answered
    # Who had connected and not yet asked hears that the connection broke.
    leaves = ("the server is stopping", "nothing listens", "has the server stopped?")
    for code, error in answered:
        assert code == 0 or any(words in error for words in leaves), error
    unit.await_line(
        "drained: every accepted request was answered",
        f"_SYSTEMD_INVOCATION_ID={invocation}",
    )
    assert unit.ready() == 0


def test_a_reload_looks_at_the_repository_and_the_journal_has_the_log(machine: Machine):
    """With the models of a folder that changes, and a log in JSON."""
    machine.run("systemctl", "stop", UNIT)
    machine.run("mkdir", "-p", "/srv/models")
    machine.run("cp", "-r", "/usr/share/fovea/models/shapes", "/srv/models/")
    before = machine.run("cat", "/etc/fovea/server.toml")
    machine.write(
        "/etc/fovea/server.toml",
        'model-repository = ["/srv/models"]\nlog-format = "json"\nhost = "127.0.0.1"\n',
    )
    try:
        machine.run("systemctl", "start", UNIT)
        machine.await_ready()
        started = machine.show("MainPID", "InvocationID")
        machine.run("cp", "-r", "/srv/models/shapes/1", "/srv/models/shapes/2")
        machine.run("systemctl", "reload", UNIT)
        end = time.monotonic() + SECONDS
        while ["shapes", "2"] not in [
            row.split()[:2] for row in machine.run("fovea", "models").splitlines()
        ]:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert machine.show("MainPID", "InvocationID") == started
        machine.run("systemctl", "stop", UNIT)
        text = machine.await_line(
            "drained: every accepted",
            f"_SYSTEMD_INVOCATION_ID={started['InvocationID']}",
        )
        lines = [json.loads(line) for line in text.splitlines()]
        assert all({"time", "level", "message"} <= set(line) for line in lines)
        told = "\n".join(line["message"] for line in lines)
        for part in ("ready: 1 model", "SIGHUP: looking"):
            assert part in told, told
    finally:
        machine.write("/etc/fovea/server.toml", before)
