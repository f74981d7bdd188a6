"""Fits as documents: what `solvable fit --json` prints and `solvable plan` reads."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .fitting import Fit, Known
from .law import Law

NOT_A_FIT = "a fit, the JSON document that solvable fit --json prints"


def settled(fit: Fit) -> Known:
    """What a fit knows, with the amplitudes that are at a bound exactly there.

    Inside, a term that the data do not show is left with a tiny amplitude instead of none.
    """
    told, law = fit.parameters, fit.law
    values = [
        told[name].value if name in law.linear and told[name].state == "at bound" else value
        for name, value in zip(law.parameters, fit.known.values, strict=True)
    ]
    return replace(fit.known, values=np.array(values, float))


def to_document(fit: Fit) -> dict[str, Any]:
    """A fit as a JSON document; what is not a finite number is None.

    >>> from .fitting import fit
    >>> x = np.geomspace(1.0, 1e4, 12)
    >>> found = fit("power", {"x": x}, y=1.5 + 8.0 * x**-0.3)
    >>> document = to_document(found)
    >>> document["law"], document["status"], round(document["parameters"]["a"]["value"], 9)
    ('power', 'converged', 0.3)
    """
    known, held = settled(fit), fit.hold_out
    assert known.covariance is not None
    document = {
        "command": "fit",
        "law": fit.law.name,
        "resources": list(fit.law.resources),
        "settings": dict(getattr(fit.law, "settings", {})),
        "status": fit.status,
        "message": fit.message,
        "parameters": {
            name: {
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "error": one.error,
                "state": one.state,
            }
            for name, one in fit.parameters.items()
        },
        "residual_rms": fit.rms,
        "runs_p": fit.runs_p,
        "noise": fit.noise,
        "hold_out": None
        if held is None
        else {
            "kind": held.kind,
            "points": len(held.rows),
            "rms": held.rms,
            "bias": held.bias,
            "inside": held.inside,
        },
        "points": len(fit.rows),
        "groups": fit.groups,
        "ranges": None
        if known.ranges is None
        else {name: list(ends) for name, ends in known.ranges.items()},
        "loss": fit.loss,
        "scale": fit.scale,
        "intervals": fit.intervals,
        "method": fit.method,
        "level": known.level,
        "degrees_of_freedom": known.degrees,
        "condition": fit.condition,
        "refits": fit.refits,
        "redone": fit.redone,
        "failed": fit.failed,
        # To draw and to plan with: also of parameters that the data do not determine, and their
        # covariance (of logarithms where a parameter is a scale).
        "values": dict(zip(fit.law.parameters, known.values.tolist(), strict=True)),
        "covariance": known.covariance.tolist(),
    }
    return _finite(document)


def described(document: Any) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """The law's name, its resources and its settings in a document, or a `ValueError`."""
    if not isinstance(document, Mapping) or not isinstance(document.get("law"), str):
        raise ValueError(f"law must be {NOT_A_FIT}, not {_brief(document)}")
    resources, settings = document.get("resources"), document.get("settings", {})
    named = isinstance(resources, list) and all(isinstance(name, str) for name in resources)
    if not named or not isinstance(settings, Mapping):
        missing = "settings" if named else "resources"
        raise ValueError(f"law must be {NOT_A_FIT}: {missing} is missing or wrong")
    return document["law"], tuple(resources or ()), dict(settings)


def from_document(document: Mapping[str, Any], law: Law) -> Known:
    """What a stored fit knows.

    Args:
        document: from `to_document`.
        law: the one it names, over its resources (see `described`).

    >>> from .fitting import fit
    >>> from .laws import power
    >>> x = np.geomspace(1.0, 1e4, 12)
    >>> document = to_document(fit("power", {"x": x}, y=1.5 + 8.0 * x**-0.3))
    >>> from_document(document, power("x")).values.round(9).tolist()
    [1.5, 8.0, 0.3]
    """
    name, resources, _ = described(document)
    if (name, resources) != (law.name, tuple(law.resources)):
        raise ValueError(
            f"law must be {name} over {', '.join(resources)}, as in the document, "
            f"not {law.name} over {', '.join(law.resources)}"
        )
    count, given = len(law.parameters), document.get("values")
    if not isinstance(given, Mapping) or list(given) != list(law.parameters):
        raise ValueError(
            f"law must be {NOT_A_FIT}: values must be those of {', '.join(law.parameters)}"
        )
    values = _numbers("values", list(given.values()), (count,))
    covariance = document.get("covariance")
    if covariance is not None:
        covariance = _numbers("covariance", covariance, (count, count))
    degrees = document.get("degrees_of_freedom")
    degrees = math.inf if degrees is None else float(_numbers("degrees_of_freedom", degrees, ()))
    level = float(_numbers("level", document.get("level", 0.95), ()))
    if not (degrees > 0.0 and 0.0 < level < 1.0):
        field = "level" if degrees > 0.0 else "degrees_of_freedom"
        raise ValueError(f"law must be {NOT_A_FIT}: {field} is out of range")
    ranges = document.get("ranges")
    if ranges is not None:
        if not isinstance(ranges, Mapping) or set(ranges) != set(resources):
            raise ValueError(f"law must be {NOT_A_FIT}: ranges must be those of its resources")
        ends = {x: _numbers("ranges", ranges[x], (2,)) for x in resources}
        ranges = {x: (float(low), float(high)) for x, (low, high) in ends.items()}
    return Known(law, values, covariance, degrees, level, ranges)


def _numbers(field: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.asarray(given)
        good = array.dtype.kind in "fiu" and array.shape == shape and np.isfinite(array).all()
    except (TypeError, ValueError):
        good, array = False, np.zeros(0)
    if not good:
        size = " × ".join(map(str, shape)) or "one"
        raise ValueError(f"law must be {NOT_A_FIT}: {field} must be {size} finite numbers")
    return array.astype(float)


def _finite(value: Any) -> Any:
    """Plain Python values, None for what is not a finite number."""
    match value:
        case dict():
            return {str(name): _finite(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
        case np.generic() | np.ndarray():
            return _finite(value.tolist())
        case float() if not math.isfinite(value):
            return None
    return value


def _brief(document: Any) -> str:
    if isinstance(document, Mapping):
        return f"one with {', '.join(map(str, list(document)[:5])) or 'nothing in it'}"
    return repr(document)[:60]
