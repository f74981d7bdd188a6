"""What there is in the deep_icl lab."""

import numpy as np

from solvable import deep_icl as deep

D = 6
X, Y = (np.random.default_rng(0).standard_normal(shape) for shape in ((7, D), (4,)))
ROTATED = {"nu": 1.3, "beta": 0.8, "dim": D}
NARROW = {**ROTATED, "width": 4, "context": 9}
POINT = {"nu": 1.3, "beta": 0.8}
PLACE = {**POINT, "gamma": 1.5}


def full(nu, beta, **more):
    return deep.RotatedStructure(nu, beta, D, **more)


def diagonal(nu, beta, **more):
    return deep.FixedStructure(nu, beta, D, **more)


def sgd(alpha, noise, lr, batch, queries):
    options = {"lr": lr, "steps": 4, "batch": batch, "queries": queries}
    return deep.sgd_curve(deep.Isotropic(alpha, noise), **options, noisy_queries=True)


TRACED = {
    "attention_time_exponent": (deep.attention_time_exponent, {"beta": 0.8}),
    "edge, isotropic": (lambda alpha: deep.edge(deep.Isotropic(alpha)), {"alpha": 2.0}),
    "edge, fixed": (lambda **law: deep.edge(diagonal(**law, context=9)), POINT),
    "edge, narrow": (lambda **law: deep.edge(full(**law, width=4, context=9)), POINT),
    "exponents": (deep.exponents, {"nu": 1.3, "beta": 0.8}),
    "exponents, compute": (lambda **law: deep.exponents(**law).compute(), POINT),
    "floor, width": (lambda **law: deep.floor(full(**law, width=3), "width"), POINT),
    "floor, context": (lambda **law: deep.floor(full(**law, context=3), "context"), POINT),
    "floor, both": (lambda **law: deep.floor(full(**law, width=2, context=5), "both"), POINT),
    "floor, depth": (lambda **law: deep.floor(full(**law), "depth", depth=[2, 3]), POINT),
    "gamma_curve, fixed": (
        lambda t, **law: deep.gamma_curve(diagonal(**law), t, [1, 2, None]),
        {**POINT, "t": [0.5, 3.0]},
    ),
    "gamma_prediction": (
        lambda gamma, x, y: deep.gamma_prediction(gamma, x, y, 2),
        {"gamma": np.eye(D), "x": X, "y": Y},
    ),
    "loss, isotropic": (
        lambda alpha, noise, gamma: deep.loss(
            deep.Isotropic(alpha, noise), gamma=gamma, depth=[1, 3, None]
        ),
        {"alpha": 2.0, "noise": 0.3, "gamma": [0.5, 1.5]},
    ),
    "loss, fixed": (lambda gamma, **law: deep.loss(diagonal(**law), gamma=gamma, depth=3), PLACE),
    "loss, fixed, one layer": (
        lambda gamma, **law: deep.loss(diagonal(**law, context=9), gamma=gamma),
        {**POINT, "gamma": np.linspace(0.2, 1.0, D)},
    ),
    "loss, fixed, finite contexts": (
        lambda gamma, **law: deep.loss(diagonal(**law, context=9), gamma=gamma, depth=2),
        {**POINT, "gamma": np.linspace(0.2, 1.0, D)},
    ),
    "loss, full": (
        lambda gamma, **law: deep.loss(full(**law), step_size=gamma, depth=[1, 3]),
        PLACE,
    ),
    "loss, narrow": (
        lambda gamma, **law: deep.loss(full(**law, width=4, context=9), gamma=gamma, depth=3),
        PLACE,
    ),
    "loss_curve, fixed": (
        lambda t, **law: deep.loss_curve(diagonal(**law), t, [1, 2, None]),
        {**POINT, "t": [0.5, 3.0]},
    ),
    "optimum, isotropic": (
        lambda alpha: deep.optimum(deep.Isotropic(alpha), [1, 8]),
        {"alpha": 2.0},
    ),
    "optimum, noise": (
        lambda alpha, noise: deep.optimum(deep.Isotropic(alpha, noise), [1, 3, None]),
        {"alpha": 2.0, "noise": 0.3},
    ),
    "optimum, full": (lambda **law: deep.optimum(full(**law), [1, 4]), POINT),
    "optimum, narrow": (lambda **law: deep.optimum(full(**law, width=4, context=9), [1, 2]), POINT),
    "optimum, fixed": (lambda **law: deep.optimum(diagonal(**law), [1, 4]), POINT),
    "optimum, one layer": (lambda **law: deep.optimum(diagonal(**law, context=9)), POINT),
    "ridge_loss": (
        lambda alpha, noise: deep.ridge_loss(deep.Isotropic(alpha, noise)),
        {"alpha": 2.0, "noise": 0.3},
    ),
    "sgd_curve": (
        sgd,
        {"alpha": 2.0, "noise": 0.3, "lr": 0.1, "batch": 1.0, "queries": 4.0},
    ),
    "shift_radius": (
        lambda angle, **law: deep.shift_radius(diagonal(**law), angle),
        {**POINT, "angle": [0.02, 0.1]},
    ),
    "shifted_loss": (
        lambda angle, **law: deep.shifted_loss(diagonal(**law), angle, [1, 2]),
        {**POINT, "angle": [0.02, 0.1]},
    ),
    "Spectrum, floors": (
        lambda nu, beta, n: [
            getattr(deep.Spectrum.power(nu, beta, 200), name)(n)
            for name in ("level", "width_floor", "context_floor")
        ],
        {**POINT, "n": [3.0, 30.0, 300.0]},
    ),
    "untied_depth_law": (
        lambda **law: deep.untied_depth_law(**law, dim=200)([2.0, 40.0]),
        POINT,
    ),
    "untied_loss": (
        lambda gamma, **law: deep.untied_loss(full(**law), gamma),
        {**POINT, "gamma": [[0.5, 1.0], [1.0, 2.0]]},
    ),
}
HOST = {
    "batch_floor": (
        lambda **law: deep.batch_floor(full(**law), 1, lr=0.1, contexts=4).loss,
        POINT,
    ),
    "additive_law": (lambda **law: deep.additive_law(**law)(t=10.0), POINT),
    "additive_law, places": (lambda t: deep.additive_law(1.3, 0.8)(t=t), {"t": 10.0}),
    "additive_loss": (lambda **law: deep.additive_loss(**law, t=10.0), POINT),
    "draw_spectra": (lambda **law: deep.draw_spectra(full(**law), 2).loss(gamma=1.0), POINT),
    "draw_spectra, loss": (
        lambda gamma: deep.draw_spectra(deep.RotatedStructure(**ROTATED), 2).loss(gamma=gamma),
        {"gamma": 1.0},
    ),
    "gamma_curve": (lambda t: deep.gamma_curve(deep.Isotropic(2.0), t, 2), {"t": 0.5}),
    "law": (lambda **law: deep.law("width", **law).loss(3.0), POINT),
    "law, loss": (lambda x: deep.law("width", 1.3, 0.8).loss(x), {"x": 3.0}),
    "law, power": (lambda x: deep.law("width", 1.3, 0.8)(x), {"x": 3.0}),
    "loss_curve": (lambda **law: deep.loss_curve(full(**law), 0.5, 2), POINT),
    "loss_curve, start": (
        lambda weights: deep.loss_curve(
            deep.RotatedStructure(**ROTATED), 0.5, 2, start=deep.Init(weights=weights)
        ),
        {"weights": 0.4},
    ),
    "optimal_shape": (
        lambda budget: deep.optimal_shape(budget, nu=1.3, beta=0.8).loss,
        {"budget": 1e9},
    ),
    "optimum, drawn contexts": (
        lambda **law: deep.optimum(full(**law, width=4), 2, contexts=3).gamma,
        POINT,
    ),
    "optimum, finite contexts": (lambda **law: deep.optimum(diagonal(**law, context=9), 2), POINT),
    "untied_curve": (
        lambda t, gamma: deep.untied_curve(
            deep.RotatedStructure(**ROTATED), t, start=deep.Init(gamma=gamma)
        ),
        {"t": 0.5, "gamma": [0.1, 0.2]},
    ),
    "untied_optimum": (lambda **law: deep.untied_optimum(full(**law), 2), POINT),
}
NUMBERS = {
    "AdditiveLaw",
    "BatchFloor",
    "Contexts",
    "ConventionWarning",
    "Exponents",
    "FixedStructure",
    "Init",
    "Isotropic",
    "Law",
    "LinearAttention",
    "Optimum",
    "RotatedStructure",
    "Run",
    "SgdCurve",
    "SgdRun",
    "Shape",
    "SoftmaxAttention",
    "Spectra",
    "Spectrum",
    "UntiedCurve",
    "UntiedLaw",
    "curve_law",
    "sample",
    "train",
    "train_brute",
    "train_sgd",
    "train_softmax",
}

