"""How options are spelled: what tyro must be told beyond names, types and docstrings."""

import functools
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import tyro

T = TypeVar("T")

# Where "(default: False)" or "(default: None)" would tell a reader nothing.
_NO_HINT = tyro.conf.arg(help_behavior_hint="")

Flag = Annotated[bool, _NO_HINT]
Maybe = Annotated[T | None, _NO_HINT]
MaybeFile = Annotated[Path | None, tyro.conf.arg(help_behavior_hint="", metavar="FILE")]


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
