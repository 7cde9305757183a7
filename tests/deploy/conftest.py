from __future__ import annotations

import pytest
from containers import IMAGE, base_image, build


@pytest.fixture(scope="session")
def base() -> str:
    return base_image()


@pytest.fixture(scope="session")
def image(base: str) -> str:
    """Of the server, built once."""
    build(IMAGE, base)
    return IMAGE
