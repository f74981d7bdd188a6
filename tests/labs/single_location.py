"""What there is in the single_location lab."""

import jax.numpy as jnp
import numpy as np

from solvable import single_location as sl

SMALL = 1e-6  # of scalars at which all risks are that of the zero predictor
LAW = {"dim": 8, "length": 3, "noise": 0.1}
TASK = sl.Task(**LAW)
START = sl.State(*(SMALL * np.array([[1, -2, 3], [2, 1, -1], [1, 1, 2], [-1, 2, 1], [2, 0, 1]])))
OTHER = sl.State(*(2.0 * x for x in (START.kappa, START.nu, START.theta, START.eta, START.rho)))


def task(**options):
    """A law that differs in one thing."""
    return {"task": sl.Task(**(LAW | options))}


def late(step):
    """λ, until some step that of `early`."""
    return jnp.where(step < 1000, 0.1, 0.3)


def early(step):
    """λ, constant but for the steps of `late`."""
    return jnp.where(step < 1000, 0.1, 0.2)


PLAIN = {"task": TASK, "start": START, "lam": 0.1, "lr": 1e-3, "steps": 4}
BATCH = {**PLAIN, "batch": 2}
DECAY = {**PLAIN, "lam": sl.decay(0.1, 1e-3)}
OWN = {**PLAIN, "lam": early}
TRANSFORMER = {"task": TASK, "width": 4, "hidden": 5, "batch": 2, "lr": 0.01, "steps": 4}

CHANGES = {
    "dim": (task(dim=9), "task.dim is 8, here it is 9"),
    "length": (task(length=4), "task.length is 3, here it is 4"),
    "gamma": (task(gamma=0.7), "task.gamma is 0.707"),
    "noise": (task(noise=0.2), "task.noise is 0.1, here it is 0.2"),
    "location": (task(location=1), "task.chances is none, here it is [0, 1, 0]"),
    "start": ({"start": OTHER}, "start.kappa is [1e-06, "),
    "lam": ({"lam": 0.2}, "lam is 0.1, here it is 0.2"),
    "schedule": ({"lam": DECAY["lam"]}, "lam is 0.1, here it is Decay"),
    "lr": ({"lr": 2e-3}, "lr is 0.001, here it is 0.002"),
}
DRAWN = {
    "batch": ({"batch": 3}, "batch is 2, here it is 3"),
    "seed": ({"seed": 1}, "seed is 0, here it is 1"),
    "gradient": ({"batch": None}, "SGD, here it is single_location.train"),
}

RESUMED = {
    "train": (
        sl.train,
        PLAIN,
        {**CHANGES, "SGD": ({"batch": 2}, "descent, here it is single_location.train, SGD")},
    ),
    "train, SGD": (sl.train, BATCH, {**CHANGES, **DRAWN}),
    "train, a schedule": (
        sl.train,
        DECAY,
        {
            "rate": ({"lam": sl.decay(0.1, 2e-3)}, "lam.rate is 0.001, here it is 0.002"),
            "first": ({"lam": sl.decay(0.2, 1e-3)}, "lam.first is 0.1, here it is 0.2"),
            "constant": ({"lam": 0.1}, "lam is Decay, here it is 0.1"),
        },
    ),
    "train, a function": (
        sl.train,
        OWN,
        {
            "function": ({"lam": late}, "lam is a function of the step, float64["),
            "constant": ({"lam": 0.1}, "lam is a function of the step, float64["),
        },
    ),
    "train_brute": (
        sl.train_brute,
        PLAIN,
        {**CHANGES, "SGD": ({"batch": 2}, "descent, here it is single_location.train_brute, SGD")},
    ),
    "train_brute, SGD": (sl.train_brute, BATCH, {**CHANGES, **DRAWN}),
    "train_transformer": (
        sl.train_transformer,
        TRANSFORMER,
        {
            **{name: CHANGES[name] for name in ("dim", "length", "gamma", "noise", "location")},
            "width": ({"width": 5}, "width is 4, here it is 5"),
            "hidden": ({"hidden": 6}, "hidden is 5, here it is 6"),
            "lr": ({"lr": 0.02}, "lr is 0.01, here it is 0.02"),
            "batch": ({"batch": 3}, "batch is 2, here it is 3"),
            "seed": ({"seed": 1}, "seed is 0, here it is 1"),
            "seeds": ({"seed": [0]}, "seed is 0, here it is [0]"),
        },
    ),
    "train_transformer, seeds": (
        sl.train_transformer,
        {**TRANSFORMER, "seed": [0, 1, 2]},
        {"seeds": ({"seed": [0, 1, 3]}, "seed is [0, 1, 2], here it is [0, 1, 3]")},
    ),
}


def of_task(function):
    """A function of the task, in its numbers."""
    return lambda gamma, noise: function(sl.Task(8, 3, gamma, noise))


def of_lam(function):
    """A function of the task and λ, in its numbers."""
    return lambda gamma, lam: function(sl.Task(8, 3, gamma), lam)


def of_place(function):
    """A function of the task, a place of the manifold and λ, in its numbers."""
    return lambda gamma, kappa, nu, lam: function(sl.Task(8, 3, gamma), kappa, nu, lam)


