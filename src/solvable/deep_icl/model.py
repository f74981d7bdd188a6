"""Linear attention on tokens, its one-matrix form, and their training on fresh contexts."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from .. import memory, training, validation
from ..compiling import jit, stage
from ..numerics.host import unpacked
from .run import MAX_DEPTH, Layers, Run, Time, checked, contexts_of, prepared
from .start import Init
from .task import (
    MAX_ROWS,
    Contexts,
    FixedStructure,
    RotatedStructure,
    Task,
    draw,
    is_silent,
    rotations,
    seed_of,
)

_ROOM = 2**24  # numbers of the contexts that are held at once
_MOST = 2**30  # and of a single one


class LinearAttention(eqx.Module):
    r"""Masked linear attention with a residual stream.

    ``h_μ = W_x x_μ + w_y y_μ``, then L times
    ``h_μ ← h_μ + 1/(LP) Σ_{ν≤P} M_μν (k_ν·q_μ) v_ν`` with ``q, k, v = W_q h, W_k h, W_v h``, and
    ``f_μ = w_o·h_μ``. The first P tokens have labels, the others are queries; the mask is −1 in
    the rows of the context, +1 in those of the queries, and 0 in the columns of the queries
    (accounts).

    Where it is aligned the stream has N + 1 coordinates: the first N of x, and the label. W_x is
    ``w_x √(D/N) [I_N 0]``, of unit variance; with ``W_q = w_q I``, ``W_k = w_k I`` and w_v of the
    label alone, a layer is a step along ``γ (D/N) Π``, ``γ = w_x² w_q w_k w_v`` (derived).

    Attributes:
        read: W_x.
        label: w_y.
        query, key, value: W_q, W_k, W_v; with an axis of layers where these are not tied.
        out: w_o.
        depth: L.
    """

    read: Float[Array, "hidden dim"]
    label: Float[Array, " hidden"]
    query: Float[Array, "*layers hidden hidden"]
    key: Float[Array, "*layers hidden hidden"]
    value: Float[Array, "*layers hidden hidden"]
    out: Float[Array, " hidden"]
    depth: int = eqx.field(static=True)

    @classmethod
    def aligned(
        cls, gamma: Float[Array, "*layers width width"], *, dim: int, depth: int
    ) -> "LinearAttention":
        """Attention that does what the matrix Γ does: see `gamma_prediction`.

        ``w_x = 1``, ``W_q = I``, ``W_k = Γ`` and ``W_v = 1`` for the label alone:
        ``Γ = W_qᵀ W_k``.

        Args:
            gamma: Γ, or one for each layer.
            dim: D, of the tokens, at least N.
            depth: L.

        >>> model = LinearAttention.aligned(jnp.eye(2), dim=3, depth=4)
        >>> model.read.shape, round(model.gamma.item(), 6)
        ((3, 3), 1.0)
        """
        _, matrix = unpacked(_matrix(gamma))
        dim = validation.whole("dim", dim, matrix.shape[-1], MAX_ROWS)
        eye = np.broadcast_to(np.eye(matrix.shape[-1]), matrix.shape)
        one = np.ones(matrix.shape[:-2])
        return cls._of(eye, matrix, one, dim, _depth(matrix, depth))

    @classmethod
    def of_weights(
        cls, weights: Float[Array, " 4"], *, dim: int, depth: int, width: int | None = None
    ) -> "LinearAttention":
        """Aligned attention of four numbers: ``γ = w_x² w_q w_k w_v``.

        Args:
            weights: (w_x, w_q, w_k, w_v).
            dim: D, of the tokens.
            depth: L.
            width: N, at most D; None for D.

        >>> LinearAttention.of_weights(jnp.asarray([2.0, 1.0, 0.5, 1.0]), dim=3, depth=4).gamma
        Array(2., dtype=float64)
        """
        dim = validation.whole("dim", dim, 1, MAX_ROWS)
        width = dim if width is None else validation.whole("width", width, 1, dim)
        number = validation.floating("weights", weights)
        validation.shaped("weights", number, (4,))
        _, four = unpacked(number)
        x, q, k, v = four
        memory.refuse("width", width, 64.0 * (width + 1) ** 2)
        eye = np.eye(width)
        return cls._of(q * eye, k * eye, v, dim, validation.whole("depth", depth, 1), x)

    @classmethod
    def _of(
        cls, query: Any, key: Any, value: Any, dim: int, depth: int, scale: Any = 1.0
    ) -> "LinearAttention":
        """Of W_q and W_k within the x-subspace, w_v and w_x."""
        xp, query, key, value, scale = unpacked(query, key, value, scale)
        width = query.shape[-1]
        memory.refuse("dim", dim, 16.0 * (width + 1) * dim)
        edge = [(0, 0)] * (query.ndim - 2)
        label = np.arange(width + 1) == width
        clear = (~label[:, None]).astype(float)
        return cls(
            read=stage(scale * math.sqrt(dim / width) * np.eye(width + 1, dim) * clear),
            label=stage(label.astype(float)),
            query=stage(xp.pad(query, [*edge, (0, 1), (0, 1)])),
            key=stage(xp.pad(key, [*edge, (0, 1), (0, 1)])),
            value=stage(xp.pad(value[..., None, None], [*edge, (width, 0), (width, 0)])),
            out=stage(label.astype(float)),
            depth=depth,
        )

    def __call__(
        self, x: Float[Array, "tokens dim"], y: Float[Array, " labelled"]
    ) -> Float[Array, " asked"]:
        """The predictions at the queries, which are the tokens beyond those with a label.

        Being linear, ``Σ_ν (k_ν·q_μ) v_ν = (Σ_ν v_ν k_νᵀ) q_μ``: no matrix of tokens by tokens.
        """
        labelled = y.shape[0]
        h = x @ self.read.T
        h = h.at[:labelled].add(y[:, None] * self.label[None, :])
        sign = jnp.where(jnp.arange(x.shape[0]) < labelled, -1.0, 1.0).astype(h.dtype)
        share = (sign / (self.depth * labelled))[:, None]

        def layer(h: Array, matrices: tuple[Array, Array, Array]) -> tuple[Array, None]:
            query, key, value = matrices
            seen = h[:labelled]
            memory = (seen @ key.T).T @ (seen @ value.T)  # Σ_ν k_ν v_νᵀ
            return h + share * ((h @ query.T) @ memory), None

        matrices = (self.query, self.key, self.value)
        h, _ = _each_layer(layer, h, matrices, self.query.ndim == 3, self.depth)
        return h[labelled:] @ self.out

    @property
    def weights(self) -> Float[Array, "4 *layers"]:
        """(w_x, w_q, w_k, w_v): means over the diagonals of the aligned parts."""
        xp, read, query, key, value = self._parts
        read, *rest = (xp.einsum("...ii->...", m) / read.shape[-1] for m in (read, query, key))
        return stage(xp.stack([xp.broadcast_to(read, value.shape), *rest, value]))

    @property
    def gamma(self) -> Float[Array, "*layers"]:
        """γ, the mean diagonal of ``w_v W_xᵀ W_qᵀ W_k W_x N/D`` within the x-subspace."""
        xp, read, query, key, value = self._parts
        both = xp.einsum("...ij,...ij->...", query @ read, key @ read)
        return stage(value * both / read.shape[-1])

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The module, W_x √(N/D), W_q and W_k within the x-subspace, and w_v."""
        xp, read, query, key, value = unpacked(self.read, self.query, self.key, self.value)
        inner = slice(read.shape[0] - 1)
        read = read[inner, inner] * math.sqrt((read.shape[0] - 1) / read.shape[1])
        return xp, read, query[..., inner, inner], key[..., inner, inner], value[..., -1, -1]


