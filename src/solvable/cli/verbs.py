"""``solvable solve LAB``, ``train LAB``, ``compare LAB``: the verbs that ask a lab."""

from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass
from typing import Annotated, Any

from ..asking import Lab
from ..papers import PAPERS
from .arguments import Command, choice

VERBS = {
    "solve": "Compute a lab's theory curve L(t).",
    "train": "Train a lab's model and log the same curve L(t).",
    "compare": "Ask every witness of a lab the same question, and judge the gaps.",
}


def verb(name: str, words: Sequence[str]) -> type[Command]:
    """The command of a verb, for the lab that the next word names or else for every lab."""
    labs = _commands(name, words[0] if words else "")

    def run(self: Any) -> int:
        """Do it for the chosen lab."""
        return self.lab.run()

    namespace = {"__doc__": VERBS[name], "labs": labs, "run": run}
    part = ("lab", Annotated[Command, choice(labs)])
    return make_dataclass(name.capitalize(), [part], frozen=True, namespace=namespace)


def _commands(name: str, word: str) -> Mapping[str, type[Command]]:
    from .. import labs

    if word in PAPERS or (word and not word.startswith("-") and word in labs.names()):
        known = labs.lab(word)
        if can(known, name):
            return {word: _command(known, name)}
        if known.question is None:
            raise ValueError(f"{word} has no description yet, which {name} needs")
        raise ValueError(f"{word} has no witness to {name} with, but {', '.join(known.witnesses)}")
    return {n: _command(lab, name) for n, lab in labs.labs().items() if can(lab, name)}


def verbs_of(name: str) -> Mapping[str, type[Command]]:
    """A lab's command of every verb that it has."""
    from .. import labs

    lab = labs.lab(name)
    return {verb: _command(lab, verb) for verb in VERBS if can(lab, verb)}


def can(lab: Lab, name: str) -> bool:
    """Whether a lab has what a verb asks for."""
    trains = [who.trains for who in lab.witnesses.values()]
    in_time = [who for who in lab.witnesses.values() if who.axis == "time"]
    return {
        "solve": False in trains,
        "train": True in trains,
        "compare": True in trains and len(in_time) > 1,
    }[name]


def _command(lab: Lab, name: str) -> type[Command]:
    from .asking import command

    return command(lab, name)
