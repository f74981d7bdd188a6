"""Make tests/oracles/shallow_icl.json: 50-digit values of the shallow_icl lab's closed forms.

    growth    v(t) of one head, vdot = l^2 v^2 - l^3 g v^5 from v(0) = start, and the time at which
              v is a fraction of its limit; through -1/x + (x^2/2) 2F1(2/3, 1; 5/3; x^3)
    white     sigma(t) of sigmadot = 2 sqrt(D) sigma (l^2 - l^3 g sigma), and the loss, through the
              odds sigma / (1/(l g) - sigma), which grow exponentially
    plateaus  tr - sum_{d <= m} l_d/g_d, and the limits w = 1/(l g)
    heads     T = int ds / |v(s)| of one small head, by quadrature in s from the start, or from the
              turning point where v = 0

with l an eigenvalue, g = 1 + (1 + tr/l)/N. Nothing is imported from the project. Inputs are IEEE
doubles, taken exactly. Every number is computed at W and at 2W digits, and W doubled until 52
digits agree.

    python tests/oracles/make_shallow_icl.py            # writes the table
    python tests/oracles/make_shallow_icl.py --check    # compares with Taylor series of the flows
"""

import argparse
import json
import math
import random
from pathlib import Path

from digits import DIGITS, agreed, written
from mpmath import mp, mpf

TABLE = Path(__file__).with_name("shallow_icl.json")

SPECTRA = {
    "linear": [0.4, 0.3, 0.2, 0.1],
    "wide": [3.0, 0.7, 0.05, 1e-3, 1e-5],
    "one": [0.25],
}


def limits(spectrum: list[float], context: int | None) -> list[tuple[mpf, mpf]]:
    """`l` and `w = 1/(l g)` of every direction."""
    eigenvalues = [mpf(x) for x in spectrum]
    trace = mp.fsum(eigenvalues)
    inverse = mpf(0) if context is None else mpf(1) / context
    return [(lam, 1 / (lam * (1 + (1 + trace / lam) * inverse))) for lam in eigenvalues]


# ---------------------------------------------------------------- growth


def clock(x: mpf) -> mpf:
    """`int dx / (x^2 (1 - x^3))`, which is -1/x at x -> 0."""
    return -1 / x + x**2 / 2 * mp.hyp2f1(mpf(2) / 3, 1, mpf(5) / 3, x**3)


def inverse_clock(target: mpf, guess: float) -> mpf:
    """The x in (0, 1) with `clock(x) = target`: Newton in `ln(x/(1-x))`, from the left."""
    p = mp.log(mpf(guess) / (1 - mpf(guess)))
    for _ in range(400):
        x = 1 / (1 + mp.exp(-p))
        step = (target - clock(x)) * x * (1 + x + x**2)
        p += step
        if abs(step) * (1 - x) < mp.eps * 1000:
            return 1 / (1 + mp.exp(-p))
    raise ArithmeticError("Newton's method did not end")


