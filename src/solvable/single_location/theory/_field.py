"""The gradient flow of (k, v) on both spheres, in the five scalars."""

from typing import Any

from jaxtyping import Array, Float

from ..state import State
from ..task import Law, Task
from ._arguments import at_state
from ._pointwise import pointwise
from ._risk import slopes_of


def field_of(task: Task | Law, x: State, lam: Float[Array, "..."]) -> State:
    """`flow_field`, unchecked."""
    r = slopes_of(task, x, lam)
    pk = x.kappa * r.kappa + x.eta * r.eta + x.rho * r.rho
    pv = x.nu * r.nu + x.theta * r.theta + x.rho * r.rho
    return State.raw(
        kappa=pk * x.kappa - r.kappa - r.rho * x.theta,
        nu=pv * x.nu - r.nu - r.rho * x.eta,
        theta=pv * x.theta - r.theta - r.rho * x.kappa,
        eta=pk * x.eta - r.eta - r.rho * x.nu,
        rho=(pk + pv) * x.rho
        - (r.nu * x.eta + r.theta * x.kappa + r.rho)
        - (r.kappa * x.theta + r.eta * x.nu + r.rho),
    )


_flow_field = pointwise(field_of)


def flow_field(task: Task, x: State, lam: Any) -> State:
    r"""The velocity of the five scalars under gradient flow on both spheres.

    ``k̇ = −(I − kkᵀ)∇_k R`` and ``v̇ = −(I − vvᵀ)∇_v R``: projected gradient descent with a small
    step, its time being step size times steps.

    Args:
        task: the data law.
        x: the five scalars.
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        Velocities, by the names of the scalars.

    Reference: Sec. 4.

    >>> x = State(kappa=0.3, nu=0.5)
    >>> flow_field(Task(dim=400, length=10), x, lam=0.1).rho.item() == 0.0
    True
    """
    return _flow_field(*at_state(task, x, lam))
