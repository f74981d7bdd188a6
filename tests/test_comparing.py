"""Comparisons: what differs is told from what agrees, by allowances that are measured."""

import json
import sys
from dataclasses import dataclass, field
from types import ModuleType

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import solvable
from solvable.asking import Lab, Witness
from solvable.comparing import compare, worst
from solvable.papers import Paper
from solvable.question import Group, Question, real, whole
from solvable.schedule import Schedule
from solvable.training import Run, Training

SMALL = {"num_tasks": 8, "context": 12.0, "lr": 0.01, "steps": 400}


@pytest.fixture(scope="module")
def lab():
    return solvable.lab("msfr")


def verdicts(data):
    return json.loads(data.attrs["verdicts"]), json.loads(data.attrs["silent"])


def test_the_allowance_is_what_the_step_is_worth(lab):
    """Twice what halving lr changes is the gap to the flow, to first order in lr."""
    data = compare(lab, points=12, **SMALL)
    told, silent = verdicts(data)
    assert told == {"theory": "agrees"}
    assert silent == {"tokens": "data or batch must be given for the tokens"}
    gap, allowed = (data[name].sel(witness="theory")[1:] for name in ("gap", "allowed"))
    np.testing.assert_allclose(gap / (allowed / 1.2), 1.0, atol=0.05)
    coarse = worst(compare(lab, points=12, **{**SMALL, "lr": 0.02, "steps": 200}), "theory")[0]
    assert coarse / worst(data, "theory")[0] == pytest.approx(2.0, rel=0.1)


def test_order_zero_differs_where_contexts_are_short(lab):
    data = compare(lab, order="zeroth", **SMALL)
    assert verdicts(data)[0] == {"theory": "differs"}
    assert data.attrs["agrees"] == 0
    assert worst(data, "theory")[0] == pytest.approx(0.31, abs=0.01)
    assert worst(data, "theory")[1] > 1.0


def test_with_a_data_set_the_theory_agrees_in_law_and_tokens_to_round_off(lab):
    data = compare(lab, data=400, **SMALL)
    told, silent = verdicts(data)
    assert not silent
    assert told["tokens"] == "agrees"
    assert told["theory"].startswith("agrees in law (")
    assert worst(data, "tokens")[0] < 1e-13
    assert data.attrs["seeds"] == 16
    # Without the step's share 16 seeds would tell the flow from the steps.
    error = (data.allowed - 1e-9).sel(witness="theory")
    assert float(data.errors.sel(witness="theory").max()) < 5.0
    assert bool((error > 0).all())


def test_those_who_cannot_answer_are_silent_with_a_reason(lab):
    told, silent = verdicts(compare(lab, attention="softmax", data=40, **SMALL))
    assert told == {"tokens": "agrees"}
    assert silent["theory"].startswith("its keys are at rest, and training moves them where u")
    told, silent = verdicts(compare(lab, batch=8, **SMALL))
    assert told == {"tokens": "agrees"}
    with pytest.raises(ValueError, match="nothing can be compared with the reduced: theory: its"):
        compare(lab, attention="softmax", **SMALL)


def test_softmax_attention_agrees_where_its_keys_do_not_move(lab):
    data = compare(lab, attention="softmax", key=2.0, query=2.0, **SMALL)
    assert verdicts(data)[0] == {"theory": "agrees"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, {"theory": "agrees", "tokens": "agrees"}),
        ({"start": "sphere"}, {"tokens": "agrees"}),
    ],
)
def test_single_location_agrees(given, told):
    data = compare(solvable.lab("single_location"), dim=40, length=5, steps=500, **given)
    assert verdicts(data)[0] == told
    assert set(data.gap.dims) == {"witness", "run", "time"}


def test_sgd_agrees_in_law_where_draws_differ():
    lab = solvable.lab("single_location")
    data = compare(lab, dim=40, length=5, steps=300, batch=4, seeds=6)
    told, silent = verdicts(data)
    assert told["tokens"].startswith("agrees in law")
    assert silent == {"theory": "batch must be left out for the theory, not 4"}


