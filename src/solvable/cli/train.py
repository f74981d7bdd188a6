"""``solvable train LAB``: the same curve by training."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .arguments import Command, choice
from .msfr.train import TrainMsfr


@dataclass(frozen=True)
class Train:
    """Train a lab's model and log the same curve L(t)."""

    labs: ClassVar[dict[str, type[Command]]] = {"msfr": TrainMsfr}

    lab: Annotated[Command, choice(labs)]

    def run(self) -> int:
        """Train the chosen lab's model."""
        return self.lab.run()
