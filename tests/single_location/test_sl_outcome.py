"""Where a run will end: the laws against a second variation of the flow, and against runs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from solvable import single_location as sl
from solvable.single_location.state import NAMES
from solvable.single_location.task import law_of
from solvable.single_location.theory import _outcome

TASK = sl.Task(400, 10)


def of(state, runs):
    """Some of the runs."""
    return sl.State(*(np.asarray(getattr(state, name))[runs] for name in NAMES))


def laws(task, state, lam):
    """C₁, C₂, P₁, P₂."""
    given = law_of(task), state, np.full(state.runs, lam)
    return np.stack([*_outcome.first_order(*given), *_outcome.second_order(*given)], axis=-1)


def test_the_rates_around_the_origin_are_those_worked_out_elsewhere():
    ways = _outcome.ways_of(law_of(TASK), jnp.asarray(0.1))
    told = {
        "k": (ways.k, 2.47644772814),
        "g3": (ways.cubic, 50.1526345357),
        "r_rho": (ways.fall, 4.95289545629),
        "d1": (ways.decay[0], 3.26794103159),
        "d2": (ways.decay[1], 3.28809418013),
        "r1": (ways.growth[0], 0.771515275473),
        "r2": (ways.growth[1], 0.766786559965),
        "s1": (ways.slope[0], 2.05809226786),
        "s2": (ways.slope[1], 2.07078436933),
        "q": (ways.q, 1.58784962299),
    }
    for found, wanted in told.values():
        assert float(found) == pytest.approx(wanted, rel=1e-11)  # all digits that are given
    assert float(ways.growth[0]) == pytest.approx(float(sl.saddle(TASK, 0.1).growth), rel=1e-13)
    assert float(ways.growth[1]) == pytest.approx(float(sl.origin_growth(TASK, 0.1)), rel=1e-13)


def test_the_laws_of_two_published_starts_are_those_worked_out_elsewhere():
    found = laws(TASK, of(sl.published("7b").start, [0, 5]), 0.1)
    wanted = [
        [-0.00509842625454, 0.0807718807527, -0.00338113882897, 0.0777621123251],
        [0.0212712057191, -0.000605754711327, 0.0172442053756, 0.000370544063349],
    ]
    assert found == pytest.approx(np.array(wanted), rel=1e-11)
    told = sl.outcome(TASK, of(sl.published("7b").start, [0, 5]), 0.1)
    assert told.labels.tolist() == ["+swapped", "+oracle"]
    assert told.margin == pytest.approx([math.log(abs(w[2] / w[3])) for w in wanted], rel=1e-9)


@pytest.fixture(scope="module")
def derivatives():
    """The first and second derivatives of the flow at the origin, by automatic differentiation."""

    def field(task, lam, x):
        velocity = sl.flow_field(task, sl.State.raw(*x), lam)
        return jnp.stack([getattr(velocity, name) for name in NAMES])

    def both(task, lam):
        zero = jnp.zeros(5)
        at = (lambda x: field(task, lam, x),)
        return np.asarray(jax.jacfwd(*at)(zero)), np.asarray(jax.jacfwd(jax.jacfwd(*at))(zero))

    return both


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "lam"), [(TASK, 0.1), (sl.Task(80, 10, gamma=0.9), 0.3), (sl.Task(4000, 50), 0.05)]
)
def test_the_second_order_is_the_second_variation_of_the_flow(derivatives, task, lam):
    """With y' = Ay and z' = Az + ½B(y, y): what y + z has of a way out, relative to its growth.

    A and B are read off the exact velocities, and the integral over time is done by a rule.
    """
    a, b = derivatives(task, lam)
    ways = _outcome.ways_of(law_of(task), jnp.asarray(lam))
    assert float(ways.fall) > max(map(float, ways.growth))
    # The risk's −2γ²s²ρη E″ has a part of κηρ, which the law leaves out: E‴(0) = −4/(√π u³).
    s2 = (lam * float(task.gamma)) ** 2
    left = 8.0 * float(task.gamma) ** 2 * s2 * lam * task.signal
    left /= math.sqrt(math.pi) * (1.0 + 2.0 * s2) ** 1.5
    less = b.copy()
    for i, j, k in ((0, 3, 4), (0, 4, 3), (3, 0, 4), (3, 4, 0)):
        less[i, j, k] += left
    one, other = (np.array([1.0, float(s)]) / math.hypot(1.0, float(s)) for s in ways.slope)
    out = np.zeros((2, 5))
    out[0, :2], out[1, 2:4] = one, other  # (κ, ν) and (θ, η)
    assert out @ a == pytest.approx(np.array(ways.growth)[:, None] * out, abs=1e-10)
    starts = np.random.default_rng(3).uniform(-0.1, 0.1, (4, 5))
    node, weight = np.polynomial.legendre.leggauss(60)
    end = 40.0 / float(ways.fall)
    whole, wanted = starts @ out.T, starts @ out.T
    for at, share in zip(0.5 * end * (node + 1.0), 0.5 * end * weight, strict=True):
        y, factor = starts @ expm(a * at).T, share * np.exp(-np.array(ways.growth) * at)
        whole = whole + factor * (0.5 * np.einsum("ijk,rj,rk->ri", b, y, y) @ out.T)
        wanted = wanted + factor * (0.5 * np.einsum("ijk,rj,rk->ri", less, y, y) @ out.T)
    state = sl.State.raw(*starts.T)
    found = laws(task, state, lam)
    assert found[:, :2] == pytest.approx(starts @ out.T, abs=1e-14)
    assert found[:, 2:] == pytest.approx(wanted, abs=1e-10)
    change = np.abs(found[:, 2:] - found[:, :2]).max()
    assert change > 1e-4  # there is something to be told
    assert np.abs(whole - found[:, 2:]).max() < 2.0 * s2 * change  # and little left out


@pytest.mark.parametrize(("task", "lam"), [(sl.Task(400, 2), 0.1), (sl.Task(9, 1), 0.2)])
def test_where_rho_falls_slowly_the_second_order_is_the_first(task, lam):
    ways = _outcome.ways_of(law_of(task), jnp.asarray(lam))
    assert float(ways.fall) < float(ways.growth[0])
    found = laws(task, sl.sphere(task, 5), lam)
    assert found[:, :2] == pytest.approx(found[:, 2:], abs=1e-14)


@pytest.mark.slow
def test_of_a_thousand_random_starts_97_per_cent_are_told_right():
    start = sl.sphere(TASK, 1000, seed=11)
    true = sl.train(TASK, start, lam=0.1, lr=4e-3, steps=15_000, log_every=15_000).outcome
    assert true.counts["undecided"] <= 2
    told = sl.outcome(TASK, start, 0.1)
    right = told.labels == true.labels
    assert right.mean() >= 0.97
    assert right[np.abs(told.margin) > 1.0].mean() > right[np.abs(told.margin) < 0.25].mean()
    assert (sl.outcome(TASK, start, 0.1, order=1).labels == true.labels).mean() >= 0.93
    # After a short run ρ has decayed: 4/q is 630 steps.
    assert (sl.outcome(TASK, start, 0.1, horizon=4.0 / 1.588).labels == true.labels).mean() > 0.99


def test_minus_k_and_v_end_at_the_flip():
    start = sl.sphere(TASK, 30, seed=2)
    flip = sl.State(*(-np.asarray(getattr(start, n)) for n in NAMES[:4]), start.rho)
    for how in ({}, {"order": 1}, {"horizon": 0.8, "lr": 4e-3}):
        one, other = (sl.outcome(TASK, x, 0.1, **how) for x in (start, flip))
        assert np.array_equal(one.end, other.end)
        assert np.array_equal(one.sign, -other.sign)
        assert one.margin == pytest.approx(other.margin, abs=1e-9)


def test_a_large_lam_is_judged_late_by_the_larger_of_nu_and_eta():
    start = sl.sphere(TASK, 30, seed=2)
    told = sl.outcome(TASK, start, 0.85, lr=4e-3)
    run = sl.train(TASK, start, lam=0.85, lr=4e-3, steps=4000, log_every=4000)
    nu, eta = (np.asarray(x)[:, -1] for x in (run.nu, run.eta))
    assert np.array_equal(told.end == "oracle", np.abs(nu) > np.abs(eta))
    assert told.margin == pytest.approx(np.log(np.abs(nu / eta)))
    schedule = sl.outcome(TASK, start, sl.decay(0.85, 0.0), lr=4e-3)
    assert np.array_equal(schedule.labels, told.labels)


def test_a_third_minimum_at_large_lam_is_neither_of_the_two_ends():
    """All come to it, below the oracle's risk, with |ν|, |η| and |ρ| near 1."""
    start = sl.sphere(TASK, 30, seed=2)
    run = sl.train(TASK, start, lam=1.5, lr=1e-3, steps=30_000, log_every=30_000)
    last = np.stack([np.asarray(getattr(run, name))[:, -1] for name in NAMES])
    speed = sl.flow_field(TASK, sl.State.raw(*last), 1.5)
    assert max(float(abs(getattr(speed, name)).max()) for name in NAMES) < 1e-3  # next to rest
    assert np.abs(last[[1, 3, 4]]).min() > 0.8
    assert np.ptp(np.abs(last), axis=1).max() < 1e-3  # one minimum but for signs
    assert (np.asarray(run.loss)[:, -1] < float(sl.oracle_excess(TASK, 1.5)) - 1.0).all()
    assert run.outcome.counts == {"oracle": 0, "swapped": 0, "undecided": 30}


