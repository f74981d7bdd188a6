"""The loss in training time at every depth, from a table of losses over step sizes."""

import math

import numpy as np
from scipy.interpolate import BSpline, CubicHermiteSpline, make_interp_spline

from ...numerics.roots import root_between

_SPACING = 0.25  # of the step sizes, in a logarithm that is fine at both ends
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_DEGREE = 5  # of the spline
_CELLS = 160
_END = 24.0  # the flow is followed until it is e^-24 of the way before its minimum


def step_sizes(max_depth: int) -> np.ndarray:
    """``c = η·edge`` from 0 to 2, even in ``q = log((c+ε)/(2+ε−c))`` with ε = 1/(4 max_depth).

    The loss of depth ℓ changes at c ~ 1/ℓ for the first time, and again at 2 − c ~ 1/ℓ, where the
    largest eigenvalue starts to diverge.
    """
    small = 0.25 / max_depth
    end = math.log((2.0 + small) / small)
    q = np.linspace(-end, end, math.ceil(2.0 * end / _SPACING) + 1)
    c = ((2.0 + small) * np.exp(q) - small) / (1.0 + np.exp(q))
    c[0], c[-1] = 0.0, 2.0
    return c


class DepthCurves:
    """𝓛(t) of every depth at one width and context, by quadrature along the flow.

    With ``γ = ℓη`` the scalar flow ``dγ/dt = −∂𝓛/∂γ`` takes ``t = ℓ² ∫ dη/(−∂C_ℓ/∂η)`` to reach η,
    and ends at the first minimum of C_ℓ. Between the step sizes log C_ℓ is a spline: losses are
    right to about 1e-5 of themselves.

    Args:
        losses: C_ℓ(η), a row for every one of `step_sizes`, a column for every ℓ = 1, 2, …
        edge: the upper edge of the spectrum.
    """

    def __init__(self, losses: np.ndarray, edge: float):
        self.edge, self.max_depth = edge, losses.shape[1]
        self._small = 0.25 / self.max_depth
        c = step_sizes(self.max_depth)
        self._q = np.log((c + self._small) / (2.0 + self._small - c))
        self._logs = np.log(losses)
        self._known: dict[int, tuple[CubicHermiteSpline, np.ndarray, float, float]] = {}

    def loss(self, t: float, depth: int) -> float:
        """𝓛 at time t; before the first tabulated time it falls in proportion to t."""
        if depth not in self._known:
            self._known[depth] = self._flow(depth)
        curve, ends, start, last = self._known[depth]
        if t <= ends[0]:
            first = math.exp(float(curve(math.log(ends[0]))))
            return start - (start - first) * t / float(ends[0])
        return math.exp(float(curve(math.log(t)))) if t < ends[1] else last

    def _flow(self, depth: int) -> tuple[CubicHermiteSpline, np.ndarray, float, float]:
        """Of log t to log 𝓛; the first and last t, and the losses at t = 0 and ∞."""
        spline = make_interp_spline(self._q, self._logs[:, depth - 1], k=_DEGREE)
        slope = spline.derivative()
        low, high = float(self._q[0]), self._minimum(slope)
        # q = high − (high − low) e^-s: time is smooth in s up to the minimum, where it has no end.
        edges = _END * np.linspace(0.0, 1.0, _CELLS + 1) ** 2
        half = 0.5 * np.diff(edges)[:, None]
        s = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * _NODES[None, :]
        spent = np.sum(half * _WEIGHTS * self._pace(s, low, high, spline, slope, depth), axis=1)
        time = np.cumsum(spent)
        pace = self._pace(edges[1:], low, high, spline, slope, depth)
        q = high - (high - low) * np.exp(-edges[1:])
        fall = slope(q) * (high - q) * time / pace  # d log 𝓛/d log t
        keep = np.concatenate([[True], np.diff(np.log(time)) > 1e-12])
        logs = spline(q)
        curve = CubicHermiteSpline(np.log(time[keep]), logs[keep], np.minimum(fall[keep], 0.0))
        ends = time[keep][[0, -1]]
        return curve, ends, math.exp(float(spline(low))), math.exp(float(logs[keep][-1]))

    def _pace(
        self, s: np.ndarray, low: float, high: float, spline: BSpline, slope: BSpline, depth: int
    ) -> np.ndarray:
        """dt/ds."""
        left = (high - low) * np.exp(-s)
        q = high - left
        grown, small = np.exp(q), self._small
        eta_slope = (2.0 + 2.0 * small) * grown / (1.0 + grown) ** 2 / self.edge  # dη/dq
        fall = np.maximum(-np.exp(spline(q)) * slope(q), 1e-300)
        return depth**2 * eta_slope**2 / fall * left

    def _minimum(self, slope: BSpline) -> float:
        """The first place where the loss stops falling, or the last step size."""
        fine = np.linspace(self._q[0], self._q[-1], 8 * len(self._q))
        rising = np.flatnonzero(slope(fine) >= 0.0)
        if len(rising) == 0:
            return float(self._q[-1])
        k = max(int(rising[0]), 1)
        return root_between(lambda q: float(slope(q)), float(fine[k - 1]), float(fine[k]))


def equivalent(nu, beta, dim):
    """The table and the edge of the deterministic equivalent."""
    from ..spectrum import Spectrum
    from ..theory import Equivalent, Medium, losses

    nodes = Spectrum.power(nu, beta, dim)

    def made(width, context):
        sizes = (None if math.isinf(x) else x for x in (width, context))
        return Equivalent(Medium.of(nodes, *sizes), 0.0)

    def table(width, context, etas, max_depth):
        found = made(width, context).for_depth(float(max_depth))
        eta, depth = np.meshgrid(etas, np.arange(1.0, max_depth + 1.0), indexing="ij")
        return losses(found, eta * depth, depth, 0.0)[0]

    return table, lambda width, context: float(made(width, context).top)


def spectrum(nu, beta, dim):
    """The nodes of a power law."""
    from types import SimpleNamespace

    from ..spectrum import Spectrum

    nodes = Spectrum.power(nu, beta, dim)
    lam, share, weight = (np.asarray(x) for x in (nodes.lam, nodes.share, nodes.weight))
    return SimpleNamespace(lam=lam, share=share, weight=weight, normaliser=1.0 / share[0])
