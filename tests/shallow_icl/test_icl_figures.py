"""Every figure of the paper at its quick size: numbers against stored ones, never pixels."""

import pytest
from tests.oracles.stored import says_what_it_said, sizes_have_the_same_settings, stored_claims

from solvable import reproduce

STORED = stored_claims("shallow_icl")
FIGURES = {figure.name: figure for figure in reproduce.figures(["shallow_icl"])}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_said(name, tmp_path):
    says_what_it_said(FIGURES[name], STORED, tmp_path)


def test_the_stored_numbers_are_those_of_the_claims_there_are():
    assert list(STORED) == [s.id for figure in FIGURES.values() for s in figure.statements]


@pytest.mark.parametrize("name", FIGURES)
def test_sizes_differ_only_in_their_settings(name):
    sizes_have_the_same_settings(FIGURES[name])


def test_the_plateaus_of_higher_rank_are_a_corrected_claim():
    """The paper says that m divides R where it means multiples of R."""
    printed = [s.id for f in FIGURES.values() for s in f.statements if s.printed]
    assert {"shallow_icl/fig4/rests", "shallow_icl/fig12/rests"} <= set(printed)