def growth_points() -> list[dict]:
    rows = []
    for name, context, direction, start in (
        ("linear", 31, 0, 0.01),
        ("linear", 31, 3, 1e-3),
        ("linear", None, 1, 0.5),
        ("wide", 7, 2, 1e-3),
        ("one", 1, 0, 1e-2),
        ("wide", 1000, 4, 4.0),
    ):
        spectrum = SPECTRA[name]
        lam, limit = (float(x) for x in limits(spectrum, context)[direction])
        blow = 1 / (lam**2 * start)
        after = 1 / (lam**2 * limit ** (1 / 3))
        # From before anything moves to long after, and closely around the blow-up.
        times = [0.0, *(blow * 10.0 ** (-8 + k / 2) for k in range(17))]
        times += [blow * x for x in (0.9, 0.97, 0.99, 0.999, 1.001, 1.01, 1.1, 1.5, 2.0)]
        times += [blow + after * x for x in (-1.5, -1.25, -0.5, 0.0, 0.5, 1.0, 3.0, 8.0, 30.0, 1e3)]
        times = sorted(t for t in times if t >= 0.0)
        fractions = [10.0**-k for k in (6, 3, 2, 1)]
        fractions += [0.3, 0.5, 0.664104524, 0.9, 0.99, 1 - 1e-6, 1 - 1e-10, 1 - 2**-50]

        def compute(
            spectrum=spectrum,
            context=context,
            direction=direction,
            times=times,
            start=start,
            fractions=fractions,
        ):
            lam, limit = limits(spectrum, context)[direction]
            full = mp.cbrt(limit)
            first, pace = mpf(start) / full, lam**2 * full
            begin = clock(first)
            found = []
            for t in times:
                target = pace * mpf(t) + begin
                guess = (
                    1 / (1.5 - float(target))
                    if target < 0
                    else -math.expm1(-3 * min(float(target) + 1, 10))
                )
                x = (
                    first
                    if t == 0
                    else (mpf(1) if target > 0.7 * mp.dps else inverse_clock(target, guess))
                )
                found.append((full * x, full))
            waits = [((clock(mpf(x)) - begin) / pace, full) for x in fractions]
            return found + waits

        law = {"spectrum": spectrum, "context": context, "direction": direction, "start": start}
        values = agreed(compute)
        for t, (v, full) in zip(times, values[: len(times)], strict=True):
            rows.append({**law, "t": t, "v": written(v), "full": written(full)})
        for x, (t, full) in zip(fractions, values[len(times) :], strict=True):
            rows.append({**law, "fraction": x, "time": written(t), "full": written(full)})
    return rows


# ---------------------------------------------------------------- white tokens


def white_points() -> list[dict]:
    rows = []
    for dim, lam, context, u0 in (
        (4, 0.25, 31, 1e-6),
        (1, 1.0, None, 1e-12),
        (8, 0.125, 5, 0.3),
        (3, 2.0, 100, 4.0),
        (4, 0.25, 10**12, 1e-10),
        (16, 1.0, 64, 1e-30),
    ):
        scale = 1 / (2 * lam**2 * math.sqrt(dim))
        middle = scale * max(1.0, math.log(math.sqrt(dim) / (lam * u0)))
        times = [0.0, *(middle * 10.0 ** (k / 4) for k in range(-24, 5)), 60.0 * middle]
        times += [middle + scale * x for x in (-3.0, -1.0, -0.3, 0.3, 1.0, 3.0)]
        times = sorted(t for t in times if t >= 0.0)

        def compute(dim=dim, lam=lam, context=context, u0=u0, times=times):
            exact, limit = limits([lam] * dim, context)[0]
            first = mpf(u0) / mp.sqrt(dim)
            odds = first / (limit - first)
            found = []
            for t in times:
                now = odds * mp.exp(2 * exact**2 * mp.sqrt(dim) * mpf(t))
                sigma = limit * now / (1 + now)
                # D l (1 - l w + (l/w) (sigma - w)^2), and 1 - l w = 1 - 1/g
                excess = 1 - exact * limit + exact / limit * (sigma - limit) ** 2
                found.append((sigma, dim * exact * excess, limit))
            return found

        law = {"dim": dim, "eigenvalue": lam, "context": context, "u0": u0}
        for t, (sigma, loss, limit) in zip(times, agreed(compute), strict=True):
            rows.append(
                {
                    **law,
                    "t": t,
                    "sigma": written(sigma),
                    "loss": written(loss),
                    "limit": written(limit),
                }
            )
    return rows


# ---------------------------------------------------------------- plateaus


