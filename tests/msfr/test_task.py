"""The data law and the samplers of real token matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from solvable import msfr
from solvable.msfr import task as task_module

pytestmark = pytest.mark.slow

GOOD = {"num_tasks": 3, "alpha": 1.8, "context": 5.0, "strength": 0.5}


@pytest.mark.parametrize("alpha", [1.05, 1.8, 10.0])
def test_weights_are_a_power_law_that_sums_to_one(alpha):
    """Erratum 1, eq. (1): Z is the inverse of Σ s^-α; the sum itself would not normalise."""
    task = msfr.Task(500, alpha, 5.0, 0.5)
    s = np.arange(1, 501.0)
    weights, z = np.asarray(task.weights), float(task.normaliser)
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(weights[1:] / weights[:-1], (s[1:] / s[:-1]) ** -alpha, rtol=1e-12)
    assert z == pytest.approx(1.0 / np.sum(s**-alpha), rel=1e-14)
    printed = np.sum(s**-alpha)
    assert abs(np.sum(printed * s**-alpha) - 1.0) > 1e-3


def test_one_task_has_weight_one_exactly():
    assert msfr.Task(1, 1.8, 5.0, 0.5).weights.tolist() == [1.0]


def test_contexts_and_strengths_decay_by_their_own_exponents():
    task = msfr.Task(50, 1.8, 36.0, -2.0, beta=0.7, gamma=1.5)
    s = np.arange(1, 51.0)
    np.testing.assert_allclose(task.contexts, 36.0 * s**-0.7, rtol=1e-14)
    np.testing.assert_allclose(task.strengths, -2.0 * s**-1.5, rtol=1e-14)


def test_arrays_are_taken_as_they_are():
    context, strength = np.array([3.0, 9.0, 1.0]), np.array([1.0, -2.0, 0.0])
    task = msfr.Task(3, 1.8, context, strength)
    np.testing.assert_array_equal(task.contexts, context)
    np.testing.assert_array_equal(task.strengths, strength)


def test_tasks_are_uniform_only_if_nothing_decays():
    assert msfr.Task(**GOOD).is_uniform
    assert not msfr.Task(**GOOD, beta=0.1).is_uniform
    assert not msfr.Task(**GOOD, gamma=0.1).is_uniform
    assert not msfr.Task(**(GOOD | {"context": np.full(3, 5.0)})).is_uniform
    assert not msfr.Task(**(GOOD | {"strength": np.full(3, 5.0)})).is_uniform


def test_rounded_contexts_are_whole_and_at_least_one():
    task = msfr.Task(40, 1.8, 20.3, 0.5, beta=1.2)
    rounded = task.rounded()
    true = np.maximum(np.round(20.3 * np.arange(1, 41.0) ** -1.2), 1.0)
    np.testing.assert_array_equal(rounded.contexts, true)
    np.testing.assert_allclose(rounded.weights, task.weights, rtol=1e-15)
    np.testing.assert_allclose(rounded.strengths, task.strengths, rtol=1e-15)
    np.testing.assert_array_equal(rounded.rounded().contexts, true)


def test_rounding_keeps_shared_contexts_shared_and_decaying_strengths_decaying():
    assert msfr.Task(3, 1.8, 0.2, 0.5).rounded().is_uniform
    assert float(msfr.Task(3, 1.8, 0.2, 0.5).rounded().context) == 1.0
    task = msfr.Task(3, 1.8, 4.6, 0.5, gamma=1.0).rounded()
    np.testing.assert_array_equal(task.contexts, np.full(3, 5.0))
    np.testing.assert_allclose(task.strengths, [0.5, 0.25, 0.5 / 3.0], rtol=1e-15)


def test_gradient_in_alpha_passes_through_the_task():
    def last(alpha):
        return msfr.Task(4, alpha, 5.0, 0.5).weights[-1]

    s = np.arange(1, 5.0)
    p = s**-1.8 / np.sum(s**-1.8)
    true = p[-1] * (np.sum(p * np.log(s)) - np.log(4.0))  # d log p_s / dα
    assert float(jax.grad(last)(1.8)) == pytest.approx(true, rel=1e-13)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("num_tasks", 0),
        ("num_tasks", -1),
        ("num_tasks", 2.5),
        ("num_tasks", 99999999999999999999),
        ("num_tasks", "many"),
        ("num_tasks", None),
        ("num_tasks", True),
        ("alpha", 1.0),
        ("alpha", 0.5),
        ("alpha", 10.5),
        ("alpha", np.nan),
        ("alpha", "steep"),
        ("alpha", [1.5, 2.0]),
        ("context", 0.0),
        ("context", -5.0),
        ("context", 2e9),
        ("context", np.nan),
        ("context", [1.0, 2.0]),
        ("context", [1.0, -2.0, 3.0]),
        ("context", np.ones((3, 1))),
        ("context", "long"),
        ("strength", 2e6),
        ("strength", -2e6),
        ("strength", np.nan),
        ("strength", [1.0, 2.0]),
        ("strength", [1.0, np.inf, 1.0]),
        ("strength", None),
        ("beta", -0.1),
        ("beta", np.nan),
        ("beta", np.inf),
        ("beta", [0.1, 0.2, 0.3]),
        ("beta", "x"),
        ("gamma", -0.1),
        ("gamma", np.nan),
        ("gamma", np.inf),
        ("gamma", [0.1, 0.2, 0.3]),
        ("gamma", "x"),
    ],
)
def test_task_names_the_bad_field(field, bad):
    with pytest.raises(ValueError, match=rf"^{field} must ") as error:
        msfr.Task(**(GOOD | {field: bad}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("decay", "law"), [("beta", "context"), ("gamma", "strength")])
def test_a_decay_needs_a_single_number_to_decay_from(decay, law):
    with pytest.raises(ValueError, match=rf"^{decay} must be 0 when {law} is an array, not 0.5$"):
        msfr.Task(**(GOOD | {law: [1.0, 2.0, 3.0], decay: 0.5}))


@pytest.mark.parametrize(
    "edge",
    [
        {"alpha": 10.0},
        {"alpha": np.nextafter(1.0, 2.0)},
        {"context": 1e9},
        {"context": 5e-324},
        {"strength": 1e6},
        {"strength": -1e6},
        {"strength": 0.0},
        {"num_tasks": np.int64(3), "context": 7},
    ],
)
def test_edges_of_the_legal_range_are_allowed(edge):
    task = msfr.Task(**(GOOD | edge))
    assert np.isfinite(np.asarray(task.weights)).all()


def test_tracing_meets_no_validation():
    weights = jax.jit(lambda a, c: msfr.Task(3, a, c, 0.5, beta=a).weights)
    assert weights(0.5, jnp.asarray([-1.0, 2.0, 3.0])).shape == (3,)


# ------------------------------------------------------------------------------ token matrices

DECAYING = msfr.Task(num_tasks=4, alpha=1.3, context=9.0, strength=0.7, beta=1.0, gamma=0.5)
DATA = 2000  # one size throughout: each is compiled anew


@pytest.fixture(scope="module")
def tokens():
    return msfr.sample(DECAYING, DATA, seed=3)


def test_token_matrix_has_the_structure_of_equation_4(tokens):
    lengths, strengths = np.asarray(DECAYING.rounded().contexts), np.asarray(DECAYING.strengths)
    assert tokens.phi.shape == (DATA, 5, 10)
    assert set(tokens.task.tolist()) == {0, 1, 2, 3}
    for phi, label, s, present in zip(
        *(np.asarray(x) for x in (tokens.phi, tokens.label, tokens.task, tokens.present)),
        strict=True,
    ):
        length = int(lengths[s])
        signs = phi[s]
        in_use = np.zeros(10)
        in_use[:length] = in_use[-1] = 1.0
        np.testing.assert_array_equal(np.abs(signs), in_use)  # ε and padding
        np.testing.assert_array_equal(present, in_use)
        others = np.delete(phi[:4], s, axis=0)
        np.testing.assert_array_equal(others, 0.0)  # φ = ε e_s
        np.testing.assert_array_equal(phi[4, :-1], strengths[s] * signs[:-1])  # y = Λ ε
        assert phi[4, -1] == 0.0  # the query's target is hidden
        assert label == strengths[s] * signs[-1]


def test_context_matrix_does_not_depend_on_the_signs(tokens):
    """(7): ΦΦᵀ is H_s on coordinates (s, S+1) and nothing elsewhere."""
    lengths, strengths = np.asarray(DECAYING.rounded().contexts), np.asarray(DECAYING.strengths)
    for phi, s in zip(np.asarray(tokens.phi), tokens.task.tolist(), strict=True):
        psi, lam = lengths[s], strengths[s]
        true = np.zeros((5, 5))
        true[s, s], true[s, 4], true[4, s], true[4, 4] = (
            psi + 1,
            psi * lam,
            psi * lam,
            psi * lam**2,
        )
        # Sums of up to nine equal terms.
        np.testing.assert_allclose(phi @ phi.T, true, rtol=1e-14, atol=0.0)


def test_signs_are_fair_and_independent(tokens):
    """Each ε has mean 0, and products of two different ones too."""
    first = np.asarray(tokens.phi)[np.asarray(tokens.task) == 0, 0]
    moments = first.T @ first / len(first)
    np.testing.assert_allclose(np.diag(moments), 1.0, rtol=1e-12)
    off = moments[~np.eye(10, dtype=bool)]
    # 4.5 standard errors for a hundred numbers.
    assert np.max(np.abs(off)) < 4.5 / np.sqrt(len(first))
    assert np.max(np.abs(first.mean(axis=0))) < 4.5 / np.sqrt(len(first))


def test_task_frequencies_follow_the_law():
    index = [np.asarray(msfr.sample(DECAYING, DATA, seed=seed).task) for seed in range(10)]
    counts = np.bincount(np.concatenate(index), minlength=4)
    found = stats.chisquare(counts, 20_000 * np.asarray(DECAYING.weights))
    assert found.pvalue > 1e-3
    # A law with α off by 0.1 is told apart, so the test has power.
    wrong = np.asarray(msfr.Task(4, 1.4, 1.0, 1.0).weights)
    assert stats.chisquare(counts, 20_000 * wrong).pvalue < 1e-6


def test_shares_of_the_tasks_are_counts_over_data():
    index = jnp.asarray([0, 2, 2, 1, 2])
    np.testing.assert_allclose(task_module.count_tasks(index, 4), [0.2, 0.2, 0.6, 0.0], rtol=1e-15)


def test_same_seed_same_draw():
    for features in ("sparse", "approximate", "source"):
        one, same, other = (
            msfr.sample(DECAYING, DATA, seed=seed, features=features) for seed in (7, 7, 8)
        )
        for name in ("phi", "label", "task", "present"):
            np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(one.phi, other.phi)


def test_a_longer_data_set_begins_with_the_shorter_one_s_signs():
    """Each datum has its own stream, so that data can be made in pieces."""
    key, draw = jax.random.key(0), jax.jit(task_module.draw_signs, static_argnums=2)
    all_at_once, piece = draw(key, np.arange(10), 4), draw(key, np.arange(6, 10), 4)
    np.testing.assert_array_equal(all_at_once[6:], piece)


def test_approximate_features_have_noise_of_width_one_over_the_context(tokens):
    """App. H.2: ζ ~ N(0, I/ψ_s²) on the features of real tokens; targets and labels stay."""
    exact, noisy = tokens, msfr.sample(DECAYING, DATA, seed=3, features="approximate")
    np.testing.assert_array_equal(exact.label, noisy.label)
    np.testing.assert_array_equal(exact.phi[:, 4], noisy.phi[:, 4])
    noise = np.asarray(noisy.phi - exact.phi)[:, :4]
    present = np.asarray(exact.present)
    np.testing.assert_array_equal(noise * (1.0 - present)[:, None, :], 0.0)
    lengths = np.asarray(DECAYING.rounded().contexts)
    for s in range(4):
        mine = np.asarray(exact.task) == s
        values = noise[mine].transpose(0, 2, 1)[present[mine] == 1.0].ravel()
        assert stats.kstest(values * lengths[s], "norm").pvalue > 1e-3
        # Standard error of a standard deviation: 1/√(2n) of it.
        spread = values.std() * lengths[s]
        assert abs(spread - 1.0) < 4.0 / np.sqrt(2.0 * values.size)


def strengths_of(tokens):
    """The vector Λ_s of every task, from its context features and targets, and their misfit."""
    phi, index, present = (np.asarray(x) for x in (tokens.phi, tokens.task, tokens.present))
    found, misfit = [], 0.0
    for s in range(4):
        columns = phi[index == s][:, :, :-1].transpose(0, 2, 1)
        columns = columns[present[index == s][:, :-1] == 1.0]
        strength, *_ = np.linalg.lstsq(columns[:, :4], columns[:, 4], rcond=None)
        misfit = max(misfit, np.max(np.abs(columns[:, :4] @ strength - columns[:, 4])))
        found.append(strength)
    return np.stack(found), misfit


def test_source_features_have_a_shifted_power_spectrum():
    """App. H.1: φ ~ N(0, diag ω^s), ω_k = k^-τ shifted cyclically so that entry s comes first."""
    tokens = msfr.sample(DECAYING, DATA, seed=2, features="source", decay=1.5)
    phi, index, present = (np.asarray(x) for x in (tokens.phi, tokens.task, tokens.present))
    np.testing.assert_array_equal(phi * (1.0 - present)[:, None, :], 0.0)
    for s in range(4):
        features = phi[index == s][:, :4].transpose(0, 2, 1)[present[index == s] == 1.0]
        rank = (np.arange(4) - s) % 4 + 1
        assert rank[s] == 1
        moments = features.T @ features / len(features)
        scale = np.sqrt(np.outer(rank**-1.5, rank**-1.5))
        # Standard error of a covariance of unit normals: at most √(2/n).
        np.testing.assert_allclose(
            moments / scale, np.eye(4), rtol=0.0, atol=4.5 * np.sqrt(2.0 / len(features))
        )


def test_source_targets_and_labels_are_one_linear_function_a_task():
    """Targets are Λ_s·φ in the context and for the query, whose target is hidden."""
    tokens = msfr.sample(DECAYING, DATA, seed=2, features="source", decay=1.5)
    strengths, misfit = strengths_of(tokens)
    assert misfit < 1e-12
    phi = np.asarray(tokens.phi)
    assert np.all(phi[:, 4, -1] == 0.0)
    label = np.einsum("nk,nk->n", strengths[np.asarray(tokens.task)], phi[:, :4, -1])
    np.testing.assert_allclose(tokens.label, label, rtol=0.0, atol=1e-12)


def test_source_strengths_are_standard_normal():
    draws = [
        strengths_of(msfr.sample(DECAYING, DATA, seed=seed, features="source"))[0]
        for seed in range(8)
    ]
    entries = np.stack(draws).ravel()
    assert len(set(np.round(entries, 9).tolist())) == 128
    assert stats.kstest(entries, "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("data", 0),
        ("data", 2.5),
        ("data", "many"),
        ("seed", -1),
        ("seed", 1.5),
        ("seed", None),
        ("decay", -1.0),
        ("decay", np.nan),
        ("decay", "slow"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_sample_names_the_bad_argument(field, bad):
    arguments = {"data": DATA, "features": "source"} | {field: bad}
    with pytest.raises(ValueError, match=rf"^{field} must "):
        msfr.sample(DECAYING, **arguments)


@pytest.mark.usefixtures("as_users_run_it")
def test_unknown_features_are_refused():
    with pytest.raises(ValueError, match=r"^features must be one of sparse, approximate, source"):
        msfr.sample(DECAYING, 5, features="dense")
