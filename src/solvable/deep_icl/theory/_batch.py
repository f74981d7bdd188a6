"""What batches of finitely many contexts leave: the noise of SGD on the matrix Γ at its optimum."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ... import memory, training, validation
from ...numerics.roots import root_between
from ..run import MAX_CONTEXTS, TIMES, Time, contexts_of
from ..task import Isotropic, RotatedStructure, Task, check_task, refuse_large
from ._arguments import MAX_DEPTH
from ._optimum import optimum

_DRAWN = 4000
_ROOM = 2**20  # numbers of the contexts that are looked at at once
_NODES = 6  # of a rule that is exact for polynomials of degree 11
_RARE = 0.1  # share of the noise in one context, from which on few own the mean


@dataclass(frozen=True)
class BatchFloor:
    r"""How far above its least SGD on the matrix Γ settles, to first order in the step.

    Γ − γ*I has three parts that neither curvature nor noise mix, as both are the same in all bases:
    its trace, the rest of its symmetric part, its antisymmetric part.

    Attributes:
        loss: η Tr S/(4B), the mean excess of the mean loss; infinite where γ*I is no minimum.
        error: its standard error over drawn contexts; 0 where it is exact.
        gamma: γ*.
        noise: Tr S of each part; S is the covariance of a context's gradient.
        curvature: the second derivative of the mean loss along a unit matrix of each part.
        step: η, by which entries of Γ move.
        contexts: B.
    """

    loss: float
    error: float
    gamma: float
    noise: Float[np.ndarray, " 3"]
    curvature: Float[np.ndarray, " 3"]
    step: float
    contexts: int

    def after(self, steps: Any) -> Float[np.ndarray, "..."]:
        """The mean excess so many steps after a start at γ*I.

        ``Σ (η/4B) Tr S_i (1 − e^(−2ηh_i n))`` over the three parts.
        """
        count = validation.real("steps", steps)
        validation.within("steps", count, 0.0)
        pace = 2.0 * self.step * self.curvature * np.asarray(count)[..., None]
        return np.asarray(self.step / (4.0 * self.contexts) * (-np.expm1(-pace) @ self.noise))


def batch_floor(
    task: Task,
    depth: Any,
    *,
    lr: Any,
    contexts: Any,
    time: Time = "scalar",
    drawn: int | None = None,
    seed: int = 0,
) -> BatchFloor:
    r"""The mean excess loss ``η Tr S/(4B)`` at which SGD with fresh batches settles.

    Near the minimum Γ* of the mean loss, with its Hessian H and gradients of covariance S/B, the
    covariance C of Γ − Γ* obeys ``HC + CH = (η/B) S``; so the mean excess ½ Tr HC is
    ``(η/4B) Tr S``, whatever H is (derived). It is the first order in η: the next is η times a
    curvature. Γ* = γ*I by symmetry, and ``Tr S = E ‖∇𝓛_c(γ*I)‖²``.

    Exact are: contexts without end at full width, where every context has the same ``‖∇𝓛_c‖``; and
    one layer of full width, by Gaussian moments. Elsewhere contexts, tasks and noise are drawn; of
    deep Γ on short contexts rare ones own the mean.

    Args:
        task: the context law, `Isotropic` with a `dim`.
        depth: L.
        lr: of `train_brute`.
        contexts: B, of a step.
        time: what lr is measured in, as of `train_brute`: γ, or the entries of Γ.
        drawn: how many contexts to draw, from which γ* comes as well; None for the exact form where
            there is one, else 4000.
        seed: of the draw.

    Warns:
        UserWarning: where one of the drawn contexts has a tenth of all the noise, or where γ*I is a
            saddle: there is no floor around it then.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> task = RotatedStructure(nu=1.25, beta=0.8, dim=10)
    >>> found = batch_floor(task, 2, lr=1.0, contexts=4)
    >>> round(found.gamma, 4), f"{found.loss:.4e}", f"{found.noise.sum():.4e}"
    (2.6271, '3.3243e-03', '5.3189e-03')
    """
    check_task(task, Isotropic, RotatedStructure)
    validation.needs_double("the noise of gradients")
    validation.concrete("task and lr", task, lr, why="contexts are drawn")
    layers = validation.whole("depth", depth, 1, MAX_DEPTH)
    validation.one_of("time", time, TIMES)
    batch, rate = contexts_of(contexts), float(training.check_rate(lr))
    number = validation.whole("seed", seed)
    if task.dim is None or task.width is None:
        raise ValueError("dim must be given: Isotropic(alpha, dim=…)")
    step, error = rate * (task.width if time == "scalar" else 1), 0.0
    exact = drawn is None and task.queries is None and task.width == task.dim
    if exact and isinstance(task, RotatedStructure) and task.context is None:
        gamma, noise, curvature = _endless(task, layers)
    elif exact and layers == 1:
        gamma, noise, curvature = _single_layer(task)
    else:
        count = _DRAWN if drawn is None else validation.whole("drawn", drawn, 2, MAX_CONTEXTS)
        gamma, noise, error, curvature = _drawn(task, layers, count, number)
    scale = step / (4.0 * batch)
    stable = bool(np.all(curvature[_sizes(task.width) > 0] > 0.0))
    if not stable:
        warnings.warn("γ*I is a saddle of the mean loss, not its minimum", stacklevel=2)
    loss = float(scale * noise.sum()) if stable else math.inf
    return BatchFloor(loss, scale * error, gamma, noise, curvature, step, batch)


def _parts(
    depth: int, m: Any, s: Any, weight: Any, uu: Any, zz: Any, zu: Any, own: Any, mixed: Any, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Each part's ‖∇𝓛_c‖² and curvature, of contexts in the basis of their ``S = Eᵀ Λ̂ E``.

    ``∇𝓛_c = −(2/L) Σ_ℓ M^(L−1−ℓ) z (M^ℓ u)ᵀ`` with ``M = I − γS/L``, u = EᵀXᵀy/P and z = EᵀΣv, v
    the error after L layers (derived).

    Args:
        depth: L.
        m, s: the eigenvalues of M and S.
        weight: how many directions each stands for.
        uu, zz, zu: u², z² and zu along each.
        own: the diagonal of ``G = EᵀΣE``, times the weight.
        mixed: ``G_jk u_j u_k``.
        n: N.
    """
    layer, scale = np.arange(depth), 4.0 / depth**2
    powers = m[..., None] ** layer
    chain = (powers[..., ::-1] @ np.swapaxes(powers, -1, -2)) ** 2  # (Σ_ℓ m_j^(L−1−ℓ) m_k^ℓ)²
    # Σ_{a+b+c=L−2} m_j^(a+c) m_k^b
    left = (depth - 1 - layer) * m[..., None] ** np.maximum(depth - 2 - layer, 0)
    twice, last = left @ np.swapaxes(powers, -1, -2), powers[..., -1]

    def summed(x: Any, y: Any, z: Any) -> Any:
        return scale * np.einsum("...j,...jk,...k->...", x, y, z)

    whole, cross = summed(zz, chain, uu), summed(zu, chain, zu)
    trace = 4.0 * np.sum(zu * last, axis=-1) ** 2 / n
    folded = scale * np.sum(zu * np.einsum("...jj->...j", twice) * s, axis=-1)
    straight = 0.5 * summed(own, chain, uu) + folded  # Σ H_jk,jk, and Σ H_jk,kj
    turned = 0.5 * scale * np.sum(mixed * chain, axis=(-2, -1)) + summed(zu, twice, weight * s)
    top = (2.0 * np.einsum("...j,...jk,...k->...", last, mixed, last) + folded) / n
    return _split(whole, cross, trace), _split(straight, turned, top) / np.maximum(_sizes(n), 1)


