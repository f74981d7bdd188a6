"""The reduced training is the training on tokens: the same trajectory, to round-off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import shallow_icl as icl
from solvable import training

STEPS, P = 50, 200
ROUND_OFF = 1e-10  # the promise; what is seen is 1e-15 to 1e-12
FREE = {"zero_blocks": False}
WEIGHTS = ("value", "key_query", "key", "query", "map")

PLAIN = icl.Task(dim=4, context=31)
MIXED = icl.Task(dim=4, context=31, spectrum="white", in_context=0.4)
NOISE = icl.Task(dim=4, context=31, spectrum="white", in_context=0.0, labels="noise")
TURNED = icl.Task(dim=3, context=15, spectrum="power", exponent=1.5, basis="random", noise=0.1)
VARIED = icl.Task(dim=3, context=7, lengths="varied")
VARIED_M = icl.Task(dim=3, context=7, lengths="varied", normalise="n-1", noise=0.3)
TWO = icl.Task(dim=3, context=9, outputs=2)
PRIOR = icl.Task(dim=3, context=9, task_covariance=np.diag([2.0, 1.0, 0.5]) + 0.2)

# Rates at which the loss at least halves within 50 steps.
CASES = {
    "merged": (PLAIN, icl.merged(8, 0.1, **FREE), "code", 0.005),
    "merged-paper": (PLAIN, icl.merged(8, 0.5, **FREE), "paper", 0.3),
    "separate": (PLAIN, icl.separate(5, 1, 0.1, **FREE), "code", 0.04),
    "rank-2": (PLAIN, icl.separate(5, 2, 0.1, **FREE), "code", 0.04),
    "rank-2-paper": (TURNED, icl.separate(4, 2, 0.6, "B", **FREE), "paper", 0.3),
    "in-weight": (MIXED, icl.merged(8, 0.1, **FREE), "code", 0.005),
    "in-weight-separate": (MIXED, icl.separate(5, 1, 0.1, **FREE), "code", 0.04),
    "varied": (VARIED, icl.merged(4, 0.5, **FREE), "code", 0.3),
    "varied-m": (VARIED_M, icl.separate(4, 2, 0.6, **FREE), "paper", 0.3),
    "two-outputs": (TWO, icl.separate(4, 2, 0.2, **FREE), "code", 0.06),
    "prior": (PRIOR, icl.merged(3, 0.3, **FREE), "code", 0.004),
    "softmax": (PLAIN, icl.merged(3, 0.5, attention="softmax", **FREE), "paper", 0.3),
    "softmax-separate": (TURNED, icl.separate(3, 2, 1.5, attention="softmax"), "code", 0.2),
}


def trained(how, data, start, units, lr, **more):
    return how(data, start, lr=lr, steps=STEPS, units=units, log_every=1, **more)


def worst(run, brute):
    """The largest relative difference of the loss, and of every block in its own scale."""
    errors = {"loss": np.max(np.abs(run.loss / brute.loss - 1.0))}
    for name in WEIGHTS:
        seen, true = getattr(run, name), getattr(brute, name)
        assert (seen is None) == (true is None), name
        if seen is not None:
            assert seen.shape == true.shape
            errors[name] = np.max(np.abs(seen - true)) / np.max(np.abs(true))
    return errors


@pytest.mark.parametrize("case", CASES)
def test_reduction_follows_the_tokens(case):
    task, start, units, lr = CASES[case]
    data = icl.sample(task, P, seed=1)
    run = trained(icl.train, data, start, units, lr)
    brute = trained(icl.train_brute, data, start, units, lr)
    np.testing.assert_array_equal(run.time, brute.time)
    assert max(worst(run, brute).values()) <= ROUND_OFF
    assert run.loss[-1] <= 0.5 * run.loss[0]  # else little was compared


@pytest.mark.parametrize("mistake", ["factor 2", "one 1/N of the tokens", "one 1/N of the rate"])
def test_a_lost_factor_does_not_pass(mistake, monkeypatch):
    task, _, units, lr = CASES["merged"]
    start = icl.merged(7, 0.1, **FREE)  # a shape of its own, or the right program is still there
    data = icl.sample(task, P, seed=1)
    brute = trained(icl.train_brute, data, start, units, lr)
    if mistake == "factor 2":
        right = icl.Statistics.slope
        monkeypatch.setattr(icl.Statistics, "slope", lambda self, tensor: 0.5 * right(self, tensor))
    elif mistake == "one 1/N of the tokens":
        units = "paper"
        start = icl.merged(7, 0.1 * 31**0.5, **FREE)
    else:
        lr = lr / 31
    run = trained(icl.train, data, start, units, lr)
    assert worst(run, brute)["loss"] > 1e-3


def test_test_losses_are_other_moments():
    """In-weight and in-context tests of a mixture, logged beside the training loss."""
    data = icl.sample(MIXED, P, seed=1)
    tests = {
        "in-weight": icl.sample(NOISE, 30, seed=2),
        "in-context": icl.sample(PLAIN, 30, seed=3),
    }
    start, options = icl.merged(4, 0.1), {"lr": 0.01, "steps": 20, "units": "code", "tests": tests}
    run, brute = icl.train(data, start, **options), icl.train_brute(data, start, **options)
    assert list(run.tests) == list(tests)
    for name in tests:
        np.testing.assert_allclose(run.tests[name], brute.tests[name], rtol=ROUND_OFF)


def test_statistics_made_once_serve_as_the_data():
    data = icl.sample(PLAIN, P)
    options = {"lr": 0.01, "steps": 20, "units": "code"}
    start = icl.merged(4, 0.1)
    again = icl.train(icl.statistics(data), start, **options)
    np.testing.assert_array_equal(again.loss, icl.train(data, start, **options).loss)


def test_merged_attention_is_the_mlp_on_cubic_features():
    """On tokens, all blocks free: with antithetic pairs the zero blocks stay zero."""
    data = icl.sample(PLAIN, P, antithetic=True)
    options = {"lr": 0.005, "steps": STEPS, "units": "code", "log_every": 1}
    attention = icl.train_brute(data, icl.merged(6, 0.1), **options)
    mlp = icl.train_brute(data, icl.mlp(6, 0.1), **options)
    np.testing.assert_allclose(attention.loss, mlp.loss, rtol=1e-13)
    np.testing.assert_allclose(attention.map, mlp.map, rtol=0, atol=1e-12)
    assert float(jnp.abs(attention.value[:, :, :4]).max()) <= 1e-16
    reduced = icl.train(data, icl.mlp(6, 0.1), **options)
    assert max(worst(reduced, mlp).values()) <= ROUND_OFF


def test_without_antithetic_pairs_zero_blocks_leak():
    run = icl.train(icl.sample(PLAIN, P), icl.merged(6, 0.1), lr=0.005, steps=STEPS, units="code")
    assert float(jnp.abs(run.value[:, :, :4, -1]).max()) > 1e-3


def test_code_units_are_the_papers_step_by_step():
    data, start = icl.sample(PLAIN, P), {"heads": 3, "rank": 2}
    c = 31 ** (1 / 3)
    code = icl.train(data, icl.separate(**start, scale=0.1), lr=0.05, steps=30, units="code")
    paper = icl.train(
        data, icl.separate(**start, scale=0.1 * c), lr=0.05 * c**2, steps=30, units="paper"
    )
    np.testing.assert_allclose(code.loss, paper.loss, rtol=1e-12)
    np.testing.assert_allclose(code.time, paper.time, rtol=1e-12)
    np.testing.assert_allclose(c * code.key, paper.key, rtol=0, atol=1e-12)
    np.testing.assert_allclose(code.map, paper.map, rtol=0, atol=1e-12)
    np.testing.assert_allclose(code.time[-1], 2 * 30 * 0.05 * c**2, rtol=1e-12)


@pytest.mark.parametrize("task", [PLAIN, TURNED, PRIOR, VARIED, VARIED_M])
def test_the_population_is_the_limit_of_many_sequences(task):
    """The moments of P sequences go to the population's like P^-1/2: the slope, not a value."""
    moments = icl.population(task)
    turn = np.eye(task.dim) if task.basis is None else np.asarray(task.basis)
    gram, cross = (x if x.ndim == 2 else np.diag(x) for x in (moments.gram, moments.cross))
    gram, cross = turn @ gram @ turn.T, turn @ cross @ turn.T
    whole = np.kron(gram, task.covariance)  # features β_d x_e, row by row
    errors = []
    for count in (500, 32000):
        found = [icl.statistics(icl.sample(task, count, seed=seed), "zero") for seed in range(8)]
        errors.append(
            [
                np.mean([np.linalg.norm(s.gram - whole) / np.linalg.norm(whole) for s in found]),
                np.mean([np.linalg.norm(s.cross[0] - cross.ravel()) for s in found]),
            ]
        )
    assert errors[1][0] < 0.05
    slopes = np.log(np.divide(errors[1], errors[0])) / np.log(64)
    np.testing.assert_allclose(slopes, -0.5, atol=0.15)


