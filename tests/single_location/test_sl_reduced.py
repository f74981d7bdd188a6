"""Five scalars are the whole dynamics: step by step for gradient descent, in law for SGD."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from solvable import single_location as sl
from solvable import training
from solvable.single_location import reduced

NAMES = ("kappa", "nu", "theta", "eta", "rho")
TASK = sl.Task(dim=400, length=10)
X = sl.State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15)
# Published settings: start, λ, step size.
PGD = {
    "4b": (sl.manifold(TASK, runs=2), 0.1, 4e-3),
    "7a": (sl.sphere(TASK, runs=2), 0.9, 1e-3),
    "7b": (sl.sphere(TASK, runs=2), 0.1, 4e-3),
}


def scalars_at(run, point):
    return [float(getattr(run, name)[point]) for name in NAMES]


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
    assert np.max(np.abs(few.loss[:, -1] - few.loss[:, 0])) > 0.4  # else nothing was compared


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
        seen, true = (np.abs(getattr(run, name)[:, 6:]) for run in (few, full))
        np.testing.assert_allclose(seen, true, rtol=0.02, err_msg=name)


def test_the_manifold_is_never_left():
    run = sl.train(TASK, sl.manifold(TASK, runs=8), lam=0.1, lr=4e-3, steps=20_000, log_every=4000)
    assert float(jnp.max(run.distance)) <= 1e-15
    assert np.all(run.kappa[:, -1] * run.nu[:, -1] > 0.0)


def test_state_lambda_and_risk_are_those_of_one_step():
    run = sl.train(TASK, X, lam=sl.decay(1.0, 0.5), lr=1e-3, steps=4, log_every=1)
    np.testing.assert_allclose(run.lam, 1.0 / (1.0 + 0.5 * np.arange(5)), rtol=1e-15)
    for k in range(5):
        x = sl.State(*scalars_at(run, k))
        np.testing.assert_allclose(run.loss[k], sl.excess_risk(TASK, x, run.lam[k]), rtol=1e-13)


def test_a_resumed_run_is_the_run():
    small = sl.Task(dim=8, length=3, noise=0.1)
    for more in ({}, {"batch": 2}):
        options = {"lam": sl.decay(1.0, 1e-2), "lr": 1e-2, "log_every": 300, **more}
        start = sl.sphere(small, runs=3)
        whole = sl.train(small, start, steps=1500, **options)
        first = sl.train(small, start, steps=900, **options)
        rest = sl.train(small, start, steps=1500, resume=first, **options)
        np.testing.assert_array_equal(whole.kappa, rest.kappa)
        np.testing.assert_array_equal(whole.loss, rest.loss)


def test_ctrl_c_keeps_what_there_is():
    def stop(step, of):
        raise KeyboardInterrupt

    with pytest.raises(training.Interrupted) as caught:
        sl.train(TASK, X, lam=0.1, lr=1e-3, steps=10**7, progress=stop)
    assert 0 < caught.value.run.step[-1] < 10**7


# Settings at which the α² terms of the orthogonal directions matter.
CHAINS = {
    "dim 20": (sl.Task(20, 5, noise=0.1), 0.5, 3e-2, 5, 60),
    "dim 6": (sl.Task(6, 3, noise=0.3), 0.7, 5e-2, 2, 30),
}
REPLICAS = 3000


def chain_and_tokens(setting, seed=0):
    task, lam, lr, batch, steps = CHAINS[setting]
    start = sl.State(*(np.full(REPLICAS, getattr(X, name)) for name in NAMES))
    options = {"lam": lam, "lr": lr, "batch": batch, "steps": steps, "log_every": steps // 3}
    chain = sl.train(task, start, seed=seed, **options)
    return chain, lambda: sl.train_brute(task, start, seed=seed, **options)


def smallest_p(one, other):
    tests = [
        ks_2samp(np.asarray(getattr(one, name))[:, k], np.asarray(getattr(other, name))[:, k])
        for name in NAMES
        for k in range(1, 4)
    ]
    return min(test.pvalue for test in tests), len(tests)


@pytest.mark.slow
@pytest.mark.parametrize("setting", CHAINS)
def test_the_chain_is_sgd_in_law(setting, monkeypatch):
    """Five scalars at three times against SGD on tokens; without the Wishart terms it is not."""
    chain, tokens = chain_and_tokens(setting)
    full = tokens()
    p, count = smallest_p(chain, full)
    assert p > 0.01 / (count * len(CHAINS))

    right = reduced.sgd_step

    def without_the_rest(task, x, lam, lr, batch, normal, chi):
        gone = jnp.zeros_like(chi)
        return right(task, x, lam, lr, batch, normal.at[-1].set(0.0), gone)

    monkeypatch.setattr(reduced, "sgd_step", without_the_rest)
    monkeypatch.setattr(reduced, "_ENTRIES", 3_000_000)  # a shape of its own is compiled anew
    p, _ = smallest_p(chain_and_tokens(setting)[0], full)
    assert p < 1e-6


def test_draws_do_not_depend_on_where_a_run_stops():
    task, lam, lr, batch, _ = CHAINS["dim 6"]
    start, options = sl.sphere(task, runs=4), {"lam": lam, "lr": lr, "batch": batch}
    short = sl.train(task, start, steps=1100, log_every=100, **options)
    long = sl.train(task, start, steps=2300, log_every=100, **options)
    np.testing.assert_array_equal(short.rho, long.rho[:, : short.rho.shape[1]])


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
