"""The data law and the starts: what is drawn is what was asked for."""

import math

import jax
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
    basis = np.asarray(task.basis)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(task.covariance), [0.1, 0.2, 0.3, 0.4], rtol=1e-12
    )
    assert abs(np.asarray(task.covariance)[0, 1]) > 1e-3
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
    assert np.std(np.asarray(data.y) - np.asarray(data.target)) == pytest.approx(0.5, rel=5e-3)
    assert abs(np.mean(w[:, 0, 0] * w[:, 0, 1])) < 0.03


def test_the_query_has_no_label():
    data = icl.sample(TASK, 5)
    tokens = np.asarray(data.tokens)
    assert tokens.shape == (5, 5, 32)
    np.testing.assert_array_equal(tokens[:, 4, -1], 0.0)
    np.testing.assert_array_equal(tokens[:, 4, :-1], np.asarray(data.y)[:, :-1, 0])
    np.testing.assert_array_equal(np.swapaxes(tokens[:, :4], 1, 2), data.x)


def test_a_fraction_of_the_sequences_is_fresh():
    task = icl.Task(4, 31, in_context=0.4, fixed=[1.0, -2.0, 0.5, 3.0])
    data = icl.sample(task, 50)
    known = np.asarray(data.x) @ np.array([1.0, -2.0, 0.5, 3.0])
    same = np.all(np.isclose(known, np.asarray(data.target)[:, :, 0]), axis=1)
    assert same.sum() == 30


def test_noise_labels_say_nothing_of_the_target():
    data = icl.sample(icl.Task(4, 31, in_context=0.0, labels="noise"), 4000)
    x, y, target = map(np.asarray, (data.x, data.y, data.target))
    np.testing.assert_allclose(target[..., 0], np.sum(x, axis=2), rtol=1e-12, atol=1e-12)
    assert np.std(y) == pytest.approx(1.0, rel=0.01)
    assert abs(np.mean(y * target)) < 0.01


def test_antithetic_pairs_differ_in_the_sign_of_the_labels():
    data = icl.sample(icl.Task(4, 31, noise=0.3), 10, antithetic=True, whitened=True)
    x, y = np.asarray(data.x), np.asarray(data.y)
    np.testing.assert_array_equal(x[:5], x[5:])
    np.testing.assert_array_equal(y[:5], -y[5:])


