"""Theory against contexts drawn here, in plain numpy: tokens, projections, layer by layer."""

import numpy as np
import pytest

from solvable import deep_icl as deep

pytestmark = pytest.mark.slow

# (ν, β, D, N, P, σ) and γ of γ Π, of which γ = (N/D) γ_Π is ours.
ONE_LAYER = [
    ((1.3, 0.7, 60, 25, 40, 0.5), 2.0),
    ((1.3, 0.7, 12, 5, 8, 0.5), 1.0),
    ((1.3, 0.7, 12, 5, 1, 0.5), 0.7),
    ((1.3, 0.7, 12, 1, 3, 0.5), 0.7),
]


def rotated(law, noise=0.0):
    nu, beta, dim, width, context = law
    return deep.RotatedStructure(nu, beta, dim, width=width, context=context, noise=noise)


def spectra(law):
    k = np.arange(1.0, law[2] + 1.0)
    share = k ** -(law[0] * law[1] + 1.0)
    return k ** -law[0], share / share.sum()


def contexts(law, count, seed=0):
    """Λ̂ of real tokens, and E with orthogonal columns of squared length D/N."""
    (lam, _), (_, _, dim, width, context) = spectra(law), law
    rng = np.random.default_rng([seed, 99])
    if context is None:
        moment = np.broadcast_to(np.diag(lam), (count, dim, dim))
    else:
        x = rng.standard_normal((count, context, dim)) * np.sqrt(lam)
        moment = np.swapaxes(x, 1, 2) @ x / context
    frame = np.linalg.qr(rng.standard_normal((count, dim, width)))[0]
    return moment, np.sqrt(dim / width) * frame


def drawn(law, gamma, depth, count, seed=0):
    """The two parts of the loss in single contexts: by the tasks, and by noise of unit variance.

    ``w ← w + (γ/L) Eᵀ(Λ̂(b − Ew) + u)`` for all b at once, E bbᵀ = Ω, and for u with E uuᵀ = Λ̂/P.
    """
    lam, share = spectra(law)
    moment, frame = contexts(law, count, seed)
    back = np.swapaxes(frame, 1, 2)
    target, inner = back @ moment, back @ moment @ frame
    w, power = np.zeros_like(target), np.zeros_like(inner)
    for _ in range(depth):
        w = w + gamma / depth * (target - inner @ w)
        power = power + gamma / depth * (np.eye(inner.shape[1]) - inner @ power)
    bias = missed(np.eye(lam.size) - frame @ w, lam, share)
    if law[-1] is None:
        return bias, np.zeros(count)
    seen = back @ (lam[:, None] * frame)
    return bias, np.einsum("cij,cji->c", seen, power @ inner @ np.swapaxes(power, 1, 2)) / law[-1]


def missed(left, lam, share):
    """``Tr Ω Mᵀ Λ M`` of matrices M that take a task to what is left of it."""
    return left**2 @ (share / lam) @ lam


def error(losses):
    return losses.std(ddof=1) / losses.size**0.5


# One layer


@pytest.mark.parametrize("row", range(4))
def test_one_layer_is_the_mean_of_drawn_contexts(row):
    """Down to one token and one direction: within four standard errors."""
    (*law, noise), projected = ONE_LAYER[row]
    gamma = projected * law[3] / law[2]
    bias, unit = drawn(law, gamma, 1, 2000 if law[2] > 20 else 20_000, seed=row)
    losses = bias + noise**2 * unit
    value = deep.loss(rotated(law, noise), gamma=gamma).item()
    assert abs(losses.mean() - value) < 4.0 * error(losses)
    assert error(losses) < 0.01 * value


# Noise


@pytest.mark.parametrize(("depth", "projected"), [(4, 2.4), (8, 16.0)])
def test_noise_at_finite_width_and_context_is_that_of_drawn_contexts(depth, projected):
    law = (1.25, 1.0, 200, 60, 100)
    gamma = 0.3 * projected
    options = {"gamma": gamma, "depth": depth}
    part = deep.loss(rotated(law, 1.0), **options) - deep.loss(rotated(law), **options)
    unit = drawn(law, gamma, depth, 400)[1]
    assert error(unit) < 0.008 * unit.mean()
    assert part.item() == pytest.approx(unit.mean(), rel=0.01)


