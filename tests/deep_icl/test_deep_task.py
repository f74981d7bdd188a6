"""The three context laws: what is drawn is what was asked for, and bad input is named."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.labs import deep_icl as lab

from solvable import compiling
from solvable import deep_icl as deep
from solvable.deep_icl.task import rotations
from solvable.deep_icl.theory import Equivalent

pytestmark = pytest.mark.slow


def test_power_law_spectra():
    task = deep.FixedStructure(nu=1.5, beta=0.8, dim=50)
    k = np.arange(1, 51)
    np.testing.assert_allclose(task.lam, k**-1.5, rtol=1e-14)
    np.testing.assert_allclose(task.share / task.share[0], k ** -(1.5 * 0.8 + 1.0), rtol=1e-13)
    assert jnp.sum(task.share).item() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(task.omega * task.lam, task.share, rtol=1e-14)
    given_ = deep.RotatedStructure(lam=task.lam, omega=task.omega)
    np.testing.assert_allclose(given_.share, task.share, rtol=1e-14)
    assert (given_.width, given_.context) == (50, None)


def test_isotropic_contexts():
    task = deep.Isotropic(alpha=1.5, dim=20, queries=3, noise=0.5)
    assert task.context == 30
    data = deep.sample(task, 4000, seed=1)
    assert data.x.shape == (4000, 33, 20)
    assert np.mean(data.x**2) == pytest.approx(1.0, abs=0.01)
    clean = np.einsum("cpd,cd->cp", data.x, data.b)
    rest = np.asarray(data.y) - clean
    assert np.mean(clean**2) == pytest.approx(1.0, abs=0.03)
    assert rest[:, :30].std() == pytest.approx(0.5, abs=0.01)
    np.testing.assert_allclose(rest[:, 30:], 0.0, atol=1e-13)


def test_fixed_and_rotated_contexts():
    fixed = deep.sample(deep.FixedStructure(1.25, 1.0, dim=6, context=50), 2000, seed=2)
    lam = np.arange(1, 7) ** -1.25
    np.testing.assert_allclose(np.mean(fixed.x**2, axis=(0, 1)), lam, rtol=0.03)
    law = deep.RotatedStructure(1.25, 1.0, dim=6, context=50)
    turned = deep.sample(law, 2000, seed=2)
    np.testing.assert_allclose(np.mean(turned.x**2, axis=(0, 1)), lam.mean(), rtol=0.05)
    for data in (fixed, turned):
        # Tasks turn with the covariates: E y² is what it was.
        energy = np.einsum("cd,cde,ce->c", data.b, data.covariance, data.b)
        np.testing.assert_allclose(energy, 1.0, rtol=1e-12)
        seen = np.einsum("cpd,cpe->cde", data.x, data.x) / 50
        np.testing.assert_allclose(np.mean(seen - data.covariance, axis=0), 0.0, atol=0.02)
    values = np.linalg.eigvalsh(turned.covariance[0])
    np.testing.assert_allclose(values[::-1], lam, rtol=1e-12)


def test_rotations_are_haar():
    turn = np.asarray(rotations(jax.random.key(0), 4000, 4))
    np.testing.assert_allclose(
        turn @ np.swapaxes(turn, 1, 2), np.tile(np.eye(4), (4000, 1, 1)), atol=1e-12
    )
    # Without the signs the first entry of Q would be negative in every draw.
    assert abs(turn[:, 0, 0].mean()) < 4.0 / math.sqrt(4 * 4000)
    assert np.mean(turn[:, 0, 0] ** 2) == pytest.approx(0.25, abs=0.02)
    assert np.mean(turn[:, 0, 0] ** 4) == pytest.approx(3.0 / (4 * 6), abs=0.02)


def test_same_seed_same_draw():
    task = deep.RotatedStructure(1.25, 1.0, dim=5, context=7)
    one, two, other = (deep.sample(task, 3, seed=s) for s in (4, 4, 5))
    np.testing.assert_array_equal(one.x, two.x)
    assert not np.allclose(one.x, other.x)


def test_single_contexts_are_the_descent_they_stand_for():
    """The eigenvalues' formula against the iteration v ← v − (γ/L)(D/N) Π Λ̂ v, task by task."""
    task = deep.RotatedStructure(1.25, 1.0, dim=9, width=5, context=12)
    generator = np.random.default_rng([3, 3])
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    x = generator.standard_normal((1, 12, 9)) * np.sqrt(lam)
    frame = np.linalg.qr(generator.standard_normal((1, 9, 5)))[0][0]
    v = np.diag(np.sqrt(omega))
    for _ in range(6):
        v = v - 0.8 * 9 / 5 * frame @ (frame.T @ (x[0].T @ (x[0] @ v) / 12))
    expected = np.sum(lam[:, None] * v**2)
    found = deep.draw_spectra(task, 1, seed=3).loss(step_size=0.8, depth=6)
    assert found[0] == pytest.approx(expected, rel=1e-12)
    assert deep.draw_spectra(task, 4, seed=3).loss(gamma=[1.0, 2.0], depth=[1, 2, 3]).shape == (
        2,
        3,
        4,
    )


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: deep.Isotropic(0.0), r"alpha must lie in \(0, 1e\+08\], not 0"),
        (lambda: deep.Isotropic(math.nan), r"alpha must lie in"),
        (
            lambda: deep.Isotropic(1.3, dim=4),
            r"alpha·dim must be a whole number, at least 1, not 5.2",
        ),
        (lambda: deep.Isotropic(1.0, noise=-1.0), r"noise must lie in \[0"),
        (lambda: deep.FixedStructure(1.25, 1.0), r"nu, beta and dim must be given together"),
        (lambda: deep.FixedStructure(), r"nu, beta and dim must be given, or lam and omega"),
        (
            lambda: deep.FixedStructure(1.0, 1.0, 4, lam=[1.0], omega=[1.0]),
            r"must be given, or lam",
        ),
        (lambda: deep.FixedStructure(-1.0, 1.0, 4), r"nu must lie in \(0, 20\], not -1"),
        (lambda: deep.FixedStructure(1.0, "a", 4), r"beta must be a number"),
        (lambda: deep.FixedStructure(lam=[1.0, 0.0], omega=[1.0, 1.0]), r"lam must lie in"),
        (lambda: deep.FixedStructure(lam=[1.0, 2.0], omega=[1.0]), r"omega must be shape \(2,\)"),
        (lambda: deep.FixedStructure(20.0, 1.0, 10**8), r"dim must be a whole number, from 1 to"),
        (
            lambda: deep.FixedStructure(lam=[1.0, 1e-200], omega=[1.0, 1.0]),
            r"lam must lie in \[1e-150, 1e\+100\], not 1e-200",
        ),
        (
            lambda: deep.RotatedStructure(1.0, 1.0, 8, width=9),
            r"width must be a whole number, from 1 to 8, not 9",
        ),
        (lambda: deep.RotatedStructure(1.0, 1.0, 8, context=0), r"context must be a whole number"),
        (lambda: deep.Init(), r"gamma or weights must be given, and only one"),
        (lambda: deep.Init(weights=[1.0, 2.0]), r"weights must be a single number or shape \(4,\)"),
        (
            lambda: deep.sample(deep.RotatedStructure(1.0, 1.0, 10**3, context=10**3), 10**6),
            r"contexts must be smaller than 1000000: that takes about .* bytes of memory",
        ),
        (lambda: deep.sample(deep.Isotropic(1.0, dim=2), 3, seed=2**63), r"seed must be a whole"),
        (
            lambda: deep.loss(
                deep.FixedStructure(1.0, 1.0, 10**7, context=10**9), gamma=1.0, depth=4000
            ),
            r"dim must be smaller than 10000000",
        ),
        (
            lambda: deep.shifted_loss(deep.FixedStructure(1.0, 1.0, 10**6), 0.1),
            r"dim must be smaller than 1000000",
        ),
        (lambda: deep.loss(deep.Isotropic(1.0), gamma=[1.0, math.nan]), r"gamma must lie in"),
        (
            lambda: deep.gamma_prediction(np.ones((2, 3)), np.ones((3, 2)), np.ones(2), 1),
            r"gamma must be a square matrix",
        ),
        (
            lambda: deep.gamma_prediction(np.eye(2), np.ones((3, 2)), np.ones(4), 1),
            r"y must be the labels of 1 to 3 tokens, not shape \(4,\)",
        ),
        (lambda: deep.sample(deep.Isotropic(1.0), 3), r"dim must be given to draw contexts"),
        (lambda: deep.sample(deep.FixedStructure(1.0, 1.0, 4), 3), r"context must be finite"),
        (lambda: deep.loss(3.0, gamma=1.0), r"task must be a deep_icl.Isotropic or .*, not float"),
        (
            lambda: deep.loss(deep.Isotropic(1.0)),
            r"gamma or step_size .* must be given, and only one",
        ),
        (
            lambda: deep.loss(deep.Isotropic(1.0), gamma=1.0, depth=0),
            r"depth must be a whole number",
        ),
        (
            lambda: deep.loss(deep.Isotropic(1.0), gamma=1.0, depth=[]),
            r"depth must have at least one",
        ),
        (
            lambda: deep.loss(deep.Isotropic(1.0), step_size=1.0, depth=None),
            r"gamma, not step_size, must be given",
        ),
        (lambda: deep.loss(deep.Isotropic(1.0), gamma=-1.0), r"gamma must lie in"),
        (
            lambda: deep.loss(deep.Isotropic(1.0), gamma=1.0, method="best"),
            r"method must be one of exact, equivalent",
        ),
        (
            lambda: deep.optimum(deep.Isotropic(1.0), contexts=9, margin=1.0),
            r"contexts and margin cannot both be given",
        ),
        (lambda: deep.RotatedStructure(1.0, 1.0, 10**9).lam, r"dim must be at most 10000000"),
        (lambda: deep.RotatedStructure(20.0, 1.0, 10**15), r"dim\^nu must be at most 1e150"),
        (
            lambda: deep.floor(deep.RotatedStructure(1.0, 1.0, 8), "time"),
            r"limit must be one of width",
        ),
        (
            lambda: deep.floor(deep.Isotropic(1.0), "width"),
            r"task must be a deep_icl.RotatedStructure",
        ),
        (
            lambda: deep.floor(deep.RotatedStructure(1.0, 1.0, 8, 4, 5), "both"),
            r"context must be greater than width \+ 1 = 5",
        ),
        (lambda: deep.loss_curve(deep.Isotropic(1.0), -1.0), r"t must lie in"),
        (
            lambda: deep.loss_curve(deep.Isotropic(1.0), 1.0, time="days"),
            r"time must be one of scalar, matrix",
        ),
        (
            lambda: deep.loss_curve(deep.Isotropic(1.0), 1.0, 4, start=deep.Init(gamma=50.0)),
            r"start must be below γ = 2, the optimum at depth 4, not at 50",
        ),
        (
            lambda: deep.loss_curve(deep.FixedStructure(1.0, 1.0, 4, context=9), 1.0),
            r"context must be None for the flow of a FixedStructure; use train",
        ),
        (
            lambda: deep.train(deep.Isotropic(1.0), 0.0, depth=1, lr=1.0, steps=1),
            r"start must be a deep_icl.Init, not float",
        ),
        (
            lambda: deep.train(
                deep.Isotropic(1.0), deep.Init(gamma=[0.0, 1.0]), depth=2, lr=1.0, steps=1
            ),
            r"gamma must be one number for tied layers; layers 'untied' have one each",
        ),
        (
            lambda: deep.train(
                deep.RotatedStructure(1.0, 1.0, 8, 4),
                deep.Init(gamma=0.0),
                depth=2,
                lr=1.0,
                steps=1,
                layers="untied",
            ),
            r"layers must be 'tied' where width or context is finite",
        ),
        (
            lambda: deep.train(deep.Isotropic(1.0), deep.Init(gamma=0.0), depth=2, lr=0.0, steps=1),
            r"lr must lie in",
        ),
        (
            lambda: deep.untied_loss(deep.FixedStructure(1.0, 1.0, 4), [1.0]),
            r"task must be Isotropic",
        ),
        (
            lambda: deep.shifted_loss(deep.Isotropic(1.0), 0.1),
            r"task must be a deep_icl.FixedStructure",
        ),
        (
            lambda: deep.sgd_curve(deep.Isotropic(1.0), lr=0.1, steps=3, batch=0.0, queries=1.0),
            r"batch must lie in",
        ),
    ],
)
def test_bad_input_gets_one_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()


