"""The optimiser loop: its log, its segments, its stops, and what it compiles."""

import jax
import jax.monitoring
import numpy as np
import optax
import pytest

from solvable import deep_icl, descent, msfr, shallow_icl, training
from solvable import single_location as sl
from solvable.deep_icl.model import prepare as deep_brute
from solvable.msfr.reduced import prepare
from solvable.shallow_icl.reduced import prepare as shallow
from solvable.single_location.model import prepare as location_brute
from solvable.single_location.reduced import prepare as location

pytestmark = pytest.mark.slow

TASK = msfr.Task(4, 1.8, 5, 0.5)
INIT = msfr.Init(v=0.1, w=0.11)
SOFTMAX = msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11)
ADAMW = optax.adamw(5e-3)
STEPS, EVERY = 100, 7
KINDS = {
    "linear": (INIT, {"lr": 0.1, "data": 20}),
    "batch": (INIT, {"lr": 0.1, "batch": 8}),
    "seeds": (INIT, {"lr": 0.1, "data": 20, "seed": [0, 1]}),
    "adamw": (SOFTMAX, {"optimizer": ADAMW, "data": 20}),
}
FIELDS = ("loss", "train_loss", "predictions")


def run_of(kind, **options):
    init, settings = KINDS[kind]
    return msfr.train(TASK, init, steps=STEPS, log_every=EVERY, **settings, **options)


def assert_bitwise(one, other):
    np.testing.assert_array_equal(one.step, other.step)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for x, y in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("steps", "every", "points"),
    [
        (10, 5, [0, 5, 10]),
        (10, 4, [0, 4, 8, 10]),
        (3, 9, [0, 3]),
        (3, 2**63, [0, 3]),
        (0, None, [0]),
        (2, 1, [0, 1, 2]),
    ],
)
def test_the_log_has_the_first_and_the_last_step(steps, every, points):
    assert training.log_steps(steps, every).tolist() == points


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (400, 1), (799, 1), (800, 2), (5000, 12)])
def test_by_default_the_log_has_about_400_points(steps, every):
    points = training.log_steps(steps, None)
    assert points[1] - points[0] == every
    assert points[-1] == steps