def of_state(function):
    """A function of the task, five scalars and λ, in its numbers."""

    def call(gamma, noise, lam, **scalars):
        return function(sl.Task(8, 3, gamma, noise), sl.State(**scalars), lam)

    return call


def of_scalars(function):
    """A function of one task, five scalars and one λ, in the scalars."""
    return lambda **scalars: function(TASK, sl.State(**scalars), 0.3)


GAMMA = {"gamma": 0.8}
LAM = {**GAMMA, "lam": 0.3}
WHOLE = {**GAMMA, "noise": 0.2}
PLACE = {**LAM, "kappa": 0.3, "nu": -0.4}
SCALARS = {"kappa": 0.3, "nu": 0.5, "theta": -0.1, "eta": 0.2, "rho": 0.15}
MATRIX = np.random.default_rng(0).normal(size=(3, 8))
DATA = np.random.default_rng(1).normal(size=(20, 2, 3))

TRACED = {
    "zeta": (sl.zeta, {"t": [0.5, -1.0], "s": 0.3}),
    "decay": (sl.decay, {"first": 1.0, "rate": 0.1}),
    "conserved": (lambda **x: sl.conserved(sl.State(**x)), SCALARS),
    "bayes": (lambda gamma, x: sl.bayes(sl.Task(8, 3, gamma), x), {**GAMMA, "x": MATRIX}),
    "bayes, a given law": (
        lambda x, location: sl.bayes(sl.Task(8, 3, location=location), x),
        {"x": MATRIX, "location": [0.5, 0.2, 0.3]},
    ),
    **{
        name: (of_state(getattr(sl, name)), {**WHOLE, "lam": 0.3, **SCALARS})
        for name in ("excess_risk", "risk", "slopes", "flow_field")
    },
    **{
        name: (of_task(getattr(sl, name)), WHOLE)
        for name in ("linear_excess", "linear_risk", "zero_excess", "zero_risk")
    },
    "linear_excess, a given law": (
        lambda location: sl.linear_excess(sl.Task(8, 3, location=location)),
        {"location": [0.5, 0.2, 0.3]},
    ),
    **{
        name: (of_lam(getattr(sl, name)), LAM)
        for name in (
            "oracle_excess",
            "oracle_risk",
            "saddle",
            "oracle_rates",
            "fixed_points",
            "oracle_growth",
            "origin_growth",
            "swapped",
            "swapped_gap",
        )
    },
    "oracle_excess, many": (of_lam(sl.oracle_excess), {**GAMMA, "lam": [[0.1, 0.2], [0.3, 4.0]]}),
    **{
        name: (of_place(getattr(sl, name)), PLACE)
        for name in ("manifold_field", "transversal", "transversal_growth")
    },
    **{
        name: (of_scalars(getattr(sl, name)), SCALARS)
        for name in ("softmax_excess", "softmax_slopes")
    },
    "softmax_share": (lambda kappa: sl.softmax_share(TASK, kappa, 0.3), {"kappa": [0.3, -0.9]}),
    "nullcline": (
        lambda gamma, kappa, lam: sl.nullcline(sl.Task(8, 3, gamma), kappa, lam),
        {**LAM, "kappa": 0.3},
    ),
    "basin_boundary": (
        lambda gamma, kappa, lam: sl.basin_boundary(sl.Task(8, 3, gamma), kappa, lam),
        {**LAM, "kappa": [0.3, -0.9]},
    ),
    "manifold_flow": (
        lambda gamma, kappa, nu, times, lam: sl.manifold_flow(
            sl.Task(8, 3, gamma), sl.State(kappa, nu), times, lam=lam
        ),
        {**PLACE, "times": [0.0, 1.0, 2.5]},
    ),
}
HOST = {
    **{
        name: (of_task(getattr(sl, name)), WHOLE)
        for name in ("best_lam", "bayes_risk", "critical_lam", "crossover_lam")
    },
    "swapped_rates": (of_lam(sl.swapped_rates), LAM),
    "outcome": (
        lambda **numbers: vars(of_state(sl.outcome)(**numbers)) | {"end": None},
        {**WHOLE, "lam": 0.1, **{name: 0.1 * x for name, x in SCALARS.items()}},
    ),
    "optimal_path": (
        lambda exponent, gamma: vars(sl.optimal_path([4, 9], exponent, gamma=gamma)),
        {**GAMMA, "exponent": 0.5},
    ),
    "least_squares": (
        lambda x, y: sl.least_squares(
            sl.Tokens(jnp.asarray(x), jnp.asarray(y), jnp.zeros(20, int))
        ),
        {"x": DATA, "y": DATA[:, 0, 0]},
    ),
    "sample": (lambda **numbers: sl.sample(sl.Task(8, 3, **numbers), 2), WHOLE),
}
NUMBERS = (
    "BayesRisk",
    "ErfAttention",
    "FixedPoint",
    "OptimalPath",
    "Optimum",
    "OracleRates",
    "Outcome",
    "Published",
    "Run",
    "Saddle",
    "SoftmaxAttention",
    "State",
    "Swapped",
    "Task",
    "Tokens",
    "Transformer",
    "TransformerRun",
    "manifold",
    "oracle",
    "published",
    "sphere",
    "train",
    "train_brute",
    "train_transformer",
)
