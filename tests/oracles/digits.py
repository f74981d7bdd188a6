"""Numbers with 50 certain digits: computed at more and more until doubling them changes nothing."""

from itertools import chain

from mpmath import mp, mpf

DIGITS = 50
AGREE = mpf(10) ** -52
START_DIGITS = 65


def written(value: mpf) -> str:
    """The digits that are stored."""
    return mp.nstr(value, DIGITS)


def same(one: mpf, two: mpf) -> bool:
    """Agreement of 52 digits and of the 50 that are written."""
    if one == two:
        return True
    return abs(one - two) < AGREE * abs(two) and written(one) == written(two)


def agreed(compute, start_digits: int = START_DIGITS):
    """Rows of numbers at the first W where W and 2W digits agree."""
    digits = start_digits
    with mp.workdps(digits):
        rows = compute()
    while digits < 3000:
        with mp.workdps(2 * digits):
            better = compute()
            flat, flat_better = chain.from_iterable(rows), chain.from_iterable(better)
            if all(same(x, y) for x, y in zip(flat, flat_better, strict=True)):
                return better
        digits, rows = 2 * digits, better
    raise ArithmeticError("no precision was enough")
