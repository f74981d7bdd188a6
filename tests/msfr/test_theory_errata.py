"""Misprints of the paper: the corrected form agrees with a witness, the printed one does not."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import zeta
from tests.oracles import check_quotes

from solvable import msfr
from solvable.msfr.figures import _printed as printed
from solvable.msfr.figures import _printed_laws as laws
from solvable.msfr.figures import errata
from solvable.msfr.figures._formulas import AlongContext, flow, root, theorem
from solvable.msfr.figures.unseen import constrained_flow, constrained_theorem
from solvable.numerics.counting import counting_rule
from solvable.reproduce import Quote, Statement

ERRATA = {erratum.word: erratum for erratum in errata.ERRATA}
CASE, BALANCED, OPPOSITE = printed.CASE, printed.BALANCED, printed.OPPOSITE
# As printed, right, by a witness, as they were found before this was written; to all their digits.
NUMBERS = {
    "normaliser": (3.51027291921, 1.0, 1.0),
    "balanced-opposite": (-0.68305013, -0.07393898, -0.07393898),
    "limit": (-0.5, 0.0, 7e-18),
    "g-for-h": (-1.897226, 0.369188, 0.369188),
    "constant-product": (0.594872, 0.579585319, 0.579585319),
    "constant-square": (0.587109, 0.579585319, 0.579585319),
    "conserved-product": (0.992203, -3.488213, -3.488213),
    "bracket": (0.321436, 0.7734375, 0.7734375),
    "balanced-exponent": (0.36446241, 0.27975509, 0.27975509),
    "query": (0.54, 0.66, 0.66),
    "letter-case": (-0.0410792, -0.063, -0.063),
    "first-order": (0.1589177, 0.039729434667, 0.039729434667),
    "first-order-sign": (905.906113, 903.898176, 903.898176),
    "time-coefficient": (0.0307115, 0.00854565, 0.00854565),
    "data-curvature": (3.657446e-8, 2.351215e-8, 2.351189e-8),
    "data-coefficient": (0.00907568, 0.01131936, 0.01131886),
    "t-for-N": (0.0, 6.7284e-7, 6.7284e-7),
    "peak-height": (4.95535e-7, 6.72923e-7, 6.72842e-7),
    "varied-curvature": (6.840784, 5.040784, 5.040784),
}
LATER = {"h-from-q", "context-factor", "first-order-constants"}  # at other times, below


@pytest.mark.parametrize("erratum", errata.ERRATA, ids=lambda erratum: erratum.word)
def test_the_corrected_form_is_its_witness_and_the_printed_one_is_not(erratum):
    wrong, right, witness = erratum.numbers
    scale = max(abs(wrong), abs(witness))
    assert abs(right - witness) <= erratum.slack * scale
    assert abs(wrong - witness) > 100 * erratum.slack * scale


def test_every_erratum_has_the_numbers_it_was_found_with():
    assert set(ERRATA) == set(NUMBERS) | LATER
    for word, numbers in NUMBERS.items():
        # Half a unit of the last of six digits.
        assert ERRATA[word].numbers == pytest.approx(numbers, rel=5e-6, abs=1e-17), word


def test_errors_and_slips_are_told_apart():
    slips = {word for word, erratum in ERRATA.items() if erratum.quote.grade == "slip"}
    errors = {"normaliser", "balanced-opposite", "limit", "constant-product", "constant-square"}
    errors |= {"first-order", "first-order-sign", "first-order-constants"}
    assert set(ERRATA) - slips == errors


def test_what_hangs_on_one_character_is_said_of_the_text_at_hand():
    for number in (39, 48, 56, 58, 99, 127):
        (place,) = (e.quote.where for e in errata.ERRATA if f"Eq. ({number})" in e.quote.where)
        assert "in the text we have" in place


def test_the_reference_case():
    assert CASE.rate == 3.75
    assert (CASE.g, CASE.h, CASE.f0) == pytest.approx((3.38671875, 0.29296875, 0.7734375))
    assert CASE.constant == pytest.approx(0.4961013793945, rel=1e-12)
    assert CASE.root() == pytest.approx(1.411454129183, rel=1e-12)
    assert CASE.first_root() == pytest.approx(22.8249501991, rel=1e-11)
    assert CASE.amplitudes[0] == pytest.approx(-3.8945049355, rel=1e-10)
    solved = [CASE.prediction(t) for t in (0.1, 0.2, 0.5)]
    assert solved == pytest.approx([0.64351064, 0.579585319056, 0.51527160], rel=1e-8)


def test_theorem_holds_for_both_signs_of_the_strength():
    """Theorem 3.1 with C = gh/2, at 150 random cases."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        strength = rng.uniform(0.2, 1.5) * rng.choice([-1.0, 1.0])
        v, w = rng.uniform(0.1, 0.8, 2) * rng.choice([-1.0, 1.0], 2)
        case, t = AlongContext(rng.uniform(1.0, 5.0), strength, v, w), rng.uniform(0.02, 0.5)
        assert case.theorem(t) == pytest.approx(case.prediction(t), abs=1e-9)


