"""Five scalars are the whole dynamics: step by step for gradient descent, in law for SGD."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import ks_2samp

from solvable import single_location as sl
from solvable import training
from solvable.compiling import _state
from solvable.single_location import reduced, state

pytestmark = pytest.mark.slow

NAMES = ("kappa", "nu", "theta", "eta", "rho")
TASK = sl.Task(dim=400, length=10)
PLACE = (0.3, 0.5, -0.1, 0.2, 0.15)
X = sl.State(*([x, x] for x in PLACE))  # two runs everywhere: one shape, one compilation
# Published settings: start, λ, step size.
PGD = {
    "4b": (sl.manifold(TASK, runs=2), 0.1, 4e-3),
    "7a": (sl.sphere(TASK, runs=2), 0.9, 1e-3),
    "7b": (sl.sphere(TASK, runs=2), 0.1, 4e-3),
}


def scalars_at(run, point):
    return [float(np.asarray(getattr(run, name))[0, point]) for name in NAMES]


@pytest.mark.parametrize(
    ("lam", "after"),
    [
        (
            0.1,
            (
                0.29337101265558674,
                0.5029621713155065,
                -0.07312228391094078,
                0.20181900114371404,
                0.16687417909805835,
            ),
        ),
        (
            0.7,
            (
                0.29593354115142295,
                0.5080779030913308,
                -0.018177871517254418,
                0.2121308321721402,
                0.2235104714047767,
            ),
        ),
    ],
)
def test_one_step_is_the_known_one(lam, after):
    run = sl.train(TASK, X, lam=lam, lr=4e-3, steps=1)
    np.testing.assert_allclose(scalars_at(run, 1), after, rtol=1e-12)
    assert scalars_at(run, 0) == [0.3, 0.5, -0.1, 0.2, 0.15]


def test_a_thousand_steps_are_the_known_ones():
    run = sl.train(TASK, X, lam=0.1, lr=4e-3, steps=1000)
    after = (0.7191098720834547, 0.9976799843284601, -0.004116823056625479)
    after += (0.057843028859456996, 0.048393937983772096)
    np.testing.assert_allclose(scalars_at(run, -1), after, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("figure", PGD)
def test_the_five_scalars_are_the_vectors_in_all_of_space(figure):
    start, lam, lr = PGD[figure]
    options = {"lam": lam, "lr": lr, "steps": 5000, "log_every": 500}
    few, full = sl.train(TASK, start, **options), sl.train_brute(TASK, start, **options)
    for name in (*NAMES, "loss", "distance"):
        np.testing.assert_allclose(getattr(few, name), getattr(full, name), rtol=0, atol=1e-10)
    loss = np.asarray(few.loss)
    assert np.max(np.abs(loss[:, -1] - loss[:, 0])) > 0.4  # else nothing was compared


@pytest.mark.slow
def test_past_the_edge_of_stability_only_even_quantities_agree():
    """Fig. 4a: a chaotic stretch after step 500 flips signs; |κ|, |ν|, risk and distance agree."""
    start, options = sl.sphere(TASK, runs=2), {"lam": sl.decay(1.0, 1e-4), "lr": 4e-3}
    few = sl.train(TASK, start, steps=450, **options)
    full = sl.train_brute(TASK, start, steps=450, **options)
    for name in NAMES:
        np.testing.assert_allclose(getattr(few, name), getattr(full, name), rtol=0, atol=1e-10)
    few = sl.train(TASK, start, steps=8000, log_every=1000, **options)
    full = sl.train_brute(TASK, start, steps=8000, log_every=1000, **options)
    for name in ("kappa", "nu", "loss", "distance"):
        seen, true = (np.abs(np.asarray(getattr(run, name))[:, 6:]) for run in (few, full))
        np.testing.assert_allclose(seen, true, rtol=0.02, err_msg=name)


def test_the_manifold_is_never_left():
    for seed in range(4):
        start = sl.manifold(TASK, runs=2, seed=seed)
        run = sl.train(TASK, start, lam=0.1, lr=4e-3, steps=20_000, log_every=4000)
        assert np.max(run.distance) <= 1e-15
        assert np.all(np.asarray(run.kappa)[:, -1] * np.asarray(run.nu)[:, -1] > 0.0)


def test_state_lambda_and_risk_are_those_of_one_step():
    run = sl.train(TASK, X, lam=sl.decay(1.0, 0.5), lr=1e-3, steps=4, log_every=1)
    np.testing.assert_allclose(run.lam, 1.0 / (1.0 + 0.5 * np.arange(5)), rtol=1e-15)
    for k in range(5):
        x = sl.State(*scalars_at(run, k))
        true = sl.excess_risk(TASK, x, np.asarray(run.lam)[k])
        np.testing.assert_allclose(np.asarray(run.loss)[:, k], true, rtol=1e-13)


def test_ctrl_c_keeps_what_there_is():
    def stop(step, of):
        raise KeyboardInterrupt

    with pytest.raises(training.Interrupted) as caught:
        sl.train(TASK, X, lam=0.1, lr=1e-3, steps=10**7, progress=stop)
    assert 0 < caught.value.run.step[-1] < 10**7


# Settings at which the α² terms of the orthogonal directions matter: task, λ, α, steps.
CHAINS = {
    "dim 20": (sl.Task(20, 5, noise=0.1), 0.5, 3e-2, 60),
    "dim 6": (sl.Task(6, 5, noise=0.3), 0.7, 5e-2, 30),
}
BATCH = 5
REPLICAS = 3000


def asked(setting):
    """Task, start and options of a setting."""
    task, lam, lr, steps = CHAINS[setting]
    start = sl.State(*(np.full(REPLICAS, x) for x in PLACE))
    options = {"lam": lam, "lr": lr, "batch": BATCH, "steps": steps, "log_every": steps // 3}
    return task, start, options


def on_tokens(task, start, *, lam, lr, batch, steps, log_every):
    """SGD of the vectors on tokens, in numpy: the five scalars at the log points."""
    rng, gamma = np.random.default_rng(0), float(task.gamma)
    k, v = (np.asarray(x) for x in state.vectors(task, start))
    log = {name: [np.asarray(getattr(start, name))] for name in NAMES}
    for step in range(1, steps + 1):
        x = rng.standard_normal((REPLICAS, batch, task.length, task.dim))
        x[:, :, 0] *= gamma  # the informative token; the predictor treats all alike
        x[:, :, 0, 0] += task.signal
        y = x[:, :, 0, 1] + float(task.noise) * rng.standard_normal((REPLICAS, batch))
        score, value = (np.einsum("rbld,rd->rbl", x, place) for place in (k, v))
        miss = np.sum(erf(lam * score) * value, axis=2) - y
        slope = 2.0 / np.sqrt(np.pi) * lam * np.exp(-((lam * score) ** 2)) * value
        moved = []
        for place, weight in ((k, slope), (v, erf(lam * score))):
            push = np.einsum("rbl,rbld->rd", 2.0 / batch * miss[:, :, None] * weight, x)
            push -= np.sum(push * place, axis=1, keepdims=True) * place
            place = place - lr * push
            moved.append(place / np.linalg.norm(place, axis=1, keepdims=True))
        k, v = moved
        if step % log_every == 0:
            now = (k[:, 0], v[:, 1], v[:, 0], k[:, 1], np.sum(k * v, axis=1))
            for name, scalar in zip(NAMES, now, strict=True):
                log[name].append(scalar)
    return {name: np.stack(points, axis=1) for name, points in log.items()}


def scalars_of(run):
    return {name: np.asarray(getattr(run, name)) for name in NAMES}


# Two oracles of their own: the library's brute force, and plain numpy.
TOKENS = {
    "dim 20": on_tokens,
    "dim 6": lambda task, start, **options: scalars_of(sl.train_brute(task, start, **options)),
}


def smallest_p(one, other):
    tests = [ks_2samp(one[name][:, k], other[name][:, k]) for name in NAMES for k in range(1, 4)]
    return min(test.pvalue for test in tests), len(tests)


@pytest.mark.slow
@pytest.mark.parametrize("setting", CHAINS)
def test_the_chain_is_sgd_in_law(setting, monkeypatch):
    """Five scalars at three times against SGD on tokens; without the Wishart terms it is not."""
    task, start, options = asked(setting)
    full = TOKENS[setting](task, start, **options)
    p, count = smallest_p(scalars_of(sl.train(task, start, **options)), full)
    assert p > 0.01 / (count * len(CHAINS))

    draw = reduced.ChainSupply._draw

    def without_the_rest(supply, chunk):
        normal, chi = draw(supply, chunk)
        normal[:, -1] = 0.0
        return normal, np.zeros_like(chi)

    monkeypatch.setattr(reduced.ChainSupply, "_draw", without_the_rest)
    p, _ = smallest_p(scalars_of(sl.train(task, start, **options)), full)
    assert p < 1e-6


def test_draws_do_not_depend_on_where_a_run_stops():
    task, lam, lr, _ = CHAINS["dim 6"]
    start, options = sl.sphere(task, runs=4), {"lam": lam, "lr": lr, "batch": 2, "log_every": 100}
    short = sl.train(task, start, steps=1100, **options)
    long = sl.train(task, start, steps=2300, **options)
    resumed = sl.train(task, start, steps=2300, resume=short, **options)
    np.testing.assert_array_equal(short.rho, np.asarray(long.rho)[:, : short.rho.shape[1]])
    np.testing.assert_array_equal(resumed.rho, long.rho)


def test_one_token_is_enough_for_sgd():
    """Then there are no distractors to sum over."""
    task = sl.Task(40, 1)
    run = sl.train(task, sl.sphere(task, runs=4), lam=0.3, lr=1e-2, batch=2, steps=300)
    assert run.status == "ok"
    loss = np.asarray(run.loss)
    assert np.all(loss[:, -1] < 0.8 * loss[:, 0])


def test_a_new_task_or_number_of_runs_compiles_nothing():
    options = {"lam": 0.1, "lr": 1e-3, "steps": 4}
    task = sl.Task(dim=30, length=5)
    for batch in (None, 2):
        sl.train(task, sl.sphere(task, runs=4), batch=batch, **options)
    compiled = _state["compiled"]
    other = sl.Task(dim=90, length=5, gamma=0.9, noise=0.1)
    for batch in (None, 2):
        three = sl.train(other, sl.sphere(other, runs=3), batch=batch, **options)
        assert three.loss.shape == (3, 5)
    long = sl.Task(dim=30, length=70)
    sl.train(long, sl.sphere(long, runs=3), **options)
    assert _state["compiled"] == compiled


def test_runs_side_by_side_draw_what_they_draw_alone():
    """Three runs are computed as four; their random numbers are still those of three."""
    task, _, lr, _ = CHAINS["dim 6"]
    three = reduced.ChainSupply(task, None, jnp.asarray(lr), 2, runs=3, seed=0)
    four = three.chosen(np.array([0, 1, 2, 2]))
    for one, other in zip(three._draw(0), four._draw(0), strict=True):
        np.testing.assert_array_equal(one, other[..., :3])


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": 3}, "task must be"),
        ({"start": 0.3}, "start must be"),
        ({"lam": 0.0}, "lam must lie in"),
        ({"lam": lambda step: jnp.ones(2)}, "lam must give one number"),
        ({"lam": lambda step: max(0.1, 1 - step / 10)}, "lam must be a number or a function"),
        ({"lam": lambda step: -0.1}, "lam must lie in"),
        ({"lam": lambda step: 0.5 - 0.2 * step.astype(float), "steps": 5}, "lam must lie in"),
        ({"lam": lambda step: step > 0}, "lam must give a number, not bool"),
        ({"batch": 10**12}, "batch must be smaller than"),
        ({"lr": -1.0}, "lr must lie in"),
        ({"steps": 1.5}, "steps must be"),
        ({"batch": 0}, "batch must be"),
        ({"seed": -1}, "seed must be"),
        ({"task": sl.Task(5, 3), "batch": 2}, "dim must be at least 6 for SGD"),
    ],
)
def test_bad_input_is_one_sentence(options, words):
    given = {"task": TASK, "start": X, "lam": 0.1, "lr": 1e-3, "steps": 2} | options
    with pytest.raises(ValueError, match=words) as caught:
        sl.train(given.pop("task"), given.pop("start"), **given)
    assert "\n" not in str(caught.value)
