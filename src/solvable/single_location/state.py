"""Where training is: five scalars, drawn in O(1) or read off vectors in R^d."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import validation
from .task import Task, check_task

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
            shape = jnp.broadcast_shapes(*(x.shape for x in values.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {x.shape}" for name, x in values.items())
            raise ValueError(
                f"kappa, nu, theta, eta, rho must have one shape, not {shapes}"
            ) from None
        for name, x in values.items():
            setattr(self, name, jnp.broadcast_to(x, shape))
        if all(validation.is_concrete(x) for x in values.values()):
            self._refuse_impossible()

    @classmethod
    def raw(cls, kappa: Any, nu: Any, theta: Any, eta: Any, rho: Any) -> "State":
        """Five arrays of one shape as they are, unchecked."""
        state = object.__new__(cls)
        for name, x in zip(NAMES, (kappa, nu, theta, eta, rho), strict=True):
            object.__setattr__(state, name, x)
        return state

    def _refuse_impossible(self) -> None:
        k = 1.0 - np.asarray(self.kappa) ** 2 - np.asarray(self.eta) ** 2
        v = 1.0 - np.asarray(self.theta) ** 2 - np.asarray(self.nu) ** 2
        for words, rest in (("kappa² + eta²", k), ("theta² + nu²", v)):
            if np.any(rest < -1e-9):
                raise ValueError(f"{words} must be at most 1, not {float(np.max(1.0 - rest)):.9g}")
        plane = np.asarray(self.kappa * self.theta + self.eta * self.nu)
        gap = np.abs(np.asarray(self.rho) - plane) - np.sqrt(np.maximum(k, 0) * np.maximum(v, 0))
        if np.any(gap > 1e-9):
            raise ValueError(
                "rho must be that of two unit vectors with these kappa, nu, theta, eta; it is off "
                f"by {float(np.max(gap)):.3g}"
            )

    @property
    def distance(self) -> Float[Array, "*runs"]:
        """√(θ² + η² + ρ²), the distance to the invariant manifold θ = η = ρ = 0."""
        return jnp.sqrt(self.theta**2 + self.eta**2 + self.rho**2)

    @property
    def runs(self) -> tuple[int, ...]:
        """The shape of the axes of runs."""
        return self.kappa.shape

    def __repr__(self) -> str:
        return f"State({validation.brief(**{name: getattr(self, name) for name in NAMES})})"


def _streams(seed: Any, kind: int) -> np.random.Generator:
    return np.random.default_rng([validation.whole("seed", seed), kind])


def _checked(task: Any, runs: Any) -> tuple[int, int]:
    check_task(task)
    return task.dim, validation.whole("runs", runs, 1)


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
    k_rest = jnp.sqrt(jnp.maximum(1.0 - state.kappa**2 - state.eta**2, 0.0))
    left = state.rho - state.kappa * state.theta - state.eta * state.nu
    most = jnp.sqrt(jnp.maximum(1.0 - state.theta**2 - state.nu**2, 0.0))
    along = jnp.where(k_rest > 0.0, left / jnp.where(k_rest > 0.0, k_rest, 1.0), 0.0)
    along = jnp.clip(along, -most, most)
    beyond = jnp.sqrt(jnp.maximum(most**2 - along**2, 0.0))
    none = jnp.zeros_like(k_rest)
    k = jnp.stack([state.kappa, state.eta, k_rest, none], axis=-1)
    v = jnp.stack([state.theta, state.nu, along, beyond], axis=-1)
    pad = [(0, 0)] * (k.ndim - 1) + [(0, task.dim - 4)]
    return jnp.pad(k, pad), jnp.pad(v, pad)


def scalars(k: Float[Array, "*runs dim"], v: Float[Array, "*runs dim"]) -> State:
    """The five scalars of unit vectors, where k* and v* are the first two axes."""
    return State.raw(k[..., 0], v[..., 1], v[..., 0], k[..., 1], jnp.sum(k * v, axis=-1))


def uniform_vectors(
    task: Task, runs: int, *, seed: int = 0
) -> tuple[Float[Array, "runs dim"], Float[Array, "runs dim"]]:
    """K and v independent and uniform on the unit sphere of R^d, as vectors."""
    dim, runs = _checked(task, runs)
    keys = jax.random.split(jax.random.key(validation.whole("seed", seed)))
    k, v = (jax.random.normal(key, (runs, dim)) for key in keys)
    return tuple(x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (k, v))


def manifold_vectors(
    task: Task, runs: int, *, seed: int = 0
) -> tuple[Float[Array, "runs dim"], Float[Array, "runs dim"]]:
    """K uniform orthogonal to v*, v uniform orthogonal to k* and k, as vectors of R^d."""
    k, v = uniform_vectors(task, runs, seed=seed)
    k = k.at[:, 1].set(0.0)
    k = k / jnp.linalg.norm(k, axis=-1, keepdims=True)
    v = v.at[:, 0].set(0.0)
    # k without its part along k*: what v must be orthogonal to besides.
    rest = k.at[:, 0].set(0.0)
    rest = rest / jnp.linalg.norm(rest, axis=-1, keepdims=True)
    for _ in range(2):  # once more, for what round-off left
        v = v - jnp.sum(v * rest, axis=-1, keepdims=True) * rest
    return k, v / jnp.linalg.norm(v, axis=-1, keepdims=True)
