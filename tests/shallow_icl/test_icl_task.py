"""The data law and the starts: what is drawn is what was asked for."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import shallow_icl as icl

TASK = icl.Task(dim=4, context=31)


@pytest.mark.parametrize(
    ("spectrum", "values"),
    [
        ("linear", [0.4, 0.3, 0.2, 0.1]),
        ("white", [0.25] * 4),
        ("power", np.arange(1, 5) ** -2.0 / np.sum(np.arange(1, 5) ** -2.0)),
        ([2.0, 1.0, 1.0, 0.5], [2.0, 1.0, 1.0, 0.5]),
    ],
)
def test_spectra(spectrum, values):
    task = icl.Task(4, 31, spectrum, exponent=2.0 if spectrum == "power" else None)
    np.testing.assert_allclose(task.eigenvalues, values, rtol=1e-14)
    np.testing.assert_allclose(task.covariance, np.diag(values), rtol=1e-14)


def test_a_random_basis_turns_the_covariance():
    task = icl.Task(4, 31, basis="random", basis_seed=5)
    np.testing.assert_allclose(task.basis.T @ task.basis, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(task.covariance), [0.1, 0.2, 0.3, 0.4], rtol=1e-12
    )
    assert abs(float(task.covariance[0, 1])) > 1e-3
    np.testing.assert_allclose(
        task.into_eigenbasis(task.covariance), np.diag([0.4, 0.3, 0.2, 0.1]), atol=1e-14
    )


def test_the_tokens_follow_the_law():
    task = icl.Task(3, 4, basis="random", task_covariance=[3.0, 1.0, 0.5], noise=0.5, outputs=2)
    data = icl.sample(task, 200_000, seed=1)
    x = np.asarray(data.x)
    covariance = np.einsum("pnd,pne->de", x, x) / (x.shape[0] * x.shape[1])
    np.testing.assert_allclose(covariance, task.covariance, atol=3e-3)
    # The task vectors, from the labels: w solves target = x w.
    w = np.linalg.solve(x[:, :3], np.asarray(data.target)[:, :3])
    np.testing.assert_allclose(x @ w, data.target, atol=1e-6)
    for output in range(2):
        seen = np.cov(w[:, :, output], rowvar=False)
        np.testing.assert_allclose(seen, np.diag([3.0, 1.0, 0.5]), atol=0.03)
    assert np.std(data.y - data.target) == pytest.approx(0.5, rel=5e-3)
    assert abs(np.mean(w[:, 0, 0] * w[:, 0, 1])) < 0.03


def test_the_query_has_no_label():
    data = icl.sample(TASK, 5)
    assert data.tokens.shape == (5, 5, 32)
    np.testing.assert_array_equal(data.tokens[:, 4, -1], 0.0)
    np.testing.assert_array_equal(data.tokens[:, 4, :-1], data.y[:, :-1, 0])
    np.testing.assert_array_equal(jnp.swapaxes(data.tokens[:, :4], 1, 2), data.x)


def test_a_fraction_of_the_sequences_is_fresh():
    task = icl.Task(4, 31, in_context=0.4, fixed=[1.0, -2.0, 0.5, 3.0])
    data = icl.sample(task, 50)
    known = np.asarray(data.x) @ np.array([1.0, -2.0, 0.5, 3.0])
    same = np.all(np.isclose(known, data.target[:, :, 0]), axis=1)
    assert same.sum() == 30


def test_noise_labels_say_nothing_of_the_target():
    data = icl.sample(icl.Task(4, 31, in_context=0.0, labels="noise"), 4000)
    np.testing.assert_allclose(data.target[..., 0], np.sum(data.x, axis=2), rtol=1e-12, atol=1e-12)
    assert np.std(data.y) == pytest.approx(1.0, rel=0.01)
    assert abs(np.mean(data.y * data.target)) < 0.01


def test_antithetic_pairs_differ_in_the_sign_of_the_labels():
    data = icl.sample(icl.Task(4, 31, noise=0.3), 10, antithetic=True, whitened=True)
    np.testing.assert_array_equal(data.x[:5], data.x[5:])
    np.testing.assert_array_equal(data.y[:5], -data.y[5:])


def test_centred_and_whitened_as_published():
    data = icl.sample(TASK, 40, centred=True, whitened=True)
    np.testing.assert_allclose(np.mean(data.x, axis=0), 0.0, atol=1e-15)
    w = np.linalg.lstsq(np.asarray(data.x[0]), np.asarray(data.target[0]), rcond=None)[0]
    ws = [w]
    for x, y in zip(data.x[1:], data.target[1:], strict=True):
        ws.append(np.linalg.lstsq(np.asarray(x), np.asarray(y), rcond=None)[0])
    ws = np.array(ws)[:, :, 0]
    np.testing.assert_allclose(ws.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(np.cov(ws, rowvar=False), np.eye(4), atol=1e-12)


def test_an_option_changes_only_what_it_names():
    plain, noisy = icl.sample(TASK, 6), icl.sample(icl.Task(4, 31, noise=0.1), 6)
    np.testing.assert_array_equal(plain.x, noisy.x)
    np.testing.assert_array_equal(plain.target, noisy.target)
    assert np.any(plain.y != noisy.y)


@pytest.mark.parametrize(
    ("init", "value", "keys"),
    [
        ("A", 1.0, 1.0),
        ("B", 1.0, 1 / math.sqrt(2 * 5)),
        ("C", 1 / 5, 1 / math.sqrt(2 * 5)),
        ("D", 1 / (5 * math.sqrt(3000)), 1 / math.sqrt(3000 * 2 * 5)),
    ],
)
def test_published_scales(init, value, keys):
    weights = icl.separate(3000, 2, 0.01, init).draw(TASK, 0)
    assert weights["value"].shape == (3000, 5, 5)
    assert weights["key"].shape == weights["query"].shape == (3000, 2, 5)
    assert np.std(weights["value"][:, 4, 4]) == pytest.approx(0.01 * value, rel=0.05)
    assert np.std(weights["key"][:, :, :4]) == pytest.approx(0.01 * keys, rel=0.05)
    assert np.std(weights["query"]) == pytest.approx(0.01 * keys, rel=0.05)
    np.testing.assert_array_equal(weights["value"][:, 4, :4], 0.0)
    np.testing.assert_array_equal(weights["key"][:, :, 4], 0.0)


def test_a_seed_draws_the_same_directions_at_every_scale():
    small, large = (icl.merged(3, s).draw(TASK, 7) for s in (1e-6, 1.0))
    for name in small:
        np.testing.assert_allclose(1e6 * small[name], large[name], rtol=1e-14)
    mlp = icl.mlp(3, 1.0).draw(TASK, 7)
    np.testing.assert_array_equal(mlp["key_query"], large["key_query"])
    np.testing.assert_array_equal(large["key_query"][:, 4, :4], 0.0)


def test_given_weights_are_those_that_are_trained():
    data, drawn = icl.sample(TASK, 40), icl.separate(3, 2, 0.2).draw(TASK, 5)
    start = icl.given(**drawn, dim=4)
    assert (start.kind, start.heads, start.rank, start.zero_blocks) == ("separate", 3, 2, True)
    options = {"lr": 0.05, "steps": 5}
    run = icl.train(data, start, seed=1, **options)
    same = icl.train(data, icl.separate(3, 2, 0.2), seed=5, **options)
    np.testing.assert_array_equal(run.loss, same.loss)


def test_a_task_is_differentiable_and_can_be_mapped_over():
    def floor(values):
        return icl.plateau_losses(icl.Task(3, 9, values))[-1]

    values = jnp.asarray([0.5, 0.3, 0.2])
    slope = jax.grad(floor)(values)
    step = 1e-6
    finite = [
        (floor(values.at[d].add(step)) - floor(values.at[d].add(-step))) / (2 * step)
        for d in range(3)
    ]
    np.testing.assert_allclose(slope, finite, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(floor)(values), floor(values), rtol=1e-13)
    many = jax.vmap(floor)(jnp.stack([values, 2.0 * values]))
    np.testing.assert_allclose(many, [floor(values), floor(2.0 * values)], rtol=1e-13)


BAD_TASKS = {
    "dim": {"dim": 0},
    "context": {"context": 0.5},
    "spectrum": {"spectrum": "flat"},
    "exponent": {"spectrum": "power", "exponent": -1.0},
    "basis": {"basis": np.ones((4, 4))},
    "noise": {"noise": -0.1},
    "in_context": {"in_context": 1.5},
    "fixed": {"fixed": [1.0, 2.0]},
    "labels": {"labels": "none"},
    "lengths": {"lengths": "some"},
    "normalise": {"normalise": "m"},
    "outputs": {"outputs": 0},
    "task_covariance": {"task_covariance": np.diag([1.0, 1.0, 1.0, -1.0])},
}


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("field", BAD_TASKS)
def test_a_bad_task_is_refused_by_the_name_of_its_field(field):
    with pytest.raises(ValueError, match=f"^{field} "):
        icl.Task(**({"dim": 4, "context": 31} | BAD_TASKS[field]))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"spectrum": [0.1, 0.2, 0.3, 0.4]}, "spectrum must not increase"),
        ({"spectrum": [1.0, math.nan, 1.0, 1.0]}, "spectrum must lie in"),
        ({"exponent": 2.0}, "exponent is for the spectrum 'power'"),
        ({"labels": "noise"}, "in_context must be 0"),
        ({"outputs": 2, "in_context": 0.5}, "in_context must be 1"),
        ({"context": math.inf, "lengths": "varied"}, "context must be finite"),
        ({"task_covariance": [[1.0, 2.0], [0.0, 1.0]], "dim": 2}, "task_covariance must be symm"),
    ],
)
def test_tasks_that_contradict_themselves(options, words):
    with pytest.raises(ValueError, match=words):
        icl.Task(**({"dim": 4, "context": 31} | options))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: icl.sample("task", 5), "task must be a shallow_icl.Task"),
        (lambda: icl.sample(TASK, 0), "sequences must be"),
        (lambda: icl.sample(icl.Task(4, None), 5), "context must be finite"),
        (lambda: icl.sample(TASK, 5, antithetic=True), "antithetic needs an even number"),
        (lambda: icl.sample(TASK, 3, whitened=True), "whitened needs more than 4"),
        (lambda: icl.merged(0, 0.1), "heads must be"),
        (lambda: icl.mlp(0, 0.1), "hidden must be"),
        (lambda: icl.separate(2, 0), "rank must be"),
        (lambda: icl.merged(2, 0.0), "scale must lie in"),
        (lambda: icl.separate(2, init="E"), "init must be one of"),
        (lambda: icl.merged(2, 0.1, attention="hard"), "attention must be one of"),
        (lambda: icl.given(np.eye(5)[None], dim=4), "key_query, or key and query, must be given"),
        (lambda: icl.given(np.eye(5), key_query=np.eye(5), dim=4), "value must have three axes"),
        (lambda: train(data="x"), "data must be"),
        (lambda: train(start=0.1), "start must be made by"),
        (lambda: train(lr=-1.0), "lr must lie in"),
        (lambda: train(lr=[[0.1]]), "lr must be a number or one axis"),
        (lambda: train(steps=-1), "steps must be"),
        (lambda: train(units="si"), "units must be one of"),
        (lambda: train(data=icl.Task(4, None), units="code"), "units must be paper"),
        (lambda: train(blocks="some"), "blocks must be one of"),
        (lambda: train(blocks="all"), "blocks cannot be 'all' on the population"),
        (lambda: train(start=icl.merged(2, 0.1, zero_blocks=False)), "zero_blocks must be true"),
        (lambda: train(start=icl.separate(2), blocks="aligned"), "blocks 'aligned' is for merged"),
        (lambda: train(start=icl.merged(2, 0.1, attention="softmax")), "data must be sequences"),
        (lambda: train(data=icl.Task(4, 31, in_context=0.5)), "in_context must be 1"),
        (lambda: train(tests={"other": icl.Task(3, 31)}), "tests must be .* dim 4"),
        (lambda: train(tests={"a": icl.sample(TASK, 2)}), "tests must be tasks"),
        (lambda: icl.train_brute(TASK, icl.merged(2, 0.1), lr=0.1, steps=1), "data must be sequ"),
        (lambda: icl.loss(TASK, np.ones((3, 3))), "maps must be of shape"),
        (lambda: icl.statistics(TASK), "data must be shallow_icl.Sequences"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def train(data=TASK, start=None, lr=0.1, steps=1, **options):
    return icl.train(data, start or icl.merged(2, 0.1), lr=lr, steps=steps, **options)


def test_words_of_the_nouns():
    assert repr(icl.Task(2, 5, noise=0.1, lengths="varied")) == (
        "Task(dim=2, context=5, eigenvalues=[0.666667, 0.333333], lengths='varied', "
        "normalise='n', noise=0.1)"
    )
    assert repr(icl.sample(icl.Task(2, 5), 3)).startswith("Sequences(3 of Task(dim=2")
