"""A fovea-server process, as the tests start it."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
SERVER = BUILD / "bin" / "fovea-server"
DEMO = ROOT / "model_zoo" / "demo"


def command_line(*flags: object, program: Sequence[object] = (SERVER,)) -> list[str]:
    """A server on free ports of the loopback interface, unless the flags say otherwise."""
    ports = [
        part
        for flag in ("--grpc-port", "--http-port", "--metrics-port")
        if flag not in flags
        for part in (flag, 0)
    ]
    return [str(part) for part in (*program, *ports, *flags)]


class Server:
    """A fovea-server process on free ports of the loopback interface."""

    def __init__(
        self,
        log: pathlib.Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        ready: bool = True,
        program: Sequence[object] = (SERVER,),
        errors: int = subprocess.STDOUT,
    ):
        """`program`: the server, or a command in front of it that becomes the server. `errors`: its standard error."""
        self.log = log
        self._output = log.open("wb")
        self.process = subprocess.Popen(
            command_line(*flags, program=program),
            stdout=self._output,
            stderr=errors,
            env={**os.environ, **(environment or {})},
        )
        try:
            found = self.wait_for_log(
                r'listening: grpc=([^\s"]+) http=([^\s"]+) metrics=([^\s"]+)'
            )
            self.grpc, self.http, self.metrics = found.groups()
            if ready:
                self.wait_for_log(r"\bready\b: \d+ model")
        except AssertionError:
            self.close()  # nobody else has it to end
            raise

    def wait_for_log(self, pattern: str, timeout: float = 600) -> re.Match[str]:
        """The first match of `pattern` in what the server has printed."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            ended = not self.alive()  # before the log is read: it may print and end
            if found := re.search(pattern, self.log.read_text(errors="replace")):
                return found
            if ended:
                break
            time.sleep(0.02)
        raise AssertionError(
            f"the server never printed {pattern!r}:\n{self.log.read_text(errors='replace')}"
        )

    def resident_bytes(self) -> int:
        pages = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def peak_resident_bytes(self) -> int:
        """The most that it has held at any time."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10

    def lines(self) -> list[str]:
        """What the server has printed, on both outputs."""
        return self.log.read_text(errors="replace").splitlines()

    def alive(self) -> bool:
        return self.process.poll() is None

    def terminate(self, timeout: float = 60) -> int:
        """Sends SIGTERM and returns the exit code. One that does not end is an error, and ended all the same."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.close()  # before the test's own clean-up, which may not come to it
            raise AssertionError(
                f"{timeout:.0f} s after SIGTERM the server was still there:\n"
                + "\n".join(self.lines()[-20:])
            ) from None

    def close(self) -> None:
        if self.alive():
            self.process.kill()
        self.process.wait(30)
        self._output.close()
