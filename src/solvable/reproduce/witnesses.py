"""The figure that every described lab has: its witnesses against each other, a claim each."""

import math
from typing import TYPE_CHECKING, Any

from ..asking import Lab
from ..comparing import worst
from .claim import Finding, at_most
from .figure import Figure

if TYPE_CHECKING:
    import xarray as xr

NOTE = (
    "Every witness that can answer is asked the same question at the same steps. A closed form of "
    "the flow may be off by what the step is worth, which is measured by halving it; what agrees "
    "in law only, by five standard errors over seeds besides; all else by round-off."
)


def witnesses(lab: Lab) -> Figure:
    """The figure LAB/witnesses, at the lab's own showcase of a question."""
    question = lab.described().changed(**lab.showcase).settled()
    # What is left out, or without end, is so by default.
    asked = {n: x for n, x in question.flat().items() if x is not None and x != math.inf}
    seed, steps = asked.pop("seed", 0), asked["steps"]
    figure = Figure(
        f"{lab.name}/witnesses",
        "Its witnesses against each other",
        settings={
            "quick": {"steps": max(1, steps // 10), "points": 20, "seeds": 8},
            "default": {"steps": steps, "points": 40, "seeds": 16},
            "full": {"steps": steps, "points": 80, "seeds": 64},
        },
        constants={name: value for name, value in asked.items() if name != "steps"},
        note=NOTE,
        seed=seed,
        modules=(lab.module, lab.described.__module__, "solvable.comparing"),
    )

    @figure.data
    def compared(settings: Any) -> "xr.Dataset":
        return lab.compare(**vars(settings))

    @figure.draw
    def picture(data: "xr.Dataset") -> Any:
        from ..drawing import compared

        return compared(lab, data)

    in_time = [name for name, who in lab.witnesses.items() if who.axis == "time"]
    able = [name for name in in_time if not lab.refusal(question, name)]
    first = next((name for name in able if lab.witnesses[name].trains), "")

    @figure.claim(
        "check", "three witnesses", word="{x}", over=[name for name in able if name != first]
    )
    def agrees(data: "xr.Dataset", x: str) -> Finding:
        """The witness {x} agrees with reduced training (largest gap over what is allowed)."""
        what = "what the step is worth, round-off, five standard errors in law: all measured"
        return at_most(worst(data, x)[1], 1.0, because=what)

    return figure
