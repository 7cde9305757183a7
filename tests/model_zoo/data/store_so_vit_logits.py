"""Writes published_logits/so_vit_7.json with the official code of So-ViT.

    git clone https://github.com/jiangtaoxie/So-ViT && git -C So-ViT checkout COMMIT
    FOVEA_BUILD=build/release python tests/model_zoo/data/store_so_vit_logits.py So-ViT COMMIT

COMMIT: f0a3e56 is the last one before the repository became that of SoT.
"""

from __future__ import annotations

import pathlib
import sys
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import stored_logits


def official_model(checkout: pathlib.Path) -> tuple[torch.nn.Module, type]:
    # Imported there for other stems, and no longer under that name in a present timm.
    inception = types.ModuleType("timm.models.inception_resnet_v2")
    inception.BasicConv2d = torch.nn.Module
    sys.modules[inception.__name__] = inception
    sys.path.insert(0, str(checkout))
    from src.model.vitBlock import Attention
    from src.so_vit import So_vit_7

    return So_vit_7(), Attention


def main() -> None:
    checkout, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
    model, attention = official_model(checkout)
    stored_logits.store(
        "so_vit_7",
        model,
        {"dense": None, "knn:k=0.5": (attention, 99)},
        repository="https://github.com/jiangtaoxie/So-ViT",
        commit=commit,
    )


if __name__ == "__main__":
    main()
