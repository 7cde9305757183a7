"""fovea.swap_attention: Fovea's attention in timm's models, over the same weights."""

from __future__ import annotations

import copy
import pathlib
import sys

import pytest
import safetensors.torch
import timm
import torch
from timm.layers.attention import Attention
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python"))

import fovea

BLOCKS = 3


def vit(**options: object) -> VisionTransformer:
    """Small: 4 x 4 patches and a class token."""
    torch.manual_seed(5)
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": BLOCKS}
    model = VisionTransformer(**sizes | {"num_heads": 3, "num_classes": 5} | options)
    for parameter in model.parameters():  # biases and positions among them
        nn.init.normal_(parameter, std=0.2 if parameter.ndim > 1 else 0.5)
    return model.eval()


def swin() -> nn.Module:
    """Windows of 4 x 4 of 16 x 16 patches, every other block's shifted."""
    torch.manual_seed(6)
    model = timm.create_model(
        "swin_tiny_patch4_window7_224",
        img_size=64,
        window_size=4,
        embed_dim=24,
        depths=(2, 2),
        num_heads=(2, 4),
        num_classes=5,
    )
    for name, parameter in model.named_parameters():
        if "relative_position_bias_table" in name:
            nn.init.normal_(parameter, std=1)
    return model.eval()


MODELS = {
    "vit": (vit, 32, [f"blocks.{i}.attn" for i in range(BLOCKS)]),
    "vit with norms of queries and keys": (
        lambda: vit(qk_norm=True),
        32,
        [f"blocks.{i}.attn" for i in range(BLOCKS)],
    ),
    "swin": (
        swin,
        64,
        [f"layers.{stage}.blocks.{i}.attn" for stage in (0, 1) for i in (0, 1)],
    ),
}


@pytest.fixture(params=MODELS)
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor, list[str]]:
    make, side, layers = MODELS[request.param]
    torch.manual_seed(7)
    return make(), torch.randn(3, 3, side, side), layers


def keep_largest(logits: Tensor, k: int) -> Tensor:
    """What is not among the k largest of its row has no weight."""
    kept = torch.zeros_like(logits, dtype=torch.bool)
    kept.scatter_(-1, logits.topk(k, -1).indices, True)
    return logits.masked_fill(~kept, float("-inf"))


def explicit(k: int):
    """timm's Attention.forward, written out, with KVT's selection between the logits and the softmax."""

    def forward(self: Attention, x: Tensor, *_: object, **__: object) -> Tensor:
        batch, tokens, _ = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        logits = query @ key.mT * self.scale
        out = keep_largest(logits, k).softmax(-1) @ value
        return self.proj(out.transpose(1, 2).flatten(2))

    return forward


@pytest.mark.parametrize("text", ["dense", "knn:k=1.0", "knn:k={keys}"])
def test_attention_to_all_keys_is_timms(case, text: str) -> None:
    model, images, layers = case
    with torch.no_grad():
        expected = model(images)
        keys = 16 if "layers.0.blocks.0.attn" in layers else 17
        same, swapped = fovea.swap_attention(model, text.format(keys=keys))
        found = model(images)
        if keys == 17:  # timm's own Swin takes no empty batch
            assert model(images[:0]).shape == (0, *expected.shape[1:])
    assert same is model and swapped == layers
    assert expected.std() > 0.01  # else everything would be near it
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_names_shapes_and_values_of_the_state_stay(case, tmp_path) -> None:
    model, images, _layers = case
    before = copy.deepcopy(model.state_dict())
    other = copy.deepcopy(model)
    fovea.swap_attention(model, "knn:k=0.25")
    after = model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    # A checkpoint of either loads into the other, and a whole model is saved and loaded.
    other.load_state_dict(after)
    model.load_state_dict(before)
    torch.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    with torch.no_grad():
        torch.testing.assert_close(loaded(images), model(images), rtol=0, atol=0)
        assert not torch.allclose(model(images), other(images), atol=1e-3)


def test_k_nn_attention_and_its_gradients_are_those_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference, model = vit(), vit()
    fovea.swap_attention(model, "knn:k=0.3")  # 5 of 17 keys
    monkeypatch.setattr(Attention, "forward", explicit(5))
    images = torch.randn(4, 3, 32, 32)
    for one in (reference, model):
        one(images).square().mean().backward()
    with torch.no_grad():
        torch.testing.assert_close(
            model(images), reference(images), rtol=1e-4, atol=1e-4
        )
    gradients = dict(reference.named_parameters())
    for name, parameter in model.named_parameters():
        expected = gradients[name].grad
        scale = expected.abs().max().item()
        assert scale > 0, name
        torch.testing.assert_close(
            parameter.grad, expected, rtol=1e-3, atol=1e-4 * scale, msg=name
        )


def test_swins_position_biases_are_trained_through_k_nn_attention() -> None:
    model = swin()
    fovea.swap_attention(model, "knn:k=0.5")
    model(torch.randn(2, 3, 64, 64)).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        if "relative_position_bias_table" in name:
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("text", ["dense", "knn:k=0.5", "knn:k=0.5,exact"])
def test_a_few_steps_lower_the_loss(text: str) -> None:
    torch.manual_seed(8)
    model = VisionTransformer(
        img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3, num_classes=4
    )
    fovea.swap_attention(model, text)
    model.train()
    images, classes = torch.randn(16, 3, 32, 32), torch.arange(16) % 4
    steps = torch.optim.AdamW(model.parameters(), 3e-3)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(images), classes)
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses


def test_autocast_runs_in_bf16(case) -> None:
    model, images, _ = case
    fovea.swap_attention(model, "knn:k=0.5")
    with torch.autocast("cpu", torch.bfloat16):
        found = model(images)
        found.float().square().mean().backward()
    assert found.dtype == torch.bfloat16
    with torch.no_grad():
        expected = model(images)
    # Selection may differ for near ties; bf16 has 8 bits.
    assert (found - expected).abs().max() < 0.15 * expected.abs().max()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_a_swapped_model_is_swapped_again_and_says_what_it_has() -> None:
    model = vit()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = model(images)
        fovea.swap_attention(model, "knn:k=3,temperature=2")
        assert "core=knn:k=3,temperature=2" in repr(model)
        changed = model(images)
        fovea.swap_attention(model, "self/dense")
        torch.testing.assert_close(model(images), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(changed, expected, atol=1e-2)


def test_a_temperature_divides_the_logits() -> None:
    model, reference = vit(), vit()
    for block in reference.blocks:
        with torch.no_grad():  # of queries alone
            for tensor in (block.attn.qkv.weight, block.attn.qkv.bias):
                tensor[:48] /= 4
    fovea.swap_attention(model, "dense:temperature=4")
    assert "core=dense:temperature=4" in repr(model)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(
            model(images), reference(images), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(
    "text",
    ["dense", "dense:temperature=2", "knn:k=3", "knn:k=0.25", "knn:k=7,exact"]
    + ["knn:temperature=0.5,k=3", "knn:k=0.5,exact,temperature=1.5", "self/knn:k=3"],
)
def test_texts_mean_what_model_folders_mean_by_them(text: str) -> None:
    """Over the weights of the bundled shapes: a published model with the attention swapped, and fovea.Model."""
    folder = ROOT / "model_zoo/demo/shapes"
    model = fovea.Model(folder, attention=text)
    swapped = VisionTransformer(
        img_size=64,
        patch_size=8,
        embed_dim=128,
        depth=6,
        num_heads=4,
        mlp_ratio=2,
        num_classes=10,
    ).eval()
    weights = safetensors.torch.load_file(folder / "1/model.safetensors")
    swapped.load_state_dict({name: one.float() for name, one in weights.items()})
    fovea.swap_attention(swapped, text)
    assert str(swapped.blocks[0].attn.core) == model.attention
    pixels = model.pixels([ROOT / "client/examples/ring.jpg"])
    with torch.no_grad():
        found = swapped(pixels)
    torch.testing.assert_close(model(pixels)["logits"], found, rtol=1e-3, atol=1e-3)


def test_hooks_and_the_mode_stay() -> None:
    model, seen = vit(), []
    model.blocks[1].attn.register_forward_hook(lambda *_: seen.append(1))
    model.train()
    model.blocks[0].attn.eval()
    fovea.swap_attention(model, "dense")
    assert model.blocks[1].attn.training and not model.blocks[0].attn.training
    model(torch.randn(1, 3, 32, 32))
    assert seen == [1]


@pytest.mark.parametrize(
    ("make", "text", "sentence"),
    [
        (vit, "ska", "no core, dense or knn"),
        (vit, "knn", "needs k"),
        (vit, "knn:k=0", "'k' is unknown, or has an unknown value"),
        (vit, "knn:k=1.5", "unknown value"),
        (vit, "knn:k=3,k=4", "given twice"),
        (vit, "knn:k=3,speed=4", "'speed=4' is given twice, or knn does not take it"),
        (vit, "dense:k=3", "dense does not take it"),
        (vit, "dense:temperature=0", "unknown value"),
        (vit, "knn:k=18", "k=18, but a query sees only 17 keys"),
        (swin, "knn:k=17", "k=17, but a query sees only 16 keys"),
        (vit, "dense|dense|knn:k=3", "names stages"),
        (vit, "shifted_window/knn:k=3", "the layers' is 'self'"),
        (lambda: vit(attn_drop_rate=0.1), "dense", r"attn drops attention weights \(p=0.1\)"),
        (lambda: timm.create_model("resnet18"), "dense", "ResNet has no attention layer"),
        (
            lambda: timm.create_model("eva02_tiny_patch14_224"),
            "dense",
            r"cannot be swapped: blocks.0.attn \(\w*Attention\w*\), .* and 7 more",
        ),
        (lambda: vit().blocks[0].attn, "dense", "the model that it is a part of"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_in_words_and_changes_nothing(
    make, text: str, sentence: str
) -> None:
    model = make()
    kinds = {name: type(module) for name, module in model.named_modules()}
    with pytest.raises(ValueError, match=sentence):
        fovea.swap_attention(model, text)
    assert kinds == {name: type(module) for name, module in model.named_modules()}


def test_masks_are_respected() -> None:
    model = vit()
    attention = model.blocks[0].attn
    tokens, mask = torch.randn(2, 9, 48), torch.rand(2, 1, 9, 9) > 0.3
    mask |= torch.eye(9, dtype=torch.bool)
    with torch.no_grad():
        expected = attention(tokens, attn_mask=mask)
        fovea.swap_attention(model, "dense")
        found = model.blocks[0].attn(tokens, attn_mask=mask)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="causal"):
        model.blocks[0].attn(tokens, is_causal=True)
