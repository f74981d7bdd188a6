"""The exponents of the loss in time, depth, width, context and compute."""

import math
from typing import Any, Literal

import equinox as eqx
from jaxtyping import Array, Float

from ... import validation
from ...numerics.host import is_known, unpacked
from ..run import TIMES, Time
from ..spectrum import MAX_DIM, MIN_LAM, check_exponents, last_of

Layers = Literal["tied", "untied"]
LAYERS = ("tied", "untied")
Number = float | Float[Array, ""]


class Exponents(eqx.Module):
    """Exponents of the loss in each resource, the others without limit.

    Attributes:
        time: ``𝓛 ∝ t^(−β/(2+β))``, in either unit of time.
        depth: ``𝓛 ∝ L^-β``; ``L^(−2β)`` of untied layers.
        width: ``𝓛 ∝ N^(−ν min(β,1))``; for ν < 1 ``N^(−min(β,1))``, at N above Σλ.
        context: ``𝓛 ∝ P^(−ν min(β,2))``; for ν < 1 ``P^(−min(β,2))``, at P above Σλ.
        unit: the unit of time, "scalar" or "matrix".
    """

    time: Number
    depth: Number
    width: Number
    context: Number
    unit: Time = eqx.field(default="scalar", static=True)

    def compute(
        self, t: float = 1.0, width: float = 2.0, depth: float = 1.0, context: float = 0.0
    ) -> Number:
        """The exponent of the loss in compute ``C = t^p N^q L^r P^s``, at the optimal shape.

        ``𝓛 ∝ C^(−1/Σ(power/exponent))`` (derived); a resource with power 0 is without limit.
        With matrix time t = N·(scalar time), so that a bounded width is paid for once more.

        Args:
            t, width, depth, context: the powers p, q, r, s.

        >>> round(exponents(1.25, 0.8).compute(), 5)
        0.14815
        """
        validation.concrete("powers", t, width, depth, context, why="their signs are looked at")
        powers = {"t": t, "width": width, "depth": depth, "context": context}
        for name, power in powers.items():
            number = validation.floating(name, power)
            validation.shaped(name, number, ())
            validation.within(name, number, 0.0, 100.0, open_low=name == "t")
        if self.unit == "matrix" and width > 0.0:
            width = width + t
        total = t / self.time + width / self.width + depth / self.depth + context / self.context
        return 1.0 / total


def exponents(
    nu: Number, beta: Number, time: Time = "scalar", *, layers: Layers = "tied"
) -> Exponents:
    """The exponents of the rotated structure's loss in each resource.

    Time ``β/(2+β)``, depth β, width ``ν min(β,1)``, context ``ν min(β,2)`` (accounts; the
    caps are derived). At β = 1 the width's law has a logarithm beside it, at β = 2 the context's.
    For ν ≤ 1, where Σλ grows with D, the effective ridge is Σλ/N in place of ∝ N^-ν, and 1 stands
    for ν in the last two.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        time: whether the time of `Exponents.compute` is that of the scalar γ, dγ/dt = −∂𝓛/∂γ,
            or of the N×N matrix Γ, N times as long.
        layers: "untied" for a γ of its own in every layer: depth 2β, and so ``L ∝ N^ν min(β,1)/2β``
            at the best shape. A conjecture: found at one (ν, β) of the equivalent, at widths or
            contexts that are finite and γ at its optimum; where every context has the same spectrum
            it is (2+ν)β, see `untied_depth_law`. Untied layers do not train faster.

    >>> exponents(1.5, 1.5).width, exponents(1.5, 1.5).context
    (1.5, 2.25)
    """
    check_exponents(nu, beta)
    validation.one_of("time", time, TIMES)
    validation.one_of("layers", layers, LAYERS)
    xp, nu, beta = unpacked(nu, beta)
    ridge = xp.maximum(nu, 1.0)
    return Exponents(
        time=_number(beta / (2.0 + beta)),
        depth=_number(beta if layers == "tied" else 2.0 * beta),
        width=_number(ridge * xp.minimum(beta, 1.0)),
        context=_number(ridge * xp.minimum(beta, 2.0)),
        unit=time,
    )


def _number(value: Any) -> Number:
    """As Python's, unless JAX traces it."""
    return float(value) if is_known(value) else value


def attention_time_exponent(beta: Number, m: int = 5) -> Number:
    """The time exponent where γ is a product of m weights that grow alike, γ ∝ w^m.

    ``𝓛 ∝ t^(−mβ/(mβ+2))`` (accounts): five weights in full attention (γ = w_x² w_q w_k w_v), one
    for γ itself.

    Args:
        beta: β, the source exponent.
        m: how many weights make up γ.

    >>> round(attention_time_exponent(0.8), 5), round(attention_time_exponent(0.8, m=1), 5)
    (0.66667, 0.28571)
    """
    check_exponents(1.0, beta)
    _, source = unpacked(beta)
    product = validation.whole("m", m, 1, 1000) * source
    return _number(product / (product + 2.0))


def check_spectrum(nu: Any, beta: Any, dim: int | float) -> None:
    """Refuse exponents and dimensions outside what can be summed."""
    validation.concrete("nu and beta", nu, beta, why="the spectrum is summed")
    check_exponents(nu, beta)
    if isinstance(dim, float) and dim == math.inf:
        last_of(nu, beta)
        return
    validation.whole("dim", dim, 2, MAX_DIM)
    if dim**nu > 1.0 / MIN_LAM:
        raise ValueError(f"dim^nu must be at most 1e150, not {dim}^{nu:g}")
