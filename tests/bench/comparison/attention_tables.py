"""Comparisons of attentions.py as Markdown."""

from __future__ import annotations

from fovea.comparison import (
    ClassAgreement,
    ComparedVariant,
    Comparison,
    MapAgreement,
    ObjectAgreement,
)

HEAD = (
    "| attention | weights | compute, ms | to dense | attention alone, ms | peak, MiB | M multiply-adds | answers as dense |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def tables(comparisons: dict[str, Comparison]) -> str:
    return "\n".join(
        f"### {kind.capitalize()}: `{one.variants[0].backbone}`\n\n"
        f"{len(one.images)} pictures, {one.rounds} rounds, batches of {one.batch_size}, {one.threads} threads. The control, dense"
        f" once more: {ratio(one.control.ratio)}.\n\n"
        + HEAD
        + "".join(row(variant) for variant in one.variants)
        for kind, one in comparisons.items()
    )


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
