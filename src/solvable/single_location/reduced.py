"""Training in five scalars: projected gradient descent exactly, and SGD exactly in law."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import memory, training
from ..compiling import stage
from .attention import ERF, Attention, Erf, Softmax, attention_of
from .run import Run, checked, prepared
from .schedule import Schedule
from .state import State
from .task import Law, Task, law_of

Place = tuple[State, Int[Array, ""]]

MIN_DIM_SGD = 6
_ENTRIES = 4_000_000  # random numbers that are drawn at once, at most
_CHUNK = 1000  # and the steps they are for


def observe(
    task: Law, attention: Erf | Softmax, schedule: Schedule, place: Place
) -> dict[str, Array]:
    """Scalars, λ and risk, all of the same step."""
    x, step = place
    lam = schedule(step)
    return {
        "loss": attention.excess(task, x, lam),
        "lam": lam,
        "kappa": x.kappa,
        "nu": x.nu,
        "theta": x.theta,
        "eta": x.eta,
        "rho": x.rho,
        "distance": x.distance,
    }


def pgd_step(
    task: Task | Law,
    x: State,
    lam: Float[Array, ""],
    lr: Float[Array, ""],
    attention: Erf | Softmax = ERF,
) -> State:
    """One step of projected gradient descent on both spheres, in the five scalars."""
    r = attention.slopes(task, x, lam)
    pk = x.kappa * r.kappa + x.eta * r.eta + x.rho * r.rho
    pv = x.nu * r.nu + x.theta * r.theta + x.rho * r.rho
    # ‖P∇R‖² of both tangent steps: the norms before projecting back are √(1 + α²‖P∇R‖²).
    gk = r.kappa**2 + r.eta**2 + r.rho**2 + 2.0 * r.rho * (r.kappa * x.theta + r.eta * x.nu)
    gv = r.nu**2 + r.theta**2 + r.rho**2 + 2.0 * r.rho * (r.nu * x.eta + r.theta * x.kappa)
    a, b = 1.0 + lr * pk, 1.0 + lr * pv
    nk = jnp.sqrt(1.0 + lr**2 * (gk - pk**2))
    nv = jnp.sqrt(1.0 + lr**2 * (gv - pv**2))
    both = (
        r.kappa * r.theta
        + r.kappa * r.rho * x.kappa
        + r.eta * r.nu
        + r.eta * r.rho * x.eta
        + r.rho * r.nu * x.nu
        + r.rho * r.theta * x.theta
        + r.rho**2 * x.rho
    )
    rho = (
        a * b * x.rho
        - lr * a * (r.nu * x.eta + r.theta * x.kappa + r.rho)
        - lr * b * (r.kappa * x.theta + r.eta * x.nu + r.rho)
        + lr**2 * both
    )
    return State.raw(
        kappa=(a * x.kappa - lr * (r.kappa + r.rho * x.theta)) / nk,
        nu=(b * x.nu - lr * (r.nu + r.rho * x.eta)) / nv,
        theta=(b * x.theta - lr * (r.theta + r.rho * x.kappa)) / nv,
        eta=(a * x.eta - lr * (r.eta + r.rho * x.nu)) / nk,
        rho=rho / (nk * nv),
    )


class Descent(eqx.Module):
    """Projected gradient descent on the exact risk."""

    task: Law
    attention: Erf | Softmax
    schedule: Any
    lr: Float[Array, ""]

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "Descent":
        """The problem of these runs of it: the same for all."""
        return self

    def advance(self, params: Place, step: Int[Array, ""]) -> Place:
        """One step of all runs."""
        x, now = params
        return pgd_step(self.task, x, self.schedule(now), self.lr, self.attention), now + 1

    def observe(self, params: Place) -> dict[str, Array]:
        """Scalars, λ and risk."""
        return observe(self.task, self.attention, self.schedule, params)


class Draws(eqx.Module):
    """The random numbers of the steps from `first` on; runs stand last, where they are fastest.

    Attributes:
        normal: standard normal ones.
        chi: χ variables with d − 4 and d − 5 degrees of freedom.
        first: the step of the first of them.
    """

    normal: Float[Array, "steps numbers runs"]
    chi: Float[Array, "steps 2 runs"]
    first: Int[Array, ""]


def numbers_of(task: Task, batch: int) -> int:
    """How many normal variables a step needs: 2 a distractor, 3 and the noise a datum, 5 more."""
    return batch * (2 * (task.length - 1) + 4) + 5


def chunk_of(task: Task, batch: int, runs: int) -> int:
    """For how many steps random numbers are drawn at once."""
    return max(1, min(_CHUNK, _ENTRIES // (runs * numbers_of(task, batch))))


def _frame(x: State) -> tuple[list[Array], list[Array], Array]:
    """v*, k* in the basis f₁ = k, f₂ along the rest of v, f₃ that of v*, f₄ that of k*; √(1−ρ²)."""

    def positive(square: Array) -> Array:
        return jnp.sqrt(jnp.maximum(square, 0.0))

    def ratio(a: Array, b: Array) -> Array:
        return jnp.where(b > 0.0, a / jnp.where(b > 0.0, b, 1.0), 0.0)

    side = positive(1.0 - x.rho**2)
    v2, k2 = ratio(x.nu - x.rho * x.eta, side), ratio(x.theta - x.rho * x.kappa, side)
    v3 = positive(1.0 - x.eta**2 - v2**2)
    most = positive(1.0 - x.kappa**2 - k2**2)
    k3 = jnp.clip(-ratio(x.kappa * x.eta + k2 * v2, v3), -most, most)  # k*·v* = 0
    k4 = positive(most**2 - k3**2)
    return [x.eta, v2, v3], [x.kappa, k2, k3, k4], side


def _cholesky(s11: Array, s12: Array, s22: Array) -> tuple[Array, Array, Array]:
    """ℓ₁₁, ℓ₂₁, ℓ₂₂ of a 2 × 2 covariance."""
    l11 = jnp.sqrt(s11)
    l21 = jnp.where(l11 > 0.0, s12 / jnp.where(l11 > 0.0, l11, 1.0), 0.0)
    return l11, l21, jnp.sqrt(jnp.maximum(s22 - l21**2, 0.0))


def sgd_step(
    task: Law,
    attention: Erf | Softmax,
    x: State,
    lam: Float[Array, ""],
    lr: Float[Array, ""],
    batch: int,
    normal: Float[Array, "numbers runs"],
    chi: Float[Array, "2 runs"],
) -> State:
    """One step of mini-batch SGD of all runs, exactly in law.

    Tokens are needed along k and v only, the informative one along v* besides; what the gradients
    have in the other directions is Gaussian given the tokens' coefficients, and enters through a
    2 × 2 Wishart matrix.
    """
    others = ((normal.shape[0] - 5) // batch - 4) // 2  # as `numbers_of` counts them
    count = batch * others
    star_v, star_k, side = _frame(x)
    rows = np.cumsum([count, count, batch, batch, batch, batch])
    g1, g2, h1, h2, h3, noise, rest = jnp.split(normal, rows)
    g1, g2 = (g.reshape(batch, others, normal.shape[1]) for g in (g1, g2))
    # The informative token on f₁ … f₃; its label.
    token = [task.signal * star_k[j][None] + task.gamma * h for j, h in enumerate((h1, h2, h3))]
    label = sum(star_v[j][None] * token[j] for j in range(3)) + task.noise * noise

    def total(terms: Array) -> Array:
        """The sum over all tokens, for every run."""
        return jnp.sum(terms, axis=tuple(range(terms.ndim - 1)))

    def along(first: Array, second: Array) -> tuple[Array, Array]:
        """X·k and X·v."""
        lead = (1,) * (first.ndim - 1)
        return first, x.rho.reshape(*lead, -1) * first + side.reshape(*lead, -1) * second

    output, near, far = attention.read(lam, along(token[0], token[1]), along(g1, g2))
    error = (2.0 / batch) * (output - label)
    far_k, far_q = error[:, None] * far.slope, error[:, None] * far.weight
    near_k, near_q = error * near.slope, error * near.weight

    s11, s12, s22 = map(total, (far_k**2, far_k * far_q, far_q**2))
    n11, n12, n22 = map(total, (near_k**2, near_k * near_q, near_q**2))
    on3 = _cholesky(s11, s12, s22)
    square = task.gamma**2
    whole = _cholesky(s11 + square * n11, s12 + square * n12, s22 + square * n22)
    z3, z3_, z4, z4_, zw = rest
    gk = [
        None,  # along k itself the projection takes it away
        total(far_k * g2) + total(near_k * token[1]),
        on3[0] * z3 + total(near_k * token[2]),
        whole[0] * z4 + task.signal * star_k[3] * total(near_k),
    ]
    gv = [
        total(far_q * g1) + total(near_q * token[0]),
        total(far_q * g2) + total(near_q * token[1]),
        on3[1] * z3 + on3[2] * z3_ + total(near_q * token[2]),
        whole[1] * z4 + whole[2] * z4_ + task.signal * star_k[3] * total(near_q),
    ]
    # Bartlett's decomposition of Wishart₂(S, d − 4).
    p1 = whole[0] * chi[0]
    q1, q2 = whole[1] * chi[0] + whole[2] * zw, whole[2] * chi[1]
    w11, w12, w22 = p1**2, p1 * q1, q1**2 + q2**2

    u = [jnp.ones_like(side), -lr * gk[1], -lr * gk[2], -lr * gk[3]]
    inner = x.rho * gv[0] + side * gv[1]
    v = [
        x.rho - lr * (gv[0] - inner * x.rho),
        side - lr * (gv[1] - inner * side),
        -lr * gv[2],
        -lr * gv[3],
    ]
    nk = jnp.sqrt(sum(a**2 for a in u) + lr**2 * w11)
    nv = jnp.sqrt(sum(a**2 for a in v) + lr**2 * w22)

    def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
        return sum(p * q for p, q in zip(a, b, strict=False))

    return State.raw(
        kappa=dot(star_k, u) / nk,
        nu=dot(star_v, v) / nv,
        theta=dot(star_k, v) / nv,
        eta=dot(star_v, u) / nk,
        rho=(dot(u, v) + lr**2 * w12) / (nk * nv),
    )


class Chain(eqx.Module):
    """Mini-batch SGD with the random numbers of some steps."""

    task: Law
    attention: Erf | Softmax
    schedule: Any
    lr: Float[Array, ""]
    batch: int = eqx.field(static=True)
    draws: Draws

    def advance(self, params: Place, step: Int[Array, ""]) -> Place:
        """One step of all runs."""
        x, now = params
        k = now - self.draws.first
        lam = self.schedule(now)
        normal, chi = (
            jax.lax.dynamic_index_in_dim(draws, k, keepdims=False)
            for draws in (self.draws.normal, self.draws.chi)
        )
        moved = sgd_step(self.task, self.attention, x, lam, self.lr, self.batch, normal, chi)
        return moved, now + 1

    def observe(self, params: Place) -> dict[str, Array]:
        """Scalars, λ and the exact risk."""
        return observe(self.task, self.attention, self.schedule, params)


class ChainSupply:
    """Draws in bulk on the host, the next chunk while the present one is used.

    Inside the compiled loop they would cost several times the step itself.
    """

    def __init__(
        self,
        task: Task,
        schedule: Any,
        lr: Array,
        batch: int,
        runs: int,
        seed: int,
        attention: Erf | Softmax = ERF,
    ):
        self.task, self.attention, self.schedule = task, attention, schedule
        self.lr, self.batch = lr, batch
        self.runs, self.seed = runs, seed
        self.law, self.index = law_of(task), None
        self.chunk = chunk_of(task, batch, runs)
        self.pool = ThreadPoolExecutor(1)
        self.ahead: dict[int, Future] = {}

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "ChainSupply":
        """The problem of these runs of it; what is drawn does not depend on which they are."""
        other = copy(self)
        other.index, other.ahead = runs, {}
        return other

    def observe(self, params: Place) -> dict[str, Array]:
        """Scalars, λ and the exact risk."""
        return observe(self.law, self.attention, self.schedule, params)

    def _draw(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.Generator(np.random.SFC64([self.seed, 2, chunk]))
        count = numbers_of(self.task, self.batch)
        normal = generator.standard_normal((self.chunk, count, self.runs))
        free = np.array([[self.task.dim - 4.0], [self.task.dim - 5.0]])
        chi = np.sqrt(generator.chisquare(free, (self.chunk, 2, self.runs)))
        return (
            (normal, chi) if self.index is None else (normal[..., self.index], chi[..., self.index])
        )

    def supply(self, step: int) -> tuple[Chain, int]:
        """The chain with the draws of the chunk that `step` is in."""
        chunk = step // self.chunk
        waiting = self.ahead.pop(chunk, None)
        normal, chi = self._draw(chunk) if waiting is None else waiting.result()
        self.ahead = {chunk + 1: self.pool.submit(self._draw, chunk + 1)}
        draws = Draws(stage(normal), stage(chi), stage(chunk * self.chunk))
        chain = Chain(self.law, self.attention, self.schedule, self.lr, self.batch, draws)
        return chain, (chunk + 1) * self.chunk


def train(
    task: Task,
    start: State,
    *,
    lam: Any,
    lr: Any,
    steps: int,
    batch: int | None = None,
    attention: Attention = "erf",
    seed: int = 0,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    """Train (k, v) in their five scalars.

    Without `batch`: projected gradient descent on the exact risk, step by step what it is in R^d.
    With it: mini-batch SGD on fresh tokens, exactly in law, at a cost that does not depend on d.

    Args:
        task: the data law; its dimension must be at least 6 for SGD.
        start: where the runs start: a `State`, or `sphere`, `manifold`.
        lam: λ, the inverse temperature, or a schedule such as `decay`.
        lr: α, the step size.
        steps: how many steps.
        batch: B, fresh data at every step; None for the exact gradient.
        attention: "erf", or "softmax", at one λ; its risk is that of `softmax_excess`.
        seed: of the mini-batches.
        log_every: steps between two log points; every 400th part of the run unless given; or
        log_points: points of the log, evenly spaced in log step.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points. State, λ and risk are those of the same step.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> x = State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15)
    >>> run = train(Task(dim=400, length=10), x, lam=0.1, lr=4e-3, steps=1000)
    >>> round(run.kappa[-1].item(), 9)
    0.719109872
    """
    begun = prepare(task, start, lam=lam, lr=lr, batch=batch, attention=attention, seed=seed)
    return begun.run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    task: Task,
    start: State,
    *,
    lam: Any,
    lr: Any,
    batch: int | None = None,
    attention: Attention = "erf",
    seed: int = 0,
) -> training.Training[Run]:
    """What `train` trains, before any step."""
    flat, schedule, rate, count, number = checked(task, start, lam, lr, batch, seed)
    runs, draws = flat.kappa.shape[0], None
    kind = attention_of(attention, task, schedule, runs)
    if count is not None:
        if task.dim < MIN_DIM_SGD:
            raise ValueError(f"dim must be at least {MIN_DIM_SGD} for SGD, not {task.dim}")
        memory.refuse("batch", count, 40.0 * runs * numbers_of(task, count))
        draws = f"SFC64, {chunk_of(task, count, runs)} steps at once"

    def build() -> tuple[Any, Place]:
        place = (flat, stage(0))
        if count is None:
            return Descent(law_of(task), kind, schedule, rate), place
        return ChainSupply(task, schedule, rate, count, runs, number, kind), place

    return prepared(
        "single_location.train",
        build,
        task,
        start,
        schedule=schedule,
        lr=rate,
        batch=count,
        attention=attention,
        seed=number,
        draws=draws,
    )
