"""What there is in the shallow_icl lab."""

import numpy as np

from solvable import shallow_icl as icl

SMALL = 1e-6  # of weights whose losses all are that of the zero predictor
LAW = {"dim": 3, "context": 7}
TASK = icl.Task(**LAW)
DATA = icl.sample(TASK, 20)
SOFTMAX = {"attention": "softmax"}


def other(**options):
    """The population of a law that differs in one thing."""
    return {"data": icl.Task(**(LAW | options))}


SEPARATE = {"data": TASK, "start": icl.separate(2, 1, SMALL), "lr": 0.1, "steps": 4}
MERGED = {"data": DATA, "start": icl.merged(2, SMALL), "lr": 0.1, "steps": 4}
BRUTE = {**MERGED, "tests": {"fresh": icl.sample(TASK, 20, seed=1)}}
WEIGHTS = icl.separate(2, 1, SMALL).draw(TASK, 0)
FLIPPED = {name: -x for name, x in WEIGHTS.items()}

RESUMED = {
    "train, population": (
        icl.train,
        SEPARATE,
        {
            "dim": (other(dim=2), "task.dim is 3, here it is 2"),
            "context": (other(context=20), "task.context is 7, here it is 20"),
            "spectrum": (other(spectrum="white"), "task.eigenvalues is [0.5, "),
            "noise": (other(noise=0.1), "task.noise is 0, here it is 0.1"),
            "basis": (other(basis="random"), "task.basis is none"),
            "task_covariance": (other(task_covariance=np.eye(3)), "task.task_covariance is none"),
            "fixed": (other(fixed=[1.0, 2.0, 3.0]), "task.fixed is [1, 1, 1]"),
            "lengths": (other(lengths="varied"), "task.lengths is fixed, here it is varied"),
            "normalise": (other(normalise="n-1"), "task.normalise is n, here it is n-1"),
            "outputs": (other(outputs=2), "task.outputs is 1, here it is 2"),
            "heads": ({"start": icl.separate(3, 1, SMALL)}, "start.heads is 2, here it is 3"),
            "rank": ({"start": icl.separate(2, 2, SMALL)}, "start.rank is 1, here it is 2"),
            "scale": (
                {"start": icl.separate(2, 1, 2e-6)},
                "start.scale is 1e-06, here it is ",
            ),
            "init": ({"start": icl.separate(2, 1, SMALL, "B")}, "start.init is A, here it is B"),
            "kind": ({"start": icl.merged(2, SMALL)}, "start.kind is separate, here it is merged"),
            "units": ({"units": "code"}, "units is paper, here it is code"),
            "lr": ({"lr": 0.2}, "lr is 0.1, here it is 0.2"),
            "lr, several": ({"lr": [0.1]}, "lr is 0.1, here it is [0.1]"),
            "seed": ({"seed": 1}, "seed is 0, here it is 1"),
            "seed, several": ({"seed": (0, 1)}, "seed is 0, here it is [0, 1]"),
            "tests": ({"tests": {"longer": icl.Task(3, 99)}}, "tests.longer is none"),
            "data": ({"data": DATA}, "PopulationProblem, here it is shallow_icl.train, Moment"),
        },
    ),
    "train, aligned": (
        icl.train,
        {"data": TASK, "start": icl.merged(2, SMALL), "lr": [0.1, 0.2, 0.3], "steps": 4}
        | {"blocks": "aligned"},
        {
            "blocks": ({"blocks": "zero"}, "AlignedProblem, here it is shallow_icl.train, Popul"),
            "rates": ({"lr": [0.1, 0.2, 0.4]}, "lr is [0.1, 0.2, 0.3], here it is [0.1, 0.2, 0.4]"),
        },
    ),
    "train, sequences": (
        icl.train,
        MERGED,
        {
            "blocks": ({"blocks": "zero"}, "blocks is all, here it is zero"),
            "seed of the data": ({"data": icl.sample(TASK, 20, seed=1)}, "data.gram is float64"),
            "sequences": ({"data": icl.sample(TASK, 21)}, "data.gram is float64"),
            "pairs": ({"data": icl.sample(TASK, 20, antithetic=True)}, "data.gram is float64"),
            "centred": ({"data": icl.sample(TASK, 20, centred=True)}, "data.gram is float64"),
            "whitened": ({"data": icl.sample(TASK, 20, whitened=True)}, "data.gram is float64"),
            "in_context": (
                {"data": icl.sample(icl.Task(**LAW, in_context=0.5), 20)},
                "task.in_context is 1, here it is 0.5",
            ),
            "labels": (
                {"data": icl.sample(icl.Task(**LAW, in_context=0.0, labels="noise"), 20)},
                "task.in_context is 1, here it is 0",
            ),
            "zero_blocks": (
                {"start": icl.merged(2, SMALL, zero_blocks=False)},
                "start.zero_blocks is True, here it is False",
            ),
            "attention": (
                {"start": icl.merged(2, SMALL, **SOFTMAX)},
                "MomentProblem, here it is shallow_icl.train, QueryRowProblem",
            ),
            "tests": ({"tests": {"fresh": DATA}}, "tests.fresh is none"),
        },
    ),
    "train, given weights": (
        icl.train,
        {**SEPARATE, "start": icl.given(**WEIGHTS, dim=3)},
        {
            "weights": ({"start": icl.given(**FLIPPED, dim=3)}, "start.weights.value is float64["),
            "drawn": ({"start": icl.separate(2, 1, SMALL)}, "start is Given, here it is Start"),
        },
    ),
    "train, softmax": (
        icl.train,
        {**MERGED, "start": icl.separate(2, 1, SMALL, **SOFTMAX)},
        {"data": ({"data": icl.sample(TASK, 20, seed=1)}, "data.tokens is float64[20, 4, 8]")},
    ),
    "train_brute": (
        icl.train_brute,
        BRUTE,
        {
            "data": ({"data": icl.sample(TASK, 20, seed=2)}, "data.tokens is float64[20, 4, 8]"),
            "tests": ({"tests": {"fresh": DATA}}, "tests.fresh.tokens is float64[20, 4, 8]"),
            "names": ({"tests": {"old": BRUTE["tests"]["fresh"]}}, "tests.old is none"),
            "units": ({"units": "code"}, "units is paper, here it is code"),
        },
    ),
}


