"""Measures the bundled detectors and segmenters on generated scenes that no training saw, as fovea evaluate does.

A server with the bundled models answers; boxes and masks are scored by pycocotools. Prints a table for each kind of model, with the
difference of each attention to dense, and the floors of tests/bench/targets.csv, each with the worst of its models. Exits 1
when one is missed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(HERE.parent), str(TESTS), str(ROOT / "client" / "python")]

ATTENTIONS = ("dense", "aewin", "cska", "key_only")
TASKS = {
    "detector": "detection",
    "instances": "detection",
    "segmenter": "segmentation",
}
# Row of targets.csv: which models, and which of fovea evaluate's figures.
FLOORS = {
    "demo_box_ap50": (("detector", "instances"), "box AP50"),
    "demo_box_ap": (("detector", "instances"), "box AP"),
    "demo_mask_ap50": (("instances",), "mask AP50"),
    "demo_miou": (("segmenter",), "mIoU"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument(
        "--models",
        type=pathlib.Path,
        default=ROOT / "model_zoo/demo",
        help="a repository with detector_, instances_ and segmenter_ of each attention",
    )
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    os.environ["FOVEA_BUILD"] = str(build)
    import running_server
    import targets
    from fovea import client

    with tempfile.TemporaryDirectory() as work:
        scenes = pathlib.Path(work, "scenes")
        subprocess.run(
            [
                build / "bin/fovea-train",
                "--write-scenes",
                scenes,
                "--scene-count",
                str(arguments.scenes),
            ],
            check=True,
        )
        server = running_server.Server(
            pathlib.Path(work, "server.log"), "--model-repository", arguments.models
        )
        try:
            with client.Client(server.grpc, timeout=60) as asked:
                figures = {kind: measured(asked, scenes, kind) for kind in TASKS}
        finally:
            server.close()
    return targets.report("eval-demo", worst(figures))


def worst(figures: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """What targets.csv has floors for, from the figures of each kind's models."""
    return {
        row: min(one[figure] for kind in kinds for one in figures[kind])
        for row, (kinds, figure) in FLOORS.items()
    }


def measured(server, scenes: pathlib.Path, kind: str) -> list[dict[str, float]]:
    """The figures of the kind's models, one an attention, after they were printed."""
    from fovea.evaluation import report
    from fovea.evaluation.datasets import open_dataset
    from fovea.evaluation.measure import Model
    from fovea.evaluation.measure_of_task import measure_of
    from fovea.evaluation.provenance import provenance
    from fovea.evaluation.run import run

    concurrency = 16
    began = provenance()
    dataset = open_dataset(scenes, task=TASKS[kind], images=None)
    places = range(len(dataset.pictures))
    outcomes = []
    for attention in ATTENTIONS:
        model = Model(f"{kind}_{attention}", "")
        measure = measure_of(dataset, model, by_number=False)
        measure.prepare(server, iter(dataset.pictures))
        outcomes.append(
            run(server, model, measure, dataset.pictures, places, concurrency)
        )
        if outcomes[-1].failures:
            raise SystemExit(f"{model}: {outcomes[-1].failures[0].message}")
    print(
        report.table(
            report.Report(
                "held-out scenes",
                dataset.task,
                len(places),
                concurrency,
                outcomes,
                unfinished="",
                measured=began,
            )
        ),
        flush=True,
    )
    return [outcome.figures.overall for outcome in outcomes]


if __name__ == "__main__":
    sys.exit(main())