def context_weights(
    gamma: Float[Array, "*layers width width"],
    x: Float[Array, "labelled dim"],
    y: Float[Array, " labelled"],
    depth: int,
) -> Float[Array, " width"]:
    r"""L steps of preconditioned gradient descent on a context's least squares.

    ``w ← w + (D/N) Γ Xᵀ(y − Xw)/(LP)`` from w = 0, where X has the first N coordinates of the
    tokens (accounts; its D/N derived: attention reads √(D/N) times these coordinates).

    Args:
        gamma: Γ, or one for each layer.
        x: the labelled tokens.
        y: their labels.
        depth: L.

    Returns:
        w after L steps, along the first N coordinates; it is 0 along the others.
    """
    gamma = gamma * (x.shape[1] / gamma.shape[-1])
    x = x[:, : gamma.shape[-1]]
    labelled, width = x.shape
    # The cheaper of the two products.
    moment = x.T @ x / labelled if width < 2 * min(depth, labelled) else None

    def push(w: Array) -> Array:
        return x.T @ (x @ w) / labelled if moment is None else moment @ w

    return _descend(gamma, push, x.T @ y / labelled, _depth(gamma, depth))


def gamma_prediction(
    gamma: Float[Array, "*layers width width"],
    x: Float[Array, "tokens dim"],
    y: Float[Array, " labelled"],
    depth: int,
) -> Float[Array, " asked"]:
    r"""The predictions of aligned attention at the queries, by the one matrix Γ.

    ``f(x) = x·w_L``, which is ``xᵀ[I − (I − (D/N)ΓΣ̂/L)^L] Σ̂⁺ Xᵀy/P`` with ``Σ̂ = XᵀX/P``, all
    within the first N coordinates: Γ = γI is γ (D/N) Π there (accounts; D/N derived).

    Args:
        gamma: Γ, (N, N) with N at most D, or one for each layer.
        x: the labelled tokens, then the queries.
        y: the labels.
        depth: L.

    >>> x = jnp.asarray([[1.0], [1.0], [3.0]])
    >>> gamma_prediction(jnp.eye(1), x, jnp.asarray([2.0, 2.0]), 1).tolist()
    [6.0]
    """
    matrix = _matrix(gamma)
    tokens, labels = validation.floating("x", x), validation.floating("y", y)
    for name, given in (("gamma", matrix), ("x", tokens), ("y", labels)):
        validation.within(name, given, -1e30, 1e30)
    if tokens.ndim != 2 or tokens.shape[1] < matrix.shape[-1]:
        raise ValueError(
            f"x must be tokens of at least {matrix.shape[-1]} coordinates, not shape {tokens.shape}"
        )
    if labels.ndim != 1 or not 0 < labels.shape[0] <= tokens.shape[0]:
        raise ValueError(
            f"y must be the labels of 1 to {tokens.shape[0]} tokens, not shape {labels.shape}"
        )
    return _predicted(matrix, tokens, labels, _depth(matrix, depth))