@pytest.mark.parametrize("lam", [0.95, 1.0, sl.decay(0.95, 0.0)])
def test_above_the_critical_lam_there_are_not_these_ends_and_it_is_refused(lam):
    said = r"lam must be at most critical_lam\(task\) = 0.892438, not .*the oracle is no minimum"
    for how in ({}, {"horizon": 1.0, "lr": 4e-3}):
        with pytest.raises(ValueError, match=said):
            sl.outcome(TASK, sl.State(0.1, 0.1), lam, **how)
    assert float(sl.oracle_growth(TASK, 0.95)[0]) > 0.0 > float(sl.oracle_growth(TASK, 0.85)[0])


def test_the_outcome_of_a_run_is_where_it_is():
    ends = sl.State([1.0, -0.4, 0.0, 0.1], [1.0, -1.0, 0.0, 0.1], [0, 0, -0.6, 0], [0, 0, -1.0, 0])
    run = sl.train(sl.Task(400, 10), ends, lam=0.1, lr=4e-3, steps=0)
    found = run.outcome
    assert found.labels.tolist() == ["+oracle", "−oracle", "−swapped", "undecided"]
    assert found.sign.tolist() == [1, -1, -1, 0]
    assert found.counts == {"oracle": 2, "swapped": 1, "undecided": 1}
    assert str(found) == "2 at the oracle, 1 at the swapped minimum, 1 undecided"
    assert repr(found) == f"Outcome({found})"
    assert found.margin[:3].tolist() == [math.inf, math.inf, -math.inf]


