"""The optimum of the mean: judged on contexts of real tokens that are drawn here."""

import math

import numpy as np
import pytest

from solvable import deep_icl as deep
from solvable.deep_icl.theory._mean import margin_scale, mean_optimum

pytestmark = pytest.mark.slow


def fixed(dim, context, noise=0.0, nu=1.0, beta=1.0):
    return deep.FixedStructure(nu, beta, dim, context=context, noise=noise)


def real_losses(task, gamma, depth, count, seed=0):
    """The loss of a diagonal Γ in contexts of tokens: tasks and noise by their second moments."""
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    rng = np.random.default_rng([seed, 77])
    x = rng.standard_normal((count, task.context, task.dim)) * np.sqrt(lam)
    moment = np.swapaxes(x, 1, 2) @ x / task.context
    left = np.eye(task.dim) - np.asarray(gamma)[:, None] * moment / depth
    power, total = np.eye(task.dim), 0.0
    for _ in range(depth):
        total, power = total + power, left @ power
    taken = total * np.asarray(gamma) / depth
    noise = np.sum((taken @ moment) * taken, axis=2) @ lam
    return power**2 @ omega @ lam + float(task.noise) ** 2 / task.context * noise


def error(losses):
    return losses.std(ddof=1) / math.sqrt(losses.size)


@pytest.mark.parametrize(("dim", "context", "noise"), [(8, 32, 0.0), (8, 32, 0.4), (20, 16, 0.3)])
def test_the_mean_told_is_that_of_other_contexts(dim, context, noise):
    """Also where the context is shorter than the dimension, and with its standard error."""
    task = fixed(dim, context, noise)
    found = mean_optimum(task, 3, contexts=1000, fresh=10_000, seed=1)
    losses = real_losses(task, found.gamma, 3, 10_000)
    assert abs(found.loss - losses.mean()) < 4.0 * math.hypot(found.error, error(losses))
    assert found.error < 0.02 * found.loss
    assert found.typical == pytest.approx(np.median(losses), rel=0.02)
    # Better than the optimum of the typical context, and than its neighbours, on these.
    typical = deep.optimum(task, 3)
    assert typical.loss < found.loss
    for other in (typical.gamma, 0.8 * found.gamma, 1.1 * found.gamma):
        gap = real_losses(task, other, 3, 10_000) - losses
        assert gap.mean() > 2.0 * error(gap)


def test_one_layer_has_its_exact_optimum():
    """There the mean is known: of 4000 contexts' Γ it is above its least by D/n at most."""
    task = fixed(6, 9, 0.4)
    found = mean_optimum(task, 1, contexts=4000, fresh=20_000)
    exact = deep.optimum(task, 1)
    assert exact.loss < deep.loss(task, gamma=found.gamma).item() < 1.002 * exact.loss
    assert abs(found.loss - deep.loss(task, gamma=found.gamma).item()) < 4.0 * found.error
    np.testing.assert_allclose(found.gamma, exact.gamma, rtol=0.1)


def test_the_search_ends_at_a_minimum_wherever_it_starts():
    task = fixed(6, 9, 0.2)
    one, other = (
        mean_optimum(task, 3, contexts=200, fresh=2, start=start)
        for start in (None, 0.5 / np.asarray(task.lam))
    )
    np.testing.assert_allclose(one.gamma, other.gamma, rtol=0.02)


def test_a_known_mean_at_24_directions():
    """.0875 ± .0006 of the Γ of 2000 contexts; the typical context's Γ has .1125 ± .0035."""
    found = mean_optimum(fixed(24, 24), 4, contexts=1000, fresh=10_000)
    assert found.loss == pytest.approx(0.0875, abs=4.0 * math.hypot(found.error, 0.0006))
    assert found.error < 0.0015
    assert 0.078 < found.typical < 0.084


