"""What a server measured of several attentions side by side, as fovea.client gives it.

    comparison = client.compare("deit_tiny", ["cat.jpg"], attentions=["dense", "knn:k=100", "knn:k=50"])
    comparison              # a table, in a notebook and printed
    comparison.to_frame()   # pandas: a row for each variant
    comparison.to_json()    # as POST /v1/compare answers it, and Comparison.from_json reads it

Times are in milliseconds of a batch. Every field has the name that proto/fovea/v1/comparison.proto gives it, which says more.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from fovea import comparison_text, tables
from fovea.estimates import (
    Estimate,
    Provenance,
    Quartiles,
    estimate_of,
    provenance_of,
    quartiles_in,
    quartiles_of,
)
from fovea.message_json import message_in, with_named_infinity, without_none
from fovea.v1 import comparison_pb2

if TYPE_CHECKING:
    import pandas

    from fovea.evaluation.report import Report


@dataclasses.dataclass(frozen=True)
class ComparedTime:
    ms: Quartiles
    # To the baseline, and from it; None: of the baseline itself, or of too few rounds.
    ratio: Estimate | None
    difference_ms: Estimate | None
    # "FASTER", "SLOWER", "EQUIVALENT", or why there is none: "UNDECIDED", "FEW_ROUNDS", "UNSTEADY", "CONTROL_OFF", "WIDE".
    # Empty: of the baseline, or of a server that is newer than this package. An earlier server's "NO_DIFFERENCE" is
    # undecided.
    verdict: str


@dataclasses.dataclass(frozen=True)
class ClassAgreement:
    """Of a classifier with the baseline."""

    images: int
    same_top1: int  # images
    top5_overlap: float  # of the five best classes, mean over the images
    # From the baseline's classes, in nats, mean over the images; of sigmoids the mean of the classes' own.
    kl_divergence: float
    max_confidence_difference: float  # over all classes and images


@dataclasses.dataclass(frozen=True)
class ObjectAgreement:
    """Of a detector with the baseline."""

    baseline_objects: int
    objects: int
    matched: int  # of one class, overlapping by half or more
    mean_box_iou: float  # of those that match
    mean_mask_iou: float | None  # None: there are no masks
    mean_score_difference: float  # of those that match


@dataclasses.dataclass(frozen=True)
class MapAgreement:
    """Of a segmenter with the baseline."""

    same_pixels: float  # a share
    mean_iou: float  # over the classes that one of the two sees


@dataclasses.dataclass(frozen=True)
class BriefAnswer:
    """What stands first in the answer to an image."""

    # The best class, the surest object's, the one with most pixels; without labels its number. Empty: nothing was found.
    label: str
    confidence: float  # or score, or share of the pixels
    objects: int  # of detection: all that were found


@dataclasses.dataclass(frozen=True)
class ComparedVariant:
    model_name: str
    model_version: str
    backbone: str
    attention: str  # canonical text
    # The attention that the weights are served with, where it is another one: same weights, not fine-tuned. Else empty.
    weights_of_attention: str
    untrained: bool  # the weights are random numbers: what is found means nothing
    compute: ComparedTime
    postprocess_ms: Quartiles
    decode_ms: Quartiles  # of the images, prepared once for all variants of a model
    preprocess_ms: Quartiles
    # Of compute, what attention alone takes, without the projections around it; None: the model has no attention, or
    # what was measured contradicts compute, and attention_left_out says so.
    attention_ms: Quartiles | None
    attention_left_out: bool
    images_per_second: float
    peak_bytes: int  # of a batch's tensors, without the weights
    weight_bytes: int
    parameters: int
    multiply_adds: int  # of one image; 0: not counted
    agreement: ClassAgreement | ObjectAgreement | MapAgreement | None  # the baseline's
    # To the baseline's tokens behind the last block; None: of other shapes or weights.
    feature_cosine: float | None
    answers: list[BriefAnswer]  # to each image


@dataclasses.dataclass(frozen=True)
class ComparedImage:
    height: int
    width: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Of two to eight variants, the baseline first. A notebook shows it as a table."""

    id: str
    variants: list[ComparedVariant]
    control: ComparedTime  # the baseline once more: what identical models differ by
    rounds: int
    batch_size: int
    threads: int
    device: str
    images: list[ComparedImage]
    measured: Provenance | None  # None: of a server that does not say
    dataset: Report | None = (
        None  # of a data set, where one was given to Client.compare
    )

    def to_dict(self) -> dict[str, Any]:
        """As POST /v1/compare answers it: the proto's names; what is absent is left out.

        "dataset", where there is one, is as `fovea evaluate --json` prints it.
        """
        found: dict[str, Any] = without_none(
            dataclasses.asdict(dataclasses.replace(self, dataset=None))
        )
        if self.dataset is not None:
            found["dataset"] = self.dataset.to_dict()
        for variant, plain in zip(self.variants, found["variants"], strict=True):
            if variant.agreement is not None:
                plain[_AGREEMENTS[type(variant.agreement)]] = plain.pop("agreement")
        return found

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(with_named_infinity(self.to_dict()), indent=indent)

    @staticmethod
    def from_json(text: str) -> Comparison:
        """What to_json wrote, a server answered, or `fovea compare --json` printed, without a data set.

        ValueError: it is something else.
        """
        empty = comparison_pb2.Comparison()
        return comparison_of(message_in(text, empty, "comparison", holding="variants"))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each variant; numbers in nested fields are columns named FIELD_PART, such as compute_ms_median.

        What a variant does not have is missing (NaN). Figures of a data set are columns such as dataset_top_1,
        dataset_top_1_lower and dataset_top_1_difference. The columns have the names of `fovea compare --csv`. `attrs` has what
        all variants share besides where they were measured. ImportError: pandas is missing.
        """
        import pandas

        whole = self.to_dict()
        measured = tables.flat({"measured": whole.pop("measured", {})})
        rows = [tables.flat(variant) | measured for variant in whole.pop("variants")]
        whole.pop("dataset", None)
        if self.dataset is not None:
            for row, figures in zip(rows, self.dataset.rows(), strict=True):
                row |= {
                    "dataset_" + name.lower().replace(" ", "_").replace("-", "_"): value
                    for name, value in figures.items()
                }
        for row in rows:
            del row["answers"]  # a list for each image
        frame = pandas.DataFrame(rows)
        del whole["images"]
        frame.attrs.update(tables.flat(whole))
        return frame

    def __str__(self) -> str:
        return comparison_text.plain(self)

    def _repr_html_(self) -> str:
        return comparison_text.html(self)


_AGREEMENTS: dict[type, str] = {
    ClassAgreement: "classes",
    ObjectAgreement: "objects",
    MapAgreement: "maps",
}


def comparison_of(message: Any) -> Comparison:
    """message: the proto's Comparison."""
    return Comparison(
        id=message.id,
        variants=[_variant_of(one) for one in message.variants],
        control=_time_of(message.control),
        rounds=message.rounds,
        batch_size=message.batch_size,
        threads=message.threads,
        device=message.device,
        images=[ComparedImage(one.height, one.width) for one in message.images],
        measured=provenance_of(message),
    )


