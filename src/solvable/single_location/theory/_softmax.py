"""The risk of softmax attention: sums of a few hundred exponentials, whatever L and d are.

The law of the tokens is unchanged by any rotation that leaves k* and v* in place, so whatever the
attention, the risk is a function of the ten products of k, v, k*, v*: with unit lengths, of the
five scalars at one λ. Its gradients lie in the span of these vectors, so projected gradient descent
in R^d moves the five scalars by themselves: the reduction is exact, at any d and step size. What a
token adds to a mini-batch gradient out of their span is Gaussian given its part in it, so SGD's
five scalars are a Markov chain of their own, too.

``1/Z = ∫ e^{−uZ} du`` and ``1/Z² = ∫ u e^{−uZ} du`` take softmax's normalisation apart into factors
of one token each. In ``y = log u`` and with ``h_m(y) = exp(my − e^y)``, every mean that the risk
needs is ``∫ h_m(y + λDκ) F(y) dy``, F that of one integral over the other tokens and γ's part of
the informative one, both Gaussian. F does not depend on the run: a table for one task and one λ.
"""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...compiling import stage
from ..state import State
from ..task import Law, Task, check_task, law_of
from ._arguments import at_state, one_inverse_temperature
from ._pointwise import pointwise, spread

# The integrands are analytic for |Im y| < π/2: the trapezoidal rule's error is e^{−π²/step}, here
# 7e-18, times powers of 2π/step as Γ(m + 2πi/step) has them.
_STEP = 0.25
_FINE = 0.7  # standard deviations between two nodes of a Gaussian; the error is e^{−2π²/_FINE²}
_REACH = 8.5  # standard deviations that are kept: beyond is 2e-17
_LEFT, _RIGHT = 36.0, 4.0  # h_m is below e^{−36} outside
_LARGEST = 20.0  # y above which h_m is 0
SOFTMAX_ENTRY = 100.0  # bytes that a run takes for each of the table's nodes
_NODES, _POINTS, _PAD = 2**15, 2**22, 64


class Moments(eqx.Module):
    """Means over the tokens at one λ, as sums over y: what stands before h_0, h_1 and h_2.

    The rows, with a the attention, x the informative token's Gaussian part along k, s another
    token along k, are of ``E[a x s], E[a²], E[a² s²], E[a a' s s']`` of other tokens; of
    ``E[a], E[a x], E[a x²], E[a a' s], E[a a' x s]`` and ``E[a²], E[a² x], E[a² x²]`` of the
    informative one.
    """

    place: Float[Array, " nodes"]
    none: Float[Array, "4 nodes"]
    once: Float[Array, "5 nodes"]
    twice: Float[Array, "3 nodes"]


