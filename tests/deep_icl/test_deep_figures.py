"""Every figure at its quick size: numbers against stored ones, never pixels."""

import pytest
from tests.oracles.stored import says_what_it_said, sizes_have_the_same_settings, stored_claims

from solvable import reproduce

STORED = stored_claims("deep_icl")
FIGURES = {figure.name: figure for figure in reproduce.figures(["deep_icl"])}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_said(name, tmp_path):
    says_what_it_said(FIGURES[name], STORED, tmp_path)


def test_the_stored_numbers_are_those_of_the_claims_there_are():
    assert list(STORED) == [s.id for figure in FIGURES.values() for s in figure.statements]


@pytest.mark.parametrize("name", FIGURES)
def test_sizes_differ_only_in_their_settings(name):
    sizes_have_the_same_settings(FIGURES[name])


def test_the_figures_stand_in_the_order_of_the_report():
    order = "iso-training iso-landscape iso-sgd fs fs-ood rrs-time rrs-beta rrs-landscape width"
    order += " depth joint untied full-attention softmax optimal-shape"
    assert list(FIGURES) == order.split()
