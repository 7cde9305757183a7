"""Writes the dashboards that Grafana is provisioned with: write_dashboards.py [--check]

They are written by a program so that every panel has the same variables, units and words. `--check` writes nothing, and
exits 1 where a file is not as it would be written.
"""

from __future__ import annotations

import json
import pathlib
import sys

from attention_panels import attention_panels
from experiment_panels import experiment_panels
from frame import dashboard
from server_panels import server_panels

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"


def dashboards() -> dict[str, dict[str, object]]:
    return {
        "fovea-attention.json": dashboard(
            "fovea-attention",
            "Fovea / Attention",
            "What each attention costs: latency, throughput, memory and CPU-seconds, beside a baseline of your choice; and live comparisons of them.",
            [*attention_panels(), *experiment_panels()],
            models=True,
        ),
        "fovea-server.json": dashboard(
            "fovea-server",
            "Fovea / Server",
            "The servers themselves: state, requests, process, GPUs, scrapes.",
            server_panels(),
            models=False,
        ),
    }


def main(arguments: list[str]) -> int:
    changed = []
    for name, content in dashboards().items():
        file, text = (
            FOLDER / name,
            json.dumps(content, indent=1, ensure_ascii=False) + "\n",
        )
        if file.exists() and file.read_text() == text:
            continue
        changed.append(name)
        if "--check" not in arguments:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text)
    for name in changed:
        print(
            f"{name}: {'not as write_dashboards.py writes it' if '--check' in arguments else 'written'}"
        )
    return 1 if changed and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
