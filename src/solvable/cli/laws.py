"""The laws of `solvable fit` and `solvable plan`, by name."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..scaling import Law

FORMULAS = ("power", "chinchilla", "additive", "broken")
MODELS = ("msfr", "deep_icl")
LAWS = (*FORMULAS, *MODELS)


def law_of(name: str, resources: Sequence[str], settings: Mapping[str, Any]) -> "Law":
    """The law of a name over resources, a model's with its settings; or a `ValueError`."""
    if name not in LAWS:
        raise ValueError(f"law must be one of {', '.join(LAWS)}, not {name!r}")
    if name in MODELS:
        from solvable import deep_icl, msfr

        make = {"msfr": msfr.curve_law, "deep_icl": deep_icl.curve_law}[name]
        try:
            return make(tuple(resources), **settings)
        except TypeError:
            told = ", ".join(settings) or "none"
            raise ValueError(f"settings must be those of {name}, not {told}") from None
    from ..scaling import laws

    if settings:
        raise ValueError(f"settings must be none for {name}, not {', '.join(settings)}")
    return laws.named(name, tuple(resources))