SMALL = 1e-6  # a start whose loss all laws of one energy share
RRS = {"nu": 1.25, "beta": 1.0, "dim": 6}
TOKENS = {**RRS, "context": 7, "queries": 3}
ISO = {"alpha": 2.0, "dim": 4}
ZERO = deep.Init(gamma=SMALL)
WEIGHTS = deep.Init(weights=0.05)


def rotated(**changes):
    return {"task": deep.RotatedStructure(**{**RRS, **changes})}


def tokens(**changes):
    return {"task": deep.RotatedStructure(**{**TOKENS, **changes})}


def fixed(**changes):
    return {"task": deep.FixedStructure(**{**TOKENS, **changes})}


def isotropic(**changes):
    return {"task": deep.Isotropic(**{**ISO, **changes})}


DESCENT = {"start": ZERO, "depth": 2, "lr": 0.1, "steps": 3, "log_every": 1}
BRUTE = {**tokens(), **DESCENT, "contexts": 4}
SGD = {**isotropic(), "lr": 1e-6, "steps": 3, "contexts": 4, "queries": 5}
SOFTMAX = {**fixed(), "depth": 2, "hidden": 4, "lr": 1e-6, "steps": 3, "contexts": 4}
TOLD = "is {}, here it is {}".format

RESUMED = {
    "train": (
        deep.train,
        {**rotated(), **DESCENT},
        {
            "nu": (rotated(nu=1.3), "task.nu " + TOLD(1.25, 1.3)),
            "beta": (rotated(beta=1.1), "task.beta " + TOLD(1, 1.1)),
            "dim": (rotated(dim=7), "task.dim " + TOLD(6, 7)),
            "width": (rotated(width=5), "task.width " + TOLD(6, 5)),
            "context": (rotated(context=9), "task.context " + TOLD("none", 9)),
            "noise": (rotated(noise=0.1), "task.noise " + TOLD(0, 0.1)),
            "queries": (rotated(queries=2), "task.queries " + TOLD("none", 2)),
            "lam": (
                {"task": deep.RotatedStructure(lam=np.full(6, 0.5), omega=np.ones(6))},
                "task.nu " + TOLD(1.25, "none"),
            ),
            "law": (
                {"task": deep.FixedStructure(**RRS)},
                "task.law " + TOLD("RotatedStructure", "FixedStructure"),
            ),
            "depth": ({"depth": 3}, "depth " + TOLD(2, 3)),
            "lr": ({"lr": 0.2}, "lr " + TOLD(0.1, 0.2)),
            "start": ({"start": deep.Init(gamma=2e-6)}, "start.gamma " + TOLD(1e-6, 2e-6)),
            "weights": ({"start": WEIGHTS}, "start.gamma " + TOLD(1e-6, "none")),
            "layers": ({"layers": "untied"}, "layers " + TOLD("tied", "untied")),
            "time": ({"time": "matrix"}, "time " + TOLD("scalar", "matrix")),
        },
    ),
    "train, full attention": (
        deep.train,
        {**isotropic(), **DESCENT, "start": WEIGHTS},
        {
            "alpha": (isotropic(alpha=2.5), "task.alpha " + TOLD(2, 2.5)),
            "noise": (isotropic(noise=0.1), "task.noise " + TOLD(0, 0.1)),
            "dim": (isotropic(dim=6), "task.dim " + TOLD(4, 6)),
            "weights": ({"start": deep.Init(weights=0.06)}, "start.weights is [0.07"),
        },
    ),
    "train, finite contexts": (
        deep.train,
        {**rotated(context=9), **DESCENT},
        {"context": (rotated(context=10), "task.context " + TOLD(9, 10))},
    ),
    "train, one γ a direction": (
        deep.train,
        {"task": deep.FixedStructure(**RRS), **DESCENT},
        {
            "beta": (
                {"task": deep.FixedStructure(**{**RRS, "beta": 1.1})},
                "task.beta " + TOLD(1, 1.1),
            ),
            "start": (
                {"start": deep.Init(gamma=np.full(6, 2e-6))},
                "start.gamma is 1e-06, here it is float64[6] ",
            ),
        },
    ),
    "train_brute": (
        deep.train_brute,
        BRUTE,
        {
            "context": (tokens(context=8), "task.context " + TOLD(7, 8)),
            "queries": (tokens(queries=4), "task.queries " + TOLD(3, 4)),
            "noise": (tokens(noise=0.1), "task.noise " + TOLD(0, 0.1)),
            "width": (tokens(width=5), "task.width " + TOLD(6, 5)),
            "depth": ({"depth": 3}, "depth " + TOLD(2, 3)),
            "lr": ({"lr": 0.2}, "lr " + TOLD(0.1, 0.2)),
            "contexts": ({"contexts": 5}, "contexts " + TOLD(4, 5)),
            "seed": ({"seed": 1}, "seed " + TOLD(0, 1)),
            "start": ({"start": deep.Init(gamma=2e-6)}, "start.gamma " + TOLD(1e-6, 2e-6)),
            "layers": ({"layers": "untied"}, "layers " + TOLD("tied", "untied")),
            "time": ({"time": "matrix"}, "time " + TOLD("scalar", "matrix")),
        },
    ),
    "train_brute, full attention": (
        deep.train_brute,
        {**BRUTE, "start": WEIGHTS},
        {
            "seed": ({"seed": 1}, "seed " + TOLD(0, 1)),
            "kind": ({"start": ZERO}, "start.gamma " + TOLD("none", 1e-6)),
        },
    ),
    "train_sgd": (
        deep.train_sgd,
        SGD,
        {
            "alpha": (isotropic(alpha=2.5), "task.alpha " + TOLD(2, 2.5)),
            "noise": (isotropic(noise=0.1), "task.noise " + TOLD(0, 0.1)),
            "lr": ({"lr": 2e-6}, "lr " + TOLD(1e-6, 2e-6)),
            "contexts": ({"contexts": 5}, "contexts " + TOLD(4, 5)),
            "queries": ({"queries": 6}, "queries " + TOLD(5, 6)),
            "all queries": ({"queries": None}, "queries " + TOLD(5, "none")),
            "noisy_queries": ({"noisy_queries": True}, "noisy_queries " + TOLD(False, True)),
            "seed": ({"seed": 1}, "seed " + TOLD(0, 1)),
        },
    ),
    "train_softmax": (
        deep.train_softmax,
        SOFTMAX,
        {
            "depth": ({"depth": 3}, "depth " + TOLD(2, 3)),
            "mlp": ({"mlp": True}, "mlp " + TOLD(False, True)),
            "lr": ({"lr": 2e-6}, "rate " + TOLD(1e-6, 2e-6)),
            "seed": ({"seed": 1}, "seed " + TOLD(0, 1)),
        },
    ),
}
