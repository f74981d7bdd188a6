"""Make tests/oracles/deep_icl_untied.json: the least loss of L layers with a weight each.

The loss of p(x) = prod (1 - gamma_l x/L), least over all p with p(0) = 1, is 1/sum_{k<=L} q_k(0)^2
with the orthonormal polynomials q_k of the weights a_j at x_j = j^-nu, a_j ~ j^-(nu beta + 1). Here
the q_k come from the Jacobi matrix, built place by place with plane rotations (Gragg and Harwood's
form of Lanczos, which needs no orthogonalisation; plain Lanczos steps lose four digits a layer).
Digits are doubled until 20 of the loss no longer change. All directions are summed one by one.

Nothing is imported from the project. Inputs are IEEE doubles, taken exactly.

    python tests/oracles/make_deep_icl_untied.py            # writes the table (six minutes)
    python tests/oracles/make_deep_icl_untied.py --check    # compares with normal equations
"""

import argparse
import json
import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from pathlib import Path

from mpmath import mp, mpf

TABLE = Path(__file__).with_name("deep_icl_untied.json")
DIGITS = 20
SMALLEST = 1e-40
DEPTHS = sorted([2**j for j in range(10)] + [48, 54])  # of 64 directions 54 layers leave 7e-40
# nu, beta, D.
SPECTRA = [(1.25, 1.0, 2000), (1.5, 0.8, 64), (1.25, 0.8, 10**4), (1.5, 0.5, 10**5)]


def powers(count: int, exponent: mpf) -> list[mpf]:
    """k^-exponent for k = 1 … count, from those of the primes."""
    least = list(range(count + 1))
    for p in range(2, math.isqrt(count) + 1):
        if least[p] == p:
            for k in range(p * p, count + 1, p):
                least[k] = min(least[k], p)
    found = [mpf(0), mpf(1)]
    for k in range(2, count + 1):
        p = least[k]
        found.append(mpf(p) ** -exponent if p == k else found[p] * found[k // p])
    return found[1:]


def spectrum(nu: float, beta: float, dim: int) -> tuple[list[mpf], list[mpf]]:
    """Places x and weights a, with sum a = 1."""
    share = powers(dim, mpf(nu) * mpf(beta) + 1)
    total = mp.fsum(share)
    return powers(dim, mpf(nu)), [a / total for a in share]


def losses(nu: float, beta: float, dim: int, depths: list[int]) -> list[mpf]:
    """The least loss at some depths, by Gragg and Harwood's algorithm at the working precision.

    Places are added one by one to the Jacobi matrix (diagonal p, squares of its side s, s_0 the sum
    of weights), of which only the first entries are kept: they never depend on later ones.
    """
    with localcontext(prec=mp.dps, Emin=MIN_EMIN, Emax=MAX_EMAX):
        lam, share = (
            [Decimal(mp.nstr(v, mp.dps + 3)) for v in row] for row in spectrum(nu, beta, dim)
        )
        count, zero, one = depths[-1] + 1, Decimal(0), Decimal(1)
        p, s = [lam[0]] + [zero] * (count - 1), [share[0]] + [zero] * (count - 1)
        for n in range(1, len(lam)):
            x, rest = lam[n], share[n]
            if n < count:
                p[n] = x
            cosine, sine, t = one, zero, zero
            for k in range(min(n + 1, count)):
                both = s[k] + rest
                new, last = cosine * both, sine
                cosine, sine = s[k] / both, rest / both
                old, t = t, sine * (p[k] - x) - cosine * t
                p[k] -= t - old
                rest = t * t / sine if sine > 0 else last * s[k]
                s[k] = new
        # q_k(0)² = Π d_j²/s_{j+1} with the pivots d of the Jacobi matrix.
        pivot, value, total, found = p[0], one, one, [one]
        for k in range(1, count):
            value *= pivot * pivot / s[k]
            pivot = p[k] - s[k] / pivot
            total += value
            found.append(one / total)
        return [mpf(str(found[d])) for d in depths]


def agreed(nu: float, beta: float, dim: int) -> list[tuple[int, mpf]]:
    """Losses at the depths, down to 1e-40, at the first W where W and 2W digits agree."""
    depths, digits = [d for d in DEPTHS if d < dim], 25
    with mp.workdps(digits):
        rows = losses(nu, beta, dim, depths)
    while digits < 700:
        depths = [d for d, value in zip(depths, rows, strict=True) if value > SMALLEST]
        with mp.workdps(2 * digits):
            better = losses(nu, beta, dim, depths)
        seen = list(zip(rows, better, strict=False))
        if all(mp.nstr(x, DIGITS) == mp.nstr(y, DIGITS) for x, y in seen):
            return list(zip(depths, better, strict=True))
        digits, rows = 2 * digits, better
    raise ArithmeticError("no precision was enough")


def table() -> dict:
    """All points."""
    points = []
    for nu, beta, dim in SPECTRA:
        for depth, value in agreed(nu, beta, dim):
            point = {"nu": nu, "beta": beta, "dim": dim, "depth": depth}
            points.append(point | {"loss": mp.nstr(value, DIGITS)})
        print(points[-1], flush=True)
    return {"digits": DIGITS, "untied": points}


def check() -> None:
    """Compare with the normal equations in moments, all directions one by one: another road."""
    worst = mpf(0)
    for point in json.loads(TABLE.read_text())["untied"]:
        depth = point["depth"]
        if depth > 8 or point["dim"] > 10**4:
            continue
        with mp.workdps(120):
            lam = powers(point["dim"], mpf(point["nu"]))
            share = powers(point["dim"], mpf(point["nu"]) * mpf(point["beta"]) + 1)
            moments, terms = [], share
            for _ in range(2 * depth + 1):
                moments.append(mp.fsum(terms))
                terms = [a * x for a, x in zip(terms, lam, strict=True)]
            matrix = mp.matrix(depth, depth)
            for i in range(depth):
                for j in range(depth):
                    matrix[i, j] = moments[i + j + 2]
            right = mp.matrix([moments[i + 1] for i in range(depth)])
            gain = (right.T * mp.lu_solve(matrix, right))[0]
            found = 1 - gain / moments[0]
            worst = max(worst, abs(found / mpf(point["loss"]) - 1))
    print(f"Lanczos against moments: {mp.nstr(worst, 3)}")
    assert worst < 1e-18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with moments")
    if parser.parse_args().check:
        check()
    else:
        TABLE.write_text(json.dumps(table(), indent=1) + "\n")


if __name__ == "__main__":
    main()
