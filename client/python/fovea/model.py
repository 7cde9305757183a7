"""A model of a folder, in this process: what the server runs, for notebooks and training scripts.

    import fovea

    model = fovea.Model("model_zoo/demo/shapes", attention="knn:k=0.5")
    model.predict(["cat.jpg"])[0].labels        # as a server answers
    pixels = model.pixels(["cat.jpg"])          # what the model takes of the picture
    model(pixels)["logits"]
    model.features(pixels)["blocks.3"]          # the tokens that leave a block
    model.attention_maps(pixels)["blocks.3.attn"].weights
    model.measures(pixels)[3].nonlocality

    model = fovea.Model("model_zoo/demo/shapes", prepared=False)   # gradients flow, and its parameters are PyTorch's
    torch.nn.functional.cross_entropy(model(pixels)["logits"], classes).backward()

What is wrong with a folder, an attention or pixels is a RuntimeError or a ValueError with the sentence that the server logs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fovea import libraries, predictions
from fovea.model_input import ModelInput, Placement
from fovea.pictures import Picture, decoded, list_of
from fovea.results import Classification, Detections, Segmentation

Prediction: TypeAlias = Classification | Detections | Segmentation
Task: TypeAlias = Literal["CLASSIFICATION", "DETECTION", "SEGMENTATION"]


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMap:
    """How much each token of a layer attends each other."""

    weights: Tensor  # float32 [N, heads, tokens, tokens]; the tokens without a place come first
    grid: tuple[
        int, int
    ]  # height, width of the map that the other tokens spell, row by row
    prefix_tokens: int  # without a place: class, distillation


@dataclasses.dataclass(frozen=True, eq=False)
class LayerMeasures:
    """KVT's measures of a block (Wang et al., ECCV 2022, section 4.5), one number for each image: [N]."""

    layer: str
    cosine_similarity: Tensor  # between the tokens that leave it
    attention_norm_ratio: Tensor  # of the attention's branch to what it is added to
    mlp_norm_ratio: Tensor  # of the MLP's, likewise
    # None: it has no weights, but a convolution.
    attention_standard_deviation: Tensor | None
    nonlocality: Tensor | None  # [N, heads], in patches


