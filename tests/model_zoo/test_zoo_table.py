"""`fovea zoo`: parameters and multiply-adds, beside what the papers print."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Collection

import pytest
import torch
from larger_variants import LARGER

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("FOVEA_BUILD", "build/release")
torch.ops.load_library(str(BUILD / "lib" / "libfovea_models.so"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BUILD / "bin" / "fovea-zoo", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest) -> list[str]:
    """Those whose passes are counted here, in the registry's order."""
    all_names = [n for n in torch.ops.fovea_models.backbones() if n != "identity"]
    full = request.config.getoption("--full")
    return [name for name in all_names if full or name not in LARGER]


@pytest.fixture(scope="module")
def table(names: list[str], request: pytest.FixtureRequest) -> list[dict]:
    """Of these models; with --full none is named."""
    result = run("--json", *(() if request.config.getoption("--full") else names))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def rounds_to(value: float, printed: str) -> bool:
    digits = len(printed.partition(".")[2])
    return f"{value:.{digits}f}" == f"{float(printed):.{digits}f}"


def test_the_models_that_are_named_are_listed_and_all_where_none_is(
    table: list[dict], names: list[str]
) -> None:
    assert {row["backbone"] for row in table} == set(names)


def test_counts_round_to_the_papers_or_the_difference_is_explained(
    table: list[dict],
) -> None:
    check_printed(table)


def check_printed(table: list[dict]) -> None:
    printed = [row for row in table if "printed" in row]
    assert printed
    wrong = []
    for row in printed:
        paper = row["printed"]
        operations = row["multiply_adds"] * paper["operations_per_multiply_add"]
        for ours, theirs, explanation in (
            (row["parameters"] / 1e6, paper["parameters_m"], "parameters_differ"),
            (operations / 1e9, paper["operations_g"], "operations_differ"),
        ):
            same = not theirs or rounds_to(ours, theirs)
            # An explanation of a difference that is not there would be wrong too.
            if same == bool(paper[explanation]):
                wrong.append((row["backbone"], row["attention"], ours, theirs, paper))
    assert not wrong, "\n".join(map(str, wrong))


def test_the_documented_table_is_of_these_models(
    table: list[dict], names: list[str]
) -> None:
    check_documented(table, names)


def check_documented(table: list[dict], names: Collection[str] = ()) -> None:
    """docs/results/zoo.md has the rows of `table`, in its order and with its counts; of these models, where they are given."""
    columns = ["model", "attention", "pixels", "parameters, M", "multiply-adds, G"]
    if "head" in table[0]:
        columns.insert(2, "head")
    documented = []
    for block in (ROOT / "docs/results/zoo.md").read_text().split("\n\n"):
        lines = block.replace("\\|", "/").strip().splitlines()
        if not lines[0].startswith("| model"):
            continue
        header, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines
        )
        if ("head" in header) == ("head" in table[0]):
            places = [header.index(column) for column in columns]
            found = [[row[place] for place in places] for row in rows]
            documented += [row for row in found if not names or row[0] in names]
    assert documented == [
        [
            row["backbone"],
            row["attention"].replace("|", "/"),
            *([row["head"]] if "head" in row else []),
            pixels(row),
            f"{row['parameters'] / 1e6:.2f}",
            f"{row['multiply_adds'] / 1e9:.2f}",
        ]
        for row in table
    ]


def pixels(row: dict) -> str:
    height, width = row["image_height"], row["image_width"]
    return f"{height}" if height == width else f"{height}x{width}"


# Minutes: a pass of every detector at 800x1344. counted_model_test compares the parameters without.
@pytest.mark.full
def test_counts_with_heads_round_too_or_are_explained() -> None:
    result = run("--json", "--heads")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    check_printed(rows)
    check_documented(rows)
    assert {row["head"] for row in rows} == {
        *("retinanet", "mask_rcnn", "cascade_mask_rcnn"),
        *("semantic_fpn", "upernet"),
    }


def test_a_papers_segmenter_costs_what_its_layers_do() -> None:
    result = run("--json", "--heads", "--head", "semantic_fpn", "linglo_b0")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    check_printed([row])
    assert row["printed"]["source"] == "LinGlo, table 4"
    assert (row["image_height"], row["image_width"]) == (512, 512)
    assert row["multiply_adds"] == semantic_fpn_on_linglo_b0(512, 512)


def test_any_backbone_is_counted_with_any_head_at_any_size() -> None:
    result = run(
        *("--json", "--head", "semantic_fpn", "--image-size", "64x128", "linglo_b0")
    )
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["image_height"], row["image_width"]) == (64, 128)
    assert "printed" not in row
    assert row["multiply_adds"] == semantic_fpn_on_linglo_b0(64, 128)