BUILT = deep.RotatedStructure(1.0, 1.0, 4, context=6, queries=2)
GIVEN = {
    "sample": lambda: deep.sample(BUILT, 2),
    "draw_spectra": lambda: deep.draw_spectra(BUILT, 2),
    "edge": lambda: deep.edge(BUILT),
    "optimum": lambda: deep.optimum(BUILT, depth=2),
    "floor": lambda: deep.floor(BUILT, "context"),
    "curve_law": deep.curve_law,
    "Init": lambda: deep.Init(gamma=0.0),
    "train_softmax": lambda: deep.train_softmax(BUILT, depth=2, steps=1),
    "LinearAttention": lambda: deep.LinearAttention.aligned(np.eye(2), dim=3, depth=1),
}
PUBLIC = {
    name: lambda function=function, point=point: function(**point)
    for name, (function, point) in {**lab.TRACED, **lab.HOST}.items()
}


@pytest.mark.usefixtures("as_users_run_it")
def test_nothing_is_computed_in_single_precision():
    jax.config.update("jax_enable_x64", False)
    try:
        for call in (*GIVEN.values(), *PUBLIC.values()):
            with pytest.raises(ValueError, match=r"needs double precision"):
                call()
    finally:
        jax.config.update("jax_enable_x64", True)


