"""Fixtures of the tests of fovea-import."""

from __future__ import annotations

import pathlib

import pytest
from no_hub import NoHub


@pytest.fixture
def no_hub(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> NoHub:
    """No hub answers, and its cache is empty."""
    import huggingface_hub.constants
    from huggingface_hub import hf_api

    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    # Port 1 refuses at once.
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(hf_api.constants, "ENDPOINT", "http://127.0.0.1:1")
    return NoHub(cache)
