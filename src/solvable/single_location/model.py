"""Predictors on real tokens, and training in R^d: the oracle of the five scalars."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from .. import memory, training, validation
from ..compiling import jit, stage
from .attention import Attention, Erf, Softmax, attention_of
from .reduced import observe
from .run import Run, checked, prepared
from .state import State, scalars, vectors
from .task import (
    Law,
    Task,
    Tokens,
    check_seed,
    check_task,
    draw_tokens,
    drawn,
    law_of,
    refuse_tokens,
    stream,
)

_TEST = 1000  # tokens matrices of the fixed test batch, as published


class ErfAttention(eqx.Module):
    """``T(X) = Σ_ℓ erf(λ X_ℓ·k) (X_ℓ·v)``: attention with erf in the place of softmax.

    Attributes:
        k: the key direction, of unit length.
        v: the value direction, of unit length.

    Reference: Sec. 3.
    """

    k: Float[Array, "*runs dim"]
    v: Float[Array, "*runs dim"]

    def __call__(self, x: Float[Array, "length dim"], lam: Float[Array, ""]) -> Float[Array, ""]:
        """The prediction for one matrix of tokens."""
        return jnp.sum(jax.lax.erf(lam * (x @ self.k)) * (x @ self.v))


class SoftmaxAttention(eqx.Module):
    """``Σ_ℓ softmax_ℓ(λ X_ℓ·k) (X_ℓ·v)``: what a [CLS] query attends to.

    With a fixed [CLS] vector x₀ only ``k ∝ K Qᵀ x₀`` matters. At γ = 1 and ``λk = √(d/2) k*``,
    ``v = v*`` it is the Bayes predictor.

    Attributes:
        k: the key direction.
        v: the value direction.
    """

    k: Float[Array, "*runs dim"]
    v: Float[Array, "*runs dim"]

    def __call__(self, x: Float[Array, "length dim"], lam: Float[Array, ""]) -> Float[Array, ""]:
        """The prediction for one matrix of tokens."""
        return jnp.sum(jax.nn.softmax(lam * (x @ self.k)) * (x @ self.v))


def oracle(task: Task) -> ErfAttention:
    """The predictor with k = k* and v = v*."""
    check_task(task)
    memory.refuse("dim", task.dim, 64.0 * task.dim)
    axes = np.eye(2, task.dim)
    return ErfAttention(stage(axes[0]), stage(axes[1]))


def bayes(task: Task, x: Float[Array, "length dim"]) -> Float[Array, ""]:
    r"""The Bayes predictor ``E[Y | X] = Σ_ℓ π_ℓ X_ℓ·v*``.

    ``π = softmax_ℓ(log p_ℓ + ½(1 − 1/γ²)‖X_ℓ‖² + (D/γ²) k*·X_ℓ)``, p the law of the location.

    Reference: derived for this package.
    """
    check_task(task)
    tokens = validation.floating("x", x)
    validation.shaped("x", tokens, (task.length, task.dim))
    validation.within("x", tokens, -1e100, 1e100)
    return _bayes(task, tokens)


@jit(filtered=True)
def _bayes(task: Task, x: Array) -> Array:
    g2 = task.gamma**2
    score = 0.5 * (1.0 - 1.0 / g2) * jnp.sum(x**2, axis=1) + task.signal / g2 * x[:, 0]
    chances = task.locations
    prior = jnp.where(chances > 0.0, jnp.log(jnp.where(chances > 0.0, chances, 1.0)), -jnp.inf)
    return jnp.sum(jax.nn.softmax(score + prior) * x[:, 1])


def least_squares(tokens: Tokens) -> Float[Array, "length dim"]:
    """The linear predictor of all token entries with the least squared error on a data set."""
    if not isinstance(tokens, Tokens):
        raise ValueError(
            f"tokens must be single_location.Tokens, such as sample gives, not "
            f"{type(tokens).__name__}"
        )
    validation.needs_double("tokens")
    validation.concrete("tokens", tokens, why="least squares are solved")
    x, y = (np.asarray(a, float) for a in (tokens.x, tokens.y))
    if x.ndim != 3 or y.shape != x.shape[:1] or x.size == 0:
        raise ValueError(
            f"tokens must have x of (data, length, dim) and as many y, not {x.shape} and {y.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("tokens must be finite numbers, not NaN or infinite ones")
    flat = x.reshape(len(y), -1)
    found = np.linalg.lstsq(flat, y, rcond=None)[0]
    return stage(found.reshape(tokens.x.shape[1:]))


def mean_square(predict: Any, tokens: Tokens, *args: Any) -> Float[Array, ""]:
    """The mean squared error of a predictor on a data set."""
    guess = jax.vmap(lambda x: predict(x, *args))(tokens.x)
    return jnp.mean((guess - tokens.y) ** 2)


def _project(
    place: Float[Array, " dim"], slope: Float[Array, " dim"], lr: Float[Array, ""]
) -> Float[Array, " dim"]:
    """A step along the sphere's tangent, and back to the sphere."""
    moved = place - lr * (slope - jnp.dot(place, slope) * place)
    return moved / jnp.linalg.norm(moved)


