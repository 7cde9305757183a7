"""Every way in which linear layers can run here (kernels/linear/linear_way.h) gives the published models' logits.

The other parity tests run by the way that is fastest on the machine at hand.
"""

from __future__ import annotations

import copy
import functools
import os
import pathlib
import subprocess

import pytest
import torch
from parity import BUILD, Pair, distance, logits_by_way, timm_model

WAYS = {
    "FP32": ["onednn", "tiles", "tiles_bf16x3"],
    "BF16": ["onednn", "tiles"],
    "INT8": ["tiles", "vectors"],
}
# A ViT; windows; StarReLU, residuals with factors and layers without biases.
MODELS = [
    "deit_tiny_patch16_224",
    "swin_tiny_patch4_window7_224",
    "caformer_s18",
]


class CachedPair(Pair):
    """Logits that several tests look at, made once."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        super().__init__(name, timm_model(name), folder, images=2)
        self.by_way: dict[tuple[str, str], torch.Tensor] = {}

    @functools.cached_property
    def in_fp32(self) -> torch.Tensor:
        return self.expected()

    @functools.cached_property
    def bf16_distance(self) -> float:
        """Of the published model in bf16 from itself in fp32."""
        return self.bf16_error(self.in_fp32)

    @functools.cached_property
    def in_int8(self) -> torch.Tensor:
        return quantised_logits(self)


@pytest.fixture(scope="module", params=MODELS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> CachedPair:
    return CachedPair(request.param, tmp_path_factory.mktemp(request.param))


def logits(pair: CachedPair, precision: str, way: str) -> torch.Tensor:
    if (precision, way) not in pair.by_way:
        ours = logits_by_way(pair, way, precision)
        if ours is None:
            pytest.skip(f"this machine does not run linear layers by {way}")
        pair.by_way[precision, way] = ours
    return pair.by_way[precision, way]


@pytest.mark.parametrize("way", WAYS["FP32"])
def test_fp32(pair: CachedPair, way: str) -> None:
    ours = logits(pair, "FP32", way)
    assert distance(ours, pair.in_fp32) <= 1e-4


@pytest.mark.parametrize("way", WAYS["BF16"])
def test_bf16(pair: CachedPair, way: str) -> None:
    ours = logits(pair, "BF16", way)
    assert distance(ours, pair.in_fp32) <= 2 * pair.bf16_distance


def quantised(x: torch.Tensor) -> torch.Tensor:
    """Each row of the last dimension in whole steps of its largest value over 127."""
    step = x.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return (x / step).round() * step


def is_quantised(name: str, module: torch.nn.Module) -> bool:
    """Ours: linear layers, convolutions of one pixel among them, but not what reads pixels or gives the answer."""
    if name.startswith("head"):
        return False
    return isinstance(module, torch.nn.Linear) or (
        isinstance(module, torch.nn.Conv2d) and module.kernel_size == (1, 1)
    )


def quantised_logits(pair: Pair) -> torch.Tensor:
    """The published model's with weights by output channel and activations by token in 8 bits, all else in fp32."""
    model = copy.deepcopy(pair.published)

    def by_token(module: torch.nn.Module, inputs: tuple) -> tuple:
        (x,) = inputs
        if isinstance(module, torch.nn.Linear):
            return (quantised(x),)
        return (quantised(x.movedim(1, -1)).movedim(-1, 1),)

    for name, module in model.named_modules():
        if is_quantised(name, module):
            weight = module.weight.data
            module.weight.data = quantised(weight.flatten(1)).view_as(weight)
            module.register_forward_pre_hook(by_token)
    with torch.inference_mode():
        return model(pair.pixels)


@pytest.mark.parametrize("way", WAYS["INT8"])
def test_int8_is_no_further_from_fp32_than_twice_plain_quantisation(
    pair: CachedPair, way: str
) -> None:
    ours = logits(pair, "INT8", way)
    error, plain = (distance(one, pair.in_fp32) for one in (ours, pair.in_int8))
    print(f"{pair.name} {way}: {error:.1e}, plain {plain:.1e}")
    assert 0 < error <= 2 * plain


def test_int8_is_the_same_by_every_way(pair: CachedPair) -> None:
    first, second = (logits(pair, "INT8", way) for way in WAYS["INT8"])
    assert torch.equal(first, second)


def test_an_unknown_way_is_refused(
    pair: CachedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "linear_fp32: onednn (forced)" in told.stdout.splitlines()
    unknown = {**os.environ, "FOVEA_CHOOSE": "linear_fp32=fastest"}
    refused = subprocess.run(
        [program], check=False, env=unknown, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert 'FOVEA_CHOOSE: linear_fp32 cannot be "fastest"' in refused.stderr
    misspelt = {**os.environ, "FOVEA_CHOOSE": "lineer_fp32=onednn"}
    refused = subprocess.run(
        [program], check=False, env=misspelt, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert 'FOVEA_CHOOSE: there is no question "lineer_fp32"' in refused.stderr
