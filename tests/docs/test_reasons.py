"""Every reason that the code gives stands in the list of docs/faults.md, and no other."""

from __future__ import annotations

import re

from documents import ROOT

# What else is written so in the code: attributes of spans, properties, files.
NOT_REASONS = re.compile(
    r"(fovea|host|network|process|rpc|service|url)\..*|error\.type|http\.(re|ro).*"
    r"|.*\.(csv|html|jpg|json|png|pt|safetensors|so|textproto|txt)"
)
REASON = re.compile(r'"([a-z][a-z_]*\.[a-z][a-z_]*)"')


def given() -> set[str]:
    found: set[str] = set()
    for folder in ("base", "server", "model_zoo/folder"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".cc", ".h", ".cu"):
                found |= set(REASON.findall(file.read_text()))
    return {
        one
        for one in found
        if one.startswith("request.") or not NOT_REASONS.fullmatch(one)
    }


def listed() -> list[str]:
    text = (ROOT / "docs/faults.md").read_text().partition("\n## Reasons\n")[2]
    rows = re.findall(r"^\| (`.*?`) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert all(len(means) > 10 and len(do) > 4 for _, means, do in rows)
    return [reason for names, _, _ in rows for reason in re.findall(r"`(.*?)`", names)]


def test_each_reason_is_listed_with_what_it_means_and_what_to_do() -> None:
    assert len(given()) > 200
    assert len(listed()) == len(set(listed()))
    assert set(listed()) == given()
