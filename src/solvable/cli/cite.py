"""``solvable cite``: BibTeX of what was used."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from .. import __version__
from ..labs import lab, names
from ..papers import PAPERS, SOLVABLE_KEY, Paper, solvable_bibtex
from .arguments import Flag
from .screen import print_json


@dataclass(frozen=True)
class Cite:
    """Print BibTeX of Solvable and of the labs' papers."""

    targets: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[TARGET ...]", help_behavior_hint=""),
    ] = ()
    """labs whose papers to cite; all of them unless given"""
    json: Flag = False
    """print one JSON document with the entries instead of BibTeX"""

    def run(self) -> int:
        """Print the entries."""
        entries = {SOLVABLE_KEY: solvable_bibtex(__version__)}
        for name in dict.fromkeys(self.targets) or names():
            paper = PAPERS[name] if name in PAPERS else _paper(name)
            entries[paper.key] = paper.bibtex
        if self.json:
            print_json({"entries": [{"key": k, "bibtex": b} for k, b in entries.items()]})
        else:
            print("\n\n".join(entries.values()))
        return 0


def _paper(name: str) -> Paper:
    if name not in names():
        raise ValueError(f"target must be one of {', '.join(names())}, not {name!r}")
    return lab(name).paper
