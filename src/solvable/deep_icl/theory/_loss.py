"""The loss of every task: one door to the formulas of each."""

from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit, stage
from ...numerics.host import is_known, unpacked
from ..task import FixedStructure, Isotropic, RotatedStructure, Task, check_task
from ._arguments import check_growth, depths_of, gammas_of, is_population
from ._equivalent import Equivalent, fixed_equivalent, fixed_points, medium_of, single_layer
from ._fixed import fixed_law, single_layer_loss
from ._isotropic import top_eigenvalue
from ._resolvents import Medium
from ._resolvents import edge as upper_edge
from ._spectral import known_losses, spectral, spectral_loss

Method = Literal["exact", "equivalent"]
METHODS: tuple[Method, ...] = get_args(Method)


def loss(
    task: Task,
    *,
    gamma: Any = None,
    step_size: Any = None,
    depth: Any = 1,
    method: Method = "exact",
    step: Any = None,
) -> Float[Array, "..."]:
    r"""The loss ⟨(f − y)²⟩ of L layers with Γ = γI, at width N < D with Γ = γ (D/N) Π.

    ISO: ``∫ρ(λ)[(1 − γλ/L)^(2L) + σ²/(αλ)(1 − (1 − γλ/L)^L)²]`` with Marchenko and Pastur's ρ
    (accounts). FS and RRS with endless contexts and N = D: ``Σ_k a_k (1 − γλ_k/L)^(2L)``
    (accounts). Otherwise one layer is exact, at every N, P and D, and several are the two-point
    deterministic equivalent, whose error is O(1/N, 1/P): it is the loss of the typical context,
    and between L = 1 and L = 2 there is a step of that size (derived).

    Args:
        task: the context law.
        gamma: γ ≥ 0, of any shape; of `FixedStructure` a number for Γ = γI, or Γ's diagonal on the
            last axis; or
        step_size: γ/L.
        depth: L, one or several; None or infinity for the limit.
        method: "exact" where there is such a form, or "equivalent" for one layer too.
        step: deprecated, the old name of step_size.

    Returns:
        The losses, of shape (gamma's shape, depth's shape). Under JAX, at infinite depth with
        finite width or context, no number where γ·edge is above 600.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> rrs = RotatedStructure(nu=1.25, beta=1.0, dim=200, width=60, context=100)
    >>> print(loss(rrs, step_size=0.18, depth=[1, 2], method="equivalent").round(8))
    [0.74672763 0.57493919]
    """
    check_task(task)
    validation.one_of("method", method, METHODS)
    depths = depths_of(depth)
    places, by_step_size = gammas_of(gamma, step_size, step)
    if by_step_size and np.isinf(depths).any():
        raise ValueError("gamma, not step_size, must be given where depth is infinite")
    along = isinstance(task, FixedStructure) and places.ndim > 0
    if isinstance(task, FixedStructure) and along:
        validation.shaped("gamma", places, (*places.shape[:-1], task.dim))
    _, numbers = unpacked(places)
    rows = numbers.reshape(-1, places.shape[-1]) if along else numbers.reshape(-1)
    shape = places.shape[:-1] if along else places.shape
    if numbers.size == 0:
        return stage(np.zeros((*shape, *depths.shape)))
    with np.errstate(over="ignore", invalid="ignore"):
        _, values = unpacked(_values(task, rows, depths.ravel(), by_step_size, method))
    if is_known(values) and not np.all(np.isfinite(values)):
        name = "step_size" if by_step_size else "gamma"
        most = float(np.max(numbers))
        raise ValueError(f"{name} must be smaller: the loss overflows, at {most:.6g}")
    return stage(values.reshape((*shape, *depths.shape)))


def _values(
    task: Task, rows: Any, depths: np.ndarray, by_step_size: bool, method: Method
) -> Float[Array, "rows depths"]:
    """The loss at every row and depth."""
    name = "step_size" if by_step_size else "gamma"
    if is_population(task):
        s = spectral(task)
        xp, lam, places = unpacked(s.lam, rows)
        along = rows.ndim > 1
        loads, top = (places * lam[None, :], 1.0) if along else (places, xp.max(lam))
        for deep in depths:
            check_growth(f"{name} times lam" if along else name, loads, top, float(deep))
        if is_known(s, rows):
            return stage(known_losses(s, places, depths, by_step_size))
        layers = stage(depths)
        factor = layers if by_step_size else jnp.ones_like(layers)
        each = jax.vmap(lambda g, f, d: spectral_loss(s, g * f, d), (None, 0, 0))
        return jax.vmap(lambda g: each(g, factor, layers))(stage(rows))
    if isinstance(task, RotatedStructure):
        return stage(_rotated(task, rows, depths, by_step_size, method))
    columns = [
        _fixed(task, rows * (deep if by_step_size else 1.0), deep, method)
        for deep in depths.tolist()
    ]
    xp, *values = unpacked(*columns)
    return stage(xp.stack(values, 1))


def _rotated(
    task: RotatedStructure, rows: Any, depths: np.ndarray, by_step_size: bool, method: Method
) -> Any:
    """Exact for one layer, the equivalent for more, at all depths from one evaluation."""
    _, places = unpacked(rows)
    places = places[:, None] * (depths if by_step_size else np.ones_like(depths))[None, :]
    single = (depths == 1.0) & (method == "exact")
    values = 0.0
    if not single.all():
        equivalent = Equivalent.of(task)
        for deep, column in zip(depths[~single], places.T[~single], strict=True):
            check_growth("gamma", column, equivalent.top, float(deep))
        deep = np.where(single, np.max(depths), depths)
        values, _ = equivalent.both(places, np.broadcast_to(deep[None, :], places.shape))
    if single.any():
        xp, places, parabola = unpacked(places, single_layer(task))
        values = xp.where(single[None, :], parabola.loss(places), values)
    return values


def _fixed(task: Any, rows: Any, depth: float, method: Method) -> Any:
    """Contexts of P tokens, Γ diagonal: exact for one layer, the equivalent for more."""
    law = fixed_law(task)
    full = rows[:, None] * np.ones((1, task.dim)) if rows.ndim == 1 else rows
    if depth == 1.0 and method == "exact":
        return single_layer_loss(law, full)
    _, full, lam = unpacked(full, task.lam)
    check_growth("gamma times lam", full * lam[None, :], 1.0, depth)
    if is_known(law, full):
        return np.asarray(
            [fixed_equivalent(law, row, depth, fixed_points(law, row, depth)) for row in full]
        )
    count = fixed_points(law, full, depth)
    return jax.lax.map(lambda row: _one_fixed(law, row, stage(depth), count), stage(full))


_one_fixed = jit(fixed_equivalent, static_argnames="points")


def edge(task: Task) -> Float[Array, ""]:
    """The upper edge of the spectrum of what a layer descends: γ·edge/L < 2 is stable.

    The smallest ``−z(κ)`` over κ < −λ₁ of the equivalent's map (derived); of ISO ``(1 + α^-½)²``,
    where the law of Marchenko and Pastur ends (accounts).

    >>> round(edge(RotatedStructure(nu=1.25, beta=1.0, dim=100, width=50)).item(), 4)
    1.2209
    """
    check_task(task)
    if isinstance(task, Isotropic):
        return top_eigenvalue(task.alpha)
    if isinstance(task, FixedStructure):
        return stage(upper_edge(Medium.of(task.spectrum, None, task.context)))
    return stage(upper_edge(medium_of(task)))
