"""The optimiser loop: its log, its segments, its stops, and what it compiles."""

import jax
import jax.monitoring
import numpy as np
import optax
import pytest

from solvable import msfr, training

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
        monkeypatch.setattr(training, "_SEGMENT", seconds)
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
    monkeypatch.setattr(training, "_SEGMENT", 0.0)

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
