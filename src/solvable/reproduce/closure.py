"""The code behind some functions: what they import, and what that imports, found in the source."""

import ast
import copy
import functools
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

_STOP = "solvable.reproduce"  # how it is stored, judged and shown changes no number
_PACKAGES = {"sklearn": "scikit-learn", "jax": "jax jaxlib"}


@dataclass
class Closure:
    """What numbers depend on.

    Attributes:
        code: a digest for every module of ours.
        versions: of every other package that these import, where it is installed.
    """

    code: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def closure(functions: Iterable[Callable[..., Any]], modules: Iterable[str] = ()) -> Closure:
    """Of the functions with what they name in their own package, and of whole modules.

    Modules beside a function's own count with those names only that the function leads to, so that
    a figure's picture and claims, which stand beside its data, are none of it; all others count
    whole. Imports within functions are seen; those by a computed name are not.
    """
    gathered = _Gathered()
    for function in functions:
        while isinstance(function, functools.partial):
            function = function.func
        gathered.home(function.__module__)
        gathered.name(function.__module__, function.__qualname__.partition(".")[0])
    for module in modules:
        gathered.whole(module)
    return gathered.closure()


class _Gathered:
    def __init__(self) -> None:
        self._homes: set[str] = set()  # packages whose modules count by name
        self._roots: set[str] = set()
        self._named: dict[str, dict[str, str]] = {}
        self._whole: set[str] = set()
        self._foreign: set[str] = set()

    def home(self, module: str) -> None:
        self._homes.add(module.rpartition(".")[0] or module)
        self._roots.add(module.partition(".")[0])

    def whole(self, module: str) -> None:
        """A module with everything that it imports anywhere."""
        self._roots.add(module.partition(".")[0])
        if module in self._whole or _stops(module):
            return
        self._whole.add(module)
        for target, name in _edges(module):
            self._reach(target, name)

    def name(self, module: str, name: str) -> None:
        """A name of a module, with all that it leads to."""
        tree = _tree(module)
        found = {} if tree is None else _defined(module)
        if name not in found:  # made by a loop, a star, or not at all: the safe answer
            self.whole(module)
            return
        seen = self._named.setdefault(module, {})
        if name in seen:
            return
        nodes = [_bare(node) for node in found[name]]
        seen[name] = "".join(ast.dump(node) for node in nodes)
        for node in nodes:
            for inner in _imports(ast.walk(node)):
                for target, what, bound in _targets(module, inner):
                    if inner is not node or bound == name:
                        self._reach(target, what)
            inside = set()  # names of modules beside this one, of which an attribute is taken
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    beside = self._module_beside(module, inner.value.id)
                    if beside:
                        inside.add(inner.value)
                        self.name(beside, inner.attr)
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n not in inside}
            for other in sorted(names & set(found) - {name}):
                self.name(module, other)

    def _module_beside(self, module: str, name: str) -> str:
        """The module of the same package that a name stands for, if it does."""
        for node in _imports(_defined(module).get(name, ())):
            for target, what, bound in _targets(module, node):
                found = f"{target}.{what}" if what else target
                if bound == name and self._beside(found) and _source(found) is not None:
                    return found
        return ""

    def _reach(self, target: str, name: str) -> None:
        """What is imported: a module, or a name of one."""
        if target.partition(".")[0] not in self._roots | {"solvable"}:
            self._foreign.add(target.partition(".")[0])
            return
        if _stops(target):
            return
        if name and _source(f"{target}.{name}") is not None:
            self.whole(f"{target}.{name}")
        elif name and self._beside(target):
            self.name(target, name)
        else:
            self.whole(target)

    def _beside(self, module: str) -> bool:
        return (module.rpartition(".")[0] or module) in self._homes

    def closure(self) -> Closure:
        code = {module: _digest(module) for module in sorted(self._whole) if _digest(module)}
        for module, names in sorted(self._named.items()):
            if module not in code:
                text = "\n".join(f"{name} {names[name]}" for name in sorted(names))
                code[module] = hashlib.sha256(text.encode()).hexdigest()[:16]
        versions = {}
        for package in sorted(self._foreign - set(sys.stdlib_module_names)):
            for distribution in _PACKAGES.get(package, package).split():
                try:
                    versions[distribution] = version(distribution)
                except PackageNotFoundError:
                    continue
        return Closure(code, versions)


def _stops(module: str) -> bool:
    return module == _STOP or module.startswith(f"{_STOP}.")


def _imports(nodes: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _targets(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """The modules that an import names, what it takes from each, and how that is called here."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, "", alias.asname or alias.name.partition(".")[0]
        return
    path = _source(module)
    inside = path is not None and path.name == "__init__.py"
    package = module if inside else module.rpartition(".")[0]
    target = resolve_name("." * node.level + (node.module or ""), package)
    for alias in node.names:
        yield target, "" if alias.name == "*" else alias.name, alias.asname or alias.name


def _bare(node: ast.stmt) -> ast.stmt:
    """A definition without decorators and docstring."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node
    bare = copy.copy(node)
    bare.decorator_list = []
    bare.body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return bare


@functools.cache
def _edges(module: str) -> tuple[tuple[str, str], ...]:
    """All that a module imports, wherever it does."""
    tree = _tree(module)
    nodes = _imports(ast.walk(tree)) if tree else ()
    found = ((target, name) for node in nodes for target, name, _ in _targets(module, node))
    return tuple(dict.fromkeys(found))


@functools.cache
def _digest(module: str) -> str:
    path = _source(module)
    return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def forget() -> None:
    """Read all source anew."""
    for known in (_edges, _digest, _defined, _tree, _source):
        known.cache_clear()


@functools.cache
def _defined(module: str) -> dict[str, list[ast.stmt]]:
    """The statements at the top of a module that bind each name."""
    tree = _tree(module)
    found: dict[str, list[ast.stmt]] = {}
    for node in tree.body if tree else ():
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Import():
                names = [(a.asname or a.name).partition(".")[0] for a in node.names]
            case ast.ImportFrom():
                names = [a.asname or a.name for a in node.names]
            case _:
                inner = ast.walk(node)
                names = [
                    n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                ]
        for name in names:
            found.setdefault(name, []).append(node)
    return found


@functools.cache
def _tree(module: str) -> ast.Module | None:
    path = _source(module)
    return None if path is None else ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _source(module: str) -> Path | None:
    """The file of a module; None where it is none, or is not written in Python."""
    loaded = sys.modules.get(module)
    origin = getattr(loaded, "__file__", None)
    if origin is None:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None
