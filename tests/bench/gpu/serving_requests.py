"""Writes the model repository and the requests of the load on a GPU: serving_requests.py FOLDER.

FOLDER/models has a folder for each of MODELS, with random weights, and FOLDER/NAME_BATCH.bin a serialized ModelInferRequest
of that many random pictures, as bytes: for machines on which no gRPC is installed.
"""

from __future__ import annotations

import pathlib
import sys

BATCHES = (1, 2, 4, 8, 16, 32, 64)
# Name, backbone, further lines of the description, side of the input, the largest batch.
MODELS = (
    ("deit_tiny", "deit_tiny_patch16_224", "precision: BF16", 224, 64),
    ("deit_small", "deit_small_patch16_224", "precision: BF16", 224, 64),
    ("deit_small_knn", "deit_small_patch16_224", 'precision: BF16\nattention: "knn:k=100"', 224, 64),
    ("swin_tiny", "swin_tiny_patch4_window7_224", "precision: BF16", 224, 64),
    ("linglo", "linglo_b1", "precision: BF16", 224, 64),
    ("mask_rcnn", "swin_tiny_patch4_window7_224",
     'precision: BF16\ntask: DETECTION\nhead { name: "mask_rcnn" }\nnum_classes: 80', 800, 2),
)  # fmt: skip


def write_models(repository: pathlib.Path) -> None:
    for name, backbone, lines, side, batch in MODELS:
        folder = repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "model.textproto").write_text(
            f'spec_version: 1\nbackbone: "{backbone}"\n{lines}\nimage_height: {side}\nimage_width: {side}\n'
            f"max_batch_size: {batch}\nrandom_weights {{ seed: 1 }}\ninstance_group {{ kind: KIND_GPU }}\n"
            "dynamic_batching {}\nadvertised_input: IMAGE_RGB\n"
        )


def main() -> None:
    import numpy as np
    from tritonclient.grpc import service_pb2

    folder = pathlib.Path(sys.argv[1])
    write_models(folder / "models")
    random = np.random.default_rng(1)
    for name, _, _, side, most in MODELS:
        for batch in (size for size in BATCHES if size <= most):
            request = service_pb2.ModelInferRequest(model_name=name)
            request.inputs.add(
                name="image_rgb", datatype="UINT8", shape=(batch, side, side, 3)
            )
            # One picture, repeated: the file travels, and nothing of the model depends on it.
            pixels = random.integers(0, 256, (1, side, side, 3), dtype=np.uint8)
            request.raw_input_contents.append(
                np.repeat(pixels, batch, axis=0).tobytes()
            )
            (folder / f"{name}_{batch}.bin").write_bytes(request.SerializeToString())


if __name__ == "__main__":
    main()