@functools.partial(jax.jit, static_argnames="depth")
@jax.value_and_grad
def isotropic_loss(gamma, alpha, noise, depth):
    return deep.loss(deep.Isotropic(alpha, noise), gamma=gamma, depth=depth)


@given(
    alpha=st.floats(-5.0, 5.0).map(lambda x: 10.0**x),
    noise=st.floats(0.0, 10.0),
    part=st.floats(0.0, 2.2),
    depth=st.sampled_from([1, 2, 7, 100, None]),
)
def test_isotropic_losses_and_gradients_are_numbers(alpha, noise, part, depth):
    task = deep.Isotropic(alpha, noise)
    gamma = part * (depth or 30) / deep.edge(task).item()
    value, slope = isotropic_loss(gamma, alpha, noise, depth=depth)
    assert np.isfinite(value)
    assert np.isfinite(slope)
    assert value >= 0.0
    assert deep.optimum(deep.Isotropic(alpha), depth=depth).loss <= deep.loss(
        deep.Isotropic(alpha), gamma=gamma, depth=depth
    ) * (1.0 + 1e-12)


@given(
    nu=st.floats(0.3, 3.0),
    beta=st.floats(0.1, 3.0),
    width=st.sampled_from([1, 3, 11, 12]),
    context=st.sampled_from([1, 5, 12, 200, None]),
    part=st.floats(1e-6, 2.1),
)
def test_equivalent_losses_and_gradients_are_numbers(nu, beta, width, context, part):
    task = deep.RotatedStructure(nu, beta, 12, width=width, context=context)
    gamma = jnp.asarray(part * 8 / deep.edge(task).item())
    value, slope = Equivalent.of(task).both(gamma, 8.0)
    assert np.isfinite(value)
    assert np.isfinite(slope)
    assert value > 0.0


