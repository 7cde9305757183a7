"""Writes published_logits/t2t_vit_t_19.json with the official code of T2T-ViT.

git clone https://github.com/yitu-opensource/T2T-ViT
FOVEA_BUILD=build/release python tests/model_zoo/data/store_t2t_logits.py T2T-ViT COMMIT
"""

from __future__ import annotations

import pathlib
import sys
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import stored_logits

KEPT = 158  # 0.8 of 197 keys: KVT takes two thirds or four fifths in T2T-ViT


def official_model(checkout: pathlib.Path) -> tuple[torch.nn.Module, type]:
    # Without the package's __init__, which imports variants that a present timm cannot run.
    package = types.ModuleType("models")
    package.__path__ = [str(checkout / "models")]
    sys.modules["models"] = package
    from models.t2t_vit import t2t_vit_t_19
    from models.transformer_block import Attention

    return t2t_vit_t_19(), Attention


def knn_forward(self: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    batch, tokens, channels = x.shape
    query, key, value = (
        self.qkv(x).reshape(batch, tokens, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
    )
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = (query.to(wide) @ key.to(wide).mT) * self.scale
    chosen = logits.topk(KEPT, dim=-1).indices
    logits = torch.full_like(logits, float("-inf")).scatter(
        -1, chosen, logits.gather(-1, chosen)
    )
    mixed = logits.softmax(-1).to(value.dtype) @ value
    return self.proj(mixed.transpose(1, 2).reshape(batch, tokens, channels))


def main() -> None:
    checkout, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
    model, attention = official_model(checkout)
    model.eval()
    shapes = stored_logits.shapes_of(model)
    model.load_state_dict(stored_logits.seeded_weights(shapes))
    cases = {}
    for name in ("dense", "knn:k=0.8"):
        if name != "dense":
            attention.forward = knn_forward
        seed, logits, bf16_error = stored_logits.steady_logits(model)
        cases[name] = {
            "pixels_seed": seed,
            "bf16_error_over_std": float(f"{bf16_error:.3g}"),
            "logits": [float(f"{number:.6g}") for number in logits[0].tolist()],
        }
    stored_logits.write(
        "t2t_vit_t_19",
        repository="https://github.com/yitu-opensource/T2T-ViT",
        commit=commit,
        torch=torch.__version__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        shapes=shapes,
        **cases,
    )


if __name__ == "__main__":
    main()