# Width and context together


@pytest.mark.parametrize(("depth", "gamma"), [(2, 1.2), (4, 2.5)])
def test_width_and_context_together_near_drawn_contexts_as_they_grow(depth, gamma):
    """At fixed N/D and P/D the mean is above the equivalent by about 1/N: a quarter at 4 N."""
    gaps = []
    for dim, count in ((32, 6000), (128, 800)):
        law = (1.25, 0.8, dim, dim // 2, dim)
        bias = drawn(law, gamma, depth, count)[0]
        value = deep.loss(rotated(law), gamma=gamma, depth=depth).item()
        gaps.append(bias.mean() / value - 1.0)
        assert gaps[-1] == pytest.approx(0.0, abs=1.2 / law[3])
        assert error(bias) < 0.2 / law[3] * value
    assert gaps[1] < 0.6 * gaps[0]


def test_the_equivalent_of_one_layer_nears_the_exact_mean_like_the_inverse_of_the_width():
    """At fixed N/D and P/D."""
    gaps = []
    for dim in (50, 100, 200):
        law = (1.25, 0.8, dim, dim // 2, dim)
        both = [
            deep.loss(rotated(law), gamma=1.0, method=method).item()
            for method in ("exact", "equivalent")
        ]
        gaps.append(abs(both[1] / both[0] - 1.0))
    np.testing.assert_allclose(np.log2(np.divide(gaps[:-1], gaps[1:])), 1.0, atol=0.25)


@pytest.mark.parametrize(("depth", "gamma"), [(1, 0.9), (2, 1.6), (8, 4.0)])
@pytest.mark.parametrize("context", [None, 30])
def test_drawn_spectra_are_the_layers(context, depth, gamma):
    """The library's eigenvalues against layer by layer: other contexts of the same law."""
    law = (1.25, 0.8, 40, 20, context)
    bias, unit = drawn(law, gamma, depth, 2000)
    mine = bias + 0.09 * unit
    theirs = deep.draw_spectra(rotated(law, 0.3), 2000, seed=1).loss(gamma=gamma, depth=depth)
    assert abs(mine.mean() - theirs.mean()) < 4.0 * np.hypot(error(mine), error(theirs))
    np.testing.assert_allclose(
        np.quantile(mine, [0.25, 0.75]), np.quantile(theirs, [0.25, 0.75]), 0.02
    )


# Floors


def test_the_floor_of_the_context_is_that_of_drawn_contexts():
    """P < D tokens, endless depth: what is orthogonal to all tokens stays."""
    law = (1.25, 0.8, 120, 120, 40)
    lam, share = spectra(law)
    x = np.random.default_rng(5).standard_normal((400, 40, 120)) * np.sqrt(lam)
    basis = np.linalg.qr(np.swapaxes(x, 1, 2))[0]
    left = np.eye(120) - basis @ np.swapaxes(basis, 1, 2)
    losses = missed(left, lam, share)
    value = deep.floor(rotated(law), "context").item()
    assert value == pytest.approx(losses.mean(), rel=1.0 / 40)  # right to 1/P
    assert error(losses) < 0.005 * value


def test_the_floor_of_width_and_context_is_least_squares_on_drawn_contexts():
    """N < P, endless depth: the best w within the projection, by P tokens or by all."""
    law = (1.25, 0.8, 120, 30, 90)
    lam, share = spectra(law)
    moment, frame = contexts(law, 800, seed=6)
    back = np.swapaxes(frame, 1, 2)
    few, all_tokens = (
        missed(np.eye(120) - frame @ np.linalg.solve(back @ m @ frame, back @ m), lam, share)
        for m in (moment, np.broadcast_to(np.diag(lam), moment.shape))
    )
    both, width = (deep.floor(rotated(law), limit).item() for limit in ("both", "width"))
    # What P tokens add is exact; what N directions leave is the equivalent's, right to 1/N.
    ratio = few / all_tokens.mean()
    assert both / width == pytest.approx(
        ratio.mean(), abs=4.0 * error(few - both / width * all_tokens) / all_tokens.mean()
    )
    assert both == pytest.approx(few.mean(), rel=1.0 / 30)
    assert error(few) < 0.005 * both
