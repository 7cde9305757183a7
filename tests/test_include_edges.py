"""The table of folders and what they may include, and that its check can fail."""

from __future__ import annotations

import pathlib
import subprocess

import include_edges
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

GOOD = {
    "ARCHITECTURE.md": "```edges\nbase: absl\nserver/core: base\nserver/api: base server/core\n```\n",
    "base/status.h": '#include "absl/status/status.h"\n',
    "server/core/tensor.h": '#include "base/status.h"\n#include <vector>\n',
    "server/api/call.cc": '#include "base/status.h"\n#include "server/core/tensor.h"\n',
}


def findings(folder: pathlib.Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return list(include_edges.findings(folder))


def test_our_own_includes_are_those_of_the_table():
    assert list(include_edges.findings(ROOT)) == []


def test_what_the_table_allows_is_no_finding(tmp_path):
    assert findings(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "base/status.h",
            '#include "absl/x.h"\n\n#include "server/core/tensor.h"\n',
            "base/status.h:3: base may not include server/core",
        ),
        (
            "server/core/clock.h",
            '#include "absl/time/time.h"\n',
            "server/core/clock.h:1: server/core may not include absl",
        ),
        (
            "server/new/thing.h",
            "#include <vector>\n",
            "server/new/thing.h:1: server/new has no line",
        ),
        (
            "server/core/tensor.h",
            "#include <vector>\n",
            "nothing uses server/core: base",
        ),
        (
            "base/status.h",
            '#include "absl/x.h"\n#include "server/core/tensor.h"\n',
            "circle: base -> server/core -> base",
        ),
        (
            "server/core/both.cc",
            '#include <spdlog/spdlog.h>\n#include "torch/torch.h"\n',
            "server/core/both.cc: includes spdlog and torch",
        ),
    ],
)
def test_what_it_does_not_allow_is_one(tmp_path, name, text, says):
    assert any(says in found for found in findings(tmp_path, GOOD | {name: text}))


def test_a_line_that_nothing_uses_is_a_finding(tmp_path):
    text = GOOD["ARCHITECTURE.md"].replace("base: absl\n", "base: absl\nserver/old:\n")
    assert any(
        "nothing uses server/old: " in found
        for found in findings(tmp_path, GOOD | {"ARCHITECTURE.md": text})
    )


def test_generated_headers_are_a_folder_of_the_table_too(tmp_path):
    text = '#include "proto/fovea/v1/vision.pb.h"\n'
    assert any(
        "server/core/wire.h:1: server/core may not include proto" in found
        for found in findings(tmp_path, GOOD | {"server/core/wire.h": text})
    )


def test_a_document_without_the_table_is_an_error(tmp_path):
    with pytest.raises(SystemExit, match="no block `edges`"):
        findings(tmp_path, GOOD | {"ARCHITECTURE.md": "# Architecture\n"})


def test_a_star_stands_for_the_folders_inside():
    assert include_edges.covers("kernels/attention/*", "kernels/attention/knn")
    assert not include_edges.covers("kernels/attention/*", "kernels/attention")
    assert not include_edges.covers("kernels/attention/*", "kernels/vision/nms")