@jit(static_argnames="depth")
def _predicted(gamma: Array, x: Array, y: Array, depth: int) -> Float[Array, " asked"]:
    labelled = y.shape[0]
    return x[labelled:, : gamma.shape[-1]] @ context_weights(gamma, x[:labelled], y, depth)


def _matrix(gamma: Any) -> Float[Array, "*layers width width"]:
    """Γ, or one for each layer, or an error that says what it must be."""
    matrix = validation.floating("gamma", gamma)
    if matrix.ndim not in (2, 3) or matrix.shape[-1] != matrix.shape[-2] or not matrix.size:
        raise ValueError(
            f"gamma must be a square matrix, or one for each layer, not shape {matrix.shape}"
        )
    return matrix


def _depth(gamma: Any, depth: int) -> int:
    depth = validation.whole("depth", depth, 1, MAX_DEPTH)
    if gamma.ndim == 3 and gamma.shape[0] != depth:
        raise ValueError(f"gamma must have {depth} layers, as many as depth, not {gamma.shape[0]}")
    return depth


def _each_layer(
    layer: Callable[[Array, Any], tuple[Array, None]], start: Array, weights: Any, own: bool, depth
) -> tuple[Array, None]:
    """A layer after the other, each with its own weights or all with the same."""
    if own:
        return jax.lax.scan(layer, start, weights)
    return jax.lax.scan(lambda state, _: layer(state, weights), start, None, length=depth)


def _descend(
    gamma: Float[Array, "*layers width width"],
    push: Callable[[Array], Array],
    target: Float[Array, "width *tasks"],
    depth: int,
) -> Float[Array, "width *tasks"]:
    """``w ← w + Γ(u − Σ̂w)/L`` from w = 0, for u = `target` and w ↦ Σ̂w = `push`."""

    def layer(w: Array, one: Array) -> tuple[Array, None]:
        return w + one @ (target - push(w)) / depth, None

    return _each_layer(layer, jnp.zeros_like(target), gamma, gamma.ndim == 3, depth)[0]