def semantic_fpn_on_linglo_b0(height: int, width: int) -> int:
    """The head by hand, and the backbone without it as it is counted, less its classifier."""
    result = run("--json", "--image-size", f"{height}x{width}", "linglo_b0")
    assert result.returncode == 0, result.stderr
    (backbone,) = json.loads(result.stdout)
    channels = [row["channels"] for row in features("linglo_b0")]
    maps = [height * width // (16 * 4**i) for i in range(4)]  # pixels
    neck = sum(
        convolution(pixels, ins, 256, 1) + convolution(pixels, 256, 256, 3)
        for pixels, ins in zip(maps, channels, strict=True)
    )
    first = sum(convolution(pixels, 256, 128, 3) for pixels in maps)
    # Behind a doubling, one on the way from the third map and two from the fourth.
    others = sum(convolution(maps[i], 128, 128, 3) for i in (1, 2, 1))
    classifier = convolution(maps[0], 128, 150, 1)
    own_classifier = channels[-1] * 1000
    return (
        backbone["multiply_adds"] - own_classifier + neck + first + others + classifier
    )


def convolution(pixels: int, ins: int, outs: int, side: int) -> int:
    return pixels * ins * outs * side * side


def features(backbone: str) -> list[dict]:
    description = json.dumps({"backbone": backbone, "random_weights_seed": 0})
    model = torch.classes.fovea_models.Model(description, "cpu", False)
    return json.loads(model.facts())["features"]


def test_multiply_adds_are_those_that_fvcore_counts(table: list[dict]) -> None:
    """DeiT-Ti by hand: patches, 12 blocks of four projections and two products, the head."""
    (row, *_) = [row for row in table if row["backbone"] == "deit_tiny_patch16_224"]
    n, c = 197, 192
    patches = 196 * 3 * 16 * 16 * c
    block = n * (3 * c * c + c * c + 8 * c * c) + 2 * n * n * c
    assert row["multiply_adds"] == patches + 12 * block + c * 1000


def test_memory_is_measured_at_batch_1_and_16() -> None:
    result = run("--json", "--memory", "vit_demo_patch8_64")
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(result.stdout)
    tokens = 65 * 128 * 4  # bytes of the tokens of an image
    assert 2 * tokens < row["peak_bytes_1"] < 40 * tokens
    # What threads have of scratch does not grow.
    assert 16 * 2 * tokens < row["peak_bytes_16"] < 24 * row["peak_bytes_1"]
    assert row["peak_bytes_16"] > 2 * row["peak_bytes_1"]


def test_a_profile_tells_where_the_time_of_a_pass_goes() -> None:
    options = ("--profile", "--json", "--precision", "bf16", "--batch", "2")
    result = run(*options, "vit_demo_patch8_64")
    assert result.returncode == 0, result.stderr
    profile = json.loads(result.stdout)
    assert (profile["precision"], profile["batch"]) == ("bf16", 2)
    parts = profile["parts_ms"]
    linear = "linear layers and what is fused with them"
    assert {"attention", linear, "outside operators"} <= parts.keys()
    assert parts[linear] > parts.get("element-wise", 0)
    # Medians of the parts make about the median of the whole.
    assert sum(parts.values()) == pytest.approx(profile["watched_ms"], rel=0.3)
    assert 0 < profile["pass_ms"] and 0 < profile["parallel_efficiency"]
    refused = run("--profile")
    assert refused.returncode == 2 and "needs a MODEL" in refused.stderr
    for unread in (("--precision", "bf16"), ("--batch", "2")):
        refused = run(*unread, "vit_demo_patch8_64")
        assert refused.returncode == 2 and "what --profile runs" in refused.stderr


def test_any_attention_and_size_are_counted() -> None:
    """A linear attention's operations grow as the pixels do, dense attention's faster."""
    attentions = ("--attention", "dense", "--attention", "key_only")
    rows = {}
    for size in ("64", "128"):
        result = run("--json", *attentions, "--image-size", size, "vit_demo_patch8_64")
        assert result.returncode == 0, result.stderr
        for row in json.loads(result.stdout):
            assert row["image_height"] == row["image_width"] == int(size)
            assert "printed" not in row
            rows[row["attention"], size] = row["multiply_adds"]
    assert len(rows) == 4
    growth = {name: rows[name, "128"] / rows[name, "64"] for name, _ in rows}
    assert growth["key_only"] <= 4 < growth["dense"]


def test_the_papers_rows_are_left_out_where_another_attention_is_asked_for() -> None:
    result = run("--json", "--attention", "ska", "deit_tiny_patch16_224")
    assert result.returncode == 0, result.stderr
    assert [row["attention"] for row in json.loads(result.stdout)] == ["ska"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["resnet18"], "there is no backbone 'resnet18'; did you mean 'resnet50'?"),
        (
            ["--attention", "knn:k=9"],
            "--attention, --image-size and --head need a MODEL",
        ),
        (
            ["pit_b_224", "--image-size", "0"],
            "--image-size '0' is not a number of pixels",
        ),
        (["pit_b_224", "--attention"], "--attention needs a value"),
        (
            ["pit_b_224", "--image-size", "64x"],
            "--image-size '64x' is not a number of pixels",
        ),
        (
            ["pit_b_224", "--head", "classifier"],
            "there is no head 'classifier' of detection or segmentation",
        ),
        (
            ["--heads", "linglo_b0", "--image-size", "64"],
            "--heads counts what the papers have: without --attention and --image-size",
        ),
        (
            ["--heads", "--head", "upernet", "linglo_b0"],
            "no paper has such a detector or segmenter",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments: list[str], reason: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stderr == f"fovea-zoo: {reason}\n"
    assert not result.stdout


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_says_what_there_is(flag: str) -> None:
    for command in ([BUILD / "bin/fovea-zoo"], [BUILD / "bin/fovea", "zoo"]):
        result = subprocess.run(
            [*command, flag], check=True, capture_output=True, text=True
        )
        for option in (
            *("--memory", "--json", "--attention TEXT", "--image-size N|HxW"),
            *("--heads", "--head NAME"),
        ):
            assert option in result.stdout


def test_a_pair_that_does_not_load_is_refused_in_the_loaders_words() -> None:
    result = run("--attention", "aewin", "deit_tiny_patch16_224")
    assert result.returncode == 2
    assert "cannot stand in deit_tiny_patch16_224" in result.stderr
    assert not result.stdout
