"""Errata: what is printed, what is right, and a witness that shares neither's formula."""

import re
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, corrected, near
from ...style import colour
from ._erratum import Erratum
from ._printed import ERRATA as FLOW
from ._printed_laws import ERRATA as LAWS

ERRATA = (*FLOW, *LAWS)
FLOOR = 3e-17  # where a distance of 0 is drawn

fig = Figure(
    "msfr/errata",
    "What is printed, what is right, and a witness of each",
    settings={"quick": {}, "default": {}, "full": {}},  # nothing that could be larger
    note=(
        "Quoted formulas, corrected ones, and numbers that come from neither: ODE solves of (9), "
        "sums, minimisation. An error is false as it stands; from a slip the paper concludes what "
        "is right. Unless said otherwise one task, # = N, ψ = 3, Λ = 0.5, order zero, v = 0.3u, "
        "w = 0.55u at the start, u = (1, Λ). In the paper's symbols: η = v + w, ρ = v − w, "
        "g = ψη·H⁰η, h = ψρ·H⁰ρ; r, m, n, u, z, ϑ, φ, ξ of App. J, I_u = ∫uϑ dt, I_z = ∫zφ dt. "
        "The text at hand is a transcription: where a quote hangs on one character it says “in the "
        "text we have”. Elsewhere: Table 2's last row and (105) in msfr/table2, H.3 in msfr/fig7, "
        "the rate of App. A in msfr/unseen. Without numbers, in the text we have: (32) lacks dots "
        "on η¹, ρ¹; the first line of (36) lacks ψ, which (34) has; F below (71) drops the 2 of "
        "e^{−2…} and (72) the ½ of Taylor's formula, “omitting irrelevant coefficients”; “(65)” "
        "below (66) means (66), “(87)” above (96) means (89); the whole model is D = N_s, one less "
        "than a cutoff asks for by which tasks s ≥ D are not learned; Sec. 3.1 has v_s ∈ R^{N_s} "
        "for R^{N_s+1}, Table 3 e_s ∈ R^d for R^{N_s}, (114) "
        "diag(ω̃_s^s) for diag(ω̃^s); Fig. 9's caption says fixed where the text says varied; H is "
        "called positive definite and is semidefinite; (17) has ≈ where (84) has ∝, a factor "
        "Λ_1². What the paper states as an assumption is no erratum, nor is a "
        "coefficient that ~ neglects, unless it is written out and does not follow from the line "
        "before."
    ),
)


@fig.data
def numbers(settings: Any) -> xr.Dataset:
    """Of every erratum: as printed, corrected, witness."""
    printed, right, witness = np.array([erratum.numbers for erratum in ERRATA]).T
    return xr.Dataset(
        {
            "printed": ("erratum", printed),
            "right": ("erratum", right),
            "witness": ("erratum", witness),
        },
        coords={"erratum": [erratum.word for erratum in ERRATA]},
    )


def _scale(d: xr.Dataset) -> xr.DataArray:
    """What distances are relative to."""
    return np.maximum(np.abs(d.printed), np.abs(d.witness))


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """How far each form is from its witness, errors above slips."""
    groups = {
        "errors": [e for e in ERRATA if e.quote.grade == "error"],
        "slips": [e for e in ERRATA if e.quote.grade == "slip"],
    }
    figure = matplotlib.figure.Figure(figsize=(7.2, 6.4))
    heights = [len(rows) + 0.6 for rows in groups.values()]
    axes = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    for place, (name, rows) in zip(axes, groups.items(), strict=True):
        here = d.sel(erratum=[e.word for e in rows])
        scale, y = _scale(here), np.arange(len(rows))[::-1]
        right, wrong = (
            np.maximum(np.abs(x - here.witness) / scale, FLOOR) for x in (here.right, here.printed)
        )
        place.hlines(y, right, wrong, color="0.85", linewidth=1.0, zorder=0)
        place.plot(right, y, "o", color=colour(0), label="corrected")
        place.plot(wrong, y, "s", color=colour(1), label="as printed")
        place.set_yticks(y, [f"{_where(e)}  {e.word.replace('-', ' ')}" for e in rows], fontsize=8)
        place.set_ylim(-0.7, len(rows) - 0.3)
        place.set_xscale("log")
        place.set_title(name, loc="left", fontsize=9.0, fontweight="bold")
    axes[0].set_xlim(FLOOR / 2, 5.0)
    axes[1].set_xlabel("relative distance from the witness (left edge: none)")
    axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def _where(erratum: Erratum) -> str:
    """The equation number, or the place, in short."""
    place = erratum.quote.where.partition(",")[0]
    number = re.search(r"\(\d+\)", place)
    if number is None:
        return place
    return f"below {number[0]}" if "below" in place else number[0]


def _claim(erratum: Erratum) -> None:
    """Claim that the corrected form is the witness, and the quoted one is not."""

    def find(d: xr.Dataset) -> Finding:
        here = d.sel(erratum=erratum.word)
        slack = erratum.slack * float(_scale(here))
        found = near(here.right, here.witness, slack, because=erratum.because, note=erratum.note)
        return corrected(found, as_printed=here.printed)

    find.__doc__ = erratum.says.replace("{", "{{").replace("}", "}}")
    source = re.split(r"[,;]| in the text| and ", erratum.quote.where)[0]
    fig.claim("paper", source, word=erratum.word, quote=erratum.quote)(find)


for each in ERRATA:
    _claim(each)
