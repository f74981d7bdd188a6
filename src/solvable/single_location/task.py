"""The data law: single-location regression, and samplers of real tokens."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from .. import memory, validation
from ..compiling import jit, stage
from ..labs import single_location as description
from ..question import parameters

LIMITS = parameters(description.Task)
MAX_LAM = float(parameters(description.Descent)["lam"].high)
MAX_SEED = 2**63 - 1  # what JAX takes
EVEN = description.EVEN  # γ at which the tokens' mean squares do not tell the location


class Task(eqx.Module):
    r"""Single-location regression.

    Of L tokens in R^d one carries the signal: ``X_J ~ N(√(d/2) k*, γ² I)``, the others are
    ``N(0, I)``. The label is ``Y = X_J·v* + ξ``, ``ξ ~ N(0, ε²)``; k* and v* are orthogonal unit
    vectors, here the first two of a basis.

    Args:
        dim: d, at least 4.
        length: L, the number of tokens, at most 1e9.
        gamma: γ, the standard deviation of the informative token; at ``γ² = ½`` both kinds of
            token have the same mean square.
        noise: ε, the standard deviation of the label's noise.
        location: the law of J: "uniform"; a number from 0 to L − 1; or L probabilities. Training
            does not see it: the predictor treats all tokens alike.

    Reference: Sec. 2.

    >>> Task(dim=400, length=10, gamma=0.5**0.5, noise=0.0)
    Task(dim=400, length=10, gamma=0.707106781187, noise=0)
    """

    dim: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    gamma: Float[Array, ""]
    noise: Float[Array, ""]
    chances: Float[Array, " length"] | None  # None for a uniform location

    def __init__(self, dim, length, gamma=EVEN, noise=0.0, location="uniform"):
        self.dim = LIMITS["dim"].checked("dim", dim)
        self.length = LIMITS["length"].checked("length", length)
        self.gamma = validation.floating("gamma", gamma)
        self.noise = validation.floating("noise", noise)
        for name in ("gamma", "noise"):
            validation.shaped(name, getattr(self, name), ())
            validation.inside(name, getattr(self, name), LIMITS[name])
        self.chances = _chances(location, self.length)

    def __repr__(self) -> str:
        fields = {"dim": self.dim, "length": self.length, "gamma": self.gamma, "noise": self.noise}
        if self.chances is not None:
            fields["location"] = self.chances
        return f"Task({validation.brief(**fields)})"

    @property
    def signal(self) -> float:
        """D = √(d/2), the mean of the informative token along k*."""
        return math.sqrt(self.dim / 2)

    @property
    def locations(self) -> Float[Array, " length"]:
        """The probability of every location."""
        if self.chances is None:
            memory.refuse("length", self.length, 32.0 * self.length)
            return stage(np.full(self.length, 1.0 / self.length))
        return self.chances


class Law(eqx.Module):
    """The numbers of a task, d and L among them: another task then compiles nothing."""

    signal: Float[Array, ""]
    length: Float[Array, ""]
    gamma: Float[Array, ""]
    noise: Float[Array, ""]


def law_of(task: Task) -> Law:
    """What the closed forms need of a task."""
    signal, length = (stage(np.float64(x)) for x in (task.signal, task.length))
    return Law(signal, length, task.gamma, task.noise)


def _chances(location: Any, length: int) -> Float[Array, " length"] | None:
    if isinstance(location, str):
        validation.one_of("location", location, ("uniform",))
        return None
    array = isinstance(location, np.ndarray | jax.Array)
    if not (isinstance(location, Sequence) or (array and location.ndim)):
        place = validation.whole("location", location, 0, length - 1)
        memory.refuse("length", length, 32.0 * length)
        sure = np.zeros(length)
        sure[place] = 1.0
        return stage(sure)
    chances = validation.floating("location", location)
    validation.shaped("location", chances, (length,))
    validation.within("location", chances, 0.0, 1.0)
    if validation.is_concrete(chances) and abs(np.sum(np.asarray(chances)) - 1.0) > 1e-6:
        raise ValueError(f"location must sum to 1, not to {np.sum(np.asarray(chances)):.12g}")
    return chances


def check_task(task: Any) -> None:
    """Raise unless `task` is this lab's."""
    if not isinstance(task, Task):
        raise ValueError(f"task must be a single_location.Task, not {type(task).__name__}")
    validation.needs_double("task")


def check_seed(seed: Any) -> int:
    """`seed`, if JAX can draw from it."""
    return validation.whole("seed", seed, 0, MAX_SEED)


class Tokens(eqx.Module):
    """Sampled data; k* is the first and v* the second vector of the basis.

    Attributes:
        x: the tokens.
        y: the labels, with their noise.
        location: J, from 0.
    """

    x: Float[Array, "data length dim"]
    y: Float[Array, " data"]
    location: Int[Array, " data"]


def draw_tokens(task: Task, key: Key[Array, ""], data: int) -> Tokens:
    """`data` token matrices with their labels; under `jit` too."""
    place_key, token_key, noise_key = jax.random.split(key, 3)
    dtype = task.gamma.dtype
    if task.chances is None:
        place = jax.random.randint(place_key, (data,), 0, task.length)
    else:
        place = jax.random.choice(place_key, task.length, (data,), p=task.chances)
    gaussian = jax.random.normal(token_key, (data, task.length, task.dim), dtype)
    informative = (jnp.arange(task.length)[None, :] == place[:, None])[:, :, None]
    x = jnp.where(informative, task.gamma, 1.0) * gaussian
    first = (jnp.arange(task.dim) == 0).astype(dtype)[None, None, :]
    x = x + jnp.where(informative, task.signal, 0.0) * first
    noise = task.noise * jax.random.normal(noise_key, (data,), dtype)
    y = jnp.take_along_axis(x[:, :, 1], place[:, None], axis=1)[:, 0] + noise
    return Tokens(x, y, place)


def stream() -> dict[str, Any]:
    """What the numbers that JAX draws depend on, besides seeds and shapes."""
    config: Any = jax.config
    return {
        "generator": config.jax_default_prng_impl,
        "partitionable": config.jax_threefry_partitionable,
    }


drawn = jit(draw_tokens, static_argnames="data")


def refuse_tokens(name: str, value: int, task: Task, matrices: int) -> None:
    """Raise if so many token matrices, asked for by `name` = `value`, do not fit into memory."""
    memory.refuse(name, value, 24.0 * matrices * task.length * task.dim)


def sample(task: Task, data: int, *, seed: int = 0) -> Tokens:
    """A data set of real tokens.

    Args:
        task: the data law.
        data: how many token matrices.
        seed: the same seed gives the same data.

    >>> sample(Task(dim=6, length=3), data=5).x.shape
    (5, 3, 6)
    """
    check_task(task)
    validation.concrete("task", task, why="a seed is drawn from")
    data = validation.whole("data", data, 1)
    refuse_tokens("data", data, task, data)
    return drawn(task, jax.random.key(check_seed(seed)), data)