def moments_of(task: Task, lam: float) -> Moments:
    """The table of a task at one λ, made on the host."""
    gamma, others = float(task.gamma), task.length - 1
    shift, wide = lam * task.signal, _REACH * lam
    low = -(shift + _LEFT + wide * (1.0 + gamma))
    high = _RIGHT + min(shift, wide * (1.0 + gamma)) + _STEP
    pieces = _STEP / (_FINE * lam * min(gamma, 1.0))
    if high - low > _NODES * _STEP or (high - low + 2.0 * wide) * pieces > _POINTS * _STEP:
        raise ValueError(
            f"lam must be nearer to 1 for softmax at this dim and gamma, not {lam:g}: the table of "
            "its risk would be too long"
        )
    fine = max(1, math.ceil(pieces))
    first, last = math.floor(low / _STEP), math.ceil(high / _STEP)
    count = last - first + 1
    # Nodes of the two Gaussians lie on the same grid as y, so that means are convolutions.
    unit = _STEP / fine
    far, near = math.ceil(wide / unit), math.ceil(wide * gamma / unit)

    def gauss(half: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
        node = unit / scale * np.arange(-half, half + 1)
        weight = np.exp(-0.5 * node**2)
        return node, weight / weight.sum()

    s, ws = gauss(far, lam)
    x, wx = gauss(near, lam * gamma)
    y = unit * np.arange(first * fine - near - far, last * fine + near + far + 1)
    power = np.exp(np.minimum(y, _LARGEST))
    h = np.exp(-power) * power ** np.arange(3)[:, None]

    def mean(m: int, j: int) -> np.ndarray:
        """``E[s^j h_m(y + λs)]``."""
        return np.convolve(h[m], (ws * s**j)[::-1], "valid")

    def table(f: Any, k: int) -> np.ndarray:
        """``E[x^k f(y − λγx)]``, at every node of y."""
        return _STEP * np.convolve(f, wx * x**k, "valid")[::fine]

    empty = mean(0, 0)
    alone, zero = empty**others, np.zeros(len(empty))
    one = mean(1, 1) * empty ** (others - 1) if others else zero
    two = mean(1, 1) ** 2 * empty ** (others - 2) if others > 1 else zero
    left = empty ** (others - 1) if others else zero
    own = [table(alone, k) for k in range(3)]
    rows = {
        "none": [table(one, 1), *(table(mean(2, j) * left, 0) for j in (0, 2)), table(two, 0)],
        "once": [*own, table(one, 0), table(one, 1)],
        "twice": own,
    }
    # Few lengths: another λ then compiles nothing.
    more = -count % _PAD
    place = _STEP * np.arange(first, last + 1 + more)
    padded = {name: np.pad(np.stack(found), ((0, 0), (0, more))) for name, found in rows.items()}
    return Moments(stage(place), **{name: stage(found) for name, found in padded.items()})


Means = tuple[Array, Array, Array]


def _means(moments: Moments, t: Float[Array, "*runs"]) -> tuple[Means, Means]:
    """The means at ``t = λDκ``, rows last, and their derivatives in t."""
    place = moments.place.reshape(*(1,) * t.ndim, -1)
    power = jnp.exp(jnp.minimum(place + t[..., None], _LARGEST))
    h = [jnp.exp(-power)]
    for _ in range(3):
        h.append(power * h[-1])
    slope = (-h[1], h[1] - h[2], 2.0 * h[2] - h[3])
    rows = (moments.none, moments.once, moments.twice)

    def summed(values: Any) -> Means:
        none, once, twice = (x @ row.T for x, row in zip(values, rows, strict=True))
        return none, once, twice

    return summed(h[:3]), summed(slope)


def _form(task: Task | Law, x: State, means: Means) -> Array:
    """The excess risk less γ², linear in the means."""
    (q, u0, u2, w), (p0, p1, p2, v0, v1), (s0, s1, s2) = (jnp.moveaxis(m, -1, 0) for m in means)
    g, d, others = task.gamma, task.signal, task.length - 1
    cross = g**2 * x.nu * p0 + g * d * x.eta * x.theta * p1
    cross = cross + x.rho * x.eta * (g**2 * (p2 - p0) + others * g * q)
    own = (d**2 * x.theta**2 + g**2) * s0 + 2.0 * d * g * x.theta * x.rho * s1
    own = own + (g * x.rho) ** 2 * (s2 - s0)
    rest = others * (u0 + x.rho**2 * (u2 - u0 + (others - 1) * w))
    mixed = 2.0 * others * x.rho * (d * x.theta * v0 + g * x.rho * v1)
    return -2.0 * cross + own + rest + mixed


def softmax_excess_of(
    task: Task | Law, moments: Moments, x: State, lam: Float[Array, "..."]
) -> Float[Array, "*runs"]:
    """`softmax_excess`, unchecked."""
    return task.gamma**2 + _form(task, x, _means(moments, lam * task.signal * x.kappa)[0])


def softmax_slopes_of(
    task: Task | Law, moments: Moments, x: State, lam: Float[Array, "..."]
) -> State:
    """`softmax_slopes`, unchecked."""
    means, slopes = _means(moments, lam * task.signal * x.kappa)
    (q, u0, u2, w), (p0, p1, p2, v0, v1), (s0, s1, s2) = (jnp.moveaxis(m, -1, 0) for m in means)
    g, d, others = task.gamma, task.signal, task.length - 1
    both = g**2 * (p2 - p0) + others * g * q
    square = g**2 * (s2 - s0) + others * (u2 - u0 + (others - 1) * w + 2.0 * g * v1)
    mixed = d * (g * s1 + others * v0)
    return State.raw(
        kappa=lam * task.signal * _form(task, x, slopes),
        nu=-2.0 * g**2 * p0,
        theta=2.0 * (d**2 * x.theta * s0 - g * d * x.eta * p1 + mixed * x.rho),
        eta=-2.0 * (g * d * x.theta * p1 + x.rho * both),
        rho=2.0 * (square * x.rho + mixed * x.theta - both * x.eta),
    )


def _share_of(known: tuple[Law, Moments], kappa: Array, lam: Array) -> Array:
    return _means(known[1], lam * known[0].signal * kappa)[0][1][..., 0]


_excess = pointwise(lambda known, x, lam: softmax_excess_of(known[0], known[1], x, lam))
_slopes = pointwise(lambda known, x, lam: softmax_slopes_of(known[0], known[1], x, lam))
_share = pointwise(_share_of)


def _known(task: Task, lam: Any, name: str, runs: Any) -> tuple[Moments, Array]:
    """The table, and λ; refused if so many entries of `name` do not fit."""
    check_task(task)
    value = one_inverse_temperature(lam)
    validation.concrete("task and lam", task, value, why="a table is made for them")
    moments, count = moments_of(task, float(value)), np.size(runs)
    memory.refuse(f"entries of {name}", count, SOFTMAX_ENTRY * count * len(moments.place))
    return moments, value


def softmax_excess(task: Task, x: State, lam: Any) -> Float[Array, "*runs"]:
    r"""The excess risk ``E(Y − T(X))² − ε²`` of softmax attention with the scalars x.

    With a the attention to the informative token, whose Gaussian part along k is γg, and a', a''
    that to others, which are s', s'' along k,

    ``γ² − 2[γ²ν E a + γDηθ E ag + ρη(γ² E a(g²−1) + (L−1)γ E a'gs')] + (D²θ² + γ²) E a²
    + 2Dγθρ E a²g + γ²ρ² E a²(g²−1) + (L−1)[E a'² + ρ² E a'²(s'²−1) + (L−2)ρ² E a'a''s's'']
    + 2(L−1)ρ[Dθ E aa's' + γρ E aa'gs']``.

    The means depend on κ and λ alone and are sums of exponentials, to about 1e-13.

    Args:
        task: the data law.
        x: the five scalars.
        lam: λ, the inverse temperature, one; from about 1e-4 to 100 at d = 400 and γ² = ½.

    Reference: derived for this package.

    >>> task = Task(dim=400, length=10)
    >>> round(softmax_excess(task, State(kappa=1.0, nu=1.0), lam=0.3).item(), 6)
    0.009443
    """
    moments, value = _known(task, lam, "x", getattr(x, "kappa", ()))
    law, x, each = at_state(task, x, value)
    return _excess((law, moments), x, each)


def softmax_slopes(task: Task, x: State, lam: Any) -> State:
    """∂R/∂κ … ∂R/∂ρ of softmax attention, by the names of the scalars.

    Unlike those of erf they are not all 0 at the origin: ν has a drift towards 1, for γ < 1 κ has
    one too, and there is no sign to choose.

    Args:
        task: the data law.
        x: the five scalars.
        lam: λ, the inverse temperature, one.

    Reference: derived for this package.

    >>> found = softmax_slopes(Task(dim=400, length=10), State(0.0, 0.0), lam=0.3)
    >>> found.nu.item() < 0.0, found.kappa.item() < 0.0
    (True, True)
    """
    moments, value = _known(task, lam, "x", getattr(x, "kappa", ()))
    law, x, each = at_state(task, x, value)
    return _slopes((law, moments), x, each)


def softmax_share(task: Task, kappa: Any, lam: Any) -> Float[Array, "*batch"]:
    """The mean attention ``E a`` that softmax gives to the informative token.

    Args:
        task: the data law.
        kappa: κ = k·k*, one or many.
        lam: λ, the inverse temperature, one.

    Reference: derived for this package.

    >>> [round(x, 3) for x in softmax_share(Task(dim=400, length=10), [0.0, 1.0], 0.3).tolist()]
    [0.098, 0.879]
    """
    kappa = validation.floating("kappa", kappa)
    moments, value = _known(task, lam, "kappa", kappa)
    validation.within("kappa", kappa, -1.0, 1.0)
    return _share((law_of(task), moments), kappa, spread(value, kappa.shape))
