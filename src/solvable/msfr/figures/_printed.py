"""The flow of one task as printed and as it is: Secs. 2 and 3, Apps. A, E and J."""

import math
from dataclasses import replace

import numpy as np

from ...reproduce import Quote
from .. import Task
from ._erratum import Erratum
from ._formulas import AlongContext, numerator, riccati

CASE = AlongContext(context=3.0, strength=0.5, v=0.3, w=0.55)
BALANCED = AlongContext(context=3.0, strength=0.5, v=0.2, w=0.2)
OPPOSITE = replace(BALANCED, w=-0.2)
NEGATIVE = replace(BALANCED, strength=-0.5)
TIME = 0.2
NUM_TASKS, ALPHA = 500, 1.8
# v, w on coordinates (s, S+1), off (1, Λ), for the display of App. A.
ENTRIES = (np.array([0.3, 0.2]), np.array([0.4, 0.1]))
# v + w and v − w, off (1, Λ), for (127).
ETA, RHO = np.array([0.7, 0.2]), np.array([0.4, -0.1])

SOLVER = "the ODE solver keeps 13 digits a step, Theorem 3.1's P and Q lose a few"
ALGEBRA = "both are exact, up to round-off"


def _masses(normaliser: float) -> float:
    s = np.arange(1, NUM_TASKS + 1, dtype=float)
    return float(np.sum(normaliser * s**-ALPHA))


def _sum_of_powers() -> float:
    return float(np.sum(np.arange(1, NUM_TASKS + 1, dtype=float) ** -ALPHA))


def _output(v: np.ndarray, w: np.ndarray, query: float) -> float:
    """The last display of App. A, and `query` times what the query adds."""
    lam = CASE.strength
    cross = lam * (v[1] * w[0] + w[1] * v[0])
    in_context = CASE.context * (v[0] * w[0] + cross + lam**2 * v[1] * w[1])
    return float(in_context + query * v[0] * w[0])