@pytest.mark.parametrize(
    ("steps", "count", "points"),
    [
        (1000, 4, [0, 1, 10, 100, 1000]),
        (5, 200, [0, 1, 2, 3, 4, 5]),
        (7, 2, [0, 1, 7]),
        (1, 3, [0, 1]),
        (0, 3, [0]),
        (descent._MOST, 2, [0, 1, descent._MOST]),
    ],
)
def test_log_points_are_even_in_log_step(steps, count, points):
    assert training.log_steps(steps, None, count).tolist() == points


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_every": 2, "log_points": 5}, "log_every and log_points cannot both be given"),
        ({"log_points": 1}, "log_points must be a whole number, at least 2, not 1"),
        ({"log_points": 2.5}, "log_points must be a whole number, at least 2, not 2.5"),
        ({"log_points": 10**15}, "log_points must be smaller than 10"),
        ({"at": [0, 5], "log_every": 2}, "at cannot be given with log_every or log_points"),
        ({"at": [0, 5]}, "steps must be 5, the last of at, not 10"),
        ({"at": [1, 10]}, "at must be increasing whole steps, the first 0, not"),
        ({"at": [0, 10, 10]}, "at must be increasing whole steps"),
        ({"at": [0, 2.5, 10]}, "at must be increasing whole steps"),
        ({"at": []}, "at must be increasing whole steps"),
        ({"at": "abc"}, "at must be a number or an array of numbers, not 'abc'"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_log_that_cannot_be_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        prepare(TASK, INIT, lr=0.1).run(steps=10, **options)


def test_the_log_is_where_it_is_asked_for():
    at = [0, 1, 5, 6, 20]
    run = prepare(TASK, INIT, lr=0.1).run(at=at)
    every = msfr.train(TASK, INIT, lr=0.1, steps=20, log_every=1)
    np.testing.assert_array_equal(run.step, at)
    np.testing.assert_array_equal(run.loss, every.loss[np.array(at)])
    few = msfr.train(TASK, INIT, lr=0.1, steps=20, log_points=2)
    np.testing.assert_array_equal(few.step, [0, 1, 20])
    assert len(msfr.train(TASK, INIT, lr=0.1, steps=10**4).step) < 200


@pytest.mark.portable
def test_the_log_is_one_long_run_seen_at_its_points():
    """What is logged at step k is where a run of k steps ends."""
    run = run_of("linear")
    init, settings = KINDS["linear"]
    assert run.step.tolist() == [*range(0, STEPS, EVERY), STEPS]
    np.testing.assert_allclose(run.time, 0.1 * run.step, rtol=1e-15)
    for k in (0, 3, len(run.step) - 1):
        steps = int(run.step[k])
        short = msfr.train(TASK, init, steps=steps, log_every=max(1, steps), **settings)
        assert short.loss[-1] == run.loss[k]
    assert len(set(run.loss.tolist())) == len(run.step)


def test_time_counts_steps_for_other_optimisers():
    run = run_of("adamw")
    np.testing.assert_array_equal(run.time, run.step)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_do_not_depend_on_where_segments_end(kind, monkeypatch):
    runs, looks = [], []
    for seconds in (0.0, 0.1, 10.0):  # single steps; as usual; ever longer segments
        monkeypatch.setattr(descent, "_SEGMENT", seconds)
        seen = []
        runs.append(run_of(kind, progress=lambda step, end, seen=seen: seen.append((step, end))))
        looks.append(seen)
    assert len(looks[0]) > STEPS // 2
    assert len(looks[2]) < 8
    for seen in looks:
        steps = [step for step, _ in seen]
        assert steps == sorted(set(steps))
        assert seen[-1] == (STEPS, STEPS)
    assert_bitwise(runs[0], runs[1])
    assert_bitwise(runs[0], runs[2])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_is_bitwise_the_same_run(kind):
    assert_bitwise(run_of(kind), run_of(kind))


@pytest.mark.parametrize("stop", [0, 35, 38], ids=["at once", "at a log point", "between two"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_bitwise(kind, stop, monkeypatch):
    monkeypatch.setattr(descent, "_SEGMENT", 0.0)

    def press(step, end):
        if step >= stop:
            raise KeyboardInterrupt

    whole = run_of(kind)
    with pytest.raises(training.Interrupted) as caught:
        run_of(kind, progress=press)
    part = caught.value.run
    last = int(part.step[-1])
    assert last >= stop
    assert last < STEPS
    before = whole.step[whole.step < last]
    np.testing.assert_array_equal(part.step, [*before, last])  # no step twice
    for name in FIELDS:
        seen = getattr(part, name)
        assert seen.shape[-1] == len(part.step)
        np.testing.assert_array_equal(
            seen[..., : len(before)], getattr(whole, name)[..., : len(before)]
        )

    resumed = run_of(kind, resume=part)
    assert set(resumed.step) == set(whole.step) | {last}
    assert len(set(resumed.step)) == len(resumed.step)
    kept = np.isin(resumed.step, whole.step)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(resumed, name)[..., kept], getattr(whole, name))
    for x, y in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_finished_run_goes_on_to_more_steps():
    options = {"lr": 0.1, "log_every": 10}
    short = msfr.train(TASK, INIT, steps=50, **options)
    longer = msfr.train(TASK, INIT, steps=100, resume=short, **options)
    assert_bitwise(longer, msfr.train(TASK, INIT, steps=100, **options))
    assert_bitwise(msfr.train(TASK, INIT, steps=100, resume=longer, **options), longer)


def test_interrupted_is_a_keyboard_interrupt():
    assert issubclass(training.Interrupted, KeyboardInterrupt)


def test_new_values_compile_nothing():
    """Rate, exponents, strengths, seed, size, data and start are numbers, not programs."""

    names = []

    def note(event, duration_secs, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about["fun_name"])

    def compiled():
        return names.count("jit(_segment)")

    jax.monitoring.register_event_duration_secs_listener(note)
    options = {"steps": 20, "log_every": 10}
    msfr.train(TASK, INIT, lr=0.1, **options)
    msfr.train(TASK, SOFTMAX, optimizer=ADAMW, **options)
    before = compiled()
    other = msfr.Task(4, 2.1, 5, 0.7, gamma=0.2)
    msfr.train(TASK, INIT, lr=0.05, **options)
    msfr.train(other, msfr.Init(v=0.3, w=[[0.1, 0.2]] * 4), lr=0.1, size=3, **options)
    msfr.train(other, INIT, lr=0.1, data=50, seed=8, **options)
    msfr.train(other, INIT, lr=0.1, steps=40, log_every=20)
    msfr.train(other, msfr.SoftmaxInit(0.2, 0.2, 0.1), optimizer=ADAMW, data=9, seed=1, **options)
    assert compiled() == before
    msfr.train(msfr.Task(13, 1.8, 5, 0.5), INIT, lr=0.1, **options)  # another shape is another one
    assert compiled() == before + 1
    jax.monitoring.unregister_event_duration_listener(note)


def test_a_run_of_another_problem_is_refused_before_anything_is_built():
    run = msfr.train(TASK, INIT, lr=0.1, steps=3)
    words = {"build": lambda: pytest.fail("built"), "label": msfr.Run.of, "lr": 0.1}
    other = training.Training(**words, origin={**run.origin, "kind": "another"})
    with pytest.raises(ValueError, match=r"its kind is msfr\.train, linear, here it is another"):
        other.run(steps=5, resume=run)


def assert_same(one, other, rtol=1e-14):
    """Runs and their states, but for how sums are ordered."""
    assert one.origin == other.origin
    assert jax.tree.structure(one.state) == jax.tree.structure(other.state)
    mine, theirs = ({n: x for n, _, x in training.variables(r)} for r in (one, other))
    mine |= dict(enumerate(jax.tree.leaves(one.state)))
    theirs |= dict(enumerate(jax.tree.leaves(other.state)))
    assert mine.keys() == theirs.keys()
    for name, x in mine.items():
        np.testing.assert_allclose(x, theirs[name], rtol=rtol, atol=0.0, err_msg=str(name))


X = sl.State(kappa=[0.3, 0.1], nu=[0.5, 0.4], theta=[-0.1, 0.0], eta=[0.2, 0.1], rho=[0.15, 0.0])
Y = sl.State(*(0.5 * getattr(X, name) for name in ("kappa", "nu", "theta", "eta", "rho")))
LOCATION = sl.Task(dim=20, length=3)
DEEP = deep_icl.RotatedStructure(nu=1.25, beta=1.0, dim=6, context=7, queries=3)
START = deep_icl.Init(gamma=0.1)


def cooling(step):
    return 0.3 / (1.0 + 0.1 * step.astype(float))


CELLS = {
    "msfr": [
        prepare(msfr.Task(4, alpha, 5, 0.5), INIT, lr=lr, data=20)
        for alpha in (1.5, 1.8, 2.1, 2.5)
        for lr in (0.05, 0.1, 0.2)
    ],
    "msfr, seeds": [prepare(TASK, INIT, lr=lr, batch=4, seed=(0, 1, 2)) for lr in (0.1, 0.2)],
    "adamw": [prepare(TASK, SOFTMAX, optimizer=ADAMW, data=20, seed=s) for s in range(3)],
    "single_location": [
        location(LOCATION, start, lam=lam, lr=1e-2) for start in (X, Y) for lam in (0.1, 0.2, 0.4)
    ],
    "single_location, tokens": [
        location_brute(LOCATION, X, lam=cooling, lr=lr, batch=2, seed=seed)
        for lr, seed in ((1e-3, 0), (1e-2, 0), (1e-2, 1))
    ],
    "shallow_icl": [
        shallow(shallow_icl.Task(3, 7, noise=noise), shallow_icl.separate(2, 1, 0.1), lr=[0.1, 0.2])
        for noise in (0.0, 0.1)
    ],
    "deep_icl": [deep_brute(DEEP, START, depth=2, lr=lr, contexts=4) for lr in (0.05, 0.1, 0.2)],
}
ODD = [
    *CELLS["msfr"][:2],
    location(LOCATION, X, lam=0.1, lr=1e-2, batch=2),
    location(LOCATION, X, lam=0.1, lr=1e-2, batch=2, seed=1),
    prepare(msfr.Task(5, 1.8, 5, 0.5), INIT, lr=0.1),
    prepare(TASK, INIT, optimizer=optax.adam(1e-3)),
    prepare(TASK, INIT, optimizer=optax.adam(1e-2)),
    CELLS["msfr"][5],
]


def segments(monkeypatch):
    """How often training is begun."""
    begun, descend = [], descent.descend
    monkeypatch.setattr(descent, "descend", lambda *a, **k: begun.append(a) or descend(*a, **k))
    return begun


@pytest.mark.parametrize("kind", CELLS)
def test_runs_side_by_side_are_those_alone(kind, monkeypatch):
    begun = segments(monkeypatch)
    together = training.run_all(CELLS[kind], steps=30, log_every=7)
    assert len(begun) == 1
    for run, cell in zip(together, CELLS[kind], strict=True):
        assert_same(run, cell.run(steps=30, log_every=7))
    assert len({float(np.sum(run.loss)) for run in together}) == len(together)


@pytest.mark.parametrize("kind", CELLS)
def test_a_run_of_many_goes_on_alone(kind):
    cell = CELLS[kind][-1]
    part = training.run_all(CELLS[kind], steps=14, log_every=7)[-1]
    assert_same(cell.run(steps=28, log_every=7, resume=part), cell.run(steps=28, log_every=7))


def test_what_is_odd_is_trained_in_turn(monkeypatch):
    begun, seen = segments(monkeypatch), []
    runs = training.run_all(ODD, steps=10, log_points=4, progress=lambda *at: seen.append(at))
    assert len(begun) == 6
    for run, each in zip(runs, ODD, strict=True):
        assert_same(run, each.run(steps=10, log_points=4))
    assert seen[-1] == (60, 60)
    assert seen == sorted(seen)
    assert training.run_all([], steps=10) == []


def test_ctrl_c_keeps_the_runs_of_all_that_was_begun(monkeypatch):
    monkeypatch.setattr(descent, "_SEGMENT", 0.0)

    def press(step, end):
        if step == 10 + 5:
            raise KeyboardInterrupt

    with pytest.raises(training.Interrupted) as caught:
        training.run_all(ODD, steps=10, log_every=1, progress=press)
    runs = caught.value.run
    assert [None if run is None else int(run.step[-1]) for run in runs] == [
        *(10, 10, 5, None, None, None, None, 10)
    ]
    assert_same(
        ODD[2].run(steps=10, log_every=1, resume=runs[2]), ODD[2].run(steps=10, log_every=1)
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (CELLS["msfr"][2], "msfr Run(20 steps to t = 4, 3 points, loss 0.0667 → 0.000239, ok)"),
        (CELLS["msfr, seeds"][0], "msfr Run(3 runs × 20 steps to t = 2, 3 points, mean loss "),
        (
            CELLS["shallow_icl"][0],
            "shallow_icl Run(2 runs × 20 steps to t = 8, 3 points, mean loss",
        ),
        (prepare(TASK, INIT, lr=1e9), "msfr Run(20 steps to t = 2e+10, 3 points, loss "),
    ],
)
def test_a_run_is_told_in_a_line(cell, words):
    run = cell.run(steps=20, log_every=10)
    assert repr(run).startswith(words)
    assert repr(run).endswith(f", {run.status})")
