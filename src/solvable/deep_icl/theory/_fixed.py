"""One covariance for all contexts: closed forms in time, and exact losses of one layer."""

from typing import Any, NamedTuple

from jaxtyping import Array, Float

from ...compiling import stage
from ...numerics.host import unpacked
from ..directions import compiled_if_traced
from ..task import FixedStructure


class FixedLaw(NamedTuple):
    """What the losses of a `FixedStructure` depend on, its context a number like the others.

    Attributes:
        lam: λ.
        share: a.
        noise: σ.
        spread: 1/P; 0 for contexts without end.
    """

    lam: Float[Array, " dim"]
    share: Float[Array, " dim"]
    noise: Float[Array, ""]
    spread: Float[Array, ""]


def fixed_law(task: FixedStructure) -> FixedLaw:
    """The law of a task."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    return FixedLaw(task.lam, task.share, task.noise, stage(spread))


def _in_time(task: FixedStructure, t: Any, depth: Any) -> tuple[Any, ...]:
    """``4 ω_k λ_k³ t``, 1 − 1/L with 1/2 in the place of 0, and where it is 0; directions last."""
    xp, lam, share, t, depth = unpacked(task.lam, task.share, t, depth)
    row = (1,) * t.ndim + lam.shape
    lam, share = lam.reshape(row), share.reshape(row)
    rest = 1.0 - 1.0 / depth[..., None]
    single = rest == 0.0
    return xp, lam, share, 4.0 * share * lam**2 * t[..., None], xp.where(single, 0.5, rest), single


@compiled_if_traced
def closed_loss(task: FixedStructure, t: Any, depth: Any) -> Float[Array, "..."]:
    r"""``Σ a_k (1 + 4(1 − 1/L) ω_k λ_k³ t)^(−L/(L−1))``, for t and L of as many axes.

    L = 1: ``Σ a_k e^(−4ω_kλ_k³t)``; L = ∞: ``Σ a_k/(1 + 4ω_kλ_k³t)``.
    """
    xp, _, share, x, safe, single = _in_time(task, t, depth)
    # (1 + (1−1/L) x)^(−1/(1−1/L))
    log = xp.where(single, -x, -xp.log1p(safe * x) / safe)
    return stage(xp.sum(share * xp.exp(log), axis=-1))


@compiled_if_traced
def closed_gamma(task: FixedStructure, t: Any, depth: Any) -> Float[Array, "... dim"]:
    r"""``γ_k = (L/λ_k)[1 − (1 + 4(1 − 1/L) ω_k λ_k³ t)^(−1/(2L−2))]``, and its limits."""
    xp, lam, _, x, safe, single = _in_time(task, t, depth)
    log = xp.where(single, -0.5 * x, -0.5 * xp.log1p(safe * x) / safe)  # L log(1 − γλ/L)
    _, deep = unpacked(depth)
    endless = xp.isinf(deep[..., None])
    layers = xp.where(endless, 1.0, deep[..., None])
    return stage(xp.where(endless, -log, -layers * xp.expm1(log / layers)) / lam)


@compiled_if_traced
def single_layer_loss(law: FixedLaw, gamma: Any) -> Float[Array, "..."]:
    """``Σ a_k (1 − 2g_k + (1 + 1/P) g_k²) + (Σa + σ²)/P Σ g_k²`` with g = γλ: exact at any D, P.

    Of γ with the directions on the last axis.
    """
    xp, gamma, lam, share, noise, spread = unpacked(gamma, *law)
    row = (1,) * (gamma.ndim - 1) + lam.shape
    g, share = gamma * lam.reshape(row), share.reshape(row)
    own = xp.sum(share * ((1.0 - g) ** 2 + spread * g**2), axis=-1)
    return stage(own + spread * (xp.sum(share) + noise**2) * xp.sum(g**2, axis=-1))


@compiled_if_traced
def single_layer_optimum(law: FixedLaw) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """``γ_k = ω_k/((1 + 1/P) ω_k λ_k + (Σa + σ²)/P)`` and ``Σ a_k (1 − γ_k λ_k)``."""
    xp, lam, share, noise, spread = unpacked(*law)
    rest = spread * (xp.sum(share) + noise**2)
    below = (1.0 + spread) * share + rest
    # 1 − γλ, without its cancellation.
    left = (spread * share + rest) / below
    return stage(share / lam / below), stage(xp.sum(share * left))