def _of_tokens(v: np.ndarray, w: np.ndarray) -> float:
    """vᵀΦΦᵀw of tokens with random signs: rows s and S+1 of (4)."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], int(CASE.context) + 1)
    targets = CASE.strength * signs
    targets[-1] = 0.0
    phi = np.stack([signs, targets])
    return float(v @ phi @ phi.T @ w)


def _riccati(wrong: bool) -> float:
    """h(t) from (12), or from (39) as printed."""
    a, lam, c = CASE.rate, CASE.strength, CASE.constant

    def field(g: float, h: float) -> tuple[float, float]:
        g_dot = 2.0 * a * lam * g - a * g**2 / 2.0 + a * c
        h_dot = -2.0 * a * lam * (g if wrong else h) - a * h**2 / 2.0 + a * c
        return g_dot, h_dot

    return float(riccati(field, (CASE.g, CASE.h), TIME)[1])


def first_constant() -> float:
    """The first form of (40)."""
    h0 = CASE.matrix / CASE.context
    v, w = CASE.start
    return float(((v + w) @ h0 @ (v + w)) * ((v - w) @ h0 @ (v - w)))


def second_constant(case: AlongContext = CASE, query: float = 0.0) -> float:
    """The second form of (40), H at order zero, or with the `query` of (7) besides."""
    matrix = case.matrix + query * case.query
    v, w = case.start
    return float((v @ matrix @ v + w @ matrix @ w) ** 2 - 4.0 * v @ matrix @ w)


def _fractions(t: float) -> float:
    """The left side of (50): γ̇/γ times −θ̇/θ."""
    gamma, theta = CASE.log_slopes(t)
    return -gamma * theta


def printed_first_root() -> float:
    """P of (56), with the bracket where it stands."""
    below = 2.0 * (CASE.f0 - CASE.strength) * CASE.root() - 2.0 * CASE.strength
    return numerator(CASE.strength, CASE.f0, CASE.constant) / below


def _q(t: float) -> float:
    """Q = −θ̇/θ."""
    return -CASE.log_slopes(t)[1]


def _along(t: float) -> float:
    """η_s + Λη_{S+1}, from an ODE solve."""
    v, w = CASE.flow(t)
    return float((v + w) @ CASE.direction)


def _conserved(x: np.ndarray) -> float:
    """Λx_s − x_{S+1} of (120)."""
    return float(CASE.strength * x[0] - x[1])


def _crossed(factor: float) -> float:
    """A factor times the bracket in the last line of (127)."""
    return factor * (_conserved(ETA) * RHO[1] - _conserved(RHO) * ETA[1])


def _left_of_127() -> float:
    h0, h1 = CASE.matrix / CASE.context, CASE.query
    g, h = CASE.square(ETA), CASE.square(RHO)
    return float((ETA @ h0 @ h1 @ ETA) * h - (RHO @ h0 @ h1 @ RHO) * g)


def _forced(t: float) -> float:
    """zφ of (135), from an ODE solve."""
    v, w = CASE.flow(t)
    eta, rho = v + w, v - w
    g, h = CASE.square(eta), CASE.square(rho)
    r = CASE.context * float(eta[0] ** 2 - rho[0] ** 2)
    h0h1 = CASE.matrix @ CASE.query
    pull = CASE.context * (g - h - 4.0 * CASE.strength) / 4.0 * float(rho @ h0h1 @ rho)
    return CASE.factors(t)[1] * (CASE.rate * h * r / 4.0 + pull)


def _m_of_sensitivity(t: float) -> float:
    """M = ψη¹·H⁰η⁰ (34) from an ODE solve that starts at η¹ = 0."""
    v, w, dv, dw = CASE.sensitivity(t)
    return float((dv + dw) @ CASE.matrix @ (v + w))


ERRATA = (
    Erratum(
        "normaliser",
        "Z = 1/Σ_s s^−α is the normalization constant (Σ_s P(s), S = 500, α = 1.8).",
        Quote(
            r"$Z = \sum_{s=1}^{\mathcal{N}_s} s^{-\alpha}$ is the normalization constant",
            "below Eq. (1)",
        ),
        printed=lambda: _masses(_sum_of_powers()),
        right=lambda: np.sum(np.asarray(Task(NUM_TASKS, ALPHA, 100.0, 0.5).weights)),
        witness=lambda: 1.0,
        slack=1e-12,
        because="round-off of 500 terms",
        note="The witness is what probabilities add up to.",
    ),
    Erratum(
        "balanced-opposite",
        "From v = −w, f = Λ/(1 + Δe^{+2aΛt}) (f at t = 0.2 from v = −w = 0.2u).",
        Quote(
            r"f_s^0(t) = \frac{\Lambda_s}{1 + \Delta_s e^{-2a_s \Lambda_s t}} \text{ when } "
            r"\mathbf{v}_s^0(0) = \pm \mathbf{w}_s^0(0).",
            "Eq. (14), assumed again in F.3; for v = +w it is right, and E.3 derives that case",
        ),
        printed=lambda: OPPOSITE.balanced(TIME, exponent=-2.0 * OPPOSITE.strength),
        right=lambda: OPPOSITE.balanced(TIME, exponent=2.0 * OPPOSITE.strength),
        witness=lambda: OPPOSITE.prediction(TIME),
        slack=1e-9,
        because=SOLVER,
        note="From v = −w, f is negative and stays so: for Λ > 0 it tends to 0, while the quoted "
        "form has a pole at t = 0.346 and tends to Λ.",
    ),
    Erratum(
        "limit",
        "f → Λ where v(0) + sgn(Λ)w(0) has a part along (1, Λ), and f → 0 where it has none "
        "(f for t → ∞ from v = w = 0.2u at Λ = −0.5).",
        Quote(
            r"as long as $\#_s \neq 0$ such that $a_s \neq 0$, a crucial property of $f_s^0(t)$ is"
            r" $$\lim_{t \rightarrow \infty} f_s^0(t) = \Lambda_s, \quad (61)$$",
            "Eq. (61) and the sentence before it; an exception is missing",
        ),
        printed=lambda: NEGATIVE.strength,
        right=lambda: NEGATIVE.balanced(100.0, exponent=-2.0 * NEGATIVE.strength),
        witness=lambda: NEGATIVE.prediction(10.0),
        slack=1e-9,
        because="what is left at t = 10 is e^−37",
        note="From v = w, (14) keeps the sign of f(0) > 0, so that Λ < 0 is not reached.",
    ),
    Erratum(
        "g-for-h",
        "ḣ = −2aΛh − ah²/2 + aC (h at t = 0.2).",
        Quote(
            r"\dot{h}_s^0 &= -2a_s\Lambda_s g_s^0 - a_s(h_s^0)^2/2 + a_sC_s",
            "Eq. (39) in the text we have; (12) has h, and (42), from which E.2 goes on, is right",
            "slip",
        ),
        printed=lambda: _riccati(wrong=True),
        right=lambda: _riccati(wrong=False),
        witness=lambda: CASE.squares(TIME)[1],
        slack=1e-9,
        because=SOLVER,
        note="Both forms are solved from h(0); the witness is the flow of v and w (9).",
    ),
    Erratum(
        "constant-product",
        "C = ½ψ²(η·H⁰η)(ρ·H⁰ρ) = gh/2 at the start (f at t = 0.2 of Theorem 3.1 with that C).",
        Quote(
            r"C_s = (\boldsymbol{\eta}_s^0 \cdot \mathbf{H}_s^0 \boldsymbol{\eta}_s^0)"
            r"(\boldsymbol{\rho}_s^0 \cdot \mathbf{H}_s^0 \boldsymbol{\rho}_s^0)_{t=0}",
            "Eq. (40), first form; (38) has gh = 2C",
        ),
        printed=lambda: CASE.theorem(TIME, c=first_constant()),
        right=lambda: CASE.theorem(TIME, c=CASE.g * CASE.h / 2.0),
        witness=lambda: CASE.prediction(TIME),
        slack=1e-9,
        because=SOLVER,
        note="C is 0.1102 as quoted and 0.4961 as gh/2; gh itself would give f = 0.5653. The "
        "witness is the flow of v and w (9).",
    ),
    Erratum(
        "constant-square",
        "C = ½[(‖v‖² + ‖w‖²)² − 4(v·Hw)²] at the start, norms and product in ψH⁰ (f at t = 0.2 of "
        "Theorem 3.1 with that C).",
        Quote(
            r"(\|\mathbf{v}_s^0(0)\|_{\mathbf{H}_s}^2 + \|\mathbf{w}_s^0(0)\|_{\mathbf{H}_s}^2)^2 "
            r"- 4\mathbf{v}_s^0(0) \cdot \mathbf{H}_s \mathbf{w}_s^0(0)",
            "Eq. (40), second form; C = 0 for v = ±w, as the next sentence has it, needs a square",
        ),
        printed=lambda: CASE.theorem(TIME, c=second_constant()),
        right=lambda: CASE.theorem(TIME, c=CASE.constant),
        witness=lambda: CASE.prediction(TIME),
        slack=1e-9,
        because=SOLVER,
        note="As quoted with H at order zero, ψH⁰, C is 0.2913; with the H of (7) it is 1.2296, "
        "and at v = w = 0.2u −0.609. The witness is the flow of v and w (9).",
    ),
    Erratum(
        "h-from-q",
        "h = −2q/a, with q = −θ̇/θ (h at t = 0.2).",
        Quote(
            r"h &= -\frac{qa}{2} = 2\frac{\dot{\theta}}{a\theta}",
            "Eq. (48), first equality of its second line in the text we have; the rest of the line "
            "is right",
            "slip",
        ),
        printed=lambda: -_q(TIME) * CASE.rate / 2.0,
        right=lambda: -2.0 * _q(TIME) / CASE.rate,
        witness=lambda: CASE.squares(TIME)[1],
        slack=1e-9,
        because=SOLVER,
    ),
    Erratum(
        "conserved-product",
        "The product of (50) is −a²C/2 (at t = 0.2).",
        Quote(
            r"\frac{\sigma_+ Ae^{\sigma_+ t} + B\sigma_- e^{\sigma_- t}}{Ae^{\sigma_+ t} + "
            r"Be^{\sigma_- t}} \frac{\sigma_- Ee^{-\sigma_- t} + \sigma_+ Fe^{-\sigma_+ t}}"
            r"{Ee^{-\sigma_- t} + Fe^{-\sigma_+ t}} = 2C",
            "Eq. (50); (51) follows from −a²C/2 and is right",
            "slip",
        ),
        printed=lambda: 2.0 * CASE.constant,
        right=lambda: -(CASE.rate**2) * CASE.constant / 2.0,
        witness=lambda: _fractions(TIME),
        slack=1e-12,
        because=ALGEBRA,
        note="The witness is the left side, γ̇/γ times −θ̇/θ, with σ± and A, B, E, F as they follow "
        "from Theorem 3.1, whose C is judged above. From the flow of v and w the fractions are the "
        "same.",
    ),
    Erratum(
        "bracket",
        "2(f(0) − Λ)(λ − 2Λ) is the denominator of P (f(0) of Theorem 3.1 with that P).",
        Quote(
            r"P = \frac{4f(0)\Lambda + 2C + \sqrt{4\Lambda^2 + 2C}\sqrt{4f(0)^2 + 2C}}"
            r"{2(f(0) - \Lambda)(\sqrt{4\Lambda^2 + 2C}) - 2\Lambda}",
            "Eq. (56) in the text we have; Theorem 3.1 and (57) have the bracket",
            "slip",
        ),
        printed=lambda: CASE.theorem(0.0, p=printed_first_root()),
        right=lambda: CASE.theorem(0.0),
        witness=lambda: CASE.prediction(0.0),
        slack=1e-12,
        because=ALGEBRA,
        note="The witness is v(0)·Hw(0).",
    ),
    Erratum(
        "balanced-exponent",
        "From v = w the exponent is −2aΛt (f at t = 0.2 from v = w = 0.2u).",
        Quote(
            r"\frac{\Lambda_s}{1 + \frac{\Lambda_s - f_s^0(0)}{f_s^0(0)} \exp(-2a_s \lambda_s t)}",
            "Eq. (58) in the text we have, with λ = 2Λ above it; (14) has Λ",
            "slip",
        ),
        printed=lambda: BALANCED.balanced(TIME, exponent=-4.0 * BALANCED.strength),
        right=lambda: BALANCED.balanced(TIME, exponent=-2.0 * BALANCED.strength),
        witness=lambda: BALANCED.prediction(TIME),
        slack=1e-9,
        because=SOLVER,
    ),
    Erratum(
        "query",
        "vᵀΦΦᵀw has v_s w_s besides, which the query adds (vᵀΦΦᵀw of v = (0.3, 0.2), "
        "w = (0.4, 0.1)).",
        Quote(
            r"\mathbf{v}_s^T \Phi \Phi^T \mathbf{w}_s = \psi_s(v_{s;s} w_{s;s} + "
            r"\Lambda_s(v_{s;\mathcal{N}_s+1} w_{s;s} + w_{s;\mathcal{N}_s+1} v_{s;s}) + "
            r"\Lambda_s^2 v_{s;\mathcal{N}_s+1} w_{s;\mathcal{N}_s+1}).",
            "App. A, last display: order zero, not marked as such; (7) has ψ + 1",
            "slip",
        ),
        printed=lambda: _output(*ENTRIES, query=0.0),
        right=lambda: _output(*ENTRIES, query=1.0),
        witness=lambda: _of_tokens(*ENTRIES),
        slack=1e-12,
        because=ALGEBRA,
        note="The witness is made of tokens with random signs.",
    ),
    Erratum(
        "context-factor",
        "g = ψ(η_s + Λη_{S+1})² (g at t = 0.2).",
        Quote(
            r"g^0 = (\eta_s^0 + \Lambda\eta_{\mathcal{N}_s+1}^0)^2",
            "Eq. (121); (28) and (138) have the factor",
            "slip",
        ),
        printed=lambda: _along(TIME) ** 2,
        right=lambda: CASE.context * _along(TIME) ** 2,
        witness=lambda: 2.0 * CASE.log_slopes(TIME)[0] / CASE.rate,
        slack=1e-9,
        because=SOLVER,
        note="η by an ODE solve; the witness is the g of E.2 (48), of which (121) speaks.",
    ),
    Erratum(
        "letter-case",
        "The factor in the last line is √(2C), with the sign of (η·u)(ρ·u) "
        "(for η = (0.7, 0.2), ρ = (0.4, −0.1)).",
        Quote(
            r"\sqrt{2\bar{C}}(\bar{C}\rho_{\mathcal{N}_s+1}^0 - \tilde{C}\eta_{\mathcal{N}_s+1}^0)",
            "Eq. (127), last line in the text we have; the line before it has √(gh), and the "
            "bracket is then set to 0",
            "slip",
        ),
        printed=lambda: _crossed(math.sqrt(2.0 * _conserved(ETA))),
        right=lambda: _crossed(math.sqrt(CASE.square(ETA) * CASE.square(RHO))),
        witness=_left_of_127,
        slack=1e-12,
        because=ALGEBRA,
        note="The witness is the left side. Here (η·u)(ρ·u) > 0.",
    ),
    Erratum(
        "first-order",
        "f¹ = [r + 2(m − n)]/4 (f¹ at t = 0.2).",
        Quote(
            r"\epsilon \left[ r + 2 \left( \frac{\int u(\tau)\vartheta(\tau)d\tau + \text{const.}}"
            r"{u} - \frac{\int z(\tau)\varphi(\tau)d\tau + \text{const.}}{z} \right) \right]",
            "Eq. (137); Sec. 3.2 divides by 4",
        ),
        printed=lambda: CASE.bracket(TIME),
        right=lambda: CASE.bracket(TIME) / 4.0,
        witness=lambda: CASE.first_order(TIME),
        slack=1e-9,
        because=SOLVER,
        note="Both with the right m and n; the witness is ∂f/∂ε by an ODE solve.",
    ),
    Erratum(
        "first-order-sign",
        "The e^{−2ξt} term of ∫zφ dt has the sign + (its derivative at t = 0.2, with F = 1).",
        Quote(
            r"\frac{E^2 e^{2\xi t} \Lambda}{(\Lambda^2 + 1)^2} \left(1 - \frac{\Lambda a}{\xi} "
            r"\right) - \frac{F^2 e^{-2\xi t} \Lambda}{(\Lambda^2 + 1)^2} \left(1 + "
            r"\frac{\Lambda a}{\xi} \right) + \frac{4aEFt}{(\Lambda^2 + 1)^2} (\Lambda^2 + C)",
            "Eq. (149), second form, and likewise (151); the first form of (149) gives +",
        ),
        printed=lambda: CASE.slope_of_i_z(TIME, sign=-1.0),
        right=lambda: CASE.slope_of_i_z(TIME),
        witness=lambda: _forced(TIME),
        slack=1e-9,
        because=SOLVER,
        note="The witness is zφ by (135), with h, r and ρ from an ODE solve. With that sign alone "
        "f¹(0.2) is 0.03950 in place of 0.03973.",
    ),
    Erratum(
        "first-order-constants",
        "m = [I_u(t) − I_u(0)]/u, likewise n, from v(0) and w(0) that do not depend on ε "
        "(m at t = 0.2).",
        Quote(
            r"m = \frac{\int u\vartheta dt}{u} = \frac{-Q^2 e^{2\xi t} \Lambda \left(1 + "
            r"\frac{\Lambda a}{\xi} \right) + e^{-2\xi t} \Lambda \left(-1 + \frac{\Lambda a}{\xi} "
            r"\right) + 4aQt (\Lambda^2 + C)}{(\Lambda^2 + 1)^2 (Qe^{\xi t} + e^{-\xi t})^2}",
            "Eq. (150), and likewise (151); (134), (136) and (137) have a constant",
        ),
        printed=lambda: CASE.m_and_n(TIME, constant=0.0)[0],
        right=lambda: CASE.m_and_n(TIME)[0],
        witness=lambda: _m_of_sensitivity(TIME),
        slack=1e-9,
        because=SOLVER,
        note="Without constants they solve their equations from another start, which depends on "
        "ε: f¹(0) is −0.0487 in place of ψv_1w_1 = 0.495. For t → ∞ the two agree. The witness is "
        "ψη¹·H⁰η⁰ by an ODE solve.",
    ),
)