def _finite_loss(
    task: Task, gamma: Array, depth: int, key: Array, count: int, silent: bool
) -> Array:
    """The mean loss of Γ on fresh contexts with P tokens."""
    data = draw(task, key, count, silent)
    labelled, width = task.context, gamma.shape[-1]

    def fit(x: Array, y: Array) -> Array:
        return context_weights(gamma, x[:labelled], y[:labelled], depth)

    w = jax.vmap(fit)(data.x, data.y)
    if task.queries is None:  # the mean over all is vᵀΣv
        v = data.b.at[:, :width].add(-w)
        return jnp.mean(jnp.einsum("cd,cde,ce->c", v, data.covariance, v))
    guess = jnp.einsum("ckn,cn->ck", data.x[:, labelled:, :width], w)
    return jnp.mean((guess - data.y[:, labelled:]) ** 2)


def _infinite_loss(task: Any, gamma: Array, depth: int, key: Array, count: int) -> Array:
    """The mean loss of Γ on fresh contexts without end, in the basis where Σ is diagonal.

    There ``v = √ω − Qw`` with Q the first N columns of a rotation, or signs where none is.
    """
    lam, root = task.lam, jnp.sqrt(task.omega)
    turn, sign, ask = jax.random.split(key, 3)
    if isinstance(task, RotatedStructure):
        columns = rotations(turn, count, task.dim, task.width)
    else:
        signs = jax.random.rademacher(sign, (count, task.dim), lam.dtype)
        columns = signs[:, :, None] * jnp.eye(task.dim)[None]
    gamma = gamma * (task.dim / task.width)

    def miss(q: Array) -> Array:
        return root - q @ _descend(
            gamma, lambda w: q.T @ (lam * (q @ w)), q.T @ (lam * root), depth
        )

    v = jax.vmap(miss)(columns)
    if task.queries is None:
        return jnp.mean(v**2 @ lam)
    x = jax.random.normal(ask, (count, task.queries, task.dim)) * jnp.sqrt(lam)[None, None, :]
    return jnp.mean(jnp.einsum("ckd,cd->ck", x, v) ** 2)


def exact_loss(
    gamma: Float[Array, "*layers dim dim"],
    covariance: Float[Array, "dim dim"] | Float[Array, " dim"],
    root: Float[Array, "dim tasks"],
    depth: int,
) -> Float[Array, ""]:
    r"""The loss of Γ on contexts without end that all have one covariance, exactly.

    ``𝓛 = Tr Vᵀ Σ V`` with ``V = (I − ΓΣ/L)^L Ω^½``, by L products.

    Args:
        gamma: Γ, or one for each layer.
        covariance: Σ, or its diagonal where it has no other entries.
        root: a matrix R with ``R Rᵀ = Ω``, the second moments of the task vector.
        depth: L.

    >>> exact_loss(0.5 * jnp.eye(2), jnp.eye(2), jnp.eye(2), 1).item()
    0.5
    """

    def push(v: Array) -> Array:
        return covariance[:, None] * v if covariance.ndim == 1 else covariance @ v

    v = root - _descend(gamma, push, push(root), _depth(gamma, depth))
    return jnp.sum(v * push(v))


Place = tuple[Any, Int[Array, ""]]


