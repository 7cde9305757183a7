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


def official_model(checkout: pathlib.Path) -> tuple[torch.nn.Module, type]:
    # Without the package's __init__, which imports variants that a present timm cannot run.
    package = types.ModuleType("models")
    package.__path__ = [str(checkout / "models")]
    sys.modules["models"] = package
    from models.t2t_vit import t2t_vit_t_19
    from models.transformer_block import Attention

    return t2t_vit_t_19(), Attention


def main() -> None:
    checkout, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
    model, attention = official_model(checkout)
    stored_logits.store(
        "t2t_vit_t_19",
        model,
        # KVT takes two thirds or four fifths of the keys in T2T-ViT.
        {"dense": None, "knn:k=0.8": (attention, 158)},
        repository="https://github.com/yitu-opensource/T2T-ViT",
        commit=commit,
    )


if __name__ == "__main__":
    main()
