"""Initial value problems, by diffrax."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..compiling import jit


@jit(filtered=True)
def solve_at(
    field: Callable[[Float[Array, ""], Any, Any], Any],
    start: Any,
    times: Float[Array, " times"],
    args: Any = None,
    *,
    rtol: float = 1e-10,
    atol: float = 1e-14,
    max_steps: int = 1_000_000,
) -> Any:
    """``ẏ = field(t, y, args)`` from ``y(0) = start``, at increasing times ≥ 0 (Dormand–Prince 8).

    Raises an error rather than return what the tolerance was not kept for.
    """
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),  # pyright: ignore[reportArgumentType]
        diffrax.Dopri8(),
        t0=jnp.zeros_like(times[0]),
        t1=times[-1],
        dt0=None,
        y0=start,
        args=args,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        max_steps=max_steps,
    )
    return solution.ys
