"""fovea-import: writes a model folder for fovea-server from a published model, or from weights of one's own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fovea.published.checkpoint import Weights
    from fovea.published.model import PublishedModel

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

_EPILOG = """\
examples:
  fovea-import timm:deit_tiny_patch16_224 --out models
  fovea-import timm:deit_tiny_patch16_224 --out models --random --seed 7
  fovea-import transformers:microsoft/cvt-13 --out models
  fovea-import transformers:./my-finetuned-vit --name mine --out models
  fovea-import timm:deit_tiny_patch16_224 --name deit_tiny_knn --attention knn:k=100
  fovea-import torchvision:maskrcnn_resnet50_fpn_v2 --out models
  fovea-import torchvision:./my.pth --as retinanet_resnet50_fpn_v2 --labels labels.txt --name mine
  fovea-import file:model_best.pth.tar --as vit_small_patch16_224 --labels labels.txt --name mine
  fovea-import file:my.safetensors --as vit --heads 5 --name mine

exit codes: 0 written, 1 the model cannot be had or written, 2 usage
"""


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.seed is not None and not options.random:
        return _usage("--seed goes with --random")
    if options.num_classes is not None and options.num_classes < 1:
        return _usage("--num-classes must be at least 1")
    if options.heads is not None and options.architecture != "vit":
        return _usage("--heads goes with --as vit")
    if options.image_size is not None and options.architecture is None:
        return _usage("--image-size goes with --as")

    # Late, because torch and timm take seconds to import and --help needs neither.
    try:
        from fovea import model_folder, published
        from fovea.published import files
    except ModuleNotFoundError as error:
        return _failed(f"{error}: pip install './client/python' brings what is missing")

    own_file = files.path_of(options.model)
    is_own = own_file is not None
    if own_file is not None and options.architecture is None:
        return _usage(f"{own_file} does not say what it is: --as ARCHITECTURE does")
    if own_file is None and options.architecture is not None:
        return _usage("--as goes with file:PATH or torchvision:PATH")
    if own_file is not None and (options.random or options.num_classes is not None):
        return _usage(
            "a file has its weights and classes: --random and --num-classes do not go with it"
        )
    try:
        if own_file is not None:
            files.check_architecture(options.model, options.architecture)
            architecture = options.architecture
        else:
            architecture, _ = published.resolve(options.model)
            is_own = published.is_own(options.model)
        name = options.name or architecture
        model_folder.check_name(name)
    except (published.UnknownModel, model_folder.FolderError) as error:
        return _usage(str(error))
    except published.PublishedError as error:
        return _failed(str(error))
    try:
        model_folder.check_absent(options.out / name)  # before anything is fetched
        if own_file is not None:
            model = files.read(
                options.model, options.architecture, options.image_size, options.heads
            )
            comments = [f"{own_file} as {options.architecture}."]
        elif options.random:
            seed = options.seed or 0
            model = published.randomised(options.model, seed, options.num_classes)
            comments = [
                f"{options.model} with random weights (seed {seed}): the labels mean nothing."
            ]
        else:
            model = published.fetch(options.model, options.num_classes)
            whose = "its own" if is_own else "its published"
            comments = [f"{options.model} with {whose} weights."]
        labels = _labels(options.labels, model) if options.labels else model.labels
        spec = model_folder.ModelSpec(
            name=name,
            backbone=model.backbone,
            num_classes=model.num_classes,
            preprocessing=model.preprocessing,
            image_size=model.image_size,
            head=model.head,
            vit=model.vit,
            sigmoid=model.sigmoid,
            rolls_first=model.rolls_first,
            attention=options.attention,
            precision=options.precision.upper(),
            untrained=options.random,
            comments=[*comments, *model.notes],
        )
        folder = model_folder.write_model_folder(
            options.out, spec, model.weights, labels
        )
    except (published.PublishedError, model_folder.FolderError) as error:
        return _failed(str(error))
    for note in model.notes:
        print(f"note: {note}")
    if labels is None and model.num_classes > 0:
        print("note: The classes have no names: labels.txt was not written.")
    kind = "random" if options.random else "your" if is_own else "published"
    print(f"wrote {folder} ({_summary(model.weights, kind)})")
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fovea-import",
        description="Writes a model folder for fovea-server from a published model, or from weights of yours.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model",
        metavar="SOURCE:NAME",
        help="a model of timm, torchvision or transformers that Fovea has, a folder of transformers', or a file of "
        "yours: file:PATH or torchvision:PATH",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="the model repository to write into (default: models)",
    )
    parser.add_argument(
        "--name",
        help="the model's name in the repository (default: the architecture's)",
    )
    parser.add_argument(
        "--as",
        dest="architecture",
        metavar="ARCHITECTURE",
        help="what a file holds: a name of timm's or torchvision's, or vit for a vision transformer of any size",
    )
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="the classes' names, one a line, in place of the published ones",
    )
    parser.add_argument(
        "--image-size",
        type=_image_size,
        metavar="N|HxW",
        help="of a file: the pixels that the model takes (default: what its positions are of)",
    )
    parser.add_argument(
        "--heads",
        type=_positive,
        metavar="N",
        help="of a file, with --as vit: heads of a block (default: width / 64)",
    )
    parser.add_argument(
        "--attention",
        action="append",
        default=[],
        metavar="TEXT",
        help="attention instead of the published one, for example knn:k=100; once, or once a stage",
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16", "int8"),
        default="fp32",
        help="what the server computes in (default: fp32)",
    )
    parser.add_argument(
        "--num-classes",
        type=int,
        metavar="N",
        help="classes of the head; other than the published number only with --random",
    )
    parser.add_argument(
        "--random",
        action="store_true",
        help="random weights: nothing is fetched, labels mean nothing",
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", help="of the random weights (default: 0)"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _image_size(text: str) -> tuple[int, int]:
    sides = [_positive(side) for side in text.split("x")]
    if len(sides) > 2:
        raise argparse.ArgumentTypeError(f"{text!r} is neither N nor HxW")
    return sides[0], sides[-1]


def _summary(weights: Weights, kind: str) -> str:
    parameters = sum(tensor.numel() for tensor in weights.values())
    mebibytes = (
        sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
        / 2**20
    )
    return f"{kind} weights, {parameters / 1e6:.1f} M parameters, {mebibytes:.1f} MiB"


def _labels(file: Path, model: PublishedModel) -> list[str]:
    """As many as the model has classes. Torchvision's background may be left out, where it is one of them."""
    from fovea.published.model import PublishedError
    from fovea.published.torchvision_models import BACKGROUND

    try:
        # With or without the mark that Windows' editors begin files with.
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PublishedError(f"{file} cannot be read: {error}") from error
    labels = [line.removesuffix("\r") for line in lines]
    while labels and not labels[-1].strip():
        labels.pop()
    empty = [number for number, label in enumerate(labels, 1) if not label.strip()]
    if empty:
        raise PublishedError(f"{file}: line {empty[0]} is empty")
    # torchvision counts it among RetinaNet's classes, too, though none is trained for it.
    has_background = model.head is not None and model.head.task == "DETECTION"
    if has_background and len(labels) == model.num_classes - 1:
        return [BACKGROUND, *labels]
    if len(labels) != model.num_classes:
        background = ", the background among them" if has_background else ""
        raise PublishedError(
            f"{file} has {len(labels)} lines, and the model has {model.num_classes} classes{background}"
        )
    return labels


def _failed(message: str) -> int:
    print(f"fovea-import: {message}", file=sys.stderr)
    return EXIT_FAILED


def _usage(message: str) -> int:
    print(f"fovea-import: {message}", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
