"""``solvable solve deep_icl`` and ``solvable train deep_icl``."""

import csv

import numpy as np
import pytest
from tests.command import document

from solvable import deep_icl

pytestmark = pytest.mark.slow

SMALL = ("--nu", 1.25, "--beta", 0.7, "--dim", 12)
RRS = deep_icl.RotatedStructure(nu=1.25, beta=0.7, dim=12)
NARROW = deep_icl.RotatedStructure(nu=1.25, beta=0.7, dim=12, width=6, context=20)
FS = deep_icl.FixedStructure(nu=1.25, beta=0.7, dim=12)


# What is said on the command line, and the same from Python.
CURVES = {
    "rrs": (
        "--nu 1.25 --beta 0.7 --dim 12 --gamma 0.1 --time matrix",
        lambda t, depth: deep_icl.loss_curve(
            RRS, t, depth, start=deep_icl.Init(gamma=0.1), time="matrix"
        ),
    ),
    "full attention": (
        "--nu 1.25 --beta 0.7 --dim 12 --weights 0.4",
        lambda t, depth: deep_icl.loss_curve(RRS, t, depth, start=deep_icl.Init(weights=0.4)),
    ),
    "fs": (
        "--law fs --nu 1.25 --beta 0.7 --dim 12",
        lambda t, depth: deep_icl.loss_curve(FS, t, depth),
    ),
    "iso": (
        "--law iso --alpha 1.5 --noise 0.5",
        lambda t, depth: deep_icl.loss_curve(deep_icl.Isotropic(1.5, 0.5), t, depth),
    ),
}


@pytest.mark.parametrize("case", CURVES)
def test_the_flow_is_that_of_the_python_api(solvable, case):
    words, curve = CURVES[case]
    asked = ("--depth", 1, 4, "--t-max", 50, "--points", 6, "--json")
    told = document(solvable("solve", "deep_icl", *words.split(), *asked))
    loss = curve(told["time"], [1, 4])
    assert told["depths"] == [1, 4]
    np.testing.assert_array_equal(told["loss_1"], loss[:, 0])
    np.testing.assert_array_equal(told["loss_4"], loss[:, 1])
    assert "loss" not in told


def test_one_depth_has_one_column_of_losses(solvable):
    words = ("--law", "fs", *SMALL, "--depth", "inf", "--points", 3, "--json")
    told = document(solvable("solve", "deep_icl", *words))
    assert told["depths"] == [None]
    assert told["loss"] == deep_icl.loss_curve(FS, told["time"], None).tolist()


def test_solve_tells_the_optima_floors_and_exponents(solvable):
    words = (*SMALL, "--width", 6, "--context", 20, "--depth", 2, "--points", 2)
    told = document(solvable("solve", "deep_icl", *words, "--json"))["theory"]
    best, edge = deep_icl.optimum(NARROW, 2), deep_icl.edge(NARROW).item()
    (optimum,) = told["optimum"]
    assert (optimum["depth"], optimum["gamma"]) == (2, best.gamma.item())
    assert optimum["loss"] == best.loss.item()
    assert optimum["load"] == pytest.approx(best.gamma.item() * edge / 2, rel=1e-15)
    assert told["edge"] == edge
    for limit in ("width", "context", "both"):
        assert told["floors"][limit] == deep_icl.floor(NARROW, limit).item()
    powers = deep_icl.exponents(1.25, 0.7)
    assert told["exponents"]["width"] == powers.width
    assert told["exponents"]["compute"] == powers.compute()
    out = solvable("solve", "deep_icl", *words).out
    assert f"both {told['floors']['both']:.5g}" in out
    assert "capped" not in out


def test_exponents_with_a_cap_say_so_and_those_of_weights_are_theirs(solvable):
    words = ("--dim", 12, "--beta", 1.5, "--depth", 2, "--points", 2)
    out = solvable("solve", "deep_icl", *words).out
    assert "width 1.5 (capped), context 2.25\n" in out
    told = document(solvable("solve", "deep_icl", *words, "--weights", 0.4, "--json"))["theory"]
    assert told["exponents"]["time"] == deep_icl.attention_time_exponent(1.5)
    assert "compute" not in told["exponents"]


def test_matrix_time_has_another_compute_exponent(solvable):
    words = ("--depth", 2, "--points", 2, "--time", "matrix", "--json")
    told = document(solvable("solve", "deep_icl", *words))["theory"]
    assert told["exponents"]["compute"] == deep_icl.exponents(1.5, 0.8, "matrix").compute()