def compilations(function, *args, **options):
    """How many modules a call compiles."""
    before = compiling._state["compiled"]
    function(*args, **options)
    return compiling._state["compiled"] - before


def test_other_numbers_of_steps_depths_and_directions_compile_nothing():
    task = {"nu": 1.25, "beta": 1.0, "context": 30}
    deep.loss(deep.RotatedStructure(**task, dim=40), step_size=0.6, depth=[1, 2])
    for dim, steps, depth in ((40, [0.1, 0.2, 0.3], 4), (48, 0.4, [1, 3, 9]), (35, [0.5], 16)):
        other = deep.RotatedStructure(**{**task, "context": dim}, dim=dim)
        assert compilations(deep.loss, other, step_size=steps, depth=depth) == 0


def test_closed_forms_of_given_numbers_compile_nothing():
    def ask(dim):
        rotated, fixed = deep.RotatedStructure(1.25, 1.0, dim), deep.FixedStructure(1.25, 1.0, dim)
        deep.loss(rotated, gamma=[0.5, 1.0], depth=[2, None])
        deep.optimum(rotated, depth=[1, 4])
        deep.floor(deep.RotatedStructure(1.25, 1.0, dim, width=3), "width")
        deep.loss_curve(rotated, [0.1, 1.0], 3, start=deep.Init(weights=0.3))
        deep.loss_curve(fixed, [0.1, 1.0], [1, 3])
        deep.optimum(deep.FixedStructure(1.25, 1.0, dim, context=9))
        deep.shifted_loss(fixed, 0.1)
        deep.untied_loss(rotated, [0.5, 1.0])
        deep.edge(deep.RotatedStructure(1.25, 1.0, dim, width=3, context=9))
        deep.optimum(deep.Isotropic(2.0, noise=0.1 * dim), depth=[1, 4, None])
        deep.sgd_curve(deep.Isotropic(2.0), lr=0.1, steps=dim, batch=1.0, queries=1.0)

    ask(7)
    assert compilations(ask, 8) == 0
