"""Gradient flow at any times against solvers of the bare equations, closed forms, training."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from solvable import shallow_icl as icl
from solvable.shallow_icl.theory._clock import Clock
from solvable.shallow_icl.theory._flow import _drawn
from solvable.shallow_icl.theory._population import moments_of
from solvable.shallow_icl.theory._slope import Slope

TASK = icl.Task(dim=4, context=31)
SMALL = icl.Task(dim=3, context=9)
# L − L* of D = 4, N = 31 from s₀ = 1e-5, by an explicit method of order 8: good to 4e-8.
EXCESS = {
    20.0: 0.864004859,
    60.0: 0.680028009,
    63.0: 0.487909040,
    70.0: 0.190333693,
    100.0: 0.0465983564,
    200.0: 0.00467030113,
}


def aligned(task, size):
    """One head along the direction that grows first."""
    drive, dim = np.asarray(task.eigenvalues) ** 2, task.dim
    value, inner = np.zeros((1, dim + 1, dim + 1)), np.zeros((1, dim + 1, dim + 1))
    value[0, dim, dim] = size
    inner[0, :dim, :dim] = size * np.diag(drive / np.linalg.norm(drive))
    return icl.given(value, key_query=inner, dim=dim)


def bare(task, start, seed, times):
    """L(t) by a solver of order 8 on ``τ Ẇ = −½ ∂L/∂W``, written out with index sums."""
    spectrum, heads, dim = np.asarray(task.eigenvalues), start.heads, task.dim
    n = task.context
    drawn = start.draw(task, seed)
    v = drawn["value"][:, dim, dim]
    if start.rank is None:
        sides = [drawn["key_query"][:, :dim, :dim]]
    else:
        sides = [drawn[name][:, :, :dim] for name in ("key", "query")]
    gram = (1.0 + 1.0 / n) * spectrum**2 + spectrum.sum() / n * spectrum
    cuts = np.cumsum([heads, *(x.size for x in sides)])[:-1]

    def parts(y):
        v, *rest = np.split(y, cuts)
        return v, *(x.reshape(one.shape) for x, one in zip(rest, sides, strict=True))

    def map_of(v, *rest):
        if len(rest) == 1:
            return np.einsum("h,hde->de", v, *rest)
        return np.einsum("h,hrd,hre->de", v, *rest)

    def velocity(_, y):
        v, *rest = parts(y)
        left = np.diag(spectrum**2) - gram[:, None] * map_of(v, *rest) * spectrum
        if len(rest) == 1:
            moved = [np.einsum("de,hde->h", left, *rest), np.einsum("h,de->hde", v, left)]
        else:
            key, query = rest
            moved = [
                np.einsum("hrd,de,hre->h", key, left, query),
                np.einsum("h,de,hre->hrd", v, left, query),
                np.einsum("h,de,hrd->hre", v, left, key),
            ]
        return np.concatenate([x.ravel() for x in moved])

    begin = np.concatenate([v, *(x.ravel() for x in sides)])
    found = solve_ivp(
        velocity, (0.0, times[-1]), begin, "DOP853", times, rtol=1e-12, atol=1e-16
    )  # the loss by the sum that cancels, not by its gap
    maps = np.array([map_of(*parts(y)) for y in found.y.T])
    square = np.einsum("tde,tde,d,e->t", maps, maps, gram, spectrum)
    return spectrum.sum() - 2.0 * np.einsum("tdd,d->t", maps, spectrum**2) + square


@pytest.mark.parametrize(
    ("start", "seed"),
    [
        (icl.merged(3, 0.05), 0),
        (icl.separate(3, 1, 0.2), 1),
        (icl.separate(2, 2, 0.15), 2),
        (icl.separate(2, 3, 0.3, "B"), 3),
        (icl.separate(2, 1, 0.6), 4),
    ],
    ids=str,
)
def test_losses_are_those_of_a_solver_on_the_bare_equations(start, seed):
    times = np.array([0.0, 1.0, 20.0, 60.0, 120.0, 300.0])
    told, found = bare(SMALL, start, seed, times), icl.flow(SMALL, start, times, seed=seed)
    gap = np.abs(found.loss - told)
    np.testing.assert_array_less(gap, 1e-10 * told)
    np.testing.assert_array_less(gap, 2.0 * found.error * told + 1e-12)  # both solvers err
    assert told[-1] < 0.9 * told[0]  # something was learned


def test_one_head_of_merged_attention_by_all_methods():
    times = np.array(list(EXCESS))
    ways: tuple[Any, ...] = ({"blocks": "aligned"}, {}, {"method": "implicit"})
    for how in ways:
        found = icl.flow(TASK, aligned(TASK, 1e-5), times, **how)
        np.testing.assert_allclose(found.excess, list(EXCESS.values()), rtol=1e-7)
        np.testing.assert_allclose(found.loss - found.excess, 0.13599507, atol=5e-9)
        assert found.error.max() < 1e-8


def test_the_clock_leaves_out_what_is_of_the_order_of_a_small_start():
    times = [30.0, 60.0, 100.0]
    gaps = []
    for scale in (1e-2, 1e-3):
        whole = icl.flow(SMALL, icl.merged(2, scale), times)
        short = icl.flow(SMALL, icl.merged(2, scale), times, blocks="aligned")
        gaps.append(np.abs(whole.loss / short.loss - 1.0).max())
    assert gaps[0] < 1e-2
    assert gaps[1] < 0.15 * gaps[0]


@pytest.mark.parametrize("size", [1e-5, 1e-2, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("context", [1, 31, math.inf])
def test_the_clock_knows_its_error(size, context):
    """From any start, also one that must shrink first, and with a single example in context."""
    spectrum = np.array([0.4, 0.3, 0.2, 0.1])
    ratio = spectrum * (1.0 + 1.0 / context) + 1.0 / context
    drive, floor = spectrum**2, float(np.sum(spectrum - spectrum**2 / ratio))

    def velocity(_, y):
        pull = drive * (1.0 - y[0] * ratio * y[1:])
        return np.append(y[1:] @ pull, y[0] * pull)

    late = 200.0 if size <= 1.0 else 20.0
    times = np.append(0.0, late * np.geomspace(1e-8, 1.0, 30))
    begin = size * np.append(1.0, drive / np.linalg.norm(drive))
    found = solve_ivp(velocity, (0.0, late), begin, "DOP853", times, rtol=1e-12, atol=1e-14 * size)
    told = (1.0 - (found.y[0] * found.y[1:]).T * ratio) ** 2 @ (drive / ratio)
    clock = Clock(drive, drive * ratio, ratio, np.ones(4), size, floor, late)
    excess, off = clock.excess(times)
    scale = floor + told
    np.testing.assert_array_less(np.abs(excess - told), off + 1e-11 * scale)
    if size <= 1.0:
        np.testing.assert_array_less(off, 1e-5 * scale)
        np.testing.assert_array_less(np.abs(excess - told), 2e-7 * scale)


def test_one_level_of_the_clock_is_of_order_two():
    """The next term is of order 4: nothing is odd in a step that is the same backwards."""
    spectrum = np.array([0.5, 0.3, 0.2])
    ratio = spectrum * 1.1 + 0.1
    clock = Clock(spectrum**2, spectrum**2 * ratio, ratio, np.ones(3), 1e-4, 0.1, 100.0)
    levels = [clock.march(level) for level in (60, 120, 240, 480)]
    count = min(x.shape[1] for x in levels)
    times = np.array([x[1, :count] for x in levels])
    gaps = np.abs(np.diff(times, axis=0))[:, count // 2]
    np.testing.assert_allclose(gaps[:-1] / gaps[1:], 4.0, rtol=0.02)
    finer = np.abs(np.diff(4.0 * times[1:] - times[:-1], axis=0))[:, count // 2]
    assert finer[0] / finer[1] == pytest.approx(16.0, rel=0.1)


@pytest.mark.parametrize("size", [1e-3, 0.3, 5.0])
def test_equal_eigenvalues_have_a_closed_form(size):
    """Of aligned weights it is exact at any size: u₀ = s²."""
    white, times = icl.Task(4, 9, "white"), np.array([0.0, 3.0, 30.0, 100.0, 300.0])
    told = np.asarray(icl.white_loss(white, size**2, times))
    found = icl.flow(white, aligned(white, size), times, blocks="aligned")
    np.testing.assert_allclose(found.loss, told, rtol=3e-8)
    np.testing.assert_allclose(icl.flow(white, aligned(white, size), times).loss, told, rtol=1e-11)


def test_one_mode_and_one_example():
    task = icl.Task(1, 1)
    times = np.array([0.0, 2.0, 8.0, 1e6])
    told = np.asarray(icl.white_loss(task, 0.01, times))
    ways: tuple[Any, ...] = ("aligned", "zero")
    for blocks in ways:
        found = icl.flow(task, aligned(task, 0.1), times, blocks=blocks)
        np.testing.assert_allclose(found.loss, told, rtol=1e-9)


@pytest.mark.slow
def test_the_error_of_the_stabilised_method_is_told_and_follows_the_tolerance():
    start, times = icl.separate(3, 1, 0.1), [30.0, 100.0, 300.0, 600.0]
    told, errors = icl.flow(TASK, start, times, seed=1).loss, []
    for size in (1e-4, 1e-5, 1e-6):
        found = icl.flow(TASK, start, times, seed=1, method="chebyshev", tolerance=size)
        assert found.method == "chebyshev"
        gap = np.abs(found.loss / told - 1.0)
        np.testing.assert_array_less(gap, 1.2 * found.error)
        assert found.error.max() < 6.0 * gap.max()  # three times where the order shows
        errors.append(gap.max())
    for ratio in np.divide(errors[:-1], errors[1:]):
        assert 2.5 < ratio < 9.0  # 10^⅔ = 4.6


VARIANTS = {
    "merged": (SMALL, icl.merged(2, 0.7)),
    "rank 1": (SMALL, icl.separate(3, 1, 0.7)),
    "rank 2": (icl.Task(3, 9, basis="random", noise=0.5), icl.separate(2, 2, 0.7)),
    "prior": (icl.Task(3, 9, task_covariance=np.diag([2.0, 1.0, 0.5]) + 0.2), icl.merged(2, 0.7)),
    "outputs": (icl.Task(3, 9, outputs=2), icl.separate(2, 2, 0.7)),
    "outputs, merged": (icl.Task(3, 9, outputs=2, lengths="varied"), icl.merged(2, 0.7)),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_slope_is_minus_half_the_gradient_of_the_loss(name):
    """By differences of order 4 of the loss; where there is one output this is the population's."""
    task, start = VARIANTS[name]
    slope = Slope(moments_of(task), _drawn(task, start, 1.0, 0))
    y, h = slope.start, 1e-3

    def at(shift):
        return np.array([slope.excess(y + shift * row) for row in np.eye(y.size)])

    rise = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h)
    np.testing.assert_allclose(slope.slope(0.0, y), -0.5 * rise, atol=1e-9 * np.abs(rise).max())
    if task.outputs == 1:
        basis = np.eye(3) if task.basis is None else np.asarray(task.basis)
        told = icl.loss(task, basis @ slope.maps(y)[0] @ basis.T)
        assert slope.floor + slope.excess(y) == pytest.approx(float(told), rel=1e-12)


