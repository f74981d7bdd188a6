"""A rejected command line, told in one sentence instead of tyro's boxes."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import tyro

from .arguments import Command

_KINDS = {
    "INT": "a whole number",
    "FLOAT": "a number",
    "INT|inf": "a whole number or inf",
    "FLOAT ...": "numbers",
    "INT ...": "whole numbers",
    "INT|inf ...": "whole numbers or inf",
}


Commands = Mapping[str, type[Command]]


@contextmanager
def one_sentence(
    argv: Sequence[str], commands: Commands, verbs: Callable[[str], Commands]
) -> Iterator[None]:
    """Within it, what tyro rejects becomes a `ValueError` with one sentence.

    tyro's hook is private: where a release lacks it, or says something new, tyro's own words and
    exit status 2 remain.

    Args:
        argv: the words.
        commands: those that they may name.
        verbs: gives a lab's command of every verb.
    """

    def reject(event: Any) -> None:
        try:
            sentence = _sentence(event, argv, commands, verbs)
        except AttributeError:
            return
        if sentence is not None:
            raise ValueError(sentence)

    errors = getattr(tyro, "_errors", None)
    if not hasattr(errors, "on_parse_error"):
        yield
        return
    with errors.on_parse_error(reject):  # pyright: ignore[reportOptionalMemberAccess]
        yield


def _sentence(
    event: Any, argv: Sequence[str], commands: Commands, verbs: Callable[[str], Commands]
) -> str | None:
    match type(event).__name__:
        case "UnrecognizedArgs":
            return _unknown(event.tokens[0], argv, commands, verbs)
        case "MissingSubcommand":
            what = "a lab" if argv and argv[0] in commands else "a command"
            names = ", ".join(event.subcommand_spec.parser_from_name)
            return f"{what} must be named, one of {names}; see {_spoken(argv, commands)} --help"
        case "MissingArgs":
            names = " and ".join(_name(missing.arg) for missing in event.missing_arguments)
            return f"{names} must be given; see {_spoken(argv, commands)} --help"
        case "InvalidChoice":
            # As help tells them; the event's own have no order where an option has no default.
            allowed = event.argument.lowered.metavar.strip("{}").replace(",", ", ")
            return f"{_name(event.argument)} must be one of {allowed}, not {event.value!r}"
        case "BadValue":
            return f"{_name(event.argument)} must be followed by a value"
        case "InstantiationFailure" if event.argument is not None:
            kind = _KINDS.get(event.argument.lowered.metavar, event.argument.lowered.metavar)
            if "argument count" in event.message:
                return f"{_name(event.argument)} must be followed by {kind}"
            value = event.message.rpartition(": ")[2]
            return f"{_name(event.argument)} must be {kind}, not {value}"
    return None


def _name(argument: Any) -> str:
    """`--alpha`; for a positional argument its field's name."""
    return argument.display_name().rpartition(".")[2]


def _unknown(
    token: str, argv: Sequence[str], commands: Commands, verbs: Callable[[str], Commands]
) -> str:
    path = _path(argv, commands)
    spoken = _spoken(argv, commands)
    is_option = token.startswith("-")
    if not path:
        choices = (
            "" if is_option else f"command must be one of {', '.join(commands)}, not {token!r}"
        )
        return choices or f"{token} is not an option of {spoken}; see {spoken} --help"
    labs = _labs(commands[path[0]])
    if labs and len(path) == 1:
        if is_option:
            return f"{token} must come after the name of a lab, one of {', '.join(labs)}"
        return f"lab must be one of {', '.join(labs)}, not {token!r}"
    if not is_option:
        return f"{spoken} takes no argument {token!r}; see {spoken} --help"
    command = labs[path[1]] if labs else commands[path[0]]
    name, known = token.partition("=")[0], list(_options(command))
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)  # all share two dashes
    hint = f"did you mean {near[0]}?" if near else f"see {spoken} --help"
    all_verbs = verbs(path[1]).items() if labs else ()
    if others := [verb for verb, other in all_verbs if name in _options(other)]:
        hint = f"solvable {' and '.join(others)} {'has' if len(others) == 1 else 'have'} it"
    return f"{token} is not an option of {spoken}; {hint}"


def _labs(command: type[Command]) -> Commands:
    return getattr(command, "labs", {})


def _path(argv: Sequence[str], commands: Commands) -> list[str]:
    """The words of `argv` that name a command and a lab."""
    if not argv or argv[0] not in commands:
        return []
    labs = _labs(commands[argv[0]])
    return list(argv[: 2 if len(argv) > 1 and argv[1] in labs else 1])


def _spoken(argv: Sequence[str], commands: Commands) -> str:
    return " ".join(["solvable", *_path(argv, commands)])


def _options(command: Any) -> Iterator[str]:
    """The options of a command, those of its nested dataclasses with them."""
    for field in fields(command):
        if is_dataclass(field.type):
            yield from _options(field.type)
        else:
            negative = "no-" if field.default is True else ""
            name = {"also": "with"}.get(field.name, field.name)
            yield f"--{negative}{name.replace('_', '-')}"
