"""Where a run will end: at the oracle, or at the swapped minimum."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ... import validation
from ...training import check_rate
from ..schedule import Decay, schedule_of
from ..state import NAMES, State, check_runs
from ..task import Law, Task, check_task, law_of
from ._flow import scales
from ._pointwise import pointwise, spread
from ._risk import pieces
from ._stability import critical_lam
from ._zeta import zeta_of

SETTLED = 0.9  # |ν| at the oracle, where κ may still be growing; |η| at the swapped minimum
MAX_LINEAR = 0.3  # λ above which most starts lie outside of the linear regime, at every d
LATE = 16.0  # time after which a larger λ, or a schedule, is judged: 4000 steps of Fig. 4a
MAX_STEPS = 10**7  # of a short run
PUBLISHED_RATE = 4e-3  # the largest step size in use
STABLE = 0.2  # step size times the fastest rate
ENDS = {"oracle": "at the oracle", "swapped": "at the swapped minimum", "undecided": "undecided"}


@dataclass(frozen=True, repr=False)
class Outcome:
    """Where runs end, or will.

    Attributes:
        end: "oracle", "swapped", or "undecided".
        sign: that of ν at the oracle and of η at the swapped minimum; 0 where undecided.
        margin: of a prediction ``ln|P₁/P₂|``, of a run ln|ν/η|: positive towards the oracle, and
            the larger its size, the surer.
    """

    end: np.ndarray
    sign: Int[np.ndarray, "*runs"]
    margin: Float[np.ndarray, "*runs"]

    @property
    def counts(self) -> dict[str, int]:
        """How many runs have each end."""
        found = Counter(self.end.ravel().tolist())
        return {name: found[name] for name in ENDS}

    @property
    def labels(self) -> np.ndarray:
        """Both in one word: "+oracle", "−swapped", "undecided"."""
        return np.asarray(np.char.add(np.array(["−", "", "+"])[self.sign + 1], self.end))

    def __str__(self) -> str:
        """How many runs have each end, in words."""
        return ", ".join(f"{n} {ENDS[name]}" for name, n in self.counts.items() if n)

    def __repr__(self) -> str:
        return f"Outcome({self})"


def outcome_of(first: Any, second: Any, least: float = 0.0) -> Outcome:
    """The outcome where `first` leads to the oracle, `second` to the swapped minimum.

    The larger in size wins, if it is above `least`; neither at an exact tie, where one is not a
    number, or where both are near 1, as at the third minimum, which a large λ has instead.
    """
    one, other = np.broadcast_arrays(first, second)
    apart = np.minimum(np.abs(one), np.abs(other)) <= SETTLED
    to_oracle = apart & (np.abs(one) > np.abs(other)) & (np.abs(one) > least)
    to_swapped = apart & (np.abs(other) > np.abs(one)) & (np.abs(other) > least)
    end = np.where(to_oracle, "oracle", np.where(to_swapped, "swapped", "undecided"))
    sign = np.where(to_oracle, np.sign(one), np.where(to_swapped, np.sign(other), 0.0)).astype(int)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is 0 here
        margin = np.asarray(np.log(np.abs(one)) - np.log(np.abs(other)))
    return Outcome(end, sign, np.where(np.abs(one) == np.abs(other), 0.0, margin))


def ended(kappa: Any, nu: Any, eta: Any) -> Outcome:
    """The outcome of runs that are at these places.

    κ is not asked for, as it may still be growing at the oracle; but where it is learned with the
    other sign, next to the sources ±(1, −1), a run has not come to an end.
    """
    kappa, nu, eta = (np.asarray(x) for x in (kappa, nu, eta))
    wrong = (kappa * nu < 0.0) & (np.abs(kappa) > SETTLED)
    return outcome_of(np.where(wrong, np.nan, nu), eta, least=SETTLED)


class Ways(eqx.Module):
    """The flow around the origin: two ways out, along (κ, ν) and (θ, η), and ρ, which falls.

    Attributes:
        q: ``4γ²p/√π``, at which κ and ν, and θ and η, drive each other.
        slope: σ₁ = ν/κ and σ₂ = η/θ along which they grow.
        growth: r₁, r₂.
        decay: d₁, d₂, across.
        fall: r_ρ = 2k, of ρ.
        k: half of that.
        cubic: g₃, of κθρ in the risk; what it has of κηρ, s² times as much, is left out.
    """

    q: Array
    slope: tuple[Array, Array]
    growth: tuple[Array, Array]
    decay: tuple[Array, Array]
    fall: Array
    k: Array
    cubic: Array


def ways_of(task: Law, lam: Array) -> Ways:
    """`Ways`, unchecked."""
    p, narrow, twice = scales(task, lam)
    q = 2.0 * twice * p / math.sqrt(math.pi)
    zero = jnp.zeros_like(lam)
    of = pieces(task, zero, lam)
    e1, z2, others = of.e[1], of.z[2], task.length - 1
    d, gs = task.signal, task.gamma * of.s
    bend = 2.0 * d**2 * zeta_of(zero, of.s) / jnp.where(q > 1e-100, q, 1.0)  # 0/0 is 0 here
    bends = 2.0 * narrow / math.sqrt(math.pi), bend
    slopes = tuple(0.5 * (b + jnp.sqrt(b**2 + 4.0)) for b in bends)
    k = 2.0 * (gs**2 * z2 + of.k + 2.0 * others * of.c * gs * e1)
    cubic = 2.0 * lam * d**2 * (others * of.c * e1 + gs * z2)
    return Ways(
        q=q,
        slope=(slopes[0], slopes[1]),
        growth=(q / slopes[0], q / slopes[1]),
        decay=(q * slopes[0], q * slopes[1]),
        fall=2.0 * k,
        k=k,
        cubic=cubic,
    )


def _parts(x: State, ways: Ways) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """C₁, C₂ along the two ways and D₁, D₂ across."""
    s1, s2 = ways.slope
    n1, n2 = jnp.sqrt(1.0 + s1**2), jnp.sqrt(1.0 + s2**2)
    along = (x.kappa + s1 * x.nu) / n1, (x.theta + s2 * x.eta) / n2
    return along, ((s1 * x.kappa - x.nu) / n1, (s2 * x.theta - x.eta) / n2)


@pointwise
def first_order(task: Law, x: State, lam: Array) -> tuple[Array, Array]:
    """C₁ and C₂, of first order in the scalars."""
    return _parts(x, ways_of(task, lam))[0]


@pointwise
def second_order(task: Law, x: State, lam: Array) -> tuple[Array, Array]:
    """P₁ and P₂, of second order in the scalars where ρ falls faster than they grow."""
    ways = ways_of(task, lam)
    both, across = _parts(x, ways)
    norm = jnp.sqrt((1.0 + ways.slope[0] ** 2) * (1.0 + ways.slope[1] ** 2))
    k, whole = ways.k, ways.cubic + ways.k
    # Where ρ does not fall that fast the law is worse than the first order's.
    valid = ways.fall > jnp.maximum(*ways.growth)
    rho = jnp.where(valid, x.rho / norm, 0.0)
    found = []
    for own, other in ((0, 1), (1, 0)):
        rates = ways.growth[own] + ways.fall
        growth = jnp.where(valid, rates - ways.growth[other], 1.0)
        mine, its = ways.slope[own], ways.slope[other]
        along = both[other] * (whole + mine * its * k) / growth
        turned = across[other] * (whole * its - mine * k) / (rates + ways.decay[other])
        found.append(both[own] - rho * (along + turned))
    return found[0], found[1]


@pointwise
def _ways(task: Law, lam: Array) -> Ways:
    return ways_of(task, lam)


def outcome(
    task: Task, start: State, lam: Any, order: int = 2, horizon: Any = None, *, lr: Any = None
) -> Outcome:
    r"""Whether projected gradient descent ends at the oracle or at the swapped minimum.

    From a start near the origin two motions grow, at almost the same rate for small λ:
    ``C₁ = (κ + σ₁ν)/√(1 + σ₁²)`` towards ±(k*, v*), and ``C₂ = (θ + σ₂η)/√(1 + σ₂²)`` towards the
    swapped minimum. Of first order the larger |C| wins. Of second order ρ, which decays, has mixed
    them before: with ``r_ρ = 2k``, ``D₂ = (σ₂θ − η)/n₂``, ``n_i = √(1 + σ_i²)``

    ``P₁ = C₁ − ρ/(n₁n₂) {C₂ (g₃ + k + σ₁σ₂k)/(r₁ + r_ρ − r₂)
    + D₂ [(g₃ + k)σ₂ − σ₁k]/(r₁ + r_ρ + d₂)}``,

    P₂ likewise, and the larger |P| wins. Where ρ does not decay faster than the others grow (as at
    L = 2, or for tiny λ) that is no better than the first order, which is taken instead.

    Both laws are those of a start within the linear regime and of γ² about ½: of starts from
    `sphere`, of size 1/√d, at d = 400, L = 10 and λ = 0.1, 97 to 98 % are told right; of starts
    twice as large 92 %, four times 80 %; at γ = 2 97 %, but 83 % at λ = 0.2 and 67 % at 0.3.
    Elsewhere give a `horizon`, of 6 for example.

    Args:
        task: the data law.
        start: where the runs start.
        lam: λ, or a schedule such as `decay`. A constant λ must be at most `critical_lam`, above
            which the oracle is no minimum and runs end at neither of the two; a schedule is taken
            to come below it.
        order: 2 or 1, of the law by which starts are told; with a horizon nothing depends on it.
        horizon: a time, step size times steps, for which the runs are trained first; from where
            they are then the first order decides, or above λ = 0.3 the larger of |ν| and |η|. 4/q
            with ``q = 4γ²p/√π`` is enough for a constant λ up to 0.3 (q = 1.59 at d = 400,
            λ = 0.1). Above it the linear regime is smaller than a random start, at every d, so
            that a horizon of 16 is taken unless given; for a schedule too.
        lr: α of that training; needed with a schedule, whose λ depends on the step, and else as
            small as the fastest rates need, at most 4e-3.

    Returns:
        An `Outcome`; no probabilities, but a margin.

    Reference: derived for this package.

    >>> from solvable import single_location as sl
    >>> setting = sl.published("7b")
    >>> found = outcome(setting.task, setting.start, setting.lam)
    >>> print(found)
    16 at the oracle, 14 at the swapped minimum
    >>> found.labels[[5, 3, 12]].tolist(), found.margin[:2].round(2).tolist()
    (['+oracle', '+swapped', '−oracle'], [-3.14, -1.63])
    """
    check_task(task)
    if not isinstance(start, State):
        raise ValueError(f"start must be a single_location.State, not {type(start).__name__}")
    check_runs(start)
    order = validation.whole("order", order, 1, 2)
    rate = None if lr is None else float(check_rate(lr))
    lam = lam if callable(lam) else validation.floating("lam", lam)
    validation.concrete("task, start and lam", task, start, lam, why="ends are told apart")
    schedule = schedule_of(lam)
    # λ where it is constant.
    fixed = schedule.first if isinstance(schedule, Decay) and not float(schedule.rate) else None
    small = fixed is not None and float(fixed) <= MAX_LINEAR
    if fixed is not None and not small:
        _refuse_large(task, float(fixed))
    if horizon is None and fixed is not None and small:
        law = second_order if order == 2 else first_order
        return outcome_of(*law(law_of(task), start, spread(fixed, start.runs)))
    time = _time(LATE if horizon is None else horizon)
    if rate is None:
        if fixed is None:
            raise ValueError("lr must be given with a schedule, in which λ depends on the step")
        rate = _rate(task, fixed)
    if horizon is None and time > MAX_STEPS * rate:
        raise ValueError(
            f"horizon must be given: {time:g}, which is taken for a schedule and for λ above "
            f"{MAX_LINEAR:g}, is {time / rate:.1e} steps at lr = {rate:.1e}; at most "
            f"{MAX_STEPS * rate:.1e}, of {MAX_STEPS} steps, can be"
        )
    x, last = _trained(task, start, schedule, time, rate)
    if last > MAX_LINEAR:
        return outcome_of(x.nu, x.eta)
    return outcome_of(*first_order(law_of(task), x, np.full(start.runs, last)))


def _refuse_large(task: Task, lam: float) -> None:
    """At a large constant λ there are not these two ends."""
    most = critical_lam(task)
    if lam > most:
        raise ValueError(
            f"lam must be at most critical_lam(task) = {most:.6g}, not {lam:.6g}: above it the "
            "oracle is no minimum, and runs end neither there nor at the swapped minimum"
        )


def _time(horizon: Any) -> float:
    """A time from 0 on."""
    value = validation.floating("horizon", horizon)
    validation.shaped("horizon", value, ())
    validation.within("horizon", value, 0.0, 1e12)
    return float(value)


def _rate(task: Task, lam: Array) -> float:
    """A step size at which what decays fastest does so without oscillating."""
    ways = _ways(law_of(task), lam)
    fastest = max(float(x) for x in (*ways.decay, ways.fall))
    if float(lam) > MAX_LINEAR:  # away from the origin, D²ζ with ζ up to 1
        fastest = max(fastest, 0.5 * task.dim)
    return min(PUBLISHED_RATE, STABLE / fastest)


def _trained(
    task: Task, start: State, schedule: Any, time: float, lr: float
) -> tuple[State, float]:
    """Where the runs are after some time, and λ then."""
    from ..reduced import train  # which is built on this theory

    steps = math.ceil(time / lr - 1e-9)
    if steps > MAX_STEPS:
        raise ValueError(
            f"horizon must be at most {MAX_STEPS * lr:.3g} with lr = {lr:.3g}, {MAX_STEPS} steps, "
            f"not {time:.3g}"
        )
    run = train(task, start, lam=schedule, lr=lr, steps=steps, log_every=max(1, steps))
    x = State.raw(*(np.asarray(getattr(run, name))[..., -1] for name in NAMES))
    return x, float(run.lam[-1])