def test_balanced_start_of_opposite_signs():
    """(14) at v = −w: a pole on the way, and the same at a negative strength."""
    pole = math.log(-(OPPOSITE.strength - OPPOSITE.f0) / OPPOSITE.f0)
    assert pole / (2 * OPPOSITE.rate * OPPOSITE.strength) == pytest.approx(0.3464755, rel=1e-6)
    negative = AlongContext(3.0, -0.5, 0.2, -0.2)
    wrong, right = (negative.balanced(0.5, exponent=sign * 2 * -0.5) for sign in (-1.0, 1.0))
    assert (wrong, right) == pytest.approx((-0.0421300, -0.3982187), rel=1e-6)
    assert negative.prediction(0.5) == pytest.approx(-0.3982187, rel=1e-6)


@pytest.mark.parametrize("whole", [False, True])
def test_a_strength_of_the_other_sign_is_not_reached(whole):
    """(61): from v = w a negative strength is not learned, at order zero and with the whole H."""
    case = printed.NEGATIVE
    matrix = case.matrix + whole * case.query
    ends = [case.prediction(t, matrix) for t in (3.0, 10.0, 100.0)]  # the query's mode is slow
    assert ends[2] == pytest.approx(0.0, abs=1e-11)
    if not whole:
        assert ends[:2] == pytest.approx([1.774e-6, 7e-18], rel=1e-2)


def test_constants_of_both_forms_in_theorem():
    """(40): what they do to f, the H of (7) in place of ψH⁰, and what balanced starts give."""
    forms = [printed.first_constant(), printed.second_constant(), printed.second_constant(query=1)]
    assert forms == pytest.approx([0.110245, 0.291275, 1.229609], rel=5e-6)
    found = [CASE.theorem(0.2, c=c) for c in forms]
    assert found == pytest.approx([0.594872, 0.587109, 0.559910], rel=5e-6)
    # Without the ½ it would be another.
    assert CASE.theorem(0.2, c=CASE.g * CASE.h) == pytest.approx(0.565312, rel=5e-6)
    assert printed.second_constant(BALANCED) == pytest.approx(-0.609375, rel=1e-12)
    assert BALANCED.constant == pytest.approx(0.0, abs=1e-15)


def test_the_printed_riccati_equation_at_another_time(monkeypatch):
    """(39): h(0.1)."""
    monkeypatch.setattr(printed, "TIME", 0.1)
    numbers = ERRATA["g-for-h"].numbers
    assert numbers == pytest.approx((-0.715449, 0.340439, 0.340439), rel=5e-6)


def test_forms_at_the_start(monkeypatch):
    """(48) and (121) at t = 0."""
    monkeypatch.setattr(printed, "TIME", 0.0)
    h, g = ERRATA["h-from-q"].numbers, ERRATA["context-factor"].numbers
    assert h == pytest.approx((1.029968, 0.292969, 0.292969), rel=5e-6)
    assert g == pytest.approx((1.12890625, 3.38671875, 3.38671875), rel=1e-9)


def test_the_product_of_both_fractions_is_the_same_at_every_time():
    """(50), whose left side is γ̇/γ times −θ̇/θ."""
    for t in (0.0, 0.2, 1.0):
        gamma, theta = CASE.log_slopes(t)
        assert -gamma * theta == pytest.approx(-3.488213, rel=1e-6)
        g, h = CASE.squares(t)  # of the flow: g = 2γ̇/aγ, h = 2θ̇/aθ
        assert (gamma, theta) == pytest.approx((CASE.rate * g / 2, CASE.rate * h / 2), rel=1e-9)


def test_the_printed_denominator():
    """(56)."""
    assert printed.printed_first_root() == pytest.approx(-22.515058, rel=1e-7)


def test_a_longer_context_does_not_raise_the_loss(monkeypatch):
    """(76) at the same ψ̄t."""
    monkeypatch.setattr(laws, "PACE", 1000.0)
    monkeypatch.setattr(laws, "TIME", 10.0)
    assert laws.time_law(2.0) == pytest.approx(0.3966540, rel=1e-6)
    assert laws.time_law(1.0) == pytest.approx(0.00854565, rel=1e-6)


