"""Average precision of pictures that are taken several times, from what pycocotools has matched in each of them once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from pycocotools.cocoeval import COCOeval

_FIGURES = {"AP": slice(None), "AP50": slice(0, 1), "AP75": slice(5, 6)}  # thresholds


@dataclasses.dataclass(frozen=True)
class _Category:
    """All that was found of one, the surest first, and how many there are of it in each picture."""

    picture: np.ndarray  # [found]
    right: np.ndarray  # [thresholds, found]
    wrong: np.ndarray
    objects: np.ndarray  # [pictures]


def resample_precision(
    evaluated: COCOeval, ids: Sequence[int], kind: str, counts: np.ndarray
) -> dict[str, np.ndarray]:
    """ "box AP", "box AP50", "box AP75" of each row of `counts` [resamples, pictures], for `kind` "box".

    ids: of the pictures. What COCOeval.accumulate does of a data set in which each picture lies so often: copies of what was
    found have one score, and stand side by side.
    """
    thresholds = evaluated.params.recThrs
    precision = [
        _precision(category, counts, thresholds)
        for category in _categories(evaluated, ids)
    ]
    if not precision:
        return {f"{kind} {name}": np.full(len(counts), np.nan) for name in _FIGURES}
    stacked = np.stack(precision)  # [categories, resamples, thresholds]
    figures = {}
    for name, at in _FIGURES.items():
        # NaN: of a category that the resample does not show, at every threshold.
        of_category = stacked[:, :, at].mean(axis=2)
        there = ~np.isnan(of_category)
        total = np.where(there, of_category, 0).sum(axis=0)
        number = there.sum(axis=0)
        figures[f"{kind} {name}"] = np.divide(
            total, number, out=np.full(len(counts), np.nan), where=number > 0
        )
    return figures


def _categories(evaluated: COCOeval, ids: Sequence[int]) -> list[_Category]:
    column = {number: at for at, number in enumerate(ids)}
    pictures, areas = len(evaluated.params.imgIds), len(evaluated.params.areaRng)
    most = evaluated.params.maxDets[-1]
    categories = []
    for number in range(len(evaluated.params.catIds)):
        first = number * areas * pictures  # the first area is all of them
        matched = [one for one in evaluated.evalImgs[first : first + pictures] if one]
        if not matched:
            continue
        scores = [np.array(one["dtScores"][:most]) for one in matched]
        order = np.argsort(-np.concatenate(scores), kind="mergesort")
        hits = np.concatenate([one["dtMatches"][:, :most] for one in matched], axis=1)
        ignored = np.concatenate([one["dtIgnore"][:, :most] for one in matched], axis=1)
        hits, ignored = hits[:, order] != 0, ignored[:, order] != 0
        objects = np.zeros(len(ids))
        for one in matched:
            objects[column[one["image_id"]]] += np.count_nonzero(one["gtIgnore"] == 0)
        at = np.concatenate(
            [
                np.full(len(found), column[one["image_id"]])
                for one, found in zip(matched, scores, strict=True)
            ]
        )
        categories.append(
            _Category(at[order].astype(int), hits & ~ignored, ~hits & ~ignored, objects)
        )
    return categories


def _precision(
    category: _Category, counts: np.ndarray, recalls: np.ndarray
) -> np.ndarray:
    """[resamples, thresholds]: the mean over the recalls; NaN where there is no object."""
    objects = counts @ category.objects
    drawn = counts[:, category.picture].astype(float)
    result = np.full((len(counts), len(category.right)), np.nan)
    for threshold, (right, wrong) in enumerate(
        zip(category.right, category.wrong, strict=True)
    ):
        hits, misses = (
            np.cumsum(drawn * right, axis=1),
            np.cumsum(drawn * wrong, axis=1),
        )
        precise = hits / (hits + misses + np.spacing(1))
        # The best at this recall or a higher one.
        precise = np.maximum.accumulate(precise[:, ::-1], axis=1)[:, ::-1]
        for row in np.flatnonzero(objects):
            places = np.searchsorted(hits[row] / objects[row], recalls, side="left")
            reached = places[places < precise.shape[1]]
            result[row, threshold] = precise[row, reached].sum() / len(recalls)
    return result