@pytest.mark.parametrize("antithetic", [False, True])
def test_flipped_queries_come_with_their_negatives(antithetic):
    """The same context asked at −x_q; the sample stays exactly centred and white."""
    task, copies = icl.Task(4, 31, noise=0.3), 2 * (1 + antithetic)
    options = {"antithetic": antithetic, "centred": True, "whitened": True}
    data = icl.sample(task, 10 * copies, query_flip=True, **options)
    x, y, target = (np.asarray(part)[:20] for part in (data.x, data.y, data.target))
    for part in (x, y, target):
        np.testing.assert_array_equal(part[:10, :-1], part[10:, :-1])
        np.testing.assert_array_equal(part[:10, -1], -part[10:, -1])
    if antithetic:
        np.testing.assert_array_equal(np.asarray(data.x)[20:], x)
        np.testing.assert_array_equal(np.asarray(data.y)[20:], -y)
        np.testing.assert_array_equal(np.asarray(data.target)[20:], -target)
    np.testing.assert_allclose(np.mean(data.x, axis=0), 0.0, atol=1e-15)
    pairs = zip(np.asarray(data.x), np.asarray(data.target), strict=True)
    ws = np.array([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in pairs])[:, :, 0]
    np.testing.assert_allclose(ws.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(np.cov(ws, rowvar=False), np.eye(4), atol=1e-12)


def test_what_each_symmetry_takes_out_of_the_mean_token():
    """E y_q X̄: ȳ goes with the flip, x̄ with −w but for the query, and all with both."""

    def drive(**options):
        data = icl.sample(TASK, 40, seed=4, **options)
        return np.asarray(data.target)[:, -1, 0] @ np.asarray(data.tokens).mean(axis=2) / 40

    plain, pairs, flipped = drive(), drive(antithetic=True), drive(query_flip=True)
    assert np.abs(plain).min() > 1e-3
    np.testing.assert_allclose(pairs[:4], 0.0, atol=1e-16)
    assert abs(pairs[4]) > 1e-3
    assert abs(flipped[4]) < 1e-16
    data = icl.sample(TASK, 40, seed=4, query_flip=True)
    query, target = np.asarray(data.x)[:, -1], np.asarray(data.target)[:, -1, 0]
    np.testing.assert_allclose(flipped[:4], target @ query / (40 * 32), rtol=1e-12)
    np.testing.assert_allclose(drive(antithetic=True, query_flip=True), 0.0, atol=1e-16)


def test_centred_and_whitened_as_published():
    data = icl.sample(TASK, 40, centred=True, whitened=True)
    x, target = np.asarray(data.x), np.asarray(data.target)
    np.testing.assert_allclose(np.mean(x, axis=0), 0.0, atol=1e-15)
    pairs = zip(x, target, strict=True)
    ws = np.array([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in pairs])[:, :, 0]
    np.testing.assert_allclose(ws.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(np.cov(ws, rowvar=False), np.eye(4), atol=1e-12)


def test_an_option_changes_only_what_it_names():
    plain, noisy = icl.sample(TASK, 6), icl.sample(icl.Task(4, 31, noise=0.1), 6)
    np.testing.assert_array_equal(plain.x, noisy.x)
    np.testing.assert_array_equal(plain.target, noisy.target)
    assert np.any(np.asarray(plain.y) != np.asarray(noisy.y))


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


def test_the_slope_in_the_eigenvalues_is_that_of_finite_differences():
    def floor(values):
        return icl.plateau_losses(icl.Task(3, 9, values))[-1]

    values, step = np.array([0.5, 0.3, 0.2]), 1e-6
    slope = jax.jit(jax.grad(floor))(values)
    ends = [[floor(values + sign * step * np.eye(3)[d]) for sign in (1, -1)] for d in range(3)]
    finite = [(float(up) - float(down)) / (2 * step) for up, down in ends]
    np.testing.assert_allclose(slope, finite, rtol=1e-6)


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
        (lambda: icl.sample(TASK, 5, query_flip=True), "query_flip needs a multiple of 2"),
        (lambda: icl.sample(TASK, 6, query_flip=True, antithetic=True), "query_flip .* of 4"),
        (lambda: icl.sample(TASK, 8, query_flip=True, whitened=True), "whitened .* more than 8"),
        (
            lambda: icl.sample(icl.Task(4, 31, lengths="varied"), 4, query_flip=True),
            "lengths must be fixed for query_flip",
        ),
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
        (lambda: icl.unit_factor(TASK, "merged", "code"), "start must be made by"),
        (lambda: icl.unit_factor("task", icl.merged(2, 0.1), "code"), "task must be a shallow_icl"),
        (lambda: train(lr=math.inf), "lr must be at most"),
        (lambda: train(lr=[]), "lr must be a number or one axis"),
        (lambda: train(tests=[TASK]), "tests must be a mapping"),
        (lambda: train(seed=-1), "seed must be"),
        (lambda: icl.loss(TASK, np.full((4, 4), math.nan)), "maps must lie in .* nan"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    one_sentence(call, words)


def one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


HUGE = 99999999999999999999
MANY = 10**8


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: icl.Task(HUGE, 31), "dim must be at most"),
        (lambda: icl.Task(4, HUGE), "context must be at most"),
        (lambda: icl.Task(4, [31, 32]), "context must be a whole number"),
        (lambda: icl.Task(4, math.nan), "context must be a whole number"),
        (lambda: icl.Task(4, 31, outputs=HUGE), "outputs must be at most"),
        (lambda: icl.Task(10**7, 31, basis="random"), "dim must be smaller than 10000000: that"),
        (lambda: icl.Task(10**6, 31).covariance, "dim must be smaller than 1000000: that"),
        (lambda: icl.converged_map(icl.Task(10**6, 31)), "dim must be smaller than"),
        (lambda: icl.fixed_point(icl.Task(10**6, 31), [0]), "dim must be smaller than"),
        (lambda: icl.escape_rate(icl.Task(10**5, 3, in_context=0.5)), "dim must be smaller than"),
        (lambda: icl.population(icl.Task(4, 10**14, lengths="varied")), "context must be smaller"),
        (lambda: icl.escape_rate(icl.Task(4, 10**14, lengths="varied")), "context must be smaller"),
        (lambda: icl.sample(TASK, HUGE), "sequences must be at most"),
        (lambda: icl.sample(TASK, 10**12), "sequences must be smaller than 1000000000000: that"),
        (lambda: icl.sample(icl.Task(4, 10**13), 1), "sequences must be smaller than 1: that"),
        (lambda: icl.statistics(icl.sample(icl.Task(400, 1), 2)), "dim must be smaller than 400"),
        (lambda: icl.merged(HUGE, 0.1), "heads must be at most"),
        (lambda: icl.separate(2, HUGE), "rank must be at most"),
        (lambda: icl.separate(2, MANY).draw(icl.Task(400, 1), 0), "rank must be smaller than 1"),
        (
            lambda: train(data=icl.Task(4, 31, outputs=10**6)),
            "outputs must be smaller than 1000000",
        ),
        (lambda: train(start=icl.merged(10**9, 0.1)), "heads must be smaller than 1000000000"),
        (lambda: icl.drop_times(TASK, icl.separate(10**9)), "heads must be smaller than"),
        (lambda: icl.final_weights(TASK, [(0,)], heads=10**9), "heads must be smaller than"),
        (
            lambda: icl.white_map(icl.Task(4, 3, "white"), np.ones(10**6), np.ones(10**6)),
            r"t must be smaller than of shape \(1000000,\)",
        ),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_tried(call, words):
    one_sentence(call, words)


def own(**changed):
    """A data set of one's own."""
    parts = {"x": np.ones((5, 4, 2)), "y": np.ones((5, 4, 1)), "target": np.ones((5, 4, 1))}
    return icl.Sequences(**({"task": icl.Task(2, 3)} | parts | changed))


def holding(value):
    array = np.ones((5, 4, 1))
    array[3, 2] = value
    return array


WEIGHTS = {"value": np.ones((2, 3, 3)), "key": np.ones((2, 1, 3)), "query": np.ones((2, 1, 3))}


def weights(**changed):
    return icl.given(**({"dim": 2} | WEIGHTS | changed))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: own(task="task"), "task must be a shallow_icl.Task, not str"),
        (lambda: own(task=icl.Task(2, None)), "context must be finite"),
        (lambda: own(task=icl.Task(3, 3)), "x must be shape"),
        (lambda: own(task=icl.Task(2, 4)), "x must be shape"),
        (lambda: own(x="data"), "x must be a number or an array of numbers"),
        (lambda: own(x=[[1.0], [1.0, 2.0]]), "x must be a number or an array of numbers"),
        (lambda: own(x=1.0), "x must hold one sequence or more"),
        (lambda: own(x=np.ones((0, 4, 2))), "x must hold one sequence or more"),
        (lambda: own(y=np.ones((4, 4, 1))), "y must be shape"),
        (lambda: own(y=np.ones((5, 4))), "y must be shape"),
        (lambda: own(target=np.ones((5, 1, 1))), "target must be shape"),
        (lambda: own(y=holding(math.nan)), "y must lie in .* not nan"),
        (lambda: own(target=holding(math.inf)), "target must lie in .* not inf"),
        (lambda: own(x=np.full((5, 4, 2), 1e40)), "x must lie in"),
        (lambda: weights(value=np.full((2, 3, 3), math.nan)), "value must lie in .* not nan"),
        (lambda: weights(key=np.full((2, 1, 3), -math.inf)), "key must lie in .* not -inf"),
        (lambda: weights(value=np.ones((3, 3, 3))), "key must be shape"),
        (lambda: weights(value=np.ones((2, 2, 3))), "value must be shape"),
        (lambda: weights(query=np.ones((2, 2, 3))), "query must be shape"),
        (lambda: weights(key=np.ones((2, 0, 3))), "key must have three axes that are not empty"),
        (lambda: weights(value=np.ones((2, 3))), "value must have three axes"),
        (lambda: weights(dim=3), "dim must be a whole number, from 1 to 2"),
        (lambda: weights(query="q"), "query must be a number or an array"),
        (
            lambda: icl.given(np.ones((1, 1, 1)), key_query=np.ones((1, 1, 1)), dim=1),
            "value must have two rows or more",
        ),
        (lambda: train(start=weights()), "value must have 5 rows for this task, not 3"),
        (
            lambda: train(data=icl.Task(1, 3, outputs=2), start=weights()),
            "dim of given weights must be the task's 1, not 2",
        ),
    ],
)
def test_data_and_weights_of_ones_own_are_looked_at(call, words):
    one_sentence(call, words)


