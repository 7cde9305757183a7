"""That what `make bench-models` measures for AEWin is AEWin."""

from __future__ import annotations

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "models"))
from definitions import CutAewin
from plain_attention import PlainAttention


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("size", [(14, 21), (7, 7)])
def test_attention_in_parts_is_its_definition(
    size: tuple[int, int], block: int
) -> None:
    torch.manual_seed(3)
    definition = PlainAttention("aewin", 32, 8, size, 7, block)
    map = torch.randn(2, *size, 32)
    with torch.inference_mode():
        torch.testing.assert_close(CutAewin(definition)(map), definition(map))
