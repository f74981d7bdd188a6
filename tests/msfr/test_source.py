"""Source/capacity features without tokens: the limit of long contexts, and training in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from solvable import msfr
from solvable.msfr.model import predict_tokens

TASK = msfr.Task(2, 1.8, 1.0, 1.0)
LAMBDA = np.array([[1.0, -0.5], [0.3, 0.8]])
MODEL = msfr.SoftmaxAttention(
    jnp.asarray([[0.1, 0.2, 0.3], [-0.2, 0.1, 0.4]]),
    jnp.asarray([[0.5, 0.1, -0.2], [0.0, 0.6, 0.3], [0.2, -0.1, 0.4]]),
    jnp.asarray([[0.4, -0.3, 0.1], [0.2, 0.5, 0.0], [0.1, 0.2, 0.3]]),
)
SIX = msfr.Task(6, 1.8, 1.0, 1.0)


def arrays(model):
    return [np.asarray(x) for x in (model.value, model.key, model.query)]


def moved(model, matrices, by):
    """The model with `by` times these matrices added to its own."""
    pairs = zip(arrays(model), matrices, strict=True)
    return msfr.SoftmaxAttention(*(jnp.asarray(x + by * np.asarray(y)) for x, y in pairs))


def rows(model, strengths):
    """``[Aᵀ Σ̃_s v_s]_{1…S}`` for every s with the matrices Σ̃_s written out, τ = 3."""
    value, key, query = arrays(model)
    size = len(strengths)
    found = []
    for s, strength in enumerate(strengths):
        spectrum = np.roll(np.arange(1, size + 1) ** -3.0, s)  # (110)
        into = np.vstack([np.eye(size), strength])
        covariance = into @ np.diag(spectrum) @ into.T
        found.append(((key.T @ query).T @ covariance @ value[s])[:size])
    return np.array(found)


def by_matrices(model, strengths, weights):
    """``½ Σ_s p_s r_sᵀ Σ_s r_s``, the same way."""
    total = 0.0
    for s, left in enumerate(rows(model, strengths) - strengths):
        spectrum = np.roll(np.arange(1, len(strengths) + 1) ** -3.0, s)
        total += 0.5 * weights[s] * left @ np.diag(spectrum) @ left
    return total


def test_the_exponential_tilt_of_gaussian_tokens():
    """E[x e^{x·b}] / E[e^{x·b}] = Σ b, by quadrature in two dimensions."""
    covariance, b = np.array([[0.8, 0.3], [0.3, 0.5]]), np.array([0.7, -0.4])
    inverse = np.linalg.inv(covariance)

    def mean(weigh):
        def density(y, x):
            at = np.array([x, y])
            return weigh(at) * np.exp(at @ b - 0.5 * at @ inverse @ at)

        return integrate.dblquad(density, -9.0, 9.0, -9.0, 9.0, epsabs=1e-9)[0]

    tilted = np.array([mean(lambda at: at[0]), mean(lambda at: at[1])]) / mean(lambda at: 1.0)
    np.testing.assert_allclose(tilted, covariance @ b, rtol=1e-7)


def test_the_loss_of_two_tasks():
    weights, true = [0.6, 0.4], pytest.approx(0.3297004960324, abs=1e-13)
    assert float(msfr.source_loss(MODEL, LAMBDA, weights)) == true
    assert by_matrices(MODEL, LAMBDA, weights) == true


def test_the_loss_of_many_tasks_is_that_of_the_matrices_written_out():
    start, strengths = msfr.source_start(SIX, seed=3), msfr.source_strengths(SIX, seed=3)
    found = float(msfr.source_loss(start, strengths, SIX.weights))
    true = by_matrices(start, np.asarray(strengths), np.asarray(SIX.weights))
    assert found == pytest.approx(true, rel=1e-12)


def test_a_spectrum_that_falls_at_once_leaves_one_feature():
    """τ → ∞ is MSFR, (113): f_s = v_sᵀ uuᵀ A_{·s}, u = (e_s; Λ_ss)."""
    start, strengths = msfr.source_start(SIX), np.asarray(msfr.source_strengths(SIX))
    value, key, query = arrays(start)
    a = key.T @ query
    own = np.diag(strengths)
    s = np.arange(6)
    f = (value[s, s] + own * value[:, -1]) * (a[s, s] + own * a[-1, s])
    true = 0.5 * np.asarray(SIX.weights) @ (f - own) ** 2
    found = float(msfr.source_loss(start, strengths, SIX.weights, decay=100.0))
    assert found == pytest.approx(true, rel=1e-12)


def test_its_gradient_by_differences():
    """Of every matrix, in random directions; also in τ."""
    strengths, weights = msfr.source_strengths(SIX), SIX.weights

    @jax.jit
    def loss(model, decay):
        return msfr.source_loss(model, strengths, weights, decay=decay)

    start, tau, h = msfr.source_start(SIX), jnp.asarray(3.0), 1e-5
    gradient, slope = jax.jit(jax.grad(loss, argnums=(0, 1)))(start, tau)
    rng = np.random.default_rng(0)
    for k in range(3):
        way = [np.zeros(x.shape) for x in arrays(start)]
        way[k] = rng.normal(size=way[k].shape)
        ends = [float(loss(moved(start, way, x), tau)) for x in (h, -h)]
        along = sum(np.sum(g * w) for g, w in zip(arrays(gradient), way, strict=True))
        assert along == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)
    ends = [float(loss(start, tau + x)) for x in (h, -h)]
    assert float(slope) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


def test_strengths_are_those_of_the_tokens():
    task, data = msfr.Task(2, 1.8, 8.0, 1.0), 30
    tokens = msfr.sample(task, data, seed=5, features="source")
    strengths = np.asarray(msfr.source_strengths(task, seed=5, data=data))
    phi, index = np.asarray(tokens.phi), np.asarray(tokens.task)
    targets = np.einsum("nk,nkc->nc", strengths[index], phi[:, :2])
    np.testing.assert_allclose(targets[:, :-1], phi[:, 2, :-1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(targets[:, -1], tokens.label, rtol=0, atol=1e-13)


def test_attention_on_long_contexts_of_tokens_is_the_limit():
    """ψ = 2000: the loss within its noise over data, the predictions within O(ψ^-½) of theirs."""
    task, data = msfr.Task(2, 1.8, 2000.0, 1.0), 1000
    tokens = msfr.sample(task, data, seed=1, features="source")
    strengths = np.asarray(msfr.source_strengths(task, seed=1, data=data))
    f = np.asarray(jax.jit(predict_tokens)(MODEL, tokens))
    label, index = np.asarray(tokens.label), np.asarray(tokens.task)
    square = 0.5 * (f - label) ** 2
    shares = np.bincount(index, minlength=2) / data
    true = float(msfr.source_loss(MODEL, strengths, shares))
    error = square.std() / data**0.5
    assert square.mean() == pytest.approx(true, abs=4.0 * error)
    assert error < 0.1 * true
    limit = np.sum(rows(MODEL, strengths)[index] * np.asarray(tokens.phi)[:, :2, -1], axis=1)
    assert np.sqrt(np.mean((f - limit) ** 2) / np.mean(limit**2)) < 4.0 / 2000**0.5


def test_the_limit_is_approached_like_one_over_the_context():
    """ψ E(f_ψ − f_∞)² is the same at ψ a factor of 16 apart: attention written out in numpy."""
    rng, data = np.random.default_rng(0), 4000
    value, key, query = arrays(MODEL)
    spectrum = np.array([1.0, 0.125])  # of the first task
    asked = rng.normal(size=(data, 2)) * spectrum**0.5
    limit = asked @ rows(MODEL, LAMBDA)[0]
    scaled = []
    for context in (40, 640):
        features = rng.normal(size=(data, context, 2)) * spectrum**0.5
        features = np.concatenate([features, asked[:, None]], axis=1)
        targets = features @ LAMBDA[0]
        targets[:, -1] = 0.0  # the query's, which is not told
        tokens = np.concatenate([features, targets[:, :, None]], axis=2)
        tilt = np.einsum("nci,i...->nc...", tokens, key.T @ query[:, :2])
        weight = np.exp(np.einsum("nck,nk->nc", tilt, asked))
        f = np.einsum("nc,nci,i->n", weight / weight.sum(1, keepdims=True), tokens, value[0])
        scaled.append(context * np.mean((f - limit) ** 2))
    # Squares of 4000 numbers: 2 to 3 % noise each, and 1/ψ beyond the first order at ψ = 40.
    assert scaled[1] == pytest.approx(scaled[0], rel=0.15)
    assert scaled[0] > 0.01


def test_a_step_descends_the_loss():
    """θ − lr ∇L by hand; L, and every task's error, are those of `source_loss`."""
    start, strengths = msfr.source_start(SIX, seed=2), msfr.source_strengths(SIX, seed=2)
    run = msfr.train_source(SIX, lr=0.2, steps=3, seed=2, precision="double", log_every=1)
    model = start
    descend = jax.jit(jax.grad(lambda model: msfr.source_loss(model, strengths, SIX.weights)))
    for loss in np.asarray(run.loss):
        true = float(msfr.source_loss(model, strengths, SIX.weights))
        assert loss == pytest.approx(true, rel=1e-12)
        model = moved(model, arrays(descend(model)), -0.2)
    np.testing.assert_allclose(0.5 * SIX.weights @ run.errors, run.loss, rtol=1e-13)
    np.testing.assert_allclose(run.time, 0.2 * run.step)


