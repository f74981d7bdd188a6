"""Attention on tokens is one matrix Γ, and its training follows the scalar γ."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable.deep_icl import model as dm
from solvable.deep_icl.sgd import train_sgd
from solvable.deep_icl.softmax import SoftmaxAttention, train_softmax
from solvable.deep_icl.start import Init
from solvable.deep_icl.task import FixedStructure, Isotropic, RotatedStructure, rotations

pytestmark = pytest.mark.slow

D, P, K, L = 6, 9, 4, 5
RRS = RotatedStructure(nu=1.0, beta=1.0, dim=8)


def draws(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


X, Y = draws(P + K, D), draws(P, seed=1)


predict = eqx.filter_jit(lambda model, x, y: model(x, y))
predict_gamma = eqx.filter_jit(dm.gamma_prediction)


def random_gamma(width, untied):
    shape = (L, width, width) if untied else (width, width)
    return draws(*shape, seed=2)


def random_attention(layers=()):
    """Weights that are aligned with nothing."""
    hidden = 4
    square = (*layers, hidden, hidden)
    shapes = [(hidden, D), (hidden,), square, square, square, (hidden,)]
    return dm.LinearAttention(*(draws(*s, seed=i) for i, s in enumerate(shapes)), depth=L)


def random_softmax(task, **sizes):
    return SoftmaxAttention.draw(task, jax.random.key(0), depth=3, hidden=4, **sizes)


# The models


@pytest.mark.parametrize("untied", [False, True])
@pytest.mark.parametrize("width", [D, 4])
def test_aligned_attention_is_one_matrix(width, untied):
    gamma = random_gamma(width, untied)
    model = dm.LinearAttention.aligned(gamma, dim=D, depth=L)
    expected = predict_gamma(gamma, X, Y, L)
    found = predict(model, X, Y)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    mean = np.trace(np.asarray(gamma), axis1=-2, axis2=-1) / width
    np.testing.assert_allclose(model.gamma, mean, rtol=1e-14)
    # Γ has an order: with its transpose the predictions are others.
    other = predict_gamma(jnp.swapaxes(gamma, -1, -2), X, Y, L)
    assert np.max(np.abs(found - other)) > 1e-2


@pytest.mark.parametrize("width", [None, 3])
def test_attention_of_four_weights_is_their_product(width):
    weights = jnp.asarray([1.3, 0.7, 0.9, 1.1])
    model = dm.LinearAttention.of_weights(weights, dim=D, depth=L, width=width)
    gamma = 1.3**2 * 0.7 * 0.9 * 1.1
    expected = predict_gamma(gamma * jnp.eye(width or D), X, Y, L)
    np.testing.assert_allclose(predict(model, X, Y), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(model.weights, weights, rtol=1e-14)
    assert model.gamma.item() == pytest.approx(gamma, rel=1e-14)


@pytest.mark.parametrize("width", [D, 4])
@pytest.mark.parametrize("depth", [1, L])  # by the vectors, and by the context's second moment
@pytest.mark.parametrize("length", [P, 4])
def test_the_layers_are_the_closed_form(length, depth, width):
    """Also where the context is shorter than the dimension; width N descends along (D/N) Γ."""
    gamma = np.asarray(random_gamma(width, False))
    x, y, asked = np.asarray(X[:length, :width]), np.asarray(Y[:length]), np.asarray(X[P:, :width])
    moment = x.T @ x / length
    step = np.eye(width) - D / width * gamma @ moment / depth
    left = np.eye(width) - np.linalg.matrix_power(step, depth)
    expected = asked @ left @ np.linalg.pinv(moment) @ x.T @ y / length
    tokens = jnp.concatenate([X[:length], X[P:]])
    found = dm.gamma_prediction(jnp.asarray(gamma), tokens, Y[:length], depth)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layers", [(), (L,)])
def test_attention_is_the_masked_sum_over_tokens(layers):
    """By the matrix of all tokens against all, which the model never forms."""
    model = random_attention(layers)
    mask = np.zeros((P + K, P + K))
    mask[:P, :P], mask[P:, :P] = -1.0, 1.0
    h = np.asarray(X) @ np.asarray(model.read).T
    h[:P] += np.outer(Y, model.label)
    for layer in range(L):
        q, k, v = (
            h @ (np.asarray(w)[layer] if layers else np.asarray(w)).T
            for w in (model.query, model.key, model.value)
        )
        h = h + (mask * (q @ k.T)) @ v / (L * P)
    expected = (h @ np.asarray(model.out))[P:]
    np.testing.assert_allclose(predict(model, X, Y), expected, rtol=1e-11)


def test_softmax_attention_is_the_sum_over_heads_and_the_mlp():
    task = RotatedStructure(nu=1.0, beta=1.0, dim=D, context=P, queries=K)
    model = random_softmax(task, heads=2, mlp=True)
    h = np.asarray(X) @ np.asarray(model.read).T
    h[:P] += np.outer(Y, model.label)
    for layer in range(3):
        more = np.zeros_like(h)
        for head in range(2):
            q, k, v = (
                h @ np.asarray(w)[layer, head].T for w in (model.query, model.key, model.value)
            )
            weight = np.exp(q @ k[:P].T / 4)
            more += weight / weight.sum(axis=1, keepdims=True) @ v[:P]
        h = h + more / 3
        inner, outer = (np.asarray(w)[layer] for w in model.mlp)
        h = h + np.asarray(jax.nn.gelu(jnp.asarray(h @ inner.T))) @ outer.T / 3
    expected = h[P:] @ np.asarray(model.out) / 4
    np.testing.assert_allclose(predict(model, X, Y), expected, rtol=1e-11)


@pytest.mark.parametrize("kind", ["linear", "softmax"])
def test_queries_are_seen_by_no_one_else(kind):
    task = RotatedStructure(nu=1.0, beta=1.0, dim=D, context=P, queries=K)
    model = random_attention() if kind == "linear" else random_softmax(task, heads=1, mlp=False)
    before = predict(model, X, Y)
    after = predict(model, X.at[P + 1].add(1.0), Y)
    others = np.asarray([0, 2, 3])
    np.testing.assert_array_equal(before[others], after[others])
    assert abs(after[1] - before[1]) > 1e-3
    np.testing.assert_allclose(predict(model, X[: P + 1], Y), before[:1], rtol=1e-12)  # alone
    assert np.all(
        np.abs(predict(model, X, Y.at[0].add(1.0)) - before) > 1e-4
    )  # context labels do enter


# The losses of fresh contexts


@eqx.filter_jit
def fresh_loss(task, gamma, depth, count):
    problem = dm.ContextDescent(task, 1.0, jax.random.key(0), depth, count, 1)
    return problem.loss(gamma, jax.random.key(3), count)


def one_layer_loss(task, gamma):
    """Exact for one layer, Γ = γI and Gaussian tokens: any dimension, context and noise."""
    lam, a = np.asarray(task.lam), np.asarray(task.share)
    g, p = gamma * lam, task.context
    noise = float(task.noise) ** 2
    return (a @ (1 - 2 * g + (1 + 1 / p) * g**2)) + (a.sum() + noise) / p * np.sum(g**2)


@pytest.mark.parametrize(("kind", "queries"), [(FixedStructure, None), (RotatedStructure, 3)])
def test_finite_contexts_have_the_exact_loss_of_one_layer(kind, queries):
    task = kind(nu=1.0, beta=1.0, dim=4, context=6, noise=0.5, queries=queries)
    loss = fresh_loss(task, 0.8 * jnp.eye(4), 1, 20000)
    # Contexts' losses have a standard deviation of about their mean, queries' of twice it.
    assert float(loss) == pytest.approx(one_layer_loss(task, 0.8), rel=0.05)


@pytest.mark.parametrize(("context", "queries"), [(None, 3), (500, None)])
def test_narrow_attention_has_the_exact_loss_of_one_layer(context, queries):
    """With contexts without end, or as good as that: the mean over projectors is known."""
    dim, width, gamma = 6, 3, 0.6
    task = RotatedStructure(
        nu=1.0, beta=1.0, dim=dim, width=width, context=context, queries=queries
    )
    lam, a = np.asarray(task.lam), np.asarray(task.share)
    below = dim * (dim - 1) * (dim + 2)
    c1 = width * (width * dim + dim - 2) / below
    c2 = width * (dim - width) / below
    exact = a.sum() - 2 * gamma * a @ lam  # of Γ = γ (D/N) Π
    exact += (gamma * dim / width) ** 2 * (c1 * a @ lam**2 + c2 * lam.sum() * a @ lam)
    loss = fresh_loss(task, gamma * jnp.eye(width), 1, 20000 if context is None else 2000)
    assert float(loss) == pytest.approx(exact, rel=0.03)


def test_chunks_have_the_mean_of_their_own_draws():
    key = jax.random.key(0)

    def look(key, count):
        return {"mean": jnp.mean(jax.random.normal(key, (count, 3)), axis=0)}

    found = dm.mean_of_chunks(look, key, 12, 3)["mean"]
    each = [look(jax.random.fold_in(key, i), 4)["mean"] for i in range(3)]
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-14)
    np.testing.assert_array_equal(
        dm.mean_of_chunks(look, key, 12, 1)["mean"], look(key, 12)["mean"]
    )
    assert dm.split_contexts(12, 2**22) == 3
    assert dm.split_contexts(12, 10) == 1
    assert dm.split_contexts(7, 2**24) == 7


# Training of Γ


def scalar_gamma(task, depth, lr, steps, gamma=0.0):
    """Gradient descent of γ on ``Σ a_k (1 − γλ_k/L)^2L``."""
    lam, a = np.asarray(task.lam), np.asarray(task.share)
    path = [gamma]
    for _ in range(steps):
        gamma += lr * np.sum(2 * a * lam * (1 - gamma * lam / depth) ** (2 * depth - 1))
        path.append(gamma)
    return np.asarray(path)


def rotated(contexts, seed=0, **changes):
    options = {"depth": 2, "lr": 0.05, "steps": 60, "contexts": contexts, "seed": seed}
    return dm.train_brute(RRS, Init(gamma=0.0), **{**options, "log_every": 1, **changes})


def test_gamma_follows_scalar_descent_and_the_error_falls_with_the_contexts():
    """At Γ = γI the trace of the gradient has no noise: what is left is of second order, 1/B."""
    expected = scalar_gamma(RRS, 2, 0.05, 60)
    error = {}
    for contexts in (16, 256):
        runs = [rotated(contexts, seed) for seed in range(3)]
        error[contexts] = np.mean([np.max(np.abs(run.gamma - expected)) for run in runs])
    assert error[256] < 5e-4 * expected[-1]
    slope = np.log(error[256] / error[16]) / np.log(16)
    assert -1.4 < slope < -0.6


def test_time_of_matrices_is_longer_by_the_width():
    run = rotated(16, lr=0.05 * 8, time="matrix")
    scalar = rotated(16)
    np.testing.assert_allclose(run.gamma, scalar.gamma, rtol=1e-12)
    np.testing.assert_allclose(run.time, 8 * scalar.time, rtol=1e-14)


def test_the_loss_is_that_of_the_contexts_descended_next():
    run = rotated(16)
    gamma, step = run.state[0]
    problem = dm.ContextDescent(RRS, 1.0, jax.random.key(0), 2, 16, 1)
    key = jax.random.fold_in(jax.random.key(0), step)
    expected = jax.jit(lambda g, k: problem.loss(g, k, 16))(gamma, key)
    assert float(run.loss[-1]) == pytest.approx(float(expected), rel=1e-12)
    np.testing.assert_allclose(run.gamma[-1], np.trace(gamma) / 8, rtol=1e-14)


def test_too_large_a_rate_is_told_and_does_not_raise():
    run = rotated(16, lr=50.0)
    assert run.status == "diverged"
    assert rotated(16).status == "ok"


def test_untied_layers_take_the_step_of_tied_ones():
    """From one start each has the tied γ after a step, and their mean is the tied Γ."""
    task = RotatedStructure(nu=1.0, beta=1.0, dim=4, width=3)
    tied, untied = (
        dm.train_brute(task, Init(gamma=0.4), depth=3, lr=0.05, steps=1, contexts=8, layers=layers)
        for layers in ("tied", "untied")
    )
    assert untied.gamma.shape == (3, 2)
    np.testing.assert_allclose(untied.gamma, np.tile(tied.gamma, (3, 1)), rtol=1e-12)
    mean = np.mean(untied.state[0][0], axis=0)
    np.testing.assert_allclose(mean, tied.state[0][0], rtol=1e-12, atol=1e-14)
    # That step is the scalar one on the same contexts: the rate of Γ has N in it, not D.
    problem = dm.ContextDescent(task, 1.0, jax.random.key(0), 3, 8, 1)
    key = jax.random.fold_in(jax.random.key(0), 0)
    slope = jax.jit(jax.grad(lambda g: problem.loss(g * jnp.eye(3), key, 8)))(0.4)
    assert float(tied.gamma[1]) == pytest.approx(0.4 - 0.05 * float(slope), rel=1e-12)


def test_a_fixed_structure_without_end_is_its_diagonal_recursion():
    task = FixedStructure(nu=1.0, beta=1.0, dim=5)
    depth, lr, steps = 3, 0.4, 50
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    path = [np.linspace(0.1, 0.5, 5)]
    for _ in range(steps):
        slope = 2 * omega * lam**2 * (1 - lam * path[-1] / depth) ** (2 * depth - 1)
        path.append(path[-1] + lr * slope)
    expected = np.stack(path, axis=1)
    run = dm.train_brute(task, Init(gamma=path[0]), depth=depth, lr=lr, steps=steps, log_every=1)
    np.testing.assert_allclose(run.gamma, expected, rtol=1e-10)
    loss = np.sum((omega * lam)[:, None] * (1 - lam[:, None] * expected / depth) ** 6, axis=0)
    np.testing.assert_allclose(run.loss, loss, rtol=1e-10)
    # In a random basis Γ turns with it.
    turn = np.asarray(rotations(jax.random.key(0), 1, 5)[0])
    covariance, root = jnp.asarray(turn * lam @ turn.T), jnp.asarray(turn * np.sqrt(omega))
    slope = jax.jit(jax.grad(lambda g: dm.exact_loss(g, covariance, root, depth)))
    gamma = jnp.asarray(turn * path[0] @ turn.T)
    for _ in range(steps):
        gamma = gamma - lr * slope(gamma)
    np.testing.assert_allclose(turn.T @ gamma @ turn, np.diag(path[-1]), rtol=1e-10, atol=1e-13)


# Training of full attention


def test_attention_weights_follow_the_descent_of_four_numbers():
    dim, alpha, depth, lr, steps = 16, 2.0, 2, 0.02, 50
    tokens = np.random.default_rng(0).standard_normal((300, round(alpha * dim), dim))
    moments = np.einsum("cpd,cpe->cde", tokens, tokens) / tokens.shape[1]
    eigen = np.linalg.eigvalsh(moments).ravel()
    weights = np.asarray([2**0.5 * 0.6, 0.6, 0.6, 0.6])
    path = [weights]
    for _ in range(steps):
        gamma = weights[0] * np.prod(weights)
        slope = -2.0 * np.mean(eigen * (1 - gamma * eigen / depth) ** (2 * depth - 1))
        weights = weights - lr * slope * gamma / weights * np.asarray([2.0, 1.0, 1.0, 1.0])
        path.append(weights)
    task = Isotropic(alpha=alpha, dim=dim, queries=16)
    run = dm.train_brute(
        task, Init(weights=0.6), depth=depth, lr=lr, steps=steps, contexts=64, log_every=10
    )
    assert run.weights.shape == (4, 6)
    # The four go from 0.6 to 0.9: noise of the contexts, and what else moves, is of order 1/D.
    np.testing.assert_allclose(run.weights, np.stack(path[::10], axis=1), rtol=0.02)
    assert float(run.gamma[-1]) == pytest.approx(weights[0] * np.prod(weights), rel=0.05)
    model = run.state[0][0]
    start = dm.LinearAttention.of_weights(jnp.ones(4), dim=dim, depth=depth)
    np.testing.assert_array_equal(model.label, start.label)
    np.testing.assert_array_equal(model.out, start.out)


def test_narrow_attention_takes_the_step_of_four_numbers():
    """On the contexts of one step, whatever else of the matrices moves: to round-off."""
    task = RotatedStructure(nu=1.0, beta=1.0, dim=6, width=4, context=9, queries=3)
    start, lr = jnp.asarray([0.9, 0.7, 0.8, 0.6]), 0.02
    run = dm.train_brute(
        task, Init(weights=start), depth=3, lr=lr, steps=1, contexts=8, log_every=1
    )
    problem = dm.ContextDescent(task, 1.0, jax.random.key(0), 3, 8, 1, True)
    key = jax.random.fold_in(jax.random.key(0), 0)
    template = dm.LinearAttention.of_weights(jnp.ones(4), dim=6, depth=3, width=4)

    @jax.jit
    @jax.grad
    def slope(four):
        x, q, k, v = four
        model = eqx.tree_at(
            lambda m: (m.read, m.query, m.key, m.value),
            template,
            (x * template.read, q * template.query, k * template.key, v * template.value),
        )
        return problem.loss(model, key, 8)

    np.testing.assert_allclose(run.weights[:, 0], start, rtol=1e-14)
    np.testing.assert_allclose(run.weights[:, 1], start - lr * slope(start), rtol=1e-12)
    np.testing.assert_allclose(template.read[:4, :4], (6 / 4) ** 0.5 * np.eye(4), rtol=1e-15)


def test_narrow_attention_of_one_layer_follows_the_exact_descent():
    """``𝓛 = Σa − 2γ Σaλ + γ²Q`` with Q of Gaussian tokens and Haar projections, γ (D/N) Π."""
    dim, width, length, lr, steps = 24, 10, 30, 0.02, 60
    task = RotatedStructure(nu=1.25, beta=0.8, dim=dim, width=width, context=length, queries=24)
    lam, a = np.asarray(task.lam), np.asarray(task.share)
    below = dim * (dim - 1) * (dim + 2)
    c1, c2 = width * (width * dim + dim - 2) / below, width * (dim - width) / below
    square = (1 + 1 / length) * (c1 * a @ lam**2 + c2 * lam.sum() * a @ lam)
    square += (c1 * lam @ lam + c2 * lam.sum() ** 2) / length
    weights = np.asarray([2**0.5 * 0.6, 0.6, 0.6, 0.6])
    path = [weights]
    for _ in range(steps):
        gamma = weights[0] * np.prod(weights)
        slope = 2 * gamma * (dim / width) ** 2 * square - 2 * a @ lam
        weights = weights - lr * slope * gamma / weights * np.asarray([2.0, 1.0, 1.0, 1.0])
        path.append(weights)
    run = dm.train_brute(
        task, Init(weights=0.6), depth=1, lr=lr, steps=steps, contexts=256, log_every=20
    )
    # From 0.6 to 0.83: a hundredth for the noise of the contexts and what else moves.
    np.testing.assert_allclose(run.weights, np.stack(path[::20], axis=1), rtol=0.01)


# One layer by SGD


@pytest.mark.parametrize(("noise", "noisy"), [(0.0, False), (0.7, True)])
def test_sgd_of_one_layer_follows_its_recursion(noise, noisy):
    dim, alpha, kappa, tau, lr, steps = 64, 1.0, 4, 1.0, 0.1, 25
    c = 1 + (1 + noise**2) / alpha
    each = lr**2 / tau
    distance, mean = [1 / c**2], [1.0]
    for _ in range(steps):
        a = (1 - lr * c) ** 2 + each * (1 + 1 / kappa) * c**2
        b = each * (1 + 1 / kappa) * (c - 1) + (each * noise**2 * c / kappa if noisy else 0.0)
        distance.append(a * distance[-1] + b)
        mean.append((1 - lr * c) * mean[-1])
    task = Isotropic(alpha=alpha, noise=noise, dim=dim)
    run = train_sgd(
        task, lr=lr, steps=steps, contexts=dim, queries=kappa * dim, noisy_queries=noisy
    )
    # The recursion is that of D → ∞; at D = 64 simulation is a few per cent above it.
    np.testing.assert_allclose(run.distance, distance, rtol=0.1)
    shift = 1 - 1 / c
    loss = np.asarray(distance) + 2 * shift / c * np.asarray(mean) + shift**2
    np.testing.assert_allclose(run.loss, loss, rtol=0.05)


# Softmax


def test_softmax_attention_learns_in_context():
    task = FixedStructure(nu=1.5, beta=1.75, dim=4, context=12, queries=6)
    run = train_softmax(task, depth=2, hidden=16, lr=1e-2, steps=100, contexts=32, log_every=20)
    assert run.status == "ok"
    # The predictor 0 has a loss of E y² = 1.
    assert run.loss[-1] < 0.6 < run.loss[0]
    # What else a run depends on compiles another start.
    told = {"task.context": "12", "hidden": "16", "heads": "1", "contexts": "32", "chunks": "1"}
    assert told.items() <= run.origin.items()


# What is refused


@pytest.mark.parametrize(
    ("task", "start", "changes", "told"),
    [
        (Isotropic(alpha=1.0), Init(gamma=0.0), {}, "dim"),
        (Isotropic(alpha=1.0), Init(weights=0.5), {}, "dim"),
        (Isotropic(alpha=1.0, dim=4), Init(weights=0.5), {}, "queries"),
        (RotatedStructure(nu=1.0, beta=1.0, dim=4, queries=2), Init(weights=0.5), {}, "context"),
        (RRS, Init(gamma=0.0), {"contexts": 0}, "contexts"),
        (RRS, Init(gamma=0.0), {"lr": -1.0}, "lr"),
        (RRS, Init(gamma=[0.0, 1.0]), {}, "gamma"),
        (RotatedStructure(nu=1.0, beta=1.0, dim=4, context=10**12), Init(gamma=0.0), {}, "context"),
    ],
)
def test_what_cannot_be_trained_is_told(task, start, changes, told):
    with pytest.raises(ValueError, match=told):
        dm.train_brute(task, start, **{"depth": 2, "lr": 0.1, "steps": 1, **changes})


def test_other_bad_input_is_told():
    gamma = jnp.zeros((3, 2, 2))
    with pytest.raises(ValueError, match="gamma must have 2 layers"):
        dm.LinearAttention.aligned(gamma, dim=4, depth=2)
    with pytest.raises(ValueError, match="dim"):
        dm.LinearAttention.aligned(gamma, dim=1, depth=3)
    with pytest.raises(ValueError, match="width"):
        dm.LinearAttention.of_weights(jnp.ones(4), dim=2, depth=2, width=3)
    with pytest.raises(ValueError, match="gamma must have 2 layers"):
        dm.gamma_prediction(gamma, X, Y, 2)


@pytest.mark.usefixtures("as_users_run_it")
def test_bad_input_of_the_other_trainings_is_told():
    with pytest.raises(ValueError, match="task must be a deep_icl"):
        train_sgd(RRS, lr=0.1, steps=1, contexts=2)
    with pytest.raises(ValueError, match="dim"):
        train_sgd(Isotropic(alpha=1.0), lr=0.1, steps=1, contexts=2)
    with pytest.raises(ValueError, match="queries"):
        train_sgd(Isotropic(1.0, dim=4), lr=0.1, steps=1, contexts=2, noisy_queries=True)
    with pytest.raises(ValueError, match="queries"):
        train_softmax(RotatedStructure(nu=1.0, beta=1.0, dim=4, context=4), depth=2)
    good = RotatedStructure(nu=1.0, beta=1.0, dim=4, context=4, queries=2)
    for name, bad in {"depth": 0, "hidden": 0, "heads": 1.5, "lr": 0.0, "mlp": 3}.items():
        with pytest.raises(ValueError, match=name):
            train_softmax(good, **{"depth": 2, name: bad})
