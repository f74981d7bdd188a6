"""The floor of SGD with finite batches: its noise, its curvature, and the SGD of its figure."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import deep_icl as deep
from solvable.compiling import jit
from solvable.deep_icl import model
from solvable.deep_icl.figures import iso_sgd
from solvable.deep_icl.figures._contexts import Contexts
from solvable.deep_icl.task import draw, rotations

ROTATED = deep.RotatedStructure(1.25, 0.8, 6)


def floor_of(task, depth, **how):
    return deep.batch_floor(task, depth, **{"lr": 1.0, "contexts": 1, "time": "matrix"} | how)


@pytest.mark.parametrize("depth", [1, 3])
def test_endless_contexts_are_all_alike(depth):
    """Drawing them gives what one of them gives, to round-off."""
    exact, drawn = floor_of(ROTATED, depth), floor_of(ROTATED, depth, drawn=20)
    assert drawn.gamma == pytest.approx(exact.gamma, rel=1e-9)
    np.testing.assert_allclose(drawn.noise, exact.noise, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(drawn.curvature, exact.curvature, rtol=1e-8)


@pytest.mark.parametrize(
    "task",
    [
        deep.Isotropic(4.0, 1.0, dim=4),
        deep.Isotropic(8.0, dim=4),
        deep.RotatedStructure(1.25, 0.8, 6, context=30, noise=0.5),
    ],
)
def test_one_layer_has_gaussian_moments(task):
    """Each part of the noise and of the curvature, against drawn contexts."""
    exact, drawn = floor_of(task, 1), floor_of(task, 1, drawn=40_000)
    assert exact.error == 0.0
    assert abs(drawn.loss - exact.loss) < 4.0 * drawn.error
    assert drawn.error < 0.02 * exact.loss
    np.testing.assert_allclose(drawn.noise, exact.noise, rtol=0.06)
    np.testing.assert_allclose(drawn.curvature, exact.curvature, rtol=0.03)


def test_one_isotropic_layer_has_a_known_optimum_and_curvature():
    """γ* = 1/(1 + (D+1)/P + σ²D/P), h = 2/(Dγ*), in any direction."""
    dim, context, noise = 5, 15, 0.7
    found = floor_of(deep.Isotropic(context / dim, noise, dim=dim), 1)
    best = 1.0 / (1.0 + (dim + 1.0) / context + noise**2 * dim / context)
    assert found.gamma == pytest.approx(best, rel=1e-12)
    np.testing.assert_allclose(found.curvature, 2.0 / (dim * best), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:γ.I is a saddle")
def test_multiplicities_are_directions():
    lam, omega = np.array([1.0, 0.4, 0.4, 0.4, 0.1]), np.array([0.5, 0.3, 0.3, 0.3, 2.0])
    whole = deep.RotatedStructure(lam=lam, omega=omega)
    some = deep.Spectrum.given(lam[[0, 1, 4]], omega[[0, 1, 4]], weight=[1, 3, 1])
    one, other = (floor_of(task, 3) for task in (whole, deep.RotatedStructure(spectrum=some)))
    np.testing.assert_allclose(other.noise, one.noise, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(other.curvature, one.curvature, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, 2])
def test_the_curvature_is_that_of_the_mean_loss(part):
    """Second differences along a unit matrix of each part, in many rotations."""
    depth, dim, small = 3, ROTATED.dim, 0.02
    found = floor_of(ROTATED, depth)
    rng = np.random.default_rng(3)
    normal = rng.standard_normal((dim, dim))
    sides = np.eye(dim), normal + normal.T, normal - normal.T
    along = sides[part] - (np.trace(sides[part]) / dim * np.eye(dim) if part == 1 else 0.0)
    along = along * small / np.linalg.norm(along)
    contexts, middle = Contexts(ROTATED, (100_000, 1), rng), found.gamma * np.eye(dim)
    gammas = [(middle + k * along)[:, :, None] for k in (1.0, 0.0, -1.0)]
    up, at, down = (contexts.loss(each, depth) for each in gammas)
    seen = (up + down - 2.0 * at) / small**2
    error = seen.std(ddof=1) / math.sqrt(seen.size)
    # Fourth differences are below 1 % at this distance.
    assert abs(seen.mean() - found.curvature[part]) < 4.0 * error + 0.01 * found.curvature[part]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "depth"),
    [
        (deep.RotatedStructure(1.25, 0.8, 6, width=4, context=60, noise=0.3, queries=5), 2),
        (deep.RotatedStructure(1.25, 0.8, 6, width=4), 3),
        (deep.Isotropic(4.0, 1.0, dim=4), 3),
    ],
)
def test_the_noise_is_that_of_the_gradients_of_training(task, depth):
    """Squared gradients of `train_brute`'s loss, a context at a time."""
    found = floor_of(task, depth, drawn=20_000)
    problem, _ = model.prepare(task, deep.Init(gamma=1.0), depth=depth, lr=1.0).build()
    start = jnp.asarray(found.gamma * np.eye(task.width))

    @jit
    def squares(keys):
        slope = jax.grad(lambda g, key: problem.loss(g, key, 1))
        return jax.vmap(lambda key: jnp.sum(slope(start, key) ** 2))(keys)

    seen = np.asarray(squares(jax.random.split(jax.random.key(5), 20_000)))
    error = math.hypot(seen.std() / math.sqrt(seen.size), 4.0 * found.error)
    assert abs(seen.mean() - found.noise.sum()) < 4.0 * error


