"""Packages with labs, put where Python finds them as if they were installed."""

import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "add-a-model.md"
_BLOCK = re.compile(r"(?:^`([\w./-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str, page: Path = PAGE) -> list[str]:
    """The code blocks of one kind that are no files."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for path, word, text in found if not path and word == kind]


def saxe_files(extended: bool = False) -> dict[str, str]:
    """The files that the page shows; with what it says of figures and laws, where wished."""
    found = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    files = {path: text for path, _, text in found if path}
    if not extended:
        own = ("pyproject.toml", "src/saxe/lab.py", "src/saxe/witnesses.py")
        return {path: files[path] for path in own}
    opening = "LAB = Lab(\n    ...,\n"
    more = [b.removeprefix(opening) for b in blocks("python") if b.startswith(opening)]
    assert len(more) == 2
    lab = files["src/saxe/lab.py"].removesuffix(")\n") + "".join(
        part.removesuffix(")\n") for part in more
    )
    lab = lab.replace("import Witness\n", "import LabLaw, Witness\n") + ")\n"
    return {**files, "src/saxe/lab.py": lab}


@contextmanager
def installed(files: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """A package of these files, found by this process and its children through its entry point."""
    project = tomllib.loads(files["pyproject.toml"])["project"]
    name, site = project["name"], folder / "src"
    for path, text in {f"src/{name}/__init__.py": "", **files}.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    info = site / f"{name}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["solvable.labs"]
    lines = [f"{word} = {value}" for word, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[solvable.labs]", *lines, ""]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        yield site
    for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        del sys.modules[module]