# A toy whose answers are known, and whose faults are planted: gradient descent on ½ k x².


@dataclass(frozen=True)
class Spring(Group):
    """A spring."""

    rate: float = real(1.0, "k", "rate", 0.0, 10.0, open_low=True)
    fault: float = real(0.0, "f", "relative error of the theory", quiet=True)
    slip: float = real(0.0, "s", "relative error of the tokens", quiet=True)
    noise: float | None = real(None, "σ", "spread of the start", 0.0, 1.0)
    shift: float = real(0.0, "d", "what the mean of the start is off", quiet=True)
    size: int = whole(1, "n", "number of springs", 1, quiet=True)


@dataclass(frozen=True)
class Asked(Question):
    """Of a spring."""

    spring: Spring = field(default_factory=Spring)
    schedule: Schedule = field(default_factory=lambda: Schedule(lr=0.05, steps=100))


class Problem(eqx.Module):
    rate: Array
    factor: Array

    def gradient(self, x, step):
        return self.rate * x

    def observe(self, x):
        return {"loss": self.factor * 0.5 * self.rate * jnp.sum(x**2)}


def toy():
    module = ModuleType("spring_witnesses")

    def theory(q):
        spread = q.spring.noise or 0.0

        def at(t):
            mean = 0.5 * q.spring.rate * np.exp(-2 * q.spring.rate * t) * (1 + spread**2)
            return {"loss": mean * (1 + q.spring.fault)}

        return at

    def trained(q, factor, seed):
        draw = np.random.default_rng(seed).standard_normal()
        start = jnp.asarray([1.0 + q.spring.shift + (q.spring.noise or 0.0) * draw])
        problem = Problem(jnp.asarray(q.spring.rate), jnp.asarray(factor))
        origin = {"kind": "spring", **vars(q.spring), "seed": q.schedule.seed}
        return Training(lambda: (problem, start), Run.of, origin, lr=q.schedule.lr)

    module.theory = theory
    module.reduced = lambda q: trained(q, 1.0, q.schedule.seed)
    module.tokens = lambda q: trained(q, 1.0 + q.spring.slip, 1000 + q.schedule.seed)
    sys.modules["spring_witnesses"] = module
    takes = ("spring", "schedule")
    return Lab(
        Paper("spring", "hooke1678", "Ut tensio, sic vis", ("R. Hooke",), "London", 1678),
        Asked,
        module="spring_witnesses",
        witnesses={
            "theory": Witness("theory", ("spring",), in_law=("noise",)),
            "reduced": Witness("reduced", takes, trains=True),
            "tokens": Witness("tokens", takes, trains=True, in_law=("noise",)),
        },
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ("agrees", "agrees")),
        ({"fault": 1e-3}, ("differs", "agrees")),
        ({"fault": -1e-3}, ("differs", "agrees")),
        ({"slip": 3e-9}, ("agrees", "differs")),
        ({"slip": 3e-10}, ("agrees", "agrees")),
    ],
)
def test_planted_faults_are_found(given, told):
    """At t = 0 nothing has moved: there the step is worth nothing, and 1e-9 is all."""
    found = verdicts(compare(toy(), **given))[0]
    assert (found["theory"], found["tokens"]) == told


def test_in_law_a_shift_of_the_mean_is_found_and_the_spread_is_allowed():
    lab = toy()
    fair, _ = verdicts(compare(lab, noise=0.1, seeds=32))
    assert fair["theory"].startswith("agrees in law")
    assert fair["tokens"].startswith("agrees in law")
    off, _ = verdicts(compare(lab, noise=0.01, shift=0.2, seeds=32))
    assert off["theory"].startswith("differs in law")


def test_a_step_that_is_far_too_large_judges_nothing(lab):
    """Training that is chaotic, or grows, while all that it changes is called the step's."""
    told = verdicts(compare(lab, context=5.0, lr=1.0, steps=50))[0]
    assert told["theory"] == "not judged: lr is too large to follow the flow"
    for rate in (2.1, 3.0):
        told = verdicts(compare(toy(), lr=rate, steps=200, fault=0.5))[0]
        assert told["theory"].startswith("not judged: ")


