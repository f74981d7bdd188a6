"""``solvable train LAB``: the same curve by training."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .arguments import Command, choice
from .deep_icl.train import TrainDeepIcl
from .msfr.train import TrainMsfr
from .shallow_icl.train import TrainShallowIcl
from .single_location.train import TrainSingleLocation


@dataclass(frozen=True)
class Train:
    """Train a lab's model and log the same curve L(t)."""

    labs: ClassVar[dict[str, type[Command]]] = {
        "msfr": TrainMsfr,
        "shallow_icl": TrainShallowIcl,
        "single_location": TrainSingleLocation,
        "deep_icl": TrainDeepIcl,
    }

    lab: Annotated[Command, choice(labs)]

    def run(self) -> int:
        """Train the chosen lab's model."""
        return self.lab.run()
