"""Fixtures of the tests that talk to a running server as its users would."""

from __future__ import annotations

import collections
import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest
from running_server import DEMO, ROOT, Server

# Whose few tests take longest: they begin first, or they would begin when the other processes have nothing left to do.
LONG_FILES = (
    "tests/load/test_soak.py",
    "tests/load/test_memory.py",
    "tests/model_zoo/training/test_own_data.py",
    "tests/model_zoo/test_demo_scenes.py",
    "tests/model_zoo/test_parity_mask_rcnn.py",
    "tests/model_zoo/test_parity_mmdetection.py",
    "tests/deploy/dashboards/test_dashboards.py",
    "tests/model_zoo/training/comparison/test_train_families.py",
    "tests/model_zoo/training/test_resume.py",
    "tests/client/examples/test_demo.py",
    "tests/conformance/test_perf_analyzer.py",
    "tests/model_zoo/test_zoo_table.py",
    "tests/conformance/test_openapi.py",
    "tests/client/cli/test_documented_commands.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--containers",
        action="store_true",
        help="also run the tests marked containers (make test-deploy)",
    )
    parser.addoption(
        "--full", action="store_true", help="also run the tests marked full"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: too long for continuous integration")
    config.addinivalue_line("markers", "containers: need podman and a package")
    config.addinivalue_line(
        "markers",
        "harmed: a fault after which the server is not as before (tests/faults)",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    for marker in ("full", "containers"):
        if config.getoption(f"--{marker}"):
            continue
        chosen = [item for item in items if item.get_closest_marker(marker) is None]
        config.hook.pytest_deselected(
            items=[item for item in items if item not in chosen]
        )
        items[:] = chosen
    in_order(items)


def in_order(items: list[pytest.Item]) -> None:
    """LONG_FILES, then files by the number of their tests: as pytest-xdist hands them out with --no-loadscope-reorder."""
    missing = [name for name in LONG_FILES if not (ROOT / name).is_file()]
    assert not missing, f"LONG_FILES has {missing}, which are not there"
    first = {ROOT / name: place for place, name in enumerate(LONG_FILES)}
    tests = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (first.get(item.path, len(first)), -tests[item.path]))


@pytest.fixture
def start_server(tmp_path: pathlib.Path) -> Iterator[Callable[..., Server]]:
    """Starts servers that are gone after the test."""
    servers: list[Server] = []

    def start(*flags: str, **options) -> Server:
        servers.append(
            Server(tmp_path / f"server{len(servers)}.log", *flags, **options)
        )
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with the bundled models for all tests that only ask."""
    running = Server(
        tmp_path_factory.mktemp("server") / "server.log",
        *("--model-repository", str(DEMO), "--enable-experiments"),
    )
    yield running
    code = running.terminate()
    running.close()
    assert code == 0, f"the shared server ended with {code}"


@pytest.fixture
def one_model(tmp_path: pathlib.Path) -> pathlib.Path:
    """A repository with a copy of the model that the fault tests ask, alone: it starts quickly."""
    folder = tmp_path / "one_model"
    shutil.copytree(DEMO / "shapes", folder / "shapes")
    return folder


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the bundled models that a test may change."""
    copy = tmp_path / "models"
    shutil.copytree(DEMO, copy)
    return copy


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that takes tensors in the shared memory of its callers, with a model that refuses NaN."""
    folder = tmp_path_factory.mktemp("sharing")
    model = shutil.copytree(DEMO / "shapes", folder / "models" / "shapes")
    with (model / "model.textproto").open("a") as description:
        description.write("allow_non_finite: false\n")
    running = Server(
        folder / "server.log",
        *("--model-repository", str(folder / "models")),
        *("--model-control-mode", "explicit", "--load-model", "shapes"),
        "--allow-client-shm",
    )
    yield running
    code = running.terminate()
    running.close()
    assert code == 0
