"""The reduced training is the training on tokens: the same trajectory, to round-off."""

import numpy as np
import pytest

from solvable import compiling, training
from solvable import shallow_icl as icl

pytestmark = pytest.mark.slow

# One set of shapes for all, so that few programs are compiled: dim 3, context 7, 3 heads.
LAW, HEADS, STEPS, P = {"dim": 3, "context": 7}, 3, 50, 200
ROUND_OFF = 1e-10  # the promise; what is seen is 1e-15 to 1e-12
FREE = {"zero_blocks": False}
WEIGHTS = ("value", "key_query", "key", "query", "map")

PLAIN = icl.Task(**LAW)
MIXED = icl.Task(**LAW, spectrum="white", in_context=0.4)
NOISE = icl.Task(**LAW, spectrum="white", in_context=0.0, labels="noise")
TURNED = icl.Task(**LAW, spectrum="power", exponent=1.5, basis="random", noise=0.1)
VARIED = icl.Task(**LAW, lengths="varied")
VARIED_M = icl.Task(**LAW, lengths="varied", normalise="n-1", noise=0.3)
TWO = icl.Task(**LAW, outputs=2)
PRIOR = icl.Task(**LAW, task_covariance=np.diag([2.0, 1.0, 0.5]) + 0.2)

# Of another context, too, which neither unit of the weights is that of.
TESTS = {"in-weight": NOISE, "in-context": icl.Task(3, 5)}
TESTS = {name: icl.sample(task, 30, seed=2) for name, task in TESTS.items()}

# Rates at which the loss at least halves within 50 steps, and round-off does not grow.
CASES = {
    "merged": (PLAIN, icl.merged(HEADS, 0.3, **FREE), "code", 0.015),
    "merged-paper": (PLAIN, icl.merged(HEADS, 0.8, **FREE), "paper", 0.09),
    "separate": (PLAIN, icl.separate(HEADS, 1, 0.4, **FREE), "code", 0.15),
    "rank-2": (PLAIN, icl.separate(HEADS, 2, 0.3, **FREE), "code", 0.1),
    "rank-2-paper": (TURNED, icl.separate(HEADS, 2, 0.9, "B", **FREE), "paper", 0.1),
    "in-weight": (MIXED, icl.merged(HEADS, 0.3, **FREE), "code", 0.01),
    "in-weight-separate": (MIXED, icl.separate(HEADS, 1, 0.4, **FREE), "code", 0.08),
    "varied": (VARIED, icl.merged(HEADS, 0.8, **FREE), "code", 0.09),
    "varied-m": (VARIED_M, icl.separate(HEADS, 2, 0.6, **FREE), "paper", 0.3),
    "two-outputs": (TWO, icl.separate(HEADS, 2, 0.3, **FREE), "code", 0.1),
    "prior": (PRIOR, icl.merged(HEADS, 0.3, **FREE), "code", 0.006),
    "softmax": (PLAIN, icl.merged(HEADS, 0.7, attention="softmax", **FREE), "paper", 0.3),
    "softmax-separate": (TURNED, icl.separate(HEADS, 2, 1.5, attention="softmax"), "code", 0.2),
    "softmax-varied": (VARIED, icl.merged(HEADS, 1.2, attention="softmax", **FREE), "paper", 0.3),
}


def trained(how, data, start, units, lr, **more):
    """With all weights logged, and for merged linear attention the losses on other data."""
    tests = TESTS if (start.kind, start.attention) == ("merged", "linear") else None
    return how(data, start, lr=lr, steps=STEPS, units=units, log_every=1, tests=tests, **more)


def worst(run, brute):
    """The largest relative difference of the losses, and of every block in its own scale."""
    assert list(run.tests) == list(brute.tests)
    errors = {"loss": np.max(np.abs(run.loss / brute.loss - 1.0))}
    for name, loss in run.tests.items():
        errors[name] = np.max(np.abs(loss / brute.tests[name] - 1.0))
    for name in WEIGHTS:
        seen, true = getattr(run, name), getattr(brute, name)
        assert (seen is None) == (true is None), name
        if seen is not None:
            assert seen.shape == true.shape
            errors[name] = np.max(np.abs(seen - true)) / np.max(np.abs(true))
    return errors


@pytest.mark.parametrize("case", CASES)
def test_reduction_follows_the_tokens(case):
    """With it the tests of a mixture, in weights and in context, logged beside the loss."""
    task, start, units, lr = CASES[case]
    data = icl.sample(task, P, seed=1)
    run = trained(icl.train, data, start, units, lr)
    brute = trained(icl.train_brute, data, start, units, lr)
    np.testing.assert_array_equal(run.time, brute.time)
    assert max(worst(run, brute).values()) <= ROUND_OFF
    assert run.loss[-1] <= 0.5 * run.loss[0]  # else little was compared