def test_next_to_a_source_or_where_nothing_is_known_a_run_is_undecided():
    """±(1, −1) are sources, with the worst risk; but κ may still be small, of the other sign."""
    nan, one = math.nan, np.ones(1)
    found = _outcome.ended([1.0, -0.95, -0.3, nan], [-1.0, 0.95, 0.95, nan], [0.0, 0.1, 0.0, nan])
    assert found.end.tolist() == ["undecided", "undecided", "oracle", "undecided"]
    assert found.sign.tolist() == [0, 0, 1, 0]
    assert np.isnan(found.margin[[0, 1, 3]]).all()
    assert found.margin[2] == math.inf
    tie = _outcome.outcome_of(0.3 * one, -0.3 * one)
    assert (tie.labels.item(), tie.margin.item()) == ("undecided", 0.0)


def test_the_origin_is_undecided():
    found = sl.outcome(TASK, sl.State(0.0, 0.0), 0.1)
    assert (found.labels.item(), found.sign.item(), found.margin.item()) == ("undecided", 0, 0.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"order": 3}, "order must be"),
        ({"lam": 0.0}, "lam must lie in"),
        ({"horizon": -1.0}, "horizon must lie in"),
        ({"horizon": [1.0, 2.0]}, "horizon must"),
        ({"horizon": 1e9}, "horizon must be at most 4e.04 with lr = 0.004"),
        ({"lam": sl.decay(1.0, 1e-4)}, "lr must be given with a schedule"),
        ({"task": sl.Task(400, 1000), "lam": 0.5}, "horizon must be given: 16, .*at most 2.4e.00"),
        ({"task": sl.Task(10**9, 10), "lam": 0.5}, "horizon must be given: 16"),
        ({"start": sl.State([], [])}, "start must have at least one run"),
        ({"start": sl.State([], []), "lam": 0.5}, "start must have at least one run"),
        ({"lam": 0.5, "lr": -1.0}, "lr must lie in"),
        ({"lr": -1.0}, "lr must lie in"),  # where it is not needed, too
    ],
)
def test_what_is_wrong_is_named(given, said):
    with pytest.raises(ValueError, match=said):
        sl.outcome(**({"task": TASK, "start": sl.State(0.1, 0.1), "lam": 0.1} | given))
