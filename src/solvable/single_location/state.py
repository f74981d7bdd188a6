"""Where training is: five scalars, drawn in O(1) or read off vectors in R^d."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import memory, validation
from ..compiling import jit, stage
from .task import Task, check_seed, check_task

NAMES = ("kappa", "nu", "theta", "eta", "rho")


class State(eqx.Module):
    """The five scalars that all dynamics of (k, v) depend on; runs on leading axes.

    Args:
        kappa: κ = k·k*.
        nu: ν = v·v*.
        theta: θ = v·k*.
        eta: η = k·v*.
        rho: ρ = k·v.

    They must be those of unit vectors: κ² + η² ≤ 1, θ² + ν² ≤ 1, and ρ as far from κθ + ην as the
    rests of k and v allow.

    >>> State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15).distance.round(6).item()
    0.269258
    """

    kappa: Float[Array, "*runs"]
    nu: Float[Array, "*runs"]
    theta: Float[Array, "*runs"]
    eta: Float[Array, "*runs"]
    rho: Float[Array, "*runs"]

    def __init__(self, kappa, nu, theta=0.0, eta=0.0, rho=0.0):
        given = {"kappa": kappa, "nu": nu, "theta": theta, "eta": eta, "rho": rho}
        values = {name: validation.floating(name, x) for name, x in given.items()}
        for name, x in values.items():
            validation.within(name, x, -1.0, 1.0)
        try:
            shape = np.broadcast_shapes(*(x.shape for x in values.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {x.shape}" for name, x in values.items())
            raise ValueError(
                f"kappa, nu, theta, eta, rho must have one shape, not {shapes}"
            ) from None
        for name, x in values.items():
            if x.shape != shape and validation.is_concrete(x):
                x = stage(np.broadcast_to(x, shape))
            setattr(self, name, x if x.shape == shape else jnp.broadcast_to(x, shape))
        if all(validation.is_concrete(x) for x in values.values()):
            _refuse_impossible(*(np.asarray(x) for x in values.values()))

    @classmethod
    def raw(cls, kappa: Any, nu: Any, theta: Any, eta: Any, rho: Any) -> "State":
        """Five arrays of one shape as they are, unchecked."""
        state = object.__new__(cls)
        for name, x in zip(NAMES, (kappa, nu, theta, eta, rho), strict=True):
            object.__setattr__(state, name, x)
        return state

    @property
    def distance(self) -> Float[Array, "*runs"]:
        """√(θ² + η² + ρ²), the distance to the invariant manifold θ = η = ρ = 0."""
        parts = (self.theta, self.eta, self.rho)
        if all(validation.is_concrete(x) for x in parts):
            theta, eta, rho = (np.asarray(x) for x in parts)
            return stage(np.sqrt(theta**2 + eta**2 + rho**2))
        return jnp.sqrt(self.theta**2 + self.eta**2 + self.rho**2)

    @property
    def runs(self) -> tuple[int, ...]:
        """The shape of the axes of runs."""
        return self.kappa.shape

    def __repr__(self) -> str:
        return f"State({validation.brief(**{name: getattr(self, name) for name in NAMES})})"


def _refuse_impossible(kappa: Any, nu: Any, theta: Any, eta: Any, rho: Any) -> None:
    k = 1.0 - kappa**2 - eta**2
    v = 1.0 - theta**2 - nu**2
    for words, rest in (("kappa² + eta²", k), ("theta² + nu²", v)):
        if np.any(rest < -1e-9):
            raise ValueError(f"{words} must be at most 1, not {float(np.max(1.0 - rest)):.9g}")
    gap = np.abs(rho - kappa * theta - eta * nu) - np.sqrt(np.maximum(k, 0) * np.maximum(v, 0))
    if np.any(gap > 1e-9):
        raise ValueError(
            "rho must be that of two unit vectors with these kappa, nu, theta, eta; it is off "
            f"by {float(np.max(gap)):.3g}"
        )


def _streams(seed: Any, kind: int) -> np.random.Generator:
    return np.random.default_rng([validation.whole("seed", seed), kind])


def _checked(task: Any, runs: Any) -> tuple[int, int]:
    check_task(task)
    runs = validation.whole("runs", runs, 1)
    memory.refuse("runs", runs, 200.0 * runs)
    return task.dim, runs


def check_runs(start: State) -> None:
    """There is a run at least."""
    if 0 in start.runs:
        raise ValueError(f"start must have at least one run, not the shape {start.runs}")


def sphere(task: Task, runs: int = 1, *, seed: int = 0) -> State:
    """K and v independent and uniform on the unit sphere, as their five scalars.

    The cost does not depend on the dimension: what is not along k*, v* enters by its length.

    Args:
        task: for its dimension.
        runs: how many starts, on one leading axis.
        seed: the same seed gives the same starts.

    Reference: Sec. 5.

    >>> sphere(Task(dim=400, length=10), runs=3).kappa.shape
    (3,)
    """
    dim, runs = _checked(task, runs)
    draw = _streams(seed, 0)
    g1, g2, g3, g4, h = draw.standard_normal((5, runs))
    ck, cv = draw.chisquare(dim - 2, (2, runs))
    nk, nv = np.sqrt(g1**2 + g2**2 + ck), np.sqrt(g3**2 + g4**2 + cv)
    kappa, eta, nu, theta = g1 / nk, g2 / nk, g3 / nv, g4 / nv
    cosine = h / np.sqrt(h**2 + draw.chisquare(dim - 3, runs))
    rho = kappa * theta + eta * nu + np.sqrt(ck * cv) / (nk * nv) * cosine
    return State(kappa, nu, theta, eta, rho)


def manifold(task: Task, runs: int = 1, *, seed: int = 0) -> State:
    """K uniform orthogonal to v*, then v uniform orthogonal to k* and k: θ = η = ρ = 0.

    Args:
        task: for its dimension.
        runs: how many starts, on one leading axis.
        seed: the same seed gives the same starts.

    Reference: Sec. 5.

    >>> manifold(Task(dim=400, length=10), runs=3).distance.tolist()
    [0.0, 0.0, 0.0]
    """
    dim, runs = _checked(task, runs)
    draw = _streams(seed, 1)
    h, g = draw.standard_normal((2, runs))
    kappa = h / np.sqrt(h**2 + draw.chisquare(dim - 2, runs))
    return State(kappa, g / np.sqrt(g**2 + draw.chisquare(dim - 3, runs)))


def vectors(
    task: Task, state: State
) -> tuple[Float[Array, "*runs dim"], Float[Array, "*runs dim"]]:
    """Vectors k, v in R^d with the five scalars of `state`; k* and v* are the first two axes.

    They lie in the first four axes: by rotation invariance nothing else matters.
    """
    kappa, nu, theta, eta, rho = (np.asarray(getattr(state, name)) for name in NAMES)
    k_rest = np.sqrt(np.maximum(1.0 - kappa**2 - eta**2, 0.0))
    most = np.sqrt(np.maximum(1.0 - theta**2 - nu**2, 0.0))
    left = rho - kappa * theta - eta * nu
    along = np.where(k_rest > 0.0, left / np.where(k_rest > 0.0, k_rest, 1.0), 0.0)
    along = np.clip(along, -most, most)
    k, v = np.zeros((2, *state.runs, task.dim))
    k[..., 0], k[..., 1], k[..., 2] = kappa, eta, k_rest
    v[..., 0], v[..., 1], v[..., 2] = theta, nu, along
    v[..., 3] = np.sqrt(np.maximum(most**2 - along**2, 0.0))
    return stage(k), stage(v)


def scalars(k: Float[Array, "*runs dim"], v: Float[Array, "*runs dim"]) -> State:
    """The five scalars of unit vectors, where k* and v* are the first two axes."""
    return _scalars(k, v)


@jit
def _scalars(k: Array, v: Array) -> State:
    return State.raw(k[..., 0], v[..., 1], v[..., 0], k[..., 1], jnp.sum(k * v, axis=-1))


def uniform_vectors(
    task: Task, runs: int, *, seed: int = 0
) -> tuple[Float[Array, "runs dim"], Float[Array, "runs dim"]]:
    """K and v independent and uniform on the unit sphere of R^d, as vectors."""
    dim, runs = _checked(task, runs)
    return _uniform(jax.random.key(check_seed(seed)), runs, dim)


def manifold_vectors(
    task: Task, runs: int, *, seed: int = 0
) -> tuple[Float[Array, "runs dim"], Float[Array, "runs dim"]]:
    """K uniform orthogonal to v*, v uniform orthogonal to k* and k, as vectors of R^d."""
    return _onto_manifold(*uniform_vectors(task, runs, seed=seed))


@jit(static_argnames=("runs", "dim"))
def _uniform(key: Array, runs: int, dim: int) -> tuple[Array, Array]:
    k, v = (jax.random.normal(part, (runs, dim)) for part in jax.random.split(key))
    return _unit(k), _unit(v)


def _unit(x: Array) -> Array:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


@jit
def _onto_manifold(k: Array, v: Array) -> tuple[Array, Array]:
    k = _unit(k.at[:, 1].set(0.0))
    v = v.at[:, 0].set(0.0)
    # k without its part along k*: what v must be orthogonal to besides.
    rest = _unit(k.at[:, 0].set(0.0))
    for _ in range(2):  # once more, for what round-off left
        v = v - jnp.sum(v * rest, axis=-1, keepdims=True) * rest
    return k, _unit(v)
