"""Training on tokens of any kind, and the mathematics of the figures that do so."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from solvable import msfr
from solvable.msfr.figures import _source, fig6, fig7, unseen

pytestmark = pytest.mark.slow

S, N, WIDTH = 6, 40, 4  # those of test_reduced_brute: one compilation serves
TASK = msfr.Task(S, 1.5, 7.0, 0.7)
RNG = np.random.default_rng(2)
LINEAR = msfr.Init(RNG.normal(0.0, 0.3, (S, 2)), RNG.normal(0.0, 0.3, (S, 2)))
SOFTMAX = msfr.SoftmaxInit(RNG.normal(0.0, 0.5, (S, 2)), *RNG.normal(0.0, 0.5, (2, WIDTH, S + 1)))
STARTS = {
    "linear": (LINEAR, msfr.LinearAttention.start),
    "softmax": (SOFTMAX, msfr.SoftmaxAttention.start),
}


@pytest.mark.parametrize("size", [S + 1, 3, 1], ids="D{}".format)
@pytest.mark.parametrize("kind", STARTS)
def test_sparse_tokens_are_trained_as_by_brute_force(kind, size):
    """The same trajectory; tasks s ≥ D keep the predictions of the start."""
    init, start = STARTS[kind]
    how = {"lr": 0.05, "steps": 40, "log_every": 8}
    brute = msfr.train_brute(TASK, init, data=N, seed=1, size=size, **how)
    model, tokens = start(TASK, init), msfr.sample(TASK, N, seed=1)
    learned = None if size == S + 1 else np.arange(1, S + 1) < size
    run = msfr.train_tokens(model, tokens, learned=learned, **how)
    np.testing.assert_array_equal(run.step, brute.step)
    np.testing.assert_array_equal(run.time, brute.time)
    np.testing.assert_allclose(run.loss, brute.train_loss, rtol=1e-12)
    assert (np.ptp(run.loss) > 1e-2) == (size > 1)
    for name in vars(model):
        seen, true = getattr(run.state[0], name), getattr(brute.state[0], name)
        np.testing.assert_allclose(seen, true, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(run.state[0].value[size - 1 :], model.value[size - 1 :])


def test_approximately_sparse_tokens_by_hand():
    """Gradient descent of ½ mean (v_sᵀ ΦΦᵀ W φ̂ − ŷ)², its gradient written out."""
    tokens = msfr.sample(TASK, N, seed=3, features="approximate")
    model = msfr.LinearAttention.start(TASK, LINEAR)
    run = msfr.train_tokens(model, tokens, lr=0.05, steps=5, log_every=1)
    phi, y, s = (np.asarray(x) for x in (tokens.phi, tokens.label, tokens.task))
    value, key_query = np.array(model.value), np.array(model.key_query)
    for loss in np.asarray(run.loss):
        into = np.einsum("nij,nkj,kl,nl->ni", phi, phi, key_query, phi[:, :-1, -1])
        error = np.sum(value[s] * into, axis=1) - y
        assert loss == pytest.approx(0.5 * np.mean(error**2), rel=1e-12)
        back = np.einsum("nij,nkj,nk->ni", phi, phi, value[s])
        step_w = np.einsum("n,ni,nl->il", error, back, phi[:, :-1, -1]) / N
        step_v = np.zeros_like(value)
        np.add.at(step_v, s, error[:, None] * into / N)
        value, key_query = value - 0.05 * step_v, key_query - 0.05 * step_w


def test_the_loss_on_source_features_falls_by_its_squared_gradient():
    """A small step of descent lowers L by lr |∇L|²."""
    tokens = msfr.sample(TASK, N, seed=4, features="source")
    rng = np.random.default_rng(0)  # every entry of V, too
    shapes = ((S, S + 1), (WIDTH, S + 1), (WIDTH, S + 1))
    model = msfr.SoftmaxAttention(*(jnp.asarray(rng.normal(0.0, 0.4, x)) for x in shapes))
    lr = 1e-6
    run = msfr.train_tokens(model, tokens, lr=lr, steps=5, log_every=1)
    moved = jax.tree.map(lambda x, y: np.sum(np.subtract(x, y) ** 2), model, run.state[0])
    fall = float(run.loss[0] - run.loss[-1])
    assert fall == pytest.approx(sum(jax.tree.leaves(moved)) / (5 * lr), rel=1e-3)


@pytest.mark.usefixtures("as_users_run_it")
def test_what_cannot_be_trained_is_refused():
    tokens = msfr.sample(TASK, N)
    model = msfr.LinearAttention.start(TASK, LINEAR)
    fewer = eqx.tree_at(lambda x: x.phi, tokens, jnp.asarray(np.asarray(tokens.phi)[:, :3]))
    with pytest.raises(ValueError, match="model must be an attention block, not Init"):
        msfr.train_tokens(LINEAR, tokens, lr=0.1, steps=1)  # pyright: ignore
    with pytest.raises(ValueError, match=r"tokens must be msfr\.Tokens, not Task"):
        msfr.train_tokens(model, TASK, lr=0.1, steps=1)  # pyright: ignore
    with pytest.raises(ValueError, match=r"tokens must have 7 rows.*not 3"):
        msfr.train_tokens(model, fewer, lr=0.1, steps=1)
    with pytest.raises(ValueError, match="learned must be"):
        msfr.train_tokens(model, tokens, lr=0.1, steps=1, learned=[True])
    with pytest.raises(ValueError, match="lr"):
        msfr.train_tokens(model, tokens, steps=1)


def test_closed_form_of_a_projection_has_rate_mu_and_no_psi():
    """One mode, v = w: f = Λ / (1 + Δ e^{−2aΛt}), a = pμ (58); the erratum of H.3."""
    matrix = fig7.projection(6)
    np.testing.assert_allclose(matrix @ matrix, 2.0 * matrix, rtol=0, atol=1e-14)
    assert np.linalg.matrix_rank(matrix) == 3
    v = np.random.default_rng(0).normal(0.0, 0.3, (1, 6))
    t = np.array([0.0, 0.1, 0.5, 2.0])
    f0 = (v @ matrix @ v.T).item()
    true = 1.0 / (1.0 + (1.0 / f0 - 1.0) * np.exp(-2.0 * 2.0 * t))
    closed_form = jax.jit(fig7.closed_form)
    np.testing.assert_allclose(closed_form(matrix, v, v, 2.0, t)[0], true, rtol=1e-12)
    printed = closed_form(matrix, v, v, 2.0 * 3.0, t)[0]
    assert np.max(np.abs(printed - true)) > 0.1


ROUGH = SimpleNamespace(alpha=1.8, strength=0.7, init=(0.1, 0.11), lr=0.05)  # as fig6's settings


def test_loss_by_shares_is_what_training_with_these_shares_does():
    """Descent on v, w with H = [[ψ+1, ψΛ], [ψΛ, ψΛ²]] is a learning rate away from the flow."""
    psi, lam, lr, shares = 10, ROUGH.strength, 1e-4, np.array([0.6, 0.4, 0.0])
    h = psi * np.outer([1.0, lam], [1.0, lam]) + np.diag([1.0, 0.0])
    v, w = (np.full((3, 2), x) for x in ROUGH.init)
    start = 0.5 * (v[0] @ h @ w[0] - lam) ** 2
    for _ in range(2000):
        pull = lr * shares * (np.sum(v * (w @ h), axis=1) - lam)
        v, w = v - pull[:, None] * (w @ h), w - pull[:, None] * (v @ h)
    square = 0.5 * (np.sum(v * (w @ h), axis=1) - lam) ** 2
    assert square[0] < 0.1 * start
    assert square[2] == pytest.approx(start, rel=1e-12)
    found = fig6.expected_loss(ROUGH, psi, shares, np.array([0.0, 0.2]), "exact")
    np.testing.assert_allclose(found, [start, shares @ square], rtol=1e-3)


@pytest.mark.parametrize("kind", fig6.STARTS)
def test_the_noise_of_the_query_meets_every_column(kind):
    """½ Σ p̂_s [(f_s − Λ)² + ψ^-2 |v_sᵀ H_s W|²] by the whole matrices, trained on exact tokens."""
    task = msfr.Task(S, 1.5, 7.0, ROUGH.strength)
    tokens = msfr.sample(task, N, seed=1)
    start = fig6._start(SimpleNamespace(init=ROUGH.init), task, kind)
    run = msfr.train_tokens(start, tokens, lr=ROUGH.lr, steps=40, log_every=8)
    value, key_query = np.asarray(run.state[0].value), np.asarray(run.state[0].key_query)
    shares = np.bincount(np.asarray(tokens.task), minlength=S) / N
    loss = 0.0
    for s, share in enumerate(shares):
        own = np.append(np.eye(S)[s], ROUGH.strength)
        alone = np.append(np.eye(S)[s], 0.0)  # the query, whose target is not told
        h = 7.0 * np.outer(own, own) + np.outer(alone, alone)
        row = value[s] @ h @ key_query
        loss += 0.5 * share * ((row[s] - ROUGH.strength) ** 2 + row @ row / 7.0**2)
    others = ROUGH.init[1] if kind == "all" else 0.0
    found = fig6.with_noise(ROUGH, 7, shares, np.array([0, 40]), others)
    assert found[1] == pytest.approx(loss, rel=1e-12)
    assert found[1] > 1.02 * float(run.loss[-1])  # the noise is seen


def test_stretches_find_the_exponents_of_pure_laws():
    """L = t^-½ + D^-1 has L ∝ C^-⅓ at its best D, and the stretch ends do not matter."""
    time = np.append(0.0, np.geomspace(1.0, 1e6, 400))
    power = np.append(2.0, time[1:] ** -0.5)
    assert _source.crossing(time, power, 0.1) == pytest.approx(100.0, rel=1e-9)
    assert _source.mean_exponent(time, power, 7.0, 3e4) == pytest.approx(0.5, rel=1e-9)
    sizes = np.unique(np.round(np.geomspace(2, 1000, 60)).astype(int))
    spent, least, best = _source.envelope(sizes, time, power + 1.0 / sizes[:, None])
    assert np.all(np.diff(best) >= 0)
    assert _source.mean_exponent(spent, least, 1e3, 1e7) == pytest.approx(1 / 3, abs=0.01)


def test_envelope_ends_where_training_of_the_best_size_ends():
    time = np.linspace(0.0, 10.0, 101)
    curves = np.exp(-np.outer([1.0, 0.01], time))  # the small model is always best
    spent, least, best = _source.envelope(np.array([2, 10]), time, curves)
    assert set(best) == {0}
    assert 19.0 < spent[-1] <= 20.0
    np.testing.assert_allclose(least, np.exp(-spent / 2), rtol=1e-9)


def _power_laws(seeds=6, tasks=40):
    """½ Σ_{s≤S} p_s E(p_s t/κ), E = e^-x, with κ of each seed's own, as `Falls` takes them."""
    time = np.append(0.0, np.geomspace(0.2, 300.0, 120))
    index, parts = np.arange(1.0, tasks + 1), {"loss": [], "loss_beyond": [], "loss_share": []}
    speeds = np.exp(np.random.default_rng(0).normal(0.0, 0.2, seeds))
    for alpha in (1.8, 2.1):
        p = index**-alpha / np.sum(index**-alpha)
        left = np.exp(-speeds[:, None, None] * time[:, None] * p)
        parts["loss"].append(0.5 * left @ p)
        rest = np.sum(np.arange(tasks + 1.0, 1e5) ** -alpha) + 1e5 ** (1 - alpha) / (alpha - 1)
        parts["loss_beyond"].append(0.5 * rest / np.sum(index**-alpha))
        parts["loss_share"].append(p[0])
    return xr.Dataset(
        {
            "loss": (("alpha", "seed", "time"), parts["loss"]),
            "loss_beyond": ("alpha", parts["loss_beyond"]),
            "loss_share": ("alpha", parts["loss_share"]),
        },
        coords={"alpha": [1.8, 2.1], "time": time},
    )