@pytest.mark.parametrize("size", [1, 4])
def test_tasks_beyond_the_size_keep_their_errors(size):
    """And get no gradient; the others are trained as if those were not there."""
    how = {"lr": 0.2, "steps": 20, "precision": "double", "log_every": 5}
    run = msfr.train_source(SIX, size=size, **how)
    errors = np.asarray(run.errors)
    np.testing.assert_array_equal(errors[size - 1 :], errors[size - 1 :, :1] + 0.0 * run.time)
    start = msfr.source_start(SIX)
    np.testing.assert_array_equal(run.state[0].value[size - 1 :], start.value[size - 1 :])
    none = np.where(np.arange(1, 7) < size, np.asarray(SIX.weights), 0.0)
    other = msfr.train_source(SIX, weights=none, **how)
    np.testing.assert_allclose(run.errors[: size - 1], other.errors[: size - 1], rtol=1e-12)
    rest = 0.5 * SIX.weights[size - 1 :] @ errors[size - 1 :, 0]
    np.testing.assert_allclose(np.asarray(run.loss), np.asarray(other.loss) + rest, rtol=1e-12)


def test_seeds_side_by_side_are_each_by_itself():
    """Also the strengths and the start: each seed's own."""
    how = {"lr": 0.2, "steps": 20, "precision": "double", "log_every": 5}
    both = msfr.train_source(SIX, seed=(0, 7), **how)
    for k, seed in enumerate((0, 7)):
        alone = msfr.train_source(SIX, seed=seed, **how)
        np.testing.assert_allclose(both.errors[k], alone.errors, rtol=1e-12)
    assert abs(both.loss[0, 0] - both.loss[1, 0]) > 1e-3
    given = msfr.train_source(
        SIX, msfr.source_start(SIX, seed=7), strengths=msfr.source_strengths(SIX, seed=7), **how
    )
    np.testing.assert_allclose(given.errors, both.errors[1], rtol=1e-12)


