"""A hub that does not answer, and its cache."""

from __future__ import annotations

import pathlib


class NoHub:
    def __init__(self, cache: pathlib.Path) -> None:
        self.cache = cache

    def snapshot(self, hub_id: str) -> pathlib.Path:
        """The empty folder of a model that was fetched when the hub still answered."""
        model = self.cache / f"models--{hub_id.replace('/', '--')}"
        (model / "refs").mkdir(parents=True)
        (model / "refs" / "main").write_text("abc")
        (model / "snapshots" / "abc").mkdir(parents=True)
        return model / "snapshots" / "abc"