def test_the_eigenbasis_is_only_another_writing():
    turned = icl.Task(3, 9, [0.6, 0.3, 0.1], basis="random", basis_seed=3)
    start, options = icl.separate(3, 2, 0.4), {"lr": 0.2, "steps": 200}
    run = icl.train(turned, start, **options)
    loss = icl.loss(turned, jnp.moveaxis(run.map, -1, 0))
    np.testing.assert_allclose(run.loss, loss, rtol=1e-12)
    assert run.loss[-1] < 0.5 * run.loss[0]


def test_several_outputs_reach_the_same_map():
    run = icl.train(TWO, icl.merged(4, 0.3), lr=0.5, steps=8000)
    assert run.map is None
    value, inner = run.value[..., 3:, -1], run.key_query[:, :3, :, -1]
    maps = jnp.einsum("hop,hde->opde", value, inner)
    best = icl.converged_map(TWO)
    expected = np.eye(2)[:, :, None, None] * np.asarray(best)[None, None]
    np.testing.assert_allclose(maps, expected, rtol=0, atol=1e-3)
    np.testing.assert_allclose(run.loss[-1], icl.loss(TWO, best), rtol=1e-6)


@pytest.mark.parametrize(("scale", "gap"), [(1e-5, 1e-5), (1e-3, 1e-3)])
def test_merged_attention_is_aligned_after_its_escape(scale, gap):
    """Reduction D against C; the gap is that of the start and falls with its scale."""
    start, options = icl.merged(8, scale), {"lr": 0.031, "steps": 4000}
    whole = icl.train(PLAIN, start, **options)
    aligned = icl.train(PLAIN, start, blocks="aligned", **options)
    assert float(jnp.abs(whole.loss - aligned.loss).max()) < gap
    np.testing.assert_allclose(whole.map[..., -1], aligned.map[..., -1], rtol=0, atol=2e-2)


