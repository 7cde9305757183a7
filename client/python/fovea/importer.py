"""fovea-import: writes a model folder for fovea-server from a published model."""

import argparse
import sys
from pathlib import Path

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

_EPILOG = """\
examples:
  fovea-import timm:deit_tiny_patch16_224 --out models
  fovea-import timm:deit_tiny_patch16_224 --out models --random --seed 7
  fovea-import transformers:microsoft/cvt-13 --out models
  fovea-import transformers:./my-finetuned-vit --name mine --out models
  fovea-import timm:deit_tiny_patch16_224 --name deit_tiny_knn --attention knn:k=100

exit codes: 0 written, 1 the model cannot be had or written, 2 usage
"""


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.seed is not None and not options.random:
        return _usage("--seed goes with --random")
    if options.num_classes is not None and options.num_classes < 1:
        return _usage("--num-classes must be at least 1")

    # Late, because torch and timm take seconds to import and --help needs neither.
    from fovea import model_folder, published

    try:
        backbone, _ = published.resolve(options.model)
        name = options.name or backbone
        model_folder.check_name(name)
    except (published.UnknownModel, model_folder.FolderError) as error:
        return _usage(str(error))
    except published.PublishedError as error:
        return _failed(str(error))
    try:
        model_folder.check_absent(options.out / name)  # before anything is fetched
        if options.random:
            seed = options.seed or 0
            model = published.randomised(options.model, seed, options.num_classes)
            comments = [
                f"{options.model} with random weights (seed {seed}): the labels mean nothing."
            ]
        else:
            model = published.fetch(options.model, options.num_classes)
            comments = [f"{options.model} with its published weights."]
        spec = model_folder.ModelSpec(
            name=name,
            backbone=model.backbone,
            num_classes=model.num_classes,
            preprocessing=model.preprocessing,
            image_side=model.image_side,
            attention=options.attention,
            precision=options.precision.upper(),
            untrained=options.random,
            comments=comments,
        )
        folder = model_folder.write_model_folder(
            options.out, spec, model.weights, model.labels
        )
    except (published.PublishedError, model_folder.FolderError) as error:
        return _failed(str(error))
    print(f"wrote {folder} ({_summary(model.weights, options.random)})")
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fovea-import",
        description="Writes a model folder for fovea-server from a published model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model",
        metavar="SOURCE:NAME",
        help="a model of timm or of transformers that Fovea has as a backbone, or a folder of transformers'",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("models"),
        metavar="DIR",
        help="the model repository to write into (default: models)",
    )
    parser.add_argument(
        "--name", help="the model's name in the repository (default: the backbone's)"
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
        choices=("fp32", "bf16"),
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


def _summary(weights: dict, random: bool) -> str:
    parameters = sum(tensor.numel() for tensor in weights.values())
    mebibytes = (
        sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
        / 2**20
    )
    kind = "random weights" if random else "published weights"
    return f"{kind}, {parameters / 1e6:.1f} M parameters, {mebibytes:.1f} MiB"


def _failed(message: str) -> int:
    print(f"fovea-import: {message}", file=sys.stderr)
    return EXIT_FAILED


def _usage(message: str) -> int:
    print(f"fovea-import: {message}", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