def law(eigenvalues, **options):
    return icl.Task(3, 7, eigenvalues, **options)


def of(function, *arguments, **options):
    """A function of a task, at eigenvalues and with options of it."""
    return lambda eigenvalues: function(law(eigenvalues, **options), *arguments)


def mixed(part):
    return lambda eigenvalues, fixed, noise: icl.escape_rate(
        law(eigenvalues, fixed=fixed, noise=noise, in_context=0.4), part
    )


VALUES = {"eigenvalues": [0.5, 0.3, 0.2]}
WHITE = {"eigenvalues": [0.25, 0.25, 0.25]}
TURNED = icl.Task(3, 7, basis="random").basis
PRIOR = np.diag([2.0, 1.0, 0.5]) + 0.2
MAP = np.arange(9.0).reshape(3, 3)
VALUE, KEY_QUERY = np.ones((2, 1, 4)), 0.5 + np.arange(24.0).reshape(2, 4, 3)
KEY, QUERY = 1.0 + np.arange(16.0).reshape(2, 2, 4), np.arange(12.0).reshape(2, 2, 3)

TRACED = {
    "Task, power": (
        lambda exponent, noise: icl.Task(3, 7, "power", exponent=exponent, noise=noise),
        {"exponent": 1.5, "noise": 0.1},
    ),
    "Task, covariance": (
        lambda eigenvalues, basis: law(eigenvalues, basis=basis).covariance,
        VALUES | {"basis": TURNED},
    ),
    "Sequences": (lambda x, y: icl.Sequences(TASK, x, y, y).tokens, {"x": DATA.x, "y": DATA.y}),
    "population": (of(icl.population), VALUES),
    "population, varied": (of(icl.population, lengths="varied", noise=0.1), VALUES),
    "population, prior": (
        lambda eigenvalues, prior: icl.population(law(eigenvalues, task_covariance=prior)),
        VALUES | {"prior": PRIOR},
    ),
    "converged_map": (of(icl.converged_map, basis=TURNED), VALUES),
    "loss": (
        lambda eigenvalues, maps: icl.loss(law(eigenvalues), maps, context=20),
        VALUES | {"maps": MAP},
    ),
    "loss, turned": (
        lambda maps: icl.loss(law([0.5, 0.3, 0.2], basis=TURNED), maps),
        {"maps": MAP},
    ),
    "plateau_losses": (of(icl.plateau_losses), VALUES),
    "plateau_loss": (of(icl.plateau_loss, [0, 2]), VALUES),
    "fixed_point": (of(icl.fixed_point, [0, 2], basis=TURNED), VALUES),
    "stability": (of(icl.stability, [0, 2]), VALUES),
    "stability, all": (of(icl.stability, [0, 1, 2]), VALUES),
    "mid_levels": (of(icl.mid_levels), VALUES),
    "aligned_weights": (of(icl.aligned_weights, [0, 2], 4), VALUES),
    "final_weights": (of(icl.final_weights, [(0, 1), (2,)], basis=TURNED), VALUES),
    "rank_escape_rate": (of(icl.rank_escape_rate, (0,), 2), VALUES),
    "rank_escape_rate, none": (of(icl.rank_escape_rate, (), 2), VALUES),
    "largest_rate": (of(icl.largest_rate, icl.merged(2, 1.0)), VALUES),
    "largest_rate, rank 1": (of(icl.largest_rate, icl.separate(2, 1)), VALUES),
    "largest_rate, rank 2": (of(icl.largest_rate, icl.separate(2, 2), "code"), VALUES),
    "escape_rate": (of(icl.escape_rate), VALUES),
    "escape_rate, all": (mixed("all"), VALUES | {"fixed": [1.0, 2.0, -1.0], "noise": 0.3}),
    "escape_rate, in-weight": (
        mixed("in-weight"),
        VALUES | {"fixed": [1.0, 2.0, -1.0], "noise": 0.3},
    ),
    "escape_time": (
        lambda eigenvalues, scale: icl.escape_time(law(eigenvalues), scale),
        VALUES | {"scale": [0.1, 1e-3]},
    ),
    "softmax_rate": (of(icl.softmax_rate, task_covariance=PRIOR), VALUES),
    "white_map": (
        lambda eigenvalues, u0, t: icl.white_map(law(eigenvalues), u0, t),
        WHITE | {"u0": [1e-6, 0.1], "t": [0.0, 20.0, 1e9]},
    ),
    "white_loss": (
        lambda eigenvalues, u0, t: icl.white_loss(law(eigenvalues), u0, t),
        WHITE | {"u0": 1e-6, "t": [0.0, 20.0, 1e9]},
    ),
    "half_rise_time": (
        lambda eigenvalues, u0: icl.half_rise_time(law(eigenvalues), u0),
        WHITE | {"u0": [1e-6, 0.1]},
    ),
    "growing_mode": (
        lambda eigenvalues, value, key_query: icl.growing_mode(
            law(eigenvalues, basis=TURNED), value, key_query
        ),
        VALUES | {"value": VALUE, "key_query": KEY_QUERY},
    ),
    "growth": (
        lambda eigenvalues, t, start: icl.growth(law(eigenvalues), 1, t, start),
        VALUES | {"t": [0.0, 50.0, 500.0, 1e9], "start": [0.02, 0.5]},
    ),
    "growth_time": (
        lambda eigenvalues, fraction, start: icl.growth_time(law(eigenvalues), 1, fraction, start),
        VALUES | {"fraction": [0.1, 0.5, 0.9], "start": [0.02, 0.5]},
    ),
    "drop_fraction": (icl.drop_fraction, {"fraction": [0.0, 0.5, 1.0]}),
    "staircase_loss": (
        lambda eigenvalues, times, t: icl.staircase_loss(law(eigenvalues), times, t),
        VALUES | {"times": [80.0, 250.0], "t": [0.0, 100.0, 300.0]},
    ),
    "conserved_merged": (icl.conserved_merged, {"value": VALUE, "key_query": KEY_QUERY}),
    "conserved_separate": (icl.conserved_separate, {"value": VALUE, "key": KEY, "query": QUERY}),
}