def moved(task, depth, gamma, contexts):
    """Γ after one step of `train_brute` from γI."""
    start = deep.Init(gamma=gamma)
    how = {"depth": depth, "lr": 0.3, "time": "matrix", "contexts": contexts, "seed": 11}
    return np.asarray(deep.train_brute(task, start, steps=1, **how).state[0][0])


@pytest.mark.slow
def test_a_step_of_the_figure_is_a_step_of_training():
    """On the contexts that `train_brute` draws: isotropic ones with noise, and rotated ones."""
    key = jax.random.fold_in(jax.random.key(11), 0)
    task = deep.Isotropic(3.0, 0.5, dim=4)
    data = draw(task, key, 3)
    here = object.__new__(Contexts)
    x, y = (np.asarray(z) for z in (data.x, data.y))
    here.lam, here.b, here.frame = np.ones((4, 1, 1)), np.asarray(data.b).T[:, :, None], None
    here.moment = np.einsum("cpi,cpj->ijc", x, x)[..., None] / 12
    here.seen = np.einsum("cpi,cp->ic", x, y)[..., None] / 12
    start = 0.7 * np.eye(4)
    told = start - 0.3 * here.slope(start[:, :, None], 3)[:, :, 0]
    np.testing.assert_allclose(moved(task, 3, 0.7, 3), told, rtol=1e-11, atol=1e-14)

    turn, _, _ = jax.random.split(key, 3)
    here.frame = np.moveaxis(np.asarray(rotations(turn, 3, 6, 6)), 0, -1)[..., None]
    here.lam = np.asarray(ROTATED.lam)[:, None, None]
    here.b = np.sqrt(np.asarray(ROTATED.omega))[:, None, None] * np.ones((1, 3, 1))
    here.moment = np.einsum("ijcr,iab,ikcr->jkcr", here.frame, here.lam, here.frame)
    here.seen = np.einsum("ijcr,icr->jcr", here.frame, here.lam * here.b)
    start = 0.7 * np.eye(6)
    told = start - 0.3 * here.slope(start[:, :, None], 3)[:, :, 0]
    np.testing.assert_allclose(moved(ROTATED, 3, 0.7, 3), told, rtol=1e-11, atol=1e-14)


def test_the_excess_starts_at_nothing_and_ends_at_the_floor():
    """At first it grows by n η² Σ h Tr S/(2B)."""
    found = deep.batch_floor(ROTATED, 3, lr=0.5, contexts=3)
    assert found.step == pytest.approx(0.5 * ROTATED.dim)
    assert found.after(0.0) == 0.0
    assert found.after(1e12) == pytest.approx(found.loss)
    early = 1e-6
    pace = found.step**2 * np.sum(found.curvature * found.noise) / (2.0 * found.contexts)
    assert found.after(early) == pytest.approx(early * pace, rel=1e-4)
    twice = deep.batch_floor(ROTATED, 3, lr=1.0, contexts=3)
    assert twice.loss == pytest.approx(2.0 * found.loss)


@pytest.mark.parametrize("eta", [1e-3, 1e-4])
def test_one_layer_settles_at_the_floor_as_the_step_falls(eta):
    """The exact recursion at finite D is the floor at η → 0, with all queries, to O(ηc)."""
    dim, alpha, tau = 6, 2.0, 0.5
    at = {"tau": tau, "alpha": alpha, "kappa": 1e9, "lr": eta}
    told = deep.batch_floor(deep.Isotropic(alpha, dim=dim), 1, lr=eta / 2, contexts=3)
    shift = 1.0 / (1.0 + (dim + 1.0) / (alpha * dim)) - 1.0 / (1.0 + 1.0 / alpha)
    settles = (iso_sgd._exact(dim, at, eta, 0)[2] - shift**2) / told.gamma  # c C
    # The next order is ηc/2 (1 + what a batch adds), at most 20 of η here.
    assert abs(settles / told.loss - 1.0) < 20.0 * eta


@pytest.mark.filterwarnings("ignore:one of 2000 contexts")
def test_a_saddle_has_no_floor():
    """Long isotropic contexts without noise: an antisymmetric part of Γ lowers the mean loss."""
    with pytest.warns(UserWarning, match="saddle"):
        found = floor_of(deep.Isotropic(16.0, dim=6), 3, drawn=2000)
    assert found.loss == math.inf
    assert found.curvature[2] < 0.0 < found.curvature[1]


def test_few_contexts_may_own_the_noise():
    with pytest.warns(UserWarning, match="of the noise"):
        floor_of(deep.Isotropic(2.0, dim=8), 4, drawn=4000)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (deep.FixedStructure(1.0, 1.0, 4), "RotatedStructure"),
        (deep.Isotropic(2.0), "dim must be given"),
    ],
)
def test_what_it_cannot_tell_is_refused(task, words):
    with pytest.raises(ValueError, match=words):
        floor_of(task, 2)


def test_a_rate_and_a_batch_must_be_positive():
    with pytest.raises(ValueError, match="lr"):
        floor_of(ROTATED, 2, lr=0.0)
    with pytest.raises(ValueError, match="contexts"):
        floor_of(ROTATED, 2, contexts=0)
