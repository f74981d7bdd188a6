"""What there is in the msfr lab."""

import numpy as np
import optax

from solvable import msfr

SMALL = 1e-6  # of weights whose losses all are that of the zero predictor
LAW = {"num_tasks": 3, "alpha": 1.8, "context": 5.0, "strength": 0.5}
TASK = msfr.Task(**LAW)
INIT = msfr.Init(v=SMALL, w=2 * SMALL)
SOFTMAX = msfr.SoftmaxInit(value=SMALL, key=SMALL, query=2 * SMALL)


def other(**options):
    """A law that differs in one thing."""
    return {"task": msfr.Task(**(LAW | options))}


def began(v=SMALL, w=2 * SMALL):
    return {"init": msfr.Init(v=v, w=w)}


POPULATION = {"task": TASK, "init": INIT, "lr": 0.1, "steps": 4, "log_every": 2}
DATA = {**POPULATION, "data": 20}
BATCH = {**POPULATION, "batch": 8}
ADAM = {**POPULATION, "init": SOFTMAX, "lr": None, "optimizer": optax.adam(1e-3)}
ROWS = np.full((3, 2), SMALL)

RESUMED = {
    "train, population": (
        msfr.train,
        POPULATION,
        {
            "num_tasks": (other(num_tasks=4), "task.num_tasks is 3, here it is 4"),
            "alpha": (other(alpha=1.9), "task.alpha is 1.8, here it is 1.9"),
            "context": (other(context=9.0), "task.context is 5, here it is 9"),
            "contexts": (other(context=[5.0] * 3), "task.context is 5, here it is [5, 5, 5]"),
            "strength": (other(strength=0.6), "task.strength is 0.5, here it is 0.6"),
            "beta": (other(beta=0.1), "task.beta is 0, here it is 0.1"),
            "gamma": (other(gamma=0.1), "task.gamma is 0, here it is 0.1"),
            "v": (began(v=3 * SMALL), "init.v is 1e-06, here it is "),
            "w": (began(w=3 * SMALL), "init.w is 2e-06, here it is "),
            "rows": (began(v=ROWS), "init.v is 1e-06, here it is float64[3, 2]"),
            "attention": ({"init": SOFTMAX}, "linear, here it is msfr.train, softmax"),
            "size": ({"size": 2}, "size is none, here it is 2"),
            "data": ({"data": 20}, "data is none, here it is 20"),
            "batch": ({"batch": 8}, "batch is none, here it is 8"),
            "seed": ({"seed": 1}, "seed is 0, here it is 1"),
            "seeds": ({"seed": (0, 1)}, "seed is 0, here it is [0, 1]"),
            "lr": ({"lr": 0.2}, "lr is 0.1, here it is 0.2"),
            "optimizer": ({"lr": None, "optimizer": optax.sgd(0.1)}, "lr is 0.1, here it is none"),
        },
    ),
    "train, data": (
        msfr.train,
        DATA,
        {
            "data": ({"data": 21}, "data is 20, here it is 21"),
            "seed": ({"seed": 1}, "seed is 0, here it is 1"),
            "population": ({"data": None}, "data is 20, here it is none"),
        },
    ),
    "train, batch": (
        msfr.train,
        BATCH,
        {
            "batch": ({"batch": 9}, "batch is 8, here it is 9"),
            "seed": ({"seed": 1}, "seed is 0, here it is 1"),
        },
    ),
    "train, epochs": (
        msfr.train,
        {**DATA, "batch": 8},
        {
            "batch": ({"batch": 9}, "batch is 8, here it is 9"),
            "seed": ({"seed": 1}, "seed is 0, here it is 1"),
            "fresh": ({"data": None}, "data is 20, here it is none"),
            "whole": ({"batch": None}, "batch is 8, here it is none"),
        },
    ),
    "train, seeds": (
        msfr.train,
        {**DATA, "seed": (0, 1, 2)},
        {
            "seed": ({"seed": (0, 1, 3)}, "seed is [0, 1, 2], here it is [0, 1, 3]"),
            "fewer": ({"seed": (0, 1)}, "seed is [0, 1, 2], here it is [0, 1]"),
        },
    ),
    "train, softmax": (
        msfr.train,
        {**ADAM, "data": 20},
        {
            "value": (
                {"init": msfr.SoftmaxInit(2 * SMALL, SMALL, 2 * SMALL)},
                "init.value is 1e-06, here it is 2e-06",
            ),
            "width": (
                {"init": msfr.SoftmaxInit(SMALL, SMALL, 2 * SMALL, width=5)},
                "init.width is none, here it is 5",
            ),
            "rate of the optimiser": ({"optimizer": optax.adam(2e-3)}, "optimizer is optax"),
        },
    ),
    "train_brute": (
        msfr.train_brute,
        DATA,
        {
            "reduction": ({"init": SOFTMAX}, "linear, here it is msfr.train_brute, softmax"),
            "data": ({"data": 21}, "data is 20, here it is 21"),
            "batch": ({"data": None, "batch": 8}, "data is 20, here it is none"),
            "size": ({"size": 3}, "size is none, here it is 3"),
            "context": (other(context=9.0), "task.context is 5, here it is 9"),
        },
    ),
}