class Model:
    """A version of a model's folder (docs/models/README.md), loaded.

    Prepared, as the server runs it: packed weights, every input size of its description, no gradients. Not prepared, as
    `fovea train` has it: on the CPU, in fp32, at its own input size, its parameters PyTorch's, gradients through every
    operator. Thread-safe where it is prepared.

    Wherever pixels are taken they are a batch, float32 [N, 3, height, width], normalised (uint8 [N, height, width, 3] where
    `input.takes_bytes`): PyTorch's or numpy's. `pixels` makes them of pictures.
    """

    name: str
    version: int
    backbone: str
    attention: str  # canonical text; empty: it has none
    task: Task
    labels: list[str]  # by class; empty: it has none
    num_classes: int
    num_parameters: int
    weight_bytes: int
    untrained: bool  # the weights are random numbers: what it finds means nothing
    prepared: bool
    input: ModelInput

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        version: int | None = None,
        attention: str | Sequence[str] | None = None,
        device: str | torch.device = "cpu",
        prepared: bool = True,
    ) -> None:
        """version: None: the newest that the folder's policy serves.

        attention: in place of the folder's, over its weights; one text, or one a stage. device: of a prepared model.
        RuntimeError: what the server would not load. ValueError: an attention that cannot stand in the backbone, or
        needs parameters that the weights lack, or a device other than the CPU for a model that is not prepared.
        ImportError: the libraries are not there (fovea.libraries).
        """
        if not isinstance(version, int | None):
            raise TypeError(f"version is a number or None, not {version!r}")
        _load_libraries()
        path = os.fspath(folder)
        on_disk = json.loads(torch.ops.fovea_models.describe(path, version))
        description = on_disk["description"]
        if attention is not None:
            one = isinstance(attention, str)
            description["attention"] = [attention] if one else list(attention)
        if not prepared and torch.device(device).type != "cpu":
            raise ValueError(
                f"a model that is not prepared runs on the CPU, not on {device}"
            )
        text = json.dumps(description)
        classes = torch.classes.fovea_models
        self._loaded: Any = (
            classes.Model(text, str(device), True)
            if prepared
            else classes.Trainable(text)
        )
        facts = json.loads(self._loaded.facts())
        if not prepared:
            facts["further_sizes"] = []
        preprocessing = torch.ops.fovea_models.preprocessing(
            path, json.dumps(facts["preprocessing"])
        )
        self.name = os.path.basename(os.path.realpath(path))
        self.version = on_disk["version"]
        self.backbone = facts["backbone"]
        self.attention = facts["attention"]
        self.task = description["task"]
        self.labels = on_disk["labels"]
        self._sigmoid = description["classifier_activation"] == "SIGMOID"
        self.num_classes = facts["num_classes"]
        self.num_parameters = facts["parameters"]
        self.weight_bytes = facts["weight_bytes"]
        self.untrained = on_disk["untrained"]
        self.prepared = prepared
        self.input = ModelInput.of_facts(json.loads(preprocessing), facts)
        self._outputs = [output["name"] for output in facts["outputs"]]

    def __repr__(self) -> str:
        return (
            f"<fovea.Model {self.name} version {self.version}: {self.backbone} with "
            f"{self.attention or 'no attention'}, {self.num_parameters:,} parameters>"
        )

    @overload
    def __call__(self, pixels: Tensor) -> dict[str, Tensor]: ...
    @overload
    def __call__(self, pixels: NDArray[Any]) -> dict[str, NDArray[Any]]: ...
    def __call__(self, pixels: Any) -> Any:
        """The outputs by name, of the pixels' library: a classifier's and a segmenter's are "logits"."""
        outputs = self._loaded.run(_tensor(pixels))
        named = dict(zip(self._outputs, map(_usable, outputs), strict=True))
        if isinstance(pixels, Tensor):
            return named
        return {name: output.detach().cpu().numpy() for name, output in named.items()}

    def predict(
        self,
        pictures: Iterable[Picture],
        *,
        top_k: int = 5,
        score_threshold: float = 0,
        confidence: bool = False,
    ) -> list[Prediction]:
        """What the pictures show, as a server answers it; a detector's masks aside, which `self(pixels)` has as tensors.

        top_k: of a classifier; score_threshold: of a detector; confidence: of a segmenter, as fovea.client's.
        """
        found: list[Prediction] = []
        for picture in list_of(pictures):
            pixels, place = self._prepare(picture)
            with torch.no_grad():
                outputs = self._run_picture(pixels, place)
            if self.task == "DETECTION":
                found.append(
                    predictions.detections(
                        outputs, 0, self.labels, place, score_threshold
                    )
                )
            elif self.task == "SEGMENTATION":
                found.append(
                    predictions.class_map(
                        outputs["logits"][0], self.labels, place, confidence
                    )
                )
            else:
                found.append(
                    predictions.top_classes(
                        outputs["logits"][0], self.labels, top_k, self._sigmoid
                    )
                )
        return found

    def pixels(self, pictures: Iterable[Picture]) -> Tensor:
        """What the model takes of the pictures, as one batch. ValueError: they go to different input sizes."""
        prepared = [self._prepare(picture) for picture in list_of(pictures)]
        sizes = {place.input for _, place in prepared}
        if len(sizes) > 1:
            raise ValueError(
                f"the model sees these pictures at different sizes ({sorted(sizes)}): take them one by one"
            )
        return torch.from_numpy(np.stack([pixels for pixels, _ in prepared]))

    def features(self, pixels: Tensor | NDArray[Any]) -> dict[str, Tensor]:
        """What leaves each block, by its name, first to last: float32, tokens [N, tokens, channels] mostly."""
        records = self._loaded.records(_tensor(pixels))
        parts = (".attn.output", ".mlp.output")
        return {
            name.removesuffix(".output"): _usable(tensor)
            for name, tensor in records.items()
            if name.endswith(".output") and not name.endswith(parts)
        }

    def pyramid(self, pixels: Tensor | NDArray[Any]) -> list[Tensor]:
        """The maps that detectors and segmenters stand on, finest first: float32 [N, channels, height, width]."""
        return [_usable(one) for one in self._loaded.features(_tensor(pixels))]

    def attention_maps(self, pixels: Tensor | NDArray[Any]) -> dict[str, AttentionMap]:
        """Of each attention that has weights, by its name, from the operators' references: tokens x tokens of memory."""
        maps = self._loaded.maps(_tensor(pixels))
        found = {}
        for name, weights in maps.items():
            if name.endswith(".grid"):
                continue
            height, width, prefix = maps[f"{name}.grid"].tolist()
            found[name] = AttentionMap(_usable(weights), (height, width), prefix)
        return found

    def measures(self, pixels: Tensor | NDArray[Any]) -> list[LayerMeasures]:
        """Of each block, first to last."""
        by_layer: dict[str, dict[str, Tensor | None]] = {}
        for name, value in self._loaded.measures(_tensor(pixels)).items():
            layer, _, measure = name.rpartition(".")
            by_layer.setdefault(layer, {})[measure] = _usable(value)
        missing: dict[str, Any] = {
            "attention_standard_deviation": None,
            "nonlocality": None,
        }
        return [LayerMeasures(layer, **missing | of) for layer, of in by_layer.items()]

    def parameters(self) -> dict[str, Tensor]:
        """By their published names; the model's own, so that what is written there the next pass reads, for example by an
        optimizer of PyTorch's: torch.optim.AdamW(model.parameters().values()). ValueError: the model is prepared."""
        return dict(self._trainable("parameters").parameters())

    def buffers(self) -> dict[str, Tensor]:
        """The running statistics of batch norms, by name. ValueError: the model is prepared."""
        return dict(self._trainable("buffers").buffers())

    def train(self, mode: bool = True) -> Model:
        """Lets batch norms follow the batches, or not any more. ValueError: the model is prepared."""
        self._trainable("training").train(mode)
        return self

    def eval(self) -> Model:
        return self.train(False)

    def _trainable(self, what: str) -> Any:
        if self.prepared:
            raise ValueError(
                f"{self.name} is prepared, its weights are packed: for its {what} load it with prepared=False"
            )
        return self._loaded

    def _prepare(self, picture: Picture) -> tuple[NDArray[Any], Placement]:
        found = decoded(picture, self.input.halvings)
        place = self.input.place(*found.size)
        return self.input.pixels(found.image, place, found.box), place

    def _run_picture(
        self, pixels: NDArray[Any], place: Placement
    ) -> dict[str, NDArray[Any]]:
        batch = torch.from_numpy(pixels)[None]
        outputs = self._loaded.run_pictures(batch, [list(place.shown)])
        arrays = [output.detach().cpu().numpy() for output in outputs]
        return dict(zip(self._outputs, arrays, strict=True))


@functools.cache
def _load_libraries() -> None:
    libraries.load("fovea_kernels")
    libraries.load("fovea_models")
    if not hasattr(torch.ops.fovea_models, "describe"):
        path = libraries.path_of("fovea_models")
        raise ImportError(
            f"{path} reads no model folders: it was built without the server"
        )


def _tensor(pixels: Tensor | NDArray[Any]) -> Tensor:
    if isinstance(pixels, Tensor):
        return pixels
    if not isinstance(pixels, np.ndarray):
        raise TypeError(
            f"pixels are a tensor of PyTorch's or numpy's, not {type(pixels).__name__}"
        )
    return torch.from_numpy(np.ascontiguousarray(pixels))


def _usable(tensor: Tensor) -> Tensor:
    """A prepared model's tensors may not be saved for a gradient; a copy may."""
    return tensor.clone() if tensor.is_inference() else tensor
