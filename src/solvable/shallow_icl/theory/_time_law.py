r"""Time laws of in-context learning on power-law tokens, ``λ_d = c d^−a``, d = 1, 2, …, of trace 1.

While mode after mode is learned, the size s of merged attention grows as a power of the clock
``T = ∫ s² dt/τ``. With ``s = A T^p`` a mode's share u is a function of ``x = h_d T`` alone,

    u = x φ(x),    φ(x) = ∫_0^1 y^−p e^{−x(1−y)} dy = ₁F₁(1; 2−p; −x)/(1−p),

and sums over modes are integrals over x: that of u² gives A, that of (1 − u)² the excess.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import hyp1f1

from ... import validation
from ...numerics.quadrature import gauss_legendre
from ..task import MAX_CONTEXT, MAX_EXPONENT, counted
from ._clock import Clock
from ._flow import Flow
from ._power_tokens import ALONE, PowerTokens

_LOW, _HIGH = 1e-8, 60.0  # between which x is integrated over; series at the ends
_PANELS, _NODES = 48, 16  # in ln x
_TERMS = 24  # of the series at large x
_AHEAD = 1e4  # times the mode that is being learned: modes that are followed
_MOST_MODES = 1e15  # of a finite dimension, which a float still holds exactly
LEAST_EXPONENT, MAX_START, MIN_START, MAX_TIME = 1.001, 1.0, 1e-60, 1e100


@dataclass(frozen=True)
class PowerLaw:
    """``amplitude · t^−exponent`` at times t/τ.

    Attributes:
        amplitude: what it is at t/τ = 1.
        exponent: how fast it falls.
        clock: p of ``s = size · T^p``.
        size: A.
        learned: the integral over u² that A comes from.
        missing: the integral over (1 − u)² that the amplitude comes from.

    >>> law = PowerLaw(2.0, 0.5, clock=0.2, size=1.0, learned=1.0, missing=1.0)
    >>> law(4.0).item()
    1.0
    """

    amplitude: float
    exponent: float
    clock: float
    size: float
    learned: float
    missing: float

    def __call__(self, t: Any) -> np.ndarray:
        """The value at times t/τ > 0."""
        return np.asarray(self.amplitude * np.asarray(_positive("t", t)) ** -self.exponent)


@dataclass(frozen=True)
class TimeLaw:
    r"""How in-context learning of power-law tokens gets better with time.

    Attributes:
        early: of L, for infinite contexts and before the context is felt.
        late: of the excess L − L*, once it limits all that is still learned; None for infinite
            contexts.
        crossover: t/τ where the two meet, in the middle of some four decades; infinity for infinite
            contexts.
        floor: L*, where learning ends.
        separate: the exponent of separate attention of rank 1, approximate: see `time_law`.
        separate_late: that of its excess, once the context limits it.
    """

    early: PowerLaw
    late: PowerLaw | None
    crossover: float
    floor: float
    separate: float
    separate_late: float

    @property
    def exponent(self) -> float:
        """E of the early law, ``(a − 1)/(2a − ½)``."""
        return self.early.exponent

    @property
    def amplitude(self) -> float:
        """B of the early law."""
        return self.early.amplitude

    def excess(self, t: Any) -> np.ndarray:
        """L − L* at times t/τ, by the smaller law: the early one before the crossover."""
        early = self.early(t)
        return early if self.late is None else np.asarray(np.minimum(early, self.late(t)))


def time_law(exponent: Any, context: Any = math.inf) -> TimeLaw:
    r"""How the loss of merged attention falls with time on a power-law spectrum ``λ_d = c d^−a``.

    ``L = B t^−e``, ``e = (a − 1)/(2a − ½)`` while the context is long enough for the modes that are
    being learned, ``λ_d ≫ 1/N``: mode m is learned at ``t ∝ m^{2a−½}``, at any N. Later the excess
    falls like ``t^{−(2a−1)/(2a−½)}`` towards
    ``L* ≈ c^{1/a} (π/a)/sin(π/a) N^{−(1−1/a)}``. Amplitudes are exact for D = ∞, large t and
    small starts (t ≫ ln(1/s₀)/‖Λ²‖).

    Separate attention of rank 1 learns mode m at about ``t = C_m/(λ_m² s₀)``, whatever the context:
    its loss falls about like ``t^{−(a−1)/2a}``, and its excess like ``t^{−(2a−1)/2a}`` later. That
    C_m hardly depends on m is seen where the flow was followed (D = 14, m = 3 to 12, 8 seeds: mean
    exponents 2.45 ± 0.06, 2.98 ± 0.05, 3.98 ± 0.04 for 2a = 2.5, 3, 4; single seeds are 0.3 off).
    Conjecture: where many modes are nearly as large as the next, all of them push a head, and the
    exponent 2a drifts, with a logarithm, towards 2a − ½.

    Args:
        exponent: a, from 1.001 on; the trace is finite for a > 1.
        context: N, or infinity.

    Reference: derived for this package.

    >>> law = time_law(1.5)
    >>> round(law.exponent, 12), round(law.amplitude, 11)
    (0.2, 1.16754066228)
    >>> law = time_law(1.5, context=30)
    >>> round(law.floor, 6), round(law.late.exponent, 12), round(law.crossover, 1)
    (0.409493, 0.8, 15.8)
    """
    tokens = _tokens(exponent, context)
    a, c, nu = tokens.exponent, tokens.first, tokens.spread
    early = _law(3.0 * a, c**3, 1.0, (a - 1.0) / (3.0 * a), (2.0 * a + 1.0) / (12.0 * a))
    late, crossover = None, math.inf
    if nu > 0.0:  # rates are λ²/N, and every mode's size is N
        late = _law(2.0 * a, c**2 * nu, nu**-2, 1.0 - 0.5 / a, 1.0 / (8.0 * a))
        apart = math.log(late.amplitude / early.amplitude) / (late.exponent - early.exponent)
        crossover = math.exp(apart)
    rest = (a - 1.0) / (2.0 * a), (2.0 * a - 1.0) / (2.0 * a)
    return TimeLaw(early, late, crossover, tokens.floor, *rest)


def _tokens(exponent: Any, context: Any, dim: Any = math.inf) -> PowerTokens:
    for name, value in (("exponent", exponent), ("context", context), ("dim", dim)):
        validation.concrete(name, value, why="modes are summed")
    power = validation.floating("exponent", exponent)
    validation.shaped("exponent", power, ())
    validation.within("exponent", power, LEAST_EXPONENT, MAX_EXPONENT)
    if context is None or context == math.inf:
        context = math.inf
    else:
        context = counted("context", context, MAX_CONTEXT)
    if dim is None or dim == math.inf:
        dim = math.inf
    else:
        dim = counted("dim", dim, int(_MOST_MODES))
    return PowerTokens(float(power), float(context), float(dim))


def _law(steep: float, most: float, boost: float, b: float, p: float) -> PowerLaw:
    """The law for rates ``h_d = most · d^−steep``.

    ``s⁴ = boost k T^4p ∫ x^b φ² dx`` and ``L − L* = boost k T^−b ∫ x^{b−1} (1 − xφ)² dx``, with
    ``k = most^{1/steep}/steep`` from the sum over modes, and ``t = T^{1−2p}/((1 − 2p) A²)``.
    """
    share = boost * most ** (1.0 / steep) / steep
    learned, missing = _integrals(b, p)
    size, slow = (share * learned) ** 0.25, 1.0 - 2.0 * p
    amplitude = share * missing * (slow * size**2) ** (-b / slow)
    return PowerLaw(amplitude, b / slow, p, size, learned, missing)


def _integrals(b: float, p: float) -> tuple[float, float]:
    """``∫_0^∞ x^b φ² dx`` and ``∫_0^∞ x^{b−1} (1 − xφ)² dx``."""
    nodes, weights = gauss_legendre(_NODES)
    edges = np.linspace(math.log(_LOW), math.log(_HIGH), _PANELS + 1)
    gaps = np.diff(edges)
    x = np.exp(edges[:-1, None] + gaps[:, None] * nodes)
    u = x * hyp1f1(1.0, 2.0 - p, -x) / (1.0 - p)
    measure = gaps[:, None] * weights * x**b
    learned, missing = float(np.sum(measure * u**2 / x)), float(np.sum(measure * (1.0 - u) ** 2))
    # Below, u = x/(1 − p); above, u = Σ (p)_k x^−k.
    slope = 1.0 / (1.0 - p)
    learned += slope**2 * _LOW ** (b + 1.0) / (b + 1.0)
    missing += _LOW**b / b - 2.0 * slope * _LOW ** (b + 1.0) / (b + 1.0)
    terms = np.cumprod(np.append(1.0, p + np.arange(_TERMS)))
    powers = np.arange(2 * _TERMS + 1)
    squared, short = np.convolve(terms, terms), terms.copy()
    short[0] = 0.0
    learned += float(np.sum(squared * _HIGH ** (b - 1.0 - powers) / (1.0 + powers - b)))
    rest, powers = np.convolve(short, short)[2:], powers[2:]
    missing += float(np.sum(rest * _HIGH ** (b - powers) / (powers - b)))
    return learned, missing


def power_flow(
    exponent: Any, context: Any, times: Any, *, dim: Any = math.inf, start: Any = 1e-3
) -> Flow:
    r"""The loss of merged attention on power-law tokens at any times, for any number of modes.

    ``flow(…, blocks="aligned")`` on ``λ_d = c d^−a`` of trace 1, from ``s = start`` and
    ``g = start · λ_d²/‖Λ²‖``. The first 200 modes are followed one by one, sums over the others are
    integrals over ln d; modes far beyond the one that is being learned are as they were. An excess
    below 1e-18 of the floor, or 1e-30, is not followed any further.

    Args:
        exponent: a, from 1.001 on.
        context: N, or infinity.
        times: t/τ, one or an axis of them.
        dim: D, or infinity.
        start: s₀, in the paper's units.

    Returns:
        A `Flow`, of the loss of all D modes, without weights.

    Reference: derived for this package.

    >>> power_flow(1.5, math.inf, [1e6, 1e8]).loss.round(8).tolist()
    [0.07366738, 0.0293273]
    """
    tokens = _tokens(exponent, context, dim)
    validation.concrete("times", times, why="flow is followed")
    validation.concrete("start", start, why="flow is followed")
    time = np.atleast_1d(np.asarray(validation.floating("times", times)))
    if time.ndim > 1 or time.size == 0:
        raise ValueError(f"times must be a number or one axis of them, not of shape {time.shape}")
    validation.within("times", time, 0.0, MAX_TIME)
    size = validation.floating("start", start)
    validation.shaped("start", size, ())
    validation.within("start", size, MIN_START, MAX_START)
    last = float(time.max())
    front = (1.0 + tokens.first**2 * last) ** (1.0 / (2.0 * tokens.exponent - 0.5))
    places, counts, most = tokens.sampled(_AHEAD * front)
    spectrum = tokens.spectrum(places)
    ratio, floor, beyond = tokens.ratio(spectrum), tokens.floor, tokens.beyond(most)
    clock = Clock(spectrum**2, spectrum**2 * ratio, ratio, counts, float(size), floor, last)
    excess, off = clock.excess(time)
    # The error of endless integrals is about their first mode, until that is learned too.
    wrong = abs(float(counts @ (spectrum**2 / ratio)) + floor + beyond - 1.0)
    inside = tokens.beyond(float(ALONE)) if tokens.dim == math.inf else 0.0
    off += wrong * np.minimum(1.0, (beyond + excess) / (inside or 1e-300))
    loss, steps = floor + beyond + excess, np.array(clock.steps)
    return Flow(time, loss, beyond + excess, off / loss, None, steps, steps, "clock")


def _positive(name: str, value: Any) -> Any:
    validation.concrete(name, value, why="the law is evaluated")
    array = validation.floating(name, value)
    validation.within(name, array, 0.0, open_low=True)
    return array
