"""The tree of commands, and the way from words to one of them."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass
from functools import partial
from typing import Annotated

import tyro

from .arguments import Command, Flag, choice
from .rejection import one_sentence
from .verbs import verb, verbs_of

Build = Callable[[Sequence[str]], type[Command]]


def _one(module: str, kind: str) -> Build:
    return lambda _: getattr(importlib.import_module(f".{module}", __package__), kind)


def _built(module: str) -> Build:
    return lambda words: importlib.import_module(f".{module}", __package__).command(words)


# Each command from the words that follow its name: of labs, only the one named is looked at.
COMMANDS: Mapping[str, Build] = {
    "list": _one("listing", "List"),
    "reproduce": _one("reproduce", "Reproduce"),
    "solve": partial(verb, "solve"),
    "train": partial(verb, "train"),
    "compare": partial(verb, "compare"),
    "fit": _built("fit"),
    "plan": _built("plan"),
    "cite": _one("cite", "Cite"),
    "new-lab": _one("new_lab", "NewLab"),
    "completion": _one("completion", "Completion"),
}

_CONFIG = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.FlagCreatePairsOff,
    tyro.conf.DisallowNone,
    tyro.conf.HelptextFromCommentsOff,
)


def parse(argv: list[str]) -> Command:
    """The command that `argv` asks for, or a `ValueError` with one sentence."""
    named = argv[:1] if argv and argv[0] in COMMANDS else COMMANDS
    commands = {name: COMMANDS[name](argv[1:]) for name in named}
    version = Annotated[Flag, tyro.conf.arg(help="print the version and exit")]
    tree = make_dataclass(
        "Solvable",
        [("command", Annotated[Command, choice(commands)]), ("version", version, False)],
        frozen=True,
        namespace={"__doc__": "A laboratory for solvable models of attention."},
    )
    with one_sentence(argv, commands, verbs_of):
        return tyro.cli(tree, prog="solvable", args=argv, config=_CONFIG).command