TIMES = [0.01, 0.2, 2.0]
POINT = {"alpha": 1.8, "context": 20.0, "strength": 0.5, "v": 0.1, "w": 0.11, "t": TIMES}
CONTEXTS = POINT | {"context": [3.0, 12.0, 40.0], "strength": [0.5, -0.8, 1.3]}
FLOW = {
    "matrix": [[2.0, 0.5], [0.5, 1.0]],
    "v": [0.5, 0.1],
    "w": [0.4, 0.2],
    "target": 1.0,
    "t": TIMES,
    "weight": 0.7,
}


def of(function, *arguments, **options):
    """A function of the theory, of all numbers of a law and a start."""

    def at(v, w, t, **law):
        return function(msfr.Task(3, **law), msfr.Init(v, w), t, *arguments, **options)

    return at


def fixed(function, **options):
    """The same of times alone: law and start are numbers outside of what is traced."""
    return lambda t: function(msfr.Task(3, 1.8, 20.0, 0.5), msfr.Init(0.1, 0.11), t, **options)


def softmax(function, *arguments, **options):
    """The same of softmax attention, whose contexts are whole and not traced."""

    def at(alpha, strength, value, key, query, **more):
        task = msfr.Task(3, alpha, 20.0, strength)
        init = msfr.SoftmaxInit(value, key, query, width=40)
        return function(task, init, *more.values(), *arguments, **options)

    return at


SOURCE = msfr.source_start(TASK)
FLAT = {"alpha": 1.8, "strength": 0.5, "value": 0.1, "key": 0.2, "query": 0.3}


def exponents(**given):
    found = msfr.exponents(**given)
    return found.size, found.data, found.time, found.compute


TRACED = {
    "loss": (of(msfr.loss), POINT),
    "loss, zeroth": (of(msfr.loss, "zeroth"), POINT),
    "loss, first": (of(msfr.loss, "first"), POINT),
    "loss, decays": (of(msfr.loss, "zeroth"), POINT | {"beta": 0.2, "gamma": 0.1}),
    "loss, own contexts": (of(msfr.loss), CONTEXTS),
    "loss, limited": (of(msfr.loss, "zeroth", size=2, data=30), POINT),
    "loss, traced limits": (
        lambda size, data, t: fixed(msfr.loss, order="zeroth", size=size, data=data)(t),
        {"size": 2.0, "data": 30.0, "t": 0.5},
    ),
    "loss, of times": (fixed(msfr.loss), {"t": TIMES}),
    "loss, of times, limited": (fixed(msfr.loss, size=2, data=30), {"t": TIMES}),
    "loss, softmax": (softmax(msfr.loss), FLAT | {"t": TIMES}),
    "loss, softmax, limited": (softmax(msfr.loss, size=2, data=30), FLAT | {"t": TIMES}),
    "softmax_start": (softmax(msfr.softmax_start), FLAT),
    "softmax_modes": (softmax(msfr.softmax_modes), FLAT),
    "source_loss": (
        lambda weights, strengths, decay: msfr.source_loss(SOURCE, strengths, weights, decay=decay),
        {"weights": [0.6, 0.3, 0.1], "strengths": np.eye(3) + 0.1, "decay": 2.0},
    ),
    "residual": (of(msfr.residual, "zeroth"), POINT),
    "predict": (of(msfr.predict, "first"), POINT),
    "predict, of times": (fixed(msfr.predict), {"t": TIMES}),
    "parameters": (of(msfr.parameters), POINT),
    "parameters, of times": (fixed(msfr.parameters), {"t": 0.5}),
    "balanced": (msfr.balanced, {"strength": 0.5, "initial": 0.1, "rate": 2.0, "t": TIMES}),
    "exact_flow": (msfr.exact_flow, FLOW),
    "exponents": (exponents, {"alpha": 1.8, "beta": 0.3, "gamma": 0.2}),
}


def law_of(function, *arguments):
    """A law that is worked out, of the numbers of a task and a start."""

    def at(alpha, v):
        return function(msfr.Task(3, alpha, 20.0, 0.5), msfr.Init(v, 0.11), *arguments)

    return at


def batched(function, *arguments, **options):
    """The same of what is told of mini-batches."""
    return lambda alpha, v: function(
        msfr.Task(3, alpha, 20.0, 0.5), msfr.Init(v, 0.11), *arguments, **options
    )


LAWFUL = {"alpha": 1.8, "v": 0.1}