@pytest.mark.parametrize("law", ["rrs", "fs", "iso"])
def test_the_landscape_goes_to_the_edge_of_stability(solvable, law):
    words = () if law == "iso" else SMALL
    task = {"rrs": RRS, "fs": FS, "iso": deep_icl.Isotropic(2.0)}[law]
    asked = ("--law", law, *words, "--over", "gamma", "--depth", 3, 1, "--points", 5, "--json")
    told = document(solvable("solve", "deep_icl", *asked))
    assert told["step_size"] == np.linspace(0.0, 2.0 / deep_icl.edge(task).item(), 5).tolist()
    at = told["step_size"][3]
    here = [deep_icl.loss(task, step_size=at, depth=depth).item() for depth in (3, 1)]
    assert [told["loss_3"][3], told["loss_1"][3]] == pytest.approx(here, rel=1e-13)
    assert told["loss_3"][0] == pytest.approx(1.0, rel=1e-13)


def test_over_depth_the_optimum_is_told_with_its_load(solvable):
    told = document(solvable("solve", "deep_icl", "--over", "depth", "--json"))
    assert told["depth"] == [1, 2, 4, 8, 16, 32]
    best = deep_icl.optimum(deep_icl.RotatedStructure(1.5, 0.8, 64), told["depth"])
    assert (told["gamma"], told["loss"]) == (best.gamma.tolist(), best.loss.tolist())
    assert told["load"] == pytest.approx(np.asarray(best.gamma) / told["depth"])  # the edge is 1
    assert told["floor"] == pytest.approx(told["loss"], rel=1e-12)
    words = ("--over", "depth", "--depth", 2, "inf", "--json")
    told = document(solvable("solve", "deep_icl", *SMALL, *words))
    assert (told["depth"], told["load"][1], told["loss"][1]) == ([2, None], None, 0.0)


def test_over_a_resource_the_optimum_is_told_with_the_floor(solvable):
    words = ("--context", 20, "--over", "width", "--at", 4, 6, "--depth", 2, "--json")
    told = document(solvable("solve", "deep_icl", *SMALL, *words))
    assert told["width"] == [4, 6]
    assert told["loss"][1] == deep_icl.optimum(NARROW, 2).loss.item()
    assert told["floor"][1] == deep_icl.floor(NARROW, "width").item()
    told = document(solvable("solve", "deep_icl", "--law", "iso", "--over", "alpha", "--json"))
    assert told["alpha"] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert told["loss_1"] == pytest.approx([1.0 / (1.0 + alpha) for alpha in told["alpha"]])
    words = ("--law", "fs", *SMALL, "--over", "context", "--at", 5, "--depth", 1, "--json")
    task = deep_icl.FixedStructure(1.25, 0.7, 12, context=5)
    told = document(solvable("solve", "deep_icl", *words))
    assert told["loss"] == [deep_icl.optimum(task, 1).loss.item()]


def test_powers_of_2_up_to_the_dimension_unless_told(solvable):
    words = (*SMALL, "--over", "width", "--depth", 1, "--json")
    told = document(solvable("solve", "deep_icl", *words))
    assert told["width"] == [4, 8, 12]
    assert told["floor"][-1] == 0.0


