"""Make tests/oracles/single_location.json: 50-digit values of the single_location lab's integrals.

    zeta        E erf(t + sG)^2, its derivatives t, tt, ttt and s, erf'(t/sqrt(1 + 2s^2)), and
    miss        E erfc(t + sG)^2, its derivatives t and s

for a standard normal G, by the angle integral exp(-tau^2/cos^2 phi) and by closed forms. Nothing is
imported from the project. Inputs are IEEE doubles, taken exactly. Every number is computed at W and
at 2W digits, and W doubled until 52 digits agree.

    python tests/oracles/make_single_location.py            # writes the table
    python tests/oracles/make_single_location.py --check    # compares with sums over G
"""

import argparse
import json
import random
from pathlib import Path

from digits import DIGITS, agreed, written
from mpmath import mp, mpf

TABLE = Path(__file__).with_name("single_location.json")
NAMES = ("zeta", "zeta_t", "zeta_tt", "zeta_ttt", "zeta_s", "slope", "miss", "miss_t", "miss_s")

PLACES = [-13.0, -6.0, -3.0, -1.0, -0.3, -1e-2, -1e-6, 0.0, 1e-6, 1e-3]
PLACES += [0.05, 0.3, 0.8, 1.5, 3.0, 6.0, 9.0, 13.0, 16.0, 20.0]
SPREADS = [1e-5, 1e-4, 1e-3, 1e-2, 0.07, 0.2, 0.5, 1.0, 1.7, 2.5, 3.0]
FAR = [(ratio * s, s) for s in (10.0, 100.0, 1e4) for ratio in (0.0, 0.1, -0.7, 2.0, 4.0)]


def bell(x: mpf) -> mpf:
    """`erf'(x)`."""
    return 2 / mp.sqrt(mp.pi) * mp.exp(-(x**2))


def values(t: float, s: float) -> tuple[mpf, ...]:
    """The numbers of one point, in the order of NAMES."""
    t, s = mpf(t), mpf(s)
    u, w = mp.sqrt(1 + 2 * s**2), mp.sqrt(1 + 4 * s**2)
    tau = t / u
    x, here, near = tau / w, bell(tau), bell(tau / w)
    width = mp.atan2(4 * s**2, (1 + w) ** 2)
    # From its largest value on, so that quad, which looks at absolute errors, keeps all digits.
    inside = mp.quad(
        lambda y: mp.exp(tau**2 * (1 + 1 / w**2 - mp.sec(mp.pi / 4 - width * y) ** 2)), [0, 1]
    )
    spread = 4 / mp.pi * width * inside * mp.exp(-(tau**2) * (1 + 1 / w**2))
    second = 2 / u**2 * here * (near / w - 2 * tau * mp.erf(x))
    third = (4 * tau**2 - 2) * mp.erf(x) - (4 / w + 2 / w**3) * tau * near
    return (
        mp.erf(tau) ** 2 + spread,
        2 / u * mp.erf(x) * here,
        second,
        2 / u**3 * here * third,
        s * second,
        here,
        mp.erfc(tau) ** 2 + spread,
        -2 / u * mp.erfc(x) * here,
        2 * s / u**2 * here * (2 * tau * mp.erfc(x) + near / w),
    )


def write_table() -> None:
    """Compute every point and write the JSON, one point a line."""
    places = [(t, s) for s in SPREADS for t in PLACES] + FAR
    rows = agreed(lambda: [values(t, s) for t, s in places])
    points = [
        {"t": t, "s": s, **dict(zip(NAMES, map(written, row), strict=True))}
        for (t, s), row in zip(places, rows, strict=True)
    ]
    lines = [
        "{",
        f' "digits": {DIGITS},',
        ' "made_by": "tests/oracles/make_single_location.py",',
        ' "points": [',
        ",\n".join("  " + json.dumps(point) for point in points),
        " ]",
        "}",
    ]
    TABLE.write_text("\n".join(lines) + "\n")
    print(f"{len(points)} points, {TABLE}")


# ---------------------------------------------------------------- --check: sums over G


def sums(t: float, s: float) -> dict[str, mpf]:
    """The same numbers from their definitions: equal steps in G, exact but for exp(-1/step^2)."""
    t, s = mpf(t), mpf(s)
    decades = (mp.dps + 5) * mp.log(10)
    # Both the step's error and the cut must be small against the smallest, exp(-2 tau^2).
    least = decades + 2 * t**2 / (1 + 2 * s**2)
    step = mp.pi * mp.sqrt(2 / (least * (1 + 4 * s**2)))
    count = int(mp.ceil(mp.sqrt(2 * least) / step))
    found = dict.fromkeys([name for name in NAMES if name != "slope"], mpf(0))
    for k in range(-count, count + 1):
        g = k * step
        weight = step / mp.sqrt(2 * mp.pi) * mp.exp(-(g**2) / 2)
        x = t + s * g
        f, f1 = mp.erf(x), bell(x)
        f2, f3 = -2 * x * f1, (4 * x**2 - 2) * f1
        found["zeta"] += weight * f**2
        found["zeta_t"] += weight * 2 * f * f1
        found["zeta_tt"] += weight * 2 * (f1**2 + f * f2)
        found["zeta_ttt"] += weight * 2 * (3 * f1 * f2 + f * f3)
        found["zeta_s"] += weight * 2 * f * f1 * g
        found["miss"] += weight * mp.erfc(x) ** 2
        found["miss_t"] -= weight * 2 * mp.erfc(x) * f1
        found["miss_s"] -= weight * 2 * mp.erfc(x) * f1 * g
    return found


def check() -> None:
    """Compare points of the table with sums that share no formula with them."""
    points = [p for p in json.loads(TABLE.read_text())["points"] if p["s"] <= 3]
    worst = mpf(0)
    for point in random.Random(0).sample(points, 60):
        with mp.workdps(70):
            for name, found in sums(point["t"], point["s"]).items():
                true = mpf(point[name])
                worst = max(worst, abs(found - true) / (abs(true) if true else 1))
    print(f"60 points against sums over G: worst relative difference {mp.nstr(worst, 3)}")
    assert worst < 1e-48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with sums over G")
    if parser.parse_args().check:
        check()
    else:
        write_table()


if __name__ == "__main__":
    main()