HOST = {
    "time_law": (law_of(msfr.time_law), LAWFUL),
    "time_law, its loss": (
        lambda x: msfr.time_law(TASK, msfr.Init(0.1, 0.11)).loss(x),
        {"x": 0.5},
    ),
    "size_law": (law_of(msfr.size_law), LAWFUL),
    "size_law, shift": (
        lambda shift: msfr.size_law(TASK, INIT, shift=shift),
        {"shift": 0.5},
    ),
    "data_law": (law_of(msfr.data_law), LAWFUL),
    "compute_law": (law_of(msfr.compute_law), LAWFUL),
    "frontier": (law_of(msfr.frontier, [1.0, 10.0], "zeroth"), LAWFUL),
    "frontier, budget": (
        lambda compute: msfr.frontier(TASK, msfr.Init(0.1, 0.11), compute, "zeroth"),
        {"compute": [1.0, 10.0]},
    ),
    "curve_law": (
        lambda context, v: msfr.curve_law(num_tasks=3, context=context, v=v),
        {"context": 20.0, "v": 0.1},
    ),
    "flow": (lambda t: msfr.flow(TASK, msfr.Init(0.1, 0.11), t), {"t": TIMES}),
    "flow, law": (law_of(msfr.flow, TIMES), LAWFUL),
    "sample": (lambda alpha: msfr.sample(msfr.Task(3, alpha, 5, 0.5), 4), {"alpha": 1.8}),
    "train": (
        lambda alpha, lr: msfr.train(msfr.Task(3, alpha, 5, 0.5), INIT, lr=lr, steps=2),
        {"alpha": 1.8, "lr": 0.1},
    ),
    "train, rate": (lambda lr: msfr.train(TASK, INIT, lr=lr, steps=2), {"lr": 0.1}),
    "train_brute": (
        lambda v: msfr.train_brute(TASK, msfr.Init(v, 0.1), lr=0.1, steps=2, data=4),
        {"v": 0.1},
    ),
    "repetition": (law_of(msfr.repetition, 0.3), LAWFUL),
    "repetition, clock": (
        lambda clock: msfr.repetition(TASK, msfr.Init(0.1, 0.11), clock).ratio,
        {"clock": [0.1, 1.0]},
    ),
    "sgd_loss": (batched(msfr.sgd_loss, 20, lr=0.1, batch=2), LAWFUL),
    "sgd_loss, steps": (
        lambda steps, lr: msfr.sgd_loss(TASK, msfr.Init(0.1, 0.11), steps, lr=lr, batch=2),
        {"steps": 20, "lr": 0.1},
    ),
    "sgd_amplitude": (batched(msfr.sgd_amplitude, lr=0.1, batch=2), LAWFUL),
    "mean_square_rate": (batched(msfr.mean_square_rate, lr=0.1, batch=2), LAWFUL),
    "stability_edge": (batched(msfr.stability_edge, batch=2), LAWFUL),
    "one_hit_step": (batched(msfr.one_hit_step), LAWFUL),
    "best_batch": (
        lambda lr: msfr.best_batch(TASK, msfr.Init(0.1, 0.11), lr),
        {"lr": 0.1},
    ),
    "largest_batch": (
        lambda step: msfr.largest_batch(TASK, msfr.Init(0.1, 0.11), step=step),
        {"step": 0.1},
    ),
    "adamw": (msfr.adamw, {"lr": 5e-3}),
    "adam_residual": (batched(msfr.adam_residual, 3, 1.0), LAWFUL),
    "adam_loss": (batched(msfr.adam_loss, 3), LAWFUL),
    "adam_regimes": (batched(msfr.adam_regimes), LAWFUL),
    "source_start": (lambda alpha: msfr.source_start(msfr.Task(3, alpha, 5, 0.5)), {"alpha": 1.8}),
    "source_strengths": (
        lambda alpha: msfr.source_strengths(msfr.Task(3, alpha, 5, 0.5)),
        {"alpha": 1.8},
    ),
    "train_source": (lambda lr: msfr.train_source(TASK, lr=lr, steps=2), {"lr": 0.1}),
    "LinearAttention": (
        lambda v: msfr.LinearAttention.start(TASK, msfr.Init(v, 0.1)),
        {"v": 0.1},
    ),
    "SoftmaxAttention": (
        lambda value: msfr.SoftmaxAttention.start(TASK, msfr.SoftmaxInit(value, 0.1, 0.1)),
        {"value": 0.1},
    ),
}

NUMBERS = (
    "AdamRegimes",
    "Exponents",
    "Frontier",
    "Init",
    "Law",
    "Repetition",
    "Run",
    "SoftmaxInit",
    "SoftmaxModes",
    "SoftmaxStart",
    "SourceRun",
    "Task",
    "Tokens",
    "train_tokens",
)