def test_the_tasks_beyond_the_last_bring_the_law_back():
    """Of exponential learning with 40 tasks: (α−1)/α, and 1/1.8 − 1/2.1 between the two α."""
    data = _power_laws()
    falls = _source.Falls.of(data)
    for alpha in (1.8, 2.1):
        law = (alpha - 1.0) / alpha
        assert falls.exponent(alpha).mean == pytest.approx(law, abs=0.02)
        assert falls.exponent(alpha, whole=False).mean > law + 0.05
    assert falls.paired().mean == pytest.approx(1 / 1.8 - 1 / 2.1, abs=0.01)
    assert falls.paired(whole=False).mean < 0.05


def test_training_that_does_not_know_alpha_shows_the_difference_of_the_tasks_beyond():
    """One L/L(0) at both α has no difference as trained, and `blind` is what it has with them."""
    data = _power_laws()
    one = data.loss.values[0]
    data.loss[1] = one / one[:, :1] * data.loss.values[1][:, :1]
    falls = _source.Falls.of(data)
    np.testing.assert_allclose(falls.paired(whole=False).values, 0.0, rtol=0, atol=1e-12)
    assert falls.paired().mean > 0.05
    for null in falls.blind().values():
        np.testing.assert_allclose(null.values, falls.paired().values, rtol=1e-9)