@pytest.mark.slow
def test_single_precision_is_enough():
    """Of a stable run to t = 60; the loss moves by far less than from seed to seed."""
    task = msfr.Task(40, 1.8, 1.0, 1.0)
    how = {"lr": 0.2, "steps": 300, "seed": 2}
    single = msfr.train_source(task, **how)
    double = msfr.train_source(task, precision="double", **how)
    assert single.state[0].value.dtype == jnp.float32
    assert double.loss[-1] < 0.5 * double.loss[0]
    np.testing.assert_allclose(single.loss, double.loss, rtol=1e-4)


def test_training_goes_on_where_it_ended():
    how = {"lr": 0.2, "precision": "double", "log_every": 5}
    half = msfr.train_source(SIX, steps=10, **how)
    whole = msfr.train_source(SIX, steps=20, resume=half, **how)
    np.testing.assert_allclose(whole.loss, msfr.train_source(SIX, steps=20, **how).loss, rtol=1e-12)
    with pytest.raises(ValueError, match="resume must be a run of the same problem"):
        msfr.train_source(SIX, steps=20, resume=half, decay=2.0, **how)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"size": 8}, "size must be"),
        ({"decay": -1.0}, r"decay must lie in \[0, 100\], not -1"),
        ({"strengths": LAMBDA}, r"strengths must be shape \(6, 6\)"),
        ({"strengths": np.full((6, 6), np.nan)}, "strengths must lie in"),
        ({"weights": np.full(6, -1.0)}, r"weights must lie in \[0, 1\], not -1"),
        ({"weights": np.ones(3)}, r"weights must be shape \(6,\)"),
        ({"precision": "half"}, "precision must be one of single, double, not 'half'"),
        ({"start": MODEL}, r"value must be shape \(6, 7\)"),
        ({"start": SIX}, r"start must be a msfr\.SoftmaxAttention, not Task"),
        ({"lr": -0.1}, "lr must lie in"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_what_cannot_be_trained_is_refused(asked, words):
    with pytest.raises(ValueError, match=words):
        msfr.train_source(SIX, **({"lr": 0.2, "steps": 1} | asked))


@pytest.mark.usefixtures("as_users_run_it")
def test_losses_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"task must be a msfr\.Task, not int"):
        msfr.train_source(6, lr=0.2, steps=1)  # pyright: ignore
    with pytest.raises(ValueError, match=r"model must be a msfr\.SoftmaxAttention"):
        msfr.source_loss(TASK, LAMBDA, [0.6, 0.4])  # pyright: ignore
    with pytest.raises(ValueError, match=r"weights must be shape \(2,\)"):
        msfr.source_loss(MODEL, LAMBDA, [0.6])
    with pytest.raises(ValueError, match=r"strengths must be shape \(2, 2\)"):
        msfr.source_loss(MODEL, LAMBDA[:, :1], [0.6, 0.4])
