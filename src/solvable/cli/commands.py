"""The tree of commands, and the way from words to one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import tyro

from .arguments import Command, Flag, choice
from .cite import Cite
from .completion import Completion
from .fit import Fit
from .listing import List
from .plan import Plan
from .rejection import one_sentence
from .reproduce import Reproduce
from .solve import Solve
from .train import Train

COMMANDS: Mapping[str, type[Command]] = {
    "list": List,
    "reproduce": Reproduce,
    "solve": Solve,
    "train": Train,
    "fit": Fit,
    "plan": Plan,
    "cite": Cite,
    "completion": Completion,
}

_CONFIG = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.FlagCreatePairsOff,
    tyro.conf.DisallowNone,
    tyro.conf.HelptextFromCommentsOff,
)


@dataclass(frozen=True)
class Solvable:
    """A laboratory for solvable models of attention."""

    command: Annotated[Command, choice(COMMANDS)]
    version: Flag = False
    """print the version and exit"""


def parse(argv: list[str]) -> Command:
    """The command that `argv` asks for, or a `ValueError` with one sentence."""
    with one_sentence(argv, COMMANDS):
        return tyro.cli(Solvable, prog="solvable", args=argv, config=_CONFIG).command