def _split(straight: Any, turned: Any, trace: Any) -> np.ndarray:
    """``Σ A_jk,jk`` and ``Σ A_jk,kj`` of a form on matrices, in its three parts."""
    half = 0.5 * (straight + turned) - trace, 0.5 * (straight - turned)
    return np.stack([trace, *half], axis=-1)


def _sizes(n: int) -> np.ndarray:
    """How many dimensions each part has."""
    return np.asarray([1, n * (n + 1) // 2 - 1, n * (n - 1) // 2])


def _endless(task: RotatedStructure, depth: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Contexts without end at full width: in its own basis each context is every other."""
    law, gamma = task.spectrum, float(optimum(task, depth).gamma)
    lam, share, weight = (np.asarray(x) for x in (law.lam, law.share, law.weight))
    m, u = 1.0 - gamma * lam / depth, share * lam  # u²: shares have their multiplicities
    end = m**depth
    rows = u, end**2 * u, end * u, weight * lam, np.diag(lam * u)
    return gamma, *_parts(depth, m, lam, weight, *rows, task.dim)


def _single_layer(task: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """One layer at full width, by Gaussian moments.

    Given its labels ``u = Xᵀy/P`` of a context is Gaussian: of mean Λb Y/s and covariance
    ``(Y/P)(Λ − Λb bᵀΛ/s)``, where ``Y = |y|²/P`` is s χ²_P/P and ``s = bᵀΛb + σ²``; so is
    ``z = Λ(b − γu)`` (derived).
    """
    dim, context, noise = task.dim, task.context, float(task.noise)
    lam, root, norms, chances = np.ones(dim), np.eye(dim)[0], np.ones(1), np.ones(1)
    if isinstance(task, Isotropic):
        norms, chances = _gamma_rule(dim / 2.0, 2.0 / dim)  # of |b|²
    else:
        lam, root = np.asarray(task.lam), np.sqrt(np.asarray(task.omega))
    sizes, weights = _gamma_rule(context / 2.0, 2.0 / context)  # of Y/s

    def mean(gamma: float) -> np.ndarray:
        total = np.zeros(5)
        for norm, chance in zip(norms, chances, strict=True):
            b = math.sqrt(norm) * root
            seen, s = lam * b, np.sum(lam * b**2) + noise**2
            for y, weight in zip(sizes, weights, strict=True):
                spread = s * y / context * (np.diag(lam) - np.outer(seen, seen) / s)
                total += chance * weight * _moments(lam, b, y * seen, spread, gamma)
        return total

    _, _, straight, turned, line = mean(0.0)
    gamma = float(line / turned)
    whole, cross, *_ = 4.0 * mean(gamma)
    curvature = _split(2.0 * straight * lam.sum(), 2.0 * turned, 2.0 * turned / dim)
    return gamma, _split(whole, cross, cross / dim), curvature / np.maximum(_sizes(dim), 1)


def _moments(lam: Any, b: Any, u: Any, spread: Any, gamma: float) -> np.ndarray:
    """``E |z|²|u|²``, ``E (z·u)²``, ``E |u|²``, ``E uᵀΛu``, ``E bᵀΛu`` of a Gaussian u."""
    z, both = lam * (b - gamma * u), -gamma * lam[:, None] * spread  # means, Cov(z, u)
    square, tied = u @ u + np.trace(spread), z @ u + np.trace(both)
    own = z @ z + gamma**2 * np.trace(spread * lam[:, None] ** 2)
    whole = own * square + 2.0 * np.sum(both**2) + 4.0 * z @ both @ u
    cross = tied**2 + z @ spread @ z + gamma**2 * (lam * u) @ spread @ (lam * u)
    cross += 2.0 * u @ both @ z + 2.0 * np.sum(both * both.T)
    seen = np.sum(lam * (u**2 + np.diagonal(spread)))
    return np.asarray([whole, cross, square, seen, b @ (lam * u)])


def _gamma_rule(shape: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rule of the Gamma distribution."""
    k = np.arange(_NODES, dtype=float)
    off = np.sqrt(k[1:] * (k[1:] + shape - 1.0))
    x, v = np.linalg.eigh(np.diag(2.0 * k + shape) + np.diag(off, 1) + np.diag(off, -1))
    return scale * x, v[0] ** 2


class _Contexts:
    """Drawn contexts with a task and noise each, in the basis of their ``S = Eᵀ Λ̂ E``."""

    def __init__(self, task: Any, count: int, generator: np.random.Generator):
        dim, width, context, asked = task.dim, task.width, task.context, task.queries
        normal = generator.standard_normal
        if isinstance(task, Isotropic):
            self.lam, self.b = np.ones(dim), normal((count, dim)) / math.sqrt(dim)
        else:
            self.lam, root = np.asarray(task.lam), np.sqrt(np.asarray(task.omega))
            self.b = root * generator.choice([-1.0, 1.0], (count, dim))
        if context is None:
            moment, u = np.broadcast_to(np.diag(self.lam), (count, dim, dim)), self.lam * self.b
        else:
            x = normal((count, context, dim)) * np.sqrt(self.lam)
            y = np.einsum("cpd,cd->cp", x, self.b) + float(task.noise) * normal((count, context))
            u = np.einsum("cpd,cp->cd", x, y) / context
            moment = np.swapaxes(x, 1, 2) @ x / context
        frame = np.broadcast_to(np.eye(dim), (count, dim, dim))
        if width < dim:  # contexts in their own basis, and the projection turned
            frame = np.linalg.qr(normal((count, dim, width)))[0] * math.sqrt(dim / width)
        back = np.swapaxes(frame, 1, 2)
        self.s, turn = np.linalg.eigh(back @ moment @ frame)
        self.frame = frame @ turn
        self.u = np.einsum("cdi,cd->ci", self.frame, u)
        self.queries = None
        if asked is not None:
            self.queries = normal((count, asked, dim)) * np.sqrt(self.lam)

    def errors(self, gamma: float, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """M's eigenvalues and Σv, with the second moments of the queries for Σ."""
        m = 1.0 - gamma * self.s / depth
        taken = gamma / depth * np.sum(m[:, :, None] ** np.arange(depth), axis=2)
        v = self.b - np.einsum("cdi,ci->cd", self.frame, taken * self.u)
        if self.queries is None:
            return m, self.lam * v
        guess = np.einsum("ckd,cd->ck", self.queries, v)
        return m, np.einsum("ckd,ck->cd", self.queries, guess) / self.queries.shape[1]

    def slope(self, gamma: float, depth: int) -> np.ndarray:
        """``d𝓛_c/dγ`` of each."""
        m, z = self.errors(gamma, depth)
        z = np.einsum("cdi,cd->ci", self.frame, z)
        return -2.0 * np.sum(z * self.u * m ** (depth - 1), axis=1)

    def parts(self, gamma: float, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """`_parts` of each."""
        m, z = self.errors(gamma, depth)
        z, u = np.einsum("cdi,cd->ci", self.frame, z), self.u
        inner = np.swapaxes(self.frame, 1, 2) @ (self.lam[:, None] * self.frame)
        own, mixed = np.einsum("cii->ci", inner), inner * u[:, :, None] * u[:, None, :]
        one = np.ones(u.shape[1])
        return _parts(depth, m, self.s, one, u**2, z**2, z * u, own, mixed, u.shape[1])


def _drawn(
    task: Any, depth: int, count: int, seed: int
) -> tuple[float, np.ndarray, float, np.ndarray]:
    """γ*, noise, its standard error and curvature of drawn contexts."""
    tokens = (task.context or 0) + (task.queries or 0)
    size = task.dim * max(task.dim * 4, tokens)
    refuse_large(task, 8.0 * size, "dim", "context", "queries")
    memory.refuse("drawn", count, 8.0 * count * size)
    generator = np.random.default_rng([seed, 6])
    room = max(1, _ROOM // size)
    some = [_Contexts(task, min(room, count - done), generator) for done in range(0, count, room)]

    def slope(gamma: float) -> float:
        return sum(float(part.slope(gamma, depth).sum()) for part in some)

    far = 2.0 * depth / min(float(part.s.max(axis=1).min()) for part in some)
    gamma = _first_zero(slope, far)

    def seen(gamma: float) -> tuple[np.ndarray, np.ndarray]:
        pairs = [part.parts(gamma, depth) for part in some]
        noise, curvature = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
        return noise, curvature

    noise, curvature = seen(gamma)
    # γ* is of the same contexts: how the noise moves with it, and it with a context.
    near = 1e-4 * gamma
    more, less = seen(gamma + near)[0].sum(), seen(gamma - near)[0].sum()
    bend = slope(gamma + near) - slope(gamma - near)
    fall = np.concatenate([part.slope(gamma, depth) for part in some])
    whole = noise.sum(axis=1)
    error = (whole - (more - less) / bend * fall).std(ddof=1) / math.sqrt(count)
    if whole.max() > _RARE * whole.sum():
        words = f"one of {count} contexts has {whole.max() / whole.sum():.0%} of the noise: rare "
        warnings.warn(words + "contexts own the mean, and more of them are needed", stacklevel=3)
    return gamma, noise.mean(axis=0), float(error), curvature.mean(axis=0)


def _first_zero(slope: Any, far: float) -> float:
    """Where the mean loss has its first minimum."""
    grid = np.linspace(0.0, far, 65)
    low = grid[0]
    for high in grid[1:]:
        if slope(high) >= 0.0:
            return root_between(slope, low, high)
        low = high
    raise ArithmeticError("the mean loss has no minimum in γ")
