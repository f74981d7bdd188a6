"""Labs by their descriptions: answers are the typed API's bit for bit, with all they depend on."""

import json
import math

import numpy as np
import pytest

import solvable
from solvable import deep_icl, msfr, training
from solvable import single_location as sl
from solvable.asking import Lab, Witness
from solvable.labs.msfr import Asked
from solvable.papers import PAPERS
from solvable.question import Question

LAW = {"num_tasks": 7, "context": 12.0, "beta": 0.4, "gamma": 0.2}
TASK = {"alpha": 1.8, "strength": 0.5, **LAW}


@pytest.fixture
def lab():
    return solvable.lab("msfr")


def test_an_answer_is_that_of_the_typed_api(lab):
    t = np.geomspace(0.01, 10.0, 9)
    data = lab.ask(**LAW, size=4, data=30, order="zeroth", at=t)
    loss = msfr.loss(msfr.Task(**TASK), msfr.Init(0.1, 0.11), t, "zeroth", size=4, data=30)
    assert data.loss.values.tolist() == loss.tolist()
    assert data.loss.dims == ("time",)
    assert data.time.values.tolist() == t.tolist()


def test_a_run_is_that_of_the_typed_api(lab):
    data = lab.ask(witness="reduced", **LAW, steps=40, batch=8, seed=3, lr=0.01)
    run = msfr.train(msfr.Task(**TASK), msfr.Init(0.1, 0.11), lr=0.01, steps=40, batch=8, seed=3)
    assert data.loss.values.tolist() == run.loss.tolist()
    assert data.predictions.dims == ("task", "time")
    assert data.step.values.tolist() == run.step.tolist()
    assert np.diff(data.step.values[:6]).tolist() == [1] * 5  # log-spaced, not every 400th


def test_a_decaying_temperature_from_the_sphere_is_the_typed_api_s():
    fields = {"dim": 20, "length": 4, "start": "sphere", "runs": 3, "seed": 2, "lam": 1.0}
    data = solvable.lab("single_location").ask(
        witness="reduced", **fields, lam_decay=0.5, lr=0.01, steps=30
    )
    task = sl.Task(dim=20, length=4)
    run = sl.train(
        task, sl.sphere(task, 3, seed=2), lam=sl.decay(1.0, 0.5), lr=0.01, steps=30, seed=2
    )
    assert data.loss.dims == ("run", "time")
    assert data.kappa.values.tolist() == run.kappa.tolist()


def test_an_answer_says_what_it_depends_on(lab):
    data = lab.ask(**LAW, at=[0.1])
    assert (data.attrs["lab"], data.attrs["witness"]) == ("msfr", "theory")
    assert Asked.of(data.attrs["question"]) == Asked().changed(**LAW).settled()
    assert data.attrs["caption"] == (
        "S = 7, α = 1.8, ψ₁ = 12, Λ₁ = 0.5, β = 0.4, γ = 0.2, v = 0.1, w = 0.11"
    )
    assert set(json.loads(data.attrs["versions"])) == {
        "solvable",
        "python",
        "jax",
        "jaxlib",
        "numpy",
        "scipy",
    }
    again = lab.ask(Asked.of(data.attrs["question"]), at=[0.1])
    assert again.identical(data)


def test_an_answer_survives_a_zarr_store(lab, tmp_path):
    import xarray as xr

    from solvable import stores

    data = lab.ask(witness="reduced", **LAW, steps=10)
    stores.write(data, tmp_path / "run.zarr")
    with xr.open_zarr(tmp_path / "run.zarr") as found:
        assert found.load().identical(data)


