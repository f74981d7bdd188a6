"""The same training in its exact small state space.

Linear attention: the context matrix ``ΦΦᵀ`` does not depend on the signs, and of ``v_s, w_s`` only
the entries on coordinates (s, S+1) ever move, so a step of gradient descent updates 4 numbers a
task. Softmax attention: the prediction depends on the signs through ``n``, how many of the context
equal the query's, so the loss is a sum over (task, n); what moves is ``V_ss, V_{s,S+1}``, the key
and query columns of each task, and one shared key column ``K_y``. Both hold for every optimiser
that acts entry by entry.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, Int, UInt32

from .. import memory, training, validation
from ..compiling import jit, stage
from ..numerics.buckets import by_bucket
from ..numerics.ode import solve_at
from . import task as tasks
from .batches import batch_keys, batch_places, draw_batch
from .run import Run, batch_stream, checked, prepared
from .start import Init, SoftmaxInit
from .task import Task

PerTask = Float[Array, " tasks"]
Pair = Float[Array, "tasks 2"]
PerSign = Float[Array, "tasks signs"]


class LinearProblem(eqx.Module):
    """Linear attention on 4 numbers a task.

    ``f_s = v_sᵀ H_s w_s = ψ q_v q_w + v_1 w_1`` with ``q_x = x_1 + Λ x_2`` (7), (8).
    """

    context: PerTask
    strength: PerTask
    weights: PerTask  # p_s
    shares: PerTask  # #_s / N, or p_s
    learned: Bool[Array, " tasks"]
    index: Int[Array, " data"] | None  # the task of every datum, where batches are taken of them
    stream: UInt32[Array, " words"] | None  # the key of the mini-batches, as numbers
    batch: int | None = eqx.field(static=True)

    @property
    def drawn(self) -> Array:
        """What the data set is to this problem."""
        return self.shares if self.index is None else self.index

    def _along(self, x: Pair) -> PerTask:
        return x[:, 0] + self.strength * x[:, 1]

    def predictions(self, params: tuple[Pair, Pair]) -> PerTask:
        """f_s of every task."""
        v, w = params
        return self.context * self._along(v) * self._along(w) + v[:, 0] * w[:, 0]

    def shares_at(self, step: Int[Array, ""]) -> PerTask:
        """The task shares that step `step` trains on."""
        if self.batch is None or self.stream is None:
            return self.shares
        if self.index is None:
            index = tasks.draw_tasks(self.weights, batch_keys(self.stream, step)[0], self.batch)
        else:
            index = self.index[batch_places(self.stream, step, self.batch, self.index.shape[0])]
        return tasks.count_tasks(index, self.weights.shape[0])

    def gradient(self, params: tuple[Pair, Pair], step: Int[Array, ""]) -> tuple[Pair, Pair]:
        """``∂L/∂v = p̂ (f − Λ) H w`` and ``∂L/∂w = p̂ (f − Λ) H v``."""
        pull = self.shares_at(step) * (self.predictions(params) - self.strength)
        pull = jnp.where(self.learned, pull, 0.0)

        def through(x: Pair) -> Pair:
            """``p̂ (f − Λ) H x``."""
            q = self.context * self._along(x)
            return jnp.stack([pull * (q + x[:, 0]), pull * q * self.strength], axis=-1)

        v, w = params
        return through(w), through(v)

    def observe(self, params: tuple[Pair, Pair]) -> dict[str, Array]:
        """Losses and predictions."""
        f = self.predictions(params)
        square = 0.5 * (f - self.strength) ** 2
        return {
            "loss": jnp.sum(self.weights * square),
            "train_loss": jnp.sum(self.shares * square),
            "predictions": f,
        }


class SoftmaxParams(eqx.Module):
    """What moves in softmax attention. A column of equal entries is kept as one entry."""

    value: Pair
    key: Float[Array, "tasks width"]
    query: Float[Array, "tasks width"]
    target_key: Float[Array, " width"]  # K_y


class SoftmaxProblem(eqx.Module):
    """Softmax attention on per-task columns and the shared K_y.

    With ``u = (K_s + Λ_s K_y)·Q_s``, ``d = K_s·Q_s`` and n of the ψ context signs equal to the
    query's, the prediction times ε̂ is ``[(n e^u − (ψ−n) e^−u)(V_ss + Λ V_{s,S+1}) + e^d V_ss] /
    [n e^u + (ψ−n) e^−u + e^d]``.
    """

    context: PerTask
    strength: PerTask
    task_weights: PerTask  # p_s
    weights: PerSign  # p_s Binom(n; ψ_s, ½)
    shares: PerSign
    learned: Bool[Array, " tasks"]
    frozen: PerSign  # predictions at the start
    cells: Int[Array, " data"] | None  # (task, n) of every datum, where batches are taken of them
    stream: UInt32[Array, " words"] | None  # the key of the mini-batches, as numbers
    batch: int | None = eqx.field(static=True)
    copies: int = eqx.field(static=True)  # how many equal entries one kept entry stands for

    @property
    def drawn(self) -> Array:
        """What the data set is to this problem."""
        return self.shares if self.cells is None else self.cells

    def predictions(self, params: SoftmaxParams) -> PerSign:
        """f_s times ε̂ for every number n of equal signs."""
        strength = self.strength[:, None]
        key = params.key + strength * params.target_key[None, :]
        u = self.copies * jnp.sum(key * params.query, axis=1, keepdims=True)
        d = self.copies * jnp.sum(params.key * params.query, axis=1, keepdims=True)
        context = self.context[:, None]
        n = jnp.arange(self.weights.shape[1], dtype=u.dtype)[None, :]
        same, other = jnp.minimum(n, context), jnp.maximum(context - n, 0.0)
        # The largest exponent of a token that is there is taken out, so that nothing overflows.
        exponents = [(same > 0.0, u), (other > 0.0, -u), (same >= 0.0, d)]
        kept = [jnp.where(there, x, -jnp.inf) for there, x in exponents]
        top = jax.lax.stop_gradient(jnp.max(jnp.stack(kept), axis=0))
        plus, minus, own = (jnp.exp(x - top) for x in kept)
        v_own, v_target = params.value[:, :1], params.value[:, 1:]
        mixed = (same * plus - other * minus) * (v_own + strength * v_target) + own * v_own
        f = mixed / (same * plus + other * minus + own)
        return jnp.where(self.learned[:, None], f, self.frozen)

    def shares_at(self, step: Int[Array, ""]) -> PerSign:
        """The shares of (task, n) that step `step` trains on."""
        if self.batch is None or self.stream is None:
            return self.shares
        size, width = self.weights.shape
        if self.cells is None:
            drawn = draw_batch(self.task_weights, self.stream, step, self.batch, width - 1)
            cells = pair_cells(self.context, *drawn)
        else:
            cells = self.cells[batch_places(self.stream, step, self.batch, self.cells.shape[0])]
        return tasks.count_tasks(cells, size * width).reshape(size, width)

    def gradient(self, params: SoftmaxParams, step: Int[Array, ""]) -> SoftmaxParams:
        """The gradient of the loss, per entry of the full matrices."""
        shares = self.shares_at(step)

        def loss(params: SoftmaxParams) -> Float[Array, ""]:
            return 0.5 * jnp.sum(shares * (self.predictions(params) - self.strength[:, None]) ** 2)

        grad = jax.grad(loss)(params)
        # A kept entry stands for `copies` entries, each of which has its share of the slope.
        return SoftmaxParams(
            grad.value,
            grad.key / self.copies,
            grad.query / self.copies,
            grad.target_key / self.copies,
        )

    def observe(self, params: SoftmaxParams) -> dict[str, Array]:
        """Losses and mean predictions."""
        f = self.predictions(params)
        square = 0.5 * (f - self.strength[:, None]) ** 2
        return {
            "loss": jnp.sum(self.weights * square),
            "train_loss": jnp.sum(self.shares * square),
            "predictions": jnp.sum(self.weights * f, axis=1) / self.task_weights,
        }


def sign_weights(context: Float[Array, " tasks"], longest: int) -> Float[Array, "tasks signs"]:
    """``Binom(n; ψ_s, ½)`` for n = 0 … the longest context."""
    n = jnp.arange(longest + 1, dtype=context.dtype)[None, :]
    psi = context[:, None]
    other = jnp.maximum(psi - n, 0.0)
    log = gammaln(psi + 1.0) - gammaln(n + 1.0) - gammaln(other + 1.0) - psi * np.log(2.0)
    return jnp.where(n <= psi, jnp.exp(log), 0.0)


def pair_cells(
    context: Float[Array, " tasks"],
    index: Int[Array, " data"],
    signs: Int[Array, "data columns"],
) -> Int[Array, " data"]:
    """(task, n) of each datum as one number, n how many of its context signs are ε̂."""
    width = signs.shape[1]  # n = 0 … the longest context, which has a column less
    place = jnp.arange(width - 1)
    present = place[None, :].astype(context.dtype) < context[index][:, None]
    equal = jnp.sum((signs[:, :-1] == signs[:, -1:]) & present, axis=1, dtype=index.dtype)
    return index * width + equal


def linear_problem(
    task: Task,
    init: Init,
    learned: Bool[Array, " tasks"],
    data: int | None,
    batch: int | None,
    seed: int,
) -> tuple[LinearProblem, tuple[Pair, Pair]]:
    """The reduced problem of linear attention, and where it starts."""
    weights = shares = task.weights
    index = None
    if data is not None and batch is not None:
        index, shares = _drawn(weights, stage(seed), data)
    elif data is not None:
        shares = tasks.realised_shares(task, data, seed)
    problem = LinearProblem(
        context=task.contexts,
        strength=task.strengths,
        weights=weights,
        shares=shares,
        learned=learned,
        index=index,
        stream=batch_stream(data, batch, seed),
        batch=batch,
    )
    return problem, init.columns(task)


@jit(static_argnames="data")
def _drawn(weights: PerTask, seed: Array, data: int) -> tuple[Int[Array, " data"], PerTask]:
    """The tasks of the data that a seed draws, and their shares."""
    index = tasks.draw_tasks(weights, tasks.seed_keys(seed)[0], data)
    return index, tasks.count_tasks(index, weights.shape[0])


@jit(static_argnames=("data", "longest"))
def _drawn_pairs(
    task: Task, seed: Array, data: int, longest: int
) -> tuple[PerSign, PerSign, Int[Array, " data"] | None]:
    """The weights of (task, n), their shares in the data set that a seed draws, and the data."""
    weights = task.weights[:, None] * sign_weights(task.contexts, longest)
    if not data:
        return weights, weights, None
    task_key, token_key = tasks.seed_keys(seed)
    index = tasks.draw_tasks(task.weights, task_key, data)
    signs = tasks.draw_signs(token_key, jnp.arange(data), longest)
    cells = pair_cells(task.contexts, index, signs)
    return weights, tasks.count_tasks(cells, weights.size).reshape(weights.shape), cells


_predictions = jit(SoftmaxProblem.predictions)


def softmax_problem(
    task: Task,
    init: SoftmaxInit,
    learned: Bool[Array, " tasks"],
    data: int | None,
    batch: int | None,
    seed: int,
) -> tuple[SoftmaxProblem, SoftmaxParams]:
    """The reduced problem of softmax attention, and where it starts."""
    longest = tasks.longest_context(task)
    memory.refuse("context", longest, 80.0 * task.num_tasks * (longest + 1))
    drawn = data or batch or 0
    memory.refuse("data" if data else "batch", drawn, 16.0 * drawn * (longest + 1))
    weights, shares, cells = _drawn_pairs(task, stage(seed), data or 0, longest)

    width = init.width_for(task)
    kept = 1 if init.key.ndim == 0 and init.query.ndim == 0 else width
    keys, queries = (np.asarray(x).T for x in (init.keys(task, kept), init.queries(task, kept)))
    params = SoftmaxParams(
        init.values(task), stage(keys[:-1]), stage(queries[:-1]), stage(keys[-1])
    )
    problem = SoftmaxProblem(
        context=task.contexts,
        strength=task.strengths,
        task_weights=task.weights,
        weights=weights,
        shares=shares,
        learned=stage(np.ones(task.num_tasks, bool)),
        frozen=stage(np.zeros(weights.shape)),
        cells=None if batch is None else cells,
        stream=batch_stream(data, batch, seed),
        batch=batch,
        copies=width // kept,
    )
    frozen = _predictions(problem, params)
    changes = (learned, frozen)
    return eqx.tree_at(lambda p: (p.learned, p.frozen), problem, changes), params


def train(
    task: Task,
    init: Init | SoftmaxInit,
    *,
    lr: Any = None,
    steps: int,
    optimizer: optax.GradientTransformation | None = None,
    size: int | None = None,
    data: int | None = None,
    batch: int | None = None,
    seed: int | Sequence[int] = 0,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    """Train attention exactly, in its small state space.

    Args:
        task: the data law.
        init: `Init` for linear attention, `SoftmaxInit` for softmax attention.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser that acts entry by entry.
        steps: how many steps.
        size: D; tasks s ≥ D keep their initial prediction. None for the whole model.
        data: N, a fixed data set drawn with `seed`; None for the population.
        batch: B, a fresh mini-batch at every step; or, with `data`, one of the data set, of which
            every epoch takes each datum once, in a new random order. Batches run on from one epoch
            into the next where B does not divide N; B = N is the whole data set at every step.
        seed: one seed, or several for as many runs side by side on a leading axis.
        log_every: steps between two log points; or
        log_points: points of the log, evenly spaced in log step; 200 unless log_every is given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> task = Task(num_tasks=3, alpha=1.8, context=20.0, strength=0.5)
    >>> run = train(task, Init(v=0.1, w=0.11), lr=0.01, steps=100, log_every=1)
    >>> run.loss.shape, run.predictions.shape
    ((101,), (3, 101))
    """
    options = {"size": size, "data": data, "batch": batch, "seed": seed}
    begun = prepare(task, init, lr=lr, optimizer=optimizer, **options)
    return begun.run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    task: Task,
    init: Init | SoftmaxInit,
    *,
    lr: Any = None,
    optimizer: optax.GradientTransformation | None = None,
    size: int | None = None,
    data: int | None = None,
    batch: int | None = None,
    seed: int | Sequence[int] = 0,
) -> training.Training[Run]:
    """What `train` trains, before any step."""
    build = linear_problem if isinstance(init, Init) else softmax_problem
    options = {"size": size, "data": data, "batch": batch, "seed": seed}
    return prepared("msfr.train", build, task, init, lr=lr, optimizer=optimizer, **options)


def flow(
    task: Task,
    init: Init,
    t: Any,
    *,
    size: int | None = None,
    data: int | None = None,
    seed: int = 0,
    rtol: Any = 1e-10,
) -> Run:
    """Gradient flow of linear attention in its small state space, by an ODE solver.

    `predict` has the same flow in closed form; this is its independent witness.

    Args:
        task: the data law.
        init: where linear attention starts.
        t: increasing times, one axis, from 0 on.
        size: D; tasks s ≥ D keep their initial prediction.
        data: N, a fixed data set drawn with `seed`; None for the population.
        seed: which data set.
        rtol: relative tolerance of the solver.

    Returns:
        A `Run` whose time is `t` and whose step counts the times.
    """
    law, learned, count, _, seeds = checked(task, init, size, data, None, seed)
    if not isinstance(init, Init):
        raise ValueError(f"init must be a msfr.Init (linear attention), not {type(init).__name__}")
    validation.concrete("t", t, why="the flow is solved")
    validation.concrete("rtol", rtol, why="the flow is solved")
    tolerance = validation.floating("rtol", rtol)
    validation.shaped("rtol", tolerance, ())
    validation.within("rtol", tolerance, 1e-14, 0.1)
    times = validation.floating("t", t)
    if times.ndim != 1 or times.shape[0] == 0:
        raise ValueError(f"t must be one axis of times, not of shape {times.shape}")
    validation.within("t", times, 0.0, 1e300)
    if np.any(np.diff(np.asarray(times)) <= 0.0):
        raise ValueError("t must be increasing")
    task.fit(24.0 + 8.0 * times.size)
    problem, params = linear_problem(law, init, learned, count, None, seeds[0])
    seen = by_bucket(lambda t: _observed_flow(problem, params, stage(t), float(tolerance)), times)
    logs: dict[str, Any] = {
        name: stage(np.moveaxis(np.asarray(x), 0, -1)) for name, x in seen.items()
    }
    step = np.arange(times.shape[0])
    return Run(step=step, time=np.asarray(times), state=None, **logs)


@jit(filtered=True)
def _observed_flow(problem: LinearProblem, params: Any, times: Array, rtol: float) -> Any:
    path = solve_at(_downhill, params, times, problem, rtol=rtol)
    return jax.vmap(problem.observe)(path)


def _downhill(_: Float[Array, ""], params: Any, problem: LinearProblem) -> Any:
    return jax.tree.map(jnp.negative, problem.gradient(params, jnp.asarray(0)))