@pytest.mark.parametrize("mistake", ["factor 2", "one 1/N of the tokens", "one 1/N of the rate"])
def test_a_lost_factor_does_not_pass(mistake):
    task, start, units, lr = CASES["merged"]
    data = icl.sample(task, P, seed=1)
    brute = trained(icl.train_brute, data, start, units, lr)
    if mistake == "factor 2":  # of the slope, which is one of the rate
        lr = 0.5 * lr
    elif mistake == "one 1/N of the tokens":
        units = "paper"
        start = icl.merged(HEADS, 0.3 * task.context**0.5, **FREE)
    else:
        lr = lr / task.context
    run = trained(icl.train, data, start, units, lr)
    assert worst(run, brute)["loss"] > 1e-3


def test_statistics_made_once_serve_as_the_data():
    _, start, units, lr = CASES["merged"]
    data = icl.sample(PLAIN, P)
    again = trained(icl.train, icl.statistics(data), start, units, lr)
    np.testing.assert_array_equal(again.loss, trained(icl.train, data, start, units, lr).loss)


def test_merged_attention_is_the_mlp_on_cubic_features():
    """On tokens, all blocks free: with antithetic pairs the zero blocks stay zero."""
    data = icl.sample(PLAIN, P, antithetic=True)
    options = (data, icl.merged(HEADS, 0.3), "code", 0.03)
    attention = trained(icl.train_brute, *options)
    mlp = trained(icl.train_brute, data, icl.mlp(HEADS, 0.3), *options[2:])
    np.testing.assert_allclose(attention.loss, mlp.loss, rtol=1e-13)
    np.testing.assert_allclose(attention.map, mlp.map, rtol=0, atol=1e-12)
    assert np.abs(np.asarray(attention.value)[:, :, :3]).max() <= 1e-16
    reduced = trained(icl.train, data, icl.mlp(HEADS, 0.3), *options[2:])
    assert max(worst(reduced, mlp).values()) <= ROUND_OFF


def test_without_antithetic_pairs_zero_blocks_leak():
    run = trained(icl.train, icl.sample(PLAIN, P), icl.merged(HEADS, 0.3), "code", 0.03)
    assert np.abs(np.asarray(run.value)[:, :, :3, -1]).max() > 1e-3


def test_code_units_are_the_papers_step_by_step():
    data, c = icl.sample(PLAIN, P), 7 ** (1 / 3)
    code = trained(icl.train, data, icl.separate(HEADS, 2, 0.1), "code", 0.05)
    paper = trained(icl.train, data, icl.separate(HEADS, 2, 0.1 * c), "paper", 0.05 * c**2)
    np.testing.assert_allclose(code.loss, paper.loss, rtol=1e-12)
    np.testing.assert_allclose(code.time, paper.time, rtol=1e-12)
    np.testing.assert_allclose(c * np.asarray(code.key), paper.key, rtol=0, atol=1e-12)
    np.testing.assert_allclose(code.map, paper.map, rtol=0, atol=1e-12)
    np.testing.assert_allclose(code.time[-1], 2 * STEPS * 0.05 * c**2, rtol=1e-12)


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
    turned = icl.Task(**LAW, spectrum=[0.6, 0.3, 0.1], basis="random", basis_seed=3)
    run = icl.train(turned, icl.separate(HEADS, 2, 0.4), lr=0.2, steps=200)
    loss = icl.loss(turned, np.moveaxis(run.map, -1, 0))
    np.testing.assert_allclose(run.loss, loss, rtol=1e-12)
    assert run.loss[-1] < 0.5 * run.loss[0]


def test_several_outputs_reach_the_same_map():
    run = icl.train(TWO, icl.merged(4, 0.3), lr=0.5, steps=8000)
    assert run.map is None
    value, inner = np.asarray(run.value)[..., 3:, -1], np.asarray(run.key_query)[:, :3, :, -1]
    maps = np.einsum("hop,hde->opde", value, inner)
    best = icl.converged_map(TWO)
    expected = np.eye(2)[:, :, None, None] * np.asarray(best)[None, None]
    np.testing.assert_allclose(maps, expected, rtol=0, atol=1e-3)
    np.testing.assert_allclose(run.loss[-1], icl.loss(TWO, best), rtol=1e-6)