def test_the_aligned_subspace_is_invariant():
    """From an aligned start the two reductions take the same steps."""
    start = icl.merged(1, 0.1)
    population = icl.population(PLAIN)
    direction = np.asarray(population.cross / jnp.linalg.norm(population.cross))
    aligned = icl.train(PLAIN, start, lr=0.2, steps=300, blocks="aligned")
    s = float(aligned.value[0, 0, -1, 0])
    weights = {"value": np.zeros((1, 5, 5)), "key_query": np.zeros((1, 5, 5))}
    weights["value"][0, 4, 4], weights["key_query"][0, :4, :4] = s, np.diag(s * direction)

    whole = icl.train(PLAIN, icl.given(**weights, dim=4), lr=0.2, steps=300)
    np.testing.assert_allclose(whole.loss, aligned.loss, rtol=1e-12)


def test_runs_side_by_side_are_the_runs_alone():
    start, options = icl.separate(3, 1, 0.3), {"steps": 40, "log_every": 10}
    many = icl.train(PLAIN, start, lr=[0.1, 0.3], seed=[0, 1, 2], **options)
    assert many.loss.shape == (2, 3, 5)
    assert many.time.shape == (2, 5)
    assert many.key.shape == (2, 3, 3, 1, 5, 5)
    alone = icl.train(PLAIN, start, lr=0.3, seed=2, **options)
    np.testing.assert_allclose(many.loss[1, 2], alone.loss, rtol=1e-12)
    np.testing.assert_allclose(many.query[1, 2], alone.query, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(many.time[1], alone.time)


def test_a_resumed_run_is_the_run():
    start, options = icl.separate(3, 1, 0.3), {"lr": 0.2, "log_every": 10}
    data = icl.sample(PLAIN, P)
    tests = {"fresh": icl.sample(PLAIN, P, seed=1)}
    whole = icl.train(data, start, steps=60, tests=tests, **options)
    first = icl.train(data, start, steps=30, tests=tests, **options)
    rest = icl.train(data, start, steps=60, tests=tests, resume=first, **options)
    np.testing.assert_array_equal(whole.loss, rest.loss)
    np.testing.assert_array_equal(whole.tests["fresh"], rest.tests["fresh"])
    np.testing.assert_array_equal(whole.key, rest.key)
    assert rest.key_query is None


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lr": 0.1}, "same lr"),
        ({"units": "code"}, "same lr"),
        ({"start": icl.merged(3, 0.3)}, "same model"),
        ({"start": icl.separate(4, 1, 0.3)}, "same model"),
        ({"seed": (0, 1)}, "same model"),
        ({"data": icl.Task(dim=4, context=20)}, "same data"),
        ({"tests": {"longer": icl.Task(dim=4, context=99)}}, "same tests"),
        ({"steps": 5}, "steps must be at least 10"),
        ({"resume": 3}, "resume must be a run, not int"),
    ],
)
def test_only_a_run_of_the_same_problem_is_resumed(change, words):
    """And before anything is trained: the sentence must not come after hours of work."""
    begun = icl.train(PLAIN, icl.separate(3, 1, 0.3), lr=0.2, steps=10)
    options = {"data": PLAIN, "start": icl.separate(3, 1, 0.3), "lr": 0.2, "steps": 20}
    options |= {"resume": begun, "progress": pytest.fail} | change
    with pytest.raises(ValueError, match=words):
        icl.train(options.pop("data"), options.pop("start"), **options)


