"""Compares the attentions of the four papers on the bundled models, task by task: attentions.py [--build DIR] [--out DIR].

k-NN attention stands in over the dense weights; axially expanded windows, static keys and key-only attention are models that were trained
by the dense one's recipe. What is measured, and how, is `fovea compare`'s, `fovea evaluate`'s and `fovea sweep`'s.

Writes for each task a comparison on pictures (TASK.json; fovea.client.Comparison.from_json reads it), how well they answer
a data set that no training saw (TASK_dataset.json), and how costs grow with the resolution (TASK_sweep.json, which
fovea.client.Sweep.from_json reads), then tables.md of all, attentions.png and resolutions.png.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
ROOT = TESTS.parent
DEMO = ROOT / "model_zoo/demo"
sys.path[:0] = [str(TESTS), str(ROOT / "client" / "python")]

KNN = "knn:k=0.5"
# Of each kind the bundled models, which were trained alike, the dense one first.
KINDS = {
    kind: [
        f"{name}_{attention}" for attention in ("dense", "aewin", "cska", "key_only")
    ]
    for kind, name in (
        ("classification", "frame"),
        ("detection", "detector"),
        ("instance masks", "instances"),
        ("segmentation", "segmenter"),
    )
}
PICTURES = 16  # of a comparison, of those that a data set begins with
SIDES = (64, 128, 192, 256, 384)  # of the sweeps, pixels
TASKS = {"instance masks": "detection"}  # of kinds that are called otherwise


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
    parser.add_argument("--count", type=int, default=500, help="pictures of data sets")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    os.environ["FOVEA_BUILD"] = str(build)
    import running_server
    from attention_tables import tables
    from fovea import client
    from fovea.client import Variant
    from fovea.evaluation.evaluate import evaluate
    from plot_attentions import plot

    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        pictures = drawn(build, pathlib.Path(work), arguments.count)
        variants = {
            kind: [Variant(names[0]), Variant(names[0], attention=KNN)]
            + [Variant(name) for name in names[1:]]
            for kind, names in KINDS.items()
        }
        server = running_server.Server(
            pathlib.Path(work, "server.log"),
            *("--model-repository", str(DEMO), "--enable-experiments"),
        )
        comparisons, reports, sweeps = {}, {}, {}
        try:
            with client.Client(server.grpc, timeout=600) as asked:
                for kind, measured in variants.items():
                    folder = pictures[kind == "classification"]
                    comparisons[kind] = asked.compare(
                        measured,
                        some(folder),
                        rounds=arguments.rounds,
                        max_seconds=arguments.max_seconds,
                    )
                    task = TASKS.get(kind, kind)
                    reports[kind] = evaluate(asked, measured, folder, task=task)
                    sweeps[kind] = asked.sweep(
                        [at_any_size(variant) for variant in measured],
                        "resolution",
                        SIDES,
                        rounds=max(20, arguments.rounds // 2),
                        max_seconds=2 * arguments.max_seconds,
                    )
                    print(f"{kind}: {comparisons[kind].rounds} rounds", flush=True)
        finally:
            server.close()
    for kind in KINDS:
        name = out / kind.replace(" ", "_")
        name.with_suffix(".json").write_text(comparisons[kind].to_json(indent=1) + "\n")
        reports[kind] = reports[kind].to_dict() | {"dataset": "generated"}
        pathlib.Path(f"{name}_dataset.json").write_text(
            json.dumps(reports[kind], indent=1) + "\n"
        )
        pathlib.Path(f"{name}_sweep.json").write_text(
            sweeps[kind].to_json(indent=1) + "\n"
        )
    (out / "tables.md").write_text(tables(comparisons, reports, sweeps))
    plot(comparisons, sweeps, out)
    return 0


def at_any_size(variant):
    """A static key has the size of the map that it was trained for, unless it is asked to interpolate."""
    if not variant.model.endswith("_cska"):
        return variant
    return dataclasses.replace(variant, attention="cska:interpolate")


def drawn(
    build: pathlib.Path, work: pathlib.Path, count: int
) -> tuple[pathlib.Path, pathlib.Path]:
    """Folders of scenes of several shapes and of pictures of one, which no training saw."""
    for what, counted in (("scenes", "scene"), ("shapes", "shape")):
        subprocess.run(
            [build / "bin/fovea-train", f"--write-{what}", work / what]
            + [f"--{counted}-count", str(count)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return work / "scenes", work / "shapes"


def some(folder: pathlib.Path) -> list[pathlib.Path]:
    """Pictures of a comparison, evenly spread over the folder."""
    root = folder / "images" if (folder / "images").exists() else folder
    files = sorted(path for path in root.rglob("*") if path.suffix in {".png", ".jpg"})
    return files[:: max(1, len(files) // PICTURES)][:PICTURES]


if __name__ == "__main__":
    sys.exit(main())