def test_appendix_j_as_printed():
    """(137), (149) to (151), one by one and together."""
    assert CASE.bracket(0.2, sign=-1.0) / 4 == pytest.approx(0.0394987, rel=5e-6)
    assert CASE.bracket(0.0, constant=0.0) / 4 == pytest.approx(-0.0487238, rel=5e-6)
    assert CASE.bracket(0.0) / 4 == pytest.approx(0.495, rel=1e-12)
    assert CASE.first_order(0.0) == pytest.approx(3.0 * 0.3 * 0.55, rel=1e-12)
    assert CASE.bracket(0.2, sign=-1.0, constant=0.0) == pytest.approx(-0.3664367, rel=5e-6)
    late = CASE.bracket(6.0, constant=0.0) / 4
    assert late == pytest.approx(CASE.first_order(6.0), abs=1e-9)  # the two agree at last


def test_the_rate_of_a_projection_has_no_other_factor():
    """H.3: H² = μH for the H of (9), μ = 3.75."""
    np.testing.assert_allclose(CASE.matrix @ CASE.matrix, 3.75 * CASE.matrix, rtol=1e-14)
    wrong, right = (CASE.theorem(0.2, rate=a) for a in (3.0 * 3.75, 3.75))
    assert (wrong, right) == pytest.approx((0.508939, 0.579585), rel=5e-6)


@pytest.mark.parametrize("start", [(0.3, 0.55), (0.4, 0.4 + 1e-3), (0.2, -0.5)])
def test_the_constrained_flow_has_its_own_rate(start):
    """App. A: a = #ψΛ/N, and #ψ|Λ|/N for Λ < 0, where f and Λ change sign together."""
    t, (v, w) = 0.5, start
    right, wrong = (constrained_theorem(t, 3.0, 0.5, v, w, rate=a) for a in (1.5, 3.75))
    solved = constrained_flow(3.0, 0.5, v, w, t)
    assert right == pytest.approx(solved, abs=1e-10)
    assert abs(wrong - solved) > 1e-2
    assert constrained_flow(3.0, -0.5, v, w, t) == pytest.approx(-solved, abs=1e-12)
    exact = msfr.exact_flow([[1.5]], [v], [w], target=0.5, t=t)
    assert float(exact) == pytest.approx(solved, abs=1e-10)
    if start == (0.3, 0.55):
        assert (wrong, right, solved) == pytest.approx((0.442638, 0.348370, 0.348370), rel=5e-6)


def test_the_constrained_flow_from_a_balanced_start_is_the_logistic_function():
    f0 = 1.5 * 0.4**2
    logistic = 0.5 / (1.0 + (0.5 - f0) / f0 * math.exp(-2 * 1.5 * 0.5 * 0.7))
    assert constrained_flow(3.0, 0.5, 0.4, 0.4, 0.7) == pytest.approx(logistic, abs=1e-12)


def test_the_exponent_of_the_data_law():
    """(105): the local exponent of Σ s^(−α−2γ)(1 − Zs^−α)^N over N = 10⁴ … 10⁵."""
    alpha, gamma = 1.8, 0.5
    s, w = counting_rule(10**9)
    missed = np.log1p(-(s**-alpha) / zeta(alpha))
    low, high = (np.sum(w * s ** (-alpha - 2 * gamma) * np.exp(n * missed)) for n in (1e4, 1e5))
    found = math.log10(low / high)
    assert found == pytest.approx(0.99996, abs=2e-5)
    assert (alpha + 2 * gamma - 1) / alpha == pytest.approx(1.0)
    assert (alpha + gamma - 1) / alpha == pytest.approx(0.72222, rel=1e-5)


def test_the_last_row_of_table_2_is_swapped():
    """The t* that minimises a_t t^−α_t + a_D D^−α_D at D = C/t."""
    alpha, beta, gamma = 1.8, 1.0, 0.5
    m = alpha + 3 * gamma + beta
    in_size = alpha + 2 * gamma - 1
    in_time = in_size / m

    def best(compute):
        def value(log_t):
            t = math.exp(log_t)
            return math.log(0.7 * t**-in_time + 1.9 * (compute / t) ** -in_size)

        whole = math.log(compute)
        found: Any = minimize_scalar(value, bounds=(0.0, whole), options={"xatol": 1e-10})
        return found.x

    found = (best(1e9) - best(1e6)) / math.log(1e3)
    assert found == pytest.approx(0.8113208, rel=1e-5)
    assert m / (m + 1) == pytest.approx(0.811321, rel=1e-5)
    assert 1 / (m + 1) == pytest.approx(0.188679, rel=1e-5)


# The library's own closed forms against the paper's corrected ones.

CONTEXT = 3.0  # short, so that ψ (first − zeroth) = f¹ has not lost its digits
CASES = [(0.5, 0.30, 0.55), (0.5, 0.90, 0.40), (1.4, 0.20, 0.35), (0.8, -0.30, 0.5)]
TIMES = np.append(0.0, np.geomspace(2e-3, 1.5, 15))


