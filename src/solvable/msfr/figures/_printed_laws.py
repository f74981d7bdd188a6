"""Laplace's method as printed and as it is: App. F."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from ...reproduce import Quote
from ._erratum import Erratum

ALPHA, GAMMA, DATA = 1.8, 0.5, 10_000
PACE, TIME = 10.0, 1000.0  # ψ̄ and t of (76)

FEW = "terms of relative order 1/N = 1e-4 are left out, with coefficients of order 1"
STENCIL = "the witness is a difference quotient"


@dataclass(frozen=True)
class Peak:
    """``e^{−xF(s)}`` around its maximum, found by numbers.

    ``F(s) = power ln s/x + loss(s)``: of (71), with x = t, or of (78) and (98), with x = N.

    Attributes:
        x: the large number.
        power: of 1/s.
        scale: ψ̄ or Z.
        data: whether ``loss = −ln(1 − Zs^−α)``; else it is ψ̄s^−α.
    """

    x: float
    power: float
    scale: float
    data: bool = True

    def exponent(self, s: float) -> float:
        """F."""
        small = self.scale * s**-ALPHA
        return self.power * math.log(s) / self.x + (-math.log1p(-small) if self.data else small)

    @property
    def place(self) -> float:
        """c, by minimisation."""
        middle = math.log(self.scale * self.x) / ALPHA
        found: Any = minimize_scalar(
            lambda y: self.exponent(math.exp(y)),
            bounds=(middle - 1.0, middle + 1.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return math.exp(found.x)

    @property
    def height(self) -> float:
        """``e^{−F(c)x}``."""
        return math.exp(-self.exponent(self.place) * self.x)

    @property
    def curvature(self) -> float:
        """F''(c), by a difference quotient of fourth order."""
        c = self.place
        step = 0.01 * c
        weights = (-1.0, 16.0, -30.0, 16.0, -1.0)
        values = [self.exponent(c + k * step) for k in range(-2, 3)]
        return float(np.dot(weights, values)) / (12.0 * step**2)

    @property
    def area(self) -> float:
        """The last line of (72), (81): ``e^{−F(c)x} √(2π)/√(F''(c)x)``."""
        return self.height * math.sqrt(2.0 * math.pi / (self.curvature * self.x))


NORMALISER = 1.0 / float(zeta(ALPHA))
IN_TIME = Peak(TIME, ALPHA, PACE, data=False)
IN_DATA = Peak(DATA, ALPHA, NORMALISER)
VARIED = Peak(DATA, ALPHA + 2.0 * GAMMA, NORMALISER)
SHARE = 1.0 + 2.0 * GAMMA / ALPHA  # 1 + 2γ/α


def time_law(power: float) -> float:
    """(76) with ``ψ̄^{1 − power/α}``."""
    front = math.sqrt(2.0 * math.pi) / (math.e * ALPHA * PACE ** (1.0 - power / ALPHA))
    return front * TIME ** (-1.0 + 1.0 / ALPHA)


def curvature(factor: float) -> float:
    """``factor · Z^{−2/α} N^{−(α+2)/α}``."""
    return factor * NORMALISER ** (-2.0 / ALPHA) * DATA ** (-(ALPHA + 2.0) / ALPHA)


def data_law(factor: float) -> float:
    """(83) with a factor under its root."""
    below = NORMALISER ** (-1.0 / ALPHA) * math.sqrt(factor * DATA * DATA ** (-1.0 - 2.0 / ALPHA))
    return math.sqrt(2.0 * math.pi) / (DATA * NORMALISER * math.e * below)


def place() -> float:
    """C of (100)."""
    return (NORMALISER * (DATA + SHARE) / SHARE) ** (1.0 / ALPHA)


def height(share: float) -> float:
    """``(share/(NZ))^{(α+2γ)/α}`` times the e^{−(1+2γ/α)} that ∝ leaves out."""
    return (share / (DATA * NORMALISER)) ** SHARE * math.exp(-SHARE)


def second_line(last: float) -> float:
    """The second line of (102), times c²N, with its last term."""
    y = NORMALISER * place() ** -ALPHA
    return ALPHA * DATA * (y / (1.0 - y) + ALPHA * y / (1.0 - y) ** 2 - last)


ERRATA = (
    Erratum(
        "time-coefficient",
        "Putting (74) and (75) into (72) gives ψ̄^{1−1/α} (the form at ψ̄ = 10, t = 1000).",
        Quote(
            r"L(t) \sim \frac{\sqrt{2\pi}}{e\alpha\bar{\psi}^{1-\frac{2}{\alpha}}} "
            r"t^{-1+\alpha^{-1}}",
            "Eq. (76); its law in t is right",
            "slip",
        ),
        printed=lambda: time_law(2.0),
        right=lambda: time_law(1.0),
        witness=lambda: IN_TIME.area,
        slack=1e-6,
        because=STENCIL,
        note="The paper's ~ neglects coefficients, and claims the power of t alone. The witness is "
        "the last line of (72), with c and F'' found by numbers. At ψ̄ = 1000, t = 10, the same "
        "ψ̄t, the quoted form is 0.397: a longer context would raise the loss.",
    ),
    Erratum(
        "data-curvature",
        "F''(c) ~ α² Z^{−2/α} N^{−(α+2)/α} (F''(c) at N = 10⁴).",
        Quote(
            r"\alpha(\alpha+1)Z^{-\frac{2}{\alpha}}N^{-(\alpha+2)/\alpha}",
            "the display below Eq. (82), last line; the law in N is right",
            "slip",
        ),
        printed=lambda: curvature(ALPHA * (ALPHA + 1.0)),
        right=lambda: curvature(ALPHA**2),
        witness=lambda: IN_DATA.curvature,
        slack=1e-3,
        because=FEW,
        note="In the line above, Zc^−α/(1 − Zc^−α) − 1/N is 0 at the c of (80). S = ∞, α = 1.8.",
    ),
    Erratum(
        "data-coefficient",
        "With that F''(c) the factor under the root is α² (the form at N = 10⁴).",
        Quote(
            r"L(N) \sim \frac{1}{NZe} \frac{\sqrt{2\pi}}{Z^{-\frac{1}{\alpha}} "
            r"\sqrt{\alpha(\alpha+1)NN^{-1-2/\alpha}}}",
            "Eq. (83), from the display below (82); its law in N is right",
            "slip",
        ),
        printed=lambda: data_law(ALPHA * (ALPHA + 1.0)),
        right=lambda: data_law(ALPHA**2),
        witness=lambda: IN_DATA.area,
        slack=1e-3,
        because=FEW,
        note="As in (76) the coefficient is one that ~ neglects. The witness is (81) by numbers.",
    ),
    Erratum(
        "t-for-N",
        "The factor is e^{−F(c)N} (at N = 10⁴, γ = 0.5).",
        Quote(
            r"L(N) \sim e^{-F(c)t} \frac{\sqrt{2\pi}}{\sqrt{F''(c)N}}.",
            "Eq. (99) in the text we have; (81) has N",
            "slip",
        ),
        printed=lambda: math.exp(-VARIED.exponent(place()) * math.inf),
        right=lambda: math.exp(-VARIED.exponent(place()) * DATA),
        witness=lambda: VARIED.height,
        slack=1e-9,
        because="the maximum is flat",
        note="As quoted at t → ∞, which this law assumes. The witness is the largest value of the "
        "integrand of (97).",
    ),
    Erratum(
        "peak-height",
        "e^{−F(c)N} ∝ ((1 + 2γ/α)/(NZ))^{(α+2γ)/α} (with the factor e^{−(1+2γ/α)}, N = 10⁴, "
        "γ = 0.5).",
        Quote(
            r"e^{-F(c)N} &\propto \left(\frac{1 + \frac{\gamma}{\alpha}}{NM}\right)"
            r"^{\frac{\alpha + 2\gamma}{\alpha}}",
            "the display below Eq. (101), second line; ∝ hides it, and the law in N is right",
            "slip",
        ),
        printed=lambda: height(1.0 + GAMMA / ALPHA),
        right=lambda: height(SHARE),
        witness=lambda: VARIED.height,
        slack=1e-3,
        because=FEW,
        note="The M of the quoted form is not defined; it is taken for Z. ∝ leaves constants open: "
        "e^{−(1+2γ/α)}, from the line above, is given to both.",
    ),
    Erratum(
        "varied-curvature",
        "The last term in the bracket is −(1 + 2γ/α)/N (F''(c)c²N at N = 10⁴, γ = 0.5).",
        Quote(
            r"&\sim \alpha c^{-2} \left( \frac{Zc^{-\alpha}}{1 - Zc^{-\alpha}} + "
            r"\frac{Z\alpha c^{-\alpha}}{(1 - Zc^{-\alpha})^2} - \frac{2\gamma}{\alpha N} \right)",
            "Eq. (102), second line; (104) is right",
            "slip",
        ),
        printed=lambda: second_line(2.0 * GAMMA / (ALPHA * DATA)),
        right=lambda: second_line(SHARE / DATA),
        witness=lambda: VARIED.curvature * VARIED.place**2 * DATA,
        slack=1e-5,
        because=STENCIL,
        note="The 1/N of the line above is not small beside the other terms, which are of that "
        "order, too. For N → ∞ it is α²(1 + 2γ/α) = 5.04.",
    ),
)
