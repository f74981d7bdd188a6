"""Arithmetic that keeps the rounding error: sums and products as unevaluated pairs (high, low)."""

from typing import Any

from jaxtyping import Float

Values = Float[Any, "..."]  # of numpy or of JAX

_SPLITTER = 2.0**27 + 1.0  # halves a 53-bit mantissa (Veltkamp)


def two_sum(a: Values, b: Values) -> tuple[Values, Values]:
    """The rounded sum and its exact error: ``a + b = s + e`` (Knuth)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def two_product(a: Values, b: Values) -> tuple[Values, Values]:
    """The rounded product and its exact error: ``a b = p + e`` (Dekker)."""
    p = a * b
    ca, cb = _SPLITTER * a, _SPLITTER * b
    ah, bh = ca - (ca - a), cb - (cb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def combine(a: Values, b: Values, x: Values, c: Values, d: Values) -> Values:
    """``(a + b) + x (c + d)`` to full relative accuracy unless it cancels below 1e-16 of a term.

    Args:
        a, b: two terms added.
        x: the factor.
        c, d: two terms added, then multiplied by ``x``.

    Returns:
        The combination, rounded once.
    """
    s, se = two_sum(a, b)
    u, ue = two_sum(c, d)
    p, pe = two_product(x, u)
    total, te = two_sum(s, p)
    return total + (te + (se + pe + x * ue))