def test_what_is_assumed_is_said(lab):
    data = lab.ask(witness="tokens", num_tasks=3, context=4, steps=2)
    assert data.attrs["assumed"] == (
        "data or batch must be given for the tokens: taking data = 400"
    )
    assert json.loads(data.attrs["question"])["limits"]["data"] == 400
    assert (
        lab.ask(witness="tokens", num_tasks=3, context=4, steps=2, batch=3).attrs["assumed"] == ""
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"witness": "oracle"}, "witness must be one of theory, reduced, tokens, not 'oracle'"),
        ({"alpha": 1}, r"alpha must lie in \(1, 10\], not 1"),
        ({"alfa": 2}, r"alfa is no field of the question; did you mean alpha\?"),
        ({"optimizer": "adamw"}, "optimizer must be gd for the theory, not adamw"),
        ({"batch": 8}, "batch must be left out for the theory, not 8"),
        ({"witness": "reduced", "at": [1.0]}, "at is for a witness that does not train"),
        ({"witness": "reduced", "data": 9, "batch": 10}, "batch must be .* from 1 to 9, not 10"),
        ({"at": [[1.0]]}, r"at must be one axis of times, not of shape \(1, 1\)"),
        ({"at": ["a"]}, "at must be a number or an array of numbers, not"),
        ({"question": Question()}, r"question must be a solvable\.labs\.msfr\.Asked, not Question"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence(lab, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        lab.ask(**given)


def test_a_lab_without_questions_says_so():
    with pytest.raises(ValueError, match="msfr has no description yet"):
        Lab(PAPERS["msfr"]).ask()


def test_a_description_is_checked_when_it_is_made():
    paper = PAPERS["msfr"]
    with pytest.raises(ValueError, match="theory of msfr names 'alfa', no group and no field"):
        Lab(paper, Asked, witnesses={"theory": Witness("x", ("alfa",))})


def test_a_run_goes_on_from_another(lab):
    from solvable.labs import msfr as described

    question = described.Asked().changed(**LAW, steps=20, lr=0.01).settled()
    run = lab.training(question, "reduced").run(steps=20, log_every=5)
    data = lab.ask(question.changed(steps=40, log_every=5), "reduced", resume=run)
    whole = lab.ask(question.changed(steps=40, log_every=5), "reduced")
    assert data.loss.values.tolist() == whole.loss.values.tolist()
    with pytest.raises(ValueError, match=r"its task\.alpha is 1\.8, here it is 1\.9"):
        lab.ask(question.changed(steps=40, alpha=1.9), "reduced", resume=run)
    with pytest.raises(ValueError, match="resume is for a witness that trains, not for theory"):
        lab.ask(resume=run)
    assert isinstance(run, training.Run)


# Answers over other axes than time.

DEEP = {"nu": 1.25, "beta": 0.7, "dim": 12}


@pytest.fixture
def deep():
    return solvable.lab("deep_icl")


def test_a_field_that_can_spread_is_an_axis_of_the_answer(deep):
    t = [0.5, 20.0]
    task = deep_icl.RotatedStructure(**DEEP)
    data = deep.ask(**DEEP, depth=[2, math.inf], at=t)
    assert data.loss.dims == ("time", "depth")
    assert data.depth.values.tolist() == [2.0, math.inf]
    assert data.loss.values.tolist() == deep_icl.loss_curve(task, t, [2, None]).tolist()
    assert deep.ask(**DEEP, depth=2, at=t).loss.dims == ("time",)
    assert deep.ask(**DEEP, depth=[2], at=t).sizes == {"time": 2, "depth": 1}
    assert deep.ask(**DEEP, at=t).depth.values.tolist() == [1, 2, 4, 8]  # the lab's spread
    assert deep.ask(witness="reduced", **DEEP, steps=1).attrs["caption"].count("L = 8") == 1


def test_a_witness_may_have_no_time(deep):
    data = deep.ask(witness="optimum", **DEEP)
    assert data.loss.dims == ("depth",)
    assert "time" not in data.coords
    single = deep.ask(witness="optimum", **DEEP, depth=4)
    assert (single.loss.dims, single.attrs["over"]) == ((), "")
    best = deep_icl.optimum(deep_icl.RotatedStructure(**DEEP), 4)
    assert single.loss.item() == best.loss.item()


def test_an_answer_goes_over_an_axis_by_name(deep):
    data = deep.ask(over="width", at=[4, 6], **DEEP, context=20, depth=2)
    assert (data.attrs["witness"], data.attrs["over"]) == ("optimum", "width")
    task = deep_icl.RotatedStructure(**DEEP, width=6, context=20)
    assert data.loss.values[1] == deep_icl.optimum(task, 2).loss
    again = deep.ask(deep.described.of(data.attrs["question"]), "optimum")
    assert again.identical(data)
    assert deep.ask(over="width", **DEEP, depth=1).width.values.tolist() == [4, 8, 12]
    land = deep.ask(over="step_size", points=3, **DEEP, depth=1)
    assert land.step_size.values.tolist() == [0.0, 1.0, 2.0]  # the edge is 1
    assert deep.ask(over="time", points=3, **DEEP, depth=1).sizes == {"time": 3}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"over": "colour"}, "over must be one of time, step_size, width, context, alpha, depth"),
        ({"over": "width", "witness": "theory"}, "over must be one of time, not 'width'"),
        ({"witness": "optimum", "at": [1]}, "at needs over, one of width, context, alpha, depth"),
        ({"width": (4, 8)}, "width must be one number for the theory, not 4 8"),
        ({"witness": "reduced", "depth": (1, 2)}, "depth must be one number for the reduced, not"),
        ({"over": "step_size", "points": 1}, "points must be a whole number, at least 2, not 1"),
        (
            {"layers": "untied", "over": "step_size"},
            "layers must be tied for the landscape",
        ),
    ],
)
def test_what_cannot_be_gone_over_is_refused(deep, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        deep.ask(**given)


def test_a_description_says_rightly_what_spreads():
    paper, kind = PAPERS["deep_icl"], solvable.lab("deep_icl").described
    with pytest.raises(ValueError, match="goes over 'noise': it cannot spread"):
        Lab(paper, kind, witnesses={"a": Witness("x", ("task",), over={"noise": (1.0,)})})
    with pytest.raises(ValueError, match="deep_icl must have time for its axis: a trains"):
        Lab(paper, kind, witnesses={"a": Witness("x", ("task",), trains=True, axis="")})
