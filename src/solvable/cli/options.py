"""Options that come from a description: what is not given is None, and help tells the default."""

from collections.abc import Iterable
from dataclasses import make_dataclass
from typing import Annotated, Any, Literal

import tyro

from ..question import Group, Parameter, brief, parameters


def options(usual: Group, names: Iterable[str] | None = None, several: Iterable[str] = ()) -> type:
    """A group as a class that tyro reads: what is not given is None, and then as usual.

    Args:
        usual: the group, with its defaults.
        names: of the fields that have an option; all unless given.
        several: fields that may be given several values.
    """
    kind = type(usual)
    parts = [
        (name, _annotated(parameter, getattr(usual, name), name in several), _absent(parameter))
        for name, parameter in parameters(kind).items()
        if names is None or name in names
    ]
    doc = (kind.__doc__ or "").partition("\n\n")[0]
    return make_dataclass(kind.__name__, parts, frozen=True, namespace={"__doc__": doc})


def _absent(parameter: Parameter) -> Any:
    """What an option is that was not given."""
    return False if parameter.flag else None


def _annotated(parameter: Parameter, default: Any, several: bool) -> Any:
    if parameter.flag:
        return Annotated[bool, tyro.conf.arg(help=parameter.doc, help_behavior_hint="")]
    kind: Any = int if parameter.whole and not parameter.endless else float
    metavar = "INT|inf" if parameter.endless else kind.__name__.upper()
    if parameter.words:
        kind, metavar = Literal[parameter.words], None  # pyright: ignore[reportInvalidTypeForm]
    if parameter.file:
        kind, metavar = str, "FILE"
    if several or parameter.row:
        kind, metavar = tuple[kind, ...], f"{metavar} ..."
    limits = f", {parameter.limits}" if parameter.limits else ""
    doc, semicolon, rest = parameter.doc.partition(";")
    hint = _hint(parameter, default)
    arg = tyro.conf.arg(
        metavar=metavar,
        help=f"{doc}{limits}{semicolon}{rest}",
        help_behavior_hint=f"(default: {hint})" if hint else "",
    )
    return Annotated[kind | None, arg]


def _hint(parameter: Parameter, default: Any) -> str:
    if parameter.told:
        return parameter.told
    if default is not None:
        return brief(default)
    if parameter.by is None:
        return ""
    values = {" ".join(map(str, key)): x for key, x in parameter.table[1].items() if x is not None}
    if len(values) == 1:
        return brief(next(iter(values.values())))
    return ", ".join(f"{brief(value)} for {word}" for word, value in values.items())