RUNS = {
    "gamma": (
        "--nu 1.25 --beta 0.7 --dim 12 --steps 30 --gamma 0.2 --depth 3",
        lambda: deep_icl.train(RRS, deep_icl.Init(gamma=0.2), depth=3, lr=0.5, steps=30),
    ),
    "weights": (
        "--nu 1.25 --beta 0.7 --dim 12 --weights 0.4 --steps 30 --log-every 7",
        lambda: deep_icl.train(
            RRS, deep_icl.Init(weights=0.4), depth=8, lr=0.02, steps=30, log_every=7
        ),
    ),
    "untied in matrix time": (
        "--nu 1.25 --beta 0.7 --dim 12 --layers untied --time matrix --lr 2 --depth 2 --steps 20",
        lambda: deep_icl.train(
            RRS,
            deep_icl.Init(gamma=0.0),
            depth=2,
            lr=2.0,
            steps=20,
            layers="untied",
            time="matrix",
        ),
    ),
    "finite": (
        "--nu 1.25 --beta 0.7 --dim 12 --width 6 --context 20 --depth 2 --steps 10",
        lambda: deep_icl.train(NARROW, deep_icl.Init(gamma=0.0), depth=2, lr=0.5, steps=10),
    ),
    "fs": (
        "--law fs --nu 1.25 --beta 0.7 --dim 12 --steps 20 --depth 2",
        lambda: deep_icl.train(FS, deep_icl.Init(gamma=0.0), depth=2, lr=0.5, steps=20),
    ),
    "brute force": (
        "--law iso --alpha 2 --dim 4 --depth 2 --lr 0.1 --steps 10 --brute --contexts 8 --seed 3 "
        "--noise 0.1",
        lambda: deep_icl.train_brute(
            deep_icl.Isotropic(2.0, 0.1, dim=4),
            deep_icl.Init(gamma=0.0),
            depth=2,
            lr=0.1,
            steps=10,
            contexts=8,
            seed=3,
        ),
    ),
    "brute force of full attention": (
        "--law iso --alpha 2 --dim 4 --depth 2 --steps 10 --brute --contexts 8 --weights 0.4 "
        "--queries 3",
        lambda: deep_icl.train_brute(
            deep_icl.Isotropic(2.0, dim=4, queries=3),
            deep_icl.Init(weights=0.4),
            depth=2,
            lr=0.02,
            steps=10,
            contexts=8,
        ),
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_training_is_that_of_the_python_api(solvable, case):
    words, train = RUNS[case]
    told = document(solvable("train", "deep_icl", *words.split(), "--json"))
    run = train()
    for name in ("step", "time", "loss"):
        assert told[name] == np.asarray(getattr(run, name)).tolist()
    if run.gamma.ndim > 1:
        assert told["each_gamma"] == run.gamma.tolist()
        assert told["gamma"] == run.gamma.mean(0).tolist()
    else:
        assert (told["each_gamma"], told["gamma"]) == (None, run.gamma.tolist())
    assert ("w_x" in told) == ("weights" in words)
    if run.weights is not None:
        assert [told[name] for name in ("w_x", "w_q", "w_k", "w_v")] == run.weights.tolist()
    assert told["brute"] is ("brute" in case)
    assert told["interrupted"] is False


def test_runs_are_short_where_a_step_takes_its_time(solvable):
    for words, steps in ((("--depth", 2), 2000), (("--depth", 2, "--context", 20), 200)):
        told = document(solvable("train", "deep_icl", *SMALL, *words, "--json"))
        assert (told["step"][-1], told["descent"]["steps"]) == (steps, steps)


def test_training_follows_the_flow_up_to_its_step_size(solvable):
    """The error of gradient descent falls like its step size: a quarter for a quarter."""
    words = (*SMALL, "--t-min", 1, "--t-max", 10, "--points", 2, "--depth", 4, "--json")
    flow = document(solvable("solve", "deep_icl", *words))["loss"][0]
    gaps = []
    for lr, steps in ((0.02, 50), (0.005, 200)):
        words = (*SMALL, "--lr", lr, "--steps", steps, "--depth", 4, "--json")
        gaps.append(abs(document(solvable("train", "deep_icl", *words))["loss"][-1] - flow))
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.1)


def test_the_tables_are_of_80_columns_and_csv_holds_every_bit(solvable, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "curve.csv"
    words = (*SMALL, "--points", 20, "--csv", path)
    done = solvable("solve", "deep_icl", *words)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:3] == [
        "deep_icl, gradient flow, rotated structure (RRS)",
        "ν = 1.25, β = 0.7, D = 12, P = inf, σ = 0",
        "from γ = 0, scalar time",
    ]
    assert ["t", "L=1", "L=2", "L=4", "L=8"] in [line.replace(" = ", "=").split() for line in lines]
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["time", "loss_1", "loss_2", "loss_4", "loss_8"]
    loss = deep_icl.loss_curve(RRS, [float(row["time"]) for row in rows], 8)
    assert [float(row["loss_8"]) for row in rows] == loss.tolist()
    out = solvable("train", "deep_icl", *SMALL, "--weights", 0.4, "--steps", 20).out
    assert max(map(len, out.splitlines())) <= 80
    assert ["step", "t", "loss", "γ", "w_x", "w_v"] in map(str.split, out.splitlines())
    out = solvable("solve", "deep_icl", *SMALL, "--over", "depth", "--csv", path).out
    assert max(map(len, out.splitlines())) <= 80
    header = path.read_text().splitlines()[0]
    assert header == "depth,gamma,load,loss,floor"


def test_untied_layers_part_only_if_they_differ(solvable):
    words = ("train", "deep_icl", *SMALL, "--layers", "untied", "--depth", 2, "--steps", 5)
    assert "equal layers stay equal" in solvable(*words).out
    apart = solvable(*words, "--gamma", 0.1, 0.2)
    assert "from γ = 0.1, 0.2" in apart.out
    assert "equal layers" not in apart.out


def test_what_it_goes_over_is_not_given_twice(solvable):
    done = solvable("solve", "deep_icl", "--over", "width", "--width", 8)
    assert done.status == 2
    assert "give its values to --at" in done.err


def test_many_depths_fit_into_80_columns_with_their_powers_of_ten(solvable):
    words = ("--depth", *range(1, 9), "--points", 3)
    out = solvable("solve", "deep_icl", *SMALL, *words).out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert "7 of 9 columns; --csv FILE writes them all" in out


@pytest.mark.parametrize("over", ["time", "gamma", "depth"])
def test_every_curve_can_be_drawn(solvable, tmp_path, over):
    path = tmp_path / "loss.svg"
    words = ("--over", over, "--depth", 1, 2, "--points", 3)
    done = solvable("solve", "deep_icl", *SMALL, *words, "--plot", path)
    assert done.status == 0
    assert path.stat().st_size > 0
