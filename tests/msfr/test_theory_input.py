"""Bad input to the theory: one sentence that names the field; tracing is never stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import msfr

TASK = msfr.Task(num_tasks=3, alpha=1.8, context=5.0, strength=0.5)
INIT = msfr.Init(v=0.1, w=0.11)


pytestmark = pytest.mark.usefixtures("as_users_run_it")


def one_sentence(error):
    """A message without line breaks that says what is allowed and what was given."""
    message = str(error.value)
    return "\n" not in message and " must " in message and " not " in message


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("t", -1.0),
        ("t", float("nan")),
        ("t", [0.0, -1e-300]),
        ("t", [[0.0, 1.0]]),
        ("t", "soon"),
        ("t", None),
        ("order", "second"),
        ("order", 0),
        ("task", None),
        ("task", 5),
        ("init", 0.1),
        ("init", (0.1, 0.11)),
    ],
)
@pytest.mark.parametrize("verb", [msfr.predict, msfr.residual, msfr.loss])
def test_theory_names_the_bad_argument(verb, field, bad):
    arguments = {"task": TASK, "init": INIT, "t": 1.0, "order": "zeroth"} | {field: bad}
    with pytest.raises(ValueError, match=rf"\b{field}\b") as error:
        verb(**arguments)
    assert one_sentence(error)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("size", 0),
        ("size", 5),  # S + 2
        ("size", -1),
        ("size", 2.5),
        ("size", float("nan")),
        ("size", [1, 2]),
        ("size", 10**30),
        ("size", "all"),
        ("size", True),
        ("data", 0),
        ("data", -3),
        ("data", 1.5),
        ("data", float("nan")),
        ("data", [10, 20]),
        ("data", np.arange(3.0)),
        ("data", 1e16),
        ("data", 10**30),
        ("data", "many"),
        ("data", False),
    ],
)
def test_loss_names_the_bad_resource(field, bad):
    with pytest.raises(ValueError, match=rf"\b{field}\b") as error:
        msfr.loss(TASK, INIT, 1.0, "zeroth", **{field: bad})
    assert one_sentence(error)


def test_more_tasks_than_memory_has_room_for_are_refused_with_the_bytes():
    with pytest.raises(ValueError, match=r"^num_tasks must be smaller than 10+: .* bytes of"):
        msfr.predict(msfr.Task(10**8, 1.8, 5.0, 0.5), INIT, np.ones(5000))


def test_tasks_that_cannot_have_an_entry_each_are_refused_with_what_takes_them():
    many = msfr.Task(10**12, 1.8, 5.0, 0.5)
    for call in (
        lambda: msfr.predict(many, INIT, 1.0),
        lambda: msfr.parameters(many, INIT, 1.0),
        lambda: many.weights,
        lambda: many.contexts,
        lambda: msfr.train(many, INIT, lr=0.1, steps=1),
        lambda: msfr.flow(many, INIT, [1.0]),
    ):
        with pytest.raises(ValueError, match=r"^num_tasks must be at most 1e\+08 .* loss") as error:
            call()
        assert one_sentence(error)
    assert np.isfinite(float(msfr.loss(many, INIT, 1.0, "zeroth")))


@pytest.mark.parametrize("size", [1, 4, np.int64(2), 3.0, jnp.asarray(2)])
def test_every_size_from_one_to_the_whole_is_allowed(size):
    assert np.isfinite(float(msfr.loss(TASK, INIT, 1.0, "zeroth", size=size)))


@pytest.mark.parametrize("data", [1, np.int64(7), 10.0, jnp.asarray(4), 10**15])
def test_every_positive_number_of_data_is_allowed(data):
    assert np.isfinite(float(msfr.loss(TASK, INIT, 1.0, "zeroth", data=data)))


@pytest.mark.parametrize("verb", [msfr.predict, msfr.residual, msfr.loss])
def test_init_for_other_tasks_is_refused(verb):
    rows = msfr.Init(v=np.ones((4, 2)), w=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"\bv\b.*\(3, 2\)") as error:
        verb(TASK, rows, 1.0, "zeroth")
    assert one_sentence(error)


@pytest.mark.parametrize("field", ["task", "init", "t"])
def test_parameters_names_the_bad_argument(field):
    arguments = {"task": TASK, "init": INIT, "t": 1.0} | {field: -1.0}
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        msfr.parameters(**arguments)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("strength", 0.0),
        ("strength", -0.5),
        ("initial", 0.0),
        ("initial", float("nan")),
        ("rate", -1.0),
        ("t", -1.0),
        ("t", "soon"),
    ],
)
def test_balanced_names_the_bad_argument(field, bad):
    arguments = {"strength": 0.5, "initial": 1.0, "rate": 2.0, "t": 1.0} | {field: bad}
    with pytest.raises(ValueError, match=rf"\b{field}\b") as error:
        msfr.balanced(**arguments)
    assert one_sentence(error)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("matrix", np.ones((2, 3))),
        ("matrix", np.ones(2)),
        ("matrix", [[1.0, 2.0], [0.0, 1.0]]),
        ("matrix", [[1.0, np.nan], [np.nan, 1.0]]),
        ("matrix", [[np.inf, 0.0], [0.0, 1.0]]),
        ("matrix", "H"),
        ("v", np.ones(3)),
        ("v", [np.nan, 1.0]),
        ("w", 1.0),
        ("w", [np.inf, 1.0]),
        ("target", "Λ"),
        ("target", np.nan),
        ("target", [1.0, 2.0]),
        ("weight", -1.0),
        ("weight", np.nan),
        ("weight", [1.0, 2.0]),
        ("t", -1.0),
        ("t", [[1.0]]),
    ],
)
def test_exact_flow_names_the_bad_argument(field, bad):
    good = {"matrix": np.eye(2), "v": np.ones(2), "w": np.ones(2), "target": 0.5, "t": 1.0}
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        msfr.exact_flow(**(good | {field: bad}))


def test_tracing_meets_no_validation():
    """Under jit and grad there are no values to look at, not even wrong ones."""

    def total(alpha, context, v, t, size, data):
        task = msfr.Task(num_tasks=3, alpha=alpha, context=context, strength=0.5)
        return msfr.loss(task, msfr.Init(v=v, w=0.11), t, "zeroth", size=size, data=data)

    good = (1.8, 5.0, 0.1, 1.0, 2.0, 10.0)
    compiled = jax.jit(total)
    np.testing.assert_allclose(compiled(*good), total(*good), rtol=1e-12)
    # Each of these is refused outside, and would be here if tracing looked at values.
    for place, bad in enumerate((0.5, -5.0, 1e4, -1.0, 9.0, 0.0)):
        arguments = [*good]
        arguments[place] = bad
        with pytest.raises(ValueError, match="must"):
            total(*arguments)
        assert compiled(*arguments).shape == ()
    slope = jax.grad(lambda alpha: total(alpha, *good[1:4], None, None))(0.5)
    assert slope.shape == ()