def plateau_points() -> list[dict]:
    rows = []
    for name, spectrum in {**SPECTRA, "eight": [k / 64 for k in range(8, 0, -1)]}.items():
        for context in (1, 31, 10**6, 10**15, None):

            def compute(spectrum=spectrum, context=context):
                found = limits(spectrum, context)
                # What is left: sum_{d > m} l_d + sum_{d <= m} (l_d - l_d/g_d)
                inverse = mpf(0) if context is None else mpf(1) / context
                trace = mp.fsum(lam for lam, _ in found)
                losses = [
                    (
                        mp.fsum(lam for lam, _ in found[m:])
                        + mp.fsum(lam**2 * w * (1 + trace / lam) * inverse for lam, w in found[:m]),
                    )
                    for m in range(len(found) + 1)
                ]
                return losses + [(w,) for _, w in found]

            numbers = [written(x) for (x,) in agreed(compute)]
            count = len(spectrum)
            rows.append(
                {
                    "case": name,
                    "spectrum": spectrum,
                    "context": context,
                    "losses": numbers[: count + 1],
                    "best": numbers[count + 1 :],
                }
            )
    return rows


# ---------------------------------------------------------------- heads


def head_time(v: float, k: list[float], q: list[float], c: list[float]) -> mpf:
    """The blow-up time: Gauss-Legendre in pieces, then tanh-sinh in the last exponential."""
    rates = [mpf(x) for x in c]
    plus = [(mpf(x) + mpf(y)) ** 2 / 4 for x, y in zip(k, q, strict=True)]
    minus = [(mpf(x) - mpf(y)) ** 2 / 4 for x, y in zip(k, q, strict=True)]
    v = mpf(v)
    if v < 0:
        v, plus, minus = -v, minus, plus

    def terms(s):
        return [
            (r, a * mp.exp(2 * r * s), b * mp.exp(-2 * r * s))
            for a, b, r in zip(plus, minus, rates, strict=True)
        ]

    def slope(s):
        return mp.fsum(2 * r * (a - b) for r, a, b in terms(s))

    def change(offset, about):
        """The square of v at about + offset, less that at about."""
        return mp.fsum(
            a * mp.expm1(2 * r * offset) + b * mp.expm1(-2 * r * offset) for r, a, b in about
        )

    def bisect(function, low, high):
        for _ in range(int(3.4 * mp.dps) + 60):
            middle = (low + high) / 2
            low, high = (middle, high) if function(middle) < 0 else (low, middle)
        return (low + high) / 2

    # Rising from the start, it is the mirror's way out, from after a turn that lies in the past.
    rising = slope(0) > 0
    if rising:
        plus, minus = minus, plus
    unit = 1 / max(rates)
    low, high = -unit, unit
    while slope(low) > 0:
        low *= 2
    while slope(high) < 0 and any(plus):
        high *= 2
    lowest = bisect(slope, low, high) if any(plus) else 1000 * unit

    def out(start, about, there, sign):
        """The way from a point to the blow-up."""
        total, at = mpf(0), start
        grows = plus if sign > 0 else minus
        while True:
            now = terms(about + at)
            leading = (now[0][1] if sign > 0 else now[0][2]) if grows[0] else 0
            rest = v**2 + mp.fsum(plus) + mp.fsum(minus) + mp.fsum(a + b for _, a, b in now)
            if leading > 100 * (rest - leading):
                break
            following = at + sign * unit / 2
            total += sign * mp.quad(
                lambda s: 1 / mp.sqrt(there + change(s, here)),
                [at, following],
                method="gauss-legendre",
            )
            at = following

        def last(z):
            """In z = e^{-c |s - at|}, which is 0 at the end."""
            s = at - sign * mp.log(z) / rates[0]
            return 1 / (rates[0] * z * mp.sqrt(there + change(s, here)))

        return total + mp.quad(last, [0, 1])

    start = terms(mpf(0))
    if v**2 + change(lowest, start) >= 0:
        here = start
        return out(mpf(0), mpf(0), v**2, -1 if rising else 1)
    turn = bisect(lambda s: -(v**2 + change(s, start)), mpf(0), lowest) if v else mpf(0)
    here = terms(turn)

    def near(u):
        """In s = turn - u^2, which takes the square root away."""
        return 2 * u / mp.sqrt(change(-(u**2), here))

    edge = mp.sqrt(unit / 2)
    inward = mp.sqrt(turn)
    count = int(mp.ceil(inward / edge))
    way_in = mpf(0)
    if inward > 0:
        places = [inward * j / count for j in range(count + 1)]
        way_in = mp.quad(near, places, method="gauss-legendre")
    way_out = mp.quad(near, [0, edge], method="gauss-legendre")
    way_out += out(-(edge**2), turn, mpf(0), -1)
    return way_out - way_in if rising else way_out + way_in


