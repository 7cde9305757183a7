"""Compares the attentions of the four papers on the bundled models, task by task, as `fovea compare` does: attentions.py [--build DIR] [--out DIR].

k-NN attention stands in over the dense weights; axially expanded windows, static keys and key-only attention are models that were trained
alike, where one is bundled, and else have random weights: their times and memory are what the attention costs, and their
answers mean nothing, which every table says. Writes a comparison for each task as JSON (fovea.Comparison.from_json reads it),
comparison.md with the tables, and attentions.png.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
ROOT = TESTS.parent
DEMO = ROOT / "model_zoo/demo"
sys.path[:0] = [str(TESTS), str(ROOT / "client" / "python")]

KNN = "knn:k=0.5"
# Of each kind: the bundled models, the dense one first, and the attentions that none of them was trained with.
KINDS = {
    "classification": (["frame_dense", "frame_aewin", "frame_cska"], ["key_only"]),
    "detection": (["detector_dense", "detector_aewin", "detector_key_only"], ["cska"]),
    "instance masks": (["instances_dense", "instances_aewin", "instances_key_only"], ["cska"]),
    "segmentation": (["segmenter_dense", "segmenter_aewin", "segmenter_key_only"], ["cska"]),
}  # fmt: skip
SCENES = 16  # pictures of several shapes, which no training saw


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "docs/results/attentions_cpu"
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--max-seconds", type=float, default=120, help="of each task")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    os.environ["FOVEA_BUILD"] = str(build)
    import running_server
    from attention_tables import tables
    from fovea import client
    from plot_attentions import plot

    arguments.out.mkdir(parents=True, exist_ok=True)
    comparisons = {}
    with tempfile.TemporaryDirectory() as work:
        models = pathlib.Path(work, "models")
        shutil.copytree(DEMO, models)
        scenes = written_scenes(build, pathlib.Path(work))
        pictures = sorted((scenes / "images").iterdir())
        shapes = cut_out(scenes, pathlib.Path(work, "shapes"))
        variants = {
            kind: variants_of(models, trained, missing)
            for kind, (trained, missing) in KINDS.items()
        }
        server = running_server.Server(
            pathlib.Path(work, "server.log"),
            *("--model-repository", str(models), "--enable-experiments"),
        )
        try:
            with client.Client(server.grpc, timeout=600) as asked:
                for kind, measured in variants.items():
                    comparisons[kind] = asked.compare(
                        measured,
                        shapes if kind == "classification" else pictures,
                        rounds=arguments.rounds,
                        max_seconds=arguments.max_seconds,
                    )
                    print(f"{kind}: {comparisons[kind].rounds} rounds", flush=True)
        finally:
            server.close()
    for kind, comparison in comparisons.items():
        name = kind.replace(" ", "_")
        (arguments.out / f"{name}.json").write_text(comparison.to_json(indent=1) + "\n")
    (arguments.out / "comparison.md").write_text(tables(comparisons))
    plot(comparisons, arguments.out / "attentions.png")
    return 0


def written_scenes(build: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    scenes = work / "scenes"
    subprocess.run(
        [build / "bin/fovea-train", "--write-scenes", scenes]
        + ["--scene-count", str(SCENES)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return scenes


def cut_out(scenes: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """The largest shape of each scene as a square picture of its own: classifiers saw one shape at a time."""
    from PIL import Image

    folder.mkdir()
    truth = json.loads((scenes / "annotations.json").read_text())
    cut = []
    for entry in truth["images"]:
        shapes = [
            one["bbox"]
            for one in truth["annotations"]
            if one["image_id"] == entry["id"]
        ]
        left, top, width, height = max(shapes, key=lambda box: box[2] * box[3])
        side = max(width, height) * 1.2
        x, y = left + (width - side) / 2, top + (height - side) / 2
        with Image.open(scenes / "images" / entry["file_name"]) as scene:
            shape = scene.crop(tuple(map(round, (x, y, x + side, y + side))))
        cut.append(folder / f"{pathlib.Path(entry['file_name']).stem}.png")
        shape.save(cut[-1])
    return cut


def variants_of(models: pathlib.Path, trained: list[str], missing: list[str]):
    """Of one task, the dense model first. What nobody trained becomes a model with random weights in `models`."""
    from fovea.client import Variant

    dense = trained[0]
    for attention in missing:
        name = f"{dense.removesuffix('dense')}{attention}"
        spec = (models / dense / "model.textproto").read_text()
        spec = re.sub(r'(?m)^name: ".*"', f'name: "{name}"', spec)
        spec = re.sub(r'(?m)^attention: ".*"', f'attention: "{attention}"', spec)
        (models / name).mkdir()
        (models / name / "model.textproto").write_text(
            spec + "random_weights { seed: 1 }\n"
        )
        labels = models / dense / "labels.txt"
        if labels.exists():
            shutil.copy(labels, models / name)
        trained = [*trained, name]
    return [Variant(dense), Variant(dense, attention=KNN), *map(Variant, trained[1:])]


if __name__ == "__main__":
    sys.exit(main())
