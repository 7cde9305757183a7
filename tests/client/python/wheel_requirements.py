"""What a wheel says that it needs, against what its files import."""

from __future__ import annotations

import ast
import dataclasses
import email
import importlib.metadata
import pathlib
import sys
import zipfile
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclasses.dataclass(frozen=True)
class Needs:
    """Names as the package index has them."""

    always: frozenset[str]
    extras: frozenset[str]  # of what somebody installs besides

    def without(self, name: str) -> Needs:
        return Needs(self.always - {name}, self.extras - {name})


def declared(wheel: pathlib.Path) -> Needs:
    """Of its metadata (Requires-Dist)."""
    with zipfile.ZipFile(wheel) as file:
        (path,) = (
            name for name in file.namelist() if name.endswith(".dist-info/METADATA")
        )
        lines = email.message_from_bytes(file.read(path)).get_all("Requires-Dist", [])
    always, extras = set(), set()
    for requirement in map(Requirement, lines):
        of_an_extra = requirement.marker and "extra" in str(requirement.marker)
        (extras if of_an_extra else always).add(canonicalize_name(requirement.name))
    return Needs(frozenset(always), frozenset(extras))


def imported_modules(tree: ast.AST, later: bool = False) -> Iterator[tuple[str, bool]]:
    """The first names of what is imported; and whether that is not when the file is: in a function, or for type checkers
    alone."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import():
                for one in node.names:
                    yield one.name.partition(".")[0], later
            case ast.ImportFrom(level=0):
                yield str(node.module).partition(".")[0], later
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from imported_modules(node, True)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imported_modules(node, True)
            case _:
                yield from imported_modules(node, later)


def imported(wheel: pathlib.Path) -> dict[str, bool]:
    """The modules of others that its files import; and whether all of them do so later."""
    found: dict[str, bool] = {}
    with zipfile.ZipFile(wheel) as file:
        for name in file.namelist():
            if name.endswith(".py"):
                for module, later in imported_modules(ast.parse(file.read(name))):
                    found[module] = found.get(module, True) and later
    own = sys.stdlib_module_names | {"fovea"}
    return {module: later for module, later in found.items() if module not in own}


def disagreements(needs: Needs, modules: dict[str, bool]) -> list[str]:
    """In words: what is imported and not declared, and what is declared and not imported."""
    brought_by = importlib.metadata.packages_distributions()
    names = {
        module: {canonicalize_name(name) for name in brought_by.get(module, [module])}
        for module in modules
    }
    said = []
    for module, later in modules.items():
        known = needs.always | needs.extras if later else needs.always
        if not names[module] & known:
            said.append(f"{module} is imported, and nothing brings it")
    used = set().union(*names.values())
    said += [f"{one} is declared, and not imported" for one in needs.always - used]
    said += [f"{one} is an extra, and not imported" for one in needs.extras - used]
    said += [f"{one} is an extra and none" for one in needs.extras & needs.always]
    return sorted(said)