HEADS = [
    # v, k, q: passing, turning, mirrored, v = 0, balanced k = q, large or small v, a tiny top
    (0.3, [0.5, -0.2, 0.1, 0.4], [0.2, 0.6, -0.3, 0.1]),
    (-0.3, [0.5, -0.2, 0.1, 0.4], [0.2, 0.6, -0.3, 0.1]),
    (0.1, [0.5, 0.6, 0.1, 0.4], [-0.6, -0.4, -0.3, 0.1]),
    (-0.4, [0.5, 0.6, 0.1, 0.4], [-0.6, -0.4, -0.3, 0.1]),
    (-0.1, [0.5, 0.6, 0.1, 0.4], [0.6, 0.4, 0.3, 0.1]),
    (0.0, [0.5, 0.6, 0.1, 0.4], [0.6, 0.4, 0.3, 0.1]),
    (0.0, [0.5, 0.6, 0.1, 0.4], [-0.6, -0.4, -0.3, 0.1]),
    (1e-9, [0.5, 0.6, 0.1, 0.4], [-0.6, -0.4, -0.3, 0.1]),
    (2.0, [1e-3, 2e-3, -1e-3, 1e-3], [-2e-3, 1e-3, 1e-3, 3e-3]),
    (-2.0, [1e-3, 2e-3, -1e-3, 1e-3], [-2e-3, 1e-3, 1e-3, 3e-3]),
    (0.2, [0.3, 0.3, 0.3, 0.3], [0.3, 0.3, 0.3, 0.3]),
    (1.0, [1e-8, 0.5, 0.1, 0.1], [1e-8, -0.5, 0.3, 0.1]),
]


def head_points() -> list[dict]:
    rows = []
    draw = random.Random(1)
    heads = [(v, k, q, [0.16, 0.09, 0.04, 0.01]) for v, k, q in HEADS]
    for dim, spread in ((1, 1.0), (2, 1.0), (3, 4.0), (8, 2.0)):
        for _ in range(5):
            c = [1.0, 1.0]
            while len(c) > 1 and c[1] > 0.8 * c[0]:  # near ties take long
                c = sorted((10.0 ** -draw.uniform(0, spread) for _ in range(dim)), reverse=True)
            k, q = ([draw.gauss(0, 1) for _ in range(dim)] for _ in range(2))
            heads.append((draw.gauss(0, 1), k, q, c))
    for v, k, q, c in heads:
        ((time,),) = agreed(lambda v=v, k=k, q=q, c=c: [(head_time(v, k, q, c),)])
        rows.append({"v": v, "k": k, "q": q, "c": c, "time": written(time)})
        print(f"  head {len(rows)}: T = {mp.nstr(time, 8)}", flush=True)
    return rows


# ---------------------------------------------------------------- the table


def write_table() -> None:
    """Compute every point and write the JSON, one point a line."""
    tables = {
        "growth": growth_points(),
        "white": white_points(),
        "plateaus": plateau_points(),
        "heads": head_points(),
    }
    lines = ["{", f' "digits": {DIGITS},', ' "made_by": "tests/oracles/make_shallow_icl.py",']
    for name, points in tables.items():
        rows = ",\n".join("  " + json.dumps(point) for point in points)
        comma = "" if name == "heads" else ","
        lines += [f' "{name}": [', rows, f" ]{comma}"]
        print(f"{name}: {len(points)} points")
    TABLE.write_text("\n".join([*lines, "}"]) + "\n")


