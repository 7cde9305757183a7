"""Answers that tests of the playground write themselves, in the shape that the server's have, and give to a page in its place."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Page


def estimate(value: float, lower: float, upper: float) -> dict:
    return {"value": value, "lower": lower, "upper": upper}


def quartiles(lower: float, median: float, upper: float) -> dict:
    return {"lower": lower, "median": median, "upper": upper}


def variant(attention: str, median: float, **more) -> dict:
    return {
        "model_name": "shapes",
        "model_version": "1",
        "backbone": "vit_demo_patch8_64",
        "attention": attention,
        "weights_of_attention": "",
        "untrained": False,
        "compute": {"ms": quartiles(0.9 * median, median, 1.2 * median)},
        "postprocess_ms": quartiles(0.01, 0.02, 0.03),
        "decode_ms": quartiles(0.2, 0.21, 0.3),
        "preprocess_ms": quartiles(0.04, 0.05, 0.06),
        "attention_ms": quartiles(0.2, 0.25, 0.3),
        "images_per_second": 1000 / median,
        "peak_bytes": 2 << 20,
        "weight_bytes": 3 << 20,
        "parameters": 800_000,
        "multiply_adds": 52_000_000,
        "answers": [{"label": "star", "confidence": 0.52, "objects": 0}],
    } | more


CLASSES = {
    "classes": {
        "images": 1,
        "same_top1": 1,
        "top5_overlap": 0.8,
        "kl_divergence": 0.0213,
        "max_confidence_difference": 0.04,
    }
}
# More than the baseline's; and fewer, with masks.
OBJECTS = {
    "objects": {
        "baseline_objects": 4,
        "objects": 5,
        "matched": 3,
        "mean_box_iou": 0.874,
        "mean_score_difference": 0.031,
    }
}
OBJECTS_WITH_MASKS = {
    "objects": {
        "baseline_objects": 8,
        "objects": 2,
        "matched": 2,
        "mean_box_iou": 0.91,
        "mean_mask_iou": 0.63,
        "mean_score_difference": 0.12,
    }
}
MAPS = {"maps": {"same_pixels": 0.9632, "mean_iou": 0.717}}


def comparison(agreement: dict = CLASSES) -> dict:
    """Of a baseline with one variant."""
    other = variant(
        "knn:k=9",
        1.5,
        weights_of_attention="dense",
        compute={
            "ms": quartiles(1.4, 1.5, 1.7),
            "ratio": estimate(1.5, 1.45, 1.56),
            "difference_ms": estimate(0.5, 0.45, 0.56),
            "verdict": "SLOWER",
        },
        feature_cosine=0.9812,
        **agreement,
    )
    return {
        "id": "",
        "variants": [variant("dense", 1.0), other],
        "control": {
            "ms": quartiles(0.9, 1.0, 1.2),
            "ratio": estimate(1.0, 0.98, 1.03),
            "difference_ms": estimate(0.0, -0.02, 0.03),
            "verdict": "EQUIVALENT",
        },
        "rounds": 40,
        "batch_size": 1,
        "threads": 2,
        "device": "CPU",
        "images": [{"height": 240, "width": 320}],
    }


MEASURED = {
    "at": "2026-03-01T14:05:09Z",
    "by": "fovea-server 1.2.0",
    "processor": "A Processor",
    "cores": 4,
    "other_cores": 2.5,
    "busy": True,
}
SO_FAR = {
    "progress": {
        "phase": "MEASURING",
        "done": 3,
        "total": 20,
        "so_far": [
            {"compute_ms": quartiles(0.9, 1.0, 1.2), "ratio": 1},
            {"compute_ms": quartiles(1.4, 1.5, 1.7), "ratio": 1.5},
        ],
    }
}

# A file for a page's chooser that browsers show, and the server does not read.
UNREAD_PICTURE = {
    "name": "a.svg",
    "mimeType": "image/svg+xml",
    "buffer": b'<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"/>',
}

EXPLAINED = {
    "id": "",
    "model_name": "shapes",
    "attention": "knn:k=9",
    "weights_of_attention": "dense",
    "target_class": 3,
    "target_label": "star",
    "target_probability": 0.524,
    "maps": [
        {"method": "MAPS", "layer": "blocks.0", "layer_number": 0, "head": 1},
        {"method": "MAPS", "layer": "blocks.5", "layer_number": 5},
    ],
    "measures": [
        {
            "layer": "blocks.0",
            "cosine_similarity": 0.5,
            "attention_standard_deviation": 0.25,
            "attention_norm_ratio": 1.5,
            "mlp_norm_ratio": 2,
            "nonlocality": [1.0, 2.0],
        }
    ],
}


def lines(*updates: dict) -> str:
    return "".join(json.dumps(update) + "\n" for update in updates)


def comparing_with(*updates: dict) -> Callable[[Page], None]:
    """What to do before a page is opened, so that its comparisons are answered with these lines."""

    def before(page: Page) -> None:
        page.route(
            "**/v1/compare",
            lambda route: route.fulfill(
                content_type="application/x-ndjson", body=lines(*updates)
            ),
        )

    return before
