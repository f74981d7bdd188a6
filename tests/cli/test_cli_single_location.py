"""``solvable solve single_location`` and ``solvable train single_location``."""

import csv
import re

import numpy as np
import pytest
from tests.command import document

from solvable import single_location as sl

pytestmark = pytest.mark.slow

SMALL = ("--dim", 20, "--length", 4)
TASK = sl.Task(dim=20, length=4)
SCALARS = ("kappa", "nu", "theta", "eta", "rho")


# What is said on the command line, and the same from Python.
CASES = {
    "the manifold": (
        "--steps 30",
        lambda: sl.train(TASK, sl.manifold(TASK, 5), lam=0.1, lr=4e-3, steps=30),
    ),
    "a schedule": (
        "--start sphere --runs 3 --seed 2 --lam 1 --lam-decay 0.5 --lr 0.01 --steps 30 "
        "--log-every 7",
        lambda: sl.train(
            TASK,
            sl.sphere(TASK, 3, seed=2),
            lam=sl.decay(1.0, 0.5),
            lr=0.01,
            steps=30,
            log_every=7,
            seed=2,
        ),
    ),
    "SGD": (
        "--batch 2 --runs 2 --kappa 0.3 --theta -0.1 --seed 3 --steps 30",
        lambda: sl.train(
            TASK,
            sl.State([0.3] * 2, [0.0] * 2, theta=[-0.1] * 2),
            lam=0.1,
            lr=4e-3,
            batch=2,
            steps=30,
            seed=3,
        ),
    ),
    "brute force": (
        "--brute --kappa 0.3 --nu 0.5 --theta -0.1 --eta 0.2 --rho 0.15 --steps 30",
        lambda: sl.train_brute(
            TASK, sl.State([0.3], [0.5], [-0.1], [0.2], [0.15]), lam=0.1, lr=4e-3, steps=30
        ),
    ),
    "brute force on tokens": (
        "--brute --batch 2 --runs 2 --start sphere --steps 20",
        lambda: sl.train_brute(TASK, sl.sphere(TASK, 2), lam=0.1, lr=4e-3, steps=20, batch=2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_training_is_that_of_the_python_api(solvable, case):
    words, train = CASES[case]
    told = document(solvable("train", "single_location", *SMALL, *words.split(), "--json"))
    run = train()
    for name in ("step", "time", "lam"):
        assert told[name] == np.asarray(getattr(run, name)).tolist()
        assert told["dims"][name] == ["time"]
    for name in (*SCALARS, "loss", "distance"):
        assert told[name] == getattr(run, name).tolist()
        assert told["dims"][name] == ["run", "time"]
    assert told["abs_kappa"] == abs(run.kappa).tolist()
    assert ("test_loss" in told) == ("tokens" in case)
    if run.test_loss is not None:
        assert told["test_loss"] == run.test_loss.tolist()
    assert told["question"]["start"]["runs"] == len(run.loss)
    assert told["interrupted"] is False


def test_gamma_and_noise_reach_the_task(solvable):
    words = "--gamma 1.2 --noise 0.3 --batch 2 --steps 5 --json"
    told = document(solvable("train", "single_location", *SMALL, *words.split()))
    task = sl.Task(dim=20, length=4, gamma=1.2, noise=0.3)
    run = sl.train(task, sl.manifold(task, 5), lam=0.1, lr=4e-3, steps=5, batch=2)
    assert told["loss"] == run.loss.tolist()
    assert told["question"]["task"] == {"dim": 20, "length": 4, "gamma": 1.2, "noise": 0.3}


def test_the_default_is_figure_4b_and_reaches_the_oracle(solvable):
    told = document(solvable("train", "single_location", "--json"))
    start, how = told["question"]["start"], told["question"]["schedule"]
    assert (start["start"], start["runs"], how["lam"]) == ("manifold", 5, 0.1)
    assert told["step"][-1] == 20_000
    oracle = sl.oracle_excess(sl.Task(dim=400, length=10), 0.1).item()
    assert np.mean(told["loss"], 0)[-1] == pytest.approx(oracle, rel=5e-3)  # 1 − κ is 0.017 there
    assert np.mean(told["abs_kappa"], 0)[-1] == pytest.approx(0.983, abs=2e-3)
    assert np.max(told["distance"]) == 0.0


def test_the_flow_is_what_training_gives_up_to_its_step_size(solvable):
    """The error of gradient descent falls like its step size: a quarter for a quarter."""
    state = ("--kappa", 0.2, "--nu", 0.1)
    curve = document(
        solvable(
            "solve",
            "single_location",
            *state,
            "--t-min",
            0.8,
            "--t-max",
            8,
            "--points",
            2,
            "--json",
        )
    )
    gaps = []
    for lr, steps in ((8e-3, 1000), (2e-3, 4000)):
        words = (*state, "--lr", lr, "--steps", steps, "--log-every", steps // 10, "--json")
        run = document(solvable("train", "single_location", *words))
        assert run["time"][1::9] == pytest.approx(curve["time"])
        assert run["kappa"][0][1::9] == pytest.approx(curve["kappa"][0], abs=5e-3)
        gaps.append(abs(run["loss"][0][1] - curve["loss"][0][0]))
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=0.1)


def test_solve_tells_the_facts_of_the_python_api(solvable):
    words = ("--lam", 0.3, "--kappa", -0.2, "--nu", 0.4, "--t-max", 5, "--points", 4, "--json")
    told = document(solvable("solve", "single_location", *SMALL, *words))
    x = sl.manifold_flow(TASK, sl.State(-0.2, 0.4), told["time"], lam=0.3)
    assert (told["kappa"], told["nu"]) == ([x.kappa.tolist()], [x.nu.tolist()])
    assert told["loss"] == [sl.excess_risk(TASK, x, 0.3).tolist()]
    start = told["question"]["start"]
    assert (start["start"], start["kappa"], start["nu"], start["theta"]) == ("state", -0.2, 0.4, 0)
    bayes, best, rates = sl.bayes_risk(TASK), sl.best_lam(TASK), sl.oracle_rates(TASK, 0.3)
    facts = {
        "oracle_excess": sl.oracle_excess(TASK, 0.3).item(),
        "swapped_excess": sl.swapped(TASK, 0.3).excess.item(),
        "best_excess": best.excess,
        "linear_excess": sl.linear_excess(TASK).item(),
        "bayes_excess": bayes.excess,
        "bayes_excess_error": bayes.error,
        "best_lam": best.lam,
        "crossover_lam": sl.crossover_lam(TASK),
        "critical_lam": sl.critical_lam(TASK),
        "kappa_rate": rates.kappa.item(),
        "nu_rate": rates.nu.item(),
        "saddle_rate": sl.saddle(TASK, 0.3).growth.item(),
        "origin_rate": sl.origin_growth(TASK, 0.3).item(),
    }
    assert {name: told[name] for name in facts} == facts
    assert all(told["dims"][name] == [] for name in facts)


def test_what_there_is_not_is_null_in_json_and_a_word_in_the_table(solvable, monkeypatch):
    monkeypatch.setattr("solvable.single_location.witnesses.MAX_BAYES", 0)
    words = ("--dim", 4, "--length", 10, "--points", 2)
    theory = document(solvable("solve", "single_location", *words, "--json"))
    assert theory["critical_lam"] is theory["bayes_excess"] is None
    out = " ".join(solvable("solve", "single_location", *words).out.split())
    assert "λ_c above which the manifold repels at the oracle none" in out
    assert "… of the Bayes predictor not estimated" in out


def test_the_tables_are_of_80_columns_and_csv_holds_every_bit(solvable, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "run.csv"
    words = (*SMALL, "--start", "sphere", "--runs", 9, "--steps", 20)
    done = solvable("train", "single_location", *words, "--csv", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:3] == [
        "single_location, projected gradient descent (exact reduction)",
        "d = 20, L = 4, γ = 0.707107, ε = 0, start = sphere, runs = 9, α = 0.004,",
        "steps = 20, λ = 0.1",
    ]
    assert lines[4].split() == ["run", "last", "L", "κ", "ν", "θ", "η", "ρ", "distance"]
    assert "8 of 9 runs; --json tells them all" in lines
    assert ["step", "t", "L(t)", "distance"] in [line.split() for line in lines]
    run = sl.train(TASK, sl.sphere(TASK, 9), lam=0.1, lr=4e-3, steps=20)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:5] == ["step", "time", "run", "loss", "lam"]
    assert [int(row["run"]) for row in rows[:10]] == [*range(9), 0]
    assert [float(row["loss"]) for row in rows] == run.loss.T.reshape(-1).tolist()
    out = solvable("solve", "single_location", *SMALL, "--points", 3).out
    assert max(map(len, out.splitlines())) <= 80
    out = solvable("train", "single_location", *words, "--lam-decay", 1e-4).out
    assert max(map(len, out.splitlines())) <= 80
    assert ["step", "t", "λ", "L(t)", "distance"] in map(str.split, out.splitlines())


def curve(out):
    """The headings of the curve's table, and its last row."""
    lines = out.splitlines()
    first = next(k for k, line in enumerate(lines) if line.split()[:1] == ["step"])
    headings = [re.sub(r"(\d) ", r"\1_", x) for x in re.split(r" {2,}", lines[first].strip())]
    headings = [x.replace(", ", ",") for x in headings]
    rows = [line.split() for line in lines[first + 2 :] if " of " not in line]
    return headings, dict(zip(headings, rows[-1], strict=True))


def test_the_table_averages_over_the_runs_of_one_end_only(solvable, monkeypatch):
    """From the sphere runs come to two ends: |κ| there is near 1, or 0, and never in between."""
    monkeypatch.setenv("COLUMNS", "100")
    task, words = sl.Task(dim=80, length=10), ("train", "single_location", "--dim", 80)
    out = solvable(*words, "--start", "sphere", "--runs", 6, "--steps", 5000).out
    run = sl.train(task, sl.sphere(task, 6), lam=0.1, lr=4e-3, steps=5000)
    good = run.outcome.end == "oracle"
    assert 0 < good.sum() < 6
    headings, last = curve(out)
    told = [f"|κ|,{good.sum()}_oracle", f"|η|,{(~good).sum()}_swapped", f"|ν|,{good.sum()}_oracle"]
    assert headings == ["step", "t", "L(t)", *told]
    wanted = [np.abs(run.kappa)[good], np.abs(run.eta)[~good], np.abs(run.nu)[good]]
    told = [float(last[name]) for name in headings[3:]]
    assert told == pytest.approx([x[:, -1].mean() for x in wanted], abs=6e-4)  # three digits
    for width, kept in ((80, 5), (60, 4)):
        monkeypatch.setenv("COLUMNS", str(width))
        out = solvable(*words, "--start", "sphere", "--runs", 6, "--steps", 5000).out
        assert curve(out)[0] == headings[:kept]
        assert max(map(len, out.splitlines())) <= width
    monkeypatch.setenv("COLUMNS", "80")
    # Of runs that are on their way there are no such means, however many have come to an end.
    sphere = (*words, "--start", "sphere", "--runs", 6, "--steps", 1500)
    run = sl.train(task, sl.sphere(task, 6), lam=0.1, lr=4e-3, steps=1500)
    assert 0 < run.outcome.counts["undecided"] < 6
    assert curve(solvable(*sphere).out)[0] == ["step", "t", "L(t)", "distance"]
    data = document(solvable(*sphere, "--json"))
    assert not {"oracle_kappa", "oracle_nu", "swapped_eta", "mean_kappa"} & set(data)
    assert data["mean_distance"] == pytest.approx(np.asarray(run.distance).mean(0).tolist())
    # One run at the swapped minimum is not told as one at the oracle.
    one = (*words, "--eta", 0.5, "--theta", 0.5, "--steps", 5000, "--json")
    data = document(solvable(*one))
    assert data["eta"][0][-1] > 0.99
    assert not {"oracle_kappa", "oracle_nu", "swapped_eta"} & set(data)
    assert data["mean_kappa"] == data["abs_kappa"][0]
    # On the manifold there is one end but for the sign, and of one run there is no mean.
    for more in (("--runs", 6), ("--start", "sphere", "--runs", 1)):
        out = solvable(*words, "--steps", 5, *more).out
        assert curve(out)[0] == ["step", "t", "L(t)", "|κ|", "|ν|", "distance"]
