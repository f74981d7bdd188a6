"""Labs of other packages that have less, or are wrong: told in one sentence, never a traceback."""

import jax
import pytest
from tests.command import Outcome
from tests.outside.packages import installed

from solvable import lab

PROJECT = """
[project]
name = "odd"
version = "1.0"

[project.entry-points."solvable.labs"]
odd = "odd.lab:LAB"
"""
LAB = """
from dataclasses import dataclass

from solvable import Lab
from solvable.asking import Witness
from solvable.papers import Paper
from solvable.question import Group, Question, real
from solvable.schedule import Schedule


@dataclass(frozen=True)
class Task(Group):
    rate: float = real(1.0, "k", "rate k", 0.0, 5.0)


@dataclass(frozen=True)
class Asked(Question):
    task: Task = Task()
    schedule: Schedule = Schedule(lr=0.05, steps=77)


LAB = Lab(
    Paper("odd", "odd2026", "Odd", ("A. Nobody",), "Nowhere", 2026),
    Asked,
    "odd.witnesses",
    {
        "theory": Witness("told", ("task",)),
        "reduced": Witness("trained", ("task", "schedule"), trains=True),
    },
)
"""
WITNESSES = """
import equinox as eqx
import jax
import jax.numpy as jnp
from solvable.training import Run, Training


class Relaxing(eqx.Module):
    k: jax.Array

    def gradient(self, x, step):
        return self.k * x

    def observe(self, x):
        return {"loss": 0.5 * self.k * x**2}


def theory(q):
    return lambda t: {"loss": 0.5 * q.task.rate * jnp.exp(-2.0 * q.task.rate * jnp.asarray(t))}


def reduced(q):
    made = lambda: (Relaxing(jnp.asarray(q.task.rate)), jnp.asarray(1.0))
    return Training(made, Run.of, {"kind": "odd", "task": q.task}, lr=q.schedule.lr)
"""
THEORY, REDUCED = (
    '        "theory": Witness("told", ("task",)),\n',
    '        "reduced": Witness("trained", ("task", "schedule"), trains=True),\n',
)


@pytest.fixture
def odd(tmp_path):
    """Installs the lab with some of its text replaced; for one test."""
    found = []

    def install(lab=(), witnesses=()):
        texts = []
        for text, changes in ((LAB, lab), (WITNESSES, witnesses)):
            for old, new in changes:
                assert old in text
                text = text.replace(old, new)
            texts.append(text)
        files = {"src/odd/lab.py": texts[0], "src/odd/witnesses.py": texts[1]}
        found.append(installed({"pyproject.toml": PROJECT, **files}, tmp_path))
        found[-1].__enter__()

    yield install
    for one in found:
        one.__exit__(None, None, None)


def assert_one_sentence(done: Outcome, word: str) -> None:
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("solvable: ")
    assert done.err.count("\n") == 1
    assert word in done.err


def test_as_it_is_it_works(odd, solvable):
    odd()
    assert solvable("compare", "odd").status == 0


def test_with_a_closed_form_alone_it_is_solved(odd, solvable):
    odd(lab=[(REDUCED, "")])
    assert solvable("solve", "odd").status == 0
    assert "--with" not in solvable("solve", "odd", "--help").out
    assert_one_sentence(solvable("train", "odd"), "odd has no witness to train with, but theory")


def test_with_training_alone_it_is_trained(odd, solvable):
    odd(lab=[(THEORY, "")])
    assert solvable("train", "odd").status == 0
    assert "--with" not in solvable("train", "odd", "--help").out
    assert_one_sentence(solvable("solve", "odd"), "odd has no witness to solve with, but reduced")


def test_help_tells_the_defaults_that_are_taken(odd, solvable):
    """A group may be made with other defaults than its type has."""
    odd()
    told = " ".join(solvable("train", "odd", "--help").out.replace("│", " ").split())
    assert "learning rate, above 0 (default: 0.05)" in told
    assert "number of steps, at least 0 (default: 77)" in told


def test_witnesses_that_cannot_be_imported(odd, solvable):
    odd(witnesses=[("import jax\n", "import jacks\n")])
    assert solvable("solve", "odd", "--help").status == 0
    assert_one_sentence(solvable("solve", "odd"), "jacks")


def test_a_witness_that_is_not_there(odd, solvable):
    odd(witnesses=[("def theory(q)", "def thoery(q)")])
    assert_one_sentence(solvable("solve", "odd"), "theory")


def test_a_witness_without_a_loss(odd, solvable):
    odd(witnesses=[('t: {"loss"', 't: {"lost"')])
    assert_one_sentence(solvable("compare", "odd"), "loss")


def test_a_witness_that_takes_what_there_is_not(odd, solvable):
    odd(lab=[('("task",)', '("tsak",)')])
    assert_one_sentence(solvable("solve", "odd"), "'tsak'")


@pytest.mark.parametrize("name", ["points", "csv", "witness", "at"])
def test_a_field_with_the_name_of_an_option(odd, solvable, name):
    """Of a verb, or of `ask`: it could be told by nobody."""
    odd(lab=[("    rate: float", f"    {name}: float = real(1.0, 'p', 'p', 0.0)\n    rate: float")])
    for verb in ("solve", "train", "compare"):
        assert_one_sentence(solvable(verb, "odd"), name)


@pytest.mark.parametrize("name", ["output", "compute", "time"])
def test_a_group_with_the_name_of_one_of_ours(odd, solvable, name):
    odd(lab=[("    task: Task", f"    {name}: Task"), ('("task"', f'("{name}"')])
    for verb in ("solve", "train", "compare"):
        assert_one_sentence(solvable(verb, "odd"), name)


def test_single_precision_is_refused(odd):
    """Also of witnesses that do not ask for double precision themselves."""
    odd()
    with jax.enable_x64(False), pytest.raises(ValueError, match="double precision"):
        lab("odd").ask(at=[1.0])