# ---------------------------------------------------------------- --check: Taylor series


def taylor(start: list[mpf], rates, t: mpf, stop=None) -> list[mpf]:
    """The state at t of a polynomial flow, by steps of its Taylor series.

    `rates(series)` gives the next coefficient of every derivative from those before it.
    """
    terms, state, left = int(1.5 * mp.dps), list(start), mpf(t)
    while left > 0:
        series = [[x] for x in state]
        for k in range(terms):
            for y, rate in zip(series, rates(series), strict=True):
                y.append(rate / (k + 1))
        last = max(abs(y[k]) ** (mpf(1) / k) for y in series for k in (terms - 1, terms))
        step = left if last == 0 else min(left, mp.eps ** (mpf(1) / terms) / last / 2)
        state = [mp.polyval(y[::-1], step) for y in series]
        left -= step
        if stop is not None and stop(state):
            return [*state, left]
    return state


def product(one, two):
    return mp.fdot(one, reversed(two))


def powers(series, exponent):
    """All coefficients of a power of a series."""
    result = series
    for _ in range(exponent - 1):
        result = [product(result[: k + 1], series[: k + 1]) for k in range(len(series))]
    return result


def check_growth(table: list[dict]) -> mpf:
    worst = mpf(0)
    for point in table[::5]:
        if "v" not in point or point["t"] == 0:
            continue
        lam, limit = limits(point["spectrum"], point["context"])[point["direction"]]
        v = mpf(point["v"])
        if abs(v - mpf(point["full"])) < mpf(10) ** -12:
            continue

        def rates(series, lam=lam, limit=limit):
            (v,) = series
            return [lam**2 * (product(v, v) - powers(v, 5)[-1] / limit)]

        (found,) = taylor([mpf(point["start"])], rates, mpf(point["t"]))
        worst = max(worst, abs(found - v) / v)
    return worst


def check_heads(table: list[dict]) -> mpf:
    """To |v| = 1e15, where the way left is 1/(c v) to 30 digits."""
    worst = mpf(0)
    for point in table[::3]:
        c, dim = [mpf(x) for x in point["c"]], len(point["c"])

        def rates(series, c=c, dim=dim):
            v, k, q = series[0], series[1 : dim + 1], series[dim + 1 :]
            return [
                mp.fsum(r * product(x, y) for r, x, y in zip(c, k, q, strict=True)),
                *(r * product(v, y) for r, y in zip(c, q, strict=True)),
                *(r * product(v, x) for r, x in zip(c, k, strict=True)),
            ]

        whole = mpf(point["time"])
        start = [mpf(x) for x in (point["v"], *point["k"], *point["q"])]
        *state, left = taylor(start, rates, 2 * whole, lambda state: abs(state[0]) > 1e15)
        # v' / v^2 is what c is there
        sharp = (
            mp.fsum(
                r * x * y for r, x, y in zip(c, state[1 : dim + 1], state[dim + 1 :], strict=True)
            )
            / state[0] ** 2
        )
        found = 2 * whole - left + 1 / (abs(sharp) * abs(state[0]))
        worst = max(worst, abs(found - whole) / whole)
    return worst


def check() -> None:
    """Compare with the Taylor series of the differential equations."""
    table = json.loads(TABLE.read_text())
    with mp.workdps(60):
        for name, worst, bound in (
            ("growth", check_growth(table["growth"]), 1e-45),
            ("heads", check_heads(table["heads"]), 1e-25),
        ):
            print(f"{name}: worst relative difference {mp.nstr(worst, 3)} (bound {bound:g})")
            assert worst < bound, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with Taylor series")
    if parser.parse_args().check:
        check()
    else:
        write_table()


if __name__ == "__main__":
    main()
