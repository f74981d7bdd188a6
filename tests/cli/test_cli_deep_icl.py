"""``solvable solve deep_icl`` and ``solvable train deep_icl``."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from tests.command import assert_refused, document

import solvable as package
from solvable import deep_icl

pytestmark = pytest.mark.slow

SMALL = ("--nu", 1.25, "--beta", 0.7, "--dim", 12)
COLUMNS = "its columns must be lam and omega, or lam and share, and weight where there is one"
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
    assert told["depth"] == told["question"]["model"]["depth"] == [1, 4]
    assert told["dims"]["loss"] == ["time", "depth"]
    np.testing.assert_array_equal(told["loss"], loss)


def test_one_depth_is_no_axis_and_may_be_without_end(solvable):
    words = ("--law", "fs", *SMALL, "--depth", "inf", "--points", 3, "--json")
    told = document(solvable("solve", "deep_icl", *words))
    assert told["question"]["model"]["depth"] == "inf"
    assert told["dims"]["loss"] == ["time"]
    assert told["loss"] == deep_icl.loss_curve(FS, told["time"], None).tolist()


def test_several_depths_unless_told(solvable):
    told = document(solvable("solve", "deep_icl", *SMALL, "--points", 2, "--json"))
    assert told["depth"] == [1, 2, 4, 8]


def test_solve_tells_the_optima_floors_and_exponents(solvable):
    words = (*SMALL, "--width", 6, "--context", 20, "--depth", 2, "--points", 2)
    told = document(solvable("solve", "deep_icl", *words, "--json"))
    best, edge = deep_icl.optimum(NARROW, 2), deep_icl.edge(NARROW).item()
    assert (told["best_gamma"], told["best_loss"]) == (best.gamma.item(), best.loss.item())
    assert told["load"] == pytest.approx(best.gamma.item() * edge / 2, rel=1e-15)
    assert told["edge"] == edge
    for limit in ("width", "context", "both"):
        assert told[f"{limit}_floor"] == deep_icl.floor(NARROW, limit).item()
    powers = deep_icl.exponents(1.25, 0.7)
    assert told["width_exponent"] == powers.width
    assert told["compute_exponent"] == powers.compute()
    out = solvable("solve", "deep_icl", *words).out
    assert f"loss that is left by both, trained to the end {told['both_floor']:.5g}" in " ".join(
        out.split()
    )
    assert "capped" not in out
    endless = document(solvable("solve", "deep_icl", *SMALL, "--points", 2, "--json"))
    assert not {"width_floor", "context_floor", "both_floor"} & set(endless)
    assert endless["dims"]["best_gamma"] == ["depth"]


def test_exponents_with_a_cap_say_so_and_those_of_weights_are_theirs(solvable):
    words = ("--dim", 12, "--beta", 1.5, "--depth", 2, "--points", 2)
    out = " ".join(solvable("solve", "deep_icl", *words).out.split())
    assert "exponent of width, capped 1.5 exponent of context 2.25" in out
    told = document(solvable("solve", "deep_icl", *words, "--weights", 0.4, "--json"))
    assert told["time_exponent"] == deep_icl.attention_time_exponent(1.5)
    assert "compute_exponent" not in told


def test_matrix_time_has_another_compute_exponent(solvable):
    words = ("--depth", 2, "--points", 2, "--time", "matrix", "--json")
    told = document(solvable("solve", "deep_icl", *words))
    assert told["compute_exponent"] == deep_icl.exponents(1.5, 0.8, "matrix").compute()


@pytest.mark.parametrize("words", ["--width 6", "--over step_size --width 6", "--over width"])
def test_a_width_below_the_dimension_is_told_what_gamma_and_time_are(solvable, words):
    told = "γ, lr and t are those of Γ = γ (D/N) Π"
    asked = ("--depth", 1, *(("--points", 2) if "--over width" not in words else ()))
    assert told in solvable("solve", "deep_icl", *SMALL, *words.split(), *asked).out.splitlines()
    assert told not in solvable("solve", "deep_icl", *SMALL, "--width", 12, "--points", 2).out
    for brute in ((), ("--brute", "--contexts", 2)):
        words = (*SMALL, "--width", 6, "--depth", 1, "--steps", 2, *brute)
        assert told in solvable("train", "deep_icl", *words).out.splitlines()


@pytest.mark.parametrize("law", ["rrs", "fs", "iso"])
def test_the_landscape_goes_to_the_edge_of_stability(solvable, law):
    words = () if law == "iso" else SMALL
    task = {"rrs": RRS, "fs": FS, "iso": deep_icl.Isotropic(2.0)}[law]
    asked = ("--law", law, *words, "--over", "step_size", "--depth", 3, 1, "--points", 5, "--json")
    told = document(solvable("solve", "deep_icl", *asked))
    assert told["step_size"] == np.linspace(0.0, 2.0 / deep_icl.edge(task).item(), 5).tolist()
    at = told["step_size"][3]
    here = [deep_icl.loss(task, step_size=at, depth=depth).item() for depth in (3, 1)]
    assert told["loss"][3] == pytest.approx(here, rel=1e-12)
    assert told["loss"][0] == pytest.approx([1.0, 1.0], rel=1e-13)
    at = ("--at", 0.1, 0.2, "--json")
    told = document(solvable("solve", "deep_icl", "--law", law, "--over", "step_size", *at))
    assert told["step_size"] == [0.1, 0.2]


def test_over_depth_the_optimum_is_told_with_its_load(solvable):
    told = document(solvable("solve", "deep_icl", "--over", "depth", "--json"))
    assert told["depth"] == [1, 2, 4, 8, 16, 32]
    best = deep_icl.optimum(deep_icl.RotatedStructure(1.5, 0.8, 64), told["depth"])
    assert (told["best_gamma"], told["loss"]) == (best.gamma.tolist(), best.loss.tolist())
    edge = np.asarray(best.gamma) / told["depth"]  # of an edge that is 1
    assert told["load"] == pytest.approx(edge)
    assert told["floor"] == pytest.approx(told["loss"], rel=1e-12)
    words = ("--over", "depth", "--depth", 2, "inf", "--json")
    told = document(solvable("solve", "deep_icl", *SMALL, *words))
    assert (told["depth"], told["load"][1], told["loss"][1]) == ([2, None], None, 0.0)
    assert told["question"]["model"]["depth"] == [2, "inf"]


def test_over_a_resource_the_optimum_is_told_with_the_floor(solvable):
    words = ("--context", 20, "--over", "width", "--at", 4, 6, "--depth", 2, "--json")
    told = document(solvable("solve", "deep_icl", *SMALL, *words))
    assert told["width"] == [4, 6]
    assert told["loss"][1] == deep_icl.optimum(NARROW, 2).loss.item()
    assert told["floor"][1] == deep_icl.floor(NARROW, "width").item()
    other = ("--context", 20, "--over", "width", "--width", 4, 6, "--depth", 2, "--json")
    assert document(solvable("solve", "deep_icl", *SMALL, *other)) == told
    told = document(solvable("solve", "deep_icl", "--law", "iso", "--over", "alpha", "--json"))
    assert told["alpha"] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert told["dims"]["loss"] == ["alpha", "depth"]
    shallow = np.asarray(told["loss"])[:, 0]
    assert shallow == pytest.approx([1.0 / (1.0 + alpha) for alpha in told["alpha"]])
    words = ("--law", "fs", *SMALL, "--over", "context", "--at", 5, "--depth", 1, "--json")
    task = deep_icl.FixedStructure(1.25, 0.7, 12, context=5)
    told = document(solvable("solve", "deep_icl", *words))
    assert told["loss"] == [deep_icl.optimum(task, 1).loss.item()]


def test_two_resources_span_a_table(solvable):
    words = ("--over", "width", "--at", 4, 6, "--context", 20, 30, "--depth", 1, 2, "--json")
    told = document(solvable("solve", "deep_icl", *SMALL, *words))
    assert told["dims"]["loss"] == ["width", "context", "depth"]
    assert "floor" not in told
    assert told["loss"][1][0][1] == deep_icl.optimum(NARROW, 2).loss.item()


def test_untied_layers_have_an_optimum_of_their_own(solvable):
    words = ("--over", "depth", "--at", 1, 2, "--layers", "untied", "--json")
    told = document(solvable("solve", "deep_icl", *SMALL, *words))
    best = [deep_icl.untied_optimum(RRS, depth).loss.item() for depth in (1, 2)]
    assert told["loss"] == best
    assert told["loss"][1] < deep_icl.optimum(RRS, 2).loss.item()


def test_the_optimum_of_the_mean_is_told_with_its_error(solvable):
    words = (*SMALL, "--width", 6, "--context", 20, "--over", "depth", "--at", 2, "--json")
    told = document(solvable("solve", "deep_icl", *words, "--draws", 50, "--seed", 3))
    best = deep_icl.optimum(NARROW, 2, contexts=50, seed=3)
    assert (told["loss"], told["error"]) == ([best.loss.item()], [best.error.item()])
    told = document(solvable("solve", "deep_icl", *words, "--margin", 1.2))
    assert told["loss"] == [deep_icl.optimum(NARROW, 2, margin=1.2).loss.item()]
    assert "error" not in told


def test_untied_layers_over_drawn_contexts(solvable):
    words = (*SMALL, "--width", 6, "--context", 20, "--over", "depth", "--at", 1, 2)
    untied = ("--layers", "untied", "--draws", 200, "--seed", 3, "--json")
    told = document(solvable("solve", "deep_icl", *words, *untied))
    best = deep_icl.untied_optimum(NARROW, [1, 2], contexts=200, seed=3)
    assert (told["loss"], told["typical"]) == (best.loss.tolist(), best.typical.tolist())
    assert told["error"] == best.error.tolist()
    assert told["dims"]["layer_gamma"] == ["depth", "layer"]
    assert told["layer_gamma"][1] == best.gamma[1].tolist()


def test_the_flow_of_untied_layers_is_that_of_the_python_api(solvable):
    words = ("--layers", "untied", "--depth", 3, "--gamma", 0, 0.1, 0.2, "--dim", 12)
    told = document(solvable("solve", "deep_icl", *words, "--points", 3, "--json"))
    task = deep_icl.RotatedStructure(1.5, 0.8, 12)
    flow = deep_icl.untied_curve(task, told["time"], start=deep_icl.Init(gamma=[0.0, 0.1, 0.2]))
    assert (told["loss"], told["gamma"]) == (flow.loss.tolist(), flow.gamma.tolist())
    assert told["best_loss"] == deep_icl.untied_optimum(task, 3).loss


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--width 9", "width and context must be left out for untied layers over time"),
        ("--law fs", "law must be rrs or iso for untied layers and full attention, not fs"),
        ("--depth inf", "depth must be one finite number for untied layers over time, not inf"),
        ("--depth 1 2", "depth must be one finite number for untied layers over time, not 1 2"),
        ("--gamma 1 2", "gamma must be a single number or shape (3,), not an array of shape (2,)"),
        ("--weights 1", "layers must be 'tied' for the weights of full attention"),
    ],
)
def test_flows_of_untied_layers_that_there_are_not_are_refused(solvable, words, sentence):
    done = solvable("solve", "deep_icl", "--layers", "untied", "--depth", 3, *words.split())
    assert_refused(done, sentence)


def test_the_best_polynomial_is_told_beside_real_layers(solvable):
    words = ("--law", "iso", "--noise", 0.5, "--over", "depth", "--at", 8, "--layers", "untied")
    told = document(solvable("solve", "deep_icl", *words, "--json"))
    best = deep_icl.untied_optimum(deep_icl.Isotropic(2.0, noise=0.5), [8])
    assert (told["loss"], told["bound"]) == (best.loss.tolist(), best.bound.tolist())
    assert told["bound"][0] < told["loss"][0]
    printed = solvable("solve", "deep_icl", *words).out
    assert "best p: the polynomial, which real γ reach where its zeros are real" in printed
    assert "double precision cannot hold" not in printed


def test_the_remark_on_rare_contexts_advises_what_there_is(solvable):
    words = ("solve", "deep_icl", *SMALL, "--width", 6, "--over", "depth", "--at", 2)
    assert "(--margin, --draws)" in solvable(*words).out
    assert "(--draws)" in solvable(*words, "--layers", "untied").out


def test_places_and_values_cannot_both_be_given(solvable):
    done = solvable("solve", "deep_icl", "--over", "depth", "--depth", 1, 2, "--at", 3)
    assert_refused(done, "depth and at cannot both be given")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--layers untied --margin 1.2", "margin is for layers tied, not untied"),
        ("--draws 5 --margin 1.2", "draws and margin cannot both be given"),
        ("--law iso --draws 5", "dim must be given to draw contexts of iso"),
    ],
)
def test_optima_that_there_are_not_are_refused(solvable, words, sentence):
    done = solvable("solve", "deep_icl", "--over", "depth", "--at", 2, *words.split())
    assert_refused(done, sentence)


def test_a_table_says_which_floors_are_no_bounds_and_which_gamma_are_rounded(solvable):
    words = (*SMALL, "--width", 6, "--context", 20, "--noise", 0.1, "--points", 2)
    out = solvable("solve", "deep_icl", *words).out
    assert "loss that is left by both, trained to the end, without noise" in out
    words = ("--over", "depth", "--layers", "untied", "--at", 2, 16)
    told = "beyond about 13 layers double precision cannot hold the best γ"
    assert told in solvable("solve", "deep_icl", *words).out


def test_a_warning_is_a_sentence_on_standard_error():
    words = "--dim 12 --width 6 --context 8 --over depth --at 8 --draws 20 --json"
    code = "import sys; from solvable.cli import main; sys.exit(main(sys.argv[1:]))"
    call = [sys.executable, "-c", code, "solve", "deep_icl", *words.split()]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if "own the mean" in line]
    assert lines
    assert all(line.startswith("solvable: few of the fresh contexts") for line in lines)
    assert "witnesses.py" not in done.stderr


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
    assert told["gamma"] == run.gamma.tolist()
    if run.gamma.ndim > 1:
        np.testing.assert_allclose(told["mean_gamma"], run.gamma.mean(0), rtol=1e-15)
    else:
        assert "mean_gamma" not in told
    assert ("w_x" in told) == ("weights" in words)
    if run.weights is not None:
        assert [told[name] for name in ("w_x", "w_q", "w_k", "w_v")] == run.weights.tolist()
    assert told["witness"] == ("tokens" if "brute" in case else "reduced")
    assert told["interrupted"] is False


def test_runs_are_short_where_a_step_takes_its_time(solvable):
    for words, steps in (((), 2000), (("--context", 20), 200), (("--law", "fs", "--brute"), 200)):
        told = document(solvable("train", "deep_icl", *SMALL, "--depth", 2, *words, "--json"))
        assert (told["step"][-1], told["question"]["schedule"]["steps"]) == (steps, steps)


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
        "ν = 1.25, β = 0.7, D = 12, P = inf, σ = 0, L = 1 2 4 8, γ = 0",
        "",
    ]
    assert ["t", "L=1", "L=2", "L=4", "L=8"] in [line.replace(" = ", "=").split() for line in lines]
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["time", "depth", "loss"]
    deep = [row for row in rows if row["depth"] == "8"]
    loss = deep_icl.loss_curve(RRS, [float(row["time"]) for row in deep], 8)
    assert [float(row["loss"]) for row in deep] == loss.tolist()
    out = solvable("train", "deep_icl", *SMALL, "--weights", 0.4, "--steps", 20).out
    assert max(map(len, out.splitlines())) <= 80
    assert ["step", "t", "loss", "γ", "w_x", "w_v"] in map(str.split, out.splitlines())
    out = solvable("solve", "deep_icl", *SMALL, "--over", "depth", "--csv", path).out
    assert max(map(len, out.splitlines())) <= 80
    header = path.read_text().splitlines()[0]
    assert sorted(header.split(",")) == ["best_gamma", "depth", "floor", "load", "loss"]


def test_untied_layers_part_only_if_they_differ(solvable):
    words = ("train", "deep_icl", *SMALL, "--layers", "untied", "--depth", 2, "--steps", 5)
    assert "equal layers stay equal" in solvable(*words).out
    apart = solvable(*words, "--gamma", 0.1, 0.2)
    assert "γ = 0.1 0.2," in apart.out
    assert "equal layers" not in apart.out


def test_many_depths_fit_into_80_columns_with_their_powers_of_ten(solvable):
    words = ("--depth", *range(1, 9), "--points", 3)
    out = solvable("solve", "deep_icl", *SMALL, *words).out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert "7 of 9 columns; --csv FILE writes them all" in out


@pytest.mark.parametrize("over", ["time", "step_size", "depth"])
def test_every_curve_can_be_drawn(solvable, tmp_path, over):
    path = tmp_path / "loss.svg"
    words = ("--over", over, "--depth", 1, 2, *(() if over == "depth" else ("--points", 3)))
    done = solvable("solve", "deep_icl", *SMALL, *words, "--plot", path)
    assert done.status == 0
    assert path.stat().st_size > 0


# A spectrum of one's own.

ROWS = [(1.0, 0.5), (0.4, 0.3), (0.1, 0.2)]


def written(folder, text, name="mine.csv"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("law", ["rrs", "fs"])
@pytest.mark.parametrize("second", ["omega", "share"])
def test_a_spectrum_of_ones_own_is_that_of_the_python_api(solvable, tmp_path, law, second):
    path = written(tmp_path, f"lam,{second}\n" + "".join(f"{a},{b}\n" for a, b in ROWS))
    lam, other = np.transpose(ROWS)
    omega = other if second == "omega" else other / lam
    kind = {"rrs": deep_icl.RotatedStructure, "fs": deep_icl.FixedStructure}[law]
    words = ("--law", law, "--spectrum", path, "--depth", 3, "--points", 4, "--json")
    told = document(solvable("solve", "deep_icl", *words))
    loss = deep_icl.loss_curve(kind(lam=lam, omega=omega), told["time"], 3)
    np.testing.assert_allclose(told["loss"], loss, rtol=1e-14)
    words = ("--law", law, "--spectrum", path, "--depth", 2, "--steps", 5, "--json")
    told = document(solvable("train", "deep_icl", *words))
    start = deep_icl.Init(gamma=0.0)
    run = deep_icl.train(kind(lam=lam, omega=omega), start, depth=2, lr=0.5, steps=5)
    np.testing.assert_allclose(told["loss"], run.loss, rtol=1e-14)


def test_rows_may_stand_for_several_directions(solvable, tmp_path):
    """Three equal rows, or one of weight 3: with its ω, or with the share of them all."""
    texts = [
        "lam,omega\n1,0.5\n0.2,2\n0.2,2\n0.2,2\n",
        "lam;omega;weight\n1;0.5;1\n0.2;2;3\n",
        "lam,share,weight\n1,0.5,1\n0.2,1.2,3\n",
    ]
    losses = []
    for k, text in enumerate(texts):
        path = written(tmp_path, text, f"{k}.csv")
        words = ("--spectrum", path, "--width", 2, "--context", 9, "--points", 4, "--json")
        losses.append(document(solvable("solve", "deep_icl", *words))["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)
    np.testing.assert_allclose(losses[2], losses[1], rtol=1e-12)


def test_a_question_names_the_file_and_its_content(solvable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, "lam,omega\n1,0.5\n0.2,2\n")
    words = ("--spectrum", path.name, "--points", 2)
    told = document(solvable("solve", "deep_icl", *words, "--json"))
    asked = told["question"]
    name, mark, digits = asked["task"]["spectrum"].partition("#")
    assert (name, mark, len(digits)) == ("mine.csv", "#", 16)
    assert (asked["task"]["nu"], asked["task"]["dim"]) == (None, None)
    assert f"spectrum = mine.csv#{digits[:8]}, P = inf" in solvable("solve", "deep_icl", *words).out
    lab = package.lab("deep_icl")
    again = lab.ask(lab.described.of(asked), at=told["time"])
    assert again.loss.values.tolist() == told["loss"]
    path.write_text("lam,omega\n1,0.5\n0.2,3\n")
    sentence = "spectrum must be the file that was asked about, but 'mine.csv' has changed"
    with pytest.raises(ValueError, match=sentence):
        lab.ask(lab.described.of(asked))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lam,omega\n1,0.5\nx,1\n", "lam must hold numbers such as 0.25 or 1e9, not 'x' (line 3)"),
        ("lam,omega\n1,0.5\n0,1\n", "lam must be positive, not 0 (line 3)"),
        ("lam,omega\n1,0.5\n2,-1\n", "omega must be at least 0, not -1 (line 3)"),
        ("lam,share\n1,\n", "share must not be empty (line 2)"),
        (
            "lam,share,weight\n1,1,2.5\n",
            "weight must be a whole number, at least 1, not 2.5 (line 2)",
        ),
        ("lam,shares\n1,1\n", f"{COLUMNS}, not lam, shares"),
        ("lam,share,omega\n1,1,1\n", f"{COLUMNS}, not lam, share, omega"),
        ("lam,omega,weights\n1,1,3\n", f"{COLUMNS}, not lam, omega, weights"),
        ("lam,omega\n1\n", "every line must have as many cells as there are column names, 2, but"),
        ("1,2\n3,4\n", "file must begin with a line of column names, but line 1 of "),
        ("", "file must hold a table, but "),
    ],
)
def test_a_spectrum_that_cannot_be_read_is_refused_by_file_line_and_column(
    solvable, tmp_path, text, sentence
):
    path, out = written(tmp_path, text), tmp_path / "out.csv"
    done = solvable("solve", "deep_icl", "--spectrum", path, "--csv", out)
    assert_refused(done, f"spectrum mine.csv: {sentence}")
    assert not out.exists()
    assert_refused(solvable("train", "deep_icl", "--spectrum", path), sentence)


def test_a_run_with_a_spectrum_is_taken_up_again(solvable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, "lam,omega\n1,0.5\n0.2,2\n")
    words = ("train", "deep_icl", "--spectrum", path.name, "--depth", 2, "--log-every", 2)
    whole = document(solvable(*words, "--steps", 8, "--json"))
    assert solvable(*words, "--steps", 4, "--save", "run.zarr").status == 0
    more = ("--resume", "run.zarr", "--steps", 8)
    told = document(solvable("train", "deep_icl", *more, "--json"))
    assert told["loss"] == whole["loss"]
    path.write_text("lam,omega\n1,0.5\n0.2,3\n")
    assert_refused(solvable("train", "deep_icl", *more), "'mine.csv' has changed")