def test_training_tends_to_the_flow():
    """Its gap falls like the rate."""
    start, gaps = icl.separate(2, 1, 0.3), []
    for lr, steps in ((0.02, 1000), (0.01, 2000)):
        run = icl.train(SMALL, start, lr=lr, steps=steps, log_every=steps // 10)
        found = icl.flow(SMALL, start, run.time)
        gaps.append(np.abs(np.asarray(run.loss) / found.loss - 1.0).max())
    assert gaps[0] < 0.02
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.05)


def test_weights_at_the_end_are_those_of_a_run():
    start, task = icl.separate(2, 2, 0.3), icl.Task(3, 9, basis="random")
    found = icl.flow(task, start, [0.0, 50.0], units="code", seed=[3, 5])
    run = icl.train(task, start, lr=1e-3, units="code", steps=5778, log_every=5778, seed=[3, 5])
    assert float(run.time[-1]) == pytest.approx(50.0, abs=5e-3)
    assert found.weights is not None
    for name, end in (("value", run.value), ("key", run.key), ("query", run.query)):
        live = np.asarray(end)[..., -1]
        assert found.weights[name].shape == live.shape
        np.testing.assert_allclose(found.weights[name], live, atol=5e-3 * np.abs(live).max())
    assert found.loss.shape == (2, 2)
    again = icl.flow(task, start, [0.0, 50.0], units="code", seed=5)
    np.testing.assert_array_equal(found.loss[1], again.loss)


