"""White tokens: merged attention's whole time course in closed form."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.host import packed, unpacked
from ..task import Task
from ._conserved import live_weights
from ._directions import diagonal, non_negative, outer
from ._population import moments_of

_UNDERFLOW = 750.0  # e to the minus this is zero
_LARGEST = 1e100  # of a mode


def _logistic(task: Task) -> tuple[Float[Any, ""], Float[Any, ""], float]:
    """The limit of σ, the rate at which it grows from small, and σ₀ per u₀."""
    moments = diagonal(task)
    spectrum = task.eigenvalues
    if validation.is_concrete(spectrum):
        values = np.asarray(spectrum)
        if values[0] - values[-1] > 1e-6 * values[0]:
            raise ValueError(
                "spectrum must be white (all eigenvalues equal) for this closed form, not from "
                f"{values[-1]:g} to {values[0]:g}"
            )
    # In every output σ̇ = 2 √(D/D_y) σ (cross − gram λ σ), and u = √(D D_y) σ.
    rate = 2.0 * (task.dim / task.outputs) ** 0.5 * moments.cross.mean()
    return moments.best.mean(), rate, (task.dim * task.outputs) ** -0.5


def white_map(task: Task, u0: Any, t: Any) -> Float[Array, "..."]:
    r"""The time course σ(t) of ``ŷ = σ(t) βᵀ x_q``: merged attention, white tokens, small start.

    ``σ(t) = E/(λγ(E − 1) + √D/u₀)``, ``E = exp(2λ²√D t)``, ``γ = 1 + (1 + D)/N``. Exact for an
    aligned, balanced start of any size. With D_y outputs it is ``σ/(w* − σ)`` that grows like
    ``exp(2λ²√(D/D_y) t)`` from ``σ(0) = u₀/√(D D_y)``.

    Args:
        task: the data law, with a white spectrum; noise and varied lengths change λ and γ.
        u0: u₀ = w_init², the growing mode's size, from `growing_mode`.
        t: t/τ, of which a step of gradient descent is 2η.

    Returns:
        σ, of the shape of u0 followed by that of t.

    Reference: eq. (8).

    >>> task = Task(dim=2, context=10, spectrum="white")
    >>> white_map(task, 1e-6, [0.0, 20.6374, 1e9]).round(4).tolist()
    [0.0, 0.7692, 1.5385]
    """
    best, rate, share = _logistic(task)
    u0, t = outer(_mode(u0), non_negative("t", t))
    xp, u0, t, best, rate = unpacked(u0, t, best, rate)
    begin = share * u0 / best  # σ₀ in units of its limit
    moves = begin > 0.0
    begin = xp.where(moves, begin, 1.0)
    longest = _UNDERFLOW / rate
    t = xp.minimum(t, longest if xp is np else jax.lax.stop_gradient(longest))
    found = best * begin / (xp.exp(-rate * t) - begin * xp.expm1(-rate * t))
    return packed(xp.where(moves, found, 0.0))


def _mode(u0: Any) -> Float[Array, "..."]:
    size = validation.floating("u0", u0)
    validation.within("u0", size, 0.0, _LARGEST)
    return size


def white_loss(task: Task, u0: Any, t: Any) -> Float[Array, "..."]:
    r"""The loss of merged attention on white tokens: ``Dλ(1 − 2λσ(t) + λ²γσ(t)²)``.

    Args:
        task: the data law, with a white spectrum.
        u0: u₀ = w_init², the growing mode's size, from `growing_mode`.
        t: t/τ, of which a step of gradient descent is 2η.

    Returns:
        L, of the shape of u0 followed by that of t.

    Reference: eq. (8).

    >>> task = Task(dim=2, context=10, spectrum="white")
    >>> white_loss(task, 1e-6, [0.0, 1e9]).round(6).tolist()
    [0.999999, 0.230769]
    """
    moments = diagonal(task)
    _, sigma, moments = unpacked(white_map(task, u0, t), moments)
    gap = sigma - moments.best.mean()
    return packed(moments.floor + (moments.gram * moments.spectrum).sum() * gap**2)


def half_rise_time(task: Task, u0: Any) -> Float[Array, "..."]:
    r"""When σ(t) is half-way up: ``t½ = ln(√D/(λγu₀) − 1)/(2λ²√D)``.

    Args:
        task: the data law, with a white spectrum.
        u0: u₀ = w_init², the growing mode's size, from `growing_mode`.

    Returns:
        t½/τ; 0 where σ starts higher, infinity where u₀ = 0.

    Reference: derived for this package.

    >>> task = Task(dim=2, context=10, spectrum="white")
    >>> half_rise_time(task, 1e-6).round(4).item()
    20.6374
    """
    best, rate, share = _logistic(task)
    xp, u0, best, rate = unpacked(_mode(u0), best, rate)
    begin = share * u0 / best
    rising = begin < 0.5
    begin = xp.where(rising, begin, 0.5)
    with np.errstate(divide="ignore"):  # infinite where u₀ = 0
        return packed(xp.where(rising, (xp.log1p(-begin) - xp.log(begin)) / rate, 0.0))


def growing_mode(task: Task, value: Any, key_query: Any) -> Float[Array, "*batch"]:
    r"""The size u₀ of the mode that escapes, in the weights that merged attention starts with.

    ``u₀ = ¼ ‖w₂(0) + W₁(0) m‖²``, ``m = vec(Λ²)/‖Λ²‖_F``: the half of the weights along which
    w₂ and W₁ m are opposite decays and does not count. With several outputs w₂ is the part of a
    head's values along the identity, ``tr V/√D_y``.

    Args:
        task: the data law.
        value: (…, heads, outputs, features), as in a `Run`, in the paper's units.
        key_query: (…, heads, features, dim).

    Returns:
        u₀ (…).

    Reference: derived for this package.

    >>> task = Task(dim=2, context=10, spectrum="white")
    >>> value, key_query = np.zeros((1, 1, 3)), np.zeros((1, 3, 2))
    >>> value[0, 0, 2] = 0.01
    >>> growing_mode(task, value, key_query).round(8).item()
    2.5e-05
    """
    moments = moments_of(task)
    values, inner = live_weights(value=value, key_query=key_query)
    for name, array, last in (
        ("value", values, (task.outputs, task.features)),
        ("key_query", inner, (task.features, task.dim)),
    ):
        if array.shape[-2:] != last:
            raise ValueError(
                f"{name} must be of shape (…, heads, {last[0]}, {last[1]}), not of shape "
                f"{array.shape}"
            )
    xp, mode, basis, values, inner = unpacked(moments.cross, task.basis, values, inner)
    mode = xp.diag(mode) if mode.ndim == 1 else mode
    mode = mode if basis is None else basis @ mode @ basis.T
    mode = mode / xp.linalg.norm(mode)
    first = xp.trace(values[..., task.dim :], axis1=-2, axis2=-1) * task.outputs**-0.5
    second = xp.einsum("...de,de->...", inner[..., : task.dim, :], mode)
    return packed(0.25 * xp.sum((first + second) ** 2, axis=-1))
