"""Every figure of every lab at its quick size: numbers against stored ones, never pixels."""

import pytest
from tests.oracles.stored import says_what_it_said, sizes_have_the_same_settings, stored_claims

from solvable import reproduce

from . import LABS

pytestmark = pytest.mark.slow

STORED = {lab: stored_claims(lab) for lab in LABS}
FIGURES = {lab: {figure.name: figure for figure in reproduce.figures([lab])} for lab in LABS}
EVERY = [(lab, name) for lab in LABS for name in FIGURES[lab]]
EXTRA = {("single_location", "probing")}  # needs more than the tests do, and has tests of its own
ROUGH = {
    # Trained for 1000 steps in single precision: on another processor a spike of the loss comes a
    # few steps earlier or later, and verdicts that are as close as that may differ.
    ("msfr", "fig5"): 0.05,
    # The schedule of Fig. 4a is chaotic between steps 500 and 1000: round-off moves a few of 150
    # runs from one minimum to the other.
    ("single_location", "basins"): 0.03,
    # Shares of what round-off is allowed differ from machine to machine.
    ("msfr", "witnesses"): 1e-3,
    ("single_location", "witnesses"): 1e-3,
    ("shallow_icl", "witnesses"): 1e-3,
}
ORDER = {
    "shallow_icl": "fig1 fig3 fig4 fig5 fig6 fig11 fig12 fig14 plateaus init-scale leak lengths "
    "fixed-points time-laws witnesses",
    "single_location": "fig4a fig4b fig5 fig7a fig7b appendix-e probing phase basins outcomes "
    "stability predictors softmax witnesses",
    "deep_icl": "iso-training iso-landscape iso-sgd batch fs fs-ood rrs-time rrs-beta "
    "rrs-landscape width depth joint untied untied-depth untied-contexts full-attention softmax "
    "optimal-shape witnesses",
}


def corrections(lab):
    """The claims of a lab that correct what its paper prints."""
    return [s for figure in FIGURES[lab].values() for s in figure.statements if s.quote]


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "name"), [each for each in EVERY if each not in EXTRA])
def test_a_figure_says_what_it_said(lab, name, tmp_path):
    rough = ROUGH.get((lab, name), 0.0)
    says_what_it_said(FIGURES[lab][name], STORED[lab], tmp_path, rough=rough)


@pytest.mark.parametrize("lab", LABS)
def test_the_stored_numbers_are_those_of_the_claims_there_are(lab):
    stored = [id for id in STORED[lab] if tuple(id.split("/")[:2]) not in EXTRA]
    ours = [figure for name, figure in FIGURES[lab].items() if (lab, name) not in EXTRA]
    assert stored == [statement.id for figure in ours for statement in figure.statements]


@pytest.mark.parametrize(("lab", "name"), EVERY)
def test_sizes_differ_only_in_their_settings(lab, name):
    sizes_have_the_same_settings(FIGURES[lab][name])


@pytest.mark.parametrize("lab", ORDER)
def test_the_figures_stand_in_the_order_of_the_report(lab):
    assert list(FIGURES[lab]) == ORDER[lab].split()


def test_every_figure_but_probing_needs_nothing_more():
    missing = {(lab, name) for lab, name in EVERY if FIGURES[lab][name].missing()}
    assert missing <= EXTRA


def test_every_erratum_of_msfr_is_a_corrected_claim():
    """Equations and tables that the paper misprints."""
    places = [statement.quote.where for statement in corrections("msfr")]
    wanted = ("(1)", "(39)", "(40)", "(58)", "(105)", "(121)", "(137)", "(149)", "(150)")
    for word in (*wanted, "Table 2", "H.3"):
        assert any(word in place for place in places), word


def test_only_a_paper_at_hand_is_quoted():
    """Of the other three there are accounts: what these say is reported, and may not hold."""
    for lab in ("shallow_icl", "single_location", "deep_icl"):
        assert corrections(lab) == []
        words = [w for f in FIGURES[lab].values() for s in f.statements for w in (s.text, s.source)]
        words += [figure.note for figure in FIGURES[lab].values()]
        assert not any("paper prints" in word or ", as reported" in word for word in words)
    kinds = {s.kind for figure in FIGURES["deep_icl"].values() for s in figure.statements}
    assert kinds == {"reported", "new", "check"}


def test_what_is_reported_and_does_not_hold_stands_beside_what_does():
    for lab, count in {"shallow_icl": 4, "deep_icl": 11}.items():
        said = {s.id: s for figure in FIGURES[lab].values() for s in figure.statements}
        told = [id for id in said if id.endswith("-reported")]
        assert len(told) == count
        for id in told:
            assert (said[id].kind, said[id].known) == ("reported", "fails")
            assert said[id.removesuffix("-reported")].known is None
