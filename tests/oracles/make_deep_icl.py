"""Make tests/oracles/deep_icl.json: 50-digit values of the deep_icl lab's closed forms.

    optimum     isotropic, no noise: 1 - p sum_{k<L} Cat_k y^k, p = alpha/(1+alpha), y = p/(1+alpha)
    loss        isotropic, any gamma and noise: moments of the Marchenko-Pastur law, term by term
    curve       fixed structure: gradient flow of every direction in closed form
    rotated     rotated structure, endless contexts: the root of the slope, and the loss there
    floor       what width and context leave

Nothing is imported from the project. Inputs are IEEE doubles, taken exactly. Every number is
computed at W and at 2W digits, and W doubled until 52 digits agree.

    python tests/oracles/make_deep_icl.py            # writes the table (a minute)
    python tests/oracles/make_deep_icl.py --check    # compares with quadrature and an ODE
"""

import argparse
import json
from pathlib import Path

from digits import DIGITS, agreed, written
from mpmath import mp, mpf

TABLE = Path(__file__).with_name("deep_icl.json")
SMALLEST = mpf(10) ** -200

ALPHAS = [1e-6, 1e-3, 0.1, 0.5, 0.9, 0.99, 0.999999, 1.0, 1.000001, 1.001, 1.01, 1.1, 1.5, 2.0]
ALPHAS += [4.0, 8.0, 30.0, 1e3, 1e6]
DEPTHS = [1, 2, 3, 5, 8, 16, 32, 64, 128, 300, 1000]
LOSSES = [
    (alpha, depth, part, noise)
    for alpha in (0.05, 0.5, 0.999, 1.0, 1.001, 2.0, 20.0)
    for depth in (1, 2, 5, 16, 64)
    for part in (0.01, 0.7, 1.6, 2.2)
    for noise in (0.0, 0.5)
]
SPECTRA = [(1.25, 1.25), (1.5, 0.8), (2.0, 0.5), (1.25, 1.75)]


def optimum(alpha: float, depth: int) -> mpf:
    """The Catalan law, as it stands."""
    a = mpf(alpha)
    y, term, total = a / (1 + a) ** 2, mpf(1), mpf(0)
    for k in range(depth):
        total += term
        term *= 2 * (2 * k + 1) * y / (k + 2)
    return 1 - a / (1 + a) * total


def moments(alpha: mpf, count: int) -> list[mpf]:
    """E λ^k of Marchenko and Pastur's law, k < count: sums of Narayana numbers."""
    found = [mpf(1)]
    for k in range(1, count):
        term, total = mpf(1), mpf(0)
        for r in range(k):
            total += term
            # C(k, r) C(k-1, r)/(r+1) alpha^-r, from r to r + 1
            term = term * (k - r) * (k - 1 - r) / ((r + 1) * (r + 2) * alpha)
        found.append(total)
    return found


def powers(step: mpf, count: int) -> list[mpf]:
    """Coefficients of (1 − step λ)^count."""
    return [mp.binomial(count, k) * (-step) ** k for k in range(count + 1)]


def loss(alpha: float, depth: int, gamma: float, noise: float) -> mpf:
    """Bias and noise, both polynomials in λ."""
    a, step = mpf(alpha), mpf(gamma) / depth
    m = moments(a, 2 * depth + 1)
    bias = sum(c * x for c, x in zip(powers(step, 2 * depth), m, strict=True))
    # (1 − (1 − x)^L)²/λ = (1 − 2(1 − x)^L + (1 − x)^2L)/λ, whose constant and 1/λ terms vanish.
    once, twice = powers(step, depth), powers(step, 2 * depth)
    rest = sum(
        (twice[k] - 2 * (once[k] if k <= depth else 0)) * m[k - 1] for k in range(2, 2 * depth + 1)
    )
    rest += (twice[1] - 2 * once[1]) * 1
    return bias + mpf(noise) ** 2 / a * rest


def spectrum(nu: float, beta: float, dim: int) -> tuple[list[mpf], list[mpf]]:
    """λ_k and a_k."""
    lam = [mpf(k) ** -mpf(nu) for k in range(1, dim + 1)]
    share = [mpf(k) ** -(mpf(nu) * mpf(beta) + 1) for k in range(1, dim + 1)]
    total = sum(share)
    return lam, [a / total for a in share]


def curve(nu: float, beta: float, dim: int, depth: int | str, t: float) -> mpf:
    """The loss of a fixed structure at time t."""
    lam, share = spectrum(nu, beta, dim)
    total = mpf(0)
    for x, a in zip(lam, share, strict=True):
        rate = 4 * a * x**2 * mpf(t)
        if depth == 1:
            total += a * mp.exp(-rate)
        else:
            rest = 1 - 1 / mpf(depth)
            total += a * (1 + rest * rate) ** (-1 / rest)
    return total


def rotated(nu: float, beta: float, dim: int, depth: int) -> tuple[mpf, mpf]:
    """γ* and the loss there: the convex loss's slope by bisection and Newton's method."""
    lam, share = spectrum(nu, beta, dim)
    pairs = list(zip(lam, share, strict=True))

    def slope(c: mpf) -> mpf:
        return sum(a * x * (1 - c * x) ** (2 * depth - 1) for x, a in pairs)

    def change(c: mpf) -> mpf:
        return -sum(a * x**2 * (2 * depth - 1) * (1 - c * x) ** (2 * depth - 2) for x, a in pairs)

    low, high = mpf(0), mpf(3)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    c = (low + high) / 2
    for _ in range(12):
        c -= slope(c) / change(c)
    return c * depth, sum(a * (1 - c * x) ** (2 * depth) for x, a in pairs)


