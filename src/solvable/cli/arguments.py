"""How options are spelled: what tyro must be told beyond names, types and docstrings."""

import functools
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import tyro

T = TypeVar("T")

# Where "(default: False)" or "(default: None)" would tell a reader nothing.
_NO_HINT = tyro.conf.arg(help_behavior_hint="")

Flag = Annotated[bool, _NO_HINT]
Maybe = Annotated[T | None, _NO_HINT]
Repeated = Annotated[tuple[str, ...], tyro.conf.UseAppendAction]
MaybeFile = Annotated[Path | None, tyro.conf.arg(help_behavior_hint="", metavar="FILE")]


def pairs(option: str, given: Sequence[str], example: str) -> dict[str, str]:
    """What was given as NAME=VALUE, any number of times, by name.

    >>> pairs("set", ["alpha=2"], "alpha=1.8")
    {'alpha': '2'}
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{option} must be NAME=VALUE, such as {example}, not {text!r}")
        if name in found:
            raise ValueError(f"{option} must be given once for {name}, not twice")
        found[name] = value
    return found


def following(words: Sequence[str], option: str) -> str:
    """The last value that is given to an option, before the words are parsed; "" where none is.

    >>> following(["runs.csv", "--law", "power", "--y=loss"], "--law")
    'power'
    """
    found = ""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            found = value if equals else "".join(words[place + 1 : place + 2])
    return found


@runtime_checkable
class Command(Protocol):
    """What a command line is turned into."""

    def run(self) -> int:
        """Do it; returns the exit status."""
        ...


def choice(commands: Mapping[str, type[Command]]) -> Any:
    """Marks a field whose value is one of the commands, chosen by name even where there is one."""
    arms: list[Any] = [
        Annotated[command, tyro.conf.subcommand(name)] for name, command in commands.items()
    ]
    if len(arms) == 1:
        arms.append(Annotated[None, tyro.conf.Suppress])
    return tyro.conf.arg(constructor_factory=lambda: functools.reduce(operator.or_, arms))
