"""``solvable solve LAB``: a theory curve."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .arguments import Command, choice
from .deep_icl.solve import SolveDeepIcl
from .msfr.solve import SolveMsfr
from .shallow_icl.solve import SolveShallowIcl
from .single_location.solve import SolveSingleLocation


@dataclass(frozen=True)
class Solve:
    """Compute a lab's theory curve L(t)."""

    labs: ClassVar[dict[str, type[Command]]] = {
        "msfr": SolveMsfr,
        "shallow_icl": SolveShallowIcl,
        "single_location": SolveSingleLocation,
        "deep_icl": SolveDeepIcl,
    }

    lab: Annotated[Command, choice(labs)]

    def run(self) -> int:
        """Compute the chosen lab's curve."""
        return self.lab.run()