def floors(nu: float, beta: float, dim: int, count: int) -> tuple[mpf, mpf]:
    """What a width, and what a context of `count` leave."""
    lam, share = spectrum(nu, beta, dim)

    def surplus(y: mpf) -> mpf:
        return sum(x / (x + mp.exp(y)) for x in lam) - count

    low, high = mp.log(lam[-1]) - 60, mp.log(sum(lam) / count)
    for _ in range(int(mp.prec) + 20):
        middle = (low + high) / 2
        low, high = (middle, high) if surplus(middle) > 0 else (low, middle)
    z = mp.exp((low + high) / 2)
    width = sum(a * z / (x + z) for x, a in zip(lam, share, strict=True))
    left = sum(a * (z / (x + z)) ** 2 for x, a in zip(lam, share, strict=True))
    return width, left / (1 - sum((x / (x + z)) ** 2 for x in lam) / count)


def edge_of(alpha: float) -> float:
    """The upper edge of the spectrum."""
    return (1.0 + alpha**-0.5) ** 2


def table() -> dict:
    """All points."""
    optima = []
    for alpha in ALPHAS:
        for depth in DEPTHS:
            with mp.workdps(700):
                seen = optimum(alpha, depth) > SMALLEST
            if seen:
                ((value,),) = agreed(lambda a=alpha, d=depth: [(optimum(a, d),)])
                optima.append({"alpha": alpha, "depth": depth, "loss": written(value)})
    losses = []
    for alpha, depth, part, noise in LOSSES:
        gamma = part * depth / edge_of(alpha)
        ((value,),) = agreed(lambda p=(alpha, depth, gamma, noise): [(loss(*p),)])
        point = {"alpha": alpha, "depth": depth, "gamma": gamma, "noise": noise}
        losses.append(point | {"loss": written(value)})
    curves = []
    for nu, beta in SPECTRA:
        for depth in (1, 2, 8, "inf"):
            for t in (0.0, 1e-3, 1.0, 1e3, 1e8):
                ((value,),) = agreed(lambda p=(nu, beta, 32, depth, t): [(curve(*p),)])
                point = {"nu": nu, "beta": beta, "dim": 32, "depth": depth, "t": t}
                curves.append(point | {"loss": written(value)})
    rotations = []
    for nu, beta in SPECTRA:
        for depth in (1, 2, 4, 16, 64):
            ((gamma, value),) = agreed(lambda p=(nu, beta, 32, depth): [rotated(*p)])
            point = {"nu": nu, "beta": beta, "dim": 32, "depth": depth}
            rotations.append(point | {"gamma": written(gamma), "loss": written(value)})
    left = []
    for nu, beta in SPECTRA:
        for count in (1, 4, 16, 31):
            ((width, context),) = agreed(lambda p=(nu, beta, 32, count): [floors(*p)])
            point = {"nu": nu, "beta": beta, "dim": 32, "count": count}
            left.append(point | {"width": written(width), "context": written(context)})
    return {
        "digits": DIGITS,
        "optimum": optima,
        "loss": losses,
        "curve": curves,
        "rotated": rotations,
        "floor": left,
    }


def check() -> None:
    """Compare with quadrature over the density, and with an ODE: other roads to the numbers."""
    stored = json.loads(TABLE.read_text())
    worst = mpf(0)
    with mp.workdps(40):
        for point in stored["loss"][::9]:
            alpha, depth = mpf(point["alpha"]), point["depth"]
            step, sigma = mpf(point["gamma"]) / depth, mpf(point["noise"])
            low, high = (1 - alpha**-0.5) ** 2, (1 + alpha**-0.5) ** 2

            def integrand(y, p=(alpha, depth, step, sigma, low, high)):
                alpha, depth, step, sigma, low, high = p
                x = (low + high) / 2 + (high - low) / 2 * mp.cos(y)
                if x <= 0:  # α = 1, at y = π to within rounding
                    return mpf(0)
                rho = alpha * ((high - low) / 2 * mp.sin(y)) ** 2 / (2 * mp.pi * x)
                left = (1 - step * x) ** depth
                return rho * (left**2 + sigma**2 / (alpha * x) * (1 - left) ** 2)

            # Towards y = π the density of α near 1 is steep.
            ends = [0, *(mp.pi * (1 - mpf(2) ** -k) for k in range(1, 24)), mp.pi]
            found = max(1 - alpha, 0) + mp.quad(integrand, ends)
            worst = max(worst, abs(found / mpf(point["loss"]) - 1))
        print(f"loss against quadrature: {mp.nstr(worst, 3)}")
        assert worst < 1e-15
        worst = mpf(0)
        for point in [p for p in stored["curve"] if p["depth"] in (2, 8) and p["t"] == 1.0][:4]:
            lam, share = spectrum(point["nu"], point["beta"], point["dim"])
            depth = point["depth"]
            total = mpf(0)
            for x, a in zip(lam, share, strict=True):
                solution = mp.odefun(
                    lambda t, g, x=x, a=a, d=depth: 2 * a * x * (1 - x * g / d) ** (2 * d - 1), 0, 0
                )
                total += a * (1 - x * solution(1) / depth) ** (2 * depth)
            worst = max(worst, abs(total / mpf(point["loss"]) - 1))
        print(f"curve against an ODE: {mp.nstr(worst, 3)}")
        assert worst < 1e-20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with quadrature and an ODE")
    if parser.parse_args().check:
        check()
    else:
        TABLE.write_text(json.dumps(table(), indent=1) + "\n")


if __name__ == "__main__":
    main()
