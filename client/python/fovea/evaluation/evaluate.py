"""Measures models, and attentions over their weights, on a data set.

report = evaluate(client, ["shapes"], "pictures/", attentions=["dense", "knn:k=9"])
report              # a table, in a notebook and printed
report.to_frame()   # pandas: a row for each figure
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable

from fovea import client
from fovea.evaluation.datasets import open_dataset, spread
from fovea.evaluation.measure_of_task import measure_of
from fovea.evaluation.report import Report
from fovea.evaluation.run import run
from fovea.evaluation.variants import models_of, served


def evaluate(
    server: client.Client,
    models: str | client.Variant | Iterable[str | client.Variant],
    dataset: str | os.PathLike[str],
    *,
    attentions: Iterable[str] = (),
    limit: int | None = None,
    task: str = "",
    images: str | os.PathLike[str] | None = None,
    by_number: bool = False,
    concurrency: int = 16,
) -> Report:
    """models, attentions: as of Client.compare, also that each model as it is comes before a single attention; the first is the
    baseline. A server has to have been started with --enable-experiments to run attentions other than the models' own.

    dataset: a folder, or an annotation file of COCO's format. limit: pictures, evenly spread; None: all. task, images,
    by_number: as fovea-evaluate has them. concurrency: requests at a time.
    DatasetError: it is no data set, or not one for these models. Error: the server's.
    """
    opened = open_dataset(
        pathlib.Path(dataset),
        task=task,
        images=None if images is None else pathlib.Path(images),
    )
    places = spread(len(opened.pictures), limit)
    with served(server, models_of(models, attentions)) as variants:
        measures = [(one, measure_of(opened, one, by_number)) for one in variants]
        for _, measure in measures:
            measure.prepare(server, (opened.pictures[place] for place in places))
        outcomes = [
            run(server, one, measure, opened.pictures, places, concurrency)
            for one, measure in measures
        ]
    return Report(
        str(dataset), opened.task, len(places), concurrency, outcomes, unfinished=""
    )
