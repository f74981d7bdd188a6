"""The laws of `solvable fit` and `solvable plan`, by name: formulas, and those of labs."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from .. import labs
from ..asking import LabLaw
from ..papers import PAPERS

if TYPE_CHECKING:
    from ..scaling import Law

FORMULAS = ("power", "chinchilla", "additive", "broken")


@cache
def ours() -> Mapping[str, LabLaw]:
    """The laws of our own labs; nothing of other packages is looked at."""
    found = {name: labs.lab(name).law for name in PAPERS}
    return {name: law for name, law in found.items() if law is not None}


def models(word: str = "") -> Mapping[str, LabLaw]:
    """The laws of labs: ours, and where a word names none of them, that of the lab it does name.

    If it names no lab with a law either, those of all installed labs, to be told.
    """
    if not word or word in FORMULAS or word in PAPERS:
        return ours()
    if word in labs.names():
        law = labs.lab(word).law
        if law is not None:
            return {**ours(), word: law}
    with warnings.catch_warnings():  # what cannot be loaded is not what was asked for
        warnings.simplefilter("ignore")
        found = {name: lab.law for name, lab in labs.labs().items()}
    return {name: law for name, law in found.items() if law is not None}


def model(name: str) -> LabLaw | None:
    """The law of a lab as described, None for a formula; or a `ValueError` that lists all laws."""
    if name in FORMULAS:
        return None
    known = models(name)
    if name not in known:
        raise ValueError(f"law must be one of {', '.join((*FORMULAS, *known))}, not {name!r}")
    return known[name]


def words_of(name: str) -> Mapping[str, str]:
    """What the exponents and the settings of a lab's law are; of what is none, nothing."""
    told = models(name).get(name)
    return {} if told is None else told.words


def law_of(name: str, resources: Sequence[str], settings: Mapping[str, Any]) -> "Law":
    """The law of a name over resources, a model's with its settings; or a `ValueError`."""
    told = model(name)
    if told is not None:
        return _made(name, told, tuple(resources), settings)
    if settings:
        raise ValueError(f"set must be left out for {name}, not {', '.join(settings)}")
    from ..scaling import laws

    return laws.named(name, tuple(resources))


def height_of(name: str, exponents: Mapping[str, float], settings: Mapping[str, Any]) -> float:
    """The loss that the curve of a lab's law is a share of."""
    told = model(name)
    assert told is not None
    return _loaded(name, told.height)(exponents, settings) if told.height else 1.0


def _made(
    name: str, told: LabLaw, resources: tuple[str, ...], settings: Mapping[str, Any]
) -> "Law":
    make = _loaded(name, told.make)
    takes = list(signature(make).parameters.values())[1:]
    known = [one.name for one in takes]
    unknown = [setting for setting in settings if setting not in known]
    if unknown and not any(one.kind is Parameter.VAR_KEYWORD for one in takes):
        must = f"be one of {', '.join(known)}" if known else "be left out"
        raise ValueError(f"set must {must} for {name}, not {unknown[0]}")
    law = make(resources, **settings)
    # A stored fit has the name and the settings, and makes the law anew of them.
    kept = getattr(law, "settings", {})
    if law.name != name or any(setting not in kept for setting in settings):
        raise ValueError(f"the law of {name} must be named so and keep its settings")
    return law


def _loaded(name: str, path: str) -> Any:
    try:
        return resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path!r} of the lab {name!r} cannot be loaded ({reason})") from error
