"""App. A: a strength that was not in the training data, with and without the constraint."""

from typing import Any

import jax
import matplotlib.figure
import numpy as np
import optax
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step
from ...reproduce.claim import Kind
from ...style import THEORY, TOKENS, TRAINING, colour
from .. import Init, LinearAttention, Task, sample, train, train_tokens
from ..model import predict_tokens

SEED = 0
STRENGTH = 0.5  # Λ, seen in training
KINDS = ("constrained", "free")  # along the dimension "training"
FREE = np.ones((2, 2))
# Rows: v, w; columns: the entries on s and S+1. v = (0, v_y), w = (w_s, 0).
CONSTRAINED = np.array([[0.0, 1.0], [1.0, 0.0]])
INIT = np.array([[0.1, 0.1], [0.11, 0.11]])  # (106)
SETTINGS: dict[Size, dict[str, Any]] = {
    "quick": {"num_tasks": 3, "context": 10, "data": 60, "lr": 0.05, "steps": 4000, "unseen": 16},
    "default": {
        "num_tasks": 5,
        "context": 20,
        "data": 200,
        "lr": 0.02,
        "steps": 16000,
        "unseen": 24,
    },
    "full": {
        "num_tasks": 10,
        "context": 50,
        "data": 2000,
        "lr": 0.01,
        "steps": 60000,
        "unseen": 40,
    },
}


def held(mask: Any, lr: float) -> optax.GradientTransformation:
    """Gradient descent in which only the entries where `mask` is 1 move."""

    def move(updates: Any, params: Any) -> Any:
        return jax.tree.map(lambda x, keep: x * keep, updates, mask)

    return optax.chain(optax.sgd(lr), optax.stateless(move))