def by_order(paper, order):
    """One task (p = 1) that starts along (1, Λ), by `msfr.predict`."""
    task = msfr.Task(1, 2.0, [paper.context], [paper.strength])
    init = msfr.Init(*(x[None, :] for x in paper.start))
    return np.asarray(msfr.predict(task, init, TIMES, order))[:, 0]


@pytest.mark.parametrize("case", CASES)
def test_order_zero_is_theorem_with_half_of_gh(case):
    paper = AlongContext(CONTEXT, *case)
    scale = max(abs(paper.f0), paper.strength)
    # 1e-11: λ − 2Λ cancels in P.
    found = paper.theorem(TIMES)
    np.testing.assert_allclose(found, by_order(paper, "zeroth"), rtol=0.0, atol=1e-11 * scale)


@pytest.mark.parametrize("strength", [0.5, 1.4])
def test_order_zero_from_a_balanced_start_is_the_logistic_function(strength):
    paper = AlongContext(CONTEXT, strength, 0.2, 0.2)
    true = by_order(paper, "zeroth")
    np.testing.assert_allclose(paper.balanced(TIMES, exponent=-2 * strength), true, rtol=1e-12)
    ours = msfr.balanced(strength, paper.f0, paper.rate, TIMES)
    np.testing.assert_allclose(ours, true, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_order_one_is_appendix_j_for_starts_along_the_context(case):
    paper = AlongContext(CONTEXT, *case)
    first = CONTEXT * (by_order(paper, "first") - by_order(paper, "zeroth"))
    # 1e-10: e^{2ξt} terms cancel in m − n.
    found = [paper.bracket(t) / 4 for t in TIMES]
    np.testing.assert_allclose(found, first, rtol=0.0, atol=1e-10)


def test_the_general_form_of_the_theorem_for_any_projection():
    """g, h and f(0) with any H of H² = μH, in more dimensions."""
    rng = np.random.default_rng(1)
    u = np.linalg.qr(rng.normal(size=(5, 2)))[0]
    matrix, (v, w) = 1.7 * u @ u.T, rng.normal(0.0, 0.5, (2, 5))
    g, h = ((x @ matrix @ x).item() for x in (v + w, v - w))
    f0, t = (v @ matrix @ w).item(), 0.6
    found = theorem(t, 0.8, rate=1.7, f0=f0, c=g * h / 2)
    end_v, end_w = flow(matrix, v, w, 0.8, t)
    assert found == pytest.approx(end_v @ matrix @ end_w, abs=1e-11)
    assert root(0.8, g * h / 2) > 1.6


# The script that looks quotes up.


def said(word, text):
    quote = Quote(text, f"Eq. {word}")
    return Statement(f"lab/figure/{word}", "It is right.", "Eq.", "paper", quote)


def test_quotes_are_found_whatever_the_whitespace():
    statements = [said("one", r"a = \frac{b}{c}"), said("two", "d = e"), said("three", "d = f")]
    lines, missing = check_quotes.told("so that a =\n\\frac{b} {c}\tand d=f.", statements)
    assert missing == 1
    assert [line.split("  ")[0].strip() for line in lines] == ["found", "NOT FOUND", "found"]
    assert lines[1].endswith("lab/figure/two  [Eq. two]")


def test_the_script_counts_and_ends_with_what_it_found(tmp_path, capsys):
    quotes = [s.quote.text for s in check_quotes.quoting("msfr") if s.quote]
    text = tmp_path / "paper.txt"
    text.write_text("\n".join(quotes), encoding="utf-8")
    assert check_quotes.main([str(text)]) == 0
    assert capsys.readouterr().out.endswith(f"{len(quotes)} of {len(quotes)} quotes found\n")
    text.write_text("\n".join(quotes[1:]), encoding="utf-8")
    assert check_quotes.main([str(text), "msfr"]) == 1
    out = capsys.readouterr().out
    assert out.count("NOT FOUND") == 1
    assert out.endswith(f"{len(quotes) - 1} of {len(quotes)} quotes found\n")


@pytest.mark.parametrize("arguments", [[], ["a", "b", "c"], ["no such file"]])
def test_the_script_refuses_bad_usage(arguments, capsys):
    assert check_quotes.main(arguments) == 2
    assert capsys.readouterr().err


def test_the_script_refuses_labs_that_there_are_not(tmp_path, capsys):
    text = tmp_path / "paper.txt"
    text.write_text("", encoding="utf-8")
    assert check_quotes.main([str(text), "alchemy"]) == 2
    assert "alchemy" in capsys.readouterr().err
