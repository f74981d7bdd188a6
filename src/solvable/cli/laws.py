"""The laws of `solvable fit` and `solvable plan`, by name."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..scaling import Law

FORMULAS = ("power", "chinchilla", "additive", "broken")
# What each model's curve is over; told here, as importing a lab to ask it takes a second.
RESOURCES = {"msfr": ("t", "D", "N"), "deep_icl": ("t", "L", "N", "P")}
MODELS = tuple(RESOURCES)
LAWS = (*FORMULAS, *MODELS)


def law_of(name: str, resources: Sequence[str], settings: Mapping[str, Any]) -> "Law":
    """The law of a name over resources, a model's with its settings; or a `ValueError`."""
    if name not in LAWS:
        raise ValueError(f"law must be one of {', '.join(LAWS)}, not {name!r}")
    if name in MODELS:
        from solvable import deep_icl, msfr

        make = {"msfr": msfr.curve_law, "deep_icl": deep_icl.curve_law}[name]
        known = list(signature(make).parameters)[1:]
        unknown = [setting for setting in settings if setting not in known]
        if unknown:
            raise ValueError(f"set must be one of {', '.join(known)} for {name}, not {unknown[0]}")
        return make(tuple(resources), **settings)
    from ..scaling import laws

    if settings:
        raise ValueError(f"set must be left out for {name}, not {', '.join(settings)}")
    return laws.named(name, tuple(resources))