HOST = {
    "Sequences, sampled": (
        lambda noise: icl.sample(icl.Task(3, 7, noise=noise), 5),
        {"noise": 0.1},
    ),
    "sample": (of(icl.sample, 5), VALUES),
    "statistics": (
        lambda x: icl.statistics(icl.Sequences(TASK, x, DATA.y, DATA.target)),
        {"x": DATA.x},
    ),
    "softmax_modes": (
        lambda x: vars(icl.softmax_modes(icl.Sequences(TASK, x, DATA.y, DATA.target), 2)),
        {"x": DATA.x},
    ),
    "given": (
        lambda value: [icl.given(value, key_query=np.ones((2, 4, 4)), dim=3).scale],
        {"value": np.ones((2, 4, 4))},
    ),
    "train": (
        lambda lr: icl.train(TASK, icl.merged(2, 0.1), lr=lr, steps=2).loss,
        {"lr": 0.1},
    ),
    "train, task": (
        of(lambda task: icl.train(task, icl.merged(2, 0.1), lr=0.1, steps=2).loss),
        VALUES,
    ),
    "train_brute": (
        lambda x: (
            icl.train_brute(
                icl.Sequences(TASK, x, DATA.y, DATA.target), icl.merged(2, 0.1), lr=0.1, steps=2
            ).loss
        ),
        {"x": DATA.x},
    ),
    "flow": (
        lambda times: icl.flow(TASK, icl.separate(2, 1, 0.1), times).loss,
        {"times": [0.0, 1.0]},
    ),
    "flow, aligned": (
        of(lambda task: icl.flow(task, icl.merged(2, 0.1), 1.0, blocks="aligned").loss),
        VALUES,
    ),
    "power_flow": (
        lambda exponent, start: icl.power_flow(exponent, 30, [1.0], dim=3, start=start).loss,
        {"exponent": 1.5, "start": 0.1},
    ),
    "time_law": (lambda exponent: [icl.time_law(exponent, 30).floor], {"exponent": 1.5}),
    "drop_times": (
        of(lambda task: icl.drop_times(task, icl.separate(2, 1, 1e-3)).time),
        VALUES,
    ),
    "Drops": (
        lambda lr: icl.Drops(np.ones(2), np.ones(2), np.arange(2), 1.0).steps(lr),
        {"lr": 0.1},
    ),
    "crossing_times": (
        lambda loss: icl.crossing_times([0.0, 1.0, 2.0], loss, [0.8]),
        {"loss": [1.0, 0.6, 0.2]},
    ),
    "plateau_levels": (
        lambda time: icl.plateau_levels(time, [1.0, 0.6, 0.5, 0.1], [0.8, 0.3]),
        {"time": [1.0, 2.0, 3.0, 4.0]},
    ),
    "fewer_heads": (icl.fewer_heads, {"value": VALUE, "key_query": KEY_QUERY}),
}

NUMBERS = (
    "Conserved",
    "CubicMLP",
    "Flow",
    "MergedAttention",
    "Population",
    "PowerLaw",
    "Run",
    "SeparateAttention",
    "SoftmaxModes",
    "Start",
    "Statistics",
    "TimeLaw",
    "half_drop_lead",
    "merged",
    "mlp",
    "separate",
    "unit_factor",
)
