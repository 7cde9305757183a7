"""Every way in which linear layers can run here (kernels/linear/linear_way.h) gives the published models' logits.

The other parity tests run by the way that is fastest on the machine at hand.
"""

from __future__ import annotations

import os
import subprocess

import pytest
import torch
from parity import BUILD, Pair, distance, timm_model

WAYS = {
    "FP32": ["onednn", "tiles", "tiles_in_parts"],
    "BF16": ["onednn", "tiles"],
}
# A ViT; windows; StarReLU, residuals with factors and layers without biases.
MODELS = [
    "deit_tiny_patch16_224",
    "swin_tiny_patch4_window7_224",
    "caformer_s18",
]


@pytest.fixture(scope="module", params=MODELS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    name = request.param
    return Pair(name, timm_model(name), tmp_path_factory.mktemp(name), images=2)


def logits(
    pair: Pair, precision: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> torch.Tensor:
    question = f"linear_{precision.lower()}"
    monkeypatch.setenv("FOVEA_CHOOSE", f"{question}={way}")
    try:
        return pair.ours(precision=precision)
    except RuntimeError as error:
        if "on this machine" not in str(error):
            raise
        pytest.skip(f"this machine does not run linear layers by {way}")


@pytest.mark.parametrize("way", WAYS["FP32"])
def test_fp32(pair: Pair, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = logits(pair, "FP32", way, monkeypatch)
    assert distance(ours, pair.expected()) <= 1e-4


@pytest.mark.parametrize("way", WAYS["BF16"])
def test_bf16(pair: Pair, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = pair.expected()
    ours = logits(pair, "BF16", way, monkeypatch)
    assert distance(ours, expected) <= 2 * pair.bf16_error(expected)


def test_an_unknown_way_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEA_CHOOSE", "linear_fp32=fastest")
    with pytest.raises(RuntimeError, match="linear_fp32 cannot be .fastest."):
        pair.ours(precision="FP32")


def test_the_program_tells_the_ways_and_refuses_unknown_ones() -> None:
    """`fovea kernels`."""
    program = str(BUILD / "bin" / "fovea-kernels")
    forced = {**os.environ, "FOVEA_CHOOSE": "linear_fp32=onednn"}
    told = subprocess.run(
        [program], check=False, env=forced, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    assert "linear layers on the cpu in fp32: onednn (forced)" in told.stdout
    unknown = {**os.environ, "FOVEA_CHOOSE": "linear_fp32=fastest"}
    refused = subprocess.run(
        [program], check=False, env=unknown, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert 'FOVEA_CHOOSE: linear_fp32 cannot be "fastest"' in refused.stderr