def test_a_seed_that_is_unstable_at_one_alpha_is_left_out_at_both():
    data = _power_laws()
    data.loss[1, 2, 60] *= 1.5
    data.loss[0, 4, 70] = np.nan
    falls = _source.Falls.of(data)
    assert [len(runs) for runs in falls.whole.values()] == [4, 4]


def test_unseen_strengths_are_predicted_only_with_the_constraint():
    """Perfect training ends at v_y w_s = 1/ψ; without the constraint f is quadratic in Λ̃."""
    task = msfr.Task(1, 1.8, 10.0, 0.5)
    ends = {}
    for kind, mask in (("held", unseen.CONSTRAINED), ("free", unseen.FREE)):
        rows = [x[None, :] for x in unseen.INIT * mask]
        moves = tuple(x[None, :] for x in mask)
        run = msfr.train(
            task, msfr.Init(*rows), optimizer=unseen.held(moves, 0.05), steps=2000, log_every=2000
        )
        assert float(run.loss[-1]) < 1e-28
        ends[kind] = [np.asarray(x)[0] for x in run.state[0]]
    v, w = ends["held"]
    assert (v[0], w[1]) == (0.0, 0.0)
    assert v[1] * w[0] == pytest.approx(1.0 / 10.0, rel=1e-12)
    v, w = ends["free"]
    opposite = 10.0 * (v[0] - 0.5 * v[1]) * (w[0] - 0.5 * w[1]) + v[0] * w[0]
    assert opposite > 0.0  # and so at least Λ away from −Λ
