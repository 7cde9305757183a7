"""fovea-evaluate: the command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fovea.client import Variant

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

_EPILOG = """\
Data sets, told apart by what is in the folder (docs/measuring/datasets.md):
{layouts}

examples:
  fovea evaluate --model shapes --dataset pictures/
  fovea evaluate --model dense --model knn --dataset coco/ --json > figures.json
  fovea evaluate --model shapes --attention dense --attention knn:k=9 --dataset pictures/
  fovea evaluate --model finder --dataset annotations/instances_val2017.json --images val2017 --limit 500

exit codes: 0 ok, 1 a picture or a model failed, 2 usage, or a data set that does not fit, 3 the server cannot be reached,
130 interrupted
"""


def main(arguments: list[str] | None = None) -> int:
    # Late, because --help needs none of it.
    from fovea.evaluation.datasets import LAYOUTS

    options = _parser(LAYOUTS).parse_args(arguments)
    try:
        return _evaluate(options)
    except KeyboardInterrupt:
        return _say("interrupted", EXIT_INTERRUPTED)


def _evaluate(options: argparse.Namespace) -> int:
    from fovea import client
    from fovea.evaluation.datasets import DatasetError, open_dataset, spread
    from fovea.evaluation.variants import models_of, served

    try:
        dataset = open_dataset(
            options.dataset, task=options.task or "", images=options.images
        )
        server = client.Client(
            options.server,
            timeout=options.timeout,
            tls_ca=options.tls_ca,
            tls_certificate=options.tls_cert,
            tls_key=options.tls_key,
            api_key=options.api_key,
        )
    except (DatasetError, ValueError, OSError) as error:
        return _say(str(error), EXIT_USAGE)
    places = spread(len(dataset.pictures), options.limit)
    variants = models_of(options.model, options.attention)
    with server, contextlib.ExitStack() as meanwhile:
        try:
            models = meanwhile.enter_context(served(server, variants))
        except client.Unreachable as error:
            return _say(error.message, EXIT_UNREACHABLE)
        except client.Error as error:
            return _say(error.message, EXIT_FAILED)
        return _measure(options, server, dataset, models, places)


def _measure(
    options: argparse.Namespace, server: Any, dataset: Any, models: Any, places: Any
) -> int:
    from fovea import client
    from fovea.evaluation import report
    from fovea.evaluation.datasets import DatasetError
    from fovea.evaluation.measure_of_task import measure_of
    from fovea.evaluation.provenance import provenance
    from fovea.evaluation.run import Interrupted, run, with_costs

    measured, unfinished, code = [], "", EXIT_OK
    began = provenance()
    try:
        measures = [
            (model, measure_of(dataset, model, options.by_number)) for model in models
        ]
        # All of them before the first is measured, which may take hours.
        for model, measure in measures:
            measure.prepare(server, (dataset.pictures[place] for place in places))
    except client.Unreachable as error:
        return _say(error.message, EXIT_UNREACHABLE)
    except client.Error as error:
        task = (
            f" (the data set is for {dataset.task})"
            if error.code == "FAILED_PRECONDITION"
            else ""
        )
        return _say(f"model {model}: {error.message}{task}", EXIT_FAILED)
    except DatasetError as error:
        return _say(str(error), EXIT_USAGE)
    # Whatever ends this, the models before it have been measured, and their figures are printed.
    try:
        for model, measure in measures:
            unfinished = str(model)
            outcome = run(
                server, model, measure, dataset.pictures, places, options.concurrency
            )
            measured.append((outcome, measure))
        unfinished = ""
    except client.Unreachable as error:
        code = _say(f"{error.message}; {unfinished} has no figures", EXIT_UNREACHABLE)
    except DatasetError as error:
        code = _say(str(error), EXIT_USAGE)
    except Interrupted as interruption:
        code = _say(
            f"interrupted: {unfinished} has answered {interruption.answered} of {len(places)} pictures, "
            "and has no figures",
            EXIT_INTERRUPTED,
        )
    outcomes, without_costs = [outcome for outcome, _ in measured], ""
    if not unfinished:
        asked = (dataset.pictures[place] for place in places)
        try:
            outcomes = with_costs(
                server, measured, asked, options.concurrency, options.rounds
            )
        except client.Unreachable as error:
            without_costs, code = error.message, EXIT_UNREACHABLE
        except client.Error as error:
            without_costs, code = error.message, EXIT_FAILED
        except OSError as error:
            without_costs, code = str(error), EXIT_FAILED
        except KeyboardInterrupt:
            without_costs, code = "interrupted", EXIT_INTERRUPTED
        if without_costs:
            _say(f"{without_costs}; costs were not measured", code)
    found = report.Report(
        str(options.dataset),
        dataset.task,
        len(places),
        options.concurrency,
        outcomes,
        unfinished,
        began,
        _command(),
        without_costs,
    )
    if options.json:
        sys.stdout.write(report.as_json(found))
    elif options.csv:
        sys.stdout.write(report.as_csv(found))
    elif outcomes:
        sys.stdout.write(report.table(found))
    if code != EXIT_OK:
        return code
    return EXIT_FAILED if any(outcome.failures for outcome in outcomes) else EXIT_OK


def _parser(layouts: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fovea-evaluate",
        description="Measures how well models of a running server answer a data set of yours: accuracy, COCO's average "
        "precision of boxes and masks, or mIoU, beside what that costs.",
        epilog=_EPILOG.format(layouts=layouts),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("-m", "--model"),
        type=_model,
        action="append",
        required=True,
        metavar="MODEL",
        help="NAME or NAME/VERSION; repeat it to compare several with the first",
    )
    parser.add_argument(
        *("-a", "--attention"),
        action="append",
        default=[],
        metavar="TEXT",
        help="run over the models' weights in place of their own, for example knn:k=100; repeat it to compare several. Of one, "
        "each model as it is comes first. The server has to be started with --enable-experiments",
    )
    parser.add_argument(
        *("-d", "--dataset"),
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="a folder, or an annotation file of COCO's format",
    )
    parser.add_argument(
        *("-s", "--server"),
        type=_Given("FOVEA_SERVER"),
        default=os.environ.get("FOVEA_SERVER", "127.0.0.1:8001"),
        metavar="HOST:PORT",
        help="the server's gRPC address (default: %(default)s; environment: FOVEA_SERVER)",
    )
    for flag, value, text in (
        (
            "--tls-ca",
            "FILE",
            "encrypt the connection: the issuers of the server's certificate, a PEM file",
        ),
        (
            "--tls-cert",
            "FILE",
            "a certificate to show to servers that ask for one, a PEM file",
        ),
        ("--tls-key", "FILE", "its key, a PEM file"),
        (
            "--api-key",
            "KEY",
            "a key for servers that want one; others on this machine see the flag, and not the variable",
        ),
    ):
        variable = "FOVEA_" + flag[2:].upper().replace("-", "_")
        parser.add_argument(
            flag,
            type=_Given(variable),
            default=os.environ.get(variable),
            metavar=value,
            help=f"{text} (environment: {variable})",
        )
    parser.add_argument(
        "--task",
        choices=("classification", "detection", "segmentation"),
        help="take the folder for a data set of this task (default: told from what is in it)",
    )
    parser.add_argument(
        "--images",
        type=pathlib.Path,
        metavar="DIR",
        help="where the pictures of COCO's annotations are (default: images/ beside the annotations or above them)",
    )
    parser.add_argument(
        "--by-number",
        action="store_true",
        help="match the classes of data set and model by number, though the model has labels",
    )
    parser.add_argument(
        "--limit",
        type=_at_least_one,
        metavar="N",
        help="ask about N pictures, evenly spread over the data set",
    )
    parser.add_argument(
        "--concurrency",
        type=_at_least_one,
        default=16,
        metavar="N",
        help="requests on their way at a time; the server batches them (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=_count,
        default=30,
        metavar="N",
        help="rounds, at most, in which the models are asked in turn to measure what they cost; 0: none (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=30.0,
        metavar="TIME",
        help="deadline of each request: seconds, or 500ms, 2m (default: 30s)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print JSON instead of tables"
    )
    form.add_argument(
        "--csv",
        action="store_true",
        help="print CSV instead of tables: a figure a line",
    )
    return parser


def _command() -> str:
    """As it was typed, for a shell. An API key in it is "..."."""
    words, hide = ["fovea-evaluate"], False
    for word in sys.argv[1:]:
        flag, equals, _ = word.partition("=")
        # argparse takes a flag's beginning for it.
        is_key = flag.startswith("--a") and "--api-key".startswith(flag)
        words.append("..." if hide else flag + "=..." if is_key and equals else word)
        hide = is_key and not equals
    return shlex.join(words)


def _model(text: str) -> Variant:
    from fovea.client import Variant

    name, slash, version = text.partition("/")
    if not name or "/" in version or (slash and not version):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no model: write NAME or NAME/VERSION"
        )
    return Variant(name, version)


class _Given:
    """Text that is not empty: what somebody left out would mean no encryption, or no key."""

    def __init__(self, variable: str) -> None:
        self._variable = variable

    def __call__(self, text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(
                f"is empty; leave it out, and {self._variable} unset, where there is none"
            )
        return text


def _at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _at_least_one(text)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)(ms|s|m|h)?", text)
    seconds = (
        float(match[1]) * {"ms": 1e-3, None: 1, "s": 1, "m": 60, "h": 3600}[match[2]]
        if match
        else 0
    )
    if seconds <= 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no timeout: write seconds, or 500ms, 1.5s, 2m"
        )
    return seconds


def _say(sentence: str, exit_code: int) -> int:
    from fovea.evaluation.measure import printable

    lines = "\n".join(map(printable, sentence.splitlines()))
    print(f"fovea-evaluate: {lines}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