def test_one_seed_stands_beside_the_first_at_that_seed(lab):
    """Tokens agree seed by seed: their loss is of one seed, where the others' are means."""
    data = compare(lab, data=40, seeds=3, **SMALL)
    assert json.loads(data.attrs["alone"]) == ["tokens"]
    np.testing.assert_allclose(data.loss.sel(witness="tokens"), data.single, rtol=1e-12)
    assert abs(data.loss.sel(witness="reduced") / data.single - 1.0).max() > 1e-3
    assert "single" not in compare(lab, **SMALL)


def test_what_is_broken_is_not_silent(monkeypatch):
    lab = toy()
    monkeypatch.delattr(sys.modules["spring_witnesses"], "tokens")
    with pytest.raises(ValueError, match="spring_witnesses must have a function tokens"):
        compare(lab)


def test_what_cannot_be_judged_says_why():
    told = verdicts(compare(toy(), lr=50.0, steps=400))[0]
    assert told["theory"].startswith("not judged: the loss is not finite at step ")
    assert compare(toy(), lr=50.0, steps=400).attrs["agrees"] == 0
    stiff = {"dim": 40, "length": 5, "steps": 500, "gamma": 1000.0}
    told = verdicts(compare(solvable.lab("single_location"), **stiff))[0]
    assert told["theory"] == "not judged: lr is too large to follow the flow"


def test_seeds_that_all_drew_the_same_judge_nothing(lab):
    """Ten data of which hardly one is of the second task: its share has no spread in 16 seeds."""
    rare = {"num_tasks": 2, "alpha": 10.0, "context": 12.0, "lr": 0.01, "steps": 50, "data": 10}
    told = verdicts(compare(lab, **rare))[0]
    assert told["theory"] == "not judged: all seeds drew the same; --seeds takes more"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("msfr", {"strength": -0.5}),
        ("msfr", {"w": 0.0}),
        ("msfr", {"beta": 100.0}),
        ("msfr", {"alpha": 10.0}),
        ("single_location", {"lam": 0.5}),
        ("single_location", {"kappa": 1.0}),
        ("single_location", {"gamma": 3.0}),
    ],
    ids=str,
)
def test_a_right_theory_agrees_where_the_first_order_of_the_step_vanishes(name, given):
    """What lr changes has no first order at some time: the second is what the step is worth."""
    usual = SMALL if name == "msfr" else {"dim": 40, "length": 5, "steps": 500}
    data = compare(solvable.lab(name), points=400, **{**usual, **given})
    assert verdicts(data)[0]["theory"] == "agrees"
    assert worst(data, "theory")[1] < 0.9


def test_contexts_that_training_rounds_leave_the_theory_silent(lab):
    told, silent = verdicts(compare(lab, data=40, **{**SMALL, "context": 2.5}))
    assert told == {"tokens": "agrees"}
    assert silent == {
        "theory": "contexts must be whole where data is given, as training rounds them"
    }


@pytest.mark.parametrize(("given", "words"), [({"points": 1}, "points"), ({"seeds": 1}, "seeds")])
def test_few_points_or_seeds_are_refused(lab, given, words):
    with pytest.raises(ValueError, match=f"{words} must be a whole number, at least 2, not 1"):
        compare(lab, **given)


def test_untied_layers_follow_their_flow():
    lab = solvable.lab("deep_icl")
    told = {"layers": "untied", "depth": 3, "gamma": (0.0, 0.5, 1.5), "dim": 16}
    found = lab.compare(**told, lr=0.05, steps=400)
    assert json.loads(found.attrs["verdicts"])["theory"] == "agrees"
    # Equal layers of the same mean are another flow.
    other = lab.ask(**told | {"gamma": 2.0 / 3.0}, at=found.time.values)
    allowed = found.allowed.sel(witness="theory")
    first = found.loss.sel(witness="reduced")
    assert float((abs(other.loss.values / first - 1.0) / allowed)[1:].max()) > 1.0
