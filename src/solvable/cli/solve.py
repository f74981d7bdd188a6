"""``solvable solve LAB``: a theory curve."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .arguments import Command, choice
from .msfr.solve import SolveMsfr


@dataclass(frozen=True)
class Solve:
    """Compute a lab's theory curve L(t)."""

    labs: ClassVar[dict[str, type[Command]]] = {"msfr": SolveMsfr}

    lab: Annotated[Command, choice(labs)]

    def run(self) -> int:
        """Compute the chosen lab's curve."""
        return self.lab.run()