def test_data_of_ones_own_is_trained_on():
    drawn = icl.sample(TASK, 20)
    parts = {name: np.asarray(getattr(drawn, name)) for name in ("x", "y", "target")}
    data = icl.Sequences(TASK, **{name: part.tolist() for name, part in parts.items()})
    np.testing.assert_array_equal(train(data).loss, train(drawn).loss)


def test_without_double_precision_everything_is_refused_or_right():
    """What computes in numpy is right; nothing computes in float32."""
    data, start = icl.sample(TASK, 20), icl.separate(2)
    curve = ([0.0, 1.0, 2.0], [1.0, 0.6, 0.2], [0.8, 0.4])
    right = {
        "crossing_times": lambda: icl.crossing_times(*curve),
        "plateau_levels": lambda: icl.plateau_levels(*curve),
        "half_drop_lead": icl.half_drop_lead,
        "unit_factor": lambda: icl.unit_factor(TASK, start, "code"),
    }
    white = icl.Task(4, 31, "white")
    refused = [
        lambda: icl.population(TASK),
        lambda: icl.plateau_losses(TASK),
        lambda: icl.mid_levels(TASK),
        lambda: icl.converged_map(TASK),
        lambda: icl.escape_rate(TASK),
        lambda: icl.softmax_rate(TASK),
        lambda: icl.Task(4, 31),
        lambda: icl.sample(TASK, 5),
        lambda: icl.statistics(data),
        lambda: icl.softmax_modes(data, 2),
        lambda: icl.merged(2, 0.1),
        lambda: icl.separate(2),
        lambda: icl.mlp(2, 0.1),
        lambda: icl.given(np.ones((1, 5, 5)), key_query=np.ones((1, 5, 5)), dim=4),
        lambda: icl.train(TASK, start, lr=0.1, steps=1),
        lambda: icl.train_brute(data, start, lr=0.1, steps=1),
        lambda: icl.loss(TASK, np.ones((4, 4))),
        lambda: icl.plateau_loss(TASK, [0]),
        lambda: icl.fixed_point(TASK, [0]),
        lambda: icl.stability(TASK, [1]),
        lambda: icl.aligned_weights(TASK, [0]),
        lambda: icl.final_weights(TASK, [(0,)]),
        lambda: icl.rank_escape_rate(TASK, (0,), 1),
        lambda: icl.largest_rate(TASK, start),
        lambda: icl.escape_time(TASK, 0.1),
        lambda: icl.white_map(white, 0.1, 1.0),
        lambda: icl.white_loss(white, 0.1, 1.0),
        lambda: icl.half_rise_time(white, 0.1),
        lambda: icl.growing_mode(TASK, np.ones((1, 1, 5)), np.ones((1, 5, 4))),
        lambda: icl.growth(TASK, 0, 1.0, 0.1),
        lambda: icl.growth_time(TASK, 0, 0.5, 0.1),
        lambda: icl.drop_fraction(0.5),
        lambda: icl.staircase_loss(TASK, [1.0], 2.0),
        lambda: icl.conserved_merged(np.ones((1, 1, 5)), np.ones((1, 5, 4))),
        lambda: icl.conserved_separate(np.ones((1, 1, 5)), np.ones((1, 1, 5)), np.ones((1, 1, 4))),
        lambda: icl.fewer_heads(np.ones((1, 1, 5)), np.ones((1, 5, 4))),
    ]
    double = {name: call() for name, call in right.items()}
    drops = icl.drop_times(TASK, start)
    jax.config.update("jax_enable_x64", False)
    try:
        for name, call in right.items():
            np.testing.assert_array_equal(call(), double[name])
        np.testing.assert_array_equal(icl.drop_times(TASK, start).time, drops.time)
        for call in refused:
            with pytest.raises(ValueError, match="needs double precision"):
                call()
    finally:
        jax.config.update("jax_enable_x64", True)


def train(data=TASK, start=None, lr=0.1, steps=1, **options):
    return icl.train(data, start or icl.merged(2, 0.1), lr=lr, steps=steps, **options)


def test_words_of_the_nouns():
    assert repr(icl.Task(2, 5, noise=0.1, lengths="varied")) == (
        "Task(dim=2, context=5, eigenvalues=[0.666667, 0.333333], lengths='varied', "
        "normalise='n', noise=0.1)"
    )
    assert repr(icl.sample(icl.Task(2, 5), 3)).startswith("Sequences(3 of Task(dim=2")