class ContextDescent(eqx.Module):
    """Gradient descent of Γ, or of the matrices of `LinearAttention`, on fresh contexts.

    A place is (weights, step).
    """

    task: Any
    rate: Any  # as the weights: how far each goes along its gradient
    seed: Key[Array, ""]
    depth: int = eqx.field(static=True)
    contexts: int = eqx.field(static=True)
    chunks: int = eqx.field(static=True)
    silent: bool = eqx.field(static=True, default=False)

    def loss(self, weights: Any, key: Key[Array, ""], count: int) -> Float[Array, ""]:
        """The mean loss on `count` fresh contexts; exact where each is the same as any other."""
        task, depth = self.task, self.depth
        if isinstance(weights, LinearAttention):
            return token_loss(weights, draw(task, key, count, self.silent), task.context)
        if task.context is not None:
            return _finite_loss(task, weights, depth, key, count, self.silent)
        if _is_exact(task):
            return exact_loss(weights, task.lam, jnp.diag(jnp.sqrt(task.omega)), depth)
        return _infinite_loss(task, weights, depth, key, count)

    def _mean(self, look: Callable[[Key[Array, ""], int], Any], step: Int[Array, ""]) -> Any:
        """The mean of what is looked at over the contexts of a step, some of them at a time."""
        return mean_of_chunks(look, jax.random.fold_in(self.seed, step), self.contexts, self.chunks)

    def advance(self, params: Place, step: Int[Array, ""]) -> Place:
        """One step down the gradient of the loss of this step's contexts."""
        weights, now = params
        slope = self._mean(lambda *at: jax.grad(self.loss)(weights, *at), now)
        moved = jax.tree.map(lambda w, rate, g: w - rate * g, weights, self.rate, slope)
        return moved, now + 1

    def observe(self, params: Place) -> dict[str, Array]:
        """The loss of the contexts that the next step descends; γ and four weights, or Γ's γ."""
        weights, now = params
        seen = {"loss": self._mean(lambda *at: self.loss(weights, *at), now)}
        if isinstance(weights, LinearAttention):
            return {**seen, "gamma": weights.gamma, "weights": weights.weights}
        diagonal = jnp.diagonal(weights, axis1=-2, axis2=-1)
        whole = isinstance(self.task, FixedStructure)
        return {**seen, "gamma": diagonal if whole else diagonal.mean(-1)}


def _is_exact(task: Task) -> bool:
    """Whether the mean over contexts and queries is that of one context."""
    return isinstance(task, FixedStructure) and task.context is None and task.queries is None


def token_loss(model: Any, data: Contexts, labelled: int) -> Float[Array, ""]:
    """``⟨(f − y)²⟩`` of a model's predictions at the queries of contexts."""
    guess = jax.vmap(model)(data.x, data.y[:, :labelled])
    return jnp.mean((guess - data.y[:, labelled:]) ** 2)


