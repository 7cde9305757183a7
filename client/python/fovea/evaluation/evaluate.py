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
from fovea.evaluation.cost import UNITS
from fovea.evaluation.datasets import open_dataset, spread
from fovea.evaluation.measure_of_task import measure_of
from fovea.evaluation.provenance import provenance
from fovea.evaluation.report import Report
from fovea.evaluation.run import run, with_costs
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
    rounds: int = UNITS,
) -> Report:
    """models, attentions: as of Client.compare, also that each model as it is comes before a single attention; the first is the
    baseline. A server has to have been started with --enable-experiments to run attentions other than the models' own.

    dataset: a folder, or an annotation file of COCO's format. limit: pictures, evenly spread; None: all. task, images,
    by_number: as in fovea-evaluate. concurrency: requests at a time. rounds: maximum number in which costs are measured; 0: costs
    are not measured. If costs cannot be measured, or on Ctrl-C meanwhile, the report keeps the figures and `without_costs` says
    why.
    DatasetError: it is no data set, or not one for these models. Error: the server's.
    """
    began = provenance()
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
        measured = [
            (
                run(server, one, measure, opened.pictures, places, concurrency),
                measure,
            )
            for one, measure in measures
        ]
        asked = [opened.pictures[place] for place in places]
        outcomes, without_costs = [outcome for outcome, _ in measured], ""
        try:
            outcomes = with_costs(server, measured, asked, concurrency, rounds)
        except client.Error as error:
            without_costs = error.message
        except OSError as error:
            without_costs = str(error)
        except KeyboardInterrupt:
            without_costs = "interrupted"
    return Report(
        str(dataset),
        opened.task,
        len(places),
        concurrency,
        outcomes,
        unfinished="",
        measured=began,
        without_costs=without_costs,
    )
