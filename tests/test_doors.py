"""Packages are entered through their doors, and no imports go round in circles."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

import solvable

ROOT = Path(next(iter(solvable.__path__)))


@dataclass(frozen=True)
class Module:
    """A module of ours, with what it imports."""

    name: str
    package: str
    tree: ast.Module

    def imports(self, *, within: bool) -> Iterator[tuple[int, str, str]]:
        """Lines, modules that are imported from, and names; `within` functions too.

        What is for the type checker alone is no import.
        """
        for node in _run(self.tree, within):
            match node:
                case ast.Import():
                    yield from ((node.lineno, alias.name, "") for alias in node.names)
                case ast.ImportFrom():
                    source = resolve_name("." * node.level + (node.module or ""), self.package)
                    yield from ((node.lineno, source, alias.name) for alias in node.names)


def _run(node: ast.AST, within: bool) -> Iterator[ast.AST]:
    """What runs when a module is imported, and `within` functions what they run later."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not within:
        return
    for child in ast.iter_child_nodes(node):
        typed = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not typed:
            yield from _run(child, within)


def read(root: Path) -> dict[str, Module]:
    """The modules under a package's folder, by name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        *folders, stem = path.relative_to(root.parent).with_suffix("").parts
        package = ".".join(folders)
        name = package if stem == "__init__" else f"{package}.{stem}"
        found[name] = Module(name, package, ast.parse(path.read_text(encoding="utf-8")))
    return found


@cache
def ours() -> dict[str, Module]:
    return read(ROOT)


def trespassers(modules: Mapping[str, Module]) -> list[str]:
    """Imports and uses of what is private in another package than the module's own."""
    return [
        f"{module.name}:{line} {full}"
        for module in modules.values()
        for line, full in _reached(module, modules)
        if (owner := _owner(full, modules)) is not None and owner != module.package
    ]


def _reached(module: Module, modules: Mapping[str, Module]) -> Iterator[tuple[int, str]]:
    """The dotted names that a module reaches for: what it imports, and attributes of modules."""
    bound = {}
    for line, source, name in module.imports(within=True):
        full = f"{source}.{name}" if name else source
        yield line, full
        if full in modules:
            bound[full.rpartition(".")[2]] = full
    for node in ast.walk(module.tree):
        match node:
            case ast.ImportFrom():
                source = resolve_name("." * node.level + (node.module or ""), module.package)
                for alias in node.names:
                    if f"{source}.{alias.name}" in modules and alias.asname:
                        bound[alias.asname] = f"{source}.{alias.name}"
            case ast.Attribute(value=ast.Name(id=name)) if name in bound:
                yield node.lineno, f"{bound[name]}.{node.attr}"


def _owner(full: str, modules: Mapping[str, Module]) -> str | None:
    """The package to which the first private part of a dotted name belongs; None without one."""
    parts = full.split(".")
    for place, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            holder = ".".join(parts[:place])
            return modules[holder].package if holder in modules else None
    return None


def circles(modules: Mapping[str, Module], *, within: bool) -> list[list[str]]:
    """The groups of modules that import each other, at their tops or `within` functions too."""
    edges = {
        module.name: {
            target
            for _, source, name in module.imports(within=within)
            for target in (f"{source}.{name}" if f"{source}.{name}" in modules else source,)
            if target in modules and target != module.name
        }
        for module in modules.values()
    }
    reach = {name: _after(name, edges) for name in edges}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in edges
        if name in reach[name]
    }
    return sorted(map(list, groups))


def _after(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """All that can be reached from a module."""
    found: set[str] = set()
    waiting = [*edges[start]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges[name]
    return found


def test_nothing_private_is_taken_from_another_package():
    assert trespassers(ours()) == []


def test_no_modules_import_each_other_at_their_tops():
    assert circles(ours(), within=False) == []


def test_no_modules_of_the_command_line_import_each_other_at_all():
    """Commands are found by name, in modules that none but completion, their printer, imports."""
    cli = {name: module for name, module in ours().items() if name.startswith("solvable.cli")}
    assert len(cli) > 20
    assert circles(cli, within=True) == []
    named = {"solvable.cli.commands", "solvable.cli.verbs"}
    for module in cli.values():
        if module.name not in {"solvable.cli", "solvable.cli.completion", *named}:
            assert not named & {
                full
                for _, source, name in module.imports(within=True)
                for full in (source, f"{source}.{name}")
            }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from .one._door import x", ["p.two:1 p.one._door.x"]),
        ("def f():\n    from p.one import _door", ["p.two:2 p.one._door"]),
        ("from .one import room as r\nr._hidden()", ["p.two:2 p.one.room._hidden"]),
        ("from .one.room import _hidden", ["p.two:1 p.one.room._hidden"]),
        ("import p.one._door", ["p.two:1 p.one._door"]),
        ("from ._beside import y\nfrom .one import z\nfrom os import _exit", []),
    ],
)
def test_a_trespasser_is_seen(tmp_path, text, found):
    modules = _package(tmp_path, {"one/_door": "", "one/room": "", "_beside": "", "two": text})
    assert trespassers(modules) == found


def test_a_circle_is_seen_at_the_top_and_within_functions(tmp_path):
    later = "def f():\n    from . import a\nif TYPE_CHECKING:\n    from .c import z"
    modules = _package(tmp_path, {"a": "from .b import x", "b": later, "c": "from .a import y"})
    assert circles(modules, within=False) == []
    assert circles(modules, within=True) == [["p.a", "p.b"]]
    modules = _package(tmp_path, {"b": "from . import c"})
    assert circles(modules, within=False) == [["p.a", "p.b", "p.c"]]


def _package(folder: Path, files: Mapping[str, str]) -> dict[str, Module]:
    for name, text in files.items():
        path = folder / "p" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    (folder / "p" / "__init__.py").touch()
    return read(folder / "p")
