"""What every source of published models gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fovea.model_folder import Head, Preprocessing, VitSizes

HUB_TIMEOUT_S = 10


class UnknownModel(Exception):
    """Fovea has no such backbone; the message names those that it has."""


class PublishedError(Exception):
    """The model cannot be had; the message is one sentence for the user."""


@dataclass(frozen=True)
class PublishedModel:
    backbone: str  # Fovea's name of the architecture
    weights: dict[str, torch.Tensor]  # under the published names
    num_classes: int
    preprocessing: Preprocessing
    image_size: tuple[int, int] | None  # height, width; None: the usual one
    labels: list[str] | None  # by class index; None where the classes have no names
    head: Head | None = None  # None: the backbone's own classifier
    vit: VitSizes | None = None
    sigmoid: bool = False  # confidences are each class's own, and no shares
    # Of Swin: at sizes that windows do not divide, maps are rolled, then padded, as timm does.
    rolls_first: bool = False
    # What the source leaves open and was decided here, or what differs in Fovea; sentences for the user.
    notes: Sequence[str] = ()


def assumed_note(what: str) -> str:
    """A note of what weights alone do not say. `what`: the model whose layers are assumed."""
    return (
        f"Activations, pooling and the epsilon of norms are not in the weights: they are taken to be those of {what}. "
        "Confidences are shares of all classes, of one class its sigmoid; for several labels at once write "
        "classifier_activation: SIGMOID into model.textproto."
    )


def check_num_classes(name: str, wanted: int | None, published: int) -> None:
    """No head was trained but the published one."""
    if wanted is not None and wanted != published:
        raise PublishedError(
            f"the published {name} has {published} classes, not {wanted}: "
            "its head cannot be had in another size (--random makes any)"
        )


def not_fetched(hub_id: str, error: Exception) -> PublishedError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return PublishedError(
        f"the weights of {hub_id} could not be fetched ({lines[0]}): "
        "--random writes the model with random weights instead"
    )
