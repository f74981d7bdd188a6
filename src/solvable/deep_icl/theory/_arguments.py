"""What the theory is asked for, checked."""

import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.host import unpacked
from ..run import TIMES
from ..task import FixedStructure, Isotropic, RotatedStructure

MAX_DEPTH = 10**7
MAX_LOG = 650.0  # losses beyond e^650 are refused: squares of them overflow


def depths_of(depth: Any) -> np.ndarray:
    """Depths as floats of any shape: whole numbers from 1; None and infinity are without end."""
    given = np.asarray(math.inf if depth is None else depth, dtype=object)
    values = [
        math.inf
        if d is None or (isinstance(d, float | np.floating) and d == math.inf)
        else float(validation.whole("depth", d, 1, MAX_DEPTH))
        for d in given.ravel()
    ]
    if not values:
        raise ValueError("depth must have at least one value")
    return np.asarray(values).reshape(given.shape)


def check_time(time: Any) -> None:
    """Raise unless `time` is one of the two."""
    validation.one_of("time", time, TIMES)


def scalar_times(task: Any, t: Any, time: Any) -> Any:
    """Times, in the units of dγ/dt = −d𝓛/dγ (FixedStructure: those of plain gradient flow)."""
    check_time(time)
    times = validation.floating("t", t)
    validation.within("t", times, 0.0, 1e300)
    _, values = unpacked(times)
    if time == "scalar" or isinstance(task, FixedStructure):
        return values
    if task.width is None:
        raise ValueError("dim must be given for time 'matrix': Isotropic(alpha, dim=…)")
    return values / task.width


def gammas_of(gamma: Any, step_size: Any, step: Any = None) -> tuple[Float[Array, "..."], bool]:
    """γ or γ/L, whichever was given, and whether it was the latter; `step` is its old name."""
    if step is not None:
        words = "step is now called step_size: a step is one of training"
        warnings.warn(words, DeprecationWarning, stacklevel=3)
        if step_size is not None:
            raise ValueError("step_size and step, its old name, cannot both be given")
        step_size = step
    if (gamma is None) == (step_size is None):
        raise ValueError("gamma or step_size (= gamma/depth) must be given, and only one")
    name, value = ("gamma", gamma) if step_size is None else ("step_size", step_size)
    number = validation.floating(name, value)
    validation.within(name, number, 0.0, 1e150)
    return number, step_size is not None


def is_population(task: Isotropic | FixedStructure | RotatedStructure) -> bool:
    """Whether the loss is a sum over eigenvalues: large D, or endless contexts at full width."""
    if isinstance(task, Isotropic):
        return True
    return task.context is None and task.width == task.dim


def check_growth(name: str, value: Any, top: Any, depth: float) -> None:
    """Raise where the loss would not be a number: (η·edge − 1)^(2L) overflows."""
    if not (validation.is_concrete(value) and validation.is_concrete(top)):
        return
    load = float(np.max(np.asarray(value)) * np.asarray(top))
    load = load if name.startswith("step_size") else load / depth
    if math.isfinite(depth) and 2.0 * depth * math.log(max(abs(load - 1.0), 1.0)) > MAX_LOG:
        bound = (1.0 + math.exp(MAX_LOG / (2.0 * depth))) / float(np.asarray(top))
        bound = bound if name.startswith("step_size") else bound * depth
        raise ValueError(
            f"{name} must be at most {bound:.6g} at depth {depth:g}: beyond, descent in context "
            f"diverges and the loss exceeds e^{MAX_LOG:g}; not {float(np.max(value)):.6g}"
        )