def _variant_of(message: Any) -> ComparedVariant:
    return ComparedVariant(
        model_name=message.model_name,
        model_version=message.model_version,
        backbone=message.backbone,
        attention=message.attention,
        weights_of_attention=message.weights_of_attention,
        untrained=message.untrained,
        compute=_time_of(message.compute),
        postprocess_ms=quartiles_of(message.postprocess_ms),
        decode_ms=quartiles_of(message.decode_ms),
        preprocess_ms=quartiles_of(message.preprocess_ms),
        attention_ms=quartiles_in(message, "attention_ms"),
        attention_left_out=message.attention_left_out,
        images_per_second=message.images_per_second,
        peak_bytes=message.peak_bytes,
        weight_bytes=message.weight_bytes,
        parameters=message.parameters,
        multiply_adds=message.multiply_adds,
        agreement=_agreement_of(message),
        feature_cosine=_optional(message, "feature_cosine"),
        answers=[
            BriefAnswer(one.label, one.confidence, one.objects)
            for one in message.answers
        ],
    )


def _time_of(message: Any) -> ComparedTime:
    # Of a server that is newer than this client the verdict may be one without a name.
    names = comparison_pb2.Verdict
    verdict = names.Name(message.verdict) if message.verdict in names.values() else ""
    return ComparedTime(
        ms=quartiles_of(message.ms),
        ratio=estimate_of(message, "ratio"),
        difference_ms=estimate_of(message, "difference_ms"),
        verdict="" if verdict == "VERDICT_UNSPECIFIED" else verdict,
    )


def _agreement_of(
    message: Any,
) -> ClassAgreement | ObjectAgreement | MapAgreement | None:
    kind = message.WhichOneof("agreement")
    if kind is None:
        return None
    found = getattr(message, kind)
    if kind == "classes":
        return ClassAgreement(
            found.images,
            found.same_top1,
            found.top5_overlap,
            found.kl_divergence,
            found.max_confidence_difference,
        )
    if kind == "maps":
        return MapAgreement(found.same_pixels, found.mean_iou)
    return ObjectAgreement(
        found.baseline_objects,
        found.objects,
        found.matched,
        found.mean_box_iou,
        _optional(found, "mean_mask_iou"),
        found.mean_score_difference,
    )


def _optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None