def test_contexts_that_own_the_mean_are_told():
    with pytest.warns(UserWarning, match="own the mean"):
        mean_optimum(fixed(6, 6), 24, contexts=50, fresh=4000)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_one_gamma_of_isotropic_contexts(noise):
    task = deep.Isotropic(2.0, noise, dim=12)
    found = mean_optimum(task, 4, contexts=2000, fresh=4000)
    x = np.random.default_rng(8).standard_normal((8000, 24, 12))
    s = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 24)

    def losses(gamma):
        left = (1 - gamma * s / 4) ** 4
        return np.mean(left**2 + noise**2 / 2 * (1 - left) ** 2 / s, axis=1)  # α = 2

    mine = losses(found.gamma)
    assert abs(found.loss - mine.mean()) < 4.0 * math.hypot(found.error, error(mine))
    assert mine.mean() < min(losses(0.9 * found.gamma).mean(), losses(1.1 * found.gamma).mean())
    assert found.gamma < deep.optimum(task, 4).gamma


def test_one_gamma_of_narrow_attention():
    task = deep.RotatedStructure(1.25, 0.8, 20, width=8)
    found = mean_optimum(task, 3, contexts=2000, fresh=4000)
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    frame = np.linalg.qr(np.random.default_rng(9).standard_normal((8000, 20, 8)))[0]
    whole = 20 / 8 * frame @ np.swapaxes(frame, 1, 2)

    def losses(gamma):
        left = np.linalg.matrix_power(np.eye(20) - gamma / 3 * whole * lam, 3)
        return left**2 @ omega @ lam

    mine = losses(found.gamma)
    assert abs(found.loss - mine.mean()) < 4.0 * math.hypot(found.error, error(mine))
    assert mine.mean() < min(losses(0.9 * found.gamma).mean(), losses(1.1 * found.gamma).mean())


# The margin


def test_the_margin_is_a_bound_on_the_step():
    """The drawn optima of three laws are about these margins below the typical one."""
    for dim, depth_edge, margin, drawn in ((24, 1.754, 1.0, 1.535), (96, 1.630, 1.9, 1.569)):
        task = fixed(dim, dim)
        scale = margin_scale(task, depth_edge, margin)
        assert scale * depth_edge == pytest.approx(2 / (1 + margin * math.sqrt(2 / dim)), rel=1e-14)
        assert scale * depth_edge == pytest.approx(drawn, rel=0.02)
    assert margin_scale(fixed(96, 96), 1.5, 1.2) == 1.0  # a margin never lengthens the step
    assert margin_scale(deep.Isotropic(2.0), 1.9, 2.0) == 1.0
    with pytest.raises(ValueError, match="margin"):
        margin_scale(fixed(6, 6), 1.5, -1.0)


@pytest.mark.parametrize(("width", "context"), [(60, 40), (20, None), (20, 40), (None, 90)])
def test_the_margin_is_measured_in_spreads_of_the_top_eigenvalue(width, context):
    """Of drawn contexts; None is isotropic. To a tenth: the spread is that of a lone eigenvalue."""
    rng = np.random.default_rng(10)
    if width is None:
        task = deep.Isotropic(1.5, dim=60)
        x = rng.standard_normal((1500, context, 60))
        top = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x)[:, -1]
        unit = (context**0.5 + 60**0.5) ** 2  # of the edge, as its bulk has no lone one
    else:
        task = deep.RotatedStructure(2.0, 1.0, 60, width=width, context=context)
        frame = (
            np.linalg.qr(rng.standard_normal((1500, 60, width)))[0]
            * np.arange(1.0, 61)[:, None] ** -1
        )
        if context is not None:
            frame = rng.standard_normal((1500, context, 60)) @ frame
        top = np.linalg.norm(frame, 2, axis=(1, 2)) ** 2
        unit = top.mean()
    spread = 2.0 / margin_scale(task, 2.0, 1.0) / 2.0 - 1.0
    assert spread == pytest.approx(top.std() / unit, rel=0.1)


# What is refused


def test_bad_input_is_told():
    task = fixed(4, 6)
    for name, ask in {
        "context": lambda: mean_optimum(fixed(4, None), 2, contexts=5),
        "depth": lambda: mean_optimum(task, math.inf, contexts=5),
        "contexts": lambda: mean_optimum(task, 2, contexts=0),
        "dim": lambda: mean_optimum(deep.Isotropic(2.0), 2, contexts=5),
        "start": lambda: mean_optimum(task, 2, contexts=5, start=[1.0, 2.0]),
        "seed": lambda: mean_optimum(task, 2, contexts=5, seed=-1),
    }.items():
        with pytest.raises(ValueError, match=name):
            ask()