def test_times_in_any_order_and_the_start_alone():
    start = icl.separate(2, 1, 0.2)
    found = icl.flow(SMALL, start, [40.0, 0.0, 10.0, 40.0])
    assert found.time.tolist() == [40.0, 0.0, 10.0, 40.0]
    assert found.loss[0] == found.loss[3] < found.loss[2] < found.loss[1]
    begin = icl.flow(SMALL, start, 0.0)
    assert begin.loss.tolist() == [found.loss[1]]
    assert begin.steps == 0
    ways: tuple[Any, ...] = ({}, {"blocks": "aligned"})
    for how in ways:
        first = icl.flow(SMALL, icl.merged(2, 0.2), [0.0], **how)
        assert first.loss.shape == (1,)
        assert np.isfinite(first.loss).all()


@pytest.mark.parametrize("kind", ["merged", "separate"])
def test_at_the_saddle_nothing_ever_moves(kind):
    shape = icl.separate(2, 1, 1.0) if kind == "separate" else icl.merged(2, 1.0)
    zero: Any = {name: 0.0 * x for name, x in shape.draw(SMALL, 0).items()}
    start, ends = icl.given(**zero, dim=3), [0.0, 1.0, 1e300]
    ways: tuple[Any, ...] = ({}, {"blocks": "aligned"})
    for how in ways[: 1 + (kind == "merged")]:
        np.testing.assert_allclose(icl.flow(SMALL, start, ends, **how).loss, 1.0, rtol=1e-15)


