"""What no depth and no γ can beat on isotropic data."""

from jaxtyping import Array, Float

from ..task import Isotropic, check_task
from ._isotropic import ridge_at


def ridge_loss(task: Isotropic) -> Float[Array, ""]:
    r"""The loss of optimal ridge regression on the context, ``(1−α)₊ + ∫ρ r/(λ + r)``, r = σ²/α.

    With ρ the law of Marchenko and Pastur, without its atom at 0 (derived).

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> round(ridge_loss(Isotropic(alpha=2.0, noise=0.5)).item(), 5)
    0.17539
    """
    check_task(task, Isotropic)
    return ridge_at(task)
