"""Losses where width or context is finite: by the resolvents, and exactly for one layer."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ... import memory
from ...compiling import jit, stage
from ...numerics.host import hold, is_known, unpacked
from ..task import RotatedStructure
from ._fixed import FixedLaw
from ._resolvents import Medium, Resolvents, losses, resolvents
from ._resolvents import edge as upper_edge

OUTSIDE = 2.0  # γ times how far the ellipse reaches beyond 0: |h| is at most e² there
DIGITS = 40.0  # the logarithm by which aliasing on the ellipse is suppressed
MAX_LOAD = 2e4  # of γ·edge, and so 8000 layers: beyond, eigenvalues would have to stand one by one
STABLE = 2.5  # γ·edge/L that is provided for where γ is not known
ENDLESS = 400.0  # and γ·edge, where the depth is infinite
_RESIDUAL = 1e-9
_STEP = 1.5  # ratio of the loads for which there are contours
_SHORTEST = 6.75  # the smallest of them: with fewer points F itself is resolved to 1e-9 only
_BEYOND = 1.5  # how far past the load of its contour a loss keeps its digits
_TINY = 1e-100
_ENTRIES = 4_000_000  # of an array at once


def medium_of(task: RotatedStructure) -> Medium:
    """The medium of a task."""
    return Medium.of(task.spectrum, task.width, task.context)


def points_for(load: float) -> int:
    """Points on the ellipse for γ·edge up to `load`: 14 √load."""
    return 2 * math.ceil(0.5 * DIGITS / float(log_rho(np, max(load, OUTSIDE), 1)))


def log_rho(xp: Any, load: Any, points: int) -> Any:
    """Log ϱ of the ellipse that reaches OUTSIDE/γ beyond 0, never more than its points allow."""
    reach = xp.minimum(OUTSIDE / xp.maximum(load, _TINY), 1.0)
    far = xp.arccosh(1.0 + 2.0 * reach)
    return far if points == 1 else xp.maximum(far, DIGITS / points)


def load_for(load: float, depth: float) -> float:
    """The next load for which there is a contour, or an error that names what is too large."""
    if load > MAX_LOAD:
        most = f"depth must be at most {MAX_LOAD / STABLE:.0f} with finite width or context"
        raise ValueError(
            f"{most}, not {depth:g}"
            if math.isfinite(depth) and load <= STABLE * depth
            else f"gamma times the spectrum's edge must be at most {MAX_LOAD:g}, not {load:.6g}"
        )
    steps = math.ceil(math.log(max(load, _SHORTEST) / OUTSIDE) / math.log(_STEP) - 1e-9)
    return OUTSIDE * _STEP**steps


class Equivalent:
    """𝓛 and d𝓛/dγ of a medium at any γ and depths: one evaluation of its resolvents serves all.

    Args:
        m: the medium.
        noise: σ.
    """

    def __init__(self, m: Medium, noise: Any):
        self.medium, self.noise, self.top = m, noise, upper_edge(m)
        self._known: dict[float, Resolvents] = {}

    @classmethod
    def of(cls, task: RotatedStructure) -> "Equivalent":
        """Of a task."""
        return cls(medium_of(task), task.noise)

    def at(self, load: float, depth: float) -> Resolvents:
        """The resolvents for γ·edge up to a load; those of a larger one serve as well."""
        load = load_for(load, depth)
        known = [each for each in self._known if load <= each]
        if not known:
            self._known[load] = _evaluate(self.medium, self.top, load)
        return self._known[min(known, default=load)]

    def for_depth(self, depth: float) -> Resolvents:
        """The resolvents for every γ that is stable at a depth."""
        return self.at(ENDLESS if math.isinf(depth) else STABLE * depth, depth)

    def both(self, gamma: Any, depth: Any) -> tuple[Any, Any]:
        """𝓛 and d𝓛/dγ at γ and depths of one shape; depths are known."""
        _, gamma, depth, top = unpacked(gamma, np.asarray(depth, float), self.top)
        deepest = float(np.max(np.asarray(depth)))
        if not is_known(gamma, self.medium, self.noise):
            value, slope = losses(self.for_depth(deepest), gamma, depth, self.noise)
            # A traced γ cannot be refused.
            good = jnp.isfinite(depth) | (abs(gamma) * top <= _BEYOND * ENDLESS)
            return jnp.where(good, value, jnp.nan), jnp.where(good, slope, jnp.nan)
        found = self.at(float(np.max(np.abs(gamma))) * float(top), deepest)
        count = max(1, gamma.size * found.two.shape[1] // _ENTRIES)
        rows = (np.array_split(x.ravel(), count) for x in (gamma, depth))
        parts = [losses(found, g, d, self.noise) for g, d in zip(*rows, strict=True)]
        value, slope = (np.concatenate([pair[k] for pair in parts]) for k in (0, 1))
        return value.reshape(gamma.shape), slope.reshape(gamma.shape)


def _evaluate(m: Medium, top: Any, load: float) -> Resolvents:
    count = points_for(load)
    refuse_many(m.lam.shape[0], count)
    if not is_known(m, top):
        return _traced(m, top, stage(load), count)
    found = resolvents(m, top, log_rho(np, load, count), count)
    settled(found.residual)
    return found


@jit(static_argnames="count")
def _traced(m: Medium, top: Any, load: Any, count: int) -> Resolvents:
    xp, load = unpacked(load)
    return resolvents(m, top, log_rho(xp, load, count), count)


def refuse_many(dim: int, points: int) -> None:
    """Raise where the sums over directions at all points of the ellipse have no room."""
    memory.refuse("dim", dim, 128.0 * dim * points)


def settled(residual: Any) -> None:
    """Raise where the equation for κ was not solved."""
    if not float(residual) < _RESIDUAL:
        raise ArithmeticError(
            f"the deterministic equivalent was not solved: relative residual {float(residual):.2g}"
        )


def fixed_equivalent(law: FixedLaw, gamma: Any, depth: Any, points: int) -> Any:
    """𝓛 at one diagonal Γ: that of the medium S = Γ^½ΣΓ^½, whose layers are steps of 1/L.

    Differentiable in Γ, at Γ = 0 too. Where an entry is far below 0 it is no number; nor, of
    infinite depth and a traced Γ, where γ·edge is above 600.
    """
    xp, law, gamma, depth = unpacked(law, gamma, depth)
    m, unit = _preconditioned(xp, law, gamma)
    top = xp.maximum(upper_edge(hold(m)), 1.0)
    wide = log_rho(xp, hold(unit * top), points)
    r = resolvents(m, top, wide, points)
    value, _ = losses(r, unit, depth, law.noise)
    # The ellipse has room for eigenvalues that are a little below 0, no more, and for so large a Γ.
    room = 0.25 * (xp.cosh(wide) - 1.0) * top
    good = xp.min(hold(m.lam)) >= -room
    if xp is not np:
        good = good & (xp.isfinite(depth) | (hold(unit) * top <= _BEYOND * ENDLESS))
    return xp.where(good, value, xp.nan)


def _preconditioned(xp: Any, law: Any, gamma: Any) -> tuple[Medium, Any]:
    """S in units of its largest eigenvalue, so that nothing is lost as Γ → 0, and that unit."""
    load = gamma * law.lam
    unit = hold(xp.maximum(xp.max(xp.abs(load)), _TINY))
    ones = xp.ones_like(law.lam)
    return Medium(load / unit, law.share, ones, None, law.spread, xp.sum(ones)), unit


def fixed_points(law: FixedLaw, gamma: Any, depth: float) -> int:
    """Points for the medium of a diagonal Γ, or of any that is stable where it is not known."""
    if gamma is not None and is_known(law, gamma):
        _, law, gamma = unpacked(law, gamma)
        m, unit = _preconditioned(np, law, gamma)
        load = float(unit) * max(float(upper_edge(m)), 1.0)
    else:
        load = ENDLESS if math.isinf(depth) else STABLE * depth
    count = points_for(load_for(load, depth))
    refuse_many(law.lam.shape[0], count)
    return count


class Parabola(NamedTuple):
    """One layer's loss, ``Σa − 2gℓ + g²Q`` at the load ``g = γλ₁``, which knows no scale of λ.

    Attributes:
        start: Σa.
        line: ℓ, in units of λ₁.
        square: Q, in units of λ₁².
        top: λ₁.
    """

    start: Any
    line: Any
    square: Any
    top: Any

    def loss(self, gamma: Any) -> Any:
        """𝓛(γ)."""
        load = gamma * self.top
        return self.start + load * (self.square * load - 2.0 * self.line)

    def slope(self, gamma: Any) -> Any:
        """d𝓛/dγ."""
        return 2.0 * self.top * (self.square * (gamma * self.top) - self.line)

    def best(self) -> tuple[Any, Any]:
        """γ* and 𝓛*."""
        load = self.line / self.square
        return load / self.top, self.start - self.line * load


def single_layer(task: RotatedStructure) -> Parabola:
    r"""``𝓛 = Σa − 2γℓ + γ²Q``: one layer, exact at any N, P and D.

    ``ℓ = Σaλ`` and ``Q = (1 + 1/P)[c₁Σaλ² + c₂ΣλΣaλ] + (Σa + σ²)/P [c₁Σλ² + c₂(Σλ)²]``, where
    ``E ΠΛΠ = (N/D)²(c₁Λ + c₂(Tr Λ)I)``, and ``E Λ̂BΛ̂ = (1 + 1/P)ΛBΛ + Λ Tr(ΛB)/P`` of Gaussian
    tokens (derived).
    """
    s = task.spectrum
    xp, lam, share, weight, noise = unpacked(s.lam, s.share, s.weight, task.noise)
    n, d = float(task.width), float(task.dim)
    first, second = 1.0, 0.0
    if task.width < task.dim:
        below = n * (d - 1.0) * (d + 2.0) / d
        first, second = (n * d + d - 2.0) / below, (d - n) / below
    spread = 0.0 if task.context is None else 1.0 / task.context
    top = hold(xp.max(lam))  # the loss does not depend on the unit of λ
    lam = lam / top
    start, line, trace = xp.sum(share), xp.sum(share * lam), xp.sum(weight * lam)
    own = first * xp.sum(share * lam**2) + second * trace * line
    others = first * xp.sum(weight * lam**2) + second * trace**2
    return Parabola(start, line, (1.0 + spread) * own + (start + noise**2) * spread * others, top)