def test_too_few_heads_end_at_their_own_floor():
    found = icl.flow(TASK, icl.separate(2, 1, 0.1), [1e5, 1e300])
    np.testing.assert_allclose(found.loss, icl.plateau_loss(TASK, [0, 1]), rtol=1e-12)


@pytest.mark.slow
def test_a_huge_start_comes_back():
    for start in (icl.merged(2, 100.0), icl.separate(2, 1, 20.0)):
        found = icl.flow(SMALL, start, [0.0, 1e-5, 1e-3])
        assert np.all(np.diff(found.loss) < 0.0)
        assert np.isfinite(found.loss).all()
        assert found.loss[0] > 1e3


BAD = [
    ({"times": [-1.0]}, "times"),
    ({"times": [1.0, math.nan]}, "times"),
    ({"times": math.inf}, "times"),
    ({"times": []}, "times"),
    ({"times": [[1.0]]}, "times"),
    ({"start": None}, "start"),
    ({"start": icl.merged(2, 0.1, attention="softmax")}, "attention"),
    ({"start": icl.merged(2, 0.1, zero_blocks=False)}, "zero_blocks"),
    ({"blocks": "all"}, "blocks"),
    ({"start": icl.separate(2, 1, 0.1), "blocks": "aligned"}, "blocks"),
    ({"blocks": "aligned", "method": "implicit"}, "method"),
    ({"blocks": "aligned", "tolerance": 1e-6}, "method and tolerance"),
    ({"method": "euler"}, "method"),
    ({"tolerance": 0.0}, "tolerance"),
    ({"tolerance": [1e-6]}, "tolerance"),
    ({"units": "metres"}, "units"),
    ({"seed": -1}, "seed"),
    ({"task": icl.Task(3, 9, in_context=0.5)}, "in_context"),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("given", "field"), BAD, ids=[f"{n}-{f}" for n, (_, f) in enumerate(BAD)])
def test_what_cannot_be_followed_is_named(given, field):
    asked = {"task": SMALL, "start": icl.merged(2, 0.1), "times": [1.0]} | given
    task, start, times = (asked.pop(name) for name in ("task", "start", "times"))
    with pytest.raises(ValueError, match=rf"\b{field}\b") as error:
        icl.flow(task, start, times, **asked)
    assert "\n" not in str(error.value)


def test_few_heads_end_at_a_plateau_also_with_several_outputs():
    """One value matrix serves all outputs: what ranks do not reach is the same as with one."""
    task = icl.Task(3, 6, outputs=2)
    found = icl.flow(task, icl.separate(1, 1, 0.1), [1e300])
    assert found.loss[0] == pytest.approx(float(icl.plateau_losses(icl.Task(3, 6))[1]), rel=1e-12)
    assert found.evaluations < 20_000  # it knows that this is the end


@pytest.mark.parametrize("size", [1e-10, 1e-100])
def test_keys_far_smaller_than_the_value_grow_in_time(size):
    """``k̇ = v k (1 − v k²)``, ``v² = 1 + k²``, k = q: the time to k = ½ is a quadrature."""
    part = np.array([[[size, 0.0]]])
    start = icl.given(np.diag([0.0, 1.0])[None], key=part, query=part, dim=1)

    def pace(log_k):
        v = math.sqrt(1.0 + math.exp(2.0 * log_k))
        return 1.0 / (v * (1.0 - v * math.exp(2.0 * log_k)))

    first = math.log(size)
    points = [-20.0, -5.0, -2.0]
    time = quad(pace, first, math.log(0.5), epsabs=1e-12, points=points, limit=200)[0]
    told = (1.0 - 0.25 * math.sqrt(1.25)) ** 2
    found = icl.flow(icl.Task(1, math.inf, np.ones(1)), start, time)
    assert found.loss[0] == pytest.approx(told, rel=1e-9)


@pytest.mark.slow
def test_smallest_scales_are_left_in_time():
    """At ln(1/s₀)/‖Λ²‖ = 7.0 t/τ, though s³ is no number."""
    task, times = icl.Task(2, 6, np.array([6.0, 2.0])), [6.8, 7.0, 7.1, 7.3]
    tiny = aligned(task, 1e-110)
    whole, clock = icl.flow(task, tiny, times), icl.flow(task, tiny, times, blocks="aligned")
    assert whole.loss[0] > 7.9
    assert whole.loss[-1] < 4.0
    np.testing.assert_allclose(clock.loss, whole.loss, rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-160, 5e-324])
def test_scales_whose_squares_are_no_numbers_are_refused(scale):
    with pytest.raises(ValueError, match="scale must be at least 1e-140"):
        icl.flow(TASK, icl.merged(1, scale), 1.0)