def _grid(count: int) -> np.ndarray:
    """Strengths of both signs, without 0 and with −Λ."""
    one_sided = 2.0 * STRENGTH * np.arange(1, count // 2 + 1) / (count // 4)
    return np.concatenate([-one_sided[::-1], one_sided])


def _trained(settings: dict, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Predictions (unseen, task) after training, by the reduction and on tokens."""
    size, lr = settings["num_tasks"], settings["lr"]
    how = {"steps": settings["steps"], "log_every": settings["steps"]}

    def law(strength: float) -> Task:
        return Task(size, alpha=1.8, context=float(settings["context"]), strength=strength)

    task = law(STRENGTH)
    init = Init(*(np.tile(row, (size, 1)) for row in INIT * mask))
    moves = tuple(np.tile(row, (size, 1)) for row in mask)
    run = train(task, init, optimizer=held(moves, lr), data=settings["data"], seed=SEED, **how)
    end = Init(*run.state[0])

    tokens = sample(task, settings["data"], seed=SEED)
    everywhere = LinearAttention.start(task, Init(*moves))
    everywhere = jax.tree.map(lambda x: (x != 0.0).astype(x.dtype), everywhere)
    start = LinearAttention.start(task, init)
    model = train_tokens(start, tokens, optimizer=held(everywhere, lr), progress=step, **how)

    found, seen = [], []
    for strength in _grid(settings["unseen"]):
        new = law(float(strength))
        found.append(train(new, end, lr=lr, steps=0).predictions[:, 0])
        data = sample(new, settings["data"], seed=SEED + 1)
        f = predict_tokens(model.state[0], data) * np.sign(data.label / strength)
        seen.append([np.mean(np.asarray(f)[np.asarray(data.task) == s]) for s in range(size)])
    loss = np.asarray(run.train_loss[-1])
    return {"reduced": np.asarray(found), "tokens": np.asarray(seen), "loss": loss}


def _predictions(settings: dict) -> xr.Dataset:
    runs = [_trained(settings, mask) for mask in (CONSTRAINED, FREE)]
    dims = ("training", "unseen", "task")
    return xr.Dataset(
        {
            "reduced": (dims, np.stack([run["reduced"] for run in runs])),
            "tokens": (dims, np.stack([run["tokens"] for run in runs])),
            "loss": ("training", [float(run["loss"]) for run in runs]),
        },
        coords={"unseen": _grid(settings["unseen"])},
    )


def compute(size: Size) -> xr.Dataset:
    """Both trainings to their end, in the reduction and on tokens, then new strengths."""
    return stage("predictions", lambda: _predictions(SETTINGS[size]))


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """What the trained model predicts for the most frequent task at new strengths."""
    figure = matplotlib.figure.Figure()
    axes = figure.subplots()
    for k, kind in enumerate(KINDS):
        here = data.isel(training=k, task=0)
        words = "$v$, $w$ free" if kind == "free" else "$v = (0, v_y)$, $w = (w_s, 0)$"
        axes.plot(data.unseen, here.reduced, color=colour(k), label=words, **TRAINING)
        axes.plot(data.unseen, here.tokens, color=colour(k), label="tokens", **TOKENS)
    axes.plot(data.unseen, data.unseen, color="black", label=r"$f = \tilde\Lambda$", **THEORY)
    axes.axvline(STRENGTH, color="0.6", linewidth=0.7, zorder=0)
    axes.annotate(
        r"$\Lambda$, trained on",
        (STRENGTH, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color="0.35",
    )
    axes.set_xlabel(r"strength in the context, $\tilde\Lambda$")
    axes.set_ylabel("prediction $f$")
    axes.legend(loc="upper left")
    return figure


def _say(word: str, kind: Kind, text: str, source: str = "App. A") -> Statement:
    return Statement(f"msfr/unseen/{word}", text, source, kind)


EXACT = _say(
    "constrained",
    "paper",
    "Trained with v = (0, v_y), w = (w_s, 0) the model predicts every unseen strength Λ̃ "
    "(largest |f − Λ̃|/|Λ̃|).",
    "App. A, (18)",
)
FREE_MISSES = _say(
    "free",
    "new",
    "Trained without the constraint the model misses the unseen strength Λ̃ = −Λ by at least "
    "Λ (smallest |f − Λ̃|/Λ over tasks).",
)
BRUTE = {
    kind: _say(
        f"tokens-{kind}",
        "check",
        f"Real tokens with unseen strengths are predicted as in the reduction, {word} "
        "(largest |difference| over the largest |f|).",
    )
    for kind, word in zip(KINDS, ("with the constraint", "without it"), strict=True)
}


def claims(data: xr.Dataset) -> list[Claim]:
    """Unseen strengths with and without the constraint, and tokens against the reduction."""
    unseen = data.unseen.values[:, None]
    constrained, free = data.reduced.values
    opposite = int(np.argmin(np.abs(data.unseen.values + STRENGTH)))
    missed = np.min(np.abs(free[opposite] / STRENGTH + 1.0))
    losses = dict(zip(KINDS, data.loss.values, strict=True))
    return [
        EXACT.judge(
            0.0,
            np.max(np.abs(constrained / unseen - 1.0)),
            1e-8,
            note=f"Loss on the training data at the end: {losses['constrained']:.1e}.",
        ),
        FREE_MISSES.judge(
            1.0,
            missed,
            "at least",
            note="From a start with v ≈ w training ends at v ≈ w, where f = ψ(v_1 + Λ̃v_2)² + v_1² "
            f"cannot be negative. Loss on the training data at the end: {losses['free']:.1e}.",
        ),
        *(
            BRUTE[kind].judge(0.0, np.max(np.abs(tokens - found)) / np.max(np.abs(found)), 1e-10)
            for kind, tokens, found in zip(
                KINDS, data.tokens.values, data.reduced.values, strict=True
            )
        ),
    ]


FIGURE = Figure(
    id="msfr/unseen",
    title="Strengths that were not in the training data",
    settings=SETTINGS,
    statements=(EXACT, FREE_MISSES, *BRUTE.values()),
    compute=compute,
    draw=draw,
    claims=claims,
    note="The paper has no picture of this. All tasks are trained with Λ = 0.5 from v = 0.1, w = "
    "0.11 at the start (106), "
    "of which the constraint holds two entries of every task at 0; the context length is the one "
    "of training.",
    seed=SEED,
)