Model = ErfAttention | SoftmaxAttention
Place = tuple[Model, Int[Array, ""]]
MODELS = {"erf": ErfAttention, "softmax": SoftmaxAttention}


class SphereDescent(eqx.Module):
    """Projected gradient descent of vectors in R^d, on the exact risk."""

    task: Law
    attention: Erf | Softmax
    schedule: Any
    lr: Float[Array, ""]

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "SphereDescent":
        """The problem of these runs of it: the same for all."""
        return self

    def advance(self, params: Place, step: Int[Array, ""]) -> Place:
        """One simultaneous step of k and v of all runs."""
        model, now = params
        lam = self.schedule(now)

        def one(model: Model) -> Model:
            def risk(model: Model) -> Array:
                return self.attention.excess(self.task, scalars(model.k, model.v), lam)

            slope = jax.grad(risk)(model)
            return _moved(model, slope, self.lr)

        return jax.vmap(one)(model), now + 1

    def observe(self, params: Place) -> dict[str, Array]:
        """The scalars of the vectors, λ and the exact risk."""
        model, now = params
        place = scalars(model.k, model.v), now
        return observe(self.task, self.attention, self.schedule, place)


class TokenDescent(eqx.Module):
    """Projected gradient descent of vectors in R^d, on fresh tokens."""

    task: Task
    exact: SphereDescent
    batch: int = eqx.field(static=True)
    keys: Key[Array, " runs"]
    test: Tokens

    def advance(self, params: Place, step: Int[Array, ""]) -> Place:
        """One simultaneous step of k and v of all runs."""
        model, now = params
        lam = self.exact.schedule(now)

        def one(model: Model, key: Array) -> Model:
            tokens = draw_tokens(self.task, jax.random.fold_in(key, now), self.batch)
            slope = jax.grad(lambda m: mean_square(m, tokens, lam))(model)
            return _moved(model, slope, self.exact.lr)

        return jax.vmap(one)(model, self.keys), now + 1

    def observe(self, params: Place) -> dict[str, Array]:
        """The scalars of the vectors, λ, the exact risk, and the risk on the test batch."""
        model, now = params
        lam = self.exact.schedule(now)
        test = jax.vmap(lambda m: mean_square(m, self.test, lam))(model)
        return self.exact.observe(params) | {"test_loss": test - self.task.noise**2}


def _moved(model: Model, slope: Model, lr: Float[Array, ""]) -> Model:
    return type(model)(_project(model.k, slope.k, lr), _project(model.v, slope.v, lr))


def train_brute(
    task: Task,
    start: State,
    *,
    lam: Any,
    lr: Any,
    steps: int,
    batch: int | None = None,
    attention: Attention = "erf",
    seed: int = 0,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    """Train the vectors k and v in R^d.

    Takes the arguments of `train`. Without `batch` the trajectory is the same to round-off; with
    it, real tokens are drawn at every step, and the trajectory is the same in law.

    Args:
        task: the data law.
        start: where the runs start; vectors with these five scalars are made.
        lam: λ, the inverse temperature, or a schedule such as `decay`.
        lr: α, the step size.
        steps: how many steps.
        batch: B, fresh token matrices at every step; None for the exact gradient.
        attention: "erf", or "softmax", at one λ.
        seed: of the mini-batches and of the test batch.
        log_every: steps between two log points; every 400th part of the run unless given; or
        log_points: points of the log, evenly spaced in log step.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; with `batch`, `test_loss` is on a fixed batch of 1000.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> from .state import sphere
    >>> task = Task(dim=20, length=5)
    >>> train_brute(task, sphere(task, runs=2), lam=0.1, lr=4e-3, steps=10).loss.shape
    (2, 11)
    """
    begun = prepare(task, start, lam=lam, lr=lr, batch=batch, attention=attention, seed=seed)
    return begun.run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    task: Task,
    start: State,
    *,
    lam: Any,
    lr: Any,
    batch: int | None = None,
    attention: Attention = "erf",
    seed: int = 0,
) -> training.Training[Run]:
    """What `train_brute` trains, before any step."""
    flat, schedule, rate, count, number = checked(task, start, lam, lr, batch, seed)
    runs = flat.kappa.size
    kind = attention_of(attention, task, schedule, runs)
    memory.refuse("dim", task.dim, 64.0 * runs * task.dim)
    if count is not None:
        refuse_tokens("batch", count, task, runs * count + _TEST)
        check_seed(number)

    def build() -> tuple[Any, Place]:
        place = (MODELS[attention](*vectors(task, flat)), stage(0))
        exact = SphereDescent(law_of(task), kind, schedule, rate)
        if count is None:
            return exact, place
        key = jax.random.key(number)
        test = drawn(task, jax.random.fold_in(key, 1), _TEST)
        return TokenDescent(task, exact, count, jax.random.split(key, runs), test), place

    return prepared(
        "single_location.train_brute",
        build,
        task,
        start,
        schedule=schedule,
        lr=rate,
        batch=count,
        attention=attention,
        seed=number,
        draws=stream(),
        drawn=None if count is None else lambda problem, _: {"test": problem.test},
    )
