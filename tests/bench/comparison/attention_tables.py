"""Comparisons of attentions.py as Markdown."""

from __future__ import annotations

from typing import Any

from fovea.comparison import (
    ClassAgreement,
    ComparedVariant,
    Comparison,
    MapAgreement,
    ObjectAgreement,
)
from fovea.sweep import Sweep

HEAD = (
    "| attention | weights | compute, ms | to dense | attention alone, ms | peak, MiB | M multiply-adds | answers as dense |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def tables(
    comparisons: dict[str, Comparison],
    reports: dict[str, dict[str, Any]],
    sweeps: dict[str, Sweep],
) -> str:
    return "# Tables of the papers' attentions\n\n" + "\n".join(
        f"## {kind.capitalize()}: `{one.variants[0].backbone}`\n\n"
        f"{len(one.images)} pictures, {one.rounds} rounds, batches of {one.batch_size}, {one.threads} threads. The control, dense"
        f" once more: {ratio(one.control.ratio)}.\n\n"
        + HEAD
        + "".join(row(variant) for variant in one.variants)
        + "\n"
        + answered(reports[kind])
        + "\n"
        + grown(sweeps[kind])
        for kind, one in comparisons.items()
    )


def answered(report: dict[str, Any]) -> str:
    """How well they answer a data set. report: as `fovea evaluate --json` prints it."""
    first = report["models"][0]
    names = [
        name
        for name in ("top-1", "box AP", "mask AP", "mIoU")
        if name in first["intervals"]
    ]
    lines = [
        f"On {report['pictures']} pictures that no training saw, with intervals at 95%:\n",
        f"| attention | {' | '.join(f'{name} | difference' for name in names)} |",
        f"|---|{'---|---|' * len(names)}",
    ]
    for model in report["models"]:
        cells = [f"`{model['attention']}`"]
        for name in names:
            interval = model["intervals"][name]
            cells.append(
                f"{model['figures'][name]:.4f} [{interval['lower']:.4f}, {interval['upper']:.4f}]"
            )
            if model is first:
                cells.append("")
                continue
            interval = model["difference_intervals"][name]
            cells.append(
                f"{model['differences'][name]:+.4f} [{interval['lower']:+.4f}, {interval['upper']:+.4f}]"
            )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def grown(sweep: Sweep) -> str:
    """Medians at each resolution, and the exponents in pixels."""
    head = " | ".join(f"{value}²" for value in sweep.values)
    lines = [
        f"Compute, ms, by the side of the input, {sweep.rounds} rounds, and the exponent of attention's own time in pixels:\n",
        f"| attention | {head} | exponent | peak at {sweep.values[-1]}², MiB |",
        f"|---|{'---|' * (len(sweep.values) + 2)}",
    ]
    for curve in sweep.curves:
        fitted = curve.attention_exponent
        cells = [f"`{curve.attention or curve.points[0].attention}`"]
        cells += [
            "left out" if point.failure else f"{point.compute_ms.median:.2f}"
            for point in curve.points
        ]
        cells.append("" if fitted is None else f"{fitted.exponent.value:.2f}")
        last = curve.points[-1]
        cells.append("" if last.failure else f"{last.peak_bytes / 2**20:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def row(variant: ComparedVariant) -> str:
    ms, verdict = variant.compute.ms, variant.compute.verdict
    told = ratio(variant.compute.ratio)
    if verdict:
        told += f", {verdict.lower().replace('_', ' ')}"
    cells = (
        f"`{variant.attention}`",
        weights(variant),
        f"{ms.median:.2f} ({ms.lower:.2f} to {ms.upper:.2f})",
        told,
        f"{variant.attention_ms.median:.2f}",
        f"{variant.peak_bytes / 2**20:.2f}",
        f"{variant.multiply_adds / 1e6:.1f}",
        agreement(variant),
    )
    return f"| {' | '.join(cells)} |\n"


def weights(variant: ComparedVariant) -> str:
    if variant.untrained:
        return "random"
    if variant.weights_of_attention:
        return f"those of {variant.weights_of_attention}, not fine-tuned"
    return "trained with it"


def ratio(estimate) -> str:
    if estimate is None:
        return ""
    return f"{estimate.value:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"


def agreement(variant: ComparedVariant) -> str:
    if variant.untrained:
        return "mean nothing"
    match variant.agreement:
        case ClassAgreement() as one:
            return f"{one.same_top1} of {one.images} best classes, KL {one.kl_divergence:.3f}"
        case ObjectAgreement() as one:
            masks = (
                ""
                if one.mean_mask_iou is None
                else f", of masks {one.mean_mask_iou:.2f}"
            )
            return (
                f"{one.matched} of {one.baseline_objects} objects ({one.objects} found), IoU of boxes {one.mean_box_iou:.2f}"
                + masks
            )
        case MapAgreement() as one:
            return f"{one.same_pixels:.1%} of the pixels, mIoU {one.mean_iou:.2f}"
    return ""