def test_a_log_of_many_points_is_that_of_few():
    """More points than a segment has room for."""
    options = {"lr": 0.2, "steps": 700}
    every = icl.train(PLAIN, icl.separate(3, 1, 0.3), log_every=1, **options)
    some = icl.train(PLAIN, icl.separate(3, 1, 0.3), log_every=70, **options)
    np.testing.assert_array_equal(every.step, np.arange(701))
    np.testing.assert_array_equal(every.loss[::70], some.loss)
    np.testing.assert_array_equal(every.key[..., ::70], some.key)


def test_ctrl_c_keeps_what_there_is():
    def stop(step, of):
        raise KeyboardInterrupt

    with pytest.raises(training.Interrupted) as caught:
        icl.train(PLAIN, icl.merged(2, 0.1), lr=0.1, steps=100_000, progress=stop)
    assert 0 < caught.value.run.step[-1] < 100_000


def test_a_small_loss_keeps_its_digits():
    """At N = 10⁸ the loss is 1e-8; E y² − 2Tc + TCT would have no digit left of its excess."""
    task = icl.Task(dim=2, context=10**8)
    run = icl.train(task, icl.merged(1, 0.5), lr=1.0, steps=12000)
    floor = float(icl.plateau_losses(task)[-1])
    assert 1e-9 < floor < 1e-7
    np.testing.assert_allclose(run.loss[-1], floor, rtol=1e-9)


def test_single_precision_refuses_weights_that_would_freeze():
    jax.config.update("jax_enable_x64", False)
    try:
        task = icl.Task(dim=4, context=31)
        with pytest.raises(ValueError, match=r"scale must be at least .* in single precision"):
            icl.train(task, icl.separate(5, 1, 1e-6), lr=0.197, steps=1)
        run = icl.train(task, icl.merged(5, 1e-6), lr=0.1, steps=1)
        assert run.loss.dtype == np.float32
    finally:
        jax.config.update("jax_enable_x64", True)


def test_what_single_precision_would_freeze_does_freeze():
    """The refused update really is lost: 2ηλ²v is below half a unit in the last place."""
    k, step = np.float32(1e-3), np.float32(2 * 0.197 * 0.1**2 * 1e-5)
    assert k + k * step == k