def mean_of_chunks(
    look: Callable[[Key[Array, ""], int], Any], key: Key[Array, ""], contexts: int, chunks: int
) -> Any:
    """The mean of `look(key, count)` over chunks of the contexts, one after the other."""
    if chunks == 1:
        return look(key, contexts)

    def add(total: Any, index: Array) -> tuple[Any, None]:
        more = look(jax.random.fold_in(key, index), contexts // chunks)
        return jax.tree.map(jnp.add, total, more), None

    shapes = jax.eval_shape(lambda k: look(k, contexts // chunks), key)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total, _ = jax.lax.scan(add, zero, jnp.arange(chunks))
    return jax.tree.map(lambda x: x / chunks, total)


def split_contexts(contexts: int, size: int) -> int:
    """Into how many equal chunks contexts of `size` numbers go, so that one has room."""
    if size > _MOST:
        raise ValueError(
            f"context, queries, dim or depth must be smaller: a context has {size:.3g} numbers"
        )
    fewest = -(-contexts * size // _ROOM)
    return next((c for c in range(max(1, fewest), contexts) if contexts % c == 0), contexts)


def train_brute(
    task: Task,
    start: Init,
    *,
    depth: int,
    lr: Any,
    steps: int,
    layers: Layers = "tied",
    time: Time = "scalar",
    contexts: int = 64,
    seed: int = 0,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    r"""Train whole matrices by gradient descent on fresh contexts at every step.

    `Init(gamma=…)` trains the matrix Γ, (N, N), of which a layer makes a step along (D/N) Γ. Its
    own step is lr·N, as ``∂𝓛/∂Γ = (∂𝓛/∂γ) I/N``: then γ does in the mean what
    ``γ ← γ − lr ∂𝓛/∂γ`` does. Untied layers have lr·N·L. For
    `FixedStructure` every direction has its γ_k, and Γ's step is lr; with contexts without end and
    all queries no number is random then, and the gradient is exact.

    `Init(weights=…)` trains the matrices of `LinearAttention` on tokens, with w_y = w_o at rest.
    W_q and W_k have the step lr·N, W_v, of which one entry counts, has lr, and W_x has lr·D: it is
    ``w_x A`` with ``|A|² = N·D/N``, and moves along A as w_x does. The four weights then do what
    gradient descent of (w_x, w_q, w_k, w_v) with step lr does, up to 1/N and the noise (derived).
    W_x reads tokens into the x-subspace only: its row of the label's coordinate stays 0, where a
    step of lr·D is too long.

    Args:
        task: the law of contexts; of an `Isotropic` with `dim`.
        start: where training starts, and what is trained.
        depth: L.
        lr: the learning rate, in the time below.
        steps: how many steps.
        layers: "tied", or "untied" with a matrix for each layer.
        time: "scalar": lr is that of γ; "matrix": that of Γ's entries, N times as large.
        contexts: B, fresh contexts at every step.
        seed: of the contexts.
        log_every: steps between two log points; or
        log_points: points of the log, evenly spaced in log step; 200 unless log_every is given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; its loss is that of the contexts which the next step descends.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> from .task import RotatedStructure
    >>> task = RotatedStructure(nu=1.0, beta=1.0, dim=4)
    >>> train_brute(task, Init(gamma=0.0), depth=2, lr=0.1, steps=5, contexts=8).gamma.shape
    (6,)
    """
    options = {"layers": layers, "time": time, "contexts": contexts, "seed": seed}
    return prepare(task, start, depth=depth, lr=lr, **options).run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    task: Task,
    start: Init,
    *,
    depth: int,
    lr: Any,
    layers: Layers = "tied",
    time: Time = "scalar",
    contexts: int = 64,
    seed: int = 0,
) -> training.Training[Run]:
    """What `train_brute` trains, before any step."""
    contexts = contexts_of(contexts)
    begin, depth, rate = checked(task, start, depth, lr, layers, time)
    number = seed_of(seed)
    dim, width = task.dim, task.width
    if dim is None or width is None:
        raise ValueError("dim must be given to train on contexts: Isotropic(alpha, dim=…)")
    attention, untied = start.weights is not None, layers == "untied"
    tokens = (task.context or 0) + (task.queries or 0)
    matrices = 3 if attention else depth if untied else 1
    memory.refuse("width", width, 32.0 * matrices * (width + 1) ** 2)
    if attention:
        labelled_queries(task)
        size = tokens * (dim + 4 * depth * (width + 1))
    else:
        size = max(tokens, width) * dim + 2 * depth * dim
    exact = _is_exact(task)
    count = 1 if exact else contexts
    chunks = split_contexts(count, size)

    def build() -> tuple[ContextDescent, Any]:
        whole = _attention if attention else _gamma
        params, rates = whole(task, begin, float(rate), depth)
        key, silent = jax.random.key(number), is_silent(task)
        return ContextDescent(task, rates, key, depth, count, chunks, silent), (params, stage(0))

    more: dict[str, Any] = {"depth": depth, "lr": lr, "rate": rate, "layers": layers, "time": time}
    if not exact:
        more |= {"contexts": count, "seed": number, "chunks": chunks}
    return prepared("deep_icl.train_brute", build, task, start, **more)


def _attention(task: Any, begin: Array, rate: float, depth: int) -> tuple[LinearAttention, Any]:
    """The matrices of full attention, and the step of each."""
    width = task.width
    params = LinearAttention.of_weights(begin, dim=task.dim, depth=depth, width=width)
    read = rate * task.dim * (np.arange(width + 1) < width)[:, None]
    rates = eqx.tree_at(
        lambda m: (m.read, m.query, m.key, m.value),
        jax.tree.map(lambda x: stage(0.0), params),
        jax.tree.map(stage, (read, rate * width, rate * width, rate)),
    )
    return params, rates


def _gamma(task: Any, begin: Array, rate: float, depth: int) -> tuple[Array, Array]:
    """The matrix Γ, of every layer where they are untied, and its step."""
    gamma, fixed = np.asarray(begin), isinstance(task, FixedStructure)
    untied = not fixed and gamma.ndim == 1
    if not fixed:
        gamma = np.broadcast_to(gamma[..., None], (*gamma.shape, task.width))
    step = rate if fixed else rate * task.width
    return stage(gamma[..., None] * np.eye(task.width)), stage(step * depth if untied else step)


def labelled_queries(task: Task) -> tuple[int, int, int]:
    """D, P and K of a task whose tokens can be trained on, or an error that names what lacks."""
    if task.dim is None:
        raise ValueError("dim must be given to train on tokens: Isotropic(alpha, dim=…)")
    if task.context is None:
        raise ValueError("context must be finite to train on tokens")
    if task.queries is None:
        raise ValueError("queries must be given to train on tokens")
    return task.dim, task.context, task.queries
