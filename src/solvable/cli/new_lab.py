"""``solvable new-lab``: a package with a lab of one's own, to begin from."""

import importlib.util
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import tyro

from ..labs import names

# Templates by the file that each becomes; NAME stands for the lab's name.
_FILES: Mapping[str, str] = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "src/NAME/__init__.py": "init.py",
    "src/NAME/lab.py": "lab.py",
    "src/NAME/witnesses.py": "witnesses.py",
    "tests/test_NAME.py": "own_test.py",
}
_NAME = re.compile(r"[a-z](?:[a-z0-9_]*[a-z0-9])?")


@dataclass(frozen=True)
class NewLab:
    """Write a package with a small lab that works, whose parts are then replaced."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """of the lab and of its package: lower case letters, digits and _"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path(".")
    """the folder in which the folder NAME is made"""

    def run(self) -> int:
        """Write it, and say what comes next."""
        folder = self.out / checked(self.name)
        if folder.exists():
            raise ValueError(f"{folder} must not exist yet")
        for path, text in rendered(self.name).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        print(
            f"wrote {folder}: what to replace is said in src/{self.name}/lab.py and witnesses.py",
            f"  pip install -e {folder}",
            f"  solvable compare {self.name}",
            sep="\n",
        )
        return 0


def checked(name: str) -> str:
    """A name that a lab and its package can have, or a `ValueError`."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ValueError(f"name must be a Python name in lower case, such as my_lab, not {name!r}")
    if name in names():
        raise ValueError(f"name must be none of the labs {', '.join(names())}, not {name!r}")
    if importlib.util.find_spec(name) is not None:
        raise ValueError(f"name must not be that of an installed module: {name!r} is one")
    return name


def rendered(name: str) -> dict[str, str]:
    """Every file of the package, by its path."""
    templates = files("solvable") / "new_lab"

    def filled(text: str) -> str:
        return text.replace("YEAR", str(date.today().year)).replace("NAME", name)

    return {
        filled(path): filled((templates / f"{template}.txt").read_text(encoding="utf-8"))
        for path, template in _FILES.items()
    }
