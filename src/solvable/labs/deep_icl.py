"""What `solvable list`, `reproduce`, `fit` and `plan` know of deep_icl."""

from ..asking import Lab, LabLaw
from ..papers import PAPERS

LAB = Lab(
    paper=PAPERS["deep_icl"],
    figures="solvable.deep_icl.figures:FIGURES",
    law=LabLaw(
        make="solvable.deep_icl:curve_law",
        resources=("t", "L", "N", "P"),
        cost="t*N**2*L",
        exponents={"nu": 1.5, "beta": 0.8},
        settings={"dim": 10**4},
        words={
            "nu": "capacity exponent ν",
            "beta": "source exponent β",
            "dim": "dimension D",
        },
        limits={"nu": (0.05, 4.0)},
    ),
)
