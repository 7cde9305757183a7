"""Callers that ask without a pause, and what they lose."""

from __future__ import annotations

import sys
import threading
import time

from running_server import ROOT

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea.client import Client, Error

STAR = ROOT / "client/examples/star.jpg"


class Load:
    """So many callers of fovea.client, each with one request at a time of so many pictures, until stop()."""

    def __init__(self, address: str, callers: int, pictures: int = 1, **options):
        """options: of the Client, which all callers share."""
        self.lost: list[list[Error]] = [[] for _ in range(callers)]  # by caller
        self.answered = 0
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._client = Client(address, **options)
        self._pictures = [STAR.read_bytes()] * pictures
        self._threads = [
            threading.Thread(target=self._ask, args=[lost], daemon=True)
            for lost in self.lost
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, lost: list[Error]) -> None:
        while not self._stop.is_set():
            try:
                answer = self._client.classify("shapes", self._pictures, top_k=1)
            except Error as error:
                lost.append(error)
                time.sleep(0.01)
                continue
            labels = {image.labels[0] for image in answer.images}
            with self._lock:
                self.answered += 1
                if labels != {"star"}:
                    self.wrong.append(f"{labels}")

    def wait_for(self, answers: int, timeout: float = 120) -> None:
        """So many more."""
        wanted, end = self.answered + answers, time.monotonic() + timeout
        while self.answered < wanted:
            assert time.monotonic() < end, f"{self.answered} of {wanted} answers"
            time.sleep(0.01)

    def stop(self) -> list[Error]:
        """Everything that was lost."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        self._client.close()
        assert not self.wrong
        return [error for lost in self.lost for error in lost]