@pytest.mark.parametrize(("scale", "gap"), [(1e-5, 1e-5), (1e-3, 1e-3)])
def test_merged_attention_is_aligned_after_its_escape(scale, gap):
    """D + 1 numbers against all weights; the gap is that of the start and falls with its scale."""
    start, options = icl.merged(HEADS, scale), {"lr": 0.031, "steps": 4000}
    whole = icl.train(PLAIN, start, **options)
    aligned = icl.train(PLAIN, start, blocks="aligned", **options)
    assert np.abs(np.asarray(whole.loss) - np.asarray(aligned.loss)).max() < gap
    ends = [np.asarray(run.map)[..., -1] for run in (whole, aligned)]
    np.testing.assert_allclose(*ends, rtol=0, atol=2e-2)
    assert whole.loss[-1] < 0.7 * whole.loss[0]


def test_the_aligned_subspace_is_invariant():
    """From an aligned start the two reductions take the same steps; other heads are zero."""
    cross = np.asarray(icl.population(PLAIN).cross)
    direction = cross / np.linalg.norm(cross)
    aligned = icl.train(PLAIN, icl.merged(1, 0.1), lr=0.2, steps=300, blocks="aligned")
    s = np.asarray(aligned.value)[0, 0, -1, 0]
    weights = {"value": np.zeros((HEADS, 4, 4)), "key_query": np.zeros((HEADS, 4, 4))}
    weights["value"][0, 3, 3], weights["key_query"][0, :3, :3] = s, np.diag(s * direction)

    whole = icl.train(PLAIN, icl.given(**weights, dim=3), lr=0.2, steps=300)
    np.testing.assert_allclose(whole.loss, aligned.loss, rtol=1e-12)


def test_runs_side_by_side_are_the_runs_alone():
    start, options = icl.separate(HEADS, 2, 0.3), {"steps": 40, "log_every": 10}
    many = icl.train(PLAIN, start, lr=[0.1, 0.3], seed=[0, 1, 2], **options)
    assert many.loss.shape == (2, 3, 5)
    assert many.time.shape == (2, 5)
    assert many.key.shape == (2, 3, HEADS, 2, 4, 5)
    alone = icl.train(PLAIN, start, lr=0.3, seed=2, **options)
    np.testing.assert_allclose(np.asarray(many.loss)[1, 2], alone.loss, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(many.query)[1, 2], alone.query, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(many.time[1], alone.time)


def test_another_law_rate_length_or_number_of_runs_compiles_nothing():
    """Eight runs or five: one program; the law's numbers are no part of it."""
    start = icl.separate(HEADS, 2, 0.3)
    icl.train(PLAIN, start, lr=[0.1, 0.2], seed=range(4), steps=40)
    before = compiling._state["compiled"]
    icl.train(PLAIN, start, lr=0.1, seed=range(5), steps=40)
    icl.train(VARIED_M, start, lr=[0.1, 0.2, 0.3], seed=[3, 4], steps=70, log_every=7)
    icl.train(icl.Task(3, None, "power", basis="random"), start, lr=0.3, seed=range(7), steps=9)
    icl.staircase_loss(PLAIN, icl.drop_times(PLAIN, icl.separate(3)).time, np.arange(17.0))
    icl.sample(TURNED, 11, seed=4)
    assert compiling._state["compiled"] == before


def test_a_log_of_many_points_is_that_of_few():
    """More points than a segment has room for."""
    options = {"lr": 0.2, "steps": 700}
    every = icl.train(PLAIN, icl.separate(HEADS, 2, 0.3), log_every=1, **options)
    some = icl.train(PLAIN, icl.separate(HEADS, 2, 0.3), log_every=70, **options)
    np.testing.assert_array_equal(every.step, np.arange(701))
    np.testing.assert_array_equal(np.asarray(every.loss)[::70], some.loss)
    np.testing.assert_array_equal(np.asarray(every.key)[..., ::70], some.key)


def test_ctrl_c_keeps_what_there_is():
    def stop(step, of):
        raise KeyboardInterrupt

    with pytest.raises(training.Interrupted) as caught:
        icl.train(PLAIN, icl.merged(HEADS, 0.1), lr=0.1, steps=100_000, progress=stop)
    assert 0 < caught.value.run.step[-1] < 100_000


def test_a_small_loss_keeps_its_digits():
    """At N = 10⁸ the loss is 1e-8; E y² − 2Tc + TCT would have no digit left of its excess."""
    task = icl.Task(dim=3, context=10**8)
    run = icl.train(task, icl.merged(HEADS, 0.5), lr=1.0, steps=12000)
    floor = float(icl.plateau_losses(task)[-1])
    assert 1e-9 < floor < 1e-7
    np.testing.assert_allclose(run.loss[-1], floor, rtol=1e-9)
